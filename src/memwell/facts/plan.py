"""What distilling works on: turns as they were said, statements that may become facts, and facts that are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Literal, NamedTuple

import msgspec

from .. import typed

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


class Turn(NamedTuple):
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


class KnownFact(NamedTuple):
    """A fact that is stored, as far as reconciliation has to know it."""

    id: str
    text: str
    subject: str | None
    day: date
    """When the newest of what it is based on was said."""
    similarity: float
    """How similar its meaning is to that of the candidate, from 0 to 1."""


# -- A plan: what is to become of each candidate, with its evidence and the reason. It is data, to be looked at or undone.


Action = Literal["add", "merge", "supersede", "skip"]
PlanState = Literal["proposed", "applied", "reverted"]


class Evidence(msgspec.Struct, frozen=True, array_like=True):
    """The words of an entry, from one character to another."""

    entry: str
    start: int
    end: int
    origin: str
    said_at: int


class Target(msgspec.Struct, frozen=True, array_like=True):
    """A fact that a step changes, in the version that it was decided on."""

    id: str
    version: int
    confidence: float
    """What it was before."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of one candidate."""

    do: Action
    reason: str
    text: str
    kind: Kind
    evidence: list[Evidence]
    importance: float
    confidence: float
    """How sure the fact is, with what has confirmed it."""
    origin: str
    same: str
    valid_from: int
    id: str = ""
    """The fact's, new or not; none if it is skipped."""
    subject: str | None = None
    speaker: str | None = None
    """Who said it, if that is a person who has a name."""
    topic: str | None = None
    targets: list[Target] = []
    """What is merged into, or superseded."""
    ended: list[str] = []
    """What the same plan has made new and this step supersedes."""
    past: bool = False
    """Whether it was true once, but something later is known about it."""
    valid_to: int | None = None
    ended_by: str = ""
    """The fact because of which it is over, if it is."""
    held: str | None = None
    """Why it is held back until somebody releases it."""
    own: float = 0.0
    """How sure this statement is for itself."""
    version: int = 0
    """The version that was written when the plan was applied."""


class PlanBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plan does, and which notes became turns by it."""

    steps: list[Step]
    notes: list[str] = []


class Plan(NamedTuple):
    """A plan as it is stored. Columns in the order of `find_plan`."""

    id: str
    collection_id: int
    address_id: int
    state: PlanState
    method: str
    note: str | None
    head: int
    first_seq: int
    last_seq: int
    steps: str
    created_at: int
    applied_at: int | None
    reverted_at: int | None


class Extraction(NamedTuple):
    """What was extracted from turns, and how: by `rules` or by a `model`; `note` says why not by the model."""

    candidates: list[Candidate]
    method: str = "rules"
    note: str | None = None


class PlanDraft(NamedTuple):
    """The steps for some turns."""

    steps: list[Step]
    first_seq: int
    last_seq: int


decode_steps = typed.decoder(PlanBody)


def encode_steps(steps: PlanBody) -> str:
    return msgspec.json.encode(steps).decode()


def count_steps(steps: Sequence[Step]) -> dict[str, int]:
    """How many steps do what."""
    found = Counter[str](step.do for step in steps)
    held = sum(step.held is not None and step.do != "skip" for step in steps)
    return {"added": found["add"], "merged": found["merge"], "superseded": found["supersede"]} | {
        "skipped": found["skip"],
        "held": held,
    }
