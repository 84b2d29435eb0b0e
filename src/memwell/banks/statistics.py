"""What is in a bank: how many entries and tokens, how old, under which keys, by whom and with which tags."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from ..clock import DAY, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..core.turns import instant, to_metadata
from ..errors import Invalid
from ..model.collection import Entry
from .banks import SUMMARY, BankId, OfBank, find_bank, place
from .items import walk

TOP = 10
_NEVER = 2**62
_GIVEN = (
    ("banks.create", {"name": "notes", "type": "general"}),
    (
        "banks.add",
        {"bank": "$0.id", "key": "alice", "content": "prefers aisle seats", "metadata": {"tags": ["travel"]}},
    ),
)


class Spread(Response, frozen=True, kw_only=True):
    """How numbers are spread: on average, the one that 95 of 100 do not pass (by nearest rank), at least and at most."""

    avg: float = 0.0
    p95: float = 0.0
    min: float = 0.0
    max: float = 0.0


class Counted(Response, frozen=True, kw_only=True):
    """Something, and how often it is there."""

    value: str
    entries: int


class BankStats(Response, frozen=True, kw_only=True):
    """What was written to a bank within a time and is shown. `compacted`: how many entries of that time are behind summaries,
    those not counted that are summaries themselves."""

    memory_bank_id: str
    entries: int
    summaries: int
    compacted: int
    keys: int
    tokens: int
    tokens_per_entry: Spread
    age_days: Spread
    entries_per_key: Spread
    top_keys: list[Counted]
    speakers: list[Counted]
    tags: list[Counted]
    first_at: datetime | None = None
    last_at: datetime | None = None


class StatsOfBank(Request, frozen=True, kw_only=True):
    """Which bank, and entries of which time: the days up to now or to `end_date`, or between two dates."""

    bank: BankId
    days: Annotated[int, Meta(ge=1, le=730, description="Of how many days up to the end, from 1 to 730.")] = 30
    start_date: Annotated[datetime, Meta(description="From when on (RFC 3339), instead of `days`.")] | None = None
    end_date: Annotated[datetime, Meta(description="Until before when (RFC 3339), instead of now.")] | None = None


@operation("banks.stats", "GET /v1/memory_banks/{bank}/stats", example=Example({"bank": "$0.id"}, _GIVEN))
def stats(space: Space, request: StatsOfBank) -> BankStats:
    """Statistics of a bank's entries."""
    find_bank(space, request.bank)
    since, until = _window(request, space.now)
    found = [
        (one.key, one.entry) for one in walk(space, request.bank, None, None) if since <= one.entry.recorded_at < until
    ]
    ((compacted,),) = space.rows("bank_folded", place(request.bank), since=since, until=until)
    return _counted(request.bank, found, compacted, space.now)


def _window(request: StatsOfBank, now: int) -> tuple[int, int]:
    """From when on, and until when: without a start, so many days before the end."""
    start, end = instant(request.start_date, "start_date"), instant(request.end_date, "end_date")
    since = (now if end is None else end) - request.days * DAY if start is None else start
    until = _NEVER if end is None else end
    if until <= since:
        raise Invalid("`end_date` is not after `start_date`.", field="end_date")
    return since, until


@operation("banks.keys", "GET /v1/memory_banks/{bank}/keys", example=Example({"bank": "$0.id"}, _GIVEN))
def keys(space: Space, request: OfBank) -> list[Counted]:
    """The keys of a bank, and how many entries each has."""
    find_bank(space, request.bank)
    rows = space.rows("bank_keys", place(request.bank))
    return [Counted(value=path, entries=entries) for path, entries in rows if entries]


def _counted(bank_id: str, found: Sequence[tuple[str, Entry]], compacted: int, now: int) -> BankStats:
    from ..text.tokens import estimate  # here, since its patterns take a while to compile

    turns = [entry for _, entry in found if entry.kind != SUMMARY]
    by_key = Counter(key for key, _ in found)
    tokens = [estimate(entry.content) for _, entry in found]
    times = sorted(entry.recorded_at for _, entry in found)
    return BankStats(
        memory_bank_id=bank_id,
        entries=len(found),
        summaries=len(found) - len(turns),
        compacted=compacted,
        keys=len(by_key),
        tokens=sum(tokens),
        tokens_per_entry=_spread(tokens),
        age_days=_spread([(now - moment) / DAY for moment in times]),
        entries_per_key=_spread(list(by_key.values())),
        top_keys=_most(by_key),
        speakers=_most(Counter(entry.role for entry in turns if entry.role)),
        tags=_most(Counter(tag for entry in turns for tag in _tags(entry))),
        first_at=to_datetime(times[0]) if times else None,
        last_at=to_datetime(times[-1]) if times else None,
    )


def _spread(numbers: Sequence[float]) -> Spread:
    if not numbers:
        return Spread()
    ordered = sorted(numbers)
    last = ordered[math.ceil(len(ordered) * 95 / 100) - 1]
    return Spread(
        avg=round(sum(ordered) / len(ordered), 2),
        p95=round(last, 2),
        min=round(ordered[0], 2),
        max=round(ordered[-1], 2),
    )


def _most(counted: Counter[str]) -> list[Counted]:
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    return [Counted(value=value, entries=entries) for value, entries in ordered[:TOP]]


def _tags(entry: Entry) -> list[str]:
    """The tags of an entry: `tags` or `tag` in its metadata, one or several."""
    metadata = to_metadata(entry.metadata) or {}
    given = metadata.get("tags", metadata.get("tag"))
    return [tag for tag in (given if isinstance(given, list) else [given]) if isinstance(tag, str)]
