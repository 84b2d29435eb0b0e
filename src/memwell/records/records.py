"""Records: one JSON value at an address, with a version, a lifetime and a history.

A write replaces the value or merges into it, and checks the result before it is stored. The history contains each change, and a
whole value at intervals, so that many small changes of a large value take little space. Lists read the sizes of records first,
and then only the values that fit into the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ..clock import optional_datetime, to_datetime
from ..core.operation import Response
from ..core.space import Space
from ..erasure.erase import bury
from ..errors import Invalid, TooLarge
from ..ids import inner_id
from ..jobs import queue
from ..model.collection import Place
from ..model.fields import check_json, etag, from_cursor, match, to_cursor
from ..storage.port import Row, encode_numbers

Mode = Literal["merge", "replace"]
Secrets = Literal["warn", "reject"]
Check = Callable[[Any], None]
"""A function that raises an error if a value must not be stored."""

MAX_VALUE = 1024 * 1024
MAX_DEPTH = 64
MAX_NAME = 1024
"""Characters of the name of a field. Messages about a nested value repeat the names of all fields above it."""
WHOLE_EVERY = 64
"""Changes after which the history contains the whole value again."""
SMALL = 8
"""A change of a large value is stored instead of the value if it is at least this many times smaller."""
LARGE = 64 * 1024
KEPT_VERSIONS = 1024
"""Smallest number of versions that are kept of a record. There are always fewer than twice as many."""
NEWEST = 2**62
"""Greater than every version."""
KIND = "record"
decode = msgspec.json.Decoder().decode


class Record(msgspec.Struct, frozen=True):
    """The current state of a record."""

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


class VersionRow(NamedTuple):
    """A version of a record. Columns in the order of `record_versions`."""

    version: int
    mode: str
    data: str
    actor: str
    written_at: int
    expires_at: int | None


class Edit(NamedTuple):
    """A change of a record."""

    data: Mapping[str, Any]
    mode: Mode = "merge"
    if_match: str | None = None
    """The etag that the record must have, or a list of them; `*`: it must exist; `none`: it must not exist."""
    unset: Sequence[str] = ()
    """Paths of fields to remove."""


class Contract(NamedTuple):
    """The rules for a record: its schema, its lifetime, its ties, and the treatment of secrets."""

    schema: Mapping[str, Any] | None = None
    strict: bool = False
    lifetime_us: int | None = None
    """Lifetime after a write; None: forever. Reading does not renew it (C15)."""
    ties: tuple[str, ...] = ()
    """The record is deleted together with any of these: a definition, a store, a user, a session, a run."""
    replace_ties: bool = False
    """Remove other ties that the record has."""
    secrets: Secrets | None = None
    lasting: int | None = None
    """Keep the lifetime of the former version, up to `lifetime_us`, if the version was written at or after this time ..."""
    former: tuple[int, ...] | None = None
    """... or if its lifetime is not one of these."""
    history: bool = True
    """Keep former versions."""


NO_CONTRACT = Contract()


# Fields and responses of the operations on records of all kinds


Value = Annotated[dict[str, Any], Meta(description="A JSON object of at most 1 MiB and 64 levels.")]
Projections = Annotated[
    dict[str, Any], Meta(description='The fields to return, as {"preferences.language": 1}; omit it for all.')
]
IfMatch = Annotated[
    str,
    Meta(
        max_length=400,
        description="The `etag` that the record must still have. `*`: it must exist; `none`: it must not exist.",
    ),
]
Unset = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=1000)]],
    Meta(max_length=100, description="Fields to remove, by their paths, such as `seat.row`: at most 100."),
]
Description = Annotated[str, Meta(max_length=1000, description="The purpose, in at most 1,000 characters.")]
HistoryLimit = Annotated[int, Meta(ge=1, le=100, description="The number of versions to return, from 1 to 100.")]
MAX_TOGETHER = 50
"""Records that one request may write."""


class RecordChange(Response, frozen=True, kw_only=True):
    """A version of a record: the written data, the mode, time and author of the write, and the resulting value."""

    version: int
    mode: str
    data: dict[str, Any]
    value: dict[str, Any] | None
    actor: str
    written_at: datetime
    expires_at: datetime | None = None


class RecordHistory(Response, frozen=True, kw_only=True):
    """Versions of a record, newest first."""

    versions: list[RecordChange]
    next_cursor: str | None = None


def describe_version(record: Record) -> dict[str, Any]:
    """Return the fields that every response has about a record."""
    return {
        "version": record.version,
        "etag": etag(record.address_id, record.version),
        "updated_at": to_datetime(record.updated_at),
        "expires_at": None if record.expires_at is None else to_datetime(record.expires_at),
    }


def list_history(space: Space, record: Record, limit: int, cursor: str | None) -> RecordHistory:
    """Return versions of a record with their data and values, as many as fit into a response."""
    (before,) = from_cursor("versions", cursor, NEWEST)
    rows, more = list_versions(space, record, before, limit, MAX_BYTES // 2)
    values = rebuild_values(space, record, rows)
    sizes = [len(msgspec.json.encode(values.get(row.version))) for row in rows]
    page = rows[: count_fitting(sizes, MAX_BYTES // 2)]
    further = to_cursor("versions", page[-1].version) if more or len(page) < len(rows) else None
    versions = [
        RecordChange(
            version=row.version,
            mode=row.mode,
            data=msgspec.json.decode(row.data),
            value=values.get(row.version),
            actor=row.actor,
            written_at=to_datetime(row.written_at),
            expires_at=optional_datetime(row.expires_at),
        )
        for row in page
    ]
    return RecordHistory(versions=versions, next_cursor=further)


# One record


def find_record(space: Space, place: Place, path: str) -> Record | None:
    """Return a record, unless it has expired."""
    row = space.tx.row("find_record", dialect=place.dialect, name=place.name, path=path, now=space.now)
    return None if row is None else to_record(row)


def find_record_with_definition(space: Space, place: Place, path: str) -> tuple[Record, str | None, str | None] | None:
    """Return a record, with the id and the body of the definition that has its path as slug."""
    row = space.tx.row("find_record_with_definition", dialect=place.dialect, name=place.name, path=path, now=space.now)
    if row is None:
        return None
    return to_record(row), row[8], row[9]


def write_record(
    space: Space,
    place: Place,
    path: str,
    edit: Edit,
    contract: Contract = NO_CONTRACT,
    check: Check = lambda value: None,
) -> Record:
    """Replace a value or merge into it. If `check` rejects the result, nothing changes (C3). This function itself does not check
    the schema and the secrets of the contract."""
    old = find_record(space, place, path) if edit.mode == "merge" else _find_head(space, place, path)
    match(None if old is None else old.etag, edit.if_match)
    check_json(edit.data, "value", MAX_DEPTH, longest=MAX_NAME)
    if not isinstance(edit.data, dict):
        raise Invalid("A record is a JSON object.", field="value")
    given = _encode(edit.data)  # times, tuples and the like become plain values
    value = unset_fields(merge(None if old is None else old.value, decode(given)), edit.unset)
    check(value)
    encoded = _encode(value)
    collection_id = space.collection(place)[0] if old is None else old.collection_id
    expires_at = _compute_expiry(space.now, old, contract)
    placed = {"collection_id": collection_id, "path": path}
    address_id, version = _place(space, placed, expires_at)
    if old is None and version > 1:
        # The former record has expired. Erase it and everything derived from it, and write to a new address.
        bury(space.tx, [(address_id, collection_id, KIND)], space.now, spared=space.run)
        address_id, version = _place(space, placed, expires_at)
    created_at = space.now if old is None else old.created_at
    kept = {"address_id": address_id, "version": version, "now": space.now, "expires_at": expires_at}
    space.tx.send("put_value", **kept, value=encoded, created_at=created_at)
    _tie(space, address_id, contract)
    # Store the whole value at intervals, and when a change is large, because merging many large changes is slow.
    whole = old is None or edit.mode == "replace" or bool(edit.unset) or not contract.history
    whole = whole or version % WHOLE_EVERY == 0 or (len(encoded) > LARGE and len(given) * SMALL > len(encoded))
    data, mode = (encoded, "replace") if whole else (given, "merge")
    space.tx.send("add_record_version", **kept, mode=mode, data=data, actor=space.principal.actor)
    if not contract.history:
        space.tx.send("delete_record_versions_below", address_id=address_id, version=version)
    elif whole and version % KEPT_VERSIONS == 0:
        space.tx.send("delete_record_versions_below", address_id=address_id, version=version - KEPT_VERSIONS)
    if expires_at is not None:
        space.answer_until(expires_at)
        if old is not None and (old.expires_at is None or expires_at < old.expires_at):
            # responses stored for retries must not outlive the record
            space.tx.send("erase_idempotency", addresses=encode_numbers([address_id]))
    space.touch(collection_id, address_id)
    queue.expire_at(space.tx, expires_at, space.now)
    return Record(address_id, collection_id, path, version, value, created_at, space.now, expires_at)


def delete_record(
    space: Space, place: Place, path: str, if_match: str | None = None, *, spared: str | None = None
) -> str | None:
    """Erase a record with its history. Return the job that erases its bytes, or None if there is no record. `spared` is the run
    that deletes the record: its own data stays."""
    old = _find_head(space, place, path)
    match(None if old is None else old.etag, if_match)
    if old is None:
        return None
    space.touch(old.collection_id, old.address_id)
    return bury(space.tx, [(old.address_id, old.collection_id, KIND)], space.now, spared=spared)


def add_anchor(space: Space, place: Place) -> int:
    """Return the id of an address without a value, which is deleted with its collection."""
    collection_id, _ = space.collection(place)
    row = space.tx.row("anchor_record", id=inner_id(), collection_id=collection_id, now=space.now)
    assert row is not None  # noqa: S101 -- an upsert always returns its row
    return int(row[0])


def list_versions(space: Space, record: Record, before: int, limit: int, room: int) -> tuple[list[VersionRow], bool]:
    """Return versions of a record, newest first, up to a number and a size; and True if there are more."""
    page = {"address_id": record.address_id, "before": before}
    sizes = [row[0] for row in space.tx.rows("record_version_sizes", **page, limit=limit + 1)]
    count = count_fitting(sizes[:limit], room)
    return [VersionRow(*row) for row in space.tx.rows("record_versions", **page, limit=count)], count < len(sizes)


def count_fitting(sizes: Sequence[int], room: int) -> int:
    """Return how many of the first items fit into the room, but at least one unless there are none."""
    return sum(total <= room or number == 0 for number, total in enumerate(accumulate(sizes)))


def rebuild_value(space: Space, record: Record, version: int) -> Any:
    """Return the value of a version, or None if the history does not reach back so far."""
    rows = space.tx.rows("record_changes", address_id=record.address_id, version=version)
    if not rows or rows[-1][0] != version:
        return None
    value: Any = None
    for _, mode, data in rows:
        given = msgspec.json.decode(data)
        value = given if mode == "replace" else merge(value, given)
    return value


def rebuild_values(space: Space, record: Record, changes: Sequence[VersionRow]) -> dict[int, Any]:
    """Return the values of consecutive versions, which are passed newest first."""
    found: dict[int, Any] = {}
    value = rebuild_value(space, record, changes[-1].version) if changes else None
    for change in reversed(changes):
        if found:
            given = decode(change.data)
            value = given if change.mode == "replace" else merge(value, given)
        found[change.version] = value
    return found


def find_value_at(space: Space, record: Record, moment: int) -> Any:
    """Return the value of a record at a time, or None if it did not exist or had expired."""
    found = find_record_at(space, record, moment)
    return None if found is None else found.value


def find_record_at(space: Space, record: Record, moment: int) -> Record | None:
    """Return a record as it was at a time, or None if it did not exist or had expired."""
    row = space.tx.row("record_version_at", address_id=record.address_id, moment=moment)
    if row is None or (row[1] is not None and row[1] <= moment):
        return None
    value = rebuild_value(space, record, row[0])
    return None if value is None else replace(record, version=row[0], value=value, updated_at=row[2], expires_at=row[1])


def to_record(row: tuple[Any, ...]) -> Record:
    """Convert a row that begins with the columns of a record."""
    return Record(row[0], row[1], row[2], row[3], decode(row[4]), row[5], row[6], row[7])


def _find_head(space: Space, place: Place, path: str) -> Record | None:
    """Return a record without its value, which may be large."""
    row = space.tx.row("find_record_head", dialect=place.dialect, name=place.name, path=path, now=space.now)
    return None if row is None else to_record(row)


def _place(space: Space, placed: dict[str, Any], expires_at: int | None) -> tuple[int, int]:
    """Reserve the next version of a record. Return its address and the version."""
    row = space.tx.row("place_record", **placed, id=inner_id(), now=space.now, expires_at=expires_at)
    assert row is not None  # noqa: S101 -- an upsert always returns its row
    return row[0], row[1]


def _compute_expiry(now: int, old: Record | None, contract: Contract) -> int | None:
    lifetimes = [] if contract.lifetime_us is None else [contract.lifetime_us]
    if old is not None and old.expires_at is not None and contract.lasting is not None:
        before = old.expires_at - old.updated_at
        if old.updated_at >= contract.lasting or (contract.former is not None and before not in contract.former):
            lifetimes.append(before)
    return now + min(lifetimes) if lifetimes else None


def _tie(space: Space, address_id: int, contract: Contract) -> None:
    if contract.replace_ties:
        if {row[0] for row in space.tx.rows("ties_of", address_id=address_id)} == set(contract.ties):
            return
        space.tx.send("delete_ties", address_id=address_id)
    for tie in contract.ties:
        space.tx.send("add_tie", tie=tie, address_id=address_id)


def _encode(value: Any) -> str:
    encoded = msgspec.json.encode(value)
    if len(encoded) > MAX_VALUE:
        raise TooLarge(f"The record would be larger than {MAX_VALUE // 1024} KiB.", field="value")
    return encoded.decode()


# Values

Tree: TypeAlias = dict[str, "Tree | None"]
"""Names of requested fields, with the requested fields inside; None: the whole value."""
_NOTHING: Any = object()
MAX_DOTS = 64
"""Parts of a path that may together be the name of one field."""
MAX_PROJECTIONS = 100


def merge(old: Any, new: Any) -> Any:
    """Return a value merged into another. Objects are merged at every depth; other values, including null, are replaced (C1)."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: merge(old[name], value) if name in old else value for name, value in new.items()}}


