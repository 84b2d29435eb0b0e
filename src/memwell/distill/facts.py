"""Facts that people write, correct and delete, kept in step with those that are distilled."""

from __future__ import annotations

from typing import NamedTuple

from ..model.collection import Place
from ..model.entry import Entry
from ..space import Space
from ..storage.port import Tx
from .plan import Steps, decoded, encoded
from .revert import Withdrawing
from .stored import FactRow, versions


class About(NamedTuple):
    """Whom a fact is about, if that is somebody in particular, and when it is true, if not since it happened."""

    subject: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    plan_id: str | None = None
    held: str | None = None


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
    )


def note_revised(space: Space, place: Place, entry: Entry) -> None:
    """The same for a statement that was corrected: it stays about whom it was, and true from when it was."""
    earlier = [row for row in versions(space.tx, entry.id) if row.version < entry.version and row.same]
    before = earlier[-1] if earlier else None
    note_fact(space, place, entry, About(*_kept(before)) if before else NOBODY)


def _kept(row: FactRow) -> tuple[str | None, int | None, int | None, str | None, str | None]:
    return row.subject, row.valid_from, row.valid_to, row.plan_id, row.held


def forget_in_plans(tx: Tx, fact_id: str) -> None:
    """Take a fact's words out of the plans that speak of it, before it is erased."""
    for (plan_id,) in tx.rows("plans_of_fact", fact_id=fact_id):
        row = tx.row("plan_steps", id=plan_id)
        if row is not None:
            steps = decoded(row[0])
            left = [step for step in steps.steps if step.id != fact_id]
            tx.send("set_plan_steps", id=plan_id, steps=encoded(Steps(left, steps.notes)))


def revoke(
    space: Space, place: Place, *, address_id: int | None = None, entry_id: str | None = None
) -> tuple[list[str], int]:
    """Take away what a session or an entry has said from the facts of a place. Those that are based on nothing else are
    withdrawn, and what these had ended is current again. Returns their ids, and how many others have lost evidence."""
    named = {"address_id": address_id} if address_id is not None else {"entry_id": entry_id}
    what = "address" if address_id is not None else "entry"
    here = space.found(place)
    rows = space.tx.rows(f"facts_from_{what}", **named)
    ids = [row[0] for row in rows if here is not None and _is_current(space, place, row[0])]
    for fact_id in ids:
        space.tx.send(f"revoke_{what}", fact_id=fact_id, **named)
    withdrawing = Withdrawing(space, place)
    bare = [fact_id for fact_id in ids if withdrawing.is_bare(fact_id)]
    in_time = sorted(bare, key=lambda fact_id: versions(space.tx, fact_id)[-1].occurred_at)
    withdrawn = [fact_id for fact_id in reversed(in_time) if withdrawing.withdraw(fact_id)]
    return withdrawn, len(ids) - len(bare)


def _is_current(space: Space, place: Place, fact_id: str) -> bool:
    return space.entry(place, fact_id) is not None
