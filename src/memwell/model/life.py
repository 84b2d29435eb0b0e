"""When something was known, and when it was true: one meaning for whoever searches, lists or shows."""

from __future__ import annotations

from typing import Any, NamedTuple

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
