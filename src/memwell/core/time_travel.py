"""Time travel: facts as they were known, or as they were true, at another time.

Search uses the same kinds of entries and the same test, so `as_of` and `valid_at` mean the same there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

from ..clock import to_datetime
from ..errors import NotFound
from ..model.collection import Address, Entry, Place
from ..model.field_readers import moment_limits
from ..model.fields import to_instant
from ..model.filter import Filter, Life
from .owners import OwnerRequest
from .space import Space

PIECE = 1000
"""Versions per query."""

AsOf = Annotated[datetime, moment_limits("Return memory as it was known at this time")]
ValidAt = Annotated[datetime, moment_limits("Return only facts that were true at this time")]


class TimeTravelRequest(OwnerRequest, frozen=True, kw_only=True):
    """A request about another time: `as_of` selects facts known then, `valid_at` facts true then."""

    as_of: AsOf | None = None
    valid_at: ValidAt | None = None


class Moments(NamedTuple):
    """The moments of a request. Without `as_of` it is about current knowledge; without `valid_at` about facts of any time."""

    as_of: int | None = None
    valid_at: int | None = None

    @property
    def is_set(self) -> bool:
        return self != (None, None)


class FactLife(NamedTuple):
    """A version of a fact, with the times when it was known and true. Columns in the order of `lives_after`."""

    docid: int
    known_from: int
    known_to: int | None
    true_from: int
    true_to: int | None
    seq: int
    kind: str
    subject: str | None
    valid_from: int | None
    held: str | None

    @property
    def valid_to(self) -> int | None:
        return self.true_to

    def fits(self, as_of: int | None, valid_at: int | None) -> bool:
        return bool(Life.of(*self[1:5]).fits(as_of, valid_at))


def to_moments(request: TimeTravelRequest) -> Moments:
    return Moments(to_instant(request.as_of, "as_of"), to_instant(request.valid_at, "valid_at"))


def fact_kinds(valid_at: object, *, past: bool = False) -> tuple[str, ...]:
    """The kinds of entries that are facts: those that are true now, and past ones if they are wanted."""
    return ("fact", "past") if past or valid_at is not None else ("fact",)


def list_facts_at(
    space: Space, address: Address, at: Moments, after: int = 0, condition: Filter | None = None
) -> Iterator[FactLife]:
    """Yield the versions after a sequence number that were known and true then, in the order in which they became known."""
    kinds = fact_kinds(at.valid_at)
    while True:
        rows = space.tx.rows("lives_after", condition, address_id=address.id, after=after, now=space.now, limit=PIECE)
        found = [FactLife(*row) for row in rows]
        yield from (one for one in found if one.kind in kinds and one.fits(*at))
        if len(found) < PIECE or (at.as_of is not None and found[-1].known_from > at.as_of):
            return
        after = found[-1].seq


def list_facts_in(
    space: Space, place: Place, at: Moments, start: tuple[str, int] = ("", 0), condition: Filter | None = None
) -> Iterator[tuple[str, FactLife]]:
    """Like `list_facts_at`, for all addresses of a collection, by path, each with its path. `start` is a path and a sequence
    number there."""
    path, after = start
    while True:
        address = space.address(place, path)
        if address is not None:
            yield from ((path, one) for one in list_facts_at(space, address, at, after, condition))
        collection_id = space.find_collection_id(place)
        if collection_id is None:
            return
        rows = space.tx.rows(
            "lives_after_path", condition, collection_id=collection_id, path=path, now=space.now, limit=PIECE
        )
        # The last address of a whole piece may have more: the next round reads it from its beginning.
        path, after = (rows[-1][-1] if len(rows) == PIECE else ""), 0
        found = [(row[-1], FactLife(*row[:-1])) for row in rows if row[-1] != path or not path]
        kinds = fact_kinds(at.valid_at)
        yield from (one for one in found if one[1].kind in kinds and one[1].fits(*at))
        if not path:
            return


def require_version_at(space: Space, place: Place, fact_id: str, at: Moments) -> FactLife:
    """The version of a fact that was known and true then."""
    versions = [FactLife(*row) for row in space.rows("lives_of_entry", place, id=fact_id)]
    known = [one for one in versions if (one.known_to is None if at.as_of is None else one.fits(at.as_of, None))]
    if not known:
        raise NotFound(_unknown(place, versions, at.as_of))
    if not known[-1].fits(*at):
        raise NotFound("This memory was not true at that time, as far as is known.")
    return known[-1]


def list_entries_at(space: Space, found: Sequence[FactLife]) -> list[tuple[Entry, str]]:
    """The entries of some versions, in the same order, with their paths."""
    listed = "[" + ",".join(str(one.docid) for one in found) + "]"
    rows = space.tx.rows("hits", docids=listed, now=space.now, history=1) if found else []
    entries = {row[17]: (Entry(*row[:15]), row[15]) for row in rows}
    return [entries[one.docid] for one in found]


def _unknown(place: Place, versions: Sequence[FactLife], as_of: int | None) -> str:
    if not versions or as_of is None:
        return f"There is no such memory in this {place.dialect}."
    first = versions[0].known_from
    if as_of < first:
        return f"This memory was not known at that time: it was first written on {_day(first)}."
    ended = [one.known_to for one in versions if one.known_to is not None and one.known_to <= as_of]
    return f"This memory was not known any more at that time: it was withdrawn on {_day(max(ended, default=first))}."


def _day(moment: int) -> str:
    return f"{to_datetime(moment):%Y-%m-%d at %H:%M:%S} UTC"
