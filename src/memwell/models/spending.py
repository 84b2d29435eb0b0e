"""The tokens that a tenant spends on language models, per day.

The highest possible cost of a call is set aside before the call, so that concurrent calls cannot spend the same tokens.
Afterwards the unused rest is returned. If the worker dies in between, all of it counts as spent.
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
"""Reasons of calls that fail before the model works. After any other failure it may have worked, even without an answer."""
NO_BUDGET = "The budget of tokens for today is used up (budget)."


class Spent(NamedTuple):
    """The tokens that a call is charged."""

    tokens_in: int
    tokens_out: int


def charge_failure(error: ModelFailed, estimated_in: int, max_tokens: int) -> Spent:
    """Return the cost of a failed call: the server's counts, nothing if the server rejected it, and otherwise the highest
    possible cost, because a model goes on writing after its caller disconnects."""
    match error.details.get("tokens_in"), error.details.get("tokens_out"):
        case int(tokens_in), int(tokens_out):
            return Spent(tokens_in, tokens_out)
    return Spent(0, 0) if get_reason(error) in UNPAID else Spent(estimated_in, max_tokens)


class Ledger:
    """A tenant's spending, within its daily budget."""

    def __init__(self, reach: TenantStore, clock: Clock, tokens_per_day: int | None) -> None:
        self._reach, self._per_day = reach, tokens_per_day
        self._day = clock.now() // DAY

    def set_aside(self, most: int) -> int:
        """Set aside the highest cost of a call, or the rest of the budget. Return the amount."""

        def take(tx: Tx) -> int:
            row = tx.row("spent_since", day=self._day)
            used = row[1] + row[2] if row else 0
            aside = most if self._per_day is None else min(most, max(0, self._per_day - used))
            self._add(tx, aside, 0, 0)
            return aside

        return self._reach.write(take)

    def settle(self, aside: int, tokens_in: int, tokens_out: int, calls: int) -> None:
        """Replace the amount that was set aside by the tokens that were spent."""
        self._reach.write(lambda tx: self._add(tx, tokens_in - aside, tokens_out, calls))

    def pay(self, estimated_in: int, max_tokens: int, work: Callable[[], Completion]) -> Completion:
        """Make one call within the budget, and record its cost, also if it fails."""
        aside = self.set_aside(estimated_in + max_tokens)
        if aside < estimated_in + max_tokens:
            self.settle(aside, 0, 0, 0)
            raise ModelFailed(NO_BUDGET, reason="budget")
        spent = Spent(estimated_in, max_tokens)
        try:
            completion = work()
            spent = Spent(completion.tokens_in, completion.tokens_out)
        except ModelFailed as error:
            spent = charge_failure(error, estimated_in, max_tokens)
            raise
        finally:
            self.settle(aside, *spent, 1)
        return completion

    def _add(self, tx: Tx, tokens_in: int, tokens_out: int, calls: int) -> None:
        tx.send("add_spending", day=self._day, calls=calls, tokens_in=tokens_in, tokens_out=tokens_out)


def complete_within_budget(
    completer: Completer, wanted: LLMConfig, ledger: Ledger, messages: Sequence[Message], max_tokens: int
) -> Completion:
    """Make one call within the budget."""
    estimated_in = sum(estimate_tokens(message.content) for message in messages)

    def call() -> Completion:
        return completer.complete(messages, schema=None, max_tokens=max_tokens, timeout_s=wanted.timeout_s)

    return ledger.pay(estimated_in, max_tokens, call)