def unset_fields(value: Any, paths: Sequence[str]) -> Any:
    """Return a value without the fields at some paths."""
    for path in paths:
        value = _unset(value, _steps(path, "unset"))
    return value


def _steps(path: str, field: str) -> list[str]:
    """Return the names in a path. Reject a path that cannot match any field, since it would be ignored silently."""
    steps = path.split(".")
    if not all(steps) or "[" in path or "]" in path:
        raise Invalid(
            f"`{field}` takes paths of fields, such as `seat.row`, not {path[:50]!r}. Items of lists do not have paths.",
            field=field,
        )
    return steps


def _unset(value: Any, path: list[str]) -> Any:
    """Remove a field. Names may contain dots: the longest name that exists takes precedence."""
    if not isinstance(value, dict):
        return value
    for count in range(min(len(path), MAX_DOTS), 0, -1):
        name, inside = ".".join(path[:count]), path[count:]
        if name in value:
            if inside:
                return {**value, name: _unset(value[name], inside)}
            return {other: each for other, each in value.items() if other != name}
    return value


def project(value: Any, projections: Mapping[str, Any] | None) -> Any:
    """Return only the fields at the given paths, or all fields if there are no projections. Objects above a missing field are
    kept, so that code can follow its path without an error."""
    if not projections:
        return value
    if len(projections) > MAX_PROJECTIONS:
        raise Invalid(f"`projections` names more than {MAX_PROJECTIONS} fields.", field="projections")
    wanted: Tree = {}
    for path, mark in projections.items():
        if mark not in (1, True):
            raise Invalid(
                f"`projections` needs the value 1 for each field: {path[:50]!r} has another value.", field="projections"
            )
        tree = wanted
        *above, last = _steps(path, "projections")
        for name in above:
            inner = tree.setdefault(name, {})
            if inner is None:
                break  # the whole field is requested already
            tree = inner
        else:
            tree[last] = None
    found = _prune(value, wanted)
    return {} if found is _NOTHING else found


