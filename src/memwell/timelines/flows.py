"""Operations on flows and their sessions (contract system S0)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.access import Scope
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.owners import flow_facts, flow_timeline
from ..core.space import Erasure, Space
from ..core.turns import Messages, NewTurn, Turn, Turns, to_draft, to_turns, write_turns
from ..errors import NotFound
from ..facts.memories import Memory, session_memories
from ..facts.plans import Distilled, count_distilled
from ..jobs import queue
from ..model.fields import Cursor, Flow, Limit, SessionId, cut, from_cursor, to_cursor
from .sessions import NEWEST, await_receipt, erase_everything, list_names

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "content": "Where is my order?"}
_SESSION = {"flow": "support", "session": "alice-42"}
_GIVEN = (("flows.append", _TURN),)


class Append(NewTurn, frozen=True, kw_only=True):
    """A turn of a session. The first one creates the session."""

    flow: Flow
    session: SessionId


@operation(
    "flows.append",
    "POST /v1/flows/{flow}/sessions/{session}/turns",
    effect="write",
    owner="flow",
    status=201,
    example=Example(_TURN),
)
def append(space: Space, request: Append) -> Turn:
    """Record a turn of a session; the first one creates the session."""
    return write_turns(space, flow_timeline(request.flow), request.session, [to_draft(request)])[0]


class Extend(Request, frozen=True, kw_only=True):
    """Turns of a session. All of them are recorded, or none."""

    flow: Flow
    session: SessionId
    turns: Messages


@operation(
    "flows.extend",
    "POST /v1/flows/{flow}/sessions/{session}/turns/batch",
    effect="write",
    owner="flow",
    status=201,
    example=Example(
        {**_SESSION, "turns": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi, Alice"}]}
    ),
)
def extend(space: Space, request: Extend) -> Turns:
    """Record several turns of a session at once."""
    drafts = [to_draft(turn) for turn in request.turns]
    return Turns(turns=write_turns(space, flow_timeline(request.flow), request.session, drafts))


class Last(Request, frozen=True, kw_only=True):
    """The newest turns of a session to list."""

    flow: Flow
    session: SessionId
    limit: Limit = 20


@operation(
    "flows.last", "GET /v1/flows/{flow}/sessions/{session}/turns", owner="flow", example=Example(_SESSION, _GIVEN)
)
def last(space: Space, request: Last) -> Turns:
    """List the newest turns of a session, the oldest of them first."""
    address = space.address(flow_timeline(request.flow), request.session)
    return Turns(turns=[] if address is None else to_turns(space.last(address, request.limit), request.session))


class PageTurns(Request, frozen=True, kw_only=True):
    """A page of a session to list."""

    flow: Flow
    session: SessionId
    limit: Limit = 100
    order: Annotated[Literal["oldest_first", "newest_first"], Meta(description="`oldest_first` or `newest_first`.")] = (
        "oldest_first"
    )
    cursor: Cursor | None = None


@operation(
    "flows.page", "GET /v1/flows/{flow}/sessions/{session}/turns/page", owner="flow", example=Example(_SESSION, _GIVEN)
)
def page(space: Space, request: PageTurns) -> Turns:
    """List all turns of a session, a page at a time, in either direction."""
    address = space.address(flow_timeline(request.flow), request.session)
    if address is None:
        return Turns(turns=[])
    forward = request.order == "oldest_first"
    (seq,) = from_cursor(request.order, request.cursor, 0 if forward else NEWEST)
    if forward:
        entries = space.after(address, seq, request.limit + 1)
    else:
        entries = space.last(address, request.limit + 1, before=seq)[::-1]
    page_entries, further = cut(entries, request.limit, lambda entry: to_cursor(request.order, entry.seq))
    return Turns(turns=to_turns(page_entries, request.session), next_cursor=further)


class ListFlows(Request, frozen=True, kw_only=True):
    """A page of flows to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


class FlowInfo(Response, frozen=True, kw_only=True):
    """A summary of a flow."""

    flow: str
    sessions: int
    last_active_at: datetime


class Flows(Response, frozen=True, kw_only=True):
    """Flows by name."""

    flows: list[FlowInfo]
    next_cursor: str | None = None


@operation("flows.list", "GET /v1/flows", example=Example({}, _GIVEN))
def list_flows(space: Space, request: ListFlows) -> Flows:
    """List the flows that have memory."""
    rows, further = list_names(space, "flow", request.cursor, request.limit)
    flows = [FlowInfo(flow=name, sessions=count, last_active_at=to_datetime(seen)) for name, count, seen in rows]
    return Flows(flows=flows, next_cursor=further)


class OfSession(Request, frozen=True, kw_only=True):
    """A session of a flow."""

    flow: Flow
    session: SessionId


