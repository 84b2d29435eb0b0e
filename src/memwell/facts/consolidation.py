"""The `consolidate` job: what was said in a session since it was last distilled becomes facts, a chunk at a time.

A chunk is planned on a snapshot and applied in one transaction, which notes how far the session is distilled. If anything
that the plan rests on has changed meanwhile, it is made anew; a worker that died is taken up by the next where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.space import Space, for_worker
from ..errors import Stale, Unavailable
from ..ids import new_id
from ..jobs.queue import JobRun
from ..model.collection import Entry
from ..storage.port import Reach, Tx
from .apply import apply_plan, last_fact_seq, write_plan
from .neighbours import NeighbourSearch
from .plan import Extraction, Plan, PlanBody, PlanDraft, Turn, count_steps, encode_steps
from .plan_builder import Extract, build_plan, extract_by_rules, quote_planted
from .session import MAX_TURNS, Session, find_session, next_turns, to_turns

if TYPE_CHECKING:
    from ..core.engine import Engine
    from ..search.search import Recall

MAX_TRIES = 8
CONTEXT_TURNS = 6
"""How many turns before what is new are looked at."""


class Chunk(NamedTuple):
    """Some turns of a session, and the state of what is known when they were read."""

    session: Session
    entries: list[Entry]
    head: int
    before: list[Entry]
    """The turns before, which were distilled already: an answer is understood by its question."""

    @property
    def said(self) -> list[Turn]:
        return to_turns([*self.before, *self.entries], self.session)


def extract_statements(engine: Engine, reach: Reach, turns: Sequence[Turn]) -> Extraction:
    """Statements that may become facts, by a language model if one is set and by rules otherwise."""
    if engine.completer is None:
        return extract_by_rules(turns)
    from .by_model import extract_by_model

    return extract_by_model(*engine.completer, reach, engine.clock, turns)


def consolidate_session(run: JobRun, recall: Recall, extract: Extract) -> dict[str, Any]:
    """The handler."""
    address_id, upto = run.job.address_id, run.payload.get("to_seq")
    done: Counter[str] = Counter()
    plans: list[str] = []
    notes: dict[str, None] = {}
    while address_id is not None:
        chunk = run.read(lambda tx: read_chunk(_space(tx, run), address_id, upto))
        if chunk is None:
            break
        extracted = extract(chunk.said)
        plan, steps = _plan_and_apply(run, recall, chunk, extracted)
        plans.append(plan.id)
        done.update(count_steps(steps.steps))
        notes.update({plan.note: None} if plan.note else {})
    return {"plans": plans, **count_steps([]), **done, "notes": list(notes)}


def read_chunk(space: Space, address_id: int, upto: int | None, limit: int = MAX_TURNS) -> Chunk | None:
    """The next turns that have not been distilled; None if there are none."""
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


def build_draft(reach: Reach, recall: Recall, chunk: Chunk, extracted: Extraction) -> PlanDraft:
    """What is to be done, as things stand."""
    around = NeighbourSearch(reach, recall, chunk.session.facts)
    fresh = {entry.id for entry in chunk.entries}
    new = [one for one in extracted.candidates if one.sources[0].id in fresh]
    aside = quote_planted(to_turns(chunk.entries, chunk.session), new)
    entries, proposed = [*chunk.before, *chunk.entries], extracted.method != "rules"
    return build_plan(chunk.session, entries, [*new, *aside], around, proposed=proposed)


def apply_draft(space: Space, chunk: Chunk, made: PlanDraft, extracted: Extraction) -> tuple[Plan, PlanBody]:
    """Apply a plan and write it down, in the transaction of the space."""
    plan_id = new_id()
    steps = apply_plan(space, chunk.session, made, plan_id, chunk.head)
    plan = to_plan(space, chunk, made, extracted, plan_id)._replace(
        state="applied", steps=encode_steps(steps), applied_at=space.now
    )
    write_plan(space, chunk.session, plan)
    space.touch(chunk.session.collection_id, chunk.session.address_id)
    return plan, steps


def to_plan(space: Space, chunk: Chunk, made: PlanDraft, extracted: Extraction, plan_id: str) -> Plan:
    return Plan(
        id=plan_id,
        collection_id=space.collection(chunk.session.facts)[0],
        address_id=chunk.session.address_id,
        state="proposed",
        method=extracted.method,
        note=extracted.note,
        head=chunk.head,
        first_seq=made.first_seq,
        last_seq=made.last_seq,
        steps=encode_steps(PlanBody(made.steps)),
        created_at=space.now,
        applied_at=None,
        reverted_at=None,
    )


def _plan_and_apply(run: JobRun, recall: Recall, chunk: Chunk, extracted: Extraction) -> tuple[Plan, PlanBody]:
    """Plan and apply; again if what is known has changed in between."""
    for _ in range(MAX_TRIES):
        made = build_draft(run.reach, recall, chunk, extracted)
        try:
            return run.write(lambda tx: _apply_and_report(tx, run, chunk, made, extracted))  # noqa: B023 -- run at once
        except Stale:
            address_id, upto = chunk.session.address_id, chunk.entries[-1].seq
            again = run.read(lambda tx: read_chunk(_space(tx, run), address_id, upto))  # noqa: B023 -- run at once
            if again is None or _ids(again.entries) != _ids(chunk.entries):
                raise Unavailable("Somebody else is distilling this session.") from None
            chunk = again
    raise Unavailable("What is known kept changing while a plan was made.")


def _apply_and_report(
    tx: Tx, run: JobRun, chunk: Chunk, made: PlanDraft, extracted: Extraction
) -> tuple[Plan, PlanBody]:
    space = _space(tx, run)
    done = apply_draft(space, chunk, made, extracted)
    operation = f"{chunk.session.dialect}s.consolidate"
    for one in space.touched.values():
        event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
        tx.send("add_event", at=space.now, operation=operation, actor="worker", **event)
    return done


def _space(tx: Tx, run: JobRun) -> Space:
    return for_worker(tx, run.reach, run.clock)


def _ids(entries: Sequence[Entry]) -> list[str]:
    return [entry.id for entry in entries]
