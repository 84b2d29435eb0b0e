"""What a flow knows: facts written directly, for the whole flow or for one session of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.places import flow_facts, flow_timeline
from ..core.space import Located, Space
from ..core.time_travel import AtATime, Dated, Moments, entries_then, facts_then, moments, version_then
from ..core.turns import to_metadata
from ..erasure.erase import erase_fact, forget_runs, scrub_later
from ..errors import Invalid, NotFound
from ..model import check
from ..model.collection import Address, Draft, Entry, Place
from ..model.fields import (
    AnyId,
    Confidence,
    Content,
    Cursor,
    FilterField,
    Flow,
    Importance,
    Limit,
    Metadata,
    SessionId,
    cut,
    from_cursor,
    to_cursor,
)
from ..model.filter import Filter, parse
from .store import StoredFact, write_corrected_fact, write_entry_fact

FLOW_PATH = ""
SHOWN = 200

_FACT = {"flow": "support", "content": "Ships to the EU only", "importance": 0.8}
_GIVEN = (("flows.write", _FACT),)
_ONE = {"flow": "support", "id": "$0.id"}


class Write(Request, frozen=True, kw_only=True):
    """A statement to remember as it stands."""

    flow: Flow
    content: Content
    importance: Importance = 0.5
    confidence: Confidence = 1.0
    session: SessionId | None = None
    metadata: Metadata | None = None


class Memory(Response, frozen=True, kw_only=True):
    """A remembered statement. `held` says why it is held back, if it is: it looks like a `secret` or an `instruction`."""

    id: str
    content: str
    importance: float
    confidence: float
    created_at: datetime
    updated_at: datetime
    version: int
    session: str | None = None
    metadata: dict[str, Any] | None = None
    origin: str | None = None
    subject: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    held: str | None = None


class Memories(Response, frozen=True, kw_only=True):
    """Memories in the order they were written."""

    memories: list[Memory]
    next_cursor: str | None = None


@operation(
    "flows.write", "POST /v1/flows/{flow}/memories", effect="write", bound="flow", status=201, example=Example(_FACT)
)
def write(space: Space, request: Write) -> Memory:
    """Remember a statement directly, for the flow or for one of its sessions."""
    draft = Draft(
        kind="fact",
        content=check.content(request.content),
        origin="system",
        importance=check.number(request.importance, "importance"),
        confidence=check.number(request.confidence, "confidence"),
        metadata=check.to_json(request.metadata),
    )
    if request.session is not None:
        # a session exists from the first thing that is put into it
        space.append(flow_timeline(request.flow), request.session, [])
    place = flow_facts(request.flow)
    entry = space.append(place, request.session or FLOW_PATH, [draft])[0]
    if request.session is None:
        write_entry_fact(space, place, entry)
    return to_memory(entry, request.session or FLOW_PATH)


class OfFlow(AtATime, frozen=True, kw_only=True):
    """Which memories to return."""

    flow: Flow
    session: SessionId | None = None
    filter: FilterField | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


@operation(
    "flows.memories", "GET /v1/flows/{flow}/memories", bound="flow", example=Example({"flow": "support"}, _GIVEN)
)
def memories(space: Space, request: OfFlow) -> Memories:
    """What the whole flow knows, or what was written for one of its sessions, in order; now, or at another time."""
    page = Page(request.limit, request.cursor, request.filter, moments(request))
    return list_memories(space, flow_facts(request.flow), request.session or FLOW_PATH, page)


class One(Request, frozen=True, kw_only=True):
    """Which memory."""

    flow: Flow
    id: AnyId


class OneThen(AtATime, frozen=True, kw_only=True):
    """Which memory, and as it was when."""

    flow: Flow
    id: AnyId


@operation("flows.memory", "GET /v1/flows/{flow}/memories/{id}", bound="flow", example=Example(_ONE, _GIVEN))
def memory(space: Space, request: OneThen) -> Memory:
    """One memory, as it is now or as it was at another time."""
    return read_memory(space, flow_facts(request.flow), request.id, moments(request))


class Changes(Request, frozen=True, kw_only=True):
    """What to change of a memory; what is left away stays."""

    content: Content | None = None
    importance: Importance | None = None
    confidence: Confidence | None = None
    metadata: Metadata | None = None
    version: Annotated[int, Meta(description="The version that was read, to be told of changes since.")] | None = None


class Update(Changes, frozen=True, kw_only=True):
    """Which memory to change, and how."""

    flow: Flow
    id: AnyId


@operation(
    "flows.update_memory",
    "PATCH /v1/flows/{flow}/memories/{id}",
    effect="write",
    bound="flow",
    example=Example({**_ONE, "content": "Ships to the EU and Norway"}, _GIVEN),
)
def update_memory(space: Space, request: Update) -> Memory:
    """Change a memory. Give the `version` that you read to be told if somebody changed it since."""
    return change_memory(space, flow_facts(request.flow), request.id, request)


class Deleted(Response, frozen=True, kw_only=True):
    """What was deleted, and the job that sees to it that no trace is left."""

    id: str
    job: str


@operation(
    "flows.delete_memory",
    "DELETE /v1/flows/{flow}/memories/{id}",
    effect="erase",
    bound="flow",
    status=202,
    example=Example(_ONE, _GIVEN),
)
def delete_memory(space: Space, request: One) -> Deleted:
    """Delete a memory and its history for good."""
    return erase_memory(space, flow_facts(request.flow), request.id)


def session_memories(space: Space, flow: str, session: str) -> list[Memory]:
    """The newest memories of one session: what was written for it, and what was distilled from it."""
    written = space.address(flow_facts(flow), session)
    found = [to_memory(entry, session) for entry in space.last(written, SHOWN)] if written else []
    said = space.address(flow_timeline(flow), session)
    if said is not None:
        rows = space.tx.rows("facts_in_session", address_id=said.id, limit=SHOWN)
        found += [to_memory(Entry(*row), FLOW_PATH) for row in rows]
    return found


# -- what flows and users do alike ---------------------------------------------------------------------------------------


class Page(NamedTuple):
    """Which part of a list: how many, from where on, which of them, and at which time."""

    limit: int
    cursor: str | None
    filter: dict[str, Any] | None
    at: Moments


def list_memories(space: Space, place: Place, path: str, page: Page) -> Memories:
    """A page of memories, in the order they were written."""
    address = space.address(place, path)
    if address is None:
        return Memories(memories=[])
    return _page_then(space, address, page) if page.at.given else _page_now(space, address, page)


def _page_now(space: Space, address: Address, page: Page) -> Memories:
    (seq,) = from_cursor("memories", page.cursor, 0)
    entries = space.after(address, seq, page.limit + 1, _condition(page), kind="fact")
    shown, further = cut(entries, page.limit, lambda entry: to_cursor("memories", entry.seq))
    return Memories(memories=to_memories(space, shown, address.path), next_cursor=further)


def _page_then(space: Space, address: Address, page: Page) -> Memories:
    """All pages show what was known at one moment, if need be that of the first: whatever is changed between them, nothing is
    left out or comes twice."""
    seq, begun_at = from_cursor("memories_then", page.cursor, 0, max(space.now, address.last_seen_at))
    at = page.at if page.at.as_of is not None else page.at._replace(as_of=begun_at)
    found = list(islice(facts_then(space, address, at, seq, _condition(page)), page.limit + 1))
    shown, further = cut(found, page.limit, lambda one: to_cursor("memories_then", one.seq, begun_at))
    return Memories(memories=_memories_then(space, shown), next_cursor=further)


def _condition(page: Page) -> Filter | None:
    return parse(page.filter) if page.filter else None


def read_memory(space: Space, place: Place, memory_id: str, at: Moments) -> Memory:
    if at.given:
        return _memories_then(space, [version_then(space, place, memory_id, at)])[0]
    located = existing(space, place, memory_id)
    return to_memories(space, [located.entry], located.path)[0]


def change_memory(space: Space, place: Place, memory_id: str, changes: Changes) -> Memory:
    located = existing(space, place, memory_id)
    old = located.entry
    content = old.content if changes.content is None else _statement(changes.content)
    draft = Draft(
        kind=old.kind,
        content=content,
        name=old.name,
        origin="system" if content != old.content else old.origin,  # type: ignore[arg-type]
        importance=old.importance if changes.importance is None else check.number(changes.importance, "importance"),
        confidence=old.confidence if changes.confidence is None else check.number(changes.confidence, "confidence"),
        metadata=old.metadata if changes.metadata is None else check.to_json(changes.metadata),
        occurred_at=old.occurred_at,
    )
    if _same(old, draft) and changes.version in (None, old.version):
        return to_memories(space, [old], located.path)[0]
    entry = space.revise(place, located, draft, changes.version)
    if located.path == FLOW_PATH:
        write_corrected_fact(space, place, entry)
    return to_memories(space, [entry], located.path)[0]


def _statement(text: str) -> str:
    if not text.strip():
        raise Invalid("A memory of blanks alone says nothing: give it words, or delete it.", field="content")
    return check.content(text)


def _same(old: Entry, draft: Draft) -> bool:
    changed = ("content", "importance", "confidence", "metadata")
    return all(getattr(old, name) == getattr(draft, name) for name in changed)


def erase_memory(space: Space, place: Place, memory_id: str) -> Deleted:
    located = space.entry(place, memory_id)
    address_id = _withdrawn(space, place, memory_id) if located is None else located.address_id
    if located is None or located.path == FLOW_PATH:
        from .retract import release_fact

        release_fact(space, place, memory_id)
    versions, answers = erase_fact(space.tx, memory_id, space.now)
    space.touch(space.collection(place)[0], address_id)
    forget_runs(space.tx, [address_id])
    return Deleted(id=memory_id, job=scrub_later(space.tx, space.now, {"facts": versions, "answers": answers}))


def _withdrawn(space: Space, place: Place, memory_id: str) -> int:
    """Where a memory is that was withdrawn: it can still be erased."""
    from .store import list_versions

    known = list_versions(space.tx, memory_id)
    row = space.tx.row("distilled_address", id=known[-1].address_id) if known else None
    if row is None or row[3] != space.found(place):
        raise NotFound(f"There is no such memory in this {place.dialect}.")
    return known[-1].address_id


def existing(space: Space, place: Place, memory_id: str) -> Located:
    located = space.entry(place, memory_id)
    if located is None:
        raise NotFound(f"There is no such memory in this {place.dialect}.")
    return located


def to_memories(space: Space, entries: Sequence[Entry], path: str) -> list[Memory]:
    """Memories with whom they are about and when they are true."""
    known = known_of(space, entries)
    return [to_memory(entry, path, known.get(entry.id)) for entry in entries]


def known_of(space: Space, entries: Sequence[Entry]) -> dict[str, StoredFact]:
    """What current memories are besides their entries, by their ids."""
    ids = msgspec.json.encode([entry.id for entry in entries]).decode()
    return {row[0]: StoredFact(*row) for row in space.tx.rows("facts_of", ids=ids)} if entries else {}


def _memories_then(space: Space, found: Sequence[Dated]) -> list[Memory]:
    entries = entries_then(space, found)
    return [to_memory(entry, path, one) for (entry, path), one in zip(entries, found, strict=True)]


def to_memory(entry: Entry, path: str, known: StoredFact | Dated | None = None) -> Memory:
    return Memory(
        id=entry.id,
        content=entry.content,
        importance=0.5 if entry.importance is None else entry.importance,
        confidence=1.0 if entry.confidence is None else entry.confidence,
        created_at=to_datetime(entry.created_at),
        updated_at=to_datetime(entry.recorded_at),
        version=entry.version,
        session=path or None,
        metadata=to_metadata(entry.metadata),
        origin=entry.origin,
        subject=known.subject if known else None,
        valid_from=optional_datetime(known.valid_from) if known else None,
        valid_to=optional_datetime(known.valid_to) if known else None,
        held=known.held if known else None,
    )