def _find_in_tree(tree: Tree | None, path: list[str]) -> Any:
    """Return the requested parts of a field with dots in its name."""
    for name in path:
        if tree is None or name not in tree:
            return _NOTHING
        tree = tree[name]
    return tree


def _prune(value: Any, wanted: Tree | None) -> Any:
    """Return the requested parts of a value. In a list, they are taken from each item."""
    if wanted is None:
        return value
    if isinstance(value, list):
        return [part for part in (_prune(one, wanted) for one in value) if part is not _NOTHING]
    if not isinstance(value, dict):
        return _NOTHING
    parts = {name: _prune(value[name], inner) for name, inner in wanted.items() if name in value}
    for name in value:
        if "." in name and (inner := _find_in_tree(wanted, name.split("."))) is not _NOTHING:
            parts[name] = _prune(value[name], inner)
    return {name: part for name, part in parts.items() if part is not _NOTHING}


# Many records: the records of a collection, and the records with a tie (to a user, a session, a definition or a store)


PAGE = 1000
"""Addresses that one statement reads."""
FEW = 16
"""Addresses that the first statement reads, because the caller may not need more."""
MAX_BYTES = 8 * 1024 * 1024
"""Bytes of values in one response."""
_BEHIND_NAMES = "\U0010ffff"


