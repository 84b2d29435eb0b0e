"""How many tokens a tenant may spend on models: decisions only, whoever keeps the ledger asks them.

What a call may cost at most is set aside before it is made and settled when it is over, so that calls which run at the same
time cannot spend the same tokens.
"""

from __future__ import annotations

from typing import NamedTuple

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


def left(used: int, budget: int | None) -> int | None:
    """How many tokens are left; None: there is no limit."""
    return None if budget is None else max(0, budget - used)


def may_spend(used: int, budget: int | None, wanted: int) -> bool:
    """Whether a call may be made that costs at most `wanted`, after `used` were spent or set aside."""
    return budget is None or used + wanted <= budget


def set_aside(estimated_in: int, max_tokens: int) -> int:
    """What a call may cost at most: what it is asked, as far as that can be told, and the longest answer."""
    return estimated_in + max_tokens


def charged(reason: str, estimated_in: int, max_tokens: int, counted: tuple[int, int] | None = None) -> Spent:
    """What a call that failed is counted as: as its server counted, nothing if it was turned away, and else the most that it
    may have cost. Whoever hangs up on a model pays for what it goes on writing."""
    if counted is not None:
        return Spent(*counted)
    return Spent(0, 0) if reason in UNPAID else Spent(estimated_in, max_tokens)
