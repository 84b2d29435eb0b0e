"""Operations that run workflows and apps, and read runs and their events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from ..banks.banks import add_bank, find_bank_id
from ..clock import optional_datetime, to_datetime
from ..core.dispatch import Call
from ..core.operation import Example, Request, Response, operation
from ..core.space import Space
from ..erasure import erase, log
from ..errors import Conflict, Erased, Invalid, NotFound
from ..ids import new_id
from ..model.fields import MAX_ID, Limit, SessionId, Timeout, check_content, id_limits, to_json
from ..records.apps import (
    App,
    AppName,
    Reference,
    SessionMetadata,
    SessionRequest,
    UserId,
    check_thread,
    require_app,
    to_thread,
)
from ..records.records import delete_tied
from . import run_rows
from .app_sessions import open_app_session
from .document_checks import build_declared_bank, check_document
from .live_runs import RunStart, runs_of
from .operations import (
    HELLO,
    ReadDocument,
    Source,
    VersionField,
    WorkflowId,
    decode_document,
    read_document,
    require_workflow,
)
from .run import RunEvent, WorkflowRun, build_events, renew_lease
from .run_rows import (
    Begun,
    ModelExchange,
    NewRun,
    RunInput,
    RunRow,
    StepBody,
    decode_input,
    list_steps,
    unpack_exchanges,
)
from .source import NO_MODEL
from .task_document import TaskDocument, check_input
from .task_run import TaskRun
from .tree_run import TreeRun

T = TypeVar("T")
MAX_INPUT = 1024 * 1024
POLL_S = 0.2
STOP_S = 5.0
"""Longest wait of a repeat for the end of the cancelled run."""
RunId = Annotated[str, Meta(max_length=64, description="The run's id.")]
Input = Annotated[str, Meta(max_length=MAX_INPUT, description="The input of the run: `{{agent.input}}`.")]
RunOwner = Annotated[str, id_limits(MAX_ID, "The owner of the run: `{{metadata.owner}}`.")]
Thread = Annotated[str, id_limits(MAX_ID, "The conversation of the run: `{{metadata.thread}}`.")]
Inputs = Annotated[
    dict[str, Any], Meta(description="Fields of `$input`. `{{input}}` is their `text`, or all of them as JSON.")
]
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
    """A step of a run: `done`, `cached`, `skipped` or `failed`. `cut`: its input or output was longer than is stored. `wrote`:
    false if a step that adds an entry had nothing to write."""

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
    wrote: bool | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    reply: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    model_calls: list[ModelExchange] = msgspec.field(default_factory=list)


class Run(Response, frozen=True, kw_only=True):
    """A run: `running`, `done`, `failed`, `cancelled`, or `interrupted` if its process ended first. `input` is its input as
    a text, `inputs` are the fields, if it was given any."""

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
    session_id: str | None = None
    """The session of the app, whose `thread` is its id in working memory."""
    inputs: dict[str, Any] | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    """Those of its steps, each with the step's id."""


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
    stored=Begun,
    status=201,
    example=Example(_RUN, _STORED),
)
def run_workflow(call: Call, request: RunWorkflow) -> Run:
    """Run a stored workflow. The run goes on if the connection breaks, and can be read again."""

    def prepare() -> tuple[ReadDocument, NewRun]:
        stored = call.read(require_workflow, request.workflow, request.version)
        new = NewRun(stored.name, _to_input(request), stored.id, stored.version)
        return read_document(decode_document(stored.body)), new

    return _run(call, prepare, wait=request.wait)


class RunDocument(StartRun, frozen=True, kw_only=True):
    """A document to run without storing it, and its input."""

    document: Source


@operation(
    "runs.begin_document",
    "POST /v1/workflows/run",
    effect="write",
    outside=True,
    patient=True,
    stored=Begun,
    status=201,
    example=Example({"document": HELLO, "input": "world", "metadata": {"user_id": "alice"}}),
)
def run_document(call: Call, request: RunDocument) -> Run:
    """Run a workflow from its document."""

    def prepare() -> tuple[ReadDocument, NewRun]:
        found = read_document(request.document)
        found.problems.refuse()
        return found, NewRun(found.document.name, _to_input(request, decode_document(found.body)))

    return _run(call, prepare, wait=request.wait)


class OfRun(Request, frozen=True, kw_only=True):
    """A run."""

    run: RunId


class GetRun(OfRun, frozen=True, kw_only=True):
    """A run to read."""

    model_calls: Annotated[bool, Meta(description="Add what each step has sent to models, and what came back.")] = False


@operation("runs.get", "GET /v1/runs/{run}", example=Example({"run": "$1.id"}, _RAN))
def get_run(space: Space, request: GetRun) -> Run:
    """Read a run with the input, output and duration of its steps."""
    return _to_response(space, _require_run(space, request.run), model_calls=request.model_calls)


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
    stored=Begun,
    example=Example({"run": "$1.id"}, _RAN),
)
def repeat_run(call: Call, request: OfRun) -> Run:
    """Repeat a run that is over, with the same input. The repeat of a run that is done is a new run. A run that was interrupted
    or cancelled, or has failed, begins again, and does not write its entries twice."""

    def prepare() -> tuple[ReadDocument, NewRun]:
        row = _wait_until_stopped(call, request.run)
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
        return read_document(source), NewRun(row.name, given, row.workflow_id, row.workflow_version, row.id)

    return _run(call, prepare, wait=True)


