"""A collection is a body of memory with a policy; an address is where in it something lives."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..clock import DAY

CollectionKind = Literal["timeline", "facts", "record", "text"]


class Policy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long a collection keeps what it is given, how it groups it, in which language it is. Data in the store, not
    configuration."""

    retention_us: int | None = None
    idle_us: int | None = None
    language: str = "en"
    chunk_chars: int | None = None
    """How long the parts of a text are that are embedded each for itself; None: as is best for most."""
    overlap_chars: int = 0


class Place(msgspec.Struct, frozen=True):
    """What a dialect calls a collection, and what it is when it is first written to."""

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


TURN_RETENTION = 90 * DAY
"""S0.17: how long turns are kept unless a policy says otherwise."""


# -- An entry is an immutable item of a collection. Changing one retires it and writes its next version.


Origin = Literal["user", "assistant", "tool", "document", "system"]

TRUST: dict[str, int] = {"document": 0, "tool": 1, "assistant": 2, "user": 3, "system": 4}
"""How far what an origin says may be trusted: what the application itself writes most, what it was handed least."""

ORIGIN_OF_ROLE: dict[str, Origin] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}


class Entry(msgspec.Struct, frozen=True):
    """A stored entry. The fields stand in the order of the columns that every `…_entries` query selects."""

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
    """An entry about to be written."""

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
