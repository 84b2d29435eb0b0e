"""Copying a tenant from one store to another, for moves, backups and restores, and proving that both sides are equal.

Rows are copied page by page in the order of their keys, by statements that are generated from the schema. An interrupted copy
continues after the last row that arrived; if the source has changed since, the comparison at the end fails and the target is
filled again from the start. A tenant that is copied into a store is invisible there until it is admitted. An existing tenant
is replaced in a single step.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from ..errors import Corrupted, NotFound, StorageError
from . import queries
from .blobs import Blobs
from .port import Row, Store, Tx, encode_numbers, search_state
from .queries import Query

if TYPE_CHECKING:
    from .sqlite import SqliteStore

T = TypeVar("T")
Approve = Callable[[Tx], bool]
"""Called while writers are locked out. Returns True if a tenant may be replaced in its current state."""
Progress = Callable[[str, int], None]
"""Called for every page with its table and its number of rows."""

PAGE = 1000
PLACES = "\ue000\ue001"
"""The first characters of tokens that name a place. The tokenizer puts these tokens first."""
KEY_COLUMNS = (
    "id", "tenant", "name", "hash", "role", "tie_kind", "tie_name", "rate", "created_at", "expires_at", "revoked_at",
)  # fmt: skip

TABLES = (
    "collection", "address", "model", "entry", "fact", "evidence", "plan", "document", "summary", "folded", "run",
    "run_step", "run_touch", "record", "record_version", "record_tie", "file", "spending", "idempotency", "idempotency_touch",
    "job", "event", "removal", "erasure",
)  # fmt: skip
"""The tables that every engine has in the same form, in the order of copying: a table comes after those it refers to.
Words, vectors and the bytes of files are stored differently by each engine."""

_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*)\)", re.DOTALL)
_COLUMN = re.compile(r"^\s*(\w+) (INTEGER|TEXT|REAL|BLOB)\b(.*)$", re.MULTILINE)
_KEY = re.compile(r"^\s*PRIMARY KEY \(tenant, (.+?)\)", re.MULTILINE)
_ADDITION = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")
_LOWEST: dict[str, Any] = {"INTEGER": -1, "TEXT": "", "BLOB": b""}
_AFTER = ("after", "after_too")
_COUNT = "(SELECT COUNT(*) FROM {} WHERE tenant = :tenant)"
_TEMPLATE = """
-- name: page_{name}
-- The rows of `{name}` after a key.
SELECT {columns} FROM {name} WHERE tenant = :tenant AND {behind} ORDER BY {key} LIMIT :limit;

-- name: end_of_{name}
-- The last key of `{name}`.
SELECT {key} FROM {name} WHERE tenant = :tenant ORDER BY {descending} LIMIT 1;

-- name: put_{name}
-- Add a row of `{name}` with all its columns.
INSERT INTO {name} (tenant, {columns}) VALUES (:tenant, {values});
"""


class Table(NamedTuple):
    """A table without its column `tenant`. `lowest` is a key below every other."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    lowest: tuple[Any, ...]

    def key_of(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[self.columns.index(name)] for name in self.key)

    def after(self, key: tuple[Any, ...]) -> dict[str, Any]:
        """The parameters of `page_<table>` for the rows after a key."""
        return dict(zip(_AFTER, key, strict=False))


@cache
def load_tables() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for _, _, text in queries.migrations("sqlite"):
        for statement in queries.statements(text):
            if found := _TABLE.match(statement):
                columns = _COLUMN.findall(found[2])
                types = {column: kind for column, kind, _ in columns}
                composite = _KEY.search(found[2])
                single = [column for column, _, more in columns if "PRIMARY KEY" in more]
                key = tuple(composite[1].split(", ") if composite else single)
                lowest = tuple(_LOWEST[types[column]] for column in key)
                tables[found[1]] = Table(found[1], tuple(name for name in types if name != "tenant"), key, lowest)
            elif found := _ADDITION.match(statement):
                table = tables[found[1]]
                tables[found[1]] = table._replace(columns=(*table.columns, found[2]))
    return {name: tables[name] for name in TABLES}


