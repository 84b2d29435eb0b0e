"""Time. Instants are whole microseconds since 1970 inside, aware UTC datetimes outside."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_EXACT_AS_FLOAT = (
    4_000_000_000 * SECOND
)  # until 2096, seconds as a float are exact to the microsecond, and twice as fast


class Clock(Protocol):
    """The source of time of an engine: the system clock, or a frozen one in tests."""

    def now(self) -> int: ...


class SystemClock:
    """The wall clock."""

    def now(self) -> int:
        return time.time_ns() // 1000


def to_datetime(at: int) -> datetime:
    if 0 <= at < _EXACT_AS_FLOAT:
        return datetime.fromtimestamp(at / 1e6, UTC)
    return _EPOCH + timedelta(microseconds=at)


def optional_datetime(at: int | None) -> datetime | None:
    return None if at is None else to_datetime(at)


def to_micros(moment: datetime) -> int:
    """Convert to whole microseconds. A datetime without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _TICK
