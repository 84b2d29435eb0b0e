"""Facts that people write, correct and delete, kept in step with those that are distilled."""

from __future__ import annotations

from typing import NamedTuple

from ..model.collection import Place
from ..model.entry import Entry
from ..space import Space
from ..storage.port import Tx
from .plan import Steps, decoded, encoded
from .stored import FactRow, versions


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
    from .neighbours import marks
    from .reconciliation.topics import read

    same, topic = marks(read(entry.content, about.subject), about.subject)
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
    earlier = [row for row in versions(space.tx, entry.id) if row.version < entry.version and row.same]
    before = earlier[-1] if earlier else None
    note_fact(space, place, entry, _kept(before) if before else NOBODY)


def _kept(row: FactRow) -> About:
    return About(row.subject, row.valid_from, row.valid_to, row.plan_id, row.held, row.ended_by)


def forget_in_plans(tx: Tx, collection_id: int, fact_id: str) -> None:
    """Take a fact's words out of the plans that speak of it, before it is erased."""
    for (plan_id,) in tx.rows("plans_of_fact", collection_id=collection_id, pattern=f'%"{fact_id}"%'):
        row = tx.row("plan_steps", id=plan_id)
        if row is not None:
            steps = decoded(row[0])
            left = [step for step in steps.steps if step.id != fact_id]
            tx.send("set_plan_steps", id=plan_id, steps=encoded(Steps(left, steps.notes)))