def list_records_between(
    space: Space, place: Place, between: tuple[str, str], limit: int, tie: str | None = None
) -> tuple[list[Record], bool]:
    """Return the records of a collection between two paths, up to a number and `MAX_BYTES`; and True if there are more. With a
    tie, return only records that have it."""
    page, more = _take_page(space, _iterate_sizes(space, place, between, limit, tie), limit)
    return [record for record, _ in page], more


def list_named(space: Space, place: Place, after: str, limit: int) -> tuple[list[Record], bool]:
    """Return the records of a collection after a name, except those with a scope in their path; and True if there are more."""
    found = _iterate_sizes(space, place, (after, _BEHIND_NAMES), limit)
    page, more = _take_page(space, (row for row in found if "@" not in row[1]), limit)
    return [record for record, _ in page], more


def list_tied_page(space: Space, tie: str, after: int, limit: int) -> tuple[list[tuple[Record, str]], bool]:
    """Return the records with a tie, after an address, each with the name of its collection; and True if there are more."""
    return _take_page(space, chain.from_iterable(_iterate_tied_sizes(space, tie, after)), limit)


def iterate_tied(space: Space, tie: str) -> Iterator[tuple[Record, str]]:
    """Yield the records with a tie, each with the name of its collection."""
    for ids in _iterate_tied_ids(space, tie):
        yield from list_records_at(space, ids)