@operation(
    "runs.cancel",
    "POST /v1/runs/{run}/cancel",
    effect="write",
    outside=True,
    stored=Begun,
    example=Example({"run": "$1.id"}, _RAN),
)
def cancel_run(call: Call, request: OfRun) -> Run:
    """Cancel a run. It asks no model and writes nothing any more; what it has written stays. One that is over stays as it is."""

    def cancel(space: Space) -> Begun:
        _require_run(space, request.run)
        run_rows.cancel_run(space, request.run)
        return Begun(request.run)

    call.write(cancel)
    run = _read_run(call, request.run)
    if run.status == "cancelled":
        runs_of(call.engine).cancel(request.run)
    return run


class DeletedRun(Response, frozen=True, kw_only=True):
    """The id of the deleted run."""

    id: str


@operation("runs.delete", "DELETE /v1/runs/{run}", effect="erase", example=Example({"run": "$1.id"}, _RAN))
def delete_run(space: Space, request: OfRun) -> DeletedRun:
    """Delete a run that is over, with its steps."""
    if _require_run(space, request.run).find_state(space.now) == "running":
        raise Conflict("This run is still running: delete it when it has ended.")
    delete_tied(space, run_rows.run_tie(request.run))
    erase.delete_run(space.tx, request.run)
    erase.scrub_soon(space.tx, space.now)
    log.note(space.tx, "run", request.run, space.now)
    return DeletedRun(id=request.run)


def _to_input(request: StartRun, document: dict[str, Any] | None = None) -> RunInput:
    to_json(request.metadata)
    to_json(request.inputs, "inputs", MAX_INPUT)
    if request.thread is not None:
        check_thread(request.thread)
    return RunInput(
        input=check_content(request.input, may_be_empty=True, field="input"),
        metadata=request.metadata or {},
        owner=request.owner,
        thread=request.thread,
        document=document,
        inputs=request.inputs,
    )


def _read_run(call: Call, run_id: str) -> Run:
    return call.read(lambda space: _to_response(space, _require_run(space, run_id)))


def _run(call: Call, prepare: Callable[[], tuple[ReadDocument, NewRun]], *, wait: bool) -> Run:
    return _start(call, prepare, partial(_read_run, call), wait=wait)


def _start(
    call: Call, prepare: Callable[[], tuple[ReadDocument, NewRun]], read: Callable[[str], T], *, wait: bool
) -> T:
    """Begin a run, unless the same request has begun it before, and read the answer."""
    runs = runs_of(call.engine)
    begun: Begun | None = call.find_answer()
    if begun is None:
        found, new = prepare()
        run_id = runs.run(call, partial(_run_to_end, call, found, new), read, wait=wait)
    else:
        run_id = begun.run
        if call.read(lambda space: run_rows.find_run(space.tx, run_id)) is None:
            raise Erased
        runs.join(run_id, read, wait=wait)
    return read(run_id)


def _create_bank(call: Call, name: str, settings: Mapping[str, Any]) -> str:
    bank = build_declared_bank(call, name, settings)
    # Another run may have created it meanwhile. Writes are serial, so that a second look inside the write suffices.
    return call.write(lambda space: find_bank_id(space, name) or add_bank(space, name, bank).id)


def _run_to_end(marked: Call, found: ReadDocument, new: NewRun, begin: RunStart) -> None:
    """Run a document to its end. `begin` is called when the run is stored."""
    document, call = found.document, marked.without_mark()
    found.problems.refuse()
    app = new.given.app
    needs = check_document(call, document, found.problems, () if app is None else (app,))
    found.problems.extend((path, NO_MODEL) for path in needs.models)
    found.problems.refuse()
    if isinstance(document, TaskDocument):
        check_input(document.schema, new.given.fields)
    banks = {name: bank_id or _create_bank(call, name, document.banks[name]) for name, bank_id in needs.banks.items()}
    token = new_id()

    def store(space: Space) -> Begun:
        run_id = run_rows.begin_run(space, new)
        begin.prepare(run_id)
        return Begun(run_id, token)

    begun = marked.write(store)
    run_id = begun.run
    if begun.call != token:
        return begin.skip(run_id)
    events = begin(run_id)
    run: WorkflowRun
    if isinstance(document, TaskDocument):
        run = TaskRun(call, document, new, events, banks, run_id)
    else:
        run = TreeRun(call, document, new, events, banks, run_id, runs_of(call.engine).cache)
    with renew_lease(call, events):
        run.run()
    return None


def _require_run(space: Space, run_id: str) -> RunRow:
    row = run_rows.find_run(space.tx, run_id)
    if row is None:
        raise NotFound("There is no such run.")
    return run_rows.hide_expired(space, [row])[0]


