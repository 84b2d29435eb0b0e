"""Taking a source away from the facts that rest on it: revoked, so that it speaks for nothing, or erased with its words."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import Conflict
from ..lifecycle.erase import erase_fact, erase_versions
from ..model.collection import Place
from ..recall import upkeep
from ..space import Space
from .facts import forget_in_plans
from .plan import decoded
from .stored import versions
from .unsay import Unsaying


class Unsaid(NamedTuple):
    """The facts that are withdrawn, and how many others have lost evidence."""

    withdrawn: list[str]
    weakened: int


def revoke(space: Space, place: Place, *, address_id: int | None = None, entry_id: str | None = None) -> Unsaid:
    """Take away what a session or an entry has said from the facts of a place. Those that are based on nothing else are
    withdrawn, and what these had ended is current again; the others are told in the words of who else says so."""
    _silence(space, address_id, entry_id)
    named = {"address_id": address_id} if address_id is not None else {"entry_id": entry_id}
    what = "address" if address_id is not None else "entry"
    rows = space.tx.rows(f"facts_from_{what}", **named) if space.found(place) is not None else []
    found = {fact_id: plan_id for fact_id, plan_id in rows if space.entry(place, fact_id) is not None}
    for fact_id in found:
        space.tx.send(f"revoke_{what}", fact_id=fact_id, **named)
    imported = {fact_id for fact_id, plan_id in found.items() if not plan_id}
    unsaying = Unsaying(space, place, imported)
    unsaying.settle(found)
    _erase_imported(space, unsaying, imported)
    return Unsaid(unsaying.withdrawn, len(found) - len(unsaying.withdrawn))


def _silence(space: Space, address_id: int | None, entry_id: str | None) -> None:
    """Whatever a revoked session has said so far is not distilled later on, either, and its notes are only turns."""
    if address_id is not None:
        row = space.tx.row("distilled_address", id=address_id)
        if row is not None:
            space.tx.send("set_distilled", id=address_id, upto=row[1])
            upkeep.changed(space.tx, space.tx.rows("settle_all_notes", address_id=address_id))
        return
    row = space.tx.row("undistilled_entry", id=entry_id)
    if row is not None:
        raise Conflict(
            "This turn is not distilled yet: end its session or consolidate it first, or revoke the whole session."
        )


def _erase_imported(space: Space, unsaying: Unsaying, imported: set[str]) -> None:
    """No plan remembers whose words an imported fact was told in, so that they cannot be found again when those are erased:
    they go at once."""
    for fact_id in imported.intersection(unsaying.withdrawn):
        erase_fact(space.tx, fact_id, space.now)
    for fact_id in imported.intersection(unsaying.reworded):
        erase_versions(space.tx, fact_id, [row.version for row in versions(space.tx, fact_id)[:-1]])


def let_go(space: Space, place: Place, fact_id: str) -> None:
    """Before a fact is erased: what it had ended is true again, and no plan speaks of it any more."""
    Unsaying(space, place).release(fact_id, versions(space.tx, fact_id)[-1])
    forget_in_plans(space.tx, space.collection(place)[0], fact_id)


def forget(space: Space, place: Place, address_id: int) -> int:
    """Erase what is known from a session alone, and the words that it has told other facts in. Returns how many facts went."""
    plans = {
        plan_id: decoded(steps).steps for plan_id, steps in space.tx.rows("plans_of_address", address_id=address_id)
    }
    told = {step.id for steps in plans.values() for step in steps if step.id}
    gone = set(revoke(space, place, address_id=address_id).withdrawn)
    for fact_id in sorted(told - gone):
        known = versions(space.tx, fact_id)
        worded = [row.version for row in known if row.plan_id in plans and row.retired_at is not None]
        if worded and len(worded) == len(known):
            gone.add(fact_id)
        elif worded:
            erase_versions(space.tx, fact_id, worded)
    for fact_id in sorted(gone):
        erase_fact(space.tx, fact_id, space.now)
    return len(gone)
