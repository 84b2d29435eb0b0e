"""Taking a plan back: what it added is retired, what it ended is current again, what it confirmed is as sure as before."""

from __future__ import annotations

import msgspec

from ..errors import Conflict
from ..model.collection import Place
from ..recall import upkeep
from ..space import Space
from .apply import rewrite
from .plan import Plan, Step, Target, decoded, encoded


def revert(space: Space, place: Place, plan: Plan) -> int:
    """Undo a plan. What others have found for its facts since stays, and so do these. Returns how many facts changed."""
    if plan.state != "applied":
        raise Conflict(f"This plan is {plan.state}: only one that was applied can be taken back.")
    steps = decoded(plan.steps)
    space.tx.send("delete_evidence_of_plan", plan_id=plan.id)
    changed = sum(_undo(space, place, step) for step in reversed(steps.steps))
    ids = msgspec.json.encode(steps.notes).decode()
    upkeep.changed(space.tx, space.tx.rows("unsettle_notes", address_id=plan.address_id, ids=ids))
    settled = {"state": "reverted", "steps": encoded(steps), "applied_at": plan.applied_at, "reverted_at": space.now}
    if not space.tx.run("settle_plan", id=plan.id, seen="applied", **settled):
        raise Conflict("Somebody else has just taken this plan back.")
    return changed


def _undo(space: Space, place: Place, step: Step) -> int:
    match step.do:
        case "skip":
            return 0
        case "merge":
            return _doubt(space, step.targets[0])
        case _:
            return _take_back(space, place, step)


def _doubt(space: Space, target: Target) -> int:
    """A fact that was confirmed is as sure as it was."""
    return space.tx.run("set_confidence", id=target.id, version=target.version, confidence=target.confidence)


def _take_back(space: Space, place: Place, step: Step) -> int:
    changed = 0
    if space.tx.row("count_evidence", fact_id=step.id) == (0,):
        changed += retire(space, place, step.id)
    for target in step.targets:
        located = space.entry(place, target.id)
        if located is not None and located.entry.kind == "past" and located.entry.version == target.version + 1:
            rewrite(space, place, located, kind="fact", valid_to=None)
            changed += 1
    return changed


def retire(space: Space, place: Place, fact_id: str) -> int:
    """Withdraw a fact: it is known no longer, and stays in its history."""
    located = space.entry(place, fact_id)
    if located is None:
        return 0
    rows = space.tx.rows("retire_entry", id=fact_id, version=located.entry.version, now=space.now)
    upkeep.retire(space.tx, rows)
    space.touch(space.collection(place)[0], located.address_id)
    return len(rows)
