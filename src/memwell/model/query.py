"""Queries, and the times when a fact was known and true, which search, lists and views share."""

from __future__ import annotations

from typing import Any, NamedTuple

from .collection import Place
from .filter import Filter

NEVER = 2**62


class Life(NamedTuple):
    """Two half-open periods of a fact: known and true. The fields are moments, or arrays of them for many facts at once."""

    known_from: Any
    known_to: Any
    true_from: Any
    true_to: Any

    @classmethod
    def of(cls, known_from: int, known_to: int | None, true_from: int, true_to: int | None) -> Life:
        """Build a life from stored columns, where NULL is no end."""
        return cls(
            known_from, NEVER if known_to is None else known_to, true_from, NEVER if true_to is None else true_to
        )

    def fits(self, as_of: int | None, valid_at: int | None) -> Any:
        """True if it was known at `as_of` and true at `valid_at`; a moment of None is not checked. An array for arrays."""
        known = as_of is None or (self.known_from <= as_of) & (self.known_to > as_of)
        true = valid_at is None or (self.true_from <= valid_at) & (self.true_to > valid_at)
        return known & true


class Where(NamedTuple):
    """A part of memory: a collection or one path in it, and kinds of entries. None means all."""

    place: Place
    path: str | None = None
    kinds: tuple[str, ...] | None = None


class Query(NamedTuple):
    """A search: a text, the parts of memory, and conditions, which are applied before ranking."""

    text: str
    where: tuple[Where, ...]
    limit: int = 5
    filter: Filter | None = None
    after: int | None = None
    before: int | None = None
    min_score: float = 0.0
    recipe: str = "default"
    as_of: int | None = None
    """Only entries known at this time, as they were known then."""
    valid_at: int | None = None
    """Only entries true at this time, as far as is known."""
    min_trust: str | None = None
    """Only entries whose origin is trusted at least as much as this one."""
    full: bool = False
    """Fill up to the limit, also with entries that have nothing in common with the text."""
