"""Many records: those of a collection page by page, and those that go with something: a user, a session, a definition, a store.

Lists first read where records are and how large they are, and then the values that they give: no more is read than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from .lifecycle.erase import bury
from .model.collection import Place
from .records import KIND, MAX_VALUE, Record, decode, to_record
from .space import Space
from .storage.port import Row, listed

PAGE = 1000
"""Addresses that are read at once."""
FEW = 16
"""How many are read first, since whoever asks may want no more."""
MAX_BYTES = 8 * 1024 * 1024
"""Of values in one answer."""
_BEHIND_NAMES = "\U0010ffff"


def page(space: Space, place: Place, between: tuple[str, str], limit: int) -> tuple[list[Record], bool]:
    """The records of a collection between two paths, in the order of these: so many, or what fits into an answer; and whether
    there are more."""
    return _page(space, _sizes(space, "record_sizes", place, between, limit), limit)


def named(space: Space, place: Place, after: str, limit: int) -> list[Record]:
    """The records of a collection that have nothing but a name, behind a name: so many, or what fits into an answer."""
    return named_page(space, place, after, limit)[0]


def named_page(space: Space, place: Place, after: str, limit: int) -> tuple[list[Record], bool]:
    """The same, and whether there are more."""
    found = _sizes(space, "record_sizes", place, (after, _BEHIND_NAMES), limit)
    return _page(space, (row for row in found if "@" not in row[1]), limit)


def tied(space: Space, tie: str, after: int = 0) -> Iterator[tuple[Record, str]]:
    """The records that go with something, behind an address, each with the name of its collection."""
    for ids in _tied(space, tie, after):
        yield from at(space, ids)


def tied_values(space: Space, tie: str) -> Iterator[tuple[int, Any]]:
    """The same with nothing but the address and the value of each, which takes half the time."""
    for ids in _tied(space, tie, 0):
        for address_id, value in sorted(space.tx.rows("values_of", addresses=listed(ids))):
            yield address_id, decode(value)


def tied_page(space: Space, tie: str, after: int, limit: int) -> tuple[list[tuple[Record, str]], bool]:
    """So many of them, or what fits into an answer, and whether there are more."""
    found: list[tuple[Record, str]] = []
    size = 0
    for one in tied(space, tie, after):
        size += len(msgspec.json.encode(one[0].value))
        if found and (len(found) == limit or size > MAX_BYTES):
            return found, True
        found.append(one)
    return found, False


def tied_page_at(
    space: Space, tie: str, place: Place, between: tuple[str, str], limit: int
) -> tuple[list[Record], bool]:
    """A page of the records of a collection that go with something, between two paths."""
    return _page(space, _sizes(space, "tied_sizes_at", place, between, limit, tie=tie), limit)


def at(space: Space, addresses: Sequence[int]) -> list[tuple[Record, str]]:
    """The records at some addresses, in the order of these, each with the name of its collection."""
    rows = {row[0]: row for row in space.tx.rows("records_of", addresses=listed(addresses))} if addresses else {}
    return [(to_record(rows[one]), rows[one][8]) for one in addresses if one in rows]


def addresses_tied(space: Space, tie: str) -> list[Row]:
    """The addresses (id, collection, kind) of what goes with something, whether it lives or not."""
    found: list[Row] = []
    while rows := space.tx.rows("tied_addresses", tie=tie, after=found[-1][0] if found else 0, limit=PAGE):
        found += rows
    return [row for row in found if row[2] is not None]


def addresses_tied_below(space: Space, prefix: str) -> list[Row]:
    """The same of all that goes with anything whose name begins like this."""
    ties = space.tx.rows("ties_between", first=prefix, last=prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return [row for (tie,) in ties for row in addresses_tied(space, tie)]


def delete_tied(space: Space, *ties: str, spared: str | None = None) -> tuple[str | None, int]:
    """Erase what goes with some things. Returns the job that leaves no trace of it, and how many records that were."""
    found = list({row[0]: row for tie in ties for row in addresses_tied(space, tie)}.values())
    if not found:
        return None, 0
    for address_id, collection_id, _ in found:
        space.touch(collection_id, address_id)
    return bury(space.tx, found, space.now, spared=spared), sum(kind == KIND for _, _, kind in found)


def _sizes(space: Space, query: str, place: Place, between: tuple[str, str], limit: int, **asked: str) -> Iterator[Row]:
    """Where records of a collection are (id, path, size), between two paths. The values are not read."""
    after, until = between
    most = max(min(limit, PAGE) + 1, FEW)
    where = {"dialect": place.dialect, "name": place.name, "until": until, "now": space.now, "limit": most}
    while rows := space.tx.rows(query, **where, **asked, after=after):
        yield from (row for row in rows if row[2] is not None)
        if len(rows) < most:
            return
        after = rows[-1][1]


def _page(space: Space, found: Iterable[Row], limit: int) -> tuple[list[Record], bool]:
    """So many records of some (id, path, size), or what fits into an answer; and whether there are more."""
    ids: list[int] = []
    total = 0
    for address_id, _, size in found:
        total += size
        if len(ids) == limit or (ids and total > MAX_BYTES):
            return [record for record, _ in at(space, ids)], True
        ids.append(address_id)
    return [record for record, _ in at(space, ids)], False


def _tied(space: Space, tie: str, after: int) -> Iterator[list[int]]:
    limit = FEW
    while rows := space.tx.rows("tied_sizes", tie=tie, after=after, now=space.now, limit=limit):
        yield from _portions(rows)
        after = rows[-1][0]
        limit = min(4 * limit, PAGE)


def _portions(rows: Iterable[Row]) -> Iterator[list[int]]:
    """The addresses (id, size) where something is, parted so that what is read at once is not large."""
    ids: list[int] = []
    total = 0
    for address_id, size in rows:
        if size is None:
            continue
        if ids and total + size > MAX_VALUE:
            yield ids
            ids, total = [], 0
        ids.append(address_id)
        total += size
    if ids:
        yield ids
