"""Facts as they are stored: what reconciliation has to know of the current ones, and all their versions."""

from __future__ import annotations

from typing import NamedTuple

from ..storage.port import Tx

SHARED = ""
"""The path of what a flow or a user knows as a whole."""


class Stored(NamedTuple):
    """A stored fact. Columns in the order of `facts_same`; `facts_of` adds why it is held back."""

    id: str
    version: int
    content: str
    subject: str | None
    kind: str
    confidence: float | None
    occurred_at: int
    topic: str | None
    valid_from: int | None
    valid_to: int | None
    held: str | None = None


class FactRow(NamedTuple):
    """A version of a fact. Columns in the order of `fact_versions`."""

    version: int
    kind: str
    content: str
    origin: str
    importance: float | None
    confidence: float | None
    recorded_at: int
    retired_at: int | None
    subject: str | None
    valid_from: int | None
    valid_to: int | None
    plan_id: str | None
    held: str | None
    same: str | None
    topic: str | None
    occurred_at: int
    address_id: int
    ended_by: str | None


def versions(tx: Tx, fact_id: str) -> list[FactRow]:
    return [FactRow(*row) for row in tx.rows("fact_versions", id=fact_id)]
