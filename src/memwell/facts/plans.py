"""Plans: store and apply the decisions of a consolidation, and list, read, apply and revert them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import structs

from ..clock import optional_datetime, to_datetime
from ..core.operation import Example, Response
from ..core.owners import OwnerRequest, owner_operation
from ..core.space import Space
from ..errors import Conflict, NotFound, Stale
from ..ids import inner_id, new_id
from ..model.collection import Address, Draft, Place
from ..model.fields import AnyId, Cursor, Limit, cut, from_cursor, to_cursor
from ..screening.secrets import mask_secrets, shorten_masks
from ..search import upkeep
from .datatypes import (
    Extraction,
    PlanBody,
    PlanDraft,
    Session,
    SkippedPassage,
    Step,
    StoredPlan,
    Target,
    count_steps,
    decode_steps,
    encode_steps,
    find_session,
)
from .fact_rows import FACTS_PATH, NOT_ENDED, Ending, FactRow, end_fact, list_versions, write_fact
from .retract import Retraction

LATEST = "~"
"""Sorts after every id."""
ENDINGS = ("end", "hold")
"""Actions that change known facts only."""
MAX_SHOWN = 600
"""Maximum number of characters of a skipped passage in a response."""
_STALE_PLAN = "The facts have changed since this plan was built. Build a new plan."

_TURN = {"flow": "support", "session": "alice-42", "role": "user", "name": "Alice", "content": "I live in Lisbon."}
FLOW_SAID = (("flows.append", _TURN),)
_FLOW_PLANNED = (*FLOW_SAID, ("flows.consolidate", {"flow": "support", "session": "alice-42", "dry_run": True}))
FLOW_DONE = (*FLOW_SAID, ("flows.consolidate", {"flow": "support", "session": "alice-42"}))
_NOTE = {"user": "alice", "content": "I live in Lisbon.", "session": "monday"}
USER_SAID = (("users.add", _NOTE),)
_USER_PLANNED = (*USER_SAID, ("users.consolidate", {"user": "alice", "session": "monday", "dry_run": True}))
USER_DONE = (*USER_SAID, ("users.consolidate", {"user": "alice", "session": "monday"}))
_ID = {"id": "$1.plan.id"}


class Passage(Response, frozen=True, kw_only=True):
    """A passage of a turn. `end` is the position after its last character."""

    turn: str
    start: int
    end: int
    origin: str
    said_at: datetime


class PlanStep(Response, frozen=True, kw_only=True):
    """The decision about one statement: `add`, `merge` into a known fact, `supersede` others, or `skip`; in the plan of an
    audit `end` a fact or `hold` a duplicate, where `id` is the fact that stays. `decided_by`: `model` if the language model
    worded, added or dropped the statement, else `rules`."""

    do: str
    reason: str
    text: str
    kind: str
    evidence: list[Passage]
    importance: float
    confidence: float
    origin: str
    id: str | None = None
    subject: str | None = None
    ends: list[str] | None = None
    held: str | None = None
    past: bool = False
    decided_by: str = "rules"


class SkippedSentence(Response, frozen=True, kw_only=True):
    """A passage of a turn that gave no step, and the reason. `text` is null if the turn is gone."""

    turn: str
    start: int
    end: int
    reason: str
    text: str | None = None


class Plan(Response, frozen=True, kw_only=True):
    """The decisions about some turns of a session. `method`: `rules`, `model`, `model+rules` or `audit`. `note`: the reason why a
    configured model was not used. `skipped` lists up to 1000 passages without a step."""

    id: str
    state: str
    method: str
    session: str | None
    first_seq: int
    last_seq: int
    counts: dict[str, int]
    steps: list[PlanStep]
    skipped: list[SkippedSentence]
    created_at: datetime
    applied_at: datetime | None = None
    reverted_at: datetime | None = None
    note: str | None = None


class Plans(Response, frozen=True, kw_only=True):
    """Plans, newest first."""

    plans: list[Plan]
    next_cursor: str | None = None


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
    return Plans(plans=[to_response(space, plan) for plan in page], next_cursor=further)


class OnePlan(OwnerRequest, frozen=True, kw_only=True):
    """Selects a plan."""

    id: AnyId


@owner_operation("plan", "GET /plans/{id}", user=Example(_ID, _USER_PLANNED), flow=Example(_ID, _FLOW_PLANNED))
def plan(space: Space, request: OnePlan) -> Plan:
    """Read one plan."""
    return to_response(space, _require_plan(space, request.owner.facts, request.id))


@owner_operation(
    "apply_plan",
    "POST /plans/{id}/apply",
    effect="write",
    user=Example(_ID, _USER_PLANNED),
    flow=Example(_ID, _FLOW_PLANNED),
)
def apply_plan(space: Space, request: OnePlan) -> Plan:
    """Apply a plan, unless the facts have changed since it was built or reverted."""
    plan = _require_plan(space, request.owner.facts, request.id)
    if plan.state == "applied":
        raise Conflict("This plan is already applied.")
    session = find_session(space.tx, plan.address_id)
    if session is None:
        raise NotFound("The session of this plan was deleted.")
    body = decode_steps(plan.steps)
    draft = PlanDraft(body.steps, plan.first_seq, plan.last_seq, body.skipped, again=body.again)
    steps = _apply_steps(space, session, draft, plan.id, plan.head, reverted=plan.state == "reverted")
    steps = structs.replace(steps, skipped_count=body.skipped_count)
    applied = plan._replace(state="applied", steps=encode_steps(steps), applied_at=space.now, reverted_at=None)
    settled = {"state": "applied", "steps": applied.steps, "applied_at": space.now, "reverted_at": None}
    if not space.tx.run("settle_plan", id=plan.id, seen=plan.state, head=plan.head, **settled):
        raise Conflict("Another request has just applied this plan.")
    space.touch(session.collection_id, session.address_id)
    return to_response(space, applied)


@owner_operation(
    "revert_plan", "POST /plans/{id}/revert", effect="write", user=Example(_ID, USER_DONE), flow=Example(_ID, FLOW_DONE)
)
def revert_plan(space: Space, request: OnePlan) -> Plan:
    """Undo the changes of a plan. The turns themselves stay."""
    plan = _require_plan(space, request.owner.facts, request.id)
    if plan.state != "applied":
        raise Conflict(f"This plan is {plan.state}. Only an applied plan can be reverted.")
    body = decode_steps(plan.steps)
    space.tx.send("delete_evidence_of_plan", plan_id=plan.id)
    Retraction(space, request.owner.facts).update_facts({step.id for step in body.steps if step.id})
    for step in reversed(body.steps):
        versions = list_versions(space.tx, step.id) if step.do == "merge" else []
        if versions and versions[-1].plan_id is None:  # a person wrote the fact: it gets its old confidence back
            for one in step.targets:
                space.tx.run("set_confidence", id=one.id, version=one.version, confidence=one.confidence)
        if step.do in ENDINGS:
            _reopen_targets(space, request.owner.facts, step)
    ids = msgspec.json.encode(body.notes).decode()
    upkeep.mark_changed(space.tx, space.tx.rows("unsettle_notes", address_id=plan.address_id, ids=ids))
    # the plan can be applied again as long as the facts stay as they are now
    body = structs.replace(body, steps=[_renew_targets(space, request.owner.facts, step) for step in body.steps])
    session = find_session(space.tx, plan.address_id)
    head = plan.head if session is None else find_last_fact_seq(space, session)
    plan = plan._replace(state="reverted", head=head, steps=encode_steps(body), reverted_at=space.now)
    settled = {name: getattr(plan, name) for name in ("state", "head", "steps", "applied_at", "reverted_at")}
    if not space.tx.run("settle_plan", id=plan.id, seen="applied", **settled):
        raise Conflict("Another request has just reverted this plan.")
    if session is not None:
        space.touch(session.collection_id, session.address_id)
    return to_response(space, plan)


def _renew_targets(space: Space, place: Place, step: Step) -> Step:
    """Give the targets of a step their current versions."""
    located = [(target, space.entry(place, target.id)) for target in step.targets]
    targets = [
        Target(
            target.id, one.entry.version, target.confidence if one.entry.confidence is None else one.entry.confidence
        )
        for target, one in located
        if one is not None
    ]
    return structs.replace(step, targets=targets)


def _require_plan(space: Space, facts: Place, plan_id: str) -> StoredPlan:
    collection = space.find_collection_id(facts)
    row = None if collection is None else space.tx.row("find_plan", collection_id=collection, id=plan_id)
    if row is None:
        raise NotFound("There is no such plan.")
    return StoredPlan(*row)


def to_response(space: Space, plan: StoredPlan) -> Plan:
    body = decode_steps(plan.steps)
    steps = body.steps
    session = find_session(space.tx, plan.address_id)
    return Plan(
        id=plan.id,
        state=plan.state,
        method=plan.method,
        note=plan.note,
        session=None if session is None else session.path,
        first_seq=plan.first_seq,
        last_seq=plan.last_seq,
        counts=count_steps(steps, body.skipped_count),
        steps=[_to_step(space, step) for step in steps],
        skipped=_to_skipped(space, body.skipped),
        created_at=to_datetime(plan.created_at),
        applied_at=optional_datetime(plan.applied_at),
        reverted_at=optional_datetime(plan.reverted_at),
    )


def _to_skipped(space: Space, passages: Sequence[SkippedPassage]) -> list[SkippedSentence]:
    """Return the passages with their words, without secrets."""
    ids = msgspec.json.encode(sorted({one.entry for one in passages})).decode()
    texts: dict[str, str] = dict(space.tx.rows("entry_texts", ids=ids, now=space.now)) if passages else {}
    masked = {entry: mask_secrets(text) for entry, text in texts.items()}
    return [
        SkippedSentence(
            turn=one.entry,
            start=one.start,
            end=one.end,
            reason=one.reason,
            text=shorten_masks(masked[one.entry][one.start : one.end])[:MAX_SHOWN] if one.entry in masked else None,
        )
        for one in passages
    ]


class Distilled(Response, frozen=True, kw_only=True):
    """The number of statements of a session that were kept as facts, held in quarantine and skipped, and the number of turns that
    are still to be distilled."""

    kept: int
    held: int
    skipped: int
    waiting: int


def count_distilled(space: Space, address: Address) -> Distilled:
    """Count what became of the statements of a session, by its applied plans."""
    bodies = [
        decode_steps(steps)
        for _, steps, state in space.tx.rows("plans_of_address", address_id=address.id)
        if state == "applied"
    ]
    counts = Counter[str]()
    for body in bodies:
        counts.update(count_steps(body.steps, body.skipped_count))
    return Distilled(
        kept=counts["added"] + counts["merged"] + counts["superseded"] - counts["held"],
        held=counts["held"],
        skipped=counts["skipped"],
        waiting=address.last_seq - address.distilled_seq,
    )


def _to_step(space: Space, step: Step) -> PlanStep:
    # a plan of an audit has no words of facts, so that they are gone when the facts are erased
    versions = [list_versions(space.tx, one.id)[-1:] for one in step.targets] if step.do in ENDINGS else []
    return PlanStep(
        do=step.do,
        reason=step.reason,
        text=step.text or " ".join(one.content for found in versions for one in found),
        kind=step.kind,
        evidence=[
            Passage(turn=one.entry, start=one.start, end=one.end, origin=one.origin, said_at=to_datetime(one.said_at))
            for one in step.evidence
        ],
        importance=step.importance,
        confidence=step.confidence,
        origin=step.origin,
        id=step.id or None,
        subject=step.subject,
        ends=[target.id for target in step.targets] if step.do in ("supersede", *ENDINGS) else None,
        held=step.held,
        past=step.past,
        decided_by=step.decided_by,
    )


# -- storing and applying a plan


def store_draft(space: Space, session: Session, draft: PlanDraft, extracted: Extraction, head: int) -> StoredPlan:
    """Store a plan without applying it."""
    plan = _to_stored(space, session, draft, extracted, head)
    return write_plan(space, session, plan)


def apply_draft(
    space: Space, session: Session, draft: PlanDraft, extracted: Extraction, head: int
) -> tuple[StoredPlan, PlanBody]:
    """Apply a plan and store it, in the transaction of the space."""
    plan = _to_stored(space, session, draft, extracted, head)
    body = _apply_steps(space, session, draft, plan.id, head)
    plan = plan._replace(state="applied", steps=encode_steps(body), applied_at=space.now)
    return write_plan(space, session, plan), body


def _to_stored(space: Space, session: Session, draft: PlanDraft, extracted: Extraction, head: int) -> StoredPlan:
    return StoredPlan(
        id=new_id(),
        collection_id=space.collection(session.facts)[0],
        address_id=session.address_id,
        state="proposed",
        method=extracted.method,
        note=extracted.note,
        head=head,
        first_seq=draft.first_seq,
        last_seq=draft.last_seq,
        steps=encode_steps(draft.body),
        created_at=space.now,
        applied_at=None,
        reverted_at=None,
    )


def write_plan(space: Space, session: Session, plan: StoredPlan) -> StoredPlan:
    columns = plan._asdict()
    del columns["reverted_at"]
    space.tx.send("add_plan", now=columns.pop("created_at"), **columns)
    space.touch(session.collection_id, session.address_id)
    return plan


def find_last_fact_seq(space: Space, session: Session) -> int:
    """Return a number that changes with each written fact. A plan is valid as long as the number stays the same."""
    address = space.address(session.facts, FACTS_PATH)
    return 0 if address is None else address.last_seq


def _advance(space: Space, session: Session, draft: PlanDraft, reverted: bool) -> None:
    """Mark the turns of a plan as consolidated. A plan that is applied again finds them marked already."""
    span = {"seen": draft.first_seq - 1, "upto": draft.last_seq}
    if reverted or draft.again:
        current = find_session(space.tx, session.address_id)
        if current is None or current.distilled_seq < draft.first_seq - 1:
            raise Stale(_STALE_PLAN)
        # of a long session that is consolidated again, the turns after this plan are to follow
        upto = draft.last_seq if draft.again and not reverted else max(draft.last_seq, current.distilled_seq)
        span = {"seen": current.distilled_seq, "upto": upto}
    if not space.tx.run("advance_distilled", id=session.address_id, collection_id=session.collection_id, **span):
        raise Stale("These turns were consolidated or deleted in the meantime.")


def _apply_steps(
    space: Space, session: Session, draft: PlanDraft, plan_id: str, head: int, reverted: bool = False
) -> PlanBody:
    """Carry out the steps, and return them with the versions of the facts that were written."""
    if find_last_fact_seq(space, session) != head:
        raise Stale(_STALE_PLAN)
    _advance(space, session, draft, reverted)
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
    return structs.replace(draft.body, steps=steps, notes=cited if rows else [])


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
        elif step.do in ENDINGS:
            located, kept = space.entry(place, target.id), space.entry(place, step.id)
            if located is None or kept is None or (located.entry.version, kept.entry.kind) != (target.version, "fact"):
                raise Stale(_STALE_PLAN)
            ending = Ending("past", step.valid_from, step.id)
            end_fact(space, place, located, Ending("held", None, step.id, step.held) if step.held else ending)


def _reopen_targets(space: Space, place: Place, step: Step) -> None:
    """Make the facts that a step ended or held current again, unless something else has ended them since."""
    for target in step.targets:
        located, versions = space.entry(place, target.id), list_versions(space.tx, target.id)
        if located is not None and versions and versions[-1].ended_by == step.id and versions[-1].kind != "fact":
            end_fact(space, place, located, NOT_ENDED)


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
