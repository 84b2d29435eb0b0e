"""Parts for tests, yours and ours: a clock that stands still, and two tenants that must not see each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from .clock import SECOND, to_micros
from .sdk._sync import Memory

START = datetime(2026, 4, 19, 10, 0, tzinfo=UTC)


class FrozenClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: datetime = START) -> None:
        self._now = to_micros(start)

    def now(self) -> int:
        return self._now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move on, or with negative numbers back."""
        total = seconds + 60 * (minutes + 60 * (hours + 24 * days))
        self._now += round(total * SECOND)


@contextmanager
def two_tenants(home: str | Path) -> Iterator[tuple[Memory, Memory]]:
    """Two memories in one directory that share nothing but the disk."""
    with Memory(home, tenant="alpha", worker=False) as alpha, Memory(home, tenant="beta", worker=False) as beta:
        yield alpha, beta
