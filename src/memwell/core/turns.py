"""Turns of users and flows: their types, writing them (`write_turns`), and the newest turns across sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .. import typed
from ..clock import to_datetime
from ..model.collection import ORIGIN_OF_ROLE, TRUST, Draft, Entry, Origin, Place
from ..model.field_readers import moment_limits
from ..model.fields import (
    MAX_BATCH,
    MAX_ID,
    Label,
    Metadata,
    Role,
    check_content,
    encode_metadata,
    to_instant,
    to_json,
    to_metadata,
)
from .operation import Request, Response
from .space import Space

TurnText = Annotated[
    str,
    Meta(description="The text of the turn, 1 byte to 1 MiB, kept exactly. It may be empty if there are `tool_calls`."),
]
OccurredAt = Annotated[datetime, moment_limits("Time of the turn, if not now")]
ToolCalls = Annotated[
    list[dict[str, Any]], Meta(max_length=100, description="The tool calls that an assistant asked for.")
]


PassedOn = Annotated[
    Literal["tool", "document"],
    Meta(
        description="The source of the text, if the speaker only passes it on: `tool` or `document`. Such text is trusted less "
        "than the speaker's own words."
    ),
]


Speaker = Annotated[
    Label,
    Meta(
        description="The id of the user who speaks. Facts from turns of one id are about one person, in whatever session. It is "
        "kept in the metadata. The turn is erased when that user is forgotten."
    ),
]


class NewTurn(Request, frozen=True, kw_only=True):
    """A turn to record."""

    role: Role
    content: TurnText = ""
    name: Label | None = None
    user: Speaker | None = None
    tool_name: Label | None = None
    tool_call_id: Label | None = None
    tool_calls: ToolCalls | None = None
    occurred_at: OccurredAt | None = None
    metadata: Metadata | None = None
    origin: PassedOn | None = None


Messages = Annotated[
    list[NewTurn], Meta(min_length=1, max_length=MAX_BATCH, description=f"1 to {MAX_BATCH} turns, the oldest first.")
]


class Turn(Response, frozen=True, kw_only=True):
    """A recorded turn. `seq` counts the turns of its session without gaps; `origin` is set if the speaker passed the text on."""

    id: str
    seq: int
    session: str
    role: str
    content: str
    created_at: datetime
    occurred_at: datetime
    name: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    origin: str | None = None


class Turns(Response, frozen=True, kw_only=True):
    """Turns, the oldest first."""

    turns: list[Turn]
    next_cursor: str | None = None


class _Tool(msgspec.Struct, omit_defaults=True):
    name: str | None = None
    call_id: str | None = None
    calls: list[dict[str, Any]] | None = None


_decode_tool = typed.decoder(_Tool)


def write_turns(space: Space, place: Place, session: str, drafts: Sequence[Draft]) -> list[Turn]:
    """Write turns to a session, which is created if it is new."""
    return to_turns(space.append(place, session, drafts), session)


def to_draft(turn: NewTurn) -> Draft:
    """Check a turn and convert it to a draft of an entry."""
    tool = None
    if turn.tool_name or turn.tool_call_id or turn.tool_calls:
        calls = msgspec.to_builtins(turn.tool_calls)
        tool = to_json(msgspec.to_builtins(_Tool(turn.tool_name, turn.tool_call_id, calls)), "tool_calls", 1 << 20)
    metadata = turn.metadata if turn.user is None else {**(turn.metadata or {}), "user": turn.user}
    return Draft(
        kind="turn",
        role=turn.role,
        content=check_content(turn.content, may_be_empty=bool(turn.tool_calls)),
        name=turn.name,
        tool=tool,
        metadata=encode_metadata(metadata),
        origin=_origin(turn),
        occurred_at=to_instant(turn.occurred_at),
        user=_find_user(metadata),
    )


def _find_user(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the user whom the metadata name, as they do in an imported turn. A longer text is no id of a user."""
    user = (metadata or {}).get("user")
    return user if isinstance(user, str) and 0 < len(user) <= MAX_ID else None


def _origin(turn: NewTurn) -> Origin:
    own = ORIGIN_OF_ROLE[turn.role]
    return own if turn.origin is None or TRUST[own] < TRUST[turn.origin] else turn.origin


def to_turn(entry: Entry, session: str) -> Turn:
    tool = _decode_tool(entry.tool) if entry.tool else None
    created_at = to_datetime(entry.recorded_at)
    return Turn(
        id=entry.id,
        seq=entry.seq,
        session=session,
        role=entry.role or "",
        content=entry.content,
        created_at=created_at,
        occurred_at=created_at if entry.occurred_at == entry.recorded_at else to_datetime(entry.occurred_at),
        name=entry.name,
        tool_name=tool.name if tool else None,
        tool_call_id=tool.call_id if tool else None,
        tool_calls=tool.calls if tool else None,
        metadata=to_metadata(entry.metadata),
        origin=find_foreign_origin(entry),
    )


def find_foreign_origin(entry: Entry) -> str | None:
    """Return the source of a turn that its speaker has passed on; None for the speaker's own words."""
    return entry.origin if entry.origin != ORIGIN_OF_ROLE.get(entry.role or "") else None


def to_turns(entries: Sequence[Entry], session: str) -> list[Turn]:
    return [to_turn(entry, session) for entry in entries]


def list_newest(
    space: Space, place: Place, session: str | None, before: list[int], limit: int
) -> list[tuple[str, Entry, int]]:
    """Turns across sessions, the newest first. A session is read only if its turns can be among them."""
    found: list[tuple[str, Entry, int]] = []
    for address_id, path, last_seen_at in space.rows("recent_addresses", place):
        if session is not None and path != session:
            continue
        if len(found) == limit and found[-1][1].recorded_at > last_seen_at:
            break
        found += [(path, entry, address_id) for entry in _entries_before(space, address_id, before, limit)]
        found.sort(key=lambda hit: (hit[1].recorded_at, hit[2], hit[1].seq), reverse=True)
        del found[limit:]
    return found


def _entries_before(space: Space, address_id: int, before: list[int], limit: int) -> list[Entry]:
    at, before_address, before_seq = before
    rows = space.tx.rows(
        "last_entries_before",
        address_id=address_id,
        before=at,
        before_address=before_address,
        before_seq=before_seq,
        now=space.now,
        limit=limit,
    )
    return [Entry(*row) for row in rows]
