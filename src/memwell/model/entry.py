"""An entry is an immutable item of a collection. Changing one retires it and writes its next version."""

from __future__ import annotations

from typing import Literal

import msgspec

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
