"""A space: one tenant's memory inside one transaction, and the verbs that operations use.

An operation names a collection and a path; the verbs handle sequence numbers, lifetimes, jobs and events. No signature here has a
tenant: the transaction belongs to one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..clock import SECOND, Clock
from ..erasure.erase import bury, thing_of
from ..errors import Stale
from ..ids import inner_id, new_id
from ..jobs import queue
from ..model.collection import Address, Draft, Entry, Place, Policy, decode_policy
from ..model.filter import Filter
from ..search import upkeep
from ..search.words import measure_questions
from ..storage.port import Row, TenantStore, Tx
from .access import Principal
from .operation import Response

EMBED_AFTER = 2 * SECOND
"""Delay before new entries are embedded, so that many are embedded together."""

Link = Callable[[Principal, str, str, int], str]
"""Returns the URL of a file for a principal, an id, a digest and the current time."""

_NEWEST = 2**62


class Touched(NamedTuple):
    """An address that an operation has changed, with the number of entries added, and the id if there was one."""

    collection_id: int
    address_id: int
    entries: int
    entry_id: str


class Located(NamedTuple):
    """An entry with its address."""

    entry: Entry
    path: str
    address_id: int


class Kept(Response, frozen=True, kw_only=True):
    """A place that an erasure has not reached, and the reason."""

    place: str
    reason: str


class Remains(Response, frozen=True, kw_only=True):
    """A place where erased bytes stay for some time, and until when."""

    place: str
    until: str


class Erasure(Response, frozen=True, kw_only=True):
    """A started erasure. The data is hidden already; the job erases its bytes, and its result is the receipt. If the job ends
    within seconds, the receipt is here too: `layers` counts the erased data, and `residual` the traces that were found. `kept`
    lists places that may concern a forgotten user and were not reached, `remains` those where erased bytes stay for some time."""

    job: str
    sessions: int
    layers: dict[str, int] | None = None
    residual: int | None = None
    kept: list[Kept] | None = None
    remains: list[Remains] | None = None


class Space(msgspec.Struct, eq=False):
    """The verbs. The engine creates a space for one call of one principal; it lives as long as the transaction."""

    tx: Tx
    principal: Principal
    clock: Clock
    now: int
    """Start of the transaction, which is the time of everything that it writes."""
    _link: Link | None = None
    _embeds: bool = False
    _collections: dict[Place, tuple[int, Policy]] = {}
    touched: dict[int, Touched] = {}
    mentioned: set[int] = set()
    """Documents, runs and collections that the answer describes; see `thing_of`."""
    answers_until: int | None = None
    looked: int = 0
    """Characters screened for secrets so far."""
    checked: float = 0.0
    """Cost of the schema validation so far, as a share of the limit."""
    run: str | None = None
    """The workflow run that made the call, if any."""
    run_user: str | None = None
    """The user that the run belongs to. What it writes is erased with the user, and so are addresses with the user's name that it
    writes to."""

    # -- writing -----------------------------------------------------------------------------------------------------

    def append(self, place: Place, path: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Append entries to an address, which is created if it is new. Sequence numbers have no gaps."""
        collection_id, policy = self.collection(place)
        lifetime = policy.retention_us
        expires_at = None if lifetime is None else self.now + lifetime
        row = self.tx.row(
            "touch_address",
            id=inner_id(),
            collection_id=collection_id,
            path=path,
            count=len(drafts),
            now=self.now,
            expires_at=expires_at,
        )
        assert row is not None  # noqa: S101 -- an upsert always returns its row
        address_id, last_seq, recorded_at = row
        first = last_seq - len(drafts) + 1
        entries = []
        for seq, draft in enumerate(drafts, first):
            entry, docid = self._add(draft, address_id, seq, recorded_at, expires_at)
            entries.append(entry)
            for user in filter(None, {draft.user, None if path == self.run_user else self.run_user}):
                self.tx.send("add_tie", tie=written_for(user), address_id=-docid)
            if not place.sealed:
                upkeep.add_entry(self.tx, docid, address_id, collection_id, entry, policy.language)
        if self.run_user == path:
            self.tx.send("add_tie", tie=f"user/{path}", address_id=address_id)
        if entries and self._embeds and not place.sealed:
            queue.ensure_slot(self.tx, "embed", self.now + EMBED_AFTER, self.now)
            self._embeds = False  # once is enough
        self.touch(collection_id, address_id, len(entries), entries[0].id if len(entries) == 1 else "")
        queue.expire_at(self.tx, expires_at, self.now)
        return entries

    def revise(self, place: Place, located: Located, draft: Draft, version: int | None) -> Entry:
        """Write the next version of an entry. The old one stays in its history."""
        old = located.entry
        if version is not None and version != old.version:
            raise Stale(
                f"The current version is {old.version}: read it again and repeat the change.", version=old.version
            )
        upkeep.mark_changed(self.tx, self.tx.rows("retire_entry", id=old.id, version=old.version, now=self.now))
        following = msgspec.structs.replace(draft, id=old.id, version=old.version + 1, created_at=old.created_at)
        return self.append(place, located.path, [following])[0]

    def end(self, address: Address) -> bool:
        """Mark a session as ended. Return False if it had ended already and nothing was added since."""
        self.touch(address.collection_id, address.id)
        if address.ended_at is not None:
            return False
        self.tx.send("end_address", id=address.id, now=self.now)
        return True

    def bury(
        self, addresses: Sequence[Row], layers: dict[str, int] | None = None, kept: Sequence[Kept] = ()
    ) -> Erasure:
        """Hide addresses (id, collection, kind) from every read; a job erases them. `layers` counts what was erased with them
        already, and `kept` are places that the receipt lists as not reached."""
        for address_id, collection_id, _ in addresses:
            self.touch(collection_id, address_id)
        job = bury(
            self.tx, addresses, self.now, layers, kept=[{"place": one.place, "reason": one.reason} for one in kept]
        )
        sessions = sum(kind == "timeline" for _, _, kind in addresses)
        return Erasure(job=job, sessions=sessions, kept=list(kept) or None)

    def touch(self, collection_id: int, address_id: int, entries: int = 0, entry_id: str = "") -> None:
        """Mark an address as changed, for the event and so that the stored answer is erased together with it."""
        before = self.touched.get(address_id)
        if before is not None and before.entries:
            entries, entry_id = before.entries + entries, ""
        self.touched[address_id] = Touched(collection_id, address_id, entries, entry_id)

    def mention(self, kind: str, thing_id: str) -> None:
        """Note that the answer describes a document, a run or a collection, with which the stored answer is erased."""
        self.mentioned.add(thing_of(kind, thing_id))

    def answer_until(self, moment: int) -> None:
        """Limit the lifetime of the stored answer, because it holds data that expires at that moment."""
        self.answers_until = moment if self.answers_until is None else min(moment, self.answers_until)

    def collection(self, place: Place) -> tuple[int, Policy]:
        """Return the id and the policy of a collection, which is created if it is new. The result is cached."""
        known = self._collections.get(place)
        if known is None:
            known = self._collections[place] = self._add_collection(place)
        return known

    def _add_collection(self, place: Place) -> tuple[int, Policy]:
        found = self._find_collection(place)
        if found is None:
            self.tx.send(
                "add_collection",
                id=inner_id(),
                dialect=place.dialect,
                name=place.name,
                kind=place.kind,
                sealed=int(place.sealed),
                policy=msgspec.json.encode(place.policy).decode(),
                now=self.now,
            )
            found = self._find_collection(place)
            assert found is not None  # noqa: S101 -- it was just added
        return found[0], decode_policy(found[1])

    def find_collection_id(self, place: Place) -> int | None:
        """The id of a collection, if there is one."""
        found = self._find_collection(place)
        return None if found is None else int(found[0])

    def policy(self, place: Place) -> Policy | None:
        """The policy of a collection, if there is one."""
        found = self._find_collection(place)
        return None if found is None else decode_policy(found[1])

    # -- reading -----------------------------------------------------------------------------------------------------

    def address(self, place: Place, path: str) -> Address | None:
        row = self.tx.row(
            "find_address", dialect=place.dialect, name=place.name, kind=place.kind, path=path, now=self.now
        )
        return None if row is None else Address(*row)

    def last(self, address: Address, limit: int, before: int = _NEWEST) -> list[Entry]:
        """The newest entries, the oldest of them first."""
        rows = self.tx.rows("last_entries", address_id=address.id, before=before, now=self.now, limit=limit)
        rows.reverse()
        return [Entry(*row) for row in rows]

    def after(
        self, address: Address, seq: int, limit: int, condition: Filter | None = None, kind: str | None = None
    ) -> list[Entry]:
        """The entries after a sequence number, in order; optionally only those whose metadata match a filter, or
        those of one kind."""
        query, given = ("next_entries", {}) if kind is None else ("next_of_kind", {"kind": kind})
        rows = self.tx.rows(query, condition, address_id=address.id, after=seq, now=self.now, limit=limit, **given)
        return [Entry(*row) for row in rows]

    def entry(self, place: Place, entry_id: str) -> Located | None:
        """The current version of an entry, if it is in that collection."""
        row = self.tx.row(
            "find_entry", dialect=place.dialect, name=place.name, kind=place.kind, id=entry_id, now=self.now
        )
        return None if row is None else Located(Entry(*row[:-2]), *row[-2:])

    def rows(self, query: str, place: Place, **parameters: Any) -> list[Row]:
        """Run a named query over a collection."""
        return self.tx.rows(query, dialect=place.dialect, name=place.name, kind=place.kind, now=self.now, **parameters)

    def link(self, file_id: str, digest: str) -> str | None:
        """The URL of a file for the caller; None for a worker."""
        return None if self._link is None else self._link(self.principal, file_id, digest, self.now)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _find_collection(self, place: Place) -> Row | None:
        return self.tx.row("find_collection", dialect=place.dialect, name=place.name, kind=place.kind)

    def _add(
        self, draft: Draft, address_id: int, seq: int, recorded_at: int, expires_at: int | None
    ) -> tuple[Entry, int]:
        entry = Entry(
            draft.id or new_id(),
            draft.version,
            seq,
            draft.kind,
            draft.role,
            draft.name,
            draft.content,
            draft.metadata,
            draft.tool,
            draft.origin,
            draft.importance,
            draft.confidence,
            recorded_at if draft.occurred_at is None else draft.occurred_at,
            recorded_at,
            recorded_at if draft.created_at is None else draft.created_at,
        )
        number = self.tx.number(
            "add_entry",
            id=entry.id,
            version=entry.version,
            address_id=address_id,
            seq=seq,
            kind=entry.kind,
            role=entry.role,
            name=entry.name,
            content=entry.content,
            metadata=entry.metadata,
            tool=entry.tool,
            origin=entry.origin,
            importance=entry.importance,
            confidence=entry.confidence,
            occurred_at=entry.occurred_at,
            recorded_at=recorded_at,
            created_at=draft.created_at,
            expires_at=expires_at,
            asks=measure_questions(entry.content),
        )
        return entry, number


def worker_space(tx: Tx, reach: TenantStore, clock: Clock, *, embeds: bool = True) -> Space:
    """The space of a tenant for a job."""
    return Space(tx, Principal(reach.key, "admin", "worker"), clock, clock.now(), None, embeds)


def written_for(user: str) -> str:
    """Return the tie of entries, by their negative numbers, to the user whose words they have, or whose run wrote them."""
    return f"wrote/{user}"
