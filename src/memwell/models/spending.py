"""How many tokens a tenant may spend on models: decisions only, whoever keeps the ledger asks them.

What a call may cost at most is set aside before it is made and settled when it is over, so that calls which run at the same
time cannot spend the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..clock import DAY, Clock
from ..errors import ModelFailed
from ..storage.port import TenantStore, Tx
from .completer import Completer, Completion, Message, estimate_tokens, get_reason

if TYPE_CHECKING:
    from .completer import LLMConfig

UNPAID = frozenset(
    {
        "rate_limited",
        "server_error",
        "unauthorised",
        "bad_request",
        "not_found",
        "unreachable",
        "not_installed",
        "budget",
    }
)
"""Why a call fails without the model having worked. After any other failure it may have, even if nothing arrived."""


class Spent(NamedTuple):
    """What a call is counted as."""

    tokens_in: int
    tokens_out: int

    @property
    def total(self) -> int:
        return self.tokens_in + self.tokens_out


def count_left(used: int, budget: int | None) -> int | None:
    """How many tokens are left; None: there is no limit."""
    return None if budget is None else max(0, budget - used)


def may_spend(used: int, budget: int | None, wanted: int) -> bool:
    """Whether a call may be made that costs at most `wanted`, after `used` were spent or set aside."""
    return budget is None or used + wanted <= budget


def estimate_cost(estimated_in: int, max_tokens: int) -> int:
    """What a call may cost at most: what it is asked, as far as that can be told, and the longest answer."""
    return estimated_in + max_tokens


def charge_failure(reason: str, estimated_in: int, max_tokens: int, counted: tuple[int, int] | None = None) -> Spent:
    """What a call that failed is counted as: as its server counted, nothing if it was turned away, and else the most that it
    may have cost. Whoever hangs up on a model pays for what it goes on writing."""
    if counted is not None:
        return Spent(*counted)
    return Spent(0, 0) if reason in UNPAID else Spent(estimated_in, max_tokens)


# -- What language models cost a tenant, day by day.
#
# What a call may cost at most is set aside before it is made, so that calls which run at the same time cannot spend the same
# tokens; what was not needed is given back. A worker that dies in between has spent it.


NO_BUDGET = "The tokens that may be spent today are used up (budget)."


class Ledger:
    """A tenant's spending, and how much of it is allowed in a day."""

    def __init__(self, reach: TenantStore, clock: Clock, tokens_per_day: int | None) -> None:
        self._reach, self._per_day = reach, tokens_per_day
        self._day = clock.now() // DAY

    def set_aside(self, most: int) -> int:
        """Set aside what a call may cost at most, or what is left of it; returns how much."""
        return self._reach.write(lambda tx: self._take(tx, most))

    def settle(self, aside: int, tokens_in: int, tokens_out: int, calls: int) -> None:
        """Write down what was spent in place of what was set aside."""
        self._reach.write(lambda tx: self._add(tx, tokens_in - aside, tokens_out, calls))

    def pay(self, asked: int, max_tokens: int, work: Callable[[], Completion]) -> Completion:
        """Make one call within the budget, and write down what it cost, also if it failed."""
        aside = self.set_aside(asked + max_tokens)
        if aside < asked + max_tokens:
            self.settle(aside, 0, 0, 0)
            raise ModelFailed(NO_BUDGET, reason="budget")
        spent = Spent(asked, max_tokens)
        try:
            done = work()
            spent = Spent(done.tokens_in, done.tokens_out)
        except ModelFailed as error:
            counted = error.details.get("tokens_in"), error.details.get("tokens_out")
            known = counted if isinstance(counted[0], int) and isinstance(counted[1], int) else None
            spent = charge_failure(get_reason(error), asked, max_tokens, known)  # type: ignore[arg-type]
            raise
        finally:
            self.settle(aside, *spent, 1)
        return done

    def _take(self, tx: Tx, most: int) -> int:
        row = tx.row("spent_since", day=self._day)
        room = count_left(row[1] + row[2] if row else 0, self._per_day)
        aside = most if room is None else min(most, room)
        self._add(tx, aside, 0, 0)
        return aside

    def _add(self, tx: Tx, tokens_in: int, tokens_out: int, calls: int) -> None:
        tx.send("add_spending", day=self._day, calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)


def complete_within_budget(
    completer: Completer, wanted: LLMConfig, ledger: Ledger, messages: Sequence[Message], max_tokens: int
) -> Completion:
    """One call within the budget; whatever it cost is written down."""
    limits: dict[str, Any] = {"max_tokens": max_tokens, "timeout_s": wanted.timeout_s}
    asked = sum(estimate_tokens(message.content) for message in messages)
    return ledger.pay(asked, max_tokens, lambda: completer.complete(messages, schema=None, **limits))
