"""One run of a workflow: the step protocol that both kinds of documents share, and the events of a run.

A document describes its steps. `WorkflowRun` performs them with retries and timeouts, stores them and adds their events. A run
always ends in a named state. Entries that a step has written stay, and are not written again if the run is repeated.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Condition, Event, Lock, Thread
from typing import Any, Literal, Self, TypeVar, TypeVarTuple

import msgspec

from ..admin.tenant_settings import TenantSettings, load_settings
from ..clock import SECOND
from ..context.memory_namespace import (
    MemoryValue,
    Scope,
    recall_content,
    recall_files,
    recall_memory,
    recall_session_meta,
)
from ..context.template import FILES, MemoryValues
from ..core.dispatch import Call, mark_once
from ..core.operation import Operation, to_request
from ..core.space import Space
from ..erasure.erase import files_of
from ..errors import Conflict, Invalid, MemwellError, ModelFailed, StorageError, Unavailable
from ..facts.search import Hits
from ..files.session_files import search_files
from ..models.completer import explain_failure
from ..records.apps import SESSION_META
from ..records.stores import require_store, stores_of
from . import run_rows
from .run_rows import (
    CANCELLED_MESSAGE,
    CANCELLED_REASON,
    LEASE,
    RESULTS,
    ModelExchange,
    NewRun,
    Output,
    RunRow,
    StepBody,
    pack_exchanges,
)
from .source import MAX_PAUSE_S, Retries

MAX_SECONDS = 900.0
MAX_EVENTS = 20_000
MAX_PARALLEL = 16
MAX_WARNINGS = 50
MAX_WARNING = 2000
BEAT_S = LEASE / SECOND / 3
LOOK_S = 0.5
"""Time between two looks of a run at its row, which another process may have marked as cancelled."""
GRACE_S = 0.5
"""Extra time for a step, because a model that asks within the same limit reports the timeout itself."""
RETRYABLE = (ModelFailed, Unavailable, StorageError)
PERMANENT = ("unauthorised", "bad_request", "not_found", "not_installed", "refused", "budget", "tools")
"""Reasons of a ModelFailed for which a retry is useless."""
T = TypeVar("T")
Given = TypeVarTuple("Given")


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`run`: the run began or ended; `step`: a step began or ended; `text`: the next piece of the answer; `result`: a result."""

    kind: Literal["run", "step", "text", "result"]
    run: str
    number: int = 0
    step: str | None = None
    step_type: str | None = None
    parent: str | None = None
    level: int = 0
    state: str | None = None
    text: str | None = None
    error: str | None = None
    seconds: float | None = None
    wrote: bool | None = None
    warnings: list[str] = []

    @property
    def is_last(self) -> bool:
        return self.kind == "run" and self.state != "running"

    def redact(self) -> RunEvent:
        """Return the event without its texts, except for the name of the run."""
        name = self.text if self.kind == "run" and self.state == "running" else None
        return msgspec.structs.replace(self, text=name, error=None, warnings=[])


class EventLog:
    """The events of a run so far, and callbacks for the next ones."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.is_over = self.is_cancelled = False
        self.ended_at: float | None = None
        """The monotonic time at which its run ended."""
        self._events: list[RunEvent] = []
        self._changed = Condition()
        self._callbacks: list[Callable[[], None]] = []
        self._redacted = False

    def add(self, event: RunEvent) -> None:
        with self._changed:
            if self.is_over:
                return
            event = event.redact() if self._redacted else event
            if len(self._events) < MAX_EVENTS or event.kind != "text":
                self._events.append(msgspec.structs.replace(event, number=len(self._events) + 1))
            self.is_over = event.is_last
            self._notify()

    def cancel(self) -> None:
        """End the log of a run that was cancelled. The run stops when it looks here; if it waits for a model, the wait ends."""
        self.is_cancelled = True
        self.add(RunEvent(kind="run", run=self.run_id, state="cancelled", error=CANCELLED_MESSAGE))

    def redact(self) -> None:
        """Remove the texts of all events, including later ones."""
        with self._changed:
            self._redacted = True
            self._events = [event.redact() for event in self._events]

    def end(self) -> None:
        with self._changed:
            self.is_over = True
            self._notify()
        self.ended_at = time.monotonic()

    @contextmanager
    def watch(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` at every event, in a thread of the run. It must neither block nor raise."""
        with self._changed:
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._changed:
                self._callbacks.remove(callback)

    def list_after(self, number: int, timeout_s: float) -> tuple[list[RunEvent], bool]:
        """Return the events after a number, and True if there will be no more. Wait for the first event until the timeout.

        If the run is over and the caller has read all events, return the last one again, as for a run read from the database.
        """
        until = time.monotonic() + timeout_s
        with self._changed:
            while len(self._events) <= number and not self.is_over and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
            last = [event for event in self._events[-1:] if event.is_last]
            return self._events[number:] or last, self.is_over

    def _notify(self) -> None:
        self._changed.notify_all()
        for callback in self._callbacks:
            callback()


