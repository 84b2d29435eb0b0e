"""Applying a plan, and taking it back: one transaction each, and only if nothing has changed since it was made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from ..core.space import Located, Space
from ..errors import Conflict, Stale
from ..ids import inner_id
from ..model.collection import Draft, Place
from ..search import upkeep
from ..storage.port import Tx
from .plan import Evidence, Plan, PlanBody, PlanDraft, Step, Target, decode_steps, encode_steps
from .retract import Retraction
from .session import Session
from .store import FACTS_PATH, Ending, end_fact, list_versions

_STALE_PLAN = "What is known has changed since this plan was made: make a new one."


def last_fact_seq(space: Space, session: Session) -> int:
    """What changes whenever a fact is written: a plan holds as long as it does not."""
    address = space.address(session.facts, FACTS_PATH)
    return 0 if address is None else address.last_seq


def apply_plan(space: Space, session: Session, made: PlanDraft, plan_id: str, head: int) -> PlanBody:
    """Do what the steps say; returns them with what was written."""
    if last_fact_seq(space, session) != head:
        raise Stale(_STALE_PLAN)
    _advance_session(space, session, made)
    applying = _PlanApplier(space, session, plan_id)
    steps = applying.run(made.steps)
    return PlanBody(steps=steps, notes=_mark_notes_consolidated(space, session, steps))


def write_plan(space: Space, session: Session, plan: Plan) -> None:
    """Write a plan down."""
    space.tx.send(
        "add_plan",
        id=plan.id,
        collection_id=plan.collection_id,
        address_id=session.address_id,
        state=plan.state,
        method=plan.method,
        note=plan.note,
        head=plan.head,
        first_seq=plan.first_seq,
        last_seq=plan.last_seq,
        steps=plan.steps,
        now=plan.created_at,
        applied_at=plan.applied_at,
    )


def _advance_session(space: Space, session: Session, made: PlanDraft) -> None:
    """Every turn is distilled once: whoever comes second, or after the session was deleted, is refused."""
    noted = space.tx.run(
        "advance_distilled",
        id=session.address_id,
        collection_id=session.collection_id,
        seen=made.first_seq - 1,
        upto=made.last_seq,
    )
    if not noted:
        raise Stale("These turns have been distilled already, or are gone.")


def _mark_notes_consolidated(space: Space, session: Session, steps: Sequence[Step]) -> list[str]:
    """Notes that became facts need not be searched as they stand any more. Returns which."""
    said = list(dict.fromkeys(one.entry for step in steps if step.id for one in step.evidence))
    rows = space.tx.rows("settle_notes", address_id=session.address_id, ids=msgspec.json.encode(said).decode())
    upkeep.changed(space.tx, rows)
    return said if rows else []


class _PlanApplier:
    """A plan being applied."""

    def __init__(self, space: Space, session: Session, plan_id: str) -> None:
        self._space, self._tx, self._place = space, space.tx, session.facts
        self._address_id, self._plan_id = session.address_id, plan_id
        self._collection_id = space.collection(session.facts)[0]

    def run(self, steps: Sequence[Step]) -> list[Step]:
        self._check_later(steps)
        for step in steps:
            if step.do == "merge" and step.targets:
                self._merge(step)
            for target in step.targets if step.do == "supersede" else ():
                self._end(target, step)
        done = self._add([step for step in steps if step.do in ("add", "supersede")])
        for step in steps:
            if step.do != "skip":
                self._evidence(step.id, step.evidence)
        return [done[step.id] if step.do in ("add", "supersede") else step for step in steps]

    def _check_later(self, steps: Sequence[Step]) -> None:
        """What is over because of something later is so only as long as that is known."""
        own = {step.id for step in steps}
        later = {step.ended_by for step in steps if step.ended_by and step.ended_by not in own}
        if any(self._space.entry(self._place, fact_id) is None for fact_id in later):
            raise Stale(_STALE_PLAN)

    def _merge(self, step: Step) -> None:
        (target,) = step.targets
        confirmed = {"id": target.id, "version": target.version, "confidence": step.confidence}
        if not self._tx.run("set_confidence", **confirmed):
            raise Stale(_STALE_PLAN)

    def _end(self, target: Target, step: Step) -> None:
        """Let a fact be true until a step says something else: a new version says so, the one before stays as it was."""
        end_fact(self._space, self._place, self._current(target), Ending("past", step.valid_from, step.id))

    def _current(self, target: Target) -> Located:
        located = self._space.entry(self._place, target.id)
        if located is None or located.entry.version != target.version:
            raise Stale(_STALE_PLAN)
        return located

    def _add(self, steps: Sequence[Step]) -> dict[str, Step]:
        versions = next_versions(self._tx, [step.id for step in steps])
        numbered = [structs.replace(step, version=versions.get(step.id, 1)) for step in steps]
        for fact_id in versions:
            self._retire(fact_id)
        if numbered:
            self._space.append(self._place, FACTS_PATH, [_draft(step) for step in numbered])
        for step in numbered:
            self._tx.send(
                "add_fact",
                id=step.id,
                version=step.version,
                collection_id=self._collection_id,
                subject=step.subject,
                same=step.same,
                topic=step.topic,
                valid_from=step.valid_from,
                valid_to=step.valid_to,
                plan_id=self._plan_id,
                held=step.held,
                ended_by=step.ended_by or None,
            )
        return {step.id: step for step in numbered}

    def _retire(self, fact_id: str) -> None:
        """Whatever is known under an id that is told anew gives way to it."""
        located = self._space.entry(self._place, fact_id)
        if located is not None:
            version = located.entry.version
            upkeep.retire(self._tx, self._tx.rows("retire_entry", id=fact_id, version=version, now=self._space.now))

    def _evidence(self, fact_id: str, evidence: Sequence[Evidence]) -> None:
        for one in evidence:
            self._tx.send(
                "add_evidence",
                id=inner_id(),
                fact_id=fact_id,
                entry_id=one.entry,
                address_id=self._address_id,
                first_char=one.start,
                end_char=one.end,
                origin=one.origin,
                said_at=one.said_at,
                plan_id=self._plan_id,
            )


def _draft(step: Step) -> Draft:
    kind = "held" if step.held else "past" if step.past else "fact"
    return Draft(
        kind=kind,
        content=step.text,
        name=step.speaker,
        origin=step.origin,  # type: ignore[arg-type]
        importance=step.importance,
        confidence=step.confidence,
        occurred_at=max(one.said_at for one in step.evidence),
        id=step.id,
        version=step.version,
    )


def next_versions(tx: Tx, ids: Sequence[str]) -> dict[str, int]:
    """Which number the next version has, of those ids that were used before."""
    used = tx.rows("entries_exist", ids=msgspec.json.encode(list(ids)).decode()) if ids else []
    return {fact_id: list_versions(tx, fact_id)[-1].version + 1 for fact_id, _ in used}


# -- Taking a plan back: what it added is retired, what it ended is current again, what it confirmed is as sure as before.


def revert_plan(space: Space, place: Place, plan: Plan) -> int:
    """Undo a plan. What others have found for its facts since stays, and so do these. Returns how many facts changed."""
    if plan.state != "applied":
        raise Conflict(f"This plan is {plan.state}: only one that was applied can be taken back.")
    steps = decode_steps(plan.steps)
    space.tx.send("delete_evidence_of_plan", plan_id=plan.id)
    unsaying = Retraction(space, place)
    unsaying.settle({step.id for step in steps.steps if step.id})
    doubted = sum(
        _restore_confidence(space, step)
        for step in reversed(steps.steps)
        if step.do == "merge" and _is_written_by_hand(space, step)
    )
    ids = msgspec.json.encode(steps.notes).decode()
    upkeep.changed(space.tx, space.tx.rows("unsettle_notes", address_id=plan.address_id, ids=ids))
    settled = {
        "state": "reverted",
        "steps": encode_steps(steps),
        "applied_at": plan.applied_at,
        "reverted_at": space.now,
    }
    if not space.tx.run("settle_plan", id=plan.id, seen="applied", **settled):
        raise Conflict("Somebody else has just taken this plan back.")
    return len(unsaying.withdrawn) + len(unsaying.reworded) + len(unsaying.reopened) + doubted


def _restore_confidence(space: Space, step: Step) -> int:
    """A fact that was confirmed is as sure as it was."""
    confirmed = [{"id": one.id, "version": one.version, "confidence": one.confidence} for one in step.targets]
    return sum(space.tx.run("set_confidence", **one) for one in confirmed)


def _is_written_by_hand(space: Space, step: Step) -> bool:
    """Whether somebody has written a fact, so that no statement says how sure it was."""
    known = list_versions(space.tx, step.id)
    return bool(known) and known[-1].plan_id is None
