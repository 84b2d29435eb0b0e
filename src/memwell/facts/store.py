"""Facts as they are stored: what reconciliation has to know of the current ones, and all their versions."""

from __future__ import annotations

from typing import NamedTuple

from ..core.space import Located, Space
from ..model.collection import Draft, Entry, Place
from ..storage.port import Tx
from .plan import PlanBody, decode_steps, encode_steps

FACTS_PATH = ""
"""The path of what a flow or a user knows as a whole."""


class StoredFact(NamedTuple):
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


class FactVersion(NamedTuple):
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


def list_versions(tx: Tx, fact_id: str) -> list[FactVersion]:
    return [FactVersion(*row) for row in tx.rows("fact_versions", id=fact_id)]


# -- The next version of a fact: the same statement true until another time, or the same fact in other words.


class Ending(NamedTuple):
    """Whether a fact is true (`fact`) or was (`past`), until when, and because of which other one."""

    kind: str
    valid_to: int | None
    by: str | None = None


NOT_ENDED = Ending("fact", None)


def end_fact(space: Space, place: Place, located: Located, life: Ending) -> Entry:
    """Let a fact be true, or have been true until a moment. The version before stays as it was."""
    row = list_versions(space.tx, located.entry.id)[-1]
    following = row._replace(kind=life.kind, valid_to=life.valid_to, ended_by=life.by, held=None)
    return revise_fact(space, place, located, following, located.entry.name)


def revise_fact(space: Space, place: Place, located: Located, row: FactVersion, name: str | None) -> Entry:
    """Write a version that is as the row says, told by somebody of that name."""
    old = located.entry
    draft = Draft(
        kind=row.kind,
        content=row.content,
        name=name,
        origin=row.origin,  # type: ignore[arg-type]
        importance=row.importance,
        confidence=row.confidence,
        metadata=old.metadata,
        occurred_at=row.occurred_at,
    )
    entry = space.revise(place, located, draft, old.version)
    space.tx.send(
        "add_fact",
        id=entry.id,
        version=entry.version,
        collection_id=space.collection(place)[0],
        subject=row.subject,
        same=row.same or "",
        topic=row.topic,
        valid_from=row.occurred_at if row.valid_from is None else row.valid_from,
        valid_to=row.valid_to,
        plan_id=row.plan_id,
        held=row.held,
        ended_by=row.ended_by,
    )
    return entry


# -- Facts that people write, correct and delete, kept in step with those that are distilled.


class About(NamedTuple):
    """Whom a fact is about, if that is somebody in particular, and when it is true, if not since it happened."""

    subject: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    plan_id: str | None = None
    held: str | None = None
    ended_by: str | None = None


NOBODY = About()


def note_fact(space: Space, place: Place, entry: Entry, about: About = NOBODY) -> None:
    """What a statement that was written directly is found again by, so that what is said later can confirm or end it."""
    from .neighbours import lookup_keys
    from .topics import parse_statement

    same, topic = lookup_keys(parse_statement(entry.content, about.subject), about.subject)
    space.tx.send(
        "add_fact",
        id=entry.id,
        version=entry.version,
        collection_id=space.collection(place)[0],
        subject=about.subject,
        same=same,
        topic=topic,
        valid_from=entry.occurred_at if about.valid_from is None else about.valid_from,
        valid_to=about.valid_to,
        plan_id=about.plan_id,
        held=about.held,
        ended_by=about.ended_by,
    )


def note_revised(space: Space, place: Place, entry: Entry) -> None:
    """The same for a statement that was corrected: it stays about whom it was, and true from when it was."""
    earlier = [row for row in list_versions(space.tx, entry.id) if row.version < entry.version and row.same]
    before = earlier[-1] if earlier else None
    note_fact(space, place, entry, _kept(before) if before else NOBODY)


def _kept(row: FactVersion) -> About:
    return About(row.subject, row.valid_from, row.valid_to, row.plan_id, row.held, row.ended_by)


def remove_from_plans(tx: Tx, collection_id: int, fact_id: str) -> None:
    """Take a fact's words out of the plans that speak of it, before it is erased."""
    for (plan_id,) in tx.rows("plans_of_fact", collection_id=collection_id, pattern=f'%"{fact_id}"%'):
        row = tx.row("plan_steps", id=plan_id)
        if row is not None:
            steps = decode_steps(row[0])
            left = [step for step in steps.steps if step.id != fact_id]
            tx.send("set_plan_steps", id=plan_id, steps=encode_steps(PlanBody(left, steps.notes)))