def build_events(row: RunRow, state: str, steps: Sequence[StepBody]) -> list[RunEvent]:
    """Build the events of a run that is over from its stored steps, without the pieces of a model's answer."""
    events = [RunEvent(kind="run", run=row.id, state="running", text=row.name)]
    above: list[str] = []
    for step in steps:
        del above[step.level :]
        begin = RunEvent(
            kind="step",
            run=row.id,
            step=step.id,
            step_type=step.step_type,
            level=step.level,
            parent=above[-1] if above else None,
            state="running",
        )
        seconds = (step.ended_at - step.started_at) / SECOND
        end: dict[str, Any] = {"error": step.error, "wrote": step.wrote, "warnings": list(step.warnings)}
        events += [begin, msgspec.structs.replace(begin, state=step.state, seconds=seconds, **end)]
        if step.is_reply:
            events.append(RunEvent(kind="result", run=row.id, step=step.id, text=step.output))
        above.append(step.id)
    events.append(RunEvent(kind="run", run=row.id, state=state, text=row.output, error=row.error))
    return [msgspec.structs.replace(event, number=number) for number, event in enumerate(events, 1)]


class RunCall(Call):
    """The call of a run, with the run's app, user and session.

    A read notes its address in the run, in the same transaction. If data of that address is erased, the run is emptied.
    """

    def __init__(self, call: Call, run_id: str, scope: Scope) -> None:
        super().__init__(call.engine, call.principal, call._operation)
        self.run_id, self.scope = run_id, scope
        self.warn: Callable[[Sequence[str]], None] = lambda messages: None

    def with_warn(self, warn: Callable[[Sequence[str]], None]) -> Self:
        """Return the same call with another receiver of warnings."""
        call = copy.copy(self)
        call.warn = warn
        return call

    def write(self, work: Callable[[Space, *Given], T], *given: *Given) -> T:
        """Do the work for the user of the run, with whom what it writes is erased."""

        def work_for_user(space: Space) -> T:
            space.run_user = self.scope.user
            return work(space, *given)

        return super().write(work_for_user)

    def note(self, work: Callable[[Space, *Given], T], *given: *Given) -> T:
        """Write data of the run itself, without an event."""
        return self.engine.write(self.principal, work, *given)

    def recall(self) -> MemoryValues:
        """Return the `{{memory.…}}` namespace, which is read on demand."""

        def fetch(name: str) -> tuple[Any, str | None]:
            found = self._read(lambda space: recall_memory(space, name, self.scope))
            if found.warning is not None:
                self.warn([found.warning])
            return found.value, found.warning

        return MemoryValues(fetch)

    def fetch_files(self, name: str) -> tuple[Any, str | None]:
        """Return the files of the session, or the text of the active ones, and a warning if that is not complete."""
        found = self._read(lambda space: recall_files(space, name, self.scope))
        if found.warning is not None:
            self.warn([found.warning])
        return found.value, found.warning

    def search_files(self, query: str, limit: int, conditions: Mapping[str, Any] | None = None) -> Hits:
        """Search the active files of the session."""
        app, session = self.scope.app, self.scope.session
        if app is None or session is None:
            raise Invalid("This run belongs to no session of an app and has no files: run it by `apps.execute`.")
        self.fetch_files(FILES)  # notes what is read
        request = {"app": app, "session_id": session, "query": query, "limit": limit, "filter": conditions}
        found: Hits = search_files.run(self, to_request(search_files, request))
        self.warn([found.warning] if found.warning else [])
        return found

    def recall_of_app(self, names: Collection[str]) -> dict[str, Any]:
        """Return the values of the app's stores and of `sessionMeta` under these names; those without a value are missing."""
        app = self.scope.app
        if app is None or not names:
            return {}

        def find(space: Space) -> list[str]:
            return [one for one in names if one == SESSION_META or stores_of(app).find(space, one) is not None]

        values = self.recall()
        return {name: values[name] for name in self.read(find) if values[name] is not None}

    def read_content(self, app: str, name: str) -> Any:
        """Return the content of a store, or the session meta. Content that no longer fits its schema is returned with a warning,
        because code that gets None would overwrite it."""

        def recall(space: Space) -> MemoryValue:
            if name == SESSION_META:
                return recall_session_meta(space, app, self.scope)
            return recall_content(space, name, self.scope, require_store(space, app, name).settings)

        found = self._read(recall)
        if found.warning is not None:
            self.warn([f"`{name}`: {found.warning}"])
        return found.value

    def _read(self, recall: Callable[[Space], MemoryValue]) -> MemoryValue:
        def recall_and_touch(space: Space) -> MemoryValue:
            found = recall(space)
            self._touch(space, found)
            return found

        return self.note(recall_and_touch)

    def touch_files(self, space: Space) -> None:
        """Note that the run has read the files of its session."""
        self._touch(space, recall_files(space, FILES, self.scope))

    def _touch(self, space: Space, found: MemoryValue) -> None:
        if (address := found.address_id) is not None:
            run_rows.touch(space, self.run_id, [address, files_of(address)] if found.files else [address])

    def perform(self, operation: Operation, work: Callable[[Space], T], mark: str | None = None) -> T:
        """Perform an operation with its event, unless the run is over or was emptied, and note the addresses that it writes. With
        a mark it is performed once, even if the run is repeated."""

        def check_and_work(space: Space) -> T:
            run_rows.check_running(space, self.run_id)
            space.run, space.run_user = self.run_id, self.scope.user
            result = work(space)
            if operation.effect == "write":
                run_rows.touch(space, self.run_id, space.touched)
            return result

        once = None if mark is None else mark_once(operation, f"{self.run_id}/{mark}")
        return Call(self.engine, self.principal, operation, once).write(check_and_work)


