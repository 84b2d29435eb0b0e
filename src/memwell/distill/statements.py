"""What a fact rests on: statements, each a step of a plan whose evidence is all still there."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ..model.collection import Place
from ..model.entry import TRUST
from ..space import Space
from .plan import Plan, Step, Steps, decoded, encoded
from .stored import FactRow


class Statement(NamedTuple):
    """A step that tells a fact, and where it stands."""

    plan_id: str
    number: int
    step: Step


class _Plan(NamedTuple):
    """A plan that was read: its steps, and where those stand that tell a fact."""

    steps: Steps
    of: dict[str, list[int]]


class Statements:
    """The statements about the facts of a place, as their plans tell them."""

    def __init__(self, space: Space, place: Place) -> None:
        self._space, self._place = space, place
        self._plan = cache(self._read)
        self._changed: set[str] = set()

    def left(self, fact_id: str) -> list[Statement]:
        """Those that nothing was taken from, the most trusted and then the earliest first. What remains of others goes."""
        rows = self._space.tx.rows("evidence_keys", fact_id=fact_id)
        there = {(entry_id, start): plan_id for entry_id, start, plan_id in rows}
        plans = sorted({plan_id for plan_id in there.values() if plan_id})
        told = [one for plan_id in plans for one in self._told(plan_id, fact_id)]
        whole = [one for one in told if _words(one.step) <= there.keys()]
        needed = {words for one in whole for words in _words(one.step)}
        for (entry_id, start), plan_id in there.items():
            if plan_id and (entry_id, start) not in needed:
                self._space.tx.send("delete_evidence", fact_id=fact_id, entry_id=entry_id, first_char=start)
        return sorted(whole, key=_rank)

    def founding(self, fact_id: str, version: FactRow) -> Statement | None:
        """The one that a version has its words from, if it has them from one."""
        told = self._told(version.plan_id, fact_id) if version.plan_id else []
        written = [one for one in told if 0 < one.step.version <= version.version]
        return max(written, key=lambda one: one.step.version, default=None)

    def change(self, plan_id: str, number: int, step: Step) -> None:
        """Let a plan tell something else in a step. It is written by `flush`."""
        self._plan(plan_id).steps.steps[number] = step
        self._changed.add(plan_id)

    def flush(self) -> None:
        """Write the plans that were changed, each once."""
        for plan_id in sorted(self._changed):
            self._space.tx.send("set_plan_steps", id=plan_id, steps=encoded(self._plan(plan_id).steps))
        self._changed.clear()

    def _told(self, plan_id: str, fact_id: str) -> list[Statement]:
        plan = self._plan(plan_id)
        return [Statement(plan_id, number, plan.steps.steps[number]) for number in plan.of.get(fact_id, ())]

    def _read(self, plan_id: str) -> _Plan:
        row = self._space.tx.row("find_plan", collection_id=self._space.found(self._place), id=plan_id)
        steps = Steps([]) if row is None else decoded(Plan(*row).steps)
        of: dict[str, list[int]] = {}
        for number, step in enumerate(steps.steps):
            if step.id:
                of.setdefault(step.id, []).append(number)
        return _Plan(steps, of)


def _words(step: Step) -> set[tuple[str, int]]:
    return {(said.entry, said.start) for said in step.evidence}


def _rank(one: Statement) -> tuple[int, int, str, int]:
    return -TRUST[one.step.origin], one.step.evidence[0].said_at, one.plan_id, one.number
