"""The `consolidate` job: turn the new turns of a session into facts, one chunk of turns after another.

    read_chunk           read the next turns of the session from a snapshot
    extract_statements   extract candidates with a language model if one is configured, otherwise with the rules (`rules/`)
    build_draft          decide what to do with each candidate (`plan_builder`, `reconcile`)
    apply_draft          write the facts and how far the session is consolidated, in one transaction

If the facts change between reading and writing, the plan is built again. An interrupted job continues with the next chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import structs

from .. import typed
from ..clock import to_datetime
from ..core.space import Space, worker_space
from ..errors import Stale, Unavailable
from ..ids import inner_id, new_id
from ..jobs.queue import JobRun
from ..model.collection import Draft, Entry, Place
from ..search import upkeep
from ..storage.port import TenantStore, Tx
from .fact_rows import FACTS_PATH, Ending, FactRow, end_fact, list_versions, write_fact
from .model_extractor import extract_by_model
from .plan import Extraction, Plan, PlanBody, PlanDraft, Session, Step, Turn, count_steps, encode_steps, find_session
from .plan_builder import NeighbourSearch, build_plan, quote_planted
from .rules.extractor import extract_with_reasons

if TYPE_CHECKING:
    from ..core.engine import Engine
    from ..search.search_engine import SearchEngine

MAX_TRIES = 8
CONTEXT_TURNS = 6
"""Number of earlier turns that are read for context, such as the question before an answer."""
MAX_TURNS = 1000
"""Maximum number of turns in a chunk."""
UNNAMED_USER = "The user"
_USER_FIELDS = ("user", "user_id", "user_name")
_STALE_PLAN = "The facts have changed since this plan was built. Build a new plan."
_decode_metadata = typed.decoder(dict[str, Any])


class Chunk(NamedTuple):
    """The turns of a session to consolidate, earlier turns for context, and the sequence number of the last fact (`head`)."""

    session: Session
    entries: list[Entry]
    head: int
    before: list[Entry]

    @property
    def turns(self) -> list[Turn]:
        return to_turns([*self.before, *self.entries], self.session)


def to_turns(entries: Sequence[Entry], session: Session) -> list[Turn]:
    turns = []
    for entry in entries:
        if entry.content.strip():
            role = "tool" if entry.origin in ("tool", "document") else entry.role or "user"
            speaker, known = _speaker(entry, role, session)
            day = to_datetime(entry.occurred_at).date()
            turns.append(Turn(entry.id, role, speaker, entry.content, day, known, entry.kind == "note"))
    return turns


def _speaker(entry: Entry, role: str, session: Session) -> tuple[str, bool]:
    """Return the name of a speaker in facts, and True if it identifies the speaker (C43)."""
    if entry.name:
        return _display_name(entry.name), True
    if role != "user":
        return f"The {role}", role == "assistant"
    if session.dialect == "user":
        return _display_name(session.name), True
    metadata = _decode_metadata(entry.metadata) if entry.metadata else {}
    name = next((metadata[field] for field in _USER_FIELDS if isinstance(metadata.get(field), str)), None)
    return (_display_name(name), True) if name else (UNNAMED_USER, False)


def _display_name(name: str) -> str:
    """Capitalise a name for use in a sentence: `caroline` becomes `Caroline`."""
    plain = " ".join(name.split())
    return plain.capitalize() if plain.isalpha() and plain.islower() else plain or UNNAMED_USER


# -- the steps of consolidation


def read_chunk(space: Space, address_id: int, upto: int | None) -> Chunk | None:
    """Return the next turns to consolidate; None if none are left."""
    tx, now, session = space.tx, space.now, find_session(space.tx, address_id)
    if session is None:
        return None
    last = session.last_seq if upto is None else upto
    rows = tx.rows("next_entries", address_id=address_id, after=session.distilled_seq, now=now, limit=MAX_TURNS)
    entries = [entry for entry in (Entry(*row) for row in rows) if entry.seq <= last]
    if not entries:
        return None
    rows = tx.rows("last_entries", address_id=address_id, before=entries[0].seq, now=now, limit=CONTEXT_TURNS)
    return Chunk(session, entries, _last_fact_seq(space, session), [Entry(*row) for row in reversed(rows)])


def extract_statements(engine: Engine, reach: TenantStore, turns: Sequence[Turn]) -> Extraction:
    """Extract candidates with a language model if one is configured, otherwise with the rules."""
    if engine.completer is None:
        return extract_with_reasons(turns)
    return extract_by_model(*engine.completer, reach, engine.clock, turns)


def build_draft(reach: TenantStore, recall: SearchEngine, chunk: Chunk, extracted: Extraction) -> PlanDraft:
    """Decide what to do with each candidate, given the current facts. Nothing is written."""
    neighbours = NeighbourSearch(reach, recall, chunk.session.facts)
    fresh = {entry.id for entry in chunk.entries}
    new = [one for one in extracted.candidates if one.sources[0].id in fresh]
    planted = quote_planted(to_turns(chunk.entries, chunk.session), new)
    entries, proposed = [*chunk.before, *chunk.entries], extracted.method != "rules"
    return build_plan(chunk.session, entries, [*new, *planted], neighbours, proposed=proposed)


def apply_draft(space: Space, chunk: Chunk, draft: PlanDraft, extracted: Extraction) -> tuple[Plan, PlanBody]:
    """Apply a draft and store its plan, in the transaction of the space."""
    plan_id = new_id()
    body = apply_plan(space, chunk.session, draft, plan_id, chunk.head)
    plan = to_plan(space, chunk, draft, extracted, plan_id)._replace(
        state="applied", steps=encode_steps(body), applied_at=space.now
    )
    write_plan(space, plan)
    space.touch(chunk.session.collection_id, chunk.session.address_id)
    return plan, body


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


def write_plan(space: Space, plan: Plan) -> None:
    columns = plan._asdict()
    del columns["reverted_at"]
    space.tx.send("add_plan", now=columns.pop("created_at"), **columns)


# -- the job


def consolidate_session(engine: Engine, run: JobRun) -> dict[str, Any]:
    address_id, upto = run.job.address_id, run.payload.get("to_seq")
    done: Counter[str] = Counter()
    plans: list[str] = []
    notes: dict[str, None] = {}
    while address_id is not None:
        chunk = _read_next(run, address_id, upto)
        if chunk is None:
            break
        plan, body = _plan_and_apply(run, engine.recall, chunk, extract_statements(engine, run.reach, chunk.turns))
        plans.append(plan.id)
        done.update(count_steps(body.steps))
        notes.update({plan.note: None} if plan.note else {})
    return {"plans": plans, **count_steps([]), **done, "notes": list(notes)}


def _read_next(run: JobRun, address_id: int, upto: int | None) -> Chunk | None:
    return run.read(lambda tx: read_chunk(worker_space(tx, run.reach, run.clock), address_id, upto))


def _plan_and_apply(run: JobRun, recall: SearchEngine, chunk: Chunk, extracted: Extraction) -> tuple[Plan, PlanBody]:
    """Build a plan and apply it. Repeat this if the facts changed in between."""
    for _ in range(MAX_TRIES):
        draft = build_draft(run.reach, recall, chunk, extracted)
        try:
            return run.write(lambda tx: _apply_and_report(tx, run, chunk, draft, extracted))  # noqa: B023 -- run at once
        except Stale:
            again = _read_next(run, chunk.session.address_id, chunk.entries[-1].seq)
            if again is None or [one.id for one in again.entries] != [one.id for one in chunk.entries]:
                raise Unavailable("Another worker is consolidating this session.") from None
            chunk = again
    raise Unavailable("The facts kept changing while a plan was built. Try again.")


def _apply_and_report(
    tx: Tx, run: JobRun, chunk: Chunk, draft: PlanDraft, extracted: Extraction
) -> tuple[Plan, PlanBody]:
    space = worker_space(tx, run.reach, run.clock)
    result = apply_draft(space, chunk, draft, extracted)
    operation = f"{chunk.session.dialect}s.consolidate"
    for one in space.touched.values():
        event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
        tx.send("add_event", at=space.now, operation=operation, actor="worker", **event)
    return result


# -- applying a plan


def apply_plan(space: Space, session: Session, draft: PlanDraft, plan_id: str, head: int) -> PlanBody:
    """Carry out the steps, and return them with the versions of the facts that were written."""
    if _last_fact_seq(space, session) != head:
        raise Stale(_STALE_PLAN)
    span = {"seen": draft.first_seq - 1, "upto": draft.last_seq}
    if not space.tx.run("advance_distilled", id=session.address_id, collection_id=session.collection_id, **span):
        raise Stale("These turns were consolidated or deleted in the meantime.")
    own = {step.id for step in draft.steps}
    later = {step.ended_by for step in draft.steps if step.ended_by and step.ended_by not in own}
    if any(space.entry(session.facts, fact_id) is None for fact_id in later):
        raise Stale(_STALE_PLAN)
    for step in draft.steps:
        _change_targets(space, session.facts, step)
    added = _add_facts(space, session.facts, [step for step in draft.steps if step.do in ("add", "supersede")], plan_id)
    stated = [step for step in draft.steps if step.do != "skip"]
    for step in stated:
        for one in step.evidence:
            space.tx.send(
                "add_evidence",
                id=inner_id(),
                fact_id=step.id,
                entry_id=one.entry,
                address_id=session.address_id,
                first_char=one.start,
                end_char=one.end,
                origin=one.origin,
                said_at=one.said_at,
                plan_id=plan_id,
            )
    cited = list(dict.fromkeys(one.entry for step in stated for one in step.evidence))
    # search finds the facts from now on, not the notes that they came from
    rows = space.tx.rows("settle_notes", address_id=session.address_id, ids=msgspec.json.encode(cited).decode())
    upkeep.mark_changed(space.tx, rows)
    steps = [added[step.id] if step.do in ("add", "supersede") else step for step in draft.steps]
    return PlanBody(steps=steps, notes=cited if rows else [])


def _last_fact_seq(space: Space, session: Session) -> int:
    """Return a number that changes with each written fact. A plan is valid as long as the number stays the same."""
    address = space.address(session.facts, FACTS_PATH)
    return 0 if address is None else address.last_seq


def _change_targets(space: Space, place: Place, step: Step) -> None:
    """Confirm the fact that a step merges into, or end the facts that it supersedes."""
    for target in step.targets:
        if step.do == "merge":
            confirmed = {"id": target.id, "version": target.version, "confidence": step.confidence}
            if not space.tx.run("set_confidence", **confirmed):
                raise Stale(_STALE_PLAN)
        elif step.do == "supersede":
            located = space.entry(place, target.id)
            if located is None or located.entry.version != target.version:
                raise Stale(_STALE_PLAN)
            end_fact(space, place, located, Ending("past", step.valid_from, step.id))


def _add_facts(space: Space, place: Place, steps: Sequence[Step], plan_id: str) -> dict[str, Step]:
    """Write new facts, and return their steps by id, with the versions that were written."""
    ids = msgspec.json.encode([step.id for step in steps]).decode()
    used = space.tx.rows("entries_exist", ids=ids) if steps else []
    versions = {fact_id: list_versions(space.tx, fact_id)[-1].version + 1 for fact_id, _ in used}
    numbered = [structs.replace(step, version=versions.get(step.id, 1)) for step in steps]
    for fact_id in versions:  # the id exists, because the same passage was consolidated before
        located = space.entry(place, fact_id)
        if located is not None:
            version = located.entry.version
            rows = space.tx.rows("retire_entry", id=fact_id, version=version, now=space.now)
            upkeep.mark_changed(space.tx, rows)
    if numbered:
        space.append(place, FACTS_PATH, [_to_draft(step) for step in numbered])
    for step in numbered:
        row = FactRow(step.id, step.version, step.subject, step.same, step.topic, step.valid_from, step.valid_to)
        row = row._replace(plan_id=plan_id, held=step.held, ended_by=step.ended_by or None)
        write_fact(space, place, row)
    return {step.id: step for step in numbered}


def _to_draft(step: Step) -> Draft:
    return Draft(
        kind="held" if step.held else "past" if step.past else "fact",
        content=step.text,
        name=step.speaker,
        origin=step.origin,  # type: ignore[arg-type]
        importance=step.importance,
        confidence=step.confidence,
        occurred_at=max(one.said_at for one in step.evidence),
        id=step.id,
        version=step.version,
    )