class Step:
    """A step of a run: its identity, its input and its work. The addresses that it reads are noted when it reads them."""

    def __init__(self, step_id: str, kind: str, path: str, number: int, parent: Step | None = None) -> None:
        self.id, self.kind, self.path, self.number = step_id, kind, path, number
        self.level: int = 0 if parent is None else parent.level + 1
        self.parent: str | None = None if parent is None else parent.id
        self.input = ""
        self.retries = Retries()
        self.warnings: tuple[str, ...] = ()
        self.was_skipped = False
        self.model_calls: list[ModelExchange] = []
        self.is_reply = kind in RESULTS
        """True if its output is handed out to the caller of the run."""
        self.body: StepBody | None = None
        """The step as it was stored."""

    def execute(self) -> tuple[Output, run_rows.StepState]:
        """Do the work once."""
        raise NotImplementedError

    def warn(self, messages: Iterable[str]) -> None:
        warnings = tuple(dict.fromkeys((*self.warnings, *(one[:MAX_WARNING] for one in messages))))
        if len(warnings) > MAX_WARNINGS:
            warnings = (*warnings[:MAX_WARNINGS], "There are further warnings, which are left out.")
        self.warnings = warnings


class StepFailed(Exception):
    """A step has failed, and with it the run."""

    def __init__(self, step: str, error: MemwellError) -> None:
        super().__init__(f"Step `{step}`: {explain_failure(error)}")


