"""The data types of consolidation: turns and sessions, candidates, known facts, and plans.

A plan has a step for each candidate, with the decision, the reason and the evidence. It is stored as JSON, and can be read,
applied and reverted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import Literal, NamedTuple, Self

import msgspec

from .. import typed
from ..model.collection import Place
from ..storage.port import Tx

Kind = Literal[
    "attribute", "preference", "plan", "possession", "relation", "event", "decision", "instruction", "correction", "statement"
]  # fmt: skip
Decider = Literal["rules", "model"]
"""Who chose and worded a candidate: the rules, or the language model that reviewed their candidates."""
NOT_PEOPLE = frozenset({"assistant", "tool", "system"})
"""Roles whose turns do not come from a person."""


class ReasonCode(StrEnum):
    """A code with its meaning. The table in docs/facts.md quotes both."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


class Skip(ReasonCode):
    """The reason why a passage gave no step although it states something."""

    DISTILLED_BEFORE = "distilled_before", "A fact has this passage as evidence already."


class Turn(NamedTuple):
    """A turn, as input of extractors."""

    id: str
    role: str
    """`user`, `assistant`, `tool`, `system`, or another name of a role."""
    speaker: str
    """The name of the speaker in facts: "Caroline", or "The user"."""
    text: str
    day: date
    known: bool = True
    """The speaker is a person or agent with a name; "The user" is not."""
    note: bool = False
    """The turn was added as a note: all of its statements are kept."""


UNNAMED_USER = "The user"
_UNNAMED = "the user of "


def name_unnamed_user(session: str) -> str:
    """Return the subject of facts about the user of a session who has no name."""
    return f"The user of {session}"


def is_unnamed(subject: str) -> bool:
    """Return True for the user of a session who has no name. Such users of two sessions may be two people."""
    return subject[: len(_UNNAMED)].lower() == _UNNAMED


class Session(NamedTuple):
    """A session, and the last turn of it that is consolidated."""

    address_id: int
    path: str
    last_seq: int
    distilled_seq: int
    collection_id: int
    dialect: str
    name: str

    @property
    def facts(self) -> Place:
        return Place(self.dialect, self.name, "facts")


def find_session(tx: Tx, address_id: int) -> Session | None:
    """Return a session; None if it is deleted or sealed, or if its dialect has no facts."""
    row = tx.row("distilled_address", id=address_id)
    if row is None or row[6] or row[4] not in ("flow", "user"):
        return None
    return Session(address_id, row[0], row[1], row[2], row[3], row[4], row[5])


class Source(NamedTuple):
    """A passage of a turn: the characters from `start` to `end`."""

    id: str
    start: int
    end: int


class Candidate(NamedTuple):
    """A statement that may become a fact, worded so that it makes sense without its context."""

    text: str
    subject: str | None
    """The person that the statement is about; None if unknown."""
    kind: Kind
    sources: tuple[Source, ...]
    """The passage that states it, then passages that are needed to understand it."""
    importance: float
    confidence: float
    valid_from: date | None = None
    """The day since which it is true, if the text says so."""
    decided_by: Decider = "rules"
    dropped: str = ""
    """The reason why the language model dropped it; empty if it was not dropped."""


class KnownFact(NamedTuple):
    """A stored fact, as input of reconciliation."""

    id: str
    text: str
    subject: str | None
    day: date
    """The day of the newest evidence."""
    similarity: float
    """Similarity to the candidate, from 0 to 1."""
    written: bool = False
    """The application wrote it for the flow or the session: only its text says whom it is about."""


# -- plans


Action = Literal["add", "merge", "supersede", "skip", "end", "hold"]
"""`end` and `hold` are steps of plans that an audit suggests: end a fact, or hold a duplicate in quarantine. They add nothing."""
PlanState = Literal["proposed", "applied", "reverted"]


class Evidence(msgspec.Struct, frozen=True, array_like=True):
    """A passage of an entry."""

    entry: str
    start: int
    end: int
    origin: str
    said_at: int


class Target(msgspec.Struct, frozen=True, array_like=True):
    """A fact that a step changes, and the version on which the decision was based."""

    id: str
    version: int
    confidence: float
    """The confidence before the step."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision about one candidate."""

    do: Action
    reason: str
    text: str
    kind: Kind
    evidence: list[Evidence]
    importance: float
    confidence: float
    """Confidence in the fact, from all statements that confirm it."""
    origin: str
    same: str
    valid_from: int
    id: str = ""
    """The id of the new or known fact; empty if the candidate is skipped."""
    subject: str | None = None
    speaker: str | None = None
    """The name of the person who said it, if known."""
    topic: str | None = None
    targets: list[Target] = []
    """The fact to merge into, or the facts to supersede."""
    ended: list[str] = []
    """Superseded facts that the same plan adds."""
    past: bool = False
    """The fact is no longer true, because a later statement is known."""
    valid_to: int | None = None
    ended_by: str = ""
    """The id of the fact that ended it."""
    held: str | None = None
    """The reason for a quarantine."""
    own: float = 0.0
    """Confidence of this statement alone."""
    version: int = 0
    """The version of the fact that the plan wrote when it was applied."""
    decided_by: Decider = "rules"


class SkippedPassage(msgspec.Struct, frozen=True, array_like=True):
    """A passage of a turn that gave no step, and the reason. Its words are read from the turn."""

    entry: str
    start: int
    end: int
    reason: str


class PlanBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored steps of a plan, the passages without a step, and the notes that it turned into ordinary turns."""

    steps: list[Step]
    notes: list[str] = []
    skipped: list[SkippedPassage] = []
    """The first `MAX_SKIPPED` passages without a step."""
    skipped_count: int = 0
    """The number of all passages without a step."""
    again: bool = False
    """The turns were consolidated before."""


MAX_SKIPPED = 1000
"""Maximum number of passages without a step that a plan lists. All of them are counted."""


class StoredPlan(NamedTuple):
    """A stored plan. The columns are in the order of `find_plan`."""

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


class DroppedSentence(NamedTuple):
    """A passage without a candidate, and the reason (`rules.keep_or_drop.Drop`)."""

    id: str
    """The id of the turn."""
    start: int
    end: int
    reason: str


class Extraction(NamedTuple):
    """The result of an extractor. `method`: `rules`, `model` or `model+rules`. `note`: why rules replaced the model."""

    candidates: list[Candidate]
    method: str = "rules"
    note: str | None = None
    dropped: Sequence[DroppedSentence] = ()
    """The sentences that the rules dropped. A plan lists them."""


class PlanDraft(NamedTuple):
    """The steps of a plan that is not applied yet."""

    steps: list[Step]
    first_seq: int
    last_seq: int
    skipped: Sequence[SkippedPassage] = ()
    """The passages without a step."""
    again: bool = False
    """The turns were consolidated before."""

    @property
    def body(self) -> PlanBody:
        listed = list(self.skipped[:MAX_SKIPPED])
        return PlanBody(self.steps, skipped=listed, skipped_count=len(self.skipped), again=self.again)


decode_steps = typed.decoder(PlanBody)


def encode_steps(steps: PlanBody) -> str:
    return msgspec.json.encode(steps).decode()


def count_steps(steps: Sequence[Step], skipped: int = 0) -> dict[str, int]:
    """Count the steps by action. `skipped`: the number of passages without a step."""
    actions = Counter[str](step.do for step in steps)
    return {
        "added": actions["add"],
        "merged": actions["merge"],
        "superseded": actions["supersede"] + actions["end"],
        "skipped": actions["skip"] + skipped,
        "held": sum(step.held is not None and step.do != "skip" for step in steps),
    }