@cache
def copy_queries() -> dict[str, Query]:
    """For each table `page_<table>` (the rows after a key), `end_of_<table>` (the last key) and `put_<table>` (one row),
    and `count_all`. Every engine runs them as they stand."""
    text = ""
    for name, columns, key, _ in load_tables().values():
        ordered = ", ".join(key)
        after = ", ".join(f":{parameter}" for parameter, _ in zip(_AFTER, key, strict=False))
        text += _TEMPLATE.format(
            name=name,
            columns=", ".join(columns),
            values=", ".join(f":{column}" for column in columns),
            behind=f"({ordered}) > ({after})" if len(key) > 1 else f"{ordered} > {after}",
            key=ordered,
            descending=", ".join(f"{column} DESC" for column in key),
        )
    counts = " + ".join(_COUNT.format(name) for name in TABLES)
    text += f"-- name: count_all\n-- The number of rows of a tenant.\nSELECT {counts};\n"
    return queries.parse(text, "sqlite")


# -- copying ---------------------------------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    """A tenant that was copied into a store and is not admitted yet. Its copier uses `place` and `number`."""

    tenant: str
    created_at: int
    keys: Sequence[dict[str, Any]] = ()
    place: Path | None = None
    number: int = 0


class TenantCopier(Protocol):
    """Copies whole tenants out of a store and into it, for backups."""

    def copy_out(self, tenant: str, target: SqliteStore) -> list[str]:
        """Copy a snapshot of a tenant to another store without blocking writers. Return the digests of missing files."""
        ...

    def copy_in(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        """Copy a tenant from another store, invisibly."""
        ...

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        """Make all of these tenants visible at once."""
        ...

    def discard(self) -> None:
        """Delete the tenants that were copied in and not admitted."""
        ...

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, approve: Approve) -> bool:
        """Replace a tenant by its copy, unless `approve` returns False."""
        ...


class Receiver(Protocol):
    """A tenant that is being filled and is not visible yet."""

    @property
    def blobs(self) -> Blobs: ...

    def write(self, work: Callable[[Tx], T]) -> T: ...

    def start_over(self) -> None:
        """Delete everything that has arrived."""
        ...

    def finish(self, number: int) -> None:
        """Make the tenant visible. `number` is the highest entry number that was ever used."""
        ...


class CopyableStore(Store, Protocol):
    """A store that tenants can be moved to, backed up from and restored to."""

    @property
    def copier(self) -> TenantCopier: ...

    def receive(self, tenant: str, created_at: int | None = None) -> Receiver:
        """Prepare a tenant with a time of creation, by default now."""
        ...


class Contents(NamedTuple):
    """The number of rows of each table of a tenant, and a digest of all of them that does not depend on the engine."""

    rows: dict[str, int]
    digest: str


def move_tenant(
    source: Store, target: CopyableStore, tenant: str, progress: Progress = lambda table, rows: None
) -> Contents:
    """Copy a tenant to another store while writers are locked out, compare both sides, and make it visible there."""
    receiver = target.receive(tenant, find_creation_time(source, tenant))
    blobs = source.blobs(tenant)

    def move(tx: Tx) -> Contents:
        contents = copy_rows(tx, receiver, progress, blobs.within(tx))
        receiver.finish(search_state(tx)[0])
        return contents

    return source.write(tenant, move)


def copy_all(source: Tx, blobs: Blobs, receiver: Receiver) -> tuple[int, list[str]]:
    """Copy rows and files. Return the highest entry number that was ever used, and the digests of missing files."""
    copy_rows(source, receiver)
    return search_state(source)[0], copy_blobs(blobs, receiver.blobs, list_digests(source))


def find_creation_time(store: Store, tenant: str) -> int | None:
    rows = store.control.rows("find_tenant", id=tenant)
    return int(rows[0][1]) if rows else None


def move_keys(source: Store, target: Store, tenant: str) -> int | None:
    """Copy a tenant's API keys, if both sides hash them with the same secret or the target has none yet. Return the number of
    keys, or None if they cannot be copied."""
    keys = source.control.rows("page_keys", tenant=tenant)
    if keys and not target.control.adopt(source.control.secret):
        return None
    target.control.write(*(("put_key", dict(zip(KEY_COLUMNS, key, strict=True))) for key in keys))
    return len(keys)


