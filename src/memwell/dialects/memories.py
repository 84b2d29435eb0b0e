"""What a flow knows: facts written directly, for the whole flow or for one session of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..clock import to_datetime
from ..errors import NotFound
from ..lifecycle.erase import scrub_later
from ..model import check
from ..model.entry import Draft, Entry
from ..model.fields import AnyId, Confidence, Content, Cursor, FilterField, Flow, Importance, Limit, Metadata, SessionId
from ..model.filter import parse
from ..model.page import cut, from_cursor, to_cursor
from ..operation import Example, Request, Response, operation
from ..recall import upkeep
from ..space import Located, Space
from .places import flow_facts, flow_timeline
from .turns import to_metadata

FLOW_PATH = ""

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
    entry = space.append(flow_facts(request.flow), request.session or FLOW_PATH, [draft])[0]
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
    path = request.session or FLOW_PATH
    address = space.address(flow_facts(request.flow), path)
    if address is None:
        return Memories(memories=[])
    (seq,) = from_cursor("memories", request.cursor, 0)
    condition = parse(request.filter) if request.filter else None
    entries = space.after(address, seq, request.limit + 1, condition)
    shown, further = cut(entries, request.limit, lambda entry: to_cursor("memories", entry.seq))
    return Memories(memories=[to_memory(entry, path) for entry in shown], next_cursor=further)


class One(Request, frozen=True, kw_only=True):
    """Which memory."""

    flow: Flow
    id: AnyId


@operation("flows.memory", "GET /v1/flows/{flow}/memories/{id}", bound="flow", example=Example(_ONE, _GIVEN))
def memory(space: Space, request: One) -> Memory:
    """One memory."""
    located = _existing(space, request)
    return to_memory(located.entry, located.path)


class Update(One, frozen=True, kw_only=True):
    """What to change; what is left away stays."""

    content: Content | None = None
    importance: Importance | None = None
    confidence: Confidence | None = None
    metadata: Metadata | None = None
    version: int | None = None


@operation(
    "flows.update_memory",
    "PATCH /v1/flows/{flow}/memories/{id}",
    effect="write",
    bound="flow",
    example=Example({**_ONE, "content": "Ships to the EU and Norway"}, _GIVEN),
)
def update_memory(space: Space, request: Update) -> Memory:
    """Change a memory. Give the `version` that you read to be told if somebody changed it since."""
    located = _existing(space, request)
    old = located.entry
    draft = Draft(
        kind=old.kind,
        content=old.content if request.content is None else check.content(request.content),
        origin="system",
        importance=old.importance if request.importance is None else check.number(request.importance, "importance"),
        confidence=old.confidence if request.confidence is None else check.number(request.confidence, "confidence"),
        metadata=old.metadata if request.metadata is None else check.to_json(request.metadata),
        occurred_at=old.occurred_at,
    )
    entry = space.revise(flow_facts(request.flow), located, draft, request.version)
    return to_memory(entry, located.path)


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
    located = _existing(space, request)
    answers = space.tx.run("erase_idempotency_of_entry", address_id=located.address_id, entry_id=request.id)
    upkeep.remove(space.tx, space.tx.rows("docids_of_entry", id=request.id))
    versions = space.tx.run("delete_entry", id=request.id)
    space.touch(space.collection(flow_facts(request.flow))[0], located.address_id)
    return Deleted(id=request.id, job=scrub_later(space.tx, space.now, {"facts": versions, "answers": answers}))


OPERATIONS = (write, memories, memory, update_memory, delete_memory)


def session_memories(space: Space, flow: str, session: str) -> list[Memory]:
    """The newest memories of one session."""
    address = space.address(flow_facts(flow), session)
    if address is None:
        return []
    return [to_memory(entry, session) for entry in space.last(address, 200)]


def to_memory(entry: Entry, path: str) -> Memory:
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
    )


def _existing(space: Space, request: One) -> Located:
    located = space.entry(flow_facts(request.flow), request.id)
    if located is None:
        raise NotFound("There is no such memory in this flow.")
    return located
