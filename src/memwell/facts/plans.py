"""Plans: what became, or would become, of what was said in a session. They can be looked at, applied and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.operation import Example, Request, Response, operation
from ..core.places import flow_facts, flow_timeline, user_facts, user_timeline
from ..core.space import Space
from ..errors import Conflict, NotFound, Stale
from ..ids import new_id
from ..jobs.queue import JobKind, JobRun
from ..model.collection import Place
from ..model.fields import AnyId, Cursor, Flow, Limit, SessionId, User, cut, from_cursor, to_cursor
from ..storage.port import Reach
from .plan import Extraction, PlanBody, PlanDraft, Step, count_steps, decode_steps, encode_steps, find_session
from .plan import Plan as StoredPlan

if TYPE_CHECKING:
    from .consolidation import Chunk

LATEST = "~"
"""After every id."""
TRIES = 5

DryRun = Annotated[bool, Meta(description="Whether to return what would be done, without doing it.")]

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "name": "Alice", "content": "I live in Lisbon."}
_SAID = (("flows.append", _TURN),)
_PLANNED = (*_SAID, ("flows.consolidate", {"flow": "support", "session": "alice-42", "dry_run": True}))
FLOW_DONE = (*_SAID, ("flows.consolidate", {"flow": "support", "session": "alice-42"}))
_NOTE = {"user": "alice", "content": "I live in Lisbon.", "session": "monday"}
_USER_SAID = (("users.add", _NOTE),)
_USER_PLANNED = (*_USER_SAID, ("users.consolidate", {"user": "alice", "session": "monday", "dry_run": True}))
USER_DONE = (*_USER_SAID, ("users.consolidate", {"user": "alice", "session": "monday"}))


class Words(Response, frozen=True, kw_only=True):
    """Where something was said: a turn, and from which of its characters to which."""

    turn: str
    start: int
    end: int
    origin: str
    said_at: datetime


class PlanStep(Response, frozen=True, kw_only=True):
    """What becomes of one statement: `add`, `merge` into a fact that is known, `supersede` others, or `skip`."""

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
    """What is to become of some turns of a session, or what has. `method` says how statements were found: by `rules`, or by a
    `model`; `note` why not by the model, if one is set."""

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
    """Plans, the newest first."""

    plans: list[Plan]
    next_cursor: str | None = None


class Consolidated(Response, frozen=True, kw_only=True):
    """The plan for a session; none if nothing was said that is not distilled yet."""

    session: str
    plan: Plan | None = None


class ConsolidateFlow(Request, frozen=True, kw_only=True):
    """Which session to distil now."""

    flow: Flow
    session: SessionId
    dry_run: DryRun = False


class ConsolidateUser(Request, frozen=True, kw_only=True):
    """Which conversation to distil now."""

    user: User
    session: SessionId
    dry_run: DryRun = False


class PlansOfFlow(Request, frozen=True, kw_only=True):
    """Which plans to return."""

    flow: Flow
    limit: Limit = 20
    cursor: Cursor | None = None


class PlansOfUser(Request, frozen=True, kw_only=True):
    """Which plans to return."""

    user: User
    limit: Limit = 20
    cursor: Cursor | None = None


class FlowPlan(Request, frozen=True, kw_only=True):
    """Which plan of a flow."""

    flow: Flow
    id: AnyId


class UserPlan(Request, frozen=True, kw_only=True):
    """Which plan of a user."""

    user: User
    id: AnyId


@operation(
    "flows.consolidate",
    "POST /v1/flows/{flow}/sessions/{session}/consolidate",
    effect="write",
    bound="flow",
    outside=True,
    patient=True,
    example=Example({"flow": "support", "session": "alice-42", "dry_run": True}, _SAID),
)
def consolidate_flow(call: Call, request: ConsolidateFlow) -> Consolidated:
    """Distil what was said in a session into facts now, or show what that would do."""
    return _consolidate(call, flow_timeline(request.flow), request.session, request.dry_run)


@operation(
    "users.consolidate",
    "POST /v1/users/{user}/sessions/{session}/consolidate",
    effect="write",
    bound="user",
    outside=True,
    patient=True,
    example=Example({"user": "alice", "session": "monday", "dry_run": True}, _USER_SAID),
)
def consolidate_user(call: Call, request: ConsolidateUser) -> Consolidated:
    """Distil what was said in a conversation into facts now, or show what that would do."""
    return _consolidate(call, user_timeline(request.user), request.session, request.dry_run)


@operation("flows.plans", "GET /v1/flows/{flow}/plans", bound="flow", example=Example({"flow": "support"}, _PLANNED))
def plans_of_flow(space: Space, request: PlansOfFlow) -> Plans:
    """The plans of a flow, the newest first: what was distilled, when, from what, and why."""
    return _list(space, flow_facts(request.flow), request.cursor, request.limit)


@operation("users.plans", "GET /v1/users/{user}/plans", bound="user", example=Example({"user": "alice"}, _USER_PLANNED))
def plans_of_user(space: Space, request: PlansOfUser) -> Plans:
    """The plans of a user, the newest first: what was distilled, when, from what, and why."""
    return _list(space, user_facts(request.user), request.cursor, request.limit)


@operation(
    "flows.plan",
    "GET /v1/flows/{flow}/plans/{id}",
    bound="flow",
    example=Example({"flow": "support", "id": "$1.plan.id"}, _PLANNED),
)
def plan_of_flow(space: Space, request: FlowPlan) -> Plan:
    """One plan."""
    return _shown(space, _existing(space, flow_facts(request.flow), request.id))


@operation(
    "users.plan",
    "GET /v1/users/{user}/plans/{id}",
    bound="user",
    example=Example({"user": "alice", "id": "$1.plan.id"}, _USER_PLANNED),
)
def plan_of_user(space: Space, request: UserPlan) -> Plan:
    """One plan."""
    return _shown(space, _existing(space, user_facts(request.user), request.id))


@operation(
    "flows.apply_plan",
    "POST /v1/flows/{flow}/plans/{id}/apply",
    effect="write",
    bound="flow",
    example=Example({"flow": "support", "id": "$1.plan.id"}, _PLANNED),
)
def apply_plan_of_flow(space: Space, request: FlowPlan) -> Plan:
    """Do what a plan says, if nothing that it rests on has changed."""
    return _apply(space, flow_facts(request.flow), request.id)


@operation(
    "users.apply_plan",
    "POST /v1/users/{user}/plans/{id}/apply",
    effect="write",
    bound="user",
    example=Example({"user": "alice", "id": "$1.plan.id"}, _USER_PLANNED),
)
def apply_plan_of_user(space: Space, request: UserPlan) -> Plan:
    """Do what a plan says, if nothing that it rests on has changed."""
    return _apply(space, user_facts(request.user), request.id)


@operation(
    "flows.revert_plan",
    "POST /v1/flows/{flow}/plans/{id}/revert",
    effect="write",
    bound="flow",
    example=Example({"flow": "support", "id": "$1.plan.id"}, FLOW_DONE),
)
def revert_plan_of_flow(space: Space, request: FlowPlan) -> Plan:
    """Take back what a plan did. What was said stays as it is."""
    return _revert(space, flow_facts(request.flow), request.id)


@operation(
    "users.revert_plan",
    "POST /v1/users/{user}/plans/{id}/revert",
    effect="write",
    bound="user",
    example=Example({"user": "alice", "id": "$1.plan.id"}, USER_DONE),
)
def revert_plan_of_user(space: Space, request: UserPlan) -> Plan:
    """Take back what a plan did. What was said stays as it is."""
    return _revert(space, user_facts(request.user), request.id)


# -- what both do --------------------------------------------------------------------------------------------------------


def _consolidate(call: Call, timeline: Place, path: str, dry_run: bool) -> Consolidated:
    """Plan what was said so far, up to a thousand turns, and apply it unless it is a dry run."""
    from .consolidation import build_draft, extract_statements, read_chunk

    reach, engine = Reach(call.engine.store, call.principal.tenant), call.engine
    for _ in range(TRIES):
        chunk = call.read(lambda space: read_chunk(space, _address(space, timeline, path), None))
        if chunk is None:
            return Consolidated(session=path)
        extracted = extract_statements(engine, reach, chunk.turns)
        made = build_draft(reach, engine.recall, chunk, extracted)
        try:
            return call.write(partial(_settled, chunk=chunk, made=made, extracted=extracted, dry_run=dry_run))
        except Stale:
            continue
    raise Stale("What is known kept changing while this was planned: try again.")


def _settled(space: Space, *, chunk: Chunk, made: PlanDraft, extracted: Extraction, dry_run: bool) -> Consolidated:
    from .consolidation import apply_draft, to_plan, write_plan

    if dry_run:
        plan = to_plan(space, chunk, made, extracted, new_id())
        write_plan(space, chunk.session, plan)
        space.touch(chunk.session.collection_id, chunk.session.address_id)
    else:
        plan, _ = apply_draft(space, chunk, made, extracted)
    return Consolidated(session=chunk.session.path, plan=_shown(space, plan))


def _address(space: Space, timeline: Place, path: str) -> int:
    address = space.address(timeline, path)
    if address is None:
        raise NotFound("There is no such session.")
    return address.id


def _list(space: Space, facts: Place, cursor: str | None, limit: int) -> Plans:
    collection = space.found(facts)
    if collection is None:
        return Plans(plans=[])
    (before,) = from_cursor("plans", cursor, LATEST)
    rows = space.tx.rows("list_plans", collection_id=collection, before=before, limit=limit + 1)
    shown, further = cut([StoredPlan(*row) for row in rows], limit, lambda plan: to_cursor("plans", plan.id))
    return Plans(plans=[_shown(space, plan) for plan in shown], next_cursor=further)


def _existing(space: Space, facts: Place, plan_id: str) -> StoredPlan:
    collection = space.found(facts)
    row = None if collection is None else space.tx.row("find_plan", collection_id=collection, id=plan_id)
    if row is None:
        raise NotFound("There is no such plan.")
    return StoredPlan(*row)


def _apply(space: Space, facts: Place, plan_id: str) -> Plan:
    from .consolidation import apply_plan

    plan = _existing(space, facts, plan_id)
    if plan.state != "proposed":
        raise Conflict(f"This plan is {plan.state} already.")
    session = find_session(space.tx, plan.address_id)
    if session is None:
        raise NotFound("The session of this plan is gone.")
    made = PlanDraft(decode_steps(plan.steps).steps, plan.first_seq, plan.last_seq)
    steps = apply_plan(space, session, made, plan.id, plan.head)
    settled = plan._replace(state="applied", steps=encode_steps(steps), applied_at=space.now)
    space.tx.run(
        "settle_plan",
        id=plan.id,
        seen="proposed",
        state="applied",
        steps=settled.steps,
        applied_at=space.now,
        reverted_at=None,
    )
    space.touch(session.collection_id, session.address_id)
    return _shown(space, settled)


def _revert(space: Space, facts: Place, plan_id: str) -> Plan:
    from .retract import revert_plan

    plan = _existing(space, facts, plan_id)
    revert_plan(space, facts, plan)
    session = find_session(space.tx, plan.address_id)
    if session is not None:
        space.touch(session.collection_id, session.address_id)
    return _shown(space, plan._replace(state="reverted", reverted_at=space.now))


def _shown(space: Space, plan: StoredPlan) -> Plan:
    steps: PlanBody = decode_steps(plan.steps)
    session = find_session(space.tx, plan.address_id)
    return Plan(
        id=plan.id,
        state=plan.state,
        method=plan.method,
        note=plan.note,
        session=None if session is None else session.path,
        first_seq=plan.first_seq,
        last_seq=plan.last_seq,
        counts=count_steps(steps.steps),
        steps=_steps(steps.steps),
        created_at=to_datetime(plan.created_at),
        applied_at=optional_datetime(plan.applied_at),
        reverted_at=optional_datetime(plan.reverted_at),
    )


def _steps(steps: Sequence[Step]) -> list[PlanStep]:
    return [
        PlanStep(
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
        for step in steps
    ]


def run_consolidation(engine: Engine, run: JobRun) -> dict[str, Any]:
    from .consolidation import consolidate_session, extract_statements

    return consolidate_session(run, engine.recall, lambda turns: extract_statements(engine, run.reach, turns))


JOBS = (JobKind("consolidate", run_consolidation),)
