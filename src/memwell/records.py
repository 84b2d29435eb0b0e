"""Records: what is set. One JSON value at an address, with a version, a lifetime and a history, in one tenant's transaction.

A value is replaced or merged into, and what comes of it is checked before it is kept. History holds what was given each time,
and a whole value now and then, so that many small changes of a large value take little room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from .errors import Invalid, TooLarge
from .ids import inner_id
from .lifecycle import jobs
from .lifecycle.erase import bury
from .lifecycle.retention import AT_LEAST_EVERY
from .model.check import plain
from .model.collection import Place
from .model.etag import etag, match
from .model.value import merged, without
from .space import Space
from .storage.port import listed

Mode = Literal["merge", "replace"]
Check = Callable[[Any], None]
"""Raises what is wrong with a value."""

MAX_VALUE = 1024 * 1024
MAX_DEPTH = 64
MAX_NAME = 1024
"""Characters of the name of a field: it is told wherever something is wrong below it."""
WHOLE_EVERY = 64
"""After how many changes the whole value is kept."""
SMALL = 8
"""How many times smaller than a large value a change of it is at least, if it is kept alone."""
LARGE = 64 * 1024
KEPT = 1024
"""How many versions of a record are kept at least; twice as many are never."""
KIND = "record"
decode = msgspec.json.Decoder().decode


class Record(msgspec.Struct, frozen=True):
    """A record as it stands."""

    address_id: int
    collection_id: int
    path: str
    version: int
    value: Any
    created_at: int
    updated_at: int
    expires_at: int | None

    @property
    def etag(self) -> str:
        return etag(self.address_id, self.version)


class Change(NamedTuple):
    """What was written to a record at some time. Columns in the order of `record_versions`."""

    version: int
    mode: str
    data: str
    actor: str
    written_at: int
    expires_at: int | None


class Write(NamedTuple):
    """What to write, and how."""

    data: Any
    mode: Mode = "merge"
    lifetime_us: int | None = None
    """How long it lives from now on; None: for good. Reading does not renew it (C15)."""
    if_match: str | None = None
    """The version that it is to change, or one of several; `*`: any, but there must be one; `none`: there must not be one."""
    ties: tuple[str, ...] = ()
    """What it goes with: it is deleted with what it is held to, with whom it is about, with its session or run."""
    tied_anew: bool = False
    """Whether it goes with these from now on, and with nothing else."""
    history: bool = True
    """Whether what it was before is kept."""
    lasting: int | None = None
    """It lives as long as it was to live before, or as it may at most, if it was written since then ..."""
    former: tuple[int, ...] | None = None
    """... or for another time than one of these, if they are known."""
    unset: tuple[str, ...] = ()
    """The fields that are to be gone, by their paths."""


def read(space: Space, place: Place, path: str) -> Record | None:
    """A record, while it lives."""
    row = space.tx.row("find_record", dialect=place.dialect, name=place.name, path=path, now=space.now)
    return None if row is None else to_record(row)


def read_held(space: Space, place: Place, path: str) -> tuple[Record, str | None, str | None] | None:
    """A record, and the id and the body of the definition that has its path as its slug."""
    row = space.tx.row("find_held_record", dialect=place.dialect, name=place.name, path=path, now=space.now)
    if row is None:
        return None
    found = Record(row[0], row[1], row[2], row[3], decode(row[4]), row[5], row[6], row[7])
    return found, row[8], row[9]


def write(space: Space, place: Place, path: str, new: Write, check: Check = lambda value: None) -> Record:
    """Replace a value or merge into it. If what comes of it does not pass the check, nothing has changed (C3)."""
    old = read(space, place, path) if new.mode == "merge" else _head(space, place, path)
    match(_tag(old), new.if_match)
    given = _given(new.data)
    base = None if old is None else old.value
    value = without(merged(base, decode(given)), new.unset)
    check(value)
    return _kept(space, place, path, old, new, given, value)


def delete(
    space: Space, place: Place, path: str, if_match: str | None = None, *, spared: str | None = None
) -> str | None:
    """Erase a record with its history; None if there is none, otherwise the job that leaves no trace of it. `spared`: the run
    that deletes it, which keeps what it knows."""
    old = _head(space, place, path)
    match(_tag(old), if_match)
    if old is None:
        return None
    space.touch(old.collection_id, old.address_id)
    return bury(space.tx, [(old.address_id, old.collection_id, KIND)], space.now, spared=spared)


def anchor(space: Space, place: Place) -> int:
    """The number of an address without a value, which goes when everything at its collection does."""
    collection_id, _ = space.collection(place)
    row = space.tx.row("anchor_record", id=inner_id(), collection_id=collection_id, now=space.now)
    assert row is not None  # noqa: S101 -- an upsert always returns its row
    return int(row[0])


def history(space: Space, record: Record, before: int, limit: int, room: int) -> tuple[list[Change], bool]:
    """What was written to a record, the newest first: so much, or what there is room for; and whether there is more. What is not
    given is not read."""
    asked = {"address_id": record.address_id, "before": before}
    sizes = [row[0] for row in space.tx.rows("record_version_sizes", **asked, limit=limit + 1)]
    count = fitting(sizes[:limit], room)
    return [Change(*row) for row in space.tx.rows("record_versions", **asked, limit=count)], count < len(sizes)


def fitting(sizes: Sequence[int], room: int) -> int:
    """How many of some things have room, one after the other: one, if there is any."""
    return sum(total <= room or number == 0 for number, total in enumerate(accumulate(sizes)))


def value_at(space: Space, record: Record, version: int) -> Any:
    """What a record was after a change; None if that is not known any more."""
    rows = space.tx.rows("record_changes", address_id=record.address_id, version=version)
    if not rows or rows[-1][0] != version:
        return None
    value: Any = None
    for _, mode, data in rows:
        given = msgspec.json.decode(data)
        value = given if mode == "replace" else merged(value, given)
    return value


def values_of(space: Space, record: Record, changes: Sequence[Change]) -> dict[int, Any]:
    """What a record was after each of some changes that follow one another, the newest first."""
    found: dict[int, Any] = {}
    value = value_at(space, record, changes[-1].version) if changes else None
    for change in reversed(changes):
        if found:
            given = decode(change.data)
            value = given if change.mode == "replace" else merged(value, given)
        found[change.version] = value
    return found


def as_of(space: Space, record: Record, moment: int) -> Any:
    """What a record was at a moment; None if it was not there, or had expired."""
    found = version_at(space, record, moment)
    return None if found is None else found.value


def version_at(space: Space, record: Record, moment: int) -> Record | None:
    """A record as it was at a moment, if it was there."""
    row = space.tx.row("record_version_at", address_id=record.address_id, moment=moment)
    if row is None or (row[1] is not None and row[1] <= moment):
        return None
    value = value_at(space, record, row[0])
    return None if value is None else replace(record, version=row[0], value=value, updated_at=row[2], expires_at=row[1])


def to_record(row: tuple[Any, ...]) -> Record:
    """A row that begins with the columns of a record."""
    return Record(row[0], row[1], row[2], row[3], decode(row[4]), row[5], row[6], row[7])


def _head(space: Space, place: Place, path: str) -> Record | None:
    """A record without its value, which may be large."""
    row = space.tx.row("find_record_head", dialect=place.dialect, name=place.name, path=path, now=space.now)
    return None if row is None else to_record(row)


def _tag(old: Record | None) -> str | None:
    return None if old is None else old.etag


def _kept(space: Space, place: Place, path: str, old: Record | None, new: Write, given: str, value: Any) -> Record:
    encoded = _encoded(value)
    collection_id = space.collection(place)[0] if old is None else old.collection_id
    expires_at = _expires_at(space.now, old, new)
    placed = {"collection_id": collection_id, "path": path}
    address_id, version = _placed(space, placed, expires_at)
    if (
        old is None and version > 1
    ):  # what was there has expired: it goes with all that speaks of it, and this is another
        bury(space.tx, [(address_id, collection_id, KIND)], space.now, spared=space.run)
        address_id, version = _placed(space, placed, expires_at)
    created_at = space.now if old is None else old.created_at
    kept = {"address_id": address_id, "version": version, "now": space.now, "expires_at": expires_at}
    space.tx.send("put_value", **kept, value=encoded, created_at=created_at)
    _tie(space, address_id, new)
    whole = _is_whole(old, new, version, len(given), len(encoded))
    data, mode = (encoded, "replace") if whole else (given, "merge")
    space.tx.send("add_record_version", **kept, mode=mode, data=data, actor=space.principal.actor)
    if not new.history:
        space.tx.send("delete_record_versions_below", address_id=address_id, version=version)
    elif whole and version % KEPT == 0:
        space.tx.send("delete_record_versions_below", address_id=address_id, version=version - KEPT)
    if expires_at is not None:
        space.answer_until(expires_at)
        if old is not None and (old.expires_at is None or expires_at < old.expires_at):
            # what was answered before may not outlive it
            space.tx.send("erase_idempotency", addresses=listed([address_id]))
    space.touch(collection_id, address_id)
    if expires_at is not None and expires_at <= space.now + AT_LEAST_EVERY:
        jobs.ensure_slot(space.tx, "expire", expires_at, space.now)
    return Record(address_id, collection_id, path, version, value, created_at, space.now, expires_at)


def _is_whole(old: Record | None, new: Write, version: int, given: int, kept: int) -> bool:
    """Whether history keeps the whole value: now and then, and of a large one where what was given is not much less, since many
    large changes take long to be put together."""
    if old is None or new.mode == "replace" or new.unset or not new.history:
        return True
    return version % WHOLE_EVERY == 0 or (kept > LARGE and given * SMALL > kept)


def _placed(space: Space, placed: dict[str, Any], expires_at: int | None) -> tuple[int, int]:
    """The address of a record, and its next version."""
    row = space.tx.row("place_record", **placed, id=inner_id(), now=space.now, expires_at=expires_at)
    assert row is not None  # noqa: S101 -- an upsert always returns its row
    return row[0], row[1]


def _expires_at(now: int, old: Record | None, new: Write) -> int | None:
    lifetimes = [] if new.lifetime_us is None else [new.lifetime_us]
    if old is not None and old.expires_at is not None and new.lasting is not None:
        before = old.expires_at - old.updated_at
        own = old.updated_at >= new.lasting or (new.former is not None and before not in new.former)
        lifetimes += [before] if own else []
    return now + min(lifetimes) if lifetimes else None


def _tie(space: Space, address_id: int, new: Write) -> None:
    if new.tied_anew:
        if {row[0] for row in space.tx.rows("ties_of", address_id=address_id)} == set(new.ties):
            return
        space.tx.send("delete_ties", address_id=address_id)
    for tie in new.ties:
        space.tx.send("add_tie", tie=tie, address_id=address_id)


def _given(data: Any) -> str:
    """What was given, as JSON: times, tuples and the like are what they become there."""
    plain(data, "value", MAX_DEPTH, longest=MAX_NAME)
    if not isinstance(data, dict):
        raise Invalid("A record is a JSON object.", field="value")
    return _encoded(data)


def _encoded(value: Any) -> str:
    encoded = msgspec.json.encode(value)
    if len(encoded) > MAX_VALUE:
        raise TooLarge(f"The record would be larger than {MAX_VALUE // 1024} KiB.", field="value")
    return encoded.decode()
