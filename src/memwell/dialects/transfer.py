"""Export of a flow, a page of lines at a time. A line is a session, a turn or a memory; as JSON it is a line of a JSONL file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..distill.stored import Stored
from ..model.entry import Entry, Origin
from ..model.fields import (
    MAX_BATCH,
    MAX_CONTENT,
    AnyId,
    Confidence,
    Cursor,
    Flow,
    Importance,
    Label,
    Limit,
    Metadata,
    Role,
)
from ..model.page import from_cursor, to_cursor
from ..operation import Example, Request, Response, operation
from ..space import Space
from .memories import known_of
from .turns import ToolCalls, to_turn

Subject = Annotated[
    str, Meta(min_length=1, max_length=1000, description="Whom a memory is about, if it is somebody in particular.")
]

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "content": "Where is my order?"}


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words of a turn that a memory is based on: from which character to which."""

    session: AnyId
    turn: AnyId
    start: Annotated[int, Meta(ge=0, le=MAX_CONTENT)]
    end: Annotated[int, Meta(ge=0, le=MAX_CONTENT)]


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of an export."""

    type: Annotated[Literal["session", "turn", "memory"], Meta(description="`session`, `turn` or `memory`.")]
    session: AnyId | None = None
    id: AnyId | None = None
    role: Role | None = None
    content: str | None = None
    name: Label | None = None
    tool_name: Label | None = None
    tool_call_id: Label | None = None
    tool_calls: ToolCalls | None = None
    importance: Importance | None = None
    confidence: Confidence | None = None
    occurred_at: datetime | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    metadata: Metadata | None = None
    origin: Origin | None = None
    subject: Subject | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    evidence: Annotated[list[Words], Meta(max_length=MAX_BATCH)] | None = None
    distilled: Annotated[
        bool, Meta(description="Whether a turn was distilled: what it says is among the memories.")
    ] = False


class Export(Request, frozen=True, kw_only=True):
    """Which page of a flow to export."""

    flow: Flow
    limit: Limit = 500
    cursor: Cursor | None = None


class Lines(Response, frozen=True, kw_only=True):
    """A page of an export."""

    lines: list[Line]
    next_cursor: str | None = None


@operation(
    "flows.export",
    "GET /v1/flows/{flow}/export",
    bound="flow",
    example=Example({"flow": "support"}, (("flows.append", _TURN),)),
)
def export(space: Space, request: Export) -> Lines:
    """A page of everything in a flow: sessions, turns and memories, each session in order."""
    kind, path, seq = from_cursor("export", request.cursor, "timeline", "", 0)
    lines: list[Line] = []
    while len(lines) < request.limit:
        address = _address_from(space, request.flow, kind, path)
        if address is None:
            if kind == "facts":
                return Lines(lines=lines)
            kind, path, seq = "facts", "", 0
            continue
        seq = seq if address.path == path else 0
        wanted = request.limit - len(lines)
        query, given = ("next_entries", {}) if kind == "timeline" else ("next_of_kind", {"kind": "fact"})
        rows = space.tx.rows(query, address_id=address.id, after=seq, now=space.now, limit=wanted, **given)
        entries = [Entry(*row) for row in rows]
        lines += _turn_lines(entries, address) if kind == "timeline" else _memory_lines(space, entries, address)
        if len(rows) == wanted:
            return Lines(lines=lines, next_cursor=to_cursor("export", kind, address.path, rows[-1][2]))
        if kind == "timeline":
            lines.append(_session_line(address))
        path, seq = _following(address.path), 0
    return Lines(lines=lines, next_cursor=to_cursor("export", kind, path, seq))


class _Place(NamedTuple):
    """An address to export."""

    id: int
    path: str
    created_at: int
    ended_at: int | None
    distilled_seq: int


def _address_from(space: Space, flow: str, kind: str, path: str) -> _Place | None:
    """The first address whose path is at least this one."""
    row = space.tx.row("address_from", dialect="flow", name=flow, kind=kind, path=path, now=space.now)
    return None if row is None else _Place(*row)


def _following(path: str) -> str:
    return path + "\x01"


def _session_line(address: _Place) -> Line:
    """It stands after its turns, so that importing it ends what was ended."""
    return Line(
        type="session",
        session=address.path,
        created_at=to_datetime(address.created_at),
        ended_at=optional_datetime(address.ended_at),
    )


def _turn_lines(entries: Sequence[Entry], address: _Place) -> list[Line]:
    return [_turn_line(entry, address) for entry in entries]


def _turn_line(entry: Entry, address: _Place) -> Line:
    session = address.path
    turn = to_turn(entry, session)
    return Line(
        type="turn",
        id=turn.id,
        session=session,
        role=entry.role,  # type: ignore[arg-type]
        content=turn.content,
        name=turn.name,
        tool_name=turn.tool_name,
        tool_call_id=turn.tool_call_id,
        tool_calls=turn.tool_calls,
        occurred_at=turn.occurred_at,
        created_at=turn.created_at,
        metadata=turn.metadata,
        origin=turn.origin,  # type: ignore[arg-type]
        distilled=entry.seq <= address.distilled_seq,
    )


def _memory_lines(space: Space, entries: Sequence[Entry], address: _Place) -> list[Line]:
    known = known_of(space, entries)
    lines = [_memory_line(entry, address.path, known.get(entry.id)) for entry in entries]
    return [msgspec.structs.replace(line, evidence=_evidence(space, line.id or "")) for line in lines]


def _evidence(space: Space, fact_id: str) -> list[Words] | None:
    rows = space.tx.rows("evidence_of", fact_id=fact_id, now=space.now)
    return [Words(session=row[6], turn=row[0], start=row[1], end=row[2]) for row in rows[:MAX_BATCH] if row[6]] or None


def _memory_line(entry: Entry, path: str, known: Stored | None) -> Line:
    return Line(
        type="memory",
        id=entry.id,
        session=path or None,
        content=entry.content,
        name=entry.name,
        importance=entry.importance,
        confidence=entry.confidence,
        occurred_at=to_datetime(entry.occurred_at),
        created_at=to_datetime(entry.created_at),
        metadata=msgspec.json.decode(entry.metadata) if entry.metadata else None,
        origin=entry.origin,  # type: ignore[arg-type]
        subject=known.subject if known else None,
        valid_from=optional_datetime(known.valid_from) if known else None,
        valid_to=optional_datetime(known.valid_to) if known else None,
    )
