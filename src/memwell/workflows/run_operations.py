"""Operations that run workflows and apps, and read runs and their events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .. import typed
from ..banks.banks import CreateBank, add_bank, build_bank
from ..clock import optional_datetime, to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..erasure import log
from ..errors import Conflict, Invalid, NotFound
from ..ids import new_id
from ..model.fields import MAX_ID, Limit, SessionId, Timeout, check_content, id_limits, to_json
from ..records.apps import App, AppName, Reference, SessionMetadata, SessionRequest, UserId, open_session, require_app
from ..records.records import delete_tied
from ..text.yaml import spell_path
from . import run_rows
from .live_runs import Cache, RunStart, runs_of
from .model_call import NO_MODEL
from .operations import (
    HELLO,
    Runnable,
    Source,
    VersionField,
    WorkflowId,
    decode_document,
    parse_document,
    read_document,
    require_workflow,
)
from .run import RunEvent, WorkflowRun, build_events, find_bank_id, renew_lease
from .run_rows import NewRun, RunInput, RunRow, StepBody, decode_input, list_steps
from .task_document import TaskDocument, build_input
from .task_run import TaskRun, check_run
from .tree_run import TreeRun

MAX_INPUT = 1024 * 1024
POLL_S = 0.2
RunId = Annotated[str, Meta(max_length=64, description="The run's id.")]
Input = Annotated[str, Meta(max_length=MAX_INPUT, description="The input of the run: `{{agent.input}}`.")]
RunOwner = Annotated[str, id_limits(MAX_ID, "The owner of the run: `{{metadata.owner}}`.")]
Thread = Annotated[str, id_limits(MAX_ID, "The conversation of the run: `{{metadata.thread}}`.")]
Inputs = Annotated[dict[str, Any], Meta(description="Fields of `$input`, for workflows of tasks.")]
RunMetadata = Annotated[
    dict[str, Any],
    Meta(
        description="Values for templates such as `{{metadata.user_id}}`: a JSON object of at most 64 KiB and 16 levels."
    ),
]
Wait = Annotated[bool, Meta(description="Wait for the end of the run, or answer as soon as it has begun.")]
_STORED = (("workflows.create", {"document": HELLO}),)
_RUN = {"workflow": "$0.id", "input": "world", "metadata": {"user_id": "alice"}}
_RAN = (*_STORED, ("runs.begin", _RUN))
_ECHO: dict[str, Any] = {"name": "echo", "steps": [{"step_type": "display_result"}]}
_APP = (("workflows.create", {"document": _ECHO}), ("apps.configure", {"app": "shop", "workflow": "$0.id"}))


class StepRun(Response, frozen=True, kw_only=True):
    """A step of a run. `cut`: its input or output was longer than is stored."""

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
    """A run: `running`, `done`, `failed`, or `interrupted` if its process ended first."""

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


class StartRun(Request, frozen=True, kw_only=True):
    """The input of a run."""

    input: Input = ""
    inputs: Inputs | None = None
    metadata: RunMetadata | None = None
    owner: RunOwner | None = None
    thread: Thread | None = None
    wait: Wait = True


class RunWorkflow(StartRun, frozen=True, kw_only=True):
    """A workflow to run, and its input."""

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
    example=Example(_RUN, _STORED),
)
def run_workflow(call: Call, request: RunWorkflow) -> Run:
    """Run a stored workflow. The run goes on if the connection breaks, and can be read again."""
    stored = call.read(require_workflow, request.workflow, request.version)
    new = NewRun(stored.name, _to_input(request), stored.id, stored.version)
    return _run(call, parse_document(decode_document(stored.body)), new, wait=request.wait)


class RunDocument(StartRun, frozen=True, kw_only=True):
    """A document to run without storing it, and its input."""

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
    found = read_document(request.document)
    found.problems.refuse()
    new = NewRun(found.document.name, _to_input(request, decode_document(found.body)))
    return _run(call, found.document, new, wait=request.wait)


class OfRun(Request, frozen=True, kw_only=True):
    """A run."""

    run: RunId


@operation("runs.get", "GET /v1/runs/{run}", example=Example({"run": "$1.id"}, _RAN))
def get_run(space: Space, request: OfRun) -> Run:
    """Read a run with the input, output and duration of its steps."""
    return _to_response(space, _require_run(space, request.run))


class ListRuns(Request, frozen=True, kw_only=True):
    """Runs to list, the newest first."""

    workflow: WorkflowId | None = None
    limit: Limit = 50
    before: Annotated[str, Meta(max_length=64, description="Only runs before this one.")] | None = None


class RunList(Response, frozen=True, kw_only=True):
    """Runs without their steps, the newest first."""

    runs: list[Run]


@operation("runs.list", "GET /v1/runs", example=Example({"workflow": "$0.id"}, _RAN))
def list_runs(space: Space, request: ListRuns) -> RunList:
    """List the runs of one workflow or of all, the newest first."""
    before = request.before or "~"
    if request.workflow is None:
        rows = space.tx.rows("list_runs", before=before, limit=request.limit)
    else:
        rows = space.tx.rows("list_runs_of", workflow_id=request.workflow, before=before, limit=request.limit)
        if not rows:
            require_workflow(space, request.workflow)
    found = run_rows.hide_expired(space, [RunRow(*row) for row in rows])
    return RunList(runs=[_to_response(space, row, steps=False) for row in found])


class Happened(Response, frozen=True, kw_only=True):
    """Events of a run. `over` is true if there will be no more."""

    events: list[RunEvent]
    over: bool


class EventsOfRun(Request, frozen=True, kw_only=True):
    """A run, the number of the last event that was read, and the time to wait for the next."""

    run: RunId
    after: Annotated[int, Meta(ge=0, description="Only events after this number.")] = 0
    timeout_s: Timeout = 0.0


@operation(
    "runs.events", "GET /v1/runs/{run}/events", outside=True, patient=True, example=Example({"run": "$1.id"}, _RAN)
)
def list_events(call: Call, request: EventsOfRun) -> Happened:
    """List the events of a run as they happen. For a run that is over, list its steps and its outcome."""
    row = call.read(_require_run, request.run)
    log = runs_of(call.engine).find_events(request.run)
    if log is not None:
        if decode_input(row.asked).erased:
            log.redact()
        events, over = log.list_after(request.after, request.timeout_s)
        return Happened(events=events, over=over)
    until = time.monotonic() + request.timeout_s
    while (state := row.find_state(call.engine.clock.now())) == "running":  # in another process
        if time.monotonic() >= until:
            return Happened(events=[], over=False)
        time.sleep(POLL_S)
        row = call.read(_require_run, request.run)
    events = build_events(row, state, call.read(lambda space: list_steps(space.tx, row)))
    return Happened(events=events[request.after :] or events[-1:], over=True)


@operation(
    "runs.repeat",
    "POST /v1/runs/{run}/repeat",
    effect="write",
    outside=True,
    patient=True,
    repeatable=False,
    example=Example({"run": "$1.id"}, _RAN),
)
def repeat_run(call: Call, request: OfRun) -> Run:
    """Repeat a run that was interrupted or has failed, with the same input. Entries are not written twice."""
    row = call.read(_require_run, request.run)
    if row.find_state(call.engine.clock.now()) == "running":
        raise Conflict("This run is still running.")
    given = decode_input(row.asked)
    if given.erased:
        raise Conflict("The input of this run was erased.")
    if row.workflow_id is not None:
        source = decode_document(call.read(require_workflow, row.workflow_id, row.workflow_version).body)
    elif given.document is not None:
        source = given.document
    else:
        raise Conflict("The document of this run no longer exists.")
    new = NewRun(row.name, given, row.workflow_id, row.workflow_version, row.id)
    return _run(call, parse_document(source), new, wait=True)


class DeletedRun(Response, frozen=True, kw_only=True):
    """The id of the deleted run."""

    id: str


@operation("runs.delete", "DELETE /v1/runs/{run}", effect="erase", example=Example({"run": "$1.id"}, _RAN))
def delete_run(space: Space, request: OfRun) -> DeletedRun:
    """Delete a run that is over, with its steps."""
    if _require_run(space, request.run).find_state(space.now) == "running":
        raise Conflict("This run is still running: delete it when it has ended.")
    space.tx.send("delete_run_steps", run_id=request.run)
    space.tx.send("delete_run_touches", run_id=request.run)
    delete_tied(space, run_rows.run_tie(request.run))
    space.tx.send("delete_run", id=request.run)
    log.note(space.tx, "run", request.run, space.now)
    return DeletedRun(id=request.run)


def _to_input(request: StartRun, document: dict[str, Any] | None = None) -> RunInput:
    to_json(request.metadata)
    to_json(request.inputs, "inputs", MAX_INPUT)
    return RunInput(
        input=check_content(request.input, may_be_empty=True, field="input"),
        metadata=request.metadata or {},
        owner=request.owner,
        thread=request.thread,
        document=document,
        inputs=request.inputs,
    )


def _run(call: Call, document: Runnable, new: NewRun, *, wait: bool) -> Run:
    run_id = _start(call, document, new, wait=wait)
    return call.read(lambda space: _to_response(space, _require_run(space, run_id)))


def _start(call: Call, document: Runnable, new: NewRun, *, wait: bool) -> str:
    runs = runs_of(call.engine)
    return runs.run(call, partial(_run_to_end, call, document, new, runs.cache), wait=wait)


def provide_banks(call: Call, document: Runnable) -> dict[str, str]:
    """Return the ids of the banks that a document names. Create the declared ones; raise an error that names all others."""
    paths = {name: spell_path(node.bank_at) for node in document.walk() if (name := node.bank) is not None}
    ids = call.read(lambda space: {name: find_bank_id(space, name) for name in paths})
    unknown = [name for name, bank_id in ids.items() if bank_id is None]
    missing = [f"{paths[name]}: there is no memory bank {name!r}" for name in unknown if name not in document.banks]
    if missing:
        raise Invalid(f"The workflow names banks that do not exist: {'; '.join(missing)}.", unresolved=missing)
    new = {name: _create_bank(call, name, document.banks[name]) for name in unknown}
    return {name: bank_id for name, bank_id in ids.items() if bank_id is not None} | new


def _create_bank(call: Call, name: str, settings: Mapping[str, Any]) -> str:
    try:
        request = typed.convert({**settings, "name": name}, CreateBank)
    except msgspec.ValidationError as error:
        raise Invalid(f"`memory_banks.{name}` does not fit: {error}.") from None
    bank = build_bank(call, request)
    # Another run may have created it meanwhile. Writes are serial, so that a second look inside the write suffices.
    return call.write(lambda space: find_bank_id(space, name) or add_bank(space, request.name, bank).id)


def _run_to_end(call: Call, document: Runnable, new: NewRun, cache: Cache, begin: RunStart) -> None:
    """Run a document to its end. `begin` is called when the run is stored."""
    if document.asks and call.engine.completer is None:
        raise Invalid(NO_MODEL)
    if isinstance(document, TaskDocument):
        check_run(call, document, build_input(new.given.input, new.given.inputs))
    banks = provide_banks(call, document)
    run_id = call.write(run_rows.begin_run, new)
    events = begin(run_id)
    run: WorkflowRun
    if isinstance(document, TaskDocument):
        run = TaskRun(call, document, new, events, banks, run_id)
    else:
        run = TreeRun(call, document, new, cache, events, banks, run_id)
    with renew_lease(call, run_id):
        run.run()


def _require_run(space: Space, run_id: str) -> RunRow:
    row = run_rows.find_run(space.tx, run_id)
    if row is None:
        raise NotFound("There is no such run.")
    return run_rows.hide_expired(space, [row])[0]


def _to_response(space: Space, row: RunRow, *, steps: bool = True) -> Run:
    given = decode_input(row.asked)
    return Run(
        id=row.id,
        name=row.name,
        status=row.find_state(space.now),
        input=given.input,
        started_at=to_datetime(row.started_at),
        metadata=given.metadata,
        steps=[_to_step(one) for one in list_steps(space.tx, row)] if steps else [],
        output=row.output,
        error=row.error,
        ended_at=optional_datetime(row.ended_at),
        workflow=row.workflow_id,
        workflow_version=row.workflow_version,
        owner=given.owner,
        thread=given.thread,
        app=given.app,
    )


def _to_step(body: StepBody) -> StepRun:
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


class Execute(Request, frozen=True, kw_only=True):
    """A message to an app. Without a `session_id` or a `session_reference` a session begins."""

    app: AppName
    message: Annotated[str, Meta(max_length=MAX_INPUT, description="The message to the app.")]
    session_id: SessionId | None = None
    metadata: SessionMetadata | None = None
    user_id: UserId | None = None
    user_reference: Reference | None = None
    session_reference: Reference | None = None
    wait: Wait = True


class Executed(Response, frozen=True, kw_only=True):
    """The answer to a message: `done` with an output, `failed` with an error, or still `running`."""

    session_id: str
    run_id: str
    status: str
    output: str | None = None
    error: str | None = None


@operation(
    "apps.execute",
    "POST /v1/apps/{app}/execute",
    effect="write",
    outside=True,
    patient=True,
    repeatable=False,
    status=201,
    example=Example(
        {"app": "shop", "message": "Hello", "session_id": "sess_123", "metadata": {"userId": "user_456"}}, _APP
    ),
)
def execute_app(call: Call, request: Execute) -> Executed:
    """Send a message to an app: its workflow or function answers, with the metadata in the session's `sessionMeta`."""
    message = check_content(request.message, may_be_empty=True, field="message")
    app = call.read(lambda space: require_app(space, request.app).settings)
    stored = None if app.workflow is None else call.read(require_workflow, app.workflow)
    source = _build_document(request.app, app) if stored is None else decode_document(stored.body)
    document = parse_document(source)
    run_id = new_id()
    session = SessionRequest(
        request.session_id,
        request.session_reference,
        request.user_id,
        request.user_reference,
        request.metadata,
        run_id=run_id,
    )
    opened = call.write(open_session, request.app, session)
    given = RunInput(
        input=message,
        metadata=opened.meta["metadata"],
        owner=opened.user_id,
        thread=opened.session_id,
        app=request.app,
        document=source if stored is None else None,
    )
    new = NewRun(document.name, given, new_id=run_id, addresses=(opened.address_id,))
    if stored is not None:
        new = new._replace(workflow_id=stored.id, workflow_version=stored.version)
    _start(call, document, new, wait=request.wait)
    row = call.read(lambda space: run_rows.find_run(space.tx, run_id))
    if row is None:
        return Executed(session_id=opened.session_id, run_id=run_id, status="erased")
    state = row.find_state(call.engine.clock.now())
    return Executed(session_id=opened.session_id, run_id=run_id, status=state, output=row.output, error=row.error)


def _build_document(name: str, app: App) -> dict[str, Any]:
    """Build the workflow of an app that has only a function."""
    if not app.function:
        raise Invalid(f"The app {name!r} has no workflow: give it a `workflow` or a `function` by `apps.configure`.")
    steps = [{"step_type": "function", "function": app.function}, {"step_type": "display_result"}]
    return {"name": name, "steps": steps}
