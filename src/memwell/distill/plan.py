"""A plan: what is to become of each candidate, with its evidence and the reason. It is data, to be looked at or undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from .. import typed
from .values import Candidate, Kind

Do = Literal["add", "merge", "supersede", "skip"]
State = Literal["proposed", "applied", "reverted"]


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

    do: Do
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


class Steps(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plan does, and which notes became turns by it."""

    steps: list[Step]
    notes: list[str] = []


class Plan(NamedTuple):
    """A plan as it is stored. Columns in the order of `find_plan`."""

    id: str
    collection_id: int
    address_id: int
    state: State
    method: str
    note: str | None
    head: int
    first_seq: int
    last_seq: int
    steps: str
    created_at: int
    applied_at: int | None
    reverted_at: int | None


class Extracted(NamedTuple):
    """What was extracted from turns, and how: by `rules` or by a `model`; `note` says why not by the model."""

    candidates: list[Candidate]
    method: str = "rules"
    note: str | None = None


class Made(NamedTuple):
    """The steps for some turns."""

    steps: list[Step]
    first_seq: int
    last_seq: int


decoded = typed.decoder(Steps)


def encoded(steps: Steps) -> str:
    return msgspec.json.encode(steps).decode()


def counted(steps: Sequence[Step]) -> dict[str, int]:
    """How many steps do what."""
    found = Counter[str](step.do for step in steps)
    held = sum(step.held is not None and step.do != "skip" for step in steps)
    return {"added": found["add"], "merged": found["merge"], "superseded": found["supersede"]} | {
        "skipped": found["skip"],
        "held": held,
    }
