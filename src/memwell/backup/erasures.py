"""What is known of erasures and keys from elsewhere: from newer backups, and from wherever one is told to look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from .. import config as configuration
from ..banks.compaction import dissolve_summaries
from ..clock import MINUTE, Clock, SystemClock
from ..config import Config
from ..core.access import Principal
from ..core.space import Space
from ..erasure import log
from ..erasure.erase import (
    EVERY_RUN,
    GRAVE,
    bury,
    bury_file,
    erase,
    erase_collection,
    erase_fact,
    forget_runs,
    scrub_later,
)
from ..erasure.log import Line
from ..errors import Corrupted, Invalid, MemwellError, NotFound, StorageError, Unsupported
from ..facts.retract import forget_session, release_fact
from ..jobs import queue
from ..jobs.worker import Worker
from ..model.collection import CollectionKind, Place
from ..records import file_rows
from ..records.file_rows import File, State
from ..storage import open_store, queries
from ..storage.copier import KEY_COLUMNS, CopyableStore
from ..storage.port import Row, Store, Tx, tenant_mark
from ..storage.sqlite import connect
from .check import require_ours
from .manifest import MANIFEST, Manifest, build_name, list_backups, read, read_lines, require_whole

Key = dict[str, Any]
EVERY = 10_000_000
SLACK = MINUTE
"""By how much the clocks of those that share a store may differ, and how long an erasure may take to be written."""


class Source(NamedTuple):
    """One place that knows something: what was erased of each tenant, which tenants are gone, and which keys there are."""

    name: str
    until: datetime
    lines: dict[str, list[Line]]
    dropped: dict[str, int]
    made_at: dict[str, int]
    keys: dict[str, dict[str, Key]]

    def knows(self, tenant: str, made_at: int) -> bool:
        """Whether it tells of this very tenant. Another of the same name was made at another moment."""
        return tenant in self.lines and self.made_at.get(tenant) == made_at


@dataclass(slots=True)
class Knowledge:
    """Everything that is known. What was erased before the backup was made, and is in it, has come back by right: only what was
    erased later counts. Only what is newer than the backup can say what became of its keys."""

    since: datetime
    sources: list[Source] = field(default_factory=list)

    def lines(self, tenant: str) -> list[Line]:
        """Every erasure since, once, in the order of time."""
        every = {
            line for source in self.sources for line in source.lines.get(tenant, ()) if self._is_since(source, line.at)
        }
        return sorted(every, key=lambda line: (line.at, line.kind, line.id))

    def is_dropped(self, tenant: str, made_at: int) -> bool:
        """Whether a tenant was deleted since. Where it is, it has come back."""
        mark = tenant_mark(tenant, made_at)
        told = [one for one in self.sources if mark in one.dropped and one.made_at.get(tenant) != made_at]
        return any(self._is_since(one, one.dropped[mark]) for one in told)

    def keys(self, tenant: str, made_at: int, keys: Iterable[Key]) -> list[Key]:
        """The keys of a tenant that are still there, revoked if they were since."""
        newer = self.speaking(tenant, made_at)
        left = [key for key in keys if not any(_lacks(one, tenant, key) for one in newer)]
        return [key | {"revoked_at": _find_revocation(key, tenant, newer)} for key in left]

    def speaking(self, tenant: str, made_at: int) -> list[Source]:
        """Those that know what became of a tenant after the backup."""
        return [one for one in self.sources if one.until > self.since and one.knows(tenant, made_at)]

    def _is_since(self, source: Source, at: int) -> bool:
        slack = SLACK if source.until > self.since else 0
        return at >= micros(self.since) - slack


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _lacks(source: Source, tenant: str, key: Key) -> bool:
    """Whether a key is gone. One that was made later cannot be known."""
    return key["id"] not in source.keys.get(tenant, {}) and bool(key["created_at"] <= micros(source.until))


def _find_revocation(key: Key, tenant: str, newer: Sequence[Source]) -> int | None:
    same = [key, *(one.keys[tenant][key["id"]] for one in newer if key["id"] in one.keys.get(tenant, {}))]
    return min((one["revoked_at"] for one in same if one["revoked_at"] is not None), default=None)


def open_existing(config: Config) -> CopyableStore:
    """The store that a setting names; it is not made."""
    if not config.on_postgres and not (config.home_path / "control.db").is_file():
        raise NotFound(f"There is no memory at {config.home_without_password}.")
    return open_store(config, SystemClock().now)


def read_store(store: Store, name: str, tenants: Iterable[str]) -> Source:
    """What a store that is in use knows."""
    there: dict[str, int] = dict(store.control.rows("list_tenants", after="", limit=EVERY))
    here = [tenant for tenant in tenants if tenant in there]
    lines = {tenant: store.read(tenant, lambda tx: list(log.lines(tx))) for tenant in here}
    dropped: dict[str, int] = dict(store.control.rows("list_dropped", after="", limit=EVERY))
    keys = {tenant: _by_id(store.control.rows("page_keys", tenant=tenant)) for tenant in here}
    return Source(name, datetime.now(UTC), lines, dropped, there, keys)


def read_backup(folder: Path, manifest: Manifest, tenants: Iterable[str]) -> Source:
    """What a backup knows. Only the small files of it are read."""
    here = [tenant for tenant in tenants if tenant in manifest.names]
    small = [one for one in manifest.files_of(here) if one.tenant is None or one.path.startswith("erasures/")]
    require_whole(folder, small)
    require_ours(folder, manifest, ())
    lines = {tenant: read_lines(folder / "erasures" / f"{tenant}.jsonl") for tenant in here}
    db = connect.open_immutable(folder / "control.db")
    try:
        with connect.translate_errors(folder / "control.db"):
            ask = _build_reader(db)
            dropped = ask("list_dropped", after="", limit=EVERY)
            made_at = dict(ask("list_tenants", after="", limit=EVERY))
            keys = {tenant: _by_id(ask("page_keys", tenant=tenant)) for tenant in here}
    finally:
        db.close()
    return Source(folder.name, manifest.created_at, lines, dict(dropped), made_at, keys)


def read_neighbours(folder: Path, manifest: Manifest, tenants: Sequence[str]) -> Iterator[Source]:
    """What the other backups in the same folder know. A newer one that cannot be read might know of an erasure."""
    own = folder.resolve()
    around = dict.fromkeys([own.parent, folder.absolute().parent.resolve()])  # it may be a link to elsewhere
    for path in (path for place in around for path in list_backups(place)):
        if path.resolve() == own:
            continue
        try:
            yield read_backup(path, read(path), tenants)
        except MemwellError as error:
            if path.name > build_name(manifest.created_at, "whole"):
                raise Corrupted(
                    f"{error.message} It is newer than {folder.name}, so it is not known what was erased since: move it "
                    "away if it cannot be mended."
                ) from error


def read_sources(named: str, tenants: Sequence[str]) -> Iterator[Source]:
    """What a backup, a folder of backups, a data directory or a database knows."""
    config = configuration.load(home=named)
    folder = config.home_path
    if not config.on_postgres and (folder / MANIFEST).is_file():
        yield read_backup(folder, read(folder), tenants)
    elif config.on_postgres or (folder / "control.db").is_file():
        store = open_existing(config)
        try:
            yield read_store(store, config.home_without_password, tenants)
        finally:
            store.close()
    else:
        found = list_backups(folder) if folder.is_dir() else []
        if not found:
            raise Invalid(f"{named} is neither a backup nor a folder of them, nor a data directory.")
        yield from (read_backup(path, read(path), tenants) for path in found)


def _build_reader(db: Any) -> Any:
    known = queries.load_system()
    return lambda query, **given: db.execute(known[query].sql, given).fetchall()


def _by_id(rows: Iterable[Sequence[Any]]) -> dict[str, Key]:
    keys = [dict(zip(KEY_COLUMNS, row, strict=True)) for row in rows]
    return {key["id"]: key for key in keys}


# -- Erasing again what was erased since a backup was made, where nobody sees it yet.
#
# The same is done as when it was first asked for: sessions take what is known from them alone, entries their summaries, and all
# of them what others knew of them. What then goes because it followed from that needs no line; the lines that are told are kept
# instead, so that the next backup knows of them, too.


PAGE = 5000
TALK = "timeline"
KNOWN: Final = "facts"


class _Location(NamedTuple):
    """An address, and where it is. Columns in the order of `located_address`."""

    id: int
    collection_id: int
    kind: CollectionKind
    dialect: str
    name: str
    path: str

    @property
    def grave_row(self) -> tuple[int, int, str]:
        return self.id, self.collection_id, self.kind

    @property
    def place(self) -> Place:
        return Place(self.dialect, self.name, self.kind)

    @property
    def facts(self) -> Place:
        return Place(self.dialect, self.name, KNOWN)


class Reapplied(NamedTuple):
    """How many things were erased again, and how many traces a second look found of them."""

    found: int
    residual: int


def reapply(store: Store, tenant: str, told: Collection[Line], clock: Clock) -> Reapplied:
    """Erase what some lines tell of, as far as it is there, so that no byte of it is left. What was being erased when the
    backup was made goes as well."""
    principal = Principal(tenant, "operator", "restore")
    known = store.read(tenant, lambda tx: set(log.lines(tx)))
    fresh = [line for line in told if line not in known]
    if not log.KINDS.issuperset(line.kind for line in fresh):
        raise Unsupported(
            "A newer version of Memwell has erased things that this one does not know: upgrade this program."
        )
    if not all(log.is_sound(line) for line in fresh):
        raise Corrupted("What tells of erasures tells of what cannot be. Nothing was changed.")
    found, asked = 0, list[str]()
    if fresh:
        found, asked = store.write(
            tenant, lambda tx: _Erasures(Space(tx, principal, clock, clock.now()), fresh).erase()
        )
    if found or store.read(tenant, _is_waiting):
        return Reapplied(found, _finish(store, tenant, asked, clock))
    return Reapplied(0, 0)


def _is_waiting(tx: Tx) -> bool:
    """Whether something is still to be erased."""
    return any(kind == "erase" and state in ("ready", "running", "dead") for kind, state, *_ in tx.rows("job_backlog"))


def _finish(store: Store, tenant: str, asked: Sequence[str], clock: Clock) -> int:
    """Let the bytes go as well. Returns how many traces are left."""
    store.write(tenant, lambda tx: tx.send("take_over_erasures", now=clock.now()))
    Worker(store, clock, {"erase": erase}).run_due(tenant)
    if store.read(tenant, _is_waiting) or not store.scrub(tenant, "always"):
        raise StorageError("What was erased since this backup could not be erased again: nothing was restored.")
    done = [store.read(tenant, partial(queue.find, job_id=job)) for job in asked]
    return sum(msgspec.json.decode(job.result)["residual"] for job in done if job is not None and job.result)


class _Erasures:
    """One tenant's erasures, done again in one transaction."""

    def __init__(self, space: Space, told: Sequence[Line]) -> None:
        self._space, self._tx, self._told = space, space.tx, told
        self._marks: dict[str, set[str]] = {}
        for line in told:
            self._marks.setdefault(line.kind, set()).add(line.id)
        self._found = 0
        self._jobs: list[str] = []

    def erase(self) -> tuple[int, list[str]]:
        """Returns how much was there, and the jobs that leave no trace of it."""
        last = self._tx.row("end_of_erasure") or (0,)
        self._files()
        collections = [number for number in self._numbers("collection") if self._tx.row("collection_exists", id=number)]
        ended = self._located("ended")
        whole = {one.id: one for number in collections for one in self._in(number)}
        gone = whole | {one.id: one for one in self._located("address")}
        named = dict(self._named())
        self._sources([one for one in gone.values() if one.id not in whole])
        for entry_id, address_id in named.items():
            if address_id not in gone:
                self._entry(entry_id, address_id)
        self._runs()
        self._documents()
        self._unread(gone.values())
        self._bury(list(gone.values()), None)
        self._bury([one for one in ended if one.id not in gone], EVERY_RUN)
        for number in collections:
            erase_collection(self._tx, number, self._space.now)
            self._found += 1
        self._note(int(last[0]))
        if self._found and not self._jobs:
            self._jobs.append(scrub_later(self._tx, self._space.now, {}))
        return self._found, self._jobs

    # -- what there is -----------------------------------------------------------------------------------------------

    def _numbers(self, kind: str) -> Iterator[int]:
        return (int(mark) for mark in sorted(self._marks.get(kind, ())))

    def _located(self, kind: str) -> list[_Location]:
        rows = [self._tx.row("located_address", id=number) for number in self._numbers(kind)]
        return [one for one in (_Location(*row) for row in rows if row is not None) if one.dialect != GRAVE]

    def _in(self, collection_id: int) -> list[_Location]:
        return [_Location(*row) for row in self._tx.rows("addresses_in", id=collection_id)]

    def _named(self) -> Iterator[tuple[str, int]]:
        """The entries that marks stand for, and where they are. A mark does not tell: all entries are looked at."""
        marks, after = self._marks.get("entry"), 0
        while rows := self._tx.rows("page_names", after=after, limit=PAGE) if marks else ():
            after = rows[-1][0]
            yield from ((row[2], row[1]) for row in rows if log.entry_mark(row[1], row[2]) in (marks or ()))

    # -- what goes -----------------------------------------------------------------------------------------------------

    def _sources(self, addresses: Sequence[_Location]) -> None:
        """What is known from a session alone goes with it, and the words that it has told other facts in."""
        for one in addresses:
            if one.kind == TALK and self._space.find_collection_id(one.facts) is not None:
                forget_session(self._space, one.facts, one.id)

    def _entry(self, entry_id: str, address_id: int) -> None:
        row = self._tx.row("located_address", id=address_id)
        if row is None or not self._tx.rows("entry_addresses", id=entry_id):
            return  # it has gone with something else
        where = _Location(*row)
        if where.kind == KNOWN and not where.path:
            release_fact(self._space, where.place, entry_id)
        elif where.kind == TALK:
            dissolve_summaries(self._space, entry_id)
        erase_fact(self._tx, entry_id, self._space.now)
        forget_runs(self._tx, [address_id])
        self._found += 1

    def _files(self) -> None:
        for file_id in sorted(self._marks.get("file", ())):
            job = bury_file(self._tx, file_id, self._space.now)
            if job is not None:
                self._jobs.append(job)
                self._found += 1

    def _unread(self, addresses: Iterable[_Location]) -> None:
        """A file whose text is erased stays, and is not used any more."""
        for one in addresses:
            row = self._tx.row("find_file", id=one.path) if one.kind == file_rows.TEXT else None
            file = None if row is None else File(*row)
            if file is not None and file.text_id == one.id:
                state: State = "kept" if file.state == "pending" else file.state
                file_rows.update_file(self._space, file._replace(active=0, text_id=None, tokens=0, state=state))

    def _runs(self) -> None:
        for run_id in sorted(self._marks.get("run", ())):
            self._tx.send("delete_run_steps", run_id=run_id)
            self._tx.send("delete_run_touches", run_id=run_id)
            self._found += self._tx.run("delete_run", id=run_id)

    def _documents(self) -> None:
        """Documents, and the names that were claimed for them."""
        marks = self._marks.get("document")
        if not marks:
            return
        every = list(_documents(self._tx))
        gone = {row[1] for row in every if log.document_mark(row[0], row[1], row[5]) in marks}
        for kind, document_id, _, _, body, made_at, _ in every:
            if log.document_mark(kind, document_id, made_at) in marks or body in gone:
                self._found += self._tx.run("delete_document", kind=kind, id=document_id)

    def _bury(self, addresses: Sequence[_Location], spared: str | None) -> None:
        if addresses:
            self._jobs.append(bury(self._tx, [one.grave_row for one in addresses], self._space.now, spared=spared))
            self._found += len(addresses)

    def _note(self, after: int) -> None:
        self._tx.send("delete_erasures_after", after=after)
        for number, line in enumerate(self._told, after + 1):
            self._tx.send("put_erasure", seq=number, **line._asdict())


def _documents(tx: Tx) -> Iterator[Row]:
    after = ("", "")
    while rows := tx.rows("page_document", after=after[0], after_too=after[1], limit=PAGE):
        yield from rows
        after = (rows[-1][0], rows[-1][1])
