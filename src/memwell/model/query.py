"""When something was known, and when it was true: one meaning for whoever searches, lists or shows."""

from __future__ import annotations

from typing import Any, NamedTuple

from .collection import Place
from .filter import Filter

NEVER = 2**62


class Life(NamedTuple):
    """Two stretches of time, each without its end. They are moments, or arrays of them where many are asked about at once."""

    known_from: Any
    known_to: Any
    true_from: Any
    true_to: Any

    @classmethod
    def of(cls, known_from: int, known_to: int | None, true_from: int, true_to: int | None) -> Life:
        """As it is stored: what has no end does not end."""
        return cls(
            known_from, NEVER if known_to is None else known_to, true_from, NEVER if true_to is None else true_to
        )

    def fits(self, as_of: int | None, valid_at: int | None) -> Any:
        """Whether it was known at one moment and true at another, as far as they are given."""
        known = as_of is None or (self.known_from <= as_of) & (self.known_to > as_of)
        true = valid_at is None or (self.true_from <= valid_at) & (self.true_to > valid_at)
        return known & true


# -- A query: what is looked for, where, and under which conditions. Every search is one of these.


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