class WorkflowRun(ABC):
    """A run of a document of some kind."""

    def __init__(self, call: Call, name: str, new: NewRun, events: EventLog, run_id: str) -> None:
        self.new, self._events, self.run_id, self._name = new, events, run_id, name
        self.agent = {"name": name, "id": new.workflow_id or name}
        """The workflow, as templates see it."""
        self._results: dict[int, str] = {}
        """Results by the numbers of their steps. The numbers follow the order of the document."""
        self.lock = Lock()
        self._settings: TenantSettings | None = None
        self.deadline = time.monotonic() + MAX_SECONDS
        given = new.given
        self.call = RunCall(call, run_id, Scope(given.app, given.owner, given.thread, new.workflow_id, run_id))

    @abstractmethod
    def _run_steps(self) -> str:
        """Run all steps and return the output of the run."""

    def run(self) -> None:
        self._add_event("run", state="running", text=self._name)
        state: run_rows.State = "failed"
        output = error = None
        try:
            output = self._run_steps()
            state = "done"
        except StepFailed as failure:
            error = str(failure)
        except MemwellError as failure:
            error = failure.message
        except Exception as failure:
            error = f"An internal error occurred ({type(failure).__name__}): please report it."
            raise
        finally:
            if self._events.is_cancelled:
                state, output, error = "cancelled", None, CANCELLED_MESSAGE
            self.call.note(run_rows.end_run, self.run_id, state, output, error)
            self._follow_row()
            self._add_event("run", state=state, text=output, error=error)
            self._events.end()

    def _perform(self, step: Step) -> Output:
        """Execute a step with its retries, store it and add its events. Raise StepFailed if it failed."""
        started_at, begin = self.call.engine.clock.now(), time.perf_counter()
        if self._events.is_cancelled:
            raise StepFailed(step.id, Conflict(CANCELLED_MESSAGE))
        self._add_step_event(step, "running")
        attempts, error, output, state = self._attempt(step)
        reason, seconds = None if error is None else explain_failure(error), time.perf_counter() - begin
        self.store_step(step, state, output, reason, started_at=started_at, seconds=seconds, attempts=attempts)
        if error is not None:
            raise StepFailed(step.id, error)
        step.was_skipped = state == "skipped"
        if step.is_reply and not step.was_skipped:
            with self.lock:
                self._results[step.number] = output.text
            self._hand_out(step, output.text)
        return output

    def _hand_out(self, step: Step, text: str) -> None:
        """Add the event of a reply, and note in the stored step that it is one."""
        self._add_event("result", step=step.id, text=text)
        if step.body is not None and not step.body.reply:
            step.body = msgspec.structs.replace(step.body, reply=True)
            self.call.note(run_rows.add_step, self.run_id, step.number, step.body)

    def _attempt(self, step: Step) -> tuple[int, MemwellError | None, Output, run_rows.StepState]:
        attempts, error = 0, None
        while attempts < step.retries.attempts:
            attempts += 1
            try:
                if time.monotonic() > self.deadline:
                    raise Unavailable(f"The run has taken longer than {MAX_SECONDS:.0f} seconds.")
                output, state = step.execute()
            except MemwellError as failure:
                error = failure
                if attempts == step.retries.attempts or not self._may_retry(step, attempts, failure):
                    break
                self._add_step_event(step, "retrying")
            else:
                return attempts, None, output, state
        cancelled = error is not None and error.details.get("reason") == CANCELLED_REASON
        return attempts, error, Output(""), "cancelled" if cancelled else "failed"

    def _may_retry(self, step: Step, attempts: int, error: MemwellError) -> bool:
        """Pause before the next attempt. Return False if it is useless, or would be too late."""
        if not isinstance(error, RETRYABLE) or error.details.get("reason") in PERMANENT:
            return False
        wanted_s = error.details.get("retry_after_s", 0.0)
        seconds = step.retries.pause_after(attempts, wanted_s)
        if wanted_s > MAX_PAUSE_S or time.monotonic() + seconds > self.deadline:
            return False
        self.pause(seconds)
        return not self._events.is_cancelled

    def pause(self, seconds: float) -> None:
        """Wait, unless the run is cancelled meanwhile."""
        cancelled = Event()
        with self._events.watch(lambda: cancelled.set() if self._events.is_cancelled else None):
            if not self._events.is_cancelled:
                cancelled.wait(seconds)

    def store_step(
        self,
        step: Step,
        state: run_rows.StepState,
        output: Output,
        error: str | None,
        *,
        started_at: int,
        seconds: float,
        attempts: int = 1,
    ) -> None:
        body = StepBody(
            id=step.id,
            step_type=step.kind,
            path=step.path,
            level=step.level,
            state=state,
            input=step.input,
            output=output.text,
            output_content_type=output.content_type,
            started_at=started_at,
            ended_at=self.call.engine.clock.now(),
            attempts=attempts,
            error=error,
            wrote=output.wrote,
            warnings=step.warnings,
            reply=step.is_reply and state in ("done", "cached"),
            tokens_in=sum(one.tokens_in for one in step.model_calls),
            tokens_out=sum(one.tokens_out for one in step.model_calls),
            model_calls=pack_exchanges(step.model_calls) if step.model_calls and self._records_calls() else (),
        )
        step.body = body
        self.call.note(run_rows.add_step, self.run_id, step.number, body)
        self._follow_row()
        about = {"error": error, "wrote": output.wrote, "warnings": list(step.warnings)}
        self._add_step_event(step, state, seconds=round(seconds, 4), **about)

    def _records_calls(self) -> bool:
        if self._settings is None:
            self._settings = self.call.read(load_settings)
        return self._settings.record_model_calls

    def _follow_row(self) -> None:
        """Take over what others have done to the stored run: emptied it, or cancelled it."""
        row = self.call.read(lambda space: run_rows.find_run(space.tx, self.run_id))
        if row is None or row.is_emptied:
            self._events.redact()
        elif row.state == "cancelled":
            self._events.cancel()

    def _start_all(self, works: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """Start work in parallel. The caller must wait for all of it."""
        pool = ThreadPoolExecutor(min(len(works), MAX_PARALLEL), thread_name_prefix="memwell-step")
        futures = [pool.submit(work) for work in works]
        pool.shutdown(wait=False)
        return futures

    def stream(self, step: str, piece: str) -> None:
        self._add_event("text", step=step, text=piece)

    def _add_step_event(self, step: Step, state: str, **fields: Any) -> None:
        about = {"step": step.id, "step_type": step.kind, "level": step.level, "parent": step.parent}
        self._add_event("step", **about, state=state, **fields)

    def _add_event(self, kind: Literal["run", "step", "text", "result"], **fields: Any) -> None:
        self._events.add(RunEvent(kind=kind, run=self.run_id, **fields))


class Attempt:
    """One attempt at a step, within its time limit and that of the run."""

    def __init__(self, run: WorkflowRun, step: Step, seconds: float | None) -> None:
        self.call, self._events, self._model_calls = run.call.with_warn(step.warn), run._events, step.model_calls
        self._seconds, self._deadline, self._is_abandoned = seconds, run.deadline, False
        left = max(1.0, run.deadline - time.monotonic())
        self._until = time.monotonic() + (left if seconds is None else min(seconds, left))

    def perform(self, work: Callable[[], T]) -> T:
        """Do the work in a daemon thread that is abandoned after the time limit, so that it does not delay the end of the
        process."""
        if self._seconds is None:
            return work()
        try:
            return _start(work).result(self._seconds + GRACE_S)
        except TimeoutError:
            self._is_abandoned = True
            raise Unavailable(f"The step has taken longer than {self._seconds:g} seconds (timeout).") from None

    def wait_for(self, work: Callable[[], T]) -> T:
        """Do work that may take long in a thread, which is abandoned if the run is cancelled."""
        future = _start(work)

        def stop() -> None:
            if self._events.is_cancelled:
                with suppress(InvalidStateError):  # it has ended
                    future.set_exception(Conflict(CANCELLED_MESSAGE, reason=CANCELLED_REASON))

        with self._events.watch(stop):
            stop()
            return future.result()

    def record(self, exchange: ModelExchange) -> None:
        """Note a call of a model."""
        self._model_calls.append(exchange)

    def check_cancelled(self) -> None:
        if self._events.is_cancelled:
            raise Conflict(CANCELLED_MESSAGE, reason=CANCELLED_REASON)

    def check_time(self) -> float:
        """Return the seconds that are left. Raise if the attempt was abandoned, so that it neither writes nor asks a model any
        more."""
        if self._is_abandoned or time.monotonic() > self._deadline:
            raise Unavailable("The time of the step is over (timeout).")
        self.check_cancelled()
        return self._until - time.monotonic()


def _start(work: Callable[[], T]) -> Future[T]:
    """Start work in a daemon thread. Its result does not count if the future has one by then."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 -- raised again by `result`
            with suppress(InvalidStateError):
                future.set_exception(error)
        else:
            with suppress(InvalidStateError):
                future.set_result(result)

    Thread(target=run, name="memwell-step", daemon=True).start()
    return future


@contextmanager
def renew_lease(call: Call, events: EventLog) -> Iterator[None]:
    """Renew the lease of a run while the block runs, and notice soon if another process has cancelled it."""

    def renew(space: Space) -> None:
        space.tx.run("beat_run", id=events.run_id, lease_until=space.now + LEASE)

    def is_cancelled(space: Space) -> bool:
        row = space.tx.row("run_state", id=events.run_id)
        return row is not None and row[0] == "cancelled"

    def beat() -> None:
        renewed_at = time.monotonic()
        while not stopped.wait(LOOK_S):
            with suppress(MemwellError):  # the next one may be in time
                if not events.is_cancelled and call.engine.read(call.principal, is_cancelled, sole=True):
                    events.cancel()
                if time.monotonic() - renewed_at >= BEAT_S:
                    call.engine.write(call.principal, renew)
                    renewed_at = time.monotonic()

    stopped = Event()
    thread = Thread(target=beat, name="memwell-run-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
