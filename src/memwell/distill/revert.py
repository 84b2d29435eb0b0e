"""Taking a plan back: what it added is retired, what it ended is current again, what it confirmed is as sure as before."""

from __future__ import annotations

import msgspec

from ..errors import Conflict
from ..model.collection import Place
from ..recall import upkeep
from ..space import Space
from .plan import Plan, Step, decoded, encoded
from .stored import versions
from .unsay import Unsaying


def revert(space: Space, place: Place, plan: Plan) -> int:
    """Undo a plan. What others have found for its facts since stays, and so do these. Returns how many facts changed."""
    if plan.state != "applied":
        raise Conflict(f"This plan is {plan.state}: only one that was applied can be taken back.")
    steps = decoded(plan.steps)
    space.tx.send("delete_evidence_of_plan", plan_id=plan.id)
    unsaying = Unsaying(space, place)
    unsaying.settle({step.id for step in steps.steps if step.id})
    doubted = sum(
        _doubt(space, step) for step in reversed(steps.steps) if step.do == "merge" and _is_written(space, step)
    )
    ids = msgspec.json.encode(steps.notes).decode()
    upkeep.changed(space.tx, space.tx.rows("unsettle_notes", address_id=plan.address_id, ids=ids))
    settled = {"state": "reverted", "steps": encoded(steps), "applied_at": plan.applied_at, "reverted_at": space.now}
    if not space.tx.run("settle_plan", id=plan.id, seen="applied", **settled):
        raise Conflict("Somebody else has just taken this plan back.")
    return len(unsaying.withdrawn) + len(unsaying.reworded) + len(unsaying.reopened) + doubted


def _doubt(space: Space, step: Step) -> int:
    """A fact that was confirmed is as sure as it was."""
    confirmed = [{"id": one.id, "version": one.version, "confidence": one.confidence} for one in step.targets]
    return sum(space.tx.run("set_confidence", **one) for one in confirmed)


def _is_written(space: Space, step: Step) -> bool:
    """Whether somebody has written a fact, so that no statement says how sure it was."""
    known = versions(space.tx, step.id)
    return bool(known) and known[-1].plan_id is None
