"""Collections with their policies, addresses in them, and entries at the addresses.

An entry is immutable: changing it retires it and writes its next version.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec

from .. import typed
from ..clock import DAY

CollectionKind = Literal["timeline", "facts", "record", "text"]


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The retention, grouping and language of a collection. It is data in the store, not configuration."""

    retention_us: int | None = None
    idle_us: int | None = None
    language: str = "en"
    chunk_chars: int | None = None
    """Length of the chunks of a text that are embedded; None: the default."""
    overlap_chars: int = 0
    paths_are_users: bool = False
    """True if the paths of its addresses are names of users, with whom they are erased."""


decode_policy = lru_cache(256)(typed.decoder(Policy))


class Place(msgspec.Struct, frozen=True):
    """The name of a collection, with the policy that it gets at the first write."""

    dialect: str
    name: str
    kind: CollectionKind
    policy: Policy = Policy()
    sealed: bool = False


class Address(msgspec.Struct, frozen=True):
    """A session, key or other place in a collection, as it is stored. Columns in the order of `find_address`."""

    id: int
    collection_id: int
    path: str
    last_seq: int
    created_at: int
    last_seen_at: int
    ended_at: int | None
    ended_seq: int
    expires_at: int | None
    metadata: str | None
    distilled_seq: int


def join_parts(**parts: str | None) -> str:
    """Return a path of labelled parts, such as `owner=ada/thread=t1`, without those that are None. Different parts never make the
    same path, because a slash in a part is written `%2F`, and a percent sign `%25`."""
    values = ((label, value) for label, value in parts.items() if value is not None)
    return "/".join(f"{label}={escape_characters(value, '%/')}" for label, value in values)


def escape_characters(text: str, characters: str) -> str:
    """Write some characters of a text as in URLs: `/` as `%2F`."""
    return text.translate({ord(one): "".join(f"%{byte:02X}" for byte in one.encode()) for one in characters})


TURN_RETENTION = 90 * DAY
"""Default retention of turns (S0.17)."""


Origin = Literal["user", "assistant", "tool", "document", "system"]

TRUST: dict[str, int] = {"document": 0, "tool": 1, "assistant": 2, "user": 3, "system": 4}
"""Trust in an origin: highest for text of the application itself, lowest for documents."""

ORIGIN_OF_ROLE: dict[str, Origin] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}


class Entry(msgspec.Struct, frozen=True):
    """A stored entry. Columns in the order of every `…_entries` query."""

    id: str
    version: int
    seq: int
    kind: str
    role: str | None
    name: str | None
    content: str
    metadata: str | None
    tool: str | None
    origin: str
    importance: float | None
    confidence: float | None
    occurred_at: int
    recorded_at: int
    created_at: int


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An entry to write."""

    kind: str
    content: str
    origin: Origin
    role: str | None = None
    name: str | None = None
    metadata: str | None = None
    tool: str | None = None
    importance: float | None = None
    confidence: float | None = None
    occurred_at: int | None = None
    created_at: int | None = None
    id: str | None = None
    version: int = 1
    user: str | None = None
    """The user whose words it has. It is erased when that user is forgotten."""
