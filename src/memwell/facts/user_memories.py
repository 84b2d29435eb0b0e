"""What is known of a user: to be listed, corrected and deleted by hand."""

from __future__ import annotations

from ..core.operation import Example, Request, operation
from ..core.places import user_facts
from ..core.space import Space
from ..core.time_travel import AtATime, moments
from ..model.fields import AnyId, Cursor, FilterField, Limit, User
from .memories import (
    FLOW_PATH,
    Changes,
    Deleted,
    Memories,
    Memory,
    Page,
    change_memory,
    erase_memory,
    list_memories,
    read_memory,
)
from .plans import USER_DONE

_ONE = {"user": "alice", "id": "$1.plan.steps.0.id"}


class OfUser(AtATime, frozen=True, kw_only=True):
    """Which memories to return."""

    user: User
    filter: FilterField | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class One(Request, frozen=True, kw_only=True):
    """Which memory of a user."""

    user: User
    id: AnyId


class OneThen(AtATime, frozen=True, kw_only=True):
    """Which memory of a user, and as it was when."""

    user: User
    id: AnyId


class Update(Changes, frozen=True, kw_only=True):
    """Which memory of a user to change, and how."""

    user: User
    id: AnyId


@operation(
    "users.memories", "GET /v1/users/{user}/memories", bound="user", example=Example({"user": "alice"}, USER_DONE)
)
def memories(space: Space, request: OfUser) -> Memories:
    """What is known of a user, in the order in which it became known; now, or at another time."""
    page = Page(request.limit, request.cursor, request.filter, moments(request))
    return list_memories(space, user_facts(request.user), FLOW_PATH, page)


@operation("users.memory", "GET /v1/users/{user}/memories/{id}", bound="user", example=Example(_ONE, USER_DONE))
def memory(space: Space, request: OneThen) -> Memory:
    """One thing that is known of a user, as it is now or as it was at another time."""
    return read_memory(space, user_facts(request.user), request.id, moments(request))


@operation(
    "users.update_memory",
    "PATCH /v1/users/{user}/memories/{id}",
    effect="write",
    bound="user",
    example=Example({**_ONE, "content": "Alice lives in Lisbon, near the river."}, USER_DONE),
)
def update_memory(space: Space, request: Update) -> Memory:
    """Correct what is known. Give the `version` that you read to be told if somebody changed it since."""
    return change_memory(space, user_facts(request.user), request.id, request)


@operation(
    "users.delete_memory",
    "DELETE /v1/users/{user}/memories/{id}",
    effect="erase",
    bound="user",
    status=202,
    example=Example(_ONE, USER_DONE),
)
def delete_memory(space: Space, request: One) -> Deleted:
    """Delete what is known, and its history, for good. What was said stays."""
    return erase_memory(space, user_facts(request.user), request.id)
