"""Consolidation: turn the new turns of a session into facts, as an operation and as a job.

    read_chunk           read the next turns of the session from a snapshot
    extract_statements   extract candidates with a language model if one is configured, otherwise with the rules (`rules/`)
    build_draft          decide what to do with each candidate (`plan_builder`, `reconcile`)
    apply_draft          write the facts and how far the session is consolidated, in one transaction (`plans`)

If the facts change between reading and writing, the plan is built again. An interrupted job continues with the next chunk.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from .. import typed
from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Space, worker_space
from ..errors import NotFound, Stale, Unavailable
from ..jobs.queue import JobKind, JobRun
from ..model.collection import Entry
from ..model.fields import SessionId
from ..screening.secrets import MASK, list_answered, mask_secrets
from ..storage.port import TenantStore, Tx
from .attribution import attribute_claims
from .datatypes import (
    UNNAMED_USER,
    Candidate,
    Extraction,
    PlanBody,
    PlanDraft,
    Session,
    Skip,
    SkippedPassage,
    Source,
    StoredPlan,
    Turn,
    count_steps,
    find_session,
    name_unnamed_user,
)
from .plans import FLOW_SAID, USER_SAID, Plan, apply_draft, find_last_fact_seq, store_draft, to_response
from .rules.extractor import extract_with_reasons

if TYPE_CHECKING:
    from ..search.search_engine import SearchEngine

MAX_TRIES = 8
"""Number of plans that are built if the facts keep changing."""
CONTEXT_TURNS = 6
"""Number of earlier turns that are read for context, such as the question before an answer."""
MAX_TURNS = 1000
"""Maximum number of turns in a chunk."""
_USER_FIELDS = ("user", "user_id", "user_name")
_decode_metadata = typed.decoder(dict[str, Any])


@dataclass(frozen=True)
class Chunk:
    """The turns of a session to consolidate, earlier turns for context, and the sequence number of the last fact (`head`)."""

    session: Session
    entries: list[Entry]
    head: int
    before: list[Entry]
    used: Mapping[str, Sequence[tuple[int, int]]] | None = None
    """The passages that are evidence of facts, by entry, if the turns were consolidated before; otherwise None."""

    @cached_property
    def turns(self) -> list[Turn]:
        return to_turns([*self.before, *self.entries], self.session)


def to_turns(entries: Sequence[Entry], session: Session) -> list[Turn]:
    """Convert entries to turns, as extractors see them: without the secrets, which no fact may contain."""
    turns, before = [], ""
    for entry in entries:
        if entry.content.strip():
            role = "tool" if entry.origin in ("tool", "document") else entry.role or "user"
            speaker, known = _speaker(entry, role, session)
            day = to_datetime(entry.occurred_at).date()
            content = mask_secrets(entry.content, list_answered(before, entry.content))
            turns.append(Turn(entry.id, role, speaker, content, day, known, entry.kind == "note"))
            before = entry.content
    return turns


def _speaker(entry: Entry, role: str, session: Session) -> tuple[str, bool]:
    """Return the name of a speaker in facts, and True if it identifies the speaker (C43). An id of a user is no name."""
    if entry.name:
        return _display_name(entry.name), True
    if role != "user":
        return f"The {role}", role == "assistant"
    user = _find_user(entry, session)
    return (_display_name(user), True) if user and _NAME.fullmatch(user) else (UNNAMED_USER, False)


def _find_user(entry: Entry, session: Session) -> str | None:
    """Return the user that the application gives for a turn; None if it gives none."""
    if session.dialect == "user":
        return session.name
    metadata = _decode_metadata(entry.metadata) if entry.metadata else {}
    return next(
        (metadata[field] for field in _USER_FIELDS if metadata.get(field) and isinstance(metadata[field], str)), None
    )


def add_subject(candidate: Candidate, entries: Mapping[str, Entry], session: Session) -> Candidate:
    """Give a statement of a user without a name a subject: the id of the user, or the user of the session."""
    entry = entries[candidate.sources[0].id]
    if entry.name or entry.origin in ("tool", "document") or (entry.role or "user") != "user":
        return candidate
    if candidate.subject is not None and candidate.subject != UNNAMED_USER:
        return candidate
    return candidate._replace(subject=_find_user(entry, session) or name_unnamed_user(session.path))


_NAME = re.compile(r"\s*[^\W\d_]{2,}(?:[ '\u2019.-]{1,2}[^\W\d_]+){0,4}\.?\s*")
"""The form of a name, unlike `u-204` or `ana@example.com`."""


def _display_name(name: str) -> str:
    """Capitalise a name for use in a sentence: `caroline` becomes `Caroline`."""
    plain = " ".join(name.split())
    return plain.capitalize() if plain.isalpha() and plain.islower() else plain or UNNAMED_USER


# -- the steps of consolidation


def read_chunk(space: Space, address_id: int, upto: int | None, again: bool = False) -> Chunk | None:
    """Return the next turns to consolidate, or with `again` the first ones; None if there are none."""
    tx, now, session = space.tx, space.now, find_session(space.tx, address_id)
    if session is None:
        return None
    again = again and session.distilled_seq > 0
    session = session._replace(distilled_seq=0) if again else session
    last = session.last_seq if upto is None else upto
    rows = tx.rows("next_entries", address_id=address_id, after=session.distilled_seq, now=now, limit=MAX_TURNS)
    entries = [entry for entry in (Entry(*row) for row in rows) if entry.seq <= last]
    if not entries:
        return None
    rows = tx.rows("last_entries", address_id=address_id, before=entries[0].seq, now=now, limit=CONTEXT_TURNS)
    used = tx.rows("evidence_in_session", address_id=address_id) if again else []
    passages = defaultdict[str, list[tuple[int, int]]](list)
    for entry_id, start, end in used:
        passages[entry_id].append((start, end))
    before = [Entry(*row) for row in reversed(rows)]
    return Chunk(session, entries, find_last_fact_seq(space, session), before, passages if again else None)


def extract_statements(engine: Engine, reach: TenantStore, chunk: Chunk) -> Extraction:
    """Extract candidates with the rules, and let a language model review them if one is configured."""
    extracted = extract_with_reasons(chunk.turns)
    if engine.completer is None:
        return extracted
    from .model_extractor import review_by_model  # here, because few servers have a model

    fresh = {entry.id for entry in chunk.entries}
    return review_by_model(*engine.completer, reach, engine.clock, chunk.turns, extracted, fresh)


def build_draft(reach: TenantStore, recall: SearchEngine, chunk: Chunk, extracted: Extraction) -> PlanDraft:
    """Decide what to do with each candidate, given the current facts. Nothing is written."""
    from .plan_builder import NeighbourSearch, build_plan, quote_planted  # here, because it imports numpy

    neighbours = NeighbourSearch(reach, recall, chunk.session.facts)
    fresh = {entry.id for entry in chunk.entries}
    stated = [one for one in extracted.candidates if one.sources[0].id in fresh]
    turns = [turn for turn in chunk.turns if turn.id in fresh]
    stated += quote_planted(turns, stated)
    known = [one for one in stated if _is_used(one.sources[0], chunk.used)]
    new = [one for one in stated if not _is_used(one.sources[0], chunk.used)] if known else stated
    entries = [*chunk.before, *chunk.entries]
    by_id = {entry.id: entry for entry in entries}
    new = attribute_claims(turns, by_id, new, shared=chunk.session.dialect == "flow")
    candidates = [add_subject(one, by_id, chunk.session) for one in new]
    draft = build_plan(chunk.session, entries, candidates, neighbours)
    passages = [SkippedPassage(*one) for one in extracted.dropped if one.id in fresh]
    passages += [SkippedPassage(*one.sources[0], Skip.DISTILLED_BEFORE) for one in known]
    texts = {
        turn.id: turn.text for turn in turns if MASK in turn.text
    }  # what holds a secret is quarantined, not skipped
    skipped = [one for one in passages if MASK not in texts.get(one.entry, "")[one.start : one.end]]
    return draft._replace(skipped=skipped, again=chunk.used is not None)


def _is_used(source: Source, used: Mapping[str, Sequence[tuple[int, int]]] | None) -> bool:
    """Return True if a passage is evidence of a fact already."""
    return used is not None and any(start < source.end and source.start < end for start, end in used.get(source.id, ()))


# -- the operation


DryRun = Annotated[bool, Meta(description="Return the plan without applying it.")]
Again = Annotated[
    bool, Meta(description="Start at the first turn again. Passages that are evidence of facts are skipped.")
]


class Consolidated(Response, frozen=True, kw_only=True):
    """The plan for a session; null if all of its turns were consolidated before."""

    session: str
    plan: Plan | None = None


class Consolidate(OwnerRequest, frozen=True, kw_only=True):
    """The session to consolidate."""

    session: SessionId
    dry_run: DryRun = False
    again: Again = False


@owner_operation(
    "consolidate",
    "POST /sessions/{session}/consolidate",
    effect="write",
    outside=True,
    patient=True,
    user=Example({"session": "monday", "dry_run": True}, USER_SAID),
    flow=Example({"session": "alice-42", "dry_run": True}, FLOW_SAID),
)
def consolidate(call: Call, request: Consolidate) -> Consolidated:
    """Turn up to 1000 new turns of a session into facts now, or return the plan without applying it.

    With `again`, these are the first 1000 turns. The rest of a longer session is consolidated by the next calls, without `again`.
    """

    def read(space: Space) -> Chunk | None:
        address = space.address(request.owner.timeline, request.session)
        if address is None:
            raise NotFound("There is no such session.")
        return read_chunk(space, address.id, None, request.again)

    answer: Consolidated | None = call.find_answer()
    if answer is not None:
        return answer
    reach, engine = TenantStore(call.engine.store, call.principal.tenant), call.engine
    for _ in range(MAX_TRIES):
        chunk = call.read(read)
        if chunk is None:
            return Consolidated(session=request.session)
        extracted = extract_statements(engine, reach, chunk)
        draft = build_draft(reach, engine.recall, chunk, extracted)
        try:
            return call.write(partial(_store, request=request, chunk=chunk, draft=draft, extracted=extracted))
        except Stale:
            continue
    raise Stale("The facts kept changing while the plan was built. Try again.")


def _store(
    space: Space, *, request: Consolidate, chunk: Chunk, draft: PlanDraft, extracted: Extraction
) -> Consolidated:
    """Apply a plan and store it. A dry run only stores it."""
    if request.dry_run:
        plan = store_draft(space, chunk.session, draft, extracted, chunk.head)
    else:
        plan, _ = apply_draft(space, chunk.session, draft, extracted, chunk.head)
    return Consolidated(session=chunk.session.path, plan=to_response(space, plan))


# -- the job


def run_consolidation(engine: Engine, run: JobRun) -> dict[str, Any]:
    address_id, upto = run.job.address_id, run.payload.get("to_seq")
    done: Counter[str] = Counter()
    plans: list[str] = []
    notes: dict[str, None] = {}
    while address_id is not None:
        chunk = _read_next(run, address_id, upto)
        if chunk is None:
            break
        plan, body = _plan_and_apply(run, engine.recall, chunk, extract_statements(engine, run.reach, chunk))
        plans.append(plan.id)
        done.update(count_steps(body.steps, body.skipped_count))
        notes.update({plan.note: None} if plan.note else {})
    return {"plans": plans, **count_steps([]), **done, "notes": list(notes)}


def _read_next(run: JobRun, address_id: int, upto: int | None) -> Chunk | None:
    return run.read(lambda tx: read_chunk(worker_space(tx, run.reach, run.clock), address_id, upto))


def _plan_and_apply(
    run: JobRun, recall: SearchEngine, chunk: Chunk, extracted: Extraction
) -> tuple[StoredPlan, PlanBody]:
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
) -> tuple[StoredPlan, PlanBody]:
    space = worker_space(tx, run.reach, run.clock)
    result = apply_draft(space, chunk.session, draft, extracted, chunk.head)
    operation = f"{chunk.session.dialect}s.consolidate"
    for one in space.touched.values():
        event = {"collection_id": one.collection_id, "address_id": one.address_id, "entries": one.entries}
        tx.send("add_event", at=space.now, operation=operation, actor="worker", **event)
    return result


JOBS = (JobKind("consolidate", run_consolidation),)