def copy_rows(
    source: Tx, receiver: Receiver, progress: Progress = lambda table, rows: None, blobs: Blobs | None = None
) -> Contents:
    """Copy every row of a tenant and compare both sides. With `blobs`, the bytes of files are copied as well, each before
    the row that refers to it."""
    for attempt in range(2):
        for table in load_tables().values():
            last = receiver.write(lambda tx, table=table: tx.row(f"end_of_{table.name}"))  # type: ignore[misc]
            for rows in _pages(source, table, table.lowest if last is None else last):
                indexed = _read_index(source, rows) if table.name == "entry" else []
                if table.name == "file" and blobs is not None:
                    place = table.columns.index("digest")
                    for digest in sorted({row[place] for row in rows}):
                        if not receiver.blobs.has(digest):
                            receiver.blobs.put(blobs.get(digest))
                receiver.write(lambda tx, at=(table, rows, indexed): _write_page(tx, *at))  # type: ignore[misc]
                progress(table.name, len(rows))
        contents = read_contents(source)
        if receiver.write(read_contents) == contents:
            return contents
        if not attempt:
            receiver.start_over()
    raise StorageError(
        "The copy differs from its source. Nothing was changed at the source: try again, or report this."
    )


def list_digests(tx: Tx) -> Iterator[str]:
    """The digests of all files of a tenant."""
    after = ""
    while rows := tx.rows("page_digests", after=after, limit=PAGE):
        yield from (row[1] for row in rows)
        after = rows[-1][0]


def copy_blobs(source: Blobs, target: Blobs, digests: Iterable[str]) -> list[str]:
    """Copy the files that the target lacks. Return the digests of those that are missing or damaged."""
    lost = []
    for digest in digests:
        if not target.has(digest):
            try:
                target.put(source.get(digest))
            except (NotFound, Corrupted):
                lost.append(digest)
    return lost


def read_contents(tx: Tx) -> Contents:
    counts: dict[str, int] = {}
    digest = hashlib.blake2b(digest_size=16)
    for name, table in load_tables().items():
        counts[name] = 0
        for rows in _pages(tx, table, table.lowest):
            counts[name] += len(rows)
            page: list[Any] = [rows, _read_index(tx, rows) if name == "entry" else []]
            digest.update(msgspec.msgpack.encode(page))
    return Contents(counts, digest.hexdigest())


class _Indexed(NamedTuple):
    """The words of an entry, and its vectors by model: number, name, dimensions and value."""

    docid: int
    id: str
    version: int
    tokens: str | None
    vectors: list[tuple[int, str, int, bytes]]


def _read_index(tx: Tx, rows: Sequence[Row]) -> list[_Indexed]:
    docids = encode_numbers(row[0] for row in rows)
    words = {docid: _sort_tokens(tokens) for docid, tokens in tx.rows("words_of", docids=docids)}
    vectors: dict[int, list[tuple[int, str, int, bytes]]] = {}
    for number, name, dimensions, _ in tx.rows("list_models"):
        for docid, value in tx.rows("vectors_of", model=number, docids=docids):
            vectors.setdefault(docid, []).append((number, name, dimensions, value))
    return [_Indexed(row[0], row[1], row[2], words.get(row[0]), vectors.get(row[0], [])) for row in rows]


def _sort_tokens(tokens: str) -> str:
    """Sort tokens, because engines store them in different orders."""
    return " ".join(sorted(tokens.split(" "), key=lambda token: (token[:1] not in PLACES, token)))


def _write_page(tx: Tx, table: Table, rows: Sequence[Row], indexed: Sequence[_Indexed]) -> None:
    for row in rows:
        tx.send(f"put_{table.name}", **dict(zip(table.columns, row, strict=True)))
    for one in indexed:
        if one.tokens is not None:
            tx.send("add_words", docid=one.docid, tokens=one.tokens)
        for model, name, dimensions, value in one.vectors:
            vector = {"model": model, "name": name, "dimensions": dimensions, "value": value}
            tx.send("add_vector", id=one.id, version=one.version, **vector)


def list_rows(tx: Tx, name: str) -> Iterator[Row]:
    """All rows of a table, in the order of its key."""
    table = load_tables()[name]
    return (row for rows in _pages(tx, table, table.lowest) for row in rows)


def _pages(tx: Tx, table: Table, after: tuple[Any, ...]) -> Iterator[list[Row]]:
    while rows := tx.rows(f"page_{table.name}", **table.after(after), limit=PAGE):
        yield rows
        after = table.key_of(rows[-1])