def iterate_tied_values(space: Space, tie: str) -> Iterator[tuple[int, Any]]:
    """Yield only the addresses and values of the records with a tie. This is twice as fast as `iterate_tied`."""
    for ids in _iterate_tied_ids(space, tie):
        for address_id, value in sorted(space.tx.rows("values_of", addresses=encode_numbers(ids))):
            yield address_id, decode(value)


def list_records_at(space: Space, addresses: Sequence[int]) -> list[tuple[Record, str]]:
    """Return the records at addresses, in their order, each with the name of its collection."""
    if not addresses:
        return []
    rows = {row[0]: row for row in space.tx.rows("records_of", addresses=encode_numbers(addresses))}
    return [(to_record(rows[one]), rows[one][8]) for one in addresses if one in rows]


def list_tied_addresses(space: Space, tie: str) -> list[Row]:
    """Return the addresses (id, collection, kind) with a tie, including expired ones."""
    found: list[Row] = []
    while rows := space.tx.rows("tied_addresses", tie=tie, after=found[-1][0] if found else 0, limit=PAGE):
        found += rows
    return [row for row in found if row[2] is not None]


def list_tied_addresses_below(space: Space, prefix: str) -> list[Row]:
    """Return the addresses with a tie that begins with a prefix."""
    ties = space.tx.rows("ties_between", first=prefix, last=prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return [row for (tie,) in ties for row in list_tied_addresses(space, tie)]


def delete_tied(
    space: Space, *ties: str, spared: str | None = None, place: Place | None = None
) -> tuple[str | None, int]:
    """Erase everything that has one of the ties, or only what is in one place. Return the job that erases the bytes, and the
    number of records."""
    found = list({row[0]: row for tie in ties for row in list_tied_addresses(space, tie)}.values())
    if place is not None:
        collection = space.find_collection_id(place)
        found = [row for row in found if row[1] == collection]
    if not found:
        return None, 0
    for address_id, collection_id, _ in found:
        space.touch(collection_id, address_id)
    return bury(space.tx, found, space.now, spared=spared), sum(kind == KIND for _, _, kind in found)


def _iterate_sizes(
    space: Space, place: Place, between: tuple[str, str], limit: int, tie: str | None = None
) -> Iterator[Row]:
    """Yield the id, path and size of the records of a collection between two paths."""
    after, until = between
    most = max(min(limit, PAGE) + 1, FEW)
    where = {"dialect": place.dialect, "name": place.name, "until": until, "now": space.now, "limit": most}
    query = "record_sizes" if tie is None else "tied_sizes_at"
    where |= {} if tie is None else {"tie": tie}
    while rows := space.tx.rows(query, **where, after=after):
        yield from (row for row in rows if row[2] is not None)
        if len(rows) < most:
            return
        after = rows[-1][1]


def _iterate_tied_sizes(space: Space, tie: str, after: int) -> Iterator[list[Row]]:
    """Yield the id and size of the records with a tie, in pages of increasing size."""
    limit = FEW
    while rows := space.tx.rows("tied_sizes", tie=tie, after=after, now=space.now, limit=limit):
        yield [row for row in rows if row[1] is not None]
        after = rows[-1][0]
        limit = min(4 * limit, PAGE)


def _iterate_tied_ids(space: Space, tie: str) -> Iterator[list[int]]:
    """Yield the addresses with a tie in groups of at most `MAX_VALUE` bytes, one group per statement."""
    for rows in _iterate_tied_sizes(space, tie, 0):
        ids: list[int] = []
        total = 0
        for address_id, size in rows:
            if ids and total + size > MAX_VALUE:
                yield ids
                ids, total = [], 0
            ids.append(address_id)
            total += size
        if ids:
            yield ids


def _take_page(space: Space, found: Iterable[Row], limit: int) -> tuple[list[tuple[Record, str]], bool]:
    """Return the records of rows (id, …, size), up to a number and `MAX_BYTES`; and True if there are more."""
    ids: list[int] = []
    total, more = 0, False
    for row in found:
        total += row[-1]
        more = len(ids) == limit or (bool(ids) and total > MAX_BYTES)
        if more:
            break
        ids.append(row[0])
    return list_records_at(space, ids), more
