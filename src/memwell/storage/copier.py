"""Taking tenants out of a store and bringing them in as a whole, for backups. What is carried has the form of a directory.

A tenant that is brought in exists for nobody until it is admitted; one that is there already is replaced in one step. Whatever
others do meanwhile comes before that step or after it.
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
from .port import Row, Store, Tx, search_state

if TYPE_CHECKING:
    from .sqlite import SqliteStore

Agree = Callable[[Tx], bool]
"""Asked while nobody can write: whether a tenant may be replaced as it stands."""
PAGE = 1000


class Arrival(NamedTuple):
    """A tenant that comes from elsewhere, and what it takes along. `place` and `number` are its carrier's own."""

    tenant: str
    created_at: int
    keys: Sequence[dict[str, Any]] = ()
    place: Path | None = None
    number: int = 0


class Carrier(Protocol):
    """How a store is copied from and filled."""

    def take(self, tenant: str, target: SqliteStore) -> list[str]:
        """Copy a tenant as it is now into another store, while others write. Returns which of its files are lost."""
        ...

    def bring(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        """Copy a tenant from another store to where nobody sees it."""
        ...

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        """Let all of them exist that were brought, or none."""
        ...

    def leave(self) -> None:
        """Clear away what was brought and not admitted."""
        ...

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, agree: Agree) -> bool:
        """Put another in the place of a tenant, if what is there now may go; False if it may not."""
        ...


class Carrying(Store, Protocol):
    """A store that can be backed up and restored."""

    @property
    def carrier(self) -> Carrier: ...


def digests(tx: Tx) -> Iterator[str]:
    """The files that rows name."""
    after = ""
    while rows := tx.rows("page_digests", after=after, limit=PAGE):
        yield from (row[1] for row in rows)
        after = rows[-1][0]


def carry(source: Blobs, target: Blobs, wanted: Iterable[str]) -> list[str]:
    """Copy the files that the target lacks. Returns those that are not there, or damaged."""
    lost = []
    for digest in wanted:
        if not target.has(digest):
            try:
                target.put(source.get(digest))
            except (NotFound, Corrupted):
                lost.append(digest)
    return lost


# -- Moving a tenant from one store to another, row by row, and proving that both hold the same.
#
# The source is held as a writer holds it: it can be read, and nobody changes it meanwhile. The target's tenant exists for
# nobody until everything is there. A move that was cut off goes on behind the last row that arrived; if the source has changed
# since, the comparison at the end finds that, and the target is filled anew.


T = TypeVar("T")

MOVE_PAGE = 1000
PLACES = "\ue000\ue001"
"""What tokens begin with that name a place. They come first, as the analyser puts them."""

TABLES = (
    "collection", "address", "model", "entry", "fact", "evidence", "plan", "document", "summary", "folded", "run",
    "run_step", "run_touch", "record", "record_version", "record_tie", "file", "spending", "idempotency", "idempotency_touch",
    "job", "event", "removal", "erasure",
)  # fmt: skip
"""Those that others refer to come first."""
KEY_COLUMNS = (
    "id", "tenant", "name", "hash", "role", "tie_kind", "tie_name", "rate", "created_at", "expires_at", "revoked_at",
)  # fmt: skip
_LOWEST: dict[str, tuple[Any, ...]] = {
    "idempotency": (b"",),
    "idempotency_touch": (-1, b""),
    "job": ("",),
    "plan": ("",),
    "document": ("", ""),
    "run": ("",),
    "run_step": ("", -1),
    "run_touch": (-1, ""),
    "record_version": (-1, -1),
    "record_tie": ("", -1),
    "file": ("",),
}


class Receiver(Protocol):
    """A tenant in the making: nobody else can see it."""

    @property
    def blobs(self) -> Blobs: ...

    def write(self, work: Callable[[Tx], T]) -> T: ...

    def start_over(self) -> None:
        """Throw away what has arrived."""
        ...

    def finish(self, number: int) -> None:
        """Let the tenant exist; `number` is the highest that an entry was ever given."""
        ...


class Receiving(Store, Protocol):
    """A store that a tenant can be moved to."""

    def receive(self, tenant: str, created_at: int | None = None) -> Receiver:
        """Make room for a tenant that was made at that moment; left away: now."""
        ...


class Moved(NamedTuple):
    """What was moved: how many rows of each table there are, and their digest, which is the same on both sides."""

    rows: dict[str, int]
    digest: str


Progress = Callable[[str, int], None]


def move_tenant(source: Store, target: Receiving, tenant: str, progress: Progress = lambda table, rows: None) -> Moved:
    """Move one tenant, and compare both sides. `progress` is told of every page: its table, and how many rows arrived."""
    receiver = target.receive(tenant, created_at(source, tenant))
    blobs = source.blobs(tenant)
    return source.write(tenant, lambda tx: fill(tx, blobs.within(tx), receiver, progress))


def created_at(store: Store, tenant: str) -> int | None:
    """When a tenant was made, if there is one."""
    rows = store.control.rows("find_tenant", id=tenant)
    return int(rows[0][1]) if rows else None


