"""Later erasures for a restore: collecting them from newer backups and other sources, and applying them to the restored copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from .. import config as configuration
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
    delete_run,
    erase,
    erase_collection,
    forget_thing,
    scrub_later,
)
from ..erasure.log import Line
from ..errors import Corrupted, Invalid, MemwellError, NotFound, StorageError, Unsupported
from ..facts.retract import forget_session
from ..jobs import queue
from ..jobs.worker import Worker
from ..model.collection import CollectionKind, Place
from ..records import file_rows
from ..records.file_rows import File, State
from ..storage import open_store, queries
from ..storage.copier import KEY_COLUMNS, CopyableStore, list_rows
from ..storage.port import ALL, Store, Tx, list_tenants, tenant_mark
from ..timelines.sessions import erase_entries
from .manifest import (
    MANIFEST,
    Manifest,
    build_name,
    list_backups,
    open_database,
    read,
    read_lines,
    require_ours,
    require_whole,
)

Key = dict[str, Any]
SLACK = MINUTE
"""Allowance for clocks that differ, and for the duration of the write of an erasure."""


class Source(NamedTuple):
    """A source: the erasures of each tenant, the deleted tenants, and the keys."""

    name: str
    until: datetime
    lines: dict[str, list[Line]]
    dropped: dict[str, int]
    made_at: dict[str, int]
    keys: dict[str, dict[str, Key]]

    def knows(self, tenant: str, made_at: int) -> bool:
        """Return True if the source has this tenant. Another tenant of the same name has another time of creation."""
        return tenant in self.lines and self.made_at.get(tenant) == made_at


@dataclass(slots=True)
class Knowledge:
    """All sources of erasures for one backup. Only erasures after the backup count: if erased data is in the backup, it was added
    again. Only sources that are newer than the backup have the current state of its keys."""

    since: datetime
    sources: list[Source] = field(default_factory=list)

    def lines(self, tenant: str) -> list[Line]:
        """Return all later erasures without duplicates, in the order of time."""
        every = {
            line for source in self.sources for line in source.lines.get(tenant, ()) if self._is_since(source, line.at)
        }
        return sorted(every, key=lambda line: (line.at, line.kind, line.id))

    def is_dropped(self, tenant: str, made_at: int) -> bool:
        """Return True if a tenant was deleted after the backup. A source that has it although it was deleted was restored."""
        mark = tenant_mark(tenant, made_at)
        return any(
            self._is_since(source, source.dropped[mark])
            for source in self.sources
            if mark in source.dropped and source.made_at.get(tenant) != made_at
        )

    def keys(self, tenant: str, made_at: int, keys: Iterable[Key]) -> list[Key]:
        """Return those keys of a tenant that still exist, with their revocations."""
        newer = [(source.keys.get(tenant, {}), micros(source.until)) for source in self.newer(tenant, made_at)]
        result = []
        for key in keys:
            if any(key["id"] not in known and key["created_at"] <= until for known, until in newer):
                continue  # it was deleted; a source has no keys that are newer than itself
            same = [key, *(known[key["id"]] for known, _ in newer if key["id"] in known)]
            revoked_at = min((one["revoked_at"] for one in same if one["revoked_at"] is not None), default=None)
            result.append(key | {"revoked_at": revoked_at})
        return result

    def newer(self, tenant: str, made_at: int) -> list[Source]:
        """Return the sources that have the tenant and are newer than the backup."""
        return [one for one in self.sources if one.until > self.since and one.knows(tenant, made_at)]

    def _is_since(self, source: Source, at: int) -> bool:
        slack = SLACK if source.until > self.since else 0
        return at >= micros(self.since) - slack


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def open_existing(config: Config) -> CopyableStore:
    """Open the configured store, without creating it."""
    if not config.on_postgres and not (config.home_path / "control.db").is_file():
        raise NotFound(f"There is no memory at {config.home_without_password}.")
    return open_store(config, SystemClock().now)


def read_store(store: Store, name: str, tenants: Iterable[str]) -> Source:
    """Read the source in a store that is in use."""
    there = list_tenants(store)
    here = [tenant for tenant in tenants if tenant in there]
    lines = {tenant: store.read(tenant, lambda tx: log.list_lines(tx)) for tenant in here}
    dropped: dict[str, int] = dict(store.control.rows("list_dropped", after="", limit=ALL))
    keys = {tenant: read_keys(store, tenant) for tenant in here}
    return Source(name, datetime.now(UTC), lines, dropped, there, keys)


def read_backup(folder: Path, manifest: Manifest, tenants: Iterable[str]) -> Source:
    """Read the source in a backup, from its small files."""
    here = [tenant for tenant in tenants if tenant in manifest.names]
    small = [one for one in manifest.files_of(here) if one.tenant is None or one.path.startswith("erasures/")]
    require_whole(folder, small)
    require_ours(folder, manifest, ())
    lines = {tenant: read_lines(folder / "erasures" / f"{tenant}.jsonl") for tenant in here}
    known = queries.load_system()
    with open_database(folder / "control.db") as db:

        def ask(query: str, **given: Any) -> list[Any]:
            return db.execute(known[query].sql, given).fetchall()

        dropped = dict(ask("list_dropped", after="", limit=ALL))
        made_at = dict(ask("list_tenants", after="", limit=ALL))
        keys = {tenant: _by_id(ask("page_keys", tenant=tenant)) for tenant in here}
    return Source(folder.name, manifest.created_at, lines, dropped, made_at, keys)


def read_neighbours(folder: Path, manifest: Manifest, tenants: Sequence[str]) -> Iterator[Source]:
    """Read the other backups in the same folder. A newer one that cannot be read is an error, because it may know an erasure."""
    own = folder.resolve()
    around = dict.fromkeys([own.parent, folder.absolute().parent.resolve()])  # the folder may be a link
    for path in (path for place in around for path in list_backups(place)):
        if path.resolve() == own:
            continue
        try:
            yield read_backup(path, read(path), tenants)
        except MemwellError as error:
            if path.name > build_name(manifest.created_at, "whole"):
                raise Corrupted(
                    f"{error.message} It is newer than {folder.name} and may have later erasures: repair it, or move "
                    "it out of the folder."
                ) from error


def read_sources(named: str, tenants: Sequence[str]) -> Iterator[Source]:
    """Read a backup, a folder of backups, a data directory or a database."""
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
            raise Invalid(f"{named} is neither a backup, nor a folder of backups, nor a data directory.")
        yield from (read_backup(path, read(path), tenants) for path in found)


def read_keys(store: Store, tenant: str) -> dict[str, Key]:
    """Return the API keys of a tenant by their ids."""
    return _by_id(store.control.rows("page_keys", tenant=tenant))


def _by_id(rows: Iterable[Sequence[Any]]) -> dict[str, Key]:
    keys = [dict(zip(KEY_COLUMNS, row, strict=True)) for row in rows]
    return {key["id"]: key for key in keys}


# -- applying erasures -------------------------------------------------------------------------------------------------------
#
# Erasures are applied to the copy before it is visible. They have the same consequences as the original ones: facts are erased
# with the sessions that they rest on, summaries are dissolved with their entries, and runs that used either are emptied. The
# consequences are not logged. The lines of the original erasures are added to the log, so that the next backup has them.


PAGE = 5000
TALK = "timeline"
KNOWN: Final = "facts"


class _Location(NamedTuple):
    """An address with its collection. Columns in the order of `located_address`."""

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
    """The number of items that were erased again, and of traces that were found afterwards."""

    found: int
    residual: int


def reapply(store: Store, tenant: str, lines: Collection[Line], clock: Clock) -> Reapplied:
    """Apply erasures to a copied tenant, and finish those that were running during the backup. No byte of the data is left."""
    principal = Principal(tenant, "operator", "restore")
    known = store.read(tenant, lambda tx: set(log.list_lines(tx)))
    fresh = [line for line in lines if line not in known]
    if not log.KINDS.issuperset(line.kind for line in fresh):
        raise Unsupported("An erasure log is from a newer version of Memwell: upgrade this program.")
    if not all(log.is_sound(line) for line in fresh):
        raise Corrupted("An erasure log has impossible erasures. Nothing was changed.")
    found, asked = 0, list[str]()
    if fresh:
        found, asked = store.write(
            tenant, lambda tx: _Erasures(Space(tx, principal, clock, clock.now()), fresh).erase()
        )
    if found or store.read(tenant, _is_waiting):
        return Reapplied(found, _finish(store, tenant, asked, clock))
    return Reapplied(0, 0)


def _is_waiting(tx: Tx) -> bool:
    """Return True if an erasure is not finished."""
    return any(kind == "erase" and state in ("ready", "running", "dead") for kind, state, *_ in tx.rows("job_backlog"))


def _finish(store: Store, tenant: str, asked: Sequence[str], clock: Clock) -> int:
    """Run the `erase` jobs, and return the number of traces that are left."""
    store.write(tenant, lambda tx: tx.send("take_over_erasures", now=clock.now()))
    Worker(store, clock, {"erase": erase}).run_due(tenant)
    if store.read(tenant, _is_waiting) or not store.scrub(tenant, "always"):
        raise StorageError("Later erasures could not be repeated in the copy of this backup. Nothing was restored.")
    done = [store.read(tenant, partial(queue.find, job_id=job)) for job in asked]
    return sum(msgspec.json.decode(job.result)["residual"] for job in done if job is not None and job.result)


class _Erasures:
    """Applies one tenant's erasures in one transaction."""

    def __init__(self, space: Space, lines: Sequence[Line]) -> None:
        self._space, self._tx, self._lines = space, space.tx, lines
        self._marks: dict[str, set[str]] = {}
        for line in lines:
            self._marks.setdefault(line.kind, set()).add(line.id)
        self._found = 0
        self._jobs: list[str] = []

    def erase(self) -> tuple[int, list[str]]:
        """Return the number of erased items, and the ids of the jobs that remove their last traces."""
        last = self._tx.row("end_of_erasure") or (0,)
        for file_id in sorted(self._marks.get("file", ())):
            job = bury_file(self._tx, file_id, self._space.now)
            if job is not None:
                self._jobs.append(job)
                self._found += 1
        collections = [number for number in self._numbers("collection") if self._tx.row("collection_exists", id=number)]
        ended = self._find_addresses("ended")
        in_collections = {
            row[0]: _Location(*row) for number in collections for row in self._tx.rows("addresses_in", id=number)
        }
        erased = in_collections | {one.id: one for one in self._find_addresses("address")}
        entries = self._find_entries()
        for one in erased.values():
            # Erase the facts that rest on this session alone, and its words in other facts. Whole collections need no such care.
            if one.id in in_collections or one.kind != TALK:
                continue
            if self._space.find_collection_id(one.facts) is not None:
                forget_session(self._space, one.facts, one.id)
        single = {entry_id: address_id for entry_id, address_id in entries.items() if address_id not in erased}
        self._found += erase_entries(self._space, single)[1].get("entries", 0)
        for run_id in sorted(self._marks.get("run", ())):
            self._found += delete_run(self._tx, run_id)
        self._delete_documents()
        self._deactivate_files(erased.values())
        self._bury(list(erased.values()), None)
        self._bury([one for one in ended if one.id not in erased], EVERY_RUN)
        for number in collections:
            erase_collection(self._tx, number, self._space.now)
            self._found += 1
        self._tx.send("delete_erasures_after", after=last[0])
        for number, line in enumerate(self._lines, int(last[0]) + 1):
            self._tx.send("put_erasure", seq=number, **line._asdict())
        if self._found and not self._jobs:
            self._jobs.append(scrub_later(self._tx, self._space.now, {}))
        return self._found, self._jobs

    def _numbers(self, kind: str) -> Iterator[int]:
        return (int(mark) for mark in sorted(self._marks.get(kind, ())))

    def _find_addresses(self, kind: str) -> list[_Location]:
        rows = [self._tx.row("located_address", id=number) for number in self._numbers(kind)]
        return [one for one in (_Location(*row) for row in rows if row is not None) if one.dialect != GRAVE]

    def _find_entries(self) -> dict[str, int]:
        """Return the erased entries with their addresses. A mark is a hash, so compare it with all entries."""
        marks, after = self._marks.get("entry"), 0
        found: dict[str, int] = {}
        while marks and (rows := self._tx.rows("page_names", after=after, limit=PAGE)):
            after = rows[-1][0]
            found |= {row[2]: row[1] for row in rows if log.entry_mark(row[1], row[2]) in marks}
        return found

    def _deactivate_files(self, addresses: Iterable[_Location]) -> None:
        """Deactivate the files with erased text."""
        for one in addresses:
            row = self._tx.row("find_file", id=one.path) if one.kind == file_rows.TEXT else None
            file = None if row is None else File(*row)
            if file is not None and file.text_id == one.id:
                state: State = "kept" if file.state == "pending" else file.state
                file_rows.update_file(self._space, file._replace(active=0, text_id=None, tokens=0, state=state))

    def _delete_documents(self) -> None:
        """Delete documents, and the reservations of their names."""
        marks = self._marks.get("document")
        if not marks:
            return
        documents = list(list_rows(self._tx, "document"))
        erased = {row[1] for row in documents if log.document_mark(row[0], row[1], row[5]) in marks}
        for kind, document_id, _, _, body, made_at, _ in documents:
            if log.document_mark(kind, document_id, made_at) in marks or body in erased:
                forget_thing(self._tx, kind, document_id, self._space.now)
                self._found += self._tx.run("delete_document", kind=kind, id=document_id)

    def _bury(self, addresses: Sequence[_Location], spared: str | None) -> None:
        if addresses:
            self._jobs.append(bury(self._tx, [one.grave_row for one in addresses], self._space.now, spared=spared))
            self._found += len(addresses)