class Show(OfSession, frozen=True, kw_only=True):
    """A session to show, and the number of its turns."""

    limit: Limit = 200


class SessionView(Response, frozen=True, kw_only=True):
    """A session with its newest turns and its memories."""

    flow: str
    session: str
    created_at: datetime
    last_active_at: datetime
    turn_count: int
    turns: list[Turn]
    memories: list[Memory]
    distilled: Distilled
    ended_at: datetime | None = None


@operation("flows.show", "GET /v1/flows/{flow}/sessions/{session}", owner="flow", example=Example(_SESSION, _GIVEN))
def show(space: Space, request: Show) -> SessionView:
    """Show the turns and the memories of a session."""
    address = space.address(flow_timeline(request.flow), request.session)
    if address is None:
        raise NotFound("There is no such session in this flow.")
    (count,) = space.tx.row("count_entries", address_id=address.id, now=space.now) or (0,)
    return SessionView(
        flow=request.flow,
        session=request.session,
        created_at=to_datetime(address.created_at),
        last_active_at=to_datetime(address.last_seen_at),
        ended_at=optional_datetime(address.ended_at),
        turn_count=count,
        turns=to_turns(space.last(address, request.limit), request.session),
        memories=session_memories(space, request.flow, request.session),
        distilled=count_distilled(space, address),
    )


class Find(Request, frozen=True, kw_only=True):
    """A session id, in any flow."""

    session: SessionId


class Found(Response, frozen=True, kw_only=True):
    """The flows that have a session with this id."""

    session: str
    flows: list[str]


@operation("flows.find", "GET /v1/sessions/{session}", any_scope=True, example=Example({"session": "alice-42"}, _GIVEN))
def find(space: Space, request: Find) -> Found:
    """List the flows that have a session with this id."""
    rows = space.tx.rows("names_of_session", dialect="flow", path=request.session, now=space.now)
    scope = space.principal.scope
    return Found(
        session=request.session, flows=[name for (name,) in rows if scope is None or scope == Scope("flow", name)]
    )


class Ended(Response, frozen=True, kw_only=True):
    """An ended session, the job that consolidates it if there are new turns, and what became of the statements so far."""

    session: str
    ended_at: datetime | None
    job: str | None = None
    distilled: Distilled | None = None


@operation(
    "flows.end",
    "POST /v1/flows/{flow}/sessions/{session}/end",
    effect="write",
    owner="flow",
    example=Example(_SESSION, _GIVEN),
)
def end(space: Space, request: OfSession) -> Ended:
    """End a session and consolidate its turns into facts. A later turn reopens it."""
    address = space.address(flow_timeline(request.flow), request.session)
    if address is None:
        return Ended(session=request.session, ended_at=None)
    if not space.end(address):
        ended_at = optional_datetime(address.ended_at)
        return Ended(session=request.session, ended_at=ended_at, distilled=count_distilled(space, address))
    job = None
    if address.last_seq != address.distilled_seq:  # there are turns since the last end
        payload = {"to_seq": address.last_seq}
        job = queue.enqueue(space.tx, "consolidate", payload, space.now, address_id=address.id)
    counts = count_distilled(space, address)
    return Ended(session=request.session, ended_at=to_datetime(space.now), job=job, distilled=counts)


@operation(
    "flows.delete_session",
    "DELETE /v1/flows/{flow}/sessions/{session}",
    effect="erase",
    owner="flow",
    status=202,
    example=Example(_SESSION, _GIVEN),
)
def delete_session(space: Space, request: OfSession) -> Erasure:
    """Erase a session: its turns, its memories, and every trace of them."""
    from ..facts.retract import forget_session

    addresses = space.tx.rows("addresses_of_path", dialect="flow", name=request.flow, path=request.session)
    if not addresses:
        raise NotFound("There is no such session in this flow.")
    # Facts without another source are erased with it. Facts that they had superseded are current again (C43).
    timelines = [address_id for address_id, _, kind in addresses if kind == "timeline"]
    facts = sum(forget_session(space, flow_facts(request.flow), address_id) for address_id in timelines)
    return space.bury(addresses, {"facts": facts} if facts else None)


class DeleteFlow(Request, frozen=True, kw_only=True):
    """The flow to erase."""

    flow: Flow


@operation(
    "flows.delete",
    "DELETE /v1/flows/{flow}",
    effect="erase",
    role="admin",
    owner="flow",
    outside=True,
    patient=True,
    awaits=await_receipt,
    status=202,
    example=Example({"flow": "support"}, _GIVEN),
)
def delete(call: Call, request: DeleteFlow) -> Erasure:
    """Erase all memory of a flow, and the keys that are limited to it."""
    return erase_everything(call, "flow", request.flow)
