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