def move_keys(source: Store, target: Store, tenant: str) -> int | None:
    """Take a tenant's API keys along, if both sides hash them with the same secret, or the target has none yet.

    Returns how many were moved; None if they cannot be.
    """
    keys = source.control.rows("page_keys", tenant=tenant)
    if keys and not target.control.adopt(source.control.secret):
        return None
    target.control.write(*(("put_key", dict(zip(KEY_COLUMNS, key, strict=True))) for key in keys))
    return len(keys)


def fill(source: Tx, blobs: Blobs | None, receiver: Receiver, progress: Progress = lambda table, rows: None) -> Moved:
    """Send everything that a tenant has, compare both sides, and let it exist at the other one. Without blobs, somebody else
    brings these."""
    for attempt in range(2):
        for table in TABLES:
            _copy(source, blobs, receiver, table, progress)
        moved = summary(source)
        if receiver.write(summary) == moved:
            receiver.finish(search_state(source)[0])
            return moved
        if not attempt:
            receiver.start_over()
    raise StorageError(
        "What arrived is not what was sent: nothing was changed at the source. Try again, or report this."
    )


def _copy(source: Tx, blobs: Blobs | None, receiver: Receiver, table: str, progress: Progress) -> None:
    """Send what is behind the last row that is there already."""
    for rows in _pages(source, table, receiver.write(lambda tx: _last(tx, table))):
        extra = _searched(source, rows) if table == "entry" else []
        if table == "file" and blobs is not None:  # what a row names is there before the row
            _carry(blobs, receiver.blobs, {row[_columns(table).index("digest")] for row in rows})
        receiver.write(lambda tx, rows=rows, extra=extra: _put(tx, table, rows, extra))  # type: ignore[misc]
        progress(table, len(rows))


def _carry(source: Blobs, target: Blobs, digests: set[str]) -> None:
    for digest in sorted(digests):
        if not target.has(digest):
            target.put(source.get(digest))


class _Searched(NamedTuple):
    """What search knows of an entry: its words, and its vectors by model."""

    docid: int
    id: str
    version: int
    tokens: str | None
    vectors: list[tuple[int, str, int, bytes]]


def _searched(tx: Tx, rows: Sequence[Row]) -> list[_Searched]:
    listed = "[" + ",".join(str(row[0]) for row in rows) + "]"
    words = {docid: _ordered(tokens) for docid, tokens in tx.rows("words_of", docids=listed)}
    vectors: dict[int, list[tuple[int, str, int, bytes]]] = {}
    for number, name, dimensions, _ in tx.rows("list_models"):
        for docid, value in tx.rows("vectors_of", model=number, docids=listed):
            vectors.setdefault(docid, []).append((number, name, dimensions, value))
    return [_Searched(row[0], row[1], row[2], words.get(row[0]), vectors.get(row[0], [])) for row in rows]


def _ordered(tokens: str) -> str:
    """The same words in the same order, however an engine keeps them."""
    return " ".join(sorted(tokens.split(" "), key=lambda token: (token[:1] not in PLACES, token)))


def _put(tx: Tx, table: str, rows: Sequence[Row], extra: Sequence[_Searched]) -> None:
    names = _columns(table)
    for row in rows:
        tx.send(f"put_{table}", **dict(zip(names, row, strict=True)))
    for one in extra:
        if one.tokens is not None:
            tx.send("add_words", docid=one.docid, tokens=one.tokens)
        for model, name, dimensions, value in one.vectors:
            named = {"model": model, "name": name, "dimensions": dimensions}
            tx.send("add_vector", id=one.id, version=one.version, value=value, **named)


# -- comparing -----------------------------------------------------------------------------------------------------------


def summary(tx: Tx) -> Moved:
    """What a tenant holds, in a form that does not depend on the engine."""
    counts: dict[str, int] = {}
    digest = hashlib.blake2b(digest_size=16)
    for table in TABLES:
        counts[table] = 0
        for rows in _pages(tx, table, _lowest(table)):
            counts[table] += len(rows)
            found: list[Any] = [rows, _searched(tx, rows) if table == "entry" else []]
            digest.update(msgspec.msgpack.encode(found))
    return Moved(counts, digest.hexdigest())


def _pages(tx: Tx, table: str, after: tuple[Any, ...]) -> Iterator[list[Row]]:
    places = [_columns(table).index(name) for name in _key(table)]
    while rows := tx.rows(f"page_{table}", **_after(table, after), limit=MOVE_PAGE):
        yield rows
        after = tuple(rows[-1][place] for place in places)


def _last(tx: Tx, table: str) -> tuple[Any, ...]:
    """The key of the last row that is there."""
    row = tx.row(f"end_of_{table}")
    return _lowest(table) if row is None else tuple(row)


def _lowest(table: str) -> tuple[Any, ...]:
    return _LOWEST.get(table, (-1,))


def _after(table: str, key: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("after", "after_too"), key, strict=False))


@cache
def _columns(table: str) -> tuple[str, ...]:
    """The columns of a page, in order."""
    return tuple(re.findall(r":(\w+)", queries.load_move()[f"put_{table}"].sql))[1:]


@cache
def _key(table: str) -> tuple[str, ...]:
    found = re.search(r"ORDER BY (.+)", queries.load_move()[f"page_{table}"].sql)
    assert found is not None  # noqa: S101 -- it is our own text
    return tuple(found[1].split(", "))
