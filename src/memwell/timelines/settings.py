"""What a user or a flow can be told about its memory: the language that its words are in."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ..core.operation import Example, Request, Response, operation
from ..core.places import flow_facts, flow_timeline, user_facts, user_timeline
from ..core.space import Space
from ..errors import Invalid
from ..jobs import queue
from ..model.collection import Place, Policy
from ..model.fields import Flow, User
from ..search.words import LANGUAGES

Language = Annotated[
    str,
    Meta(
        max_length=8,
        description="The language by its two letters, such as `en`, `de` or `pt`: words are stemmed by it.",
    ),
]


class Settings(Response, frozen=True, kw_only=True):
    """What is set."""

    language: str


class OfUser(Request, frozen=True, kw_only=True):
    """Whose settings."""

    user: User


class OfFlow(Request, frozen=True, kw_only=True):
    """Which flow's settings."""

    flow: Flow


class ConfigureUser(OfUser, frozen=True, kw_only=True):
    """What to set."""

    language: Language


class ConfigureFlow(OfFlow, frozen=True, kw_only=True):
    """What to set."""

    language: Language


@operation("users.settings", "GET /v1/users/{user}/settings", bound="user", example=Example({"user": "alice"}))
def user_settings(space: Space, request: OfUser) -> Settings:
    """The settings of a user's memory."""
    return _settings(space, user_timeline(request.user))


@operation("flows.settings", "GET /v1/flows/{flow}/settings", bound="flow", example=Example({"flow": "support"}))
def flow_settings(space: Space, request: OfFlow) -> Settings:
    """The settings of a flow's memory."""
    return _settings(space, flow_timeline(request.flow))


@operation(
    "users.configure",
    "PUT /v1/users/{user}/settings",
    effect="write",
    role="admin",
    bound="user",
    example=Example({"user": "alice", "language": "pt"}),
)
def configure_user(space: Space, request: ConfigureUser) -> Settings:
    """Set the language of a user's memory. What is already there is indexed anew in the background."""
    return _configure(space, [user_timeline(request.user), user_facts(request.user)], request.language)


@operation(
    "flows.configure",
    "PUT /v1/flows/{flow}/settings",
    effect="write",
    role="admin",
    bound="flow",
    example=Example({"flow": "support", "language": "de"}),
)
def configure_flow(space: Space, request: ConfigureFlow) -> Settings:
    """Set the language of a flow's memory. What is already there is indexed anew in the background."""
    return _configure(space, [flow_timeline(request.flow), flow_facts(request.flow)], request.language)


def _settings(space: Space, place: Place) -> Settings:
    policy = space.policy(place)
    return Settings(language=(policy or Policy()).language)


def _configure(space: Space, places: list[Place], language: str) -> Settings:
    if language not in LANGUAGES and language not in UNSTEMMED:
        known = ", ".join(sorted([*LANGUAGES, *UNSTEMMED]))
        raise Invalid(f"There is no language {language!r} here. These are known: {known}.", field="language")
    for place in places:
        collection_id, policy = space.collection(place)
        if policy.language != language:
            text = msgspec.json.encode(msgspec.structs.replace(policy, language=language)).decode()
            space.tx.send("set_policy", id=collection_id, policy=text)
            queue.ensure_slot(space.tx, "index", space.now, space.now)
    return Settings(language=language)


UNSTEMMED = ("he", "ja", "ko", "th", "vi", "zh")
"""Languages whose words are taken as they stand, or cut into pairs of characters by their script."""
