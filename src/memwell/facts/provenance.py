"""Where facts come from: their history and evidence, those that are held back, and taking back what a source has said."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.places import flow_facts, flow_timeline, user_facts, user_timeline
from ..core.space import Space
from ..errors import Conflict, Invalid, NotFound
from ..model.collection import Place
from ..model.fields import AnyId, Cursor, Flow, Limit, SessionId, User, cut, from_cursor, to_cursor
from .memories import FLOW_PATH, Memories, Memory, existing, to_memories
from .plans import FLOW_DONE, USER_DONE
from .store import Ending, end_fact, list_versions

SourceId = Annotated[AnyId, Meta(description="The id of one turn.")]

_FLOW_FACT = {"flow": "support", "id": "$1.plan.steps.0.id"}
_USER_FACT = {"user": "alice", "id": "$1.plan.steps.0.id"}
_FLOW_HELD = (
    (
        "flows.append",
        {"flow": "support", "session": "bad", "role": "user", "name": "Eve", "content": "My password is hunter2."},
    ),
    ("flows.consolidate", {"flow": "support", "session": "bad"}),
)
_USER_HELD = (
    ("users.add", {"user": "eve", "session": "bad", "content": "My password is hunter2."}),
    ("users.consolidate", {"user": "eve", "session": "bad"}),
)


class Version(Response, frozen=True, kw_only=True):
    """A fact as it was known for a time: `fact`, `past` (true once) or `held` (not released yet)."""

    version: int
    kind: str
    content: str
    confidence: float
    known_from: datetime
    known_to: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    plan: str | None = None
    held: str | None = None


class Evidence(Response, frozen=True, kw_only=True):
    """Words that a fact is based on. Of a turn that has expired they are gone, and only when it was said is left."""

    turn: str
    origin: str
    said_at: datetime
    start: int
    end: int
    expired: bool
    session: str | None = None
    role: str | None = None
    name: str | None = None
    words: str | None = None
    plan: str | None = None


class MemoryHistory(Response, frozen=True, kw_only=True):
    """All versions of a fact, the oldest first, and what it is based on."""

    id: str
    versions: list[Version]
    evidence: list[Evidence]
    subject: str | None = None


class Revoked(Response, frozen=True, kw_only=True):
    """The facts that were withdrawn, since all that they were based on was revoked, and how many others lost evidence."""

    withdrawn: list[str]
    weakened: int


class OfFlow(Request, frozen=True, kw_only=True):
    """Which memory of a flow."""

    flow: Flow
    id: AnyId


class OfUser(Request, frozen=True, kw_only=True):
    """Which memory of a user."""

    user: User
    id: AnyId


class HeldOfFlow(Request, frozen=True, kw_only=True):
    """Which page to return."""

    flow: Flow
    limit: Limit = 50
    cursor: Cursor | None = None


class HeldOfUser(Request, frozen=True, kw_only=True):
    """Which page to return."""

    user: User
    limit: Limit = 50
    cursor: Cursor | None = None


class RevokeOfFlow(Request, frozen=True, kw_only=True):
    """What is not to be believed any more: all of a session, or one turn."""

    flow: Flow
    session: SessionId | None = None
    turn: SourceId | None = None


class RevokeOfUser(Request, frozen=True, kw_only=True):
    """What is not to be believed any more: all of a conversation, or one turn."""

    user: User
    session: SessionId | None = None
    turn: SourceId | None = None


@operation(
    "flows.memory_history",
    "GET /v1/flows/{flow}/memories/{id}/history",
    bound="flow",
    example=Example(_FLOW_FACT, FLOW_DONE),
)
def history_of_flow(space: Space, request: OfFlow) -> MemoryHistory:
    """A fact's versions, and its evidence down to the words of the turn."""
    return _history(space, flow_facts(request.flow), request.id)


@operation(
    "users.memory_history",
    "GET /v1/users/{user}/memories/{id}/history",
    bound="user",
    example=Example(_USER_FACT, USER_DONE),
)
def history_of_user(space: Space, request: OfUser) -> MemoryHistory:
    """A fact's versions, and its evidence down to the words of the turn."""
    return _history(space, user_facts(request.user), request.id)


@operation("flows.held", "GET /v1/flows/{flow}/held", bound="flow", example=Example({"flow": "support"}, _FLOW_HELD))
def held_of_flow(space: Space, request: HeldOfFlow) -> Memories:
    """Statements that look like instructions to the agent or like secrets. They are used for nothing until released."""
    return _held(space, flow_facts(request.flow), request.cursor, request.limit)


@operation("users.held", "GET /v1/users/{user}/held", bound="user", example=Example({"user": "eve"}, _USER_HELD))
def held_of_user(space: Space, request: HeldOfUser) -> Memories:
    """Statements that look like instructions to the agent or like secrets. They are used for nothing until released."""
    return _held(space, user_facts(request.user), request.cursor, request.limit)


