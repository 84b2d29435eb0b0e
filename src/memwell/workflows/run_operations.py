"""Running workflows, looking on while they run, and reading their runs afterwards."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..clock import optional_datetime, to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..erasure import log
from ..errors import Conflict, NotFound
from ..model import check
from ..model.fields import ID_PATTERN, MAX_ID, Limit, Timeout
from ..records.records import delete_tied
from . import store
from .document import Runnable, parse
from .events import RunEvent, told
from .operations import HELLO, Source, VersionField, WorkflowId, decoded, find, read
from .runs import runs_of
from .store import Asked, Begun, RunRow, StepBody, decode_asked, state_of, steps_of

MAX_INPUT = 1024 * 1024
LOOK_EVERY_S = 0.2

RunId = Annotated[str, Meta(max_length=64, description="The run's id.")]
Input = Annotated[str, Meta(max_length=MAX_INPUT, description="What the run is given: `{{agent.input}}`.")]
Who = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN, description="Whose run it is: `{{metadata.owner}}`."),
]
Thread = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=ID_PATTERN,
        description="Which conversation it belongs to: `{{metadata.thread}}`.",
    ),
]
Inputs = Annotated[dict[str, Any], Meta(description="Fields of `$input`, for workflows of tasks.")]
RunMetadata = Annotated[
    dict[str, Any],
    Meta(description="What steps find as `{{metadata.user_id}}`: a JSON object of at most 64 KiB and 16 levels."),
]
Wait = Annotated[bool, Meta(description="Whether to wait for the end, or to answer as soon as the run has begun.")]

_GIVEN = (("workflows.create", {"document": HELLO}),)
_RUN = {"workflow": "$0.id", "input": "world", "metadata": {"user_id": "alice"}}
_RAN = (*_GIVEN, ("runs.begin", _RUN))


class StepRun(Response, frozen=True, kw_only=True):
    """What a step of a run did. `cut`: its input or output was longer than is kept."""

    id: str
    step_type: str
    path: str
    level: int
    status: str
    input: str
    output: str
    output_content_type: str
    started_at: datetime
    ended_at: datetime
    duration_seconds: float
    attempts: int = 1
    error: str | None = None
    cut: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)


class Run(Response, frozen=True, kw_only=True):
    """A run: `running`, `done`, `failed`, or `interrupted` if its process has ended."""

    id: str
    name: str
    status: str
    input: str
    started_at: datetime
    metadata: dict[str, Any]
    steps: list[StepRun]
    output: str | None = None
    error: str | None = None
    ended_at: datetime | None = None
    workflow: str | None = None
    workflow_version: int | None = None
    owner: str | None = None
    thread: str | None = None
    app: str | None = None


class Given(Request, frozen=True, kw_only=True):
    """What a run is given."""

    input: Input = ""
    inputs: Inputs | None = None
    metadata: RunMetadata | None = None
    owner: Who | None = None
    thread: Thread | None = None
    wait: Wait = True


class RunWorkflow(Given, frozen=True, kw_only=True):
    """Which workflow to run, in which version, and with what."""

    workflow: WorkflowId
    version: VersionField | None = None


@operation(
    "runs.begin",
    "POST /v1/workflows/{workflow}/runs",
    effect="write",
    outside=True,
    patient=True,
    repeatable=False,
    status=201,
    example=Example(_RUN, _GIVEN),
)
def run_workflow(call: Call, request: RunWorkflow) -> Run:
    """Run a stored workflow. The run goes on if the connection breaks, and can be read again."""
    found = call.read(lambda space: find(space, request.workflow, request.version))
    begun = Begun(found.name, _asked(request), found.id, found.version)
    return _run(call, parse(decoded(found.body)), begun, wait=request.wait)


class RunDocument(Given, frozen=True, kw_only=True):
    """A document to run without storing it, and what to run it with."""

    document: Source


@operation(
    "runs.begin_document",
    "POST /v1/workflows/run",
    effect="write",
    outside=True,
    patient=True,
    repeatable=False,
    status=201,
    example=Example({"document": HELLO, "input": "world", "metadata": {"user_id": "alice"}}),
)
def run_document(call: Call, request: RunDocument) -> Run:
    """Run a workflow from its document."""
    document, body = read(request.document)
    return _run(call, document, Begun(document.name, _asked(request, decoded(body))), wait=request.wait)


class OfRun(Request, frozen=True, kw_only=True):
    """Which run."""

    run: RunId


@operation("runs.get", "GET /v1/runs/{run}", example=Example({"run": "$1.id"}, _RAN))
def get_run(space: Space, request: OfRun) -> Run:
    """A run with what each of its steps was given, gave and took."""
    return _shown(space, _existing(space, request.run))


class ListRuns(Request, frozen=True, kw_only=True):
    """Which runs, the newest first."""

    workflow: WorkflowId | None = None
    limit: Limit = 50
    before: Annotated[str, Meta(max_length=64, description="Only runs before this one.")] | None = None


class RunList(Response, frozen=True, kw_only=True):
    """Runs without their steps, the newest first."""

    runs: list[Run]


@operation("runs.list", "GET /v1/runs", example=Example({"workflow": "$0.id"}, _RAN))
def list_runs(space: Space, request: ListRuns) -> RunList:
    """Runs, the newest first, of one workflow or of all."""
    before = request.before or "~"
    if request.workflow is None:
        rows = space.tx.rows("list_runs", before=before, limit=request.limit)
    else:
        rows = space.tx.rows("list_runs_of", workflow_id=request.workflow, before=before, limit=request.limit)
        if not rows:
            find(space, request.workflow, None)  # one that there is not has no runs to list, either
    found = store.presentable(space, [RunRow(*row) for row in rows])
    return RunList(runs=[_shown(space, row, steps=False) for row in found])


class Happened(Response, frozen=True, kw_only=True):
    """What has happened in a run, and whether that is all there will be."""

    events: list[RunEvent]
    over: bool


class EventsOfRun(Request, frozen=True, kw_only=True):
    """Which run, after which event, and how long to wait for the next."""

    run: RunId
    after: Annotated[int, Meta(ge=0, description="Only what comes after this number.")] = 0
    timeout_s: Timeout = 0.0


@operation(
    "runs.events",
    "GET /v1/runs/{run}/events",
    outside=True,
    patient=True,
    example=Example({"run": "$1.id"}, _RAN),
)
def events(call: Call, request: EventsOfRun) -> Happened:
    """What happens in a run, as it happens. Of one that is over, what its steps did and how it ended."""
    row = call.read(lambda space: _existing(space, request.run))
    live = runs_of(call.engine).live(request.run)
    if live is not None:
        if decode_asked(row.asked).erased:
            live.hush()
        found, over = live.after(request.after, request.timeout_s)
        return Happened(events=found, over=over)
    row = _waited(call, row, request.timeout_s)
    state = state_of(row, call.engine.clock.now())
    if state == "running":
        return Happened(events=[], over=False)
    found = told(row, state, call.read(lambda space: steps_of(space.tx, row)))
    return Happened(events=found[request.after :] or found[-1:], over=True)


@operation(
    "runs.repeat",
    "POST /v1/runs/{run}/repeat",
    effect="write",
    outside=True,
    patient=True,
    repeatable=False,
    example=Example({"run": "$1.id"}, _RAN),
)
def repeat(call: Call, request: OfRun) -> Run:
    """Run again what was interrupted or has failed, with the same input. What its steps have written is not written twice."""
    row = call.read(lambda space: _existing(space, request.run))
    if state_of(row, call.engine.clock.now()) == "running":
        raise Conflict("This run is still under way.")
    asked = decode_asked(row.asked)
    if asked.erased:
        raise Conflict("What this run was given was erased.")
    if row.workflow_id is not None:
        workflow_id, version = row.workflow_id, row.workflow_version
        source = call.read(lambda space: decoded(find(space, workflow_id, version).body))
    elif asked.document is not None:
        source = asked.document
    else:
        raise Conflict("What this run was given is not there any more.")
    begun = Begun(row.name, asked, row.workflow_id, row.workflow_version, row.id)
    return _run(call, parse(source), begun, wait=True)


class DeletedRun(Response, frozen=True, kw_only=True):
    """What was deleted."""

    id: str


@operation("runs.delete", "DELETE /v1/runs/{run}", effect="erase", example=Example({"run": "$1.id"}, _RAN))
def delete_run(space: Space, request: OfRun) -> DeletedRun:
    """Delete a run that is over, and what is kept of its steps."""
    if state_of(_existing(space, request.run), space.now) == "running":
        raise Conflict("This run is still under way: delete it when it has ended.")
    space.tx.send("delete_run_steps", run_id=request.run)
    space.tx.send("delete_run_touches", run_id=request.run)
    delete_tied(space, store.run_tie(request.run))
    space.tx.send("delete_run", id=request.run)
    log.note(space.tx, "run", request.run, space.now)
    return DeletedRun(id=request.run)


def _waited(call: Call, row: RunRow, timeout_s: float) -> RunRow:
    """A run of another process, once it is over or the time is."""
    until = time.monotonic() + timeout_s
    while state_of(row, call.engine.clock.now()) == "running" and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
        row = call.read(lambda space: _existing(space, row.id))  # noqa: B023 -- run at once
    return row


def _asked(request: Given, document: dict[str, Any] | None = None) -> Asked:
    check.to_json(request.metadata)
    check.to_json(request.inputs, "inputs", MAX_INPUT)
    return Asked(
        input=check.content(request.input, may_be_empty=True, field="input"),
        metadata=request.metadata or {},
        owner=request.owner,
        thread=request.thread,
        document=document,
        inputs=request.inputs,
    )


def _run(call: Call, document: Runnable, begun: Begun, *, wait: bool) -> Run:
    runs = runs_of(call.engine)
    run_id = runs.run(call, document, begun).run_id if wait else runs.start(call, document, begun)
    return call.read(lambda space: _shown(space, _existing(space, run_id)))


def _existing(space: Space, run_id: str) -> RunRow:
    found = store.find(space.tx, run_id)
    if found is None:
        raise NotFound("There is no such run.")
    return store.presentable(space, [found])[0]


def _shown(space: Space, row: RunRow, *, steps: bool = True) -> Run:
    asked = decode_asked(row.asked)
    return Run(
        id=row.id,
        name=row.name,
        status=state_of(row, space.now),
        input=asked.input,
        started_at=to_datetime(row.started_at),
        metadata=asked.metadata,
        steps=[_step(one) for one in steps_of(space.tx, row)] if steps else [],
        output=row.output,
        error=row.error,
        ended_at=optional_datetime(row.ended_at),
        workflow=row.workflow_id,
        workflow_version=row.workflow_version,
        owner=asked.owner,
        thread=asked.thread,
        app=asked.app,
    )


def _step(body: StepBody) -> StepRun:
    return StepRun(
        id=body.id,
        step_type=body.step_type,
        path=body.path,
        level=body.level,
        status=body.state,
        input=body.input,
        output=body.output,
        output_content_type=body.output_content_type,
        started_at=to_datetime(body.started_at),
        ended_at=to_datetime(body.ended_at),
        duration_seconds=round((body.ended_at - body.started_at) / 1e6, 6),
        attempts=body.attempts,
        error=body.error,
        cut=body.cut,
        warnings=list(body.warnings),
    )
