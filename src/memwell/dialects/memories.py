"""What a flow knows: facts written directly, for the whole flow or for one session of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from ..clock import optional_datetime, to_datetime
from ..distill.facts import forget_in_plans, note_fact, note_revised
from ..distill.stored import Stored
from ..errors import NotFound
from ..lifecycle.erase import erase_fact, scrub_later
from ..model import check
from ..model.collection import Place
from ..model.entry import Draft, Entry
from ..model.fields import AnyId, Confidence, Content, Cursor, FilterField, Flow, Importance, Limit, Metadata, SessionId
from ..model.filter import parse
from ..model.page import cut, from_cursor, to_cursor
from ..operation import Example, Request, Response, operation
from ..space import Located, Space
from .places import flow_facts, flow_timeline
from .turns import to_metadata

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
    """A remembered statement."""

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
        note_fact(space, place, entry)
    return to_memory(entry, request.session or FLOW_PATH)


class OfFlow(Request, frozen=True, kw_only=True):
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
    """The memories written for the whole flow, or for one of its sessions, in order."""
    return list_memories(
        space, flow_facts(request.flow), request.session or FLOW_PATH, request.filter, request.cursor, request.limit
    )


class One(Request, frozen=True, kw_only=True):
    """Which memory."""

    flow: Flow
    id: AnyId


@operation("flows.memory", "GET /v1/flows/{flow}/memories/{id}", bound="flow", example=Example(_ONE, _GIVEN))
def memory(space: Space, request: One) -> Memory:
    """One memory."""
    return read_memory(space, flow_facts(request.flow), request.id)


class Changes(Request, frozen=True, kw_only=True):
    """What to change of a memory; what is left away stays."""

    content: Content | None = None
    importance: Importance | None = None
    confidence: Confidence | None = None
    metadata: Metadata | None = None
    version: int | None = None


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


OPERATIONS = (write, memories, memory, update_memory, delete_memory)


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


def list_memories(
    space: Space, place: Place, path: str, condition: dict[str, Any] | None, cursor: str | None, limit: int
) -> Memories:
    """A page of memories, in the order they were written."""
    address = space.address(place, path)
    if address is None:
        return Memories(memories=[])
    (seq,) = from_cursor("memories", cursor, 0)
    entries = space.after(address, seq, limit + 1, parse(condition) if condition else None, kind="fact")
    shown, further = cut(entries, limit, lambda entry: to_cursor("memories", entry.seq))
    return Memories(memories=to_memories(space, shown, path), next_cursor=further)


def read_memory(space: Space, place: Place, memory_id: str) -> Memory:
    located = existing(space, place, memory_id)
    return to_memories(space, [located.entry], located.path)[0]


def change_memory(space: Space, place: Place, memory_id: str, changes: Changes) -> Memory:
    located = existing(space, place, memory_id)
    old = located.entry
    draft = Draft(
        kind=old.kind,
        content=old.content if changes.content is None else check.content(changes.content),
        origin="system",
        importance=old.importance if changes.importance is None else check.number(changes.importance, "importance"),
        confidence=old.confidence if changes.confidence is None else check.number(changes.confidence, "confidence"),
        metadata=old.metadata if changes.metadata is None else check.to_json(changes.metadata),
        occurred_at=old.occurred_at,
    )
    entry = space.revise(place, located, draft, changes.version)
    if located.path == FLOW_PATH:
        note_revised(space, place, entry)
    return to_memories(space, [entry], located.path)[0]


def erase_memory(space: Space, place: Place, memory_id: str) -> Deleted:
    located = existing(space, place, memory_id)
    forget_in_plans(space.tx, memory_id)
    versions, answers = erase_fact(space.tx, memory_id)
    space.touch(space.collection(place)[0], located.address_id)
    return Deleted(id=memory_id, job=scrub_later(space.tx, space.now, {"facts": versions, "answers": answers}))


def existing(space: Space, place: Place, memory_id: str) -> Located:
    located = space.entry(place, memory_id)
    if located is None:
        raise NotFound(f"There is no such memory in this {place.dialect}.")
    return located


def to_memories(space: Space, entries: Sequence[Entry], path: str) -> list[Memory]:
    """Memories with whom they are about and when they are true."""
    ids = msgspec.json.encode([entry.id for entry in entries]).decode()
    known = {row[0]: Stored(*row) for row in space.tx.rows("facts_of", ids=ids)} if entries else {}
    return [to_memory(entry, path, known.get(entry.id)) for entry in entries]


def to_memory(entry: Entry, path: str, known: Stored | None = None) -> Memory:
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
    )
