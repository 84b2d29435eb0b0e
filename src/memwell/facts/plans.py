"""Operations on plans: consolidate a session, and list, read, apply and revert plans."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Space
from ..errors import Conflict, NotFound, Stale
from ..ids import new_id
from ..jobs.queue import JobKind, JobRun
from ..model.collection import Place
from ..model.fields import AnyId, Cursor, Limit, SessionId, cut, from_cursor, to_cursor
from ..storage.port import TenantStore
from .plan import Extraction, PlanDraft, Step, count_steps, decode_steps, encode_steps, find_session
from .plan import Plan as StoredPlan
from .retract import revert_plan as revert_steps

if TYPE_CHECKING:
    from .consolidation import Chunk

LATEST = "~"
"""Sorts after every id."""
TRIES = 5

DryRun = Annotated[bool, Meta(description="Return the plan without applying it.")]

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "name": "Alice", "content": "I live in Lisbon."}
_FLOW_SAID = (("flows.append", _TURN),)
_FLOW_PLANNED = (*_FLOW_SAID, ("flows.consolidate", {"flow": "support", "session": "alice-42", "dry_run": True}))
FLOW_DONE = (*_FLOW_SAID, ("flows.consolidate", {"flow": "support", "session": "alice-42"}))
_NOTE = {"user": "alice", "content": "I live in Lisbon.", "session": "monday"}
_USER_SAID = (("users.add", _NOTE),)
_USER_PLANNED = (*_USER_SAID, ("users.consolidate", {"user": "alice", "session": "monday", "dry_run": True}))
USER_DONE = (*_USER_SAID, ("users.consolidate", {"user": "alice", "session": "monday"}))
_ID = {"id": "$1.plan.id"}


class Words(Response, frozen=True, kw_only=True):
    """A passage of a turn. `end` is the position after its last character."""

    turn: str
    start: int
    end: int
    origin: str
    said_at: datetime


class PlanStep(Response, frozen=True, kw_only=True):
    """The decision about one statement: `add`, `merge` into a known fact, `supersede` others, or `skip`."""

    do: str
    reason: str
    text: str
    kind: str
    evidence: list[Words]
    importance: float
    confidence: float
    origin: str
    id: str | None = None
    subject: str | None = None
    ends: list[str] | None = None
    held: str | None = None
    past: bool = False


class Plan(Response, frozen=True, kw_only=True):
    """The decisions about some turns of a session. `method`: `rules`, `model` or `model+rules`. `note`: the reason why a
    configured model was not used."""

    id: str
    state: str
    method: str
    session: str | None
    first_seq: int
    last_seq: int
    counts: dict[str, int]
    steps: list[PlanStep]
    created_at: datetime
    applied_at: datetime | None = None
    reverted_at: datetime | None = None
    note: str | None = None


class Plans(Response, frozen=True, kw_only=True):
    """Plans, newest first."""

    plans: list[Plan]
    next_cursor: str | None = None


class Consolidated(Response, frozen=True, kw_only=True):
    """The plan for a session; null if all of its turns were consolidated before."""

    session: str
    plan: Plan | None = None


class Consolidate(OwnerRequest, frozen=True, kw_only=True):
    """The session to consolidate."""

    session: SessionId
    dry_run: DryRun = False


@owner_operation(
    "consolidate",
    "POST /sessions/{session}/consolidate",
    effect="write",
    outside=True,
    patient=True,
    user=Example({"session": "monday", "dry_run": True}, _USER_SAID),
    flow=Example({"session": "alice-42", "dry_run": True}, _FLOW_SAID),
)
def consolidate(call: Call, request: Consolidate) -> Consolidated:
    """Turn up to 1000 new turns of a session into facts now, or return the plan without applying it."""
    from .consolidation import build_draft, extract_statements, read_chunk

    def read(space: Space) -> Chunk | None:
        address = space.address(request.owner.timeline, request.session)
        if address is None:
            raise NotFound("There is no such session.")
        return read_chunk(space, address.id, None)

    reach, engine = TenantStore(call.engine.store, call.principal.tenant), call.engine
    for _ in range(TRIES):
        chunk = call.read(read)
        if chunk is None:
            return Consolidated(session=request.session)
        extracted = extract_statements(engine, reach, chunk.turns)
        draft = build_draft(reach, engine.recall, chunk, extracted)
        store = partial(_store_plan, chunk=chunk, draft=draft, extracted=extracted, dry_run=request.dry_run)
        try:
            return call.write(store)
        except Stale:
            continue
    raise Stale("The facts kept changing while the plan was built. Try again.")


def _store_plan(space: Space, *, chunk: Chunk, draft: PlanDraft, extracted: Extraction, dry_run: bool) -> Consolidated:
    """Apply a plan and store it. A dry run only stores it."""
    from .consolidation import apply_draft, to_plan, write_plan

    if dry_run:
        plan = to_plan(space, chunk, draft, extracted, new_id())
        write_plan(space, plan)
        space.touch(chunk.session.collection_id, chunk.session.address_id)
    else:
        plan, _ = apply_draft(space, chunk, draft, extracted)
    return Consolidated(session=chunk.session.path, plan=_to_response(space, plan))


class ListPlans(OwnerRequest, frozen=True, kw_only=True):
    """Selects a page of plans."""

    limit: Limit = 20
    cursor: Cursor | None = None


@owner_operation("plans", "GET /plans", user=Example({}, _USER_PLANNED), flow=Example({}, _FLOW_PLANNED))
def list_plans(space: Space, request: ListPlans) -> Plans:
    """List the plans of a {owner}, newest first, with their steps, reasons and evidence."""
    collection = space.find_collection_id(request.owner.facts)
    if collection is None:
        return Plans(plans=[])
    (before,) = from_cursor("plans", request.cursor, LATEST)
    rows = space.tx.rows("list_plans", collection_id=collection, before=before, limit=request.limit + 1)
    page, further = cut([StoredPlan(*row) for row in rows], request.limit, lambda plan: to_cursor("plans", plan.id))
    return Plans(plans=[_to_response(space, plan) for plan in page], next_cursor=further)


class OnePlan(OwnerRequest, frozen=True, kw_only=True):
    """Selects a plan."""

    id: AnyId


@owner_operation("plan", "GET /plans/{id}", user=Example(_ID, _USER_PLANNED), flow=Example(_ID, _FLOW_PLANNED))
def plan(space: Space, request: OnePlan) -> Plan:
    """Read one plan."""
    return _to_response(space, _require_plan(space, request.owner.facts, request.id))


@owner_operation(
    "apply_plan",
    "POST /plans/{id}/apply",
    effect="write",
    user=Example(_ID, _USER_PLANNED),
    flow=Example(_ID, _FLOW_PLANNED),
)
def apply_plan(space: Space, request: OnePlan) -> Plan:
    """Apply a plan, unless the facts have changed since it was built."""
    from .consolidation import apply_plan as apply_steps

    plan = _require_plan(space, request.owner.facts, request.id)
    if plan.state != "proposed":
        raise Conflict(f"This plan is already {plan.state}.")
    session = find_session(space.tx, plan.address_id)
    if session is None:
        raise NotFound("The session of this plan was deleted.")
    draft = PlanDraft(decode_steps(plan.steps).steps, plan.first_seq, plan.last_seq)
    steps = apply_steps(space, session, draft, plan.id, plan.head)
    applied = plan._replace(state="applied", steps=encode_steps(steps), applied_at=space.now)
    settled = {"state": "applied", "steps": applied.steps, "applied_at": space.now, "reverted_at": None}
    space.tx.run("settle_plan", id=plan.id, seen="proposed", **settled)
    space.touch(session.collection_id, session.address_id)
    return _to_response(space, applied)


@owner_operation(
    "revert_plan", "POST /plans/{id}/revert", effect="write", user=Example(_ID, USER_DONE), flow=Example(_ID, FLOW_DONE)
)
def revert_plan(space: Space, request: OnePlan) -> Plan:
    """Undo the changes of a plan. The turns themselves stay."""
    plan = _require_plan(space, request.owner.facts, request.id)
    revert_steps(space, request.owner.facts, plan)
    session = find_session(space.tx, plan.address_id)
    if session is not None:
        space.touch(session.collection_id, session.address_id)
    return _to_response(space, plan._replace(state="reverted", reverted_at=space.now))


def _require_plan(space: Space, facts: Place, plan_id: str) -> StoredPlan:
    collection = space.find_collection_id(facts)
    row = None if collection is None else space.tx.row("find_plan", collection_id=collection, id=plan_id)
    if row is None:
        raise NotFound("There is no such plan.")
    return StoredPlan(*row)


def _to_response(space: Space, plan: StoredPlan) -> Plan:
    steps = decode_steps(plan.steps).steps
    session = find_session(space.tx, plan.address_id)
    return Plan(
        id=plan.id,
        state=plan.state,
        method=plan.method,
        note=plan.note,
        session=None if session is None else session.path,
        first_seq=plan.first_seq,
        last_seq=plan.last_seq,
        counts=count_steps(steps),
        steps=[_to_step(step) for step in steps],
        created_at=to_datetime(plan.created_at),
        applied_at=optional_datetime(plan.applied_at),
        reverted_at=optional_datetime(plan.reverted_at),
    )


def _to_step(step: Step) -> PlanStep:
    return PlanStep(
        do=step.do,
        reason=step.reason,
        text=step.text,
        kind=step.kind,
        evidence=[
            Words(turn=one.entry, start=one.start, end=one.end, origin=one.origin, said_at=to_datetime(one.said_at))
            for one in step.evidence
        ],
        importance=step.importance,
        confidence=step.confidence,
        origin=step.origin,
        id=step.id or None,
        subject=step.subject,
        ends=[target.id for target in step.targets] if step.do == "supersede" else None,
        held=step.held,
        past=step.past,
    )


def run_consolidation(engine: Engine, run: JobRun) -> dict[str, Any]:
    from .consolidation import consolidate_session

    return consolidate_session(engine, run)


JOBS = (JobKind("consolidate", run_consolidation),)
