"""Taking a plan back: what it added is retired, what it ended is current again, what it confirmed is as sure as before."""

from __future__ import annotations

from functools import cache

import msgspec

from ..errors import Conflict
from ..model.collection import Place
from ..recall import upkeep
from ..space import Space
from .apply import Ended, rewrite
from .plan import Plan, Step, Target, decoded, encoded
from .stored import versions


def revert(space: Space, place: Place, plan: Plan) -> int:
    """Undo a plan. What others have found for its facts since stays, and so do these. Returns how many facts changed."""
    if plan.state != "applied":
        raise Conflict(f"This plan is {plan.state}: only one that was applied can be taken back.")
    steps = decoded(plan.steps)
    space.tx.send("delete_evidence_of_plan", plan_id=plan.id)
    undoing = Withdrawing(space, place)
    changed = sum(_undo(undoing, step) for step in reversed(steps.steps))
    ids = msgspec.json.encode(steps.notes).decode()
    upkeep.changed(space.tx, space.tx.rows("unsettle_notes", address_id=plan.address_id, ids=ids))
    settled = {"state": "reverted", "steps": encoded(steps), "applied_at": plan.applied_at, "reverted_at": space.now}
    if not space.tx.run("settle_plan", id=plan.id, seen="applied", **settled):
        raise Conflict("Somebody else has just taken this plan back.")
    return changed


def _undo(undoing: Withdrawing, step: Step) -> int:
    match step.do:
        case "skip":
            return 0
        case "merge":
            return _doubt(undoing.space, step.targets[0])
        case _:
            return undoing.withdraw(step.id) if undoing.is_bare(step.id) else 0


def _doubt(space: Space, target: Target) -> int:
    """A fact that was confirmed is as sure as it was."""
    return space.tx.run("set_confidence", id=target.id, version=target.version, confidence=target.confidence)


class Withdrawing:
    """Facts being withdrawn, the newest first, because nothing speaks for them any more."""

    def __init__(self, space: Space, place: Place) -> None:
        self.space, self.place = space, place
        self._steps = cache(self._read_steps)

    def is_bare(self, fact_id: str) -> bool:
        return self.space.tx.row("count_evidence", fact_id=fact_id) == (0,)

    def withdraw(self, fact_id: str) -> int:
        """Retire a fact. What it had ended is true again: still, or, if it was itself over, until then. Returns how many
        facts changed."""
        last = versions(self.space.tx, fact_id)[-1]
        changed = retire(self.space, self.place, fact_id)
        if changed and last.kind != "held" and last.plan_id:
            life = Ended("past", last.valid_to) if last.kind == "past" else Ended("fact", None)
            changed += sum(self._reopen(*ended, life) for ended in self._ended_by(fact_id, last.plan_id))
        return changed

    def _ended_by(self, fact_id: str, plan_id: str) -> list[tuple[str, int]]:
        """Which versions say that a fact is over because of another one: by the plan that added that."""
        written, ending = self._steps(plan_id)
        step = ending.get(fact_id)
        if step is None:
            return []
        stored = [(target.id, target.version + 1) for target in step.targets]
        return stored + [(ended, written[ended]) for ended in step.ended if ended in written]

    def _read_steps(self, plan_id: str) -> tuple[dict[str, int], dict[str, Step]]:
        """The versions that a plan has written, and its steps that ended something, each by the fact's id."""
        row = self.space.tx.row("find_plan", collection_id=self.space.found(self.place), id=plan_id)
        steps = decoded(Plan(*row).steps).steps if row is not None else []
        written = {step.id: step.version for step in steps if step.do in ("add", "supersede")}
        return written, {step.id: step for step in steps if step.do == "supersede"}

    def _reopen(self, fact_id: str, version: int, life: Ended) -> bool:
        located = self.space.entry(self.place, fact_id)
        if located is None or (located.entry.kind, located.entry.version) != ("past", version):
            return False
        rewrite(self.space, self.place, located, life)
        return True


def retire(space: Space, place: Place, fact_id: str) -> int:
    """Withdraw a fact: it is known no longer, and stays in its history."""
    located = space.entry(place, fact_id)
    if located is None:
        return 0
    rows = space.tx.rows("retire_entry", id=fact_id, version=located.entry.version, now=space.now)
    upkeep.retire(space.tx, rows)
    space.touch(space.collection(place)[0], located.address_id)
    return len(rows)
