"""Statistics of a bank: numbers of entries and tokens, ages, keys, speakers and tags."""

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
from ..errors import Invalid
from ..model.collection import Entry
from ..model.field_readers import moment_limits
from ..model.fields import to_instant, to_metadata
from .banks import SUMMARY, BankId, OfBank, bank_place, require_bank
from .entries import walk_entries

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
    """The distribution of numbers: average, 95th percentile (by nearest rank), minimum and maximum."""

    avg: float = 0.0
    p95: float = 0.0
    min: float = 0.0
    max: float = 0.0


class Counted(Response, frozen=True, kw_only=True):
    """A value and the number of its entries."""

    value: str
    entries: int


class BankStats(Response, frozen=True, kw_only=True):
    """Statistics of the visible entries of a period. `compacted` is the number of entries of that period, summaries excluded,
    that summaries have replaced."""

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
    """A bank and a period: the days up to now or to `end_date`, or between two dates."""

    bank: BankId
    days: Annotated[
        int, Meta(ge=1, le=730, description="The number of days up to the end of the period, from 1 to 730.")
    ] = 30
    start_date: Annotated[datetime, moment_limits("The start of the period, instead of `days`")] | None = None
    end_date: Annotated[datetime, moment_limits("The end of the period, exclusive, instead of now")] | None = None


@operation("banks.stats", "GET /v1/memory_banks/{bank}/stats", example=Example({"bank": "$0.id"}, _GIVEN))
def get_statistics(space: Space, request: StatsOfBank) -> BankStats:
    """Return statistics of a bank's entries."""
    require_bank(space, request.bank)
    start, end = to_instant(request.start_date, "start_date"), to_instant(request.end_date, "end_date")
    since = (space.now if end is None else end) - request.days * DAY if start is None else start
    until = _NEVER if end is None else end
    if until <= since:
        raise Invalid("`end_date` is not after `start_date`.", field="end_date")
    entries = [
        (one.key, one.entry)
        for one in walk_entries(space, request.bank, None, None)
        if since <= one.entry.recorded_at < until
    ]
    ((compacted,),) = space.rows("bank_folded", bank_place(request.bank), since=since, until=until)
    return _build_statistics(request.bank, entries, compacted, space.now)


@operation("banks.keys", "GET /v1/memory_banks/{bank}/keys", example=Example({"bank": "$0.id"}, _GIVEN))
def list_keys(space: Space, request: OfBank) -> list[Counted]:
    """List the keys of a bank with their numbers of entries."""
    require_bank(space, request.bank)
    rows = space.rows("bank_keys", bank_place(request.bank))
    return [Counted(value=path, entries=entries) for path, entries in rows if entries]


def _build_statistics(bank_id: str, entries: Sequence[tuple[str, Entry]], compacted: int, now: int) -> BankStats:
    from ..text.tokens import estimate_tokens  # imported here because its patterns take a while to compile

    turns = [entry for _, entry in entries if entry.kind != SUMMARY]
    by_key = Counter(key for key, _ in entries)
    tokens = [estimate_tokens(entry.content) for _, entry in entries]
    times = sorted(entry.recorded_at for _, entry in entries)
    return BankStats(
        memory_bank_id=bank_id,
        entries=len(entries),
        summaries=len(entries) - len(turns),
        compacted=compacted,
        keys=len(by_key),
        tokens=sum(tokens),
        tokens_per_entry=_spread(tokens),
        age_days=_spread([(now - moment) / DAY for moment in times]),
        entries_per_key=_spread(list(by_key.values())),
        top_keys=_top(by_key),
        speakers=_top(Counter(entry.role for entry in turns if entry.role)),
        tags=_top(Counter(tag for entry in turns for tag in _tags(entry))),
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


def _top(counts: Counter[str]) -> list[Counted]:
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [Counted(value=value, entries=count) for value, count in ordered[:TOP]]


def _tags(entry: Entry) -> list[str]:
    """Return the tags of an entry: `tags` or `tag` in its metadata, one or several."""
    metadata = to_metadata(entry.metadata) or {}
    tags = metadata.get("tags", metadata.get("tag"))
    return [tag for tag in (tags if isinstance(tags, list) else [tags]) if isinstance(tag, str)]
