"""One run of a workflow: the step protocol that both kinds of documents share, and the events of a run.

A document describes its steps. `WorkflowRun` performs them with retries and timeouts, stores them and adds their events. A run
always ends in a named state. Entries that a step has written stay, and are not written again if the run is repeated.
"""

from __future__ import annotations

import copy
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Condition, Event, Lock, Thread
from typing import Any, Literal, NamedTuple, Self, TypeVar, TypeVarTuple

import msgspec

from ..banks.banks import KIND as BANK
from ..clock import SECOND
from ..context.memory_namespace import MemoryValue, Scope, recall_content, recall_memory, recall_session_meta
from ..context.template import MemoryValues
from ..core import documents
from ..core.dispatch import Call, mark_once
from ..core.operation import Operation
from ..core.space import Space
from ..erasure.erase import files_of
from ..errors import Conflict, Invalid, MemwellError, ModelFailed, StorageError, Unavailable
from ..model.collection import Entry, Place
from ..records.apps import SESSION_META
from ..records.stores import require_store
from . import run_rows
from .run_rows import EMPTIED_MESSAGE, EMPTIED_REASON, LEASE, NewRun, RunRow, StepBody

MAX_SECONDS = 900.0
MAX_EVENTS = 20_000
MAX_PARALLEL = 16
MAX_WARNINGS = 50
MAX_WARNING = 2000
GRACE_S = 0.5
"""Extra time for a step, because a model that asks within the same limit reports the timeout itself."""
RETRYABLE = (ModelFailed, Unavailable, StorageError)
PERMANENT = ("unauthorised", "bad_request", "not_found", "not_installed", "refused", "budget", "tools")
"""Reasons of a ModelFailed for which a retry is useless."""
RESULTS = ("streaming_result", "display_result", "send_text_message")
"""Steps whose output is a result of the run."""
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

    @property
    def is_last(self) -> bool:
        return self.kind == "run" and self.state != "running"

    def redact(self) -> RunEvent:
        """Return the event without its texts, except for the name of the run."""
        name = self.text if self.kind == "run" and self.state == "running" else None
        return msgspec.structs.replace(self, text=name, error=None)


class EventLog:
    """The events of a run so far, and callbacks for the next ones."""

    def __init__(self, run_id: str, on_end: Callable[[EventLog], None] = lambda log: None) -> None:
        self.run_id = run_id
        self.is_over = False
        self._on_end = on_end
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

    def redact(self) -> None:
        """Remove the texts of all events, including later ones."""
        with self._changed:
            self._redacted = True
            self._events = [event.redact() for event in self._events]

    def end(self) -> None:
        with self._changed:
            self.is_over = True
            self._notify()
        self._on_end(self)

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
        events += [begin, msgspec.structs.replace(begin, state=step.state, error=step.error, seconds=seconds)]
        if step.step_type in RESULTS and step.state == "done":
            events.append(RunEvent(kind="result", run=row.id, step=step.id, text=step.output))
        above.append(step.id)
    events.append(RunEvent(kind="run", run=row.id, state=state, text=row.output, error=row.error))
    return [msgspec.structs.replace(event, number=number) for number, event in enumerate(events, 1)]


class RunCall(Call):
    """The call of a run, with the run's app, user and session.

    A read notes its address in the run, in the same transaction. If data of that address is erased, the run is emptied.
    """

    def __init__(self, call: Call, run_id: str, scope: Scope) -> None:
        super().__init__(call.engine, call.principal, call._operation, call._mark)
        self.run_id, self.scope = run_id, scope
        self.warn: Callable[[Sequence[str]], None] = lambda messages: None

    def with_warn(self, warn: Callable[[Sequence[str]], None]) -> Self:
        """Return the same call with another receiver of warnings."""
        call = copy.copy(self)
        call.warn = warn
        return call

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
            if (address := found.address_id) is not None:
                run_rows.touch(space, self.run_id, [address, files_of(address)] if found.files else [address])
            return found

        return self.note(recall_and_touch)

    def perform(self, operation: Operation, work: Callable[[Space], T], mark: str | None = None) -> T:
        """Perform an operation with its event, unless the run is over or was emptied. With a mark it is performed once, even if
        the run is repeated."""

        def check_and_work(space: Space) -> T:
            row = run_rows.find_run(space.tx, self.run_id)
            if row is None or row.is_emptied:
                raise Conflict(EMPTIED_MESSAGE, reason=EMPTIED_REASON)
            if row.state in ("done", "failed"):
                raise Conflict("The run is over and cannot write any more.")
            space.run = self.run_id
            return work(space)

        once = None if mark is None else mark_once(operation, f"{self.run_id}/{mark}")
        return Call(self.engine, self.principal, operation, once).write(check_and_work)