def _wait_until_stopped(call: Call, run_id: str) -> RunRow:
    """Return a run. If it was cancelled, wait first until its process has stopped, which would end the repeat, too."""
    until = time.monotonic() + STOP_S
    while (row := call.read(_require_run, run_id)).is_stopping(call.engine.clock.now()):
        if time.monotonic() >= until:
            raise Conflict("This run was cancelled, but a step of it has not stopped yet: repeat it a little later.")
        time.sleep(POLL_S)
    return row


def _to_response(space: Space, row: RunRow, *, steps: bool = True, model_calls: bool = False) -> Run:
    given = decode_input(row.asked)
    found = list_steps(space.tx, row) if steps else []
    return Run(
        id=row.id,
        name=row.name,
        status=row.find_state(space.now),
        input=given.text,
        inputs=given.inputs,
        started_at=to_datetime(row.started_at),
        metadata=given.metadata,
        steps=[_to_step(one, model_calls=model_calls) for one in found],
        output=row.output,
        error=row.error,
        ended_at=optional_datetime(row.ended_at),
        workflow=row.workflow_id,
        workflow_version=row.workflow_version,
        owner=given.owner,
        thread=given.thread if given.app is None or given.thread is None else to_thread(given.app, given.thread),
        app=given.app,
        session_id=None if given.app is None else given.thread,
        warnings=_list_warnings(found),
    )


def _list_warnings(steps: Sequence[StepBody]) -> list[str]:
    return [f"`{step.id}`: {warning}" for step in steps for warning in step.warnings]


def _to_step(body: StepBody, *, model_calls: bool) -> StepRun:
    fields = msgspec.structs.asdict(body)
    fields["model_calls"] = unpack_exchanges(body.model_calls) if model_calls else []
    return StepRun(
        status=fields.pop("state"),
        started_at=to_datetime(fields.pop("started_at")),
        ended_at=to_datetime(fields.pop("ended_at")),
        duration_seconds=round((body.ended_at - body.started_at) / 1e6, 6),
        warnings=list(fields.pop("warnings")),
        **fields | {"reply": body.is_reply},
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
    """The answer to a message: `done` with an output, `failed` with an error, `cancelled`, or still `running`. `replies` are all
    texts for the caller in order, of which the output is the last."""

    session_id: str
    run_id: str
    status: str
    output: str | None = None
    error: str | None = None
    replies: list[str] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)


@operation(
    "apps.execute",
    "POST /v1/apps/{app}/execute",
    effect="write",
    outside=True,
    patient=True,
    stored=Begun,
    status=201,
    example=Example(
        {"app": "shop", "message": "Hello", "session_id": "sess_123", "metadata": {"userId": "user_456"}}, _APP
    ),
)
def execute_app(call: Call, request: Execute) -> Executed:
    """Send a message to an app: its workflow or function answers, with the metadata in the session's `sessionMeta`."""
    message = check_content(request.message, may_be_empty=True, field="message")
    session_id = request.session_id or ""

    def prepare() -> tuple[ReadDocument, NewRun]:
        nonlocal session_id
        app = call.read(lambda space: require_app(space, request.app).settings)
        stored = None if app.workflow is None else call.read(require_workflow, app.workflow)
        source = _build_document(request.app, app) if stored is None else decode_document(stored.body)
        document = read_document(source)
        document.problems.refuse()
        run_id = new_id()
        session = SessionRequest(
            request.session_id,
            request.session_reference,
            request.user_id,
            request.user_reference,
            request.metadata,
            run_id=run_id,
        )
        opened = call.without_mark().write(open_app_session, request.app, session)
        session_id = opened.session_id
        given = RunInput(
            input=message,
            metadata=opened.meta["metadata"],
            owner=opened.user_id,
            thread=opened.session_id,
            app=request.app,
            document=source if stored is None else None,
        )
        new = NewRun(document.document.name, given, new_id=run_id, addresses=(opened.address_id,))
        if stored is not None:
            new = new._replace(workflow_id=stored.id, workflow_version=stored.version)
        return document, new

    return _start(call, prepare, lambda run_id: call.read(_to_executed, session_id, run_id), wait=request.wait)


def _to_executed(space: Space, session_id: str, run_id: str) -> Executed:
    row = run_rows.find_run(space.tx, run_id)
    if row is None:
        return Executed(session_id=session_id, run_id=run_id, status="erased")
    session_id = decode_input(row.asked).thread or session_id  # another one, if the request is repeated
    steps = list_steps(space.tx, row)
    return Executed(
        session_id=session_id,
        run_id=run_id,
        status=row.find_state(space.now),
        output=row.output,
        error=row.error,
        replies=[step.output for step in steps if step.is_reply],
        warnings=_list_warnings(steps),
    )


def _build_document(name: str, app: App) -> dict[str, Any]:
    """Build the workflow of an app that has only a function."""
    if not app.function:
        raise Invalid(f"The app {name!r} has no workflow: give it a `workflow` or a `function` by `apps.configure`.")
    steps = [{"step_type": "function", "function": app.function}, {"step_type": "display_result"}]
    return {"name": name, "steps": steps}
