"""The `consolidate` job: turn what was said in a session since the last time into facts, a chunk of turns at a time.

    read_chunk           the next turns of the session, on a snapshot
    extract_statements   candidates, by a language model if one is set and by the rules otherwise (`rules/`)
    build_draft          what to do with each candidate (`plan_builder`, `reconcile`)
    apply_draft          write it in one transaction that also records how far the session is consolidated

If anything that the plan rests on has changed in between, it is built again. A job that died is taken up where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import structs

from .. import typed
from ..clock import to_datetime
from ..core.space import Located, Space, worker_space
from ..errors import Stale, Unavailable
from ..ids import inner_id, new_id
from ..jobs.queue import JobRun
from ..model.collection import Draft, Entry
from ..search import upkeep
from ..storage.port import TenantStore, Tx
from .fact_rows import FACTS_PATH, Ending, FactRow, end_fact, list_versions, write_fact
from .plan import (
    Evidence,
    Extraction,
    Plan,
    PlanBody,
    PlanDraft,
    Session,
    Step,
    Target,
    Turn,
    count_steps,
    encode_steps,
    find_session,
)
from .plan_builder import Extract, NeighbourSearch, build_plan, extract_by_rules, quote_planted

if TYPE_CHECKING:
    from ..core.engine import Engine
    from ..search.search_engine import SearchEngine

MAX_TRIES = 8
CONTEXT_TURNS = 6
"""Turns before the new ones that are read for context: an answer is understood by its question."""
MAX_TURNS = 1000
"""Turns of one plan."""
UNNAMED_USER = "The user"
_USER_FIELDS = ("user", "user_id", "user_name")
_TOOL_ORIGINS = ("tool", "document")
_decode_metadata = typed.decoder(dict[str, Any])


def next_turns(tx: Tx, session: Session, upto: int, now: int, limit: int = MAX_TURNS) -> list[Entry]:
    """The first turns that have not been consolidated."""
    after, found = session.distilled_seq, session.address_id
    rows = tx.rows("next_entries", address_id=found, after=after, now=now, limit=limit)
    return [entry for entry in (Entry(*row) for row in rows) if entry.seq <= upto]


def to_turns(entries: Sequence[Entry], session: Session) -> list[Turn]:
    return [_to_turn(entry, session) for entry in entries if entry.content.strip()]


def _to_turn(entry: Entry, session: Session) -> Turn:
    role = "tool" if entry.origin in _TOOL_ORIGINS else entry.role or "user"
    speaker, known = _speaker(entry, role, session)
    day = to_datetime(entry.occurred_at).date()
    return Turn(entry.id, role, speaker, entry.content, day, known, entry.kind == "note")


def _speaker(entry: Entry, role: str, session: Session) -> tuple[str, bool]:
    """The name that facts give a speaker, and whether it names a person (C43)."""
    if entry.name:
        return _display_name(entry.name), True
    if role != "user":
        return f"The {role}", role == "assistant"
    if session.dialect == "user":
        return _display_name(session.name), True
    metadata = _decode_metadata(entry.metadata) if entry.metadata else {}
    given = next((metadata[name] for name in _USER_FIELDS if isinstance(metadata.get(name), str)), None)
    return (_display_name(given), True) if given else (UNNAMED_USER, False)


def _display_name(name: str) -> str:
    """A name as it is written in a sentence: `caroline` becomes `Caroline`."""
    plain = " ".join(name.split())
    return plain.capitalize() if plain.isalpha() and plain.islower() else plain or UNNAMED_USER


# -- the job


class Chunk(NamedTuple):
    """Turns of a session, and the state of its facts (`head`) when they were read."""

    session: Session
    entries: list[Entry]
    head: int
    before: list[Entry]

    @property
    def turns(self) -> list[Turn]:
        return to_turns([*self.before, *self.entries], self.session)


def extract_statements(engine: Engine, reach: TenantStore, turns: Sequence[Turn]) -> Extraction:
    """Extract candidates, by a language model if one is set and by the rules otherwise."""
    if engine.completer is None:
        return extract_by_rules(turns)
    from .model_extractor import extract_by_model

    return extract_by_model(*engine.completer, reach, engine.clock, turns)


def consolidate_session(run: JobRun, recall: SearchEngine, extract: Extract) -> dict[str, Any]:
    address_id, upto = run.job.address_id, run.payload.get("to_seq")
    done: Counter[str] = Counter()
    plans: list[str] = []
    notes: dict[str, None] = {}
    while address_id is not None:
        chunk = run.read(lambda tx: read_chunk(_space(tx, run), address_id, upto))
        if chunk is None:
            break
        extracted = extract(chunk.turns)
        plan, steps = _plan_and_apply(run, recall, chunk, extracted)
        plans.append(plan.id)
        done.update(count_steps(steps.steps))
        notes.update({plan.note: None} if plan.note else {})
    return {"plans": plans, **count_steps([]), **done, "notes": list(notes)}


def read_chunk(space: Space, address_id: int, upto: int | None, limit: int = MAX_TURNS) -> Chunk | None:
    """The next turns to consolidate; None if there are none."""
    session = find_session(space.tx, address_id)
    if session is None:
        return None
    last = session.last_seq if upto is None else upto
    entries = next_turns(space.tx, session, last, space.now, limit)
    if not entries:
        return None
    rows = space.tx.rows(
        "last_entries", address_id=address_id, before=entries[0].seq, now=space.now, limit=CONTEXT_TURNS
    )
    before = [Entry(*row) for row in reversed(rows)]
    return Chunk(session, entries, last_fact_seq(space, session), before)


def build_draft(reach: TenantStore, recall: SearchEngine, chunk: Chunk, extracted: Extraction) -> PlanDraft:
    """Decide what to do with each candidate, given the facts of this moment. Nothing is written."""
    neighbours = NeighbourSearch(reach, recall, chunk.session.facts)
    fresh = {entry.id for entry in chunk.entries}
    new = [one for one in extracted.candidates if one.sources[0].id in fresh]
    planted = quote_planted(to_turns(chunk.entries, chunk.session), new)
    entries, proposed = [*chunk.before, *chunk.entries], extracted.method != "rules"
    return build_plan(chunk.session, entries, [*new, *planted], neighbours, proposed=proposed)


def apply_draft(space: Space, chunk: Chunk, draft: PlanDraft, extracted: Extraction) -> tuple[Plan, PlanBody]:
    """Apply a draft and store its plan, in the transaction of the space."""
    plan_id = new_id()
    steps = apply_plan(space, chunk.session, draft, plan_id, chunk.head)
    plan = to_plan(space, chunk, draft, extracted, plan_id)._replace(
        state="applied", steps=encode_steps(steps), applied_at=space.now
    )
    write_plan(space, chunk.session, plan)
    space.touch(chunk.session.collection_id, chunk.session.address_id)
    return plan, steps


def to_plan(space: Space, chunk: Chunk, draft: PlanDraft, extracted: Extraction, plan_id: str) -> Plan:
    return Plan(
        id=plan_id,
        collection_id=space.collection(chunk.session.facts)[0],
        address_id=chunk.session.address_id,
        state="proposed",
        method=extracted.method,
        note=extracted.note,
        head=chunk.head,
        first_seq=draft.first_seq,
        last_seq=draft.last_seq,
        steps=encode_steps(PlanBody(draft.steps)),
        created_at=space.now,
        applied_at=None,
        reverted_at=None,
    )


def _plan_and_apply(run: JobRun, recall: SearchEngine, chunk: Chunk, extracted: Extraction) -> tuple[Plan, PlanBody]:
    """Build a plan and apply it; again if the facts have changed in between."""
    for _ in range(MAX_TRIES):
        draft = build_draft(run.reach, recall, chunk, extracted)
        try:
            return run.write(lambda tx: _apply_and_report(tx, run, chunk, draft, extracted))  # noqa: B023 -- run at once
        except Stale:
            address_id, upto = chunk.session.address_id, chunk.entries[-1].seq
            again = run.read(lambda tx: read_chunk(_space(tx, run), address_id, upto))  # noqa: B023 -- run at once
            if again is None or _ids(again.entries) != _ids(chunk.entries):
                raise Unavailable("Another worker is consolidating this session.") from None
            chunk = again
    raise Unavailable("The facts kept changing while a plan was built. Try again.")


def _apply_and_report(
    tx: Tx, run: JobRun, chunk: Chunk, draft: PlanDraft, extracted: Extraction
) -> tuple[Plan, PlanBody]:
    space = _space(tx, run)
    done = apply_draft(space, chunk, draft, extracted)
    operation = f"{chunk.session.dialect}s.consolidate"
    for one in space.touched.values():
        event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
        tx.send("add_event", at=space.now, operation=operation, actor="worker", **event)
    return done


def _space(tx: Tx, run: JobRun) -> Space:
    return worker_space(tx, run.reach, run.clock)


def _ids(entries: Sequence[Entry]) -> list[str]:
    return [entry.id for entry in entries]


# -- applying a plan


_STALE_PLAN = "The facts have changed since this plan was draft. Make a new plan."


def last_fact_seq(space: Space, session: Session) -> int:
    """A number that changes whenever a fact is written. A plan is valid as long as it stays the same."""
    address = space.address(session.facts, FACTS_PATH)
    return 0 if address is None else address.last_seq


def apply_plan(space: Space, session: Session, draft: PlanDraft, plan_id: str, head: int) -> PlanBody:
    """Carry out the steps; return them with the versions that were written."""
    if last_fact_seq(space, session) != head:
        raise Stale(_STALE_PLAN)
    _advance_session(space, session, draft)
    applying = _PlanApplier(space, session, plan_id)
    steps = applying.run(draft.steps)
    return PlanBody(steps=steps, notes=_mark_notes_consolidated(space, session, steps))


def write_plan(space: Space, session: Session, plan: Plan) -> None:
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


def _advance_session(space: Space, session: Session, draft: PlanDraft) -> None:
    """Record how far the session is consolidated. Raise `Stale` if another plan did so first, or the session is deleted."""
    noted = space.tx.run(
        "advance_distilled",
        id=session.address_id,
        collection_id=session.collection_id,
        seen=draft.first_seq - 1,
        upto=draft.last_seq,
    )
    if not noted:
        raise Stale("These turns are already consolidated, or deleted.")


def _mark_notes_consolidated(space: Space, session: Session, steps: Sequence[Step]) -> list[str]:
    """Take notes that became facts out of search; return their ids."""
    said = list(dict.fromkeys(one.entry for step in steps if step.id for one in step.evidence))
    rows = space.tx.rows("settle_notes", address_id=session.address_id, ids=msgspec.json.encode(said).decode())
    upkeep.mark_changed(space.tx, rows)
    return said if rows else []


class _PlanApplier:
    def __init__(self, space: Space, session: Session, plan_id: str) -> None:
        self._space, self._tx, self._place = space, space.tx, session.facts
        self._address_id, self._plan_id = session.address_id, plan_id

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
        """Check that the facts by which steps are ended still exist."""
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
        """End a fact at the time from which a step is true."""
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
            row = FactRow(step.id, step.version, step.subject, step.same, step.topic, step.valid_from, step.valid_to)
            row = row._replace(plan_id=self._plan_id, held=step.held, ended_by=step.ended_by or None)
            write_fact(self._space, self._place, row)
        return {step.id: step for step in numbered}

    def _retire(self, fact_id: str) -> None:
        """Retire the version of a fact that is stated again under the same id."""
        located = self._space.entry(self._place, fact_id)
        if located is not None:
            version = located.entry.version
            upkeep.mark_changed(
                self._tx, self._tx.rows("retire_entry", id=fact_id, version=version, now=self._space.now)
            )

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
    """The next version number of those ids that were used before."""
    used = tx.rows("entries_exist", ids=msgspec.json.encode(list(ids)).decode()) if ids else []
    return {fact_id: list_versions(tx, fact_id)[-1].version + 1 for fact_id, _ in used}