def find_bank_id(space: Space, name: str) -> str | None:
    """Return the id of a bank, by its id or its name; None if there is no such bank."""
    if documents.find(space.tx, BANK, name) is not None:
        return name
    banks = documents.list_by_name(space.tx, BANK, name)
    if len(banks) > 1:
        raise Invalid(f"There are {len(banks)} memory banks called {name[:100]!r}: give an id.")
    return banks[0].id if banks else None


def find_seq(space: Space, place: Place, entry_id: str) -> int | None:
    """Return the sequence number of an entry, or None if the run has not written it yet."""
    rows = space.rows("any_entry", place, id=entry_id)
    return Entry(*rows[0][: len(Entry.__struct_fields__)]).seq if rows else None


class Output(NamedTuple):
    """The output of a step, which is the input of the next."""

    text: str
    content_type: str = "text/plain"
    loaded: tuple[str, ...] = ()
    """The ids of its entries, if it was loaded from a bank."""
    value: Any = None
    """The output of a task as expressions see it."""


class Retries(NamedTuple):
    """The number of attempts of a step, and the pauses between them."""

    attempts: int = 1
    pause_s: float = 0.0
    factor: float = 1.0
    max_pause_s: float = 10.0
    jitter: float = 0.0

    def pause_after(self, attempts: int) -> float:
        wait = min(self.pause_s * self.factor ** (attempts - 1), self.max_pause_s)
        return wait * (1 + self.jitter * random.random())  # noqa: S311 -- not used for security


class Step:
    """A step of a run: its identity, its input and its work."""

    def __init__(
        self, step_id: str, kind: str, path: str, number: int, level: int = 0, parent: str | None = None
    ) -> None:
        self.id, self.kind, self.path, self.number, self.level, self.parent = step_id, kind, path, number, level, parent
        self.input = ""
        self.retries = Retries()
        self.warnings: tuple[str, ...] = ()

    def execute(self) -> tuple[Output, run_rows.StepState]:
        """Do the work once."""
        raise NotImplementedError

    def finish(self, output: Output) -> None:
        """Called after the last attempt, before the step is stored."""

    def list_addresses(self, space: Space) -> Iterable[int]:
        """Return the addresses that the step has read. If data of one is erased, the run is emptied."""
        return ()

    def warn(self, messages: Iterable[str]) -> None:
        warnings = tuple(dict.fromkeys((*self.warnings, *(one[:MAX_WARNING] for one in messages))))
        if len(warnings) > MAX_WARNINGS:
            warnings = (*warnings[:MAX_WARNINGS], "There are further warnings, which are left out.")
        self.warnings = warnings


class StepFailed(Exception):
    """A step has failed, and with it the run."""

    def __init__(self, step: str, error: MemwellError) -> None:
        super().__init__(f"Step `{step}`: {error}")


