"""The agent log: the observations, tool calls and decisions of an agent, per session. It is sealed, ordered and exact (S4)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.operation import Example, Request, Response, operation
from ..core.owners import AGENT_LOG as LOG
from ..core.space import Erasure, Space
from ..errors import NotFound
from ..model.collection import Draft, Entry, Origin
from ..model.fields import After, Content, Kind, Limit, SessionId, check_content
from .sessions import NEWEST

PAGE = 1000
_ORIGINS: dict[str, Origin] = {"tool_call": "tool", "observation": "tool", "decision": "assistant"}

_ENTRY = {"session": "abc-123", "entry_type": "observation", "content": "User confirmed the report looked correct."}
_GIVEN = (("log.append", _ENTRY),)


class LogEntry(Response, frozen=True, kw_only=True):
    """An entry of an agent log."""

    entry_type: str
    content: str
    created_at: datetime
    id: str
    seq: int


class AgentSession(Response, frozen=True, kw_only=True):
    """A session that an agent has logged to."""

    id: str
    created_at: datetime
    last_seen_at: datetime
    ended_at: datetime | None = None


class AppendLog(Request, frozen=True, kw_only=True):
    """An entry to log."""

    session: SessionId
    entry_type: Kind
    content: Content


@operation(
    "log.append", "POST /api/agent-memory/{session}", effect="write", status=201, envelope=True, example=Example(_ENTRY)
)
def append(space: Space, request: AppendLog) -> LogEntry:
    """Append an entry to a session's log; the first one creates the session."""
    draft = Draft(
        kind=request.entry_type,
        content=check_content(request.content),
        origin=_ORIGINS.get(request.entry_type, "system"),
    )
    return _to_response(space.append(LOG, request.session, [draft])[0])


class Entries(Request, frozen=True, kw_only=True):
    """Entries of a session's log to list: all, or some after a sequence number."""

    session: SessionId
    after: After = 0
    limit: Limit | None = None


@operation(
    "log.entries", "GET /api/agent-memory/{session}", envelope=True, example=Example({"session": "abc-123"}, _GIVEN)
)
def entries(space: Space, request: Entries) -> list[LogEntry]:
    """List every entry of a session's log in order."""
    address = space.address(LOG, request.session)
    if address is None:
        return []
    if request.limit is not None:
        return [_to_response(entry) for entry in space.after(address, request.after, request.limit)]
    found: list[LogEntry] = []
    seq = request.after
    while page := space.after(address, seq, PAGE):
        found += map(_to_response, page)
        seq = page[-1].seq
    return found


class ListSessions(Request, frozen=True, kw_only=True):
    """Sessions to list: the active ones, or all."""

    status: Annotated[Literal["active", "all"], Meta(description="`active`, or `all` to include ended sessions.")] = (
        "active"
    )


@operation("log.sessions", "GET /api/agent-sessions", envelope=True, example=Example({}, _GIVEN))
def sessions(space: Space, request: ListSessions) -> list[AgentSession]:
    """List the active sessions that agents have logged to, the newest first."""
    found: list[AgentSession] = []
    before, before_id = NEWEST, NEWEST
    while True:
        rows = space.rows(
            "list_addresses", LOG, before=before, before_id=before_id, ended=int(request.status == "all"), limit=PAGE
        )
        found += [
            AgentSession(
                id=path,
                created_at=to_datetime(created_at),
                last_seen_at=to_datetime(last_seen_at),
                ended_at=optional_datetime(ended_at),
            )
            for path, created_at, last_seen_at, ended_at, _, _ in rows
        ]
        if len(rows) < PAGE:
            return found
        before, before_id = rows[-1][1], rows[-1][4]


class OfSession(Request, frozen=True, kw_only=True):
    """A session."""

    session: SessionId


@operation(
    "log.end",
    "POST /api/agent-sessions/{session}/end",
    effect="write",
    envelope=True,
    example=Example({"session": "abc-123"}, _GIVEN),
)
def end(space: Space, request: OfSession) -> AgentSession:
    """Mark a session as ended. Its log stays readable, and a later entry reopens it."""
    address = space.address(LOG, request.session)
    if address is None:
        raise NotFound("There is no such session.")
    ended_at = space.now if space.end(address) else address.ended_at
    return AgentSession(
        id=request.session,
        created_at=to_datetime(address.created_at),
        last_seen_at=to_datetime(address.last_seen_at),
        ended_at=optional_datetime(ended_at),
    )


@operation(
    "log.delete",
    "DELETE /api/agent-memory/{session}",
    effect="erase",
    status=202,
    envelope=True,
    example=Example({"session": "abc-123"}, _GIVEN),
)
def delete(space: Space, request: OfSession) -> Erasure:
    """Erase a session's log."""
    addresses = space.tx.rows("addresses_of_path", dialect=LOG.dialect, name=LOG.name, path=request.session)
    if not addresses:
        raise NotFound("There is no such session.")
    return space.bury(addresses)


def _to_response(entry: Entry) -> LogEntry:
    return LogEntry(
        entry_type=entry.kind,
        content=entry.content,
        created_at=to_datetime(entry.recorded_at),
        id=entry.id,
        seq=entry.seq,
    )
