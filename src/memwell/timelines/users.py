"""Operations on users and their turns."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, structs

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.owners import IDLE, user_timeline
from ..core.space import Erasure, Space
from ..core.turns import (
    Messages,
    NewTurn,
    OccurredAt,
    Turn,
    Turns,
    TurnText,
    list_newest,
    to_draft,
    to_turn,
    write_turns,
)
from ..errors import Invalid
from ..facts.search import NOTES
from ..ids import new_id
from ..jobs import queue
from ..model.collection import Draft, Place
from ..model.fields import Cursor, Limit, Metadata, SessionId, User, cut, from_cursor, to_cursor
from .sessions import NEWEST, await_receipt, erase_everything, list_names

AUTO = "auto:"
AFTER_AUTO = "auto;"
"""The first string that sorts after all automatic names of sessions."""

_HELLO = {"user": "alice", "content": "I am vegetarian and moved to Porto."}


class Add(Request, frozen=True, kw_only=True):
    """A text or messages to remember."""

    user: User
    content: TurnText | None = None
    messages: Messages | None = None
    session: Annotated[
        SessionId | None,
        Meta(
            description="The session. If it is omitted, turns within half an hour of each other belong to one session."
        ),
    ] = None
    occurred_at: OccurredAt | None = None
    metadata: Metadata | None = None


class Added(Response, frozen=True, kw_only=True):
    """The recorded turns and their session."""

    session: str
    turns: list[Turn]


@operation(
    "users.add", "POST /v1/users/{user}/turns", effect="write", owner="user", status=201, example=Example(_HELLO)
)
def add(space: Space, request: Add) -> Added:
    """Remember a text of the user, or messages of several speakers."""
    drafts = [to_draft(turn) for turn in _turns(request)]
    if request.messages is None:
        drafts = [_to_note(draft) for draft in drafts]
    place = user_timeline(request.user)
    session = request.session or _current_session(space, place)
    turns = write_turns(space, place, session, drafts)
    for address_id in space.touched:
        queue.ensure_slot(space.tx, "consolidate", space.now, space.now, address_id=address_id)
    return Added(session=session, turns=turns)


def _to_note(draft: Draft) -> Draft:
    """Make a text searchable until it is consolidated, unless it is suspicious."""
    from ..screening.screen import find_suspicion

    return draft if find_suspicion(draft.content, draft.origin) else structs.replace(draft, kind=NOTES[0])


class History(Request, frozen=True, kw_only=True):
    """A page of turns to list."""

    user: User
    limit: Limit = 20
    session: SessionId | None = None
    cursor: Cursor | None = None


@operation(
    "users.history",
    "GET /v1/users/{user}/turns",
    owner="user",
    example=Example({"user": "alice"}, (("users.add", _HELLO),)),
)
def history(space: Space, request: History) -> Turns:
    """List the newest turns of a user, the oldest of them first. The cursor leads to older ones."""
    place = user_timeline(request.user)
    before = from_cursor("history", request.cursor, NEWEST, NEWEST, NEWEST)
    found = list_newest(space, place, request.session, before, request.limit + 1)
    page, further = cut(found, request.limit, lambda hit: to_cursor("history", hit[1].recorded_at, hit[2], hit[1].seq))
    return Turns(turns=[to_turn(entry, path) for path, entry, _ in reversed(page)], next_cursor=further)


class ListUsers(Request, frozen=True, kw_only=True):
    """A page of users to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


class UserInfo(Response, frozen=True, kw_only=True):
    """A summary of a user."""

    user: str
    sessions: int
    last_active_at: datetime


class Users(Response, frozen=True, kw_only=True):
    """Users by name."""

    users: list[UserInfo]
    next_cursor: str | None = None


@operation("users.list", "GET /v1/users", example=Example({}, (("users.add", _HELLO),)))
def list_users(space: Space, request: ListUsers) -> Users:
    """List the users that have memory."""
    rows, further = list_names(space, "user", request.cursor, request.limit)
    users = [UserInfo(user=name, sessions=count, last_active_at=to_datetime(seen)) for name, count, seen in rows]
    return Users(users=users, next_cursor=further)


class Forget(Request, frozen=True, kw_only=True):
    """The user to forget."""

    user: User


@operation(
    "users.forget",
    "DELETE /v1/users/{user}",
    effect="erase",
    owner="user",
    outside=True,
    patient=True,
    awaits=await_receipt,
    status=202,
    example=Example({"user": "alice"}, (("users.add", {"user": "alice", "content": "Good morning!"}),)),
)
def forget(call: Call, request: Forget) -> Erasure:
    """Erase everything about a user: turns, facts, records, files, the content of stores and definitions, runs and what they
    wrote, keys of banks that are users, and API keys of the user. The job's result is the receipt; `kept` lists what it has
    not reached."""
    return erase_everything(call, "user", request.user)


def _turns(request: Add) -> list[NewTurn]:
    if (request.content is None) == (request.messages is None):
        raise Invalid("Give either `content` (a text) or `messages` (a list of turns).", field="content")
    if request.messages is not None:
        if request.occurred_at is not None or request.metadata is not None:
            raise Invalid("With `messages`, each message has its own `occurred_at` and `metadata`.", field="messages")
        return request.messages
    return [
        NewTurn(role="user", content=request.content or "", occurred_at=request.occurred_at, metadata=request.metadata)
    ]


def _current_session(space: Space, place: Place) -> str:
    """Return the current session, or the name of a new one after some idle time."""
    collection_id, policy = space.collection(place)
    row = space.tx.row("latest_address", collection_id=collection_id, low=AUTO, high=AFTER_AUTO, now=space.now)
    if row is not None:
        path, last_seen_at, ended_at = row
        if ended_at is None and space.now - last_seen_at <= (policy.idle_us or IDLE):
            return str(path)
    return AUTO + new_id()