class WorkflowRun(ABC):
    """A run of a document of some kind."""

    def __init__(self, call: Call, name: str, new: NewRun, events: EventLog, run_id: str) -> None:
        self.new, self._events, self.run_id, self._name = new, events, run_id, name
        self._results: dict[int, str] = {}
        """Results by the numbers of their steps. The numbers follow the order of the document."""
        self.lock = Lock()
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
            self.call.note(run_rows.end_run, self.run_id, state, output, error)
            self._redact_if_emptied()
            self._add_event("run", state=state, text=output, error=error)
            self._events.end()

    def _perform(self, step: Step) -> Output:
        """Execute a step with its retries, store it and add its events. Raise StepFailed if it failed."""
        started_at, begin = self.call.engine.clock.now(), time.perf_counter()
        self._add_step_event(step, "running")
        attempts, error, output, state = self._attempt(step)
        step.finish(output)
        body = StepBody(
            id=step.id,
            step_type=step.kind,
            path=step.path,
            level=step.level,
            state="failed" if error else state,
            input=step.input,
            output=output.text,
            output_content_type=output.content_type,
            started_at=started_at,
            ended_at=self.call.engine.clock.now(),
            attempts=attempts,
            error=None if error is None else str(error),
            warnings=step.warnings,
        )
        self._store_step(step, body, round(time.perf_counter() - begin, 4))
        if error is not None:
            raise StepFailed(step.id, error)
        if step.kind in RESULTS:
            with self.lock:
                self._results[step.number] = output.text
            self._add_event("result", step=step.id, text=output.text)
        return output

    def _attempt(self, step: Step) -> tuple[int, MemwellError | None, Output, run_rows.StepState]:
        attempts, error = 0, None
        while attempts < step.retries.attempts:
            attempts += 1
            if attempts > 1:
                time.sleep(step.retries.pause_after(attempts - 1))
                self._add_step_event(step, "retrying")
            try:
                if time.monotonic() > self.deadline:
                    raise Unavailable(f"The run has taken longer than {MAX_SECONDS:.0f} seconds.")
                output, state = step.execute()
            except MemwellError as failure:
                error = failure
                retryable = isinstance(failure, RETRYABLE) and failure.details.get("reason") not in PERMANENT
                if not retryable or time.monotonic() > self.deadline:
                    break
            else:
                return attempts, None, output, state
        return attempts, error, Output(""), "done"

    def _store_step(self, step: Step, body: StepBody, seconds: float) -> None:
        self.call.note(
            lambda space: run_rows.add_step(space, self.run_id, step.number, body, step.list_addresses(space))
        )
        self._redact_if_emptied()
        self._add_step_event(step, body.state, body.error, seconds)

    def _redact_if_emptied(self) -> None:
        if self.call.read(run_rows.is_emptied, self.run_id):
            self._events.redact()

    def _start_all(self, works: Sequence[Callable[[], T]]) -> list[Future[T]]:
        """Start work in parallel. The caller must wait for all of it."""
        pool = ThreadPoolExecutor(min(len(works), MAX_PARALLEL), thread_name_prefix="memwell-step")
        futures = [pool.submit(work) for work in works]
        pool.shutdown(wait=False)
        return futures

    def limit_time(self, seconds: float | None) -> float:
        """Return the time limit of a step: at most the time that the run has left."""
        left = max(1.0, self.deadline - time.monotonic())
        return left if seconds is None else min(seconds, left)

    def stream(self, step: str, piece: str) -> None:
        self._add_event("text", step=step, text=piece)

    def _add_step_event(self, step: Step, state: str, error: str | None = None, seconds: float | None = None) -> None:
        about = {"step": step.id, "step_type": step.kind, "level": step.level, "parent": step.parent}
        self._add_event("step", **about, state=state, error=error, seconds=seconds)

    def _add_event(self, kind: Literal["run", "step", "text", "result"], **fields: Any) -> None:
        self._events.add(RunEvent(kind=kind, run=self.run_id, **fields))


def run_within(seconds: float | None, work: Callable[[], T], on_timeout: Callable[[], None] = lambda: None) -> T:
    """Run work in a daemon thread that is abandoned after a time limit, so that it does not delay the end of the process."""
    if seconds is None:
        return work()
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 -- raised again by `result`
            future.set_exception(error)

    Thread(target=run, name="memwell-step", daemon=True).start()
    try:
        return future.result(seconds + GRACE_S)
    except TimeoutError:
        on_timeout()
        raise Unavailable(f"The step has taken longer than {seconds:g} seconds (timeout).") from None


@contextmanager
def renew_lease(call: Call, run_id: str) -> Iterator[None]:
    """Renew the lease of a run while the block runs."""

    def renew(space: Space) -> None:
        space.tx.run("beat_run", id=run_id, lease_until=space.now + LEASE)

    def beat() -> None:
        while not stopped.wait(LEASE / SECOND / 3):
            with suppress(MemwellError):  # the next one may be in time
                call.engine.write(call.principal, renew)

    stopped = Event()
    thread = Thread(target=beat, name="memwell-run-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
