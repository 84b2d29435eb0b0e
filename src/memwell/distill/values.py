"""What distilling works on: turns as they were said, statements that may become facts, and facts that are known."""

from __future__ import annotations

from datetime import date
from typing import Literal, NamedTuple

Kind = Literal[
    "attribute",
    "preference",
    "plan",
    "possession",
    "relation",
    "event",
    "decision",
    "instruction",
    "correction",
    "statement",
]


class Said(NamedTuple):
    """A turn, as extraction sees it."""

    id: str
    role: str
    """`user`, `assistant`, `tool`, `system`, or whatever else a speaker was called."""
    speaker: str
    """How facts name whoever says "I" here: "Caroline", or "The user"."""
    text: str
    day: date
    """When it was said."""
    known: bool = True
    """Whether the speaker is somebody in particular: of "The user" nobody knows who it is."""
    note: bool = False
    """Whether it was given to be remembered, so that whatever it states is worth keeping."""


class Source(NamedTuple):
    """Where a statement stands: a turn, and from which of its characters to which."""

    id: str
    start: int
    end: int


class Candidate(NamedTuple):
    """A statement that may become a fact. It stands alone: whoever reads it needs nothing else."""

    text: str
    subject: str | None
    """Whom it is about; None if that is not known."""
    kind: Kind
    sources: tuple[Source, ...]
    """The turn that says it first, then those that it takes to understand it."""
    importance: float
    confidence: float
    valid_from: date | None = None
    """Since when it is true, if it says so."""


class Known(NamedTuple):
    """A fact that is stored, as far as reconciliation has to know it."""

    id: str
    text: str
    subject: str | None
    day: date
    """When the newest of what it is based on was said."""
    similarity: float
    """How similar its meaning is to that of the candidate, from 0 to 1."""
