"""The tokens that a tenant spends on language models, day by day.

What a call may cost at most is set aside before it is made, so that calls which run at the same time cannot spend the same
tokens; what was not needed is given back. A worker that dies in between has spent it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..clock import DAY, Clock
from ..errors import ModelFailed
from ..storage.port import TenantStore, Tx
from .completer import Completer, Completion, LLMConfig, Message, estimate_tokens, get_reason

UNPAID = frozenset(
    [
        "rate_limited",
        "server_error",
        "unauthorised",
        "bad_request",
        "not_found",
        "unreachable",
        "not_installed",
        "budget",
    ]
)
"""Reasons why a call fails before the model works. After any other failure it may have worked, even if nothing arrived."""
NO_BUDGET = "The tokens that may be spent today are used up (budget)."


class Spent(NamedTuple):
    """The tokens that a call is counted as."""

    tokens_in: int
    tokens_out: int


def charge_failure(error: ModelFailed, estimated_in: int, max_tokens: int) -> Spent:
    """The cost of a call that failed: as its server counted, nothing if it was turned away, and else the most that it may have
    cost, because a model goes on writing when its caller hangs up."""
    match error.details.get("tokens_in"), error.details.get("tokens_out"):
        case int(tokens_in), int(tokens_out):
            return Spent(tokens_in, tokens_out)
    return Spent(0, 0) if get_reason(error) in UNPAID else Spent(estimated_in, max_tokens)


class Ledger:
    """A tenant's spending, within its budget of a day."""

    def __init__(self, reach: TenantStore, clock: Clock, tokens_per_day: int | None) -> None:
        self._reach, self._per_day = reach, tokens_per_day
        self._day = clock.now() // DAY

    def set_aside(self, most: int) -> int:
        """Set aside the highest cost of a call, or what is left of the budget; return how much."""

        def take(tx: Tx) -> int:
            row = tx.row("spent_since", day=self._day)
            used = row[1] + row[2] if row else 0
            aside = most if self._per_day is None else min(most, max(0, self._per_day - used))
            self._add(tx, aside, 0, 0)
            return aside

        return self._reach.write(take)

    def settle(self, aside: int, tokens_in: int, tokens_out: int, calls: int) -> None:
        """Record what was spent in place of what was set aside."""
        self._reach.write(lambda tx: self._add(tx, tokens_in - aside, tokens_out, calls))

    def pay(self, asked: int, max_tokens: int, work: Callable[[], Completion]) -> Completion:
        """Make one call within the budget, and record its cost, also if it fails."""
        aside = self.set_aside(asked + max_tokens)
        if aside < asked + max_tokens:
            self.settle(aside, 0, 0, 0)
            raise ModelFailed(NO_BUDGET, reason="budget")
        spent = Spent(asked, max_tokens)
        try:
            done = work()
            spent = Spent(done.tokens_in, done.tokens_out)
        except ModelFailed as error:
            spent = charge_failure(error, asked, max_tokens)
            raise
        finally:
            self.settle(aside, *spent, 1)
        return done

    def _add(self, tx: Tx, tokens_in: int, tokens_out: int, calls: int) -> None:
        tx.send("add_spending", day=self._day, calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)


def complete_within_budget(
    completer: Completer, wanted: LLMConfig, ledger: Ledger, messages: Sequence[Message], max_tokens: int
) -> Completion:
    """Make one call within the budget."""
    asked = sum(estimate_tokens(message.content) for message in messages)

    def call() -> Completion:
        return completer.complete(messages, schema=None, max_tokens=max_tokens, timeout_s=wanted.timeout_s)

    return ledger.pay(asked, max_tokens, call)