@operation(
    "flows.release",
    "POST /v1/flows/{flow}/held/{id}/release",
    effect="write",
    bound="flow",
    example=Example(_FLOW_FACT, _FLOW_HELD),
)
def release_of_flow(space: Space, request: OfFlow) -> Memory:
    """Let a statement that is held back be a fact like any other."""
    return _release(space, flow_facts(request.flow), request.id)


@operation(
    "users.release",
    "POST /v1/users/{user}/held/{id}/release",
    effect="write",
    bound="user",
    example=Example({**_USER_FACT, "user": "eve"}, _USER_HELD),
)
def release_of_user(space: Space, request: OfUser) -> Memory:
    """Let a statement that is held back be a fact like any other."""
    return _release(space, user_facts(request.user), request.id)


@operation(
    "flows.revoke",
    "POST /v1/flows/{flow}/revoke",
    effect="write",
    bound="flow",
    example=Example({"flow": "support", "session": "alice-42"}, FLOW_DONE),
)
def revoke_of_flow(space: Space, request: RevokeOfFlow) -> Revoked:
    """Withdraw everything that is known only from a session, or from one turn. What was said stays."""
    return _revoke(space, flow_facts(request.flow), flow_timeline(request.flow), request.session, request.turn)


@operation(
    "users.revoke",
    "POST /v1/users/{user}/revoke",
    effect="write",
    bound="user",
    example=Example({"user": "alice", "session": "monday"}, USER_DONE),
)
def revoke_of_user(space: Space, request: RevokeOfUser) -> Revoked:
    """Withdraw everything that is known only from a conversation, or from one turn. What was said stays."""
    return _revoke(space, user_facts(request.user), user_timeline(request.user), request.session, request.turn)


# -- what both do --------------------------------------------------------------------------------------------------------


def _history(space: Space, facts: Place, fact_id: str) -> MemoryHistory:
    known = list_versions(space.tx, fact_id)
    if not known or not _is_in(space, facts, known[-1].address_id):
        raise NotFound("There is no such memory here.")
    rows = space.tx.rows("evidence_of", fact_id=fact_id, now=space.now)
    return MemoryHistory(
        id=fact_id,
        subject=known[-1].subject,
        versions=[
            Version(
                version=one.version,
                kind=one.kind,
                content=one.content,
                confidence=1.0 if one.confidence is None else one.confidence,
                known_from=to_datetime(one.recorded_at),
                known_to=optional_datetime(one.retired_at),
                valid_from=optional_datetime(one.valid_from),
                valid_to=optional_datetime(one.valid_to),
                plan=one.plan_id,
                held=one.held,
            )
            for one in known
        ],
        evidence=[
            Evidence(
                turn=entry_id,
                origin=origin,
                said_at=to_datetime(said_at),
                start=start,
                end=end,
                expired=content is None,
                session=path,
                role=role,
                name=name,
                words=None if content is None else content[start:end],
                plan=plan_id or None,
            )
            for entry_id, start, end, origin, said_at, plan_id, path, content, role, name, _ in rows
        ],
    )


def _is_in(space: Space, facts: Place, address_id: int) -> bool:
    row = space.tx.row("distilled_address", id=address_id)
    return row is not None and row[3] == space.found(facts)


def _held(space: Space, facts: Place, cursor: str | None, limit: int) -> Memories:
    address = space.address(facts, FLOW_PATH)
    if address is None:
        return Memories(memories=[])
    (seq,) = from_cursor("held", cursor, 0)
    entries = space.after(address, seq, limit + 1, kind="held")
    shown, further = cut(entries, limit, lambda entry: to_cursor("held", entry.seq))
    return Memories(memories=to_memories(space, shown, FLOW_PATH), next_cursor=further)


def _release(space: Space, facts: Place, fact_id: str) -> Memory:
    located = existing(space, facts, fact_id)
    if located.entry.kind != "held":
        raise Conflict("This memory is not held back.")
    end_fact(space, facts, located, Ending("fact", None))
    return to_memories(space, [existing(space, facts, fact_id).entry], FLOW_PATH)[0]


def _revoke(space: Space, facts: Place, timeline: Place, session: str | None, turn: str | None) -> Revoked:
    from .retract import revoke_source

    if (session is None) == (turn is None):
        raise Invalid("Give either a `session` or a `turn` to revoke.", field="session")
    address_id = None
    if session is not None:
        address = space.address(timeline, session)
        if address is None:
            raise NotFound("There is no such session.")
        address_id = address.id
    withdrawn, weakened = revoke_source(space, facts, address_id=address_id, entry_id=turn)
    return Revoked(withdrawn=withdrawn, weakened=weakened)
