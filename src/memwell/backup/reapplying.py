"""Erasing again what was erased since a backup was made, where nobody sees it yet.

The same is done as when it was first asked for: sessions take what is known from them alone, entries their summaries, and all of
them what others knew of them. What then goes because it followed from that needs no line; the lines that are told are kept
instead, so that the next backup knows of them, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from ..clock import Clock
from ..distill.fold import dissolve
from ..distill.revoke import forget, let_go
from ..errors import Corrupted, StorageError, Unsupported
from ..files import kept
from ..lifecycle import jobs, ledger
from ..lifecycle.erase import (
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
from ..lifecycle.ledger import Line
from ..lifecycle.worker import Worker
from ..model.collection import CollectionKind, Place
from ..model.file import File, State
from ..model.principal import Principal
from ..space import Space
from ..storage.port import Row, Store, Tx

PAGE = 5000
TALK = "timeline"
KNOWN: Final = "facts"


class _At(NamedTuple):
    """An address, and where it is. Columns in the order of `located_address`."""

    id: int
    collection_id: int
    kind: CollectionKind
    dialect: str
    name: str
    path: str

    @property
    def buried(self) -> tuple[int, int, str]:
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
    known = store.read(tenant, lambda tx: set(ledger.lines(tx)))
    fresh = [line for line in told if line not in known]
    if not ledger.KINDS.issuperset(line.kind for line in fresh):
        raise Unsupported(
            "A newer version of Memwell has erased things that this one does not know: upgrade this program."
        )
    if not all(ledger.is_sound(line) for line in fresh):
        raise Corrupted("What tells of erasures tells of what cannot be. Nothing was changed.")
    found, asked = 0, list[str]()
    if fresh:
        found, asked = store.write(tenant, lambda tx: _Again(Space(tx, principal, clock, clock.now()), fresh).erase())
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
    done = [store.read(tenant, partial(jobs.find, job_id=job)) for job in asked]
    return sum(msgspec.json.decode(job.result)["residual"] for job in done if job is not None and job.result)


class _Again:
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

    def _located(self, kind: str) -> list[_At]:
        rows = [self._tx.row("located_address", id=number) for number in self._numbers(kind)]
        return [one for one in (_At(*row) for row in rows if row is not None) if one.dialect != GRAVE]

    def _in(self, collection_id: int) -> list[_At]:
        return [_At(*row) for row in self._tx.rows("addresses_in", id=collection_id)]

    def _named(self) -> Iterator[tuple[str, int]]:
        """The entries that marks stand for, and where they are. A mark does not tell: all entries are looked at."""
        marks, after = self._marks.get("entry"), 0
        while rows := self._tx.rows("page_names", after=after, limit=PAGE) if marks else ():
            after = rows[-1][0]
            yield from ((row[2], row[1]) for row in rows if ledger.entry_mark(row[1], row[2]) in (marks or ()))

    # -- what goes -----------------------------------------------------------------------------------------------------

    def _sources(self, addresses: Sequence[_At]) -> None:
        """What is known from a session alone goes with it, and the words that it has told other facts in."""
        for one in addresses:
            if one.kind == TALK and self._space.found(one.facts) is not None:
                forget(self._space, one.facts, one.id)

    def _entry(self, entry_id: str, address_id: int) -> None:
        row = self._tx.row("located_address", id=address_id)
        if row is None or not self._tx.rows("entry_addresses", id=entry_id):
            return  # it has gone with something else
        where = _At(*row)
        if where.kind == KNOWN and not where.path:
            let_go(self._space, where.place, entry_id)
        elif where.kind == TALK:
            dissolve(self._space, entry_id)
        erase_fact(self._tx, entry_id, self._space.now)
        forget_runs(self._tx, [address_id])
        self._found += 1

    def _files(self) -> None:
        for file_id in sorted(self._marks.get("file", ())):
            job = bury_file(self._tx, file_id, self._space.now)
            if job is not None:
                self._jobs.append(job)
                self._found += 1

    def _unread(self, addresses: Iterable[_At]) -> None:
        """A file whose text is erased stays, and is not used any more."""
        for one in addresses:
            row = self._tx.row("find_file", id=one.path) if one.kind == kept.TEXT else None
            file = None if row is None else File(*row)
            if file is not None and file.text_id == one.id:
                state: State = "kept" if file.state == "pending" else file.state
                kept.save(self._space, file._replace(active=0, text_id=None, tokens=0, state=state))

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
        gone = {row[1] for row in every if ledger.document_mark(row[0], row[1], row[5]) in marks}
        for kind, document_id, _, _, body, made_at, _ in every:
            if ledger.document_mark(kind, document_id, made_at) in marks or body in gone:
                self._found += self._tx.run("delete_document", kind=kind, id=document_id)

    def _bury(self, addresses: Sequence[_At], spared: str | None) -> None:
        if addresses:
            self._jobs.append(bury(self._tx, [one.buried for one in addresses], self._space.now, spared=spared))
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
