"""Settings of the memory of a user or a flow: its language."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Space
from ..errors import Invalid
from ..jobs import queue
from ..model.collection import Policy
from ..search.words import LANGUAGES

Language = Annotated[
    str,
    Meta(
        max_length=8,
        description="The two-letter code of the language, such as `en`, `de` or `pt`, which decides how words are stemmed.",
    ),
]


UNSTEMMED = ("he", "ja", "ko", "th", "vi", "zh")
"""Languages whose words are not stemmed; some are cut into pairs of characters."""


class Settings(Response, frozen=True, kw_only=True):
    """Current settings."""

    language: str


class ReadSettings(OwnerRequest, frozen=True, kw_only=True):
    """Selects the settings of an owner."""


@owner_operation("settings", "GET /settings", user=Example(), flow=Example())
def read_settings(space: Space, request: ReadSettings) -> Settings:
    """Read the settings of a {owner}'s memory."""
    policy = space.policy(request.owner.timeline)
    return Settings(language=(policy or Policy()).language)


class Configure(OwnerRequest, frozen=True, kw_only=True):
    """New settings."""

    language: Language


@owner_operation(
    "configure",
    "PUT /settings",
    effect="write",
    role="admin",
    user=Example({"language": "pt"}),
    flow=Example({"language": "de"}),
)
def configure(space: Space, request: Configure) -> Settings:
    """Set the language of a {owner}'s memory. Stored entries are indexed again in the background."""
    language = request.language
    if language not in LANGUAGES and language not in UNSTEMMED:
        known = ", ".join(sorted([*LANGUAGES, *UNSTEMMED]))
        raise Invalid(f"The language {language!r} is not supported. Choose one of: {known}.", field="language")
    for place in (request.owner.timeline, request.owner.facts):
        collection_id, policy = space.collection(place)
        if policy.language != language:
            text = msgspec.json.encode(msgspec.structs.replace(policy, language=language)).decode()
            space.tx.send("set_policy", id=collection_id, policy=text)
            queue.ensure_slot(space.tx, "index", space.now, space.now)
    return Settings(language=language)
