"""A query: what is looked for, where, and under which conditions. Every search is one of these."""

from __future__ import annotations

from typing import NamedTuple

from .collection import Place
from .filter import Filter


class Where(NamedTuple):
    """A part of memory: a collection or one path in it, and which kinds of entries there; None stands for all."""

    place: Place
    path: str | None = None
    kinds: tuple[str, ...] | None = None


class Query(NamedTuple):
    """What is looked for. Conditions are applied before anything is ranked."""

    text: str
    where: tuple[Where, ...]
    limit: int = 5
    filter: Filter | None = None
    after: int | None = None
    before: int | None = None
    min_score: float = 0.0
    recipe: str = "default"
    as_of: int | None = None
    """Only what was known then, as it was known then."""
    valid_at: int | None = None
    """Only what was true then, as far as is known."""
    min_trust: str | None = None
    """Only what is based on nothing less than this origin."""
    full: bool = False
    """As many as are asked for, also what has nothing in common with the text."""
