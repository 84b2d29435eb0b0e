"""The runs of this process: each has a thread of its own, so that it goes on when its caller has gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Event, Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from .. import typed
from ..banks.banks import CreateBank, add_bank, build_bank
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.space import Space
from ..errors import Invalid, MemwellError, Unavailable
from ..text.yaml import spell_path
from . import run_rows
from .model_call import NO_MODEL
from .operations import Runnable
from .run import EventLog, RunEvent, WorkflowRun, find_bank_id, renew_lease
from .run_rows import NewRun
from .task_document import TaskDocument, build_input
from .task_run import TaskRun, check_run
from .tree_run import Cache, TreeRun

MAX_RUNS = 200
KEEP_S = 60.0
"""How long the events of a run that has ended stay in memory."""
INTERRUPTED = "Its process ended while it ran."


def provide_banks(call: Call, document: Runnable) -> dict[str, str]:
    """The ids of the banks that a document names. Banks that it declares are created; the error names all others."""
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
    # Another run may have created it meanwhile; there is one writer at a time, so that each name exists once.
    return call.write(lambda space: find_bank_id(space, name) or add_bank(space, request.name, bank).id)


def _run_document(call: Call, document: Runnable, new: NewRun, cache: Cache, begin: Callable[[str], EventLog]) -> None:
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


class Runs:
    """The runs of this process, also those that have just ended."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._events: dict[str, EventLog] = {}
        self._ended: dict[str, float] = {}
        self._calls: dict[str, Call] = {}
        self._count = 0
        self._closed = False
        self._lock = Lock()

    def find_events(self, run_id: str) -> EventLog | None:
        """The events of a run of this process that goes on, or has just ended."""
        with self._lock:
            self._sweep()
            return self._events.get(run_id)

    def forget(self) -> None:
        """Drop all outputs and the events of ended runs, because something was erased."""
        self.cache.clear()
        with self._lock:
            for run_id in list(self._ended):
                self._drop(run_id)

    def run(self, call: Call, document: Runnable, new: NewRun, *, wait: bool) -> str:
        """Run to the end, or in the background, and return the id of the run. Raise the error that prevented its beginning.

        Inside `collect_starts` it does not wait for the end.
        """
        start, starts = RunStart(partial(self._add, call)), _starts.get()
        if wait and starts is None:
            self._run(call, document, new, start)
            return start.run_id

        def run() -> None:
            with suppress(Exception):  # `start` passes it on
                self._run(call, document, new, start)

        Thread(target=run, name="memwell-run", daemon=True).start()
        start.wait()
        if wait and starts is not None:
            starts.append(start)
        return start.run_id

    def interrupt(self) -> None:
        """Mark the runs as interrupted, because the process is about to end; otherwise that shows when their leases expire."""
        with self._lock:
            self._closed = True
            calls = dict(self._calls)
        for run_id, call in calls.items():
            with suppress(MemwellError):
                call.engine.write(call.principal, partial(_interrupt, run_id=run_id))
            events = self.find_events(run_id)
            if events is not None:
                events.add(RunEvent(kind="run", run=run_id, state="interrupted", error=INTERRUPTED))
                events.end()

    def _run(self, call: Call, document: Runnable, new: NewRun, start: RunStart) -> None:
        try:
            with self._lock:
                if self._closed:
                    raise Unavailable(
                        "This process is being stopped and begins no run any more: try again in a moment."
                    )
                if self._count >= MAX_RUNS:
                    raise Unavailable(f"There are {MAX_RUNS} runs in progress: try again when one has ended.")
                self._count += 1
            try:
                _run_document(call, document, new, self.cache, start)
            finally:
                with self._lock:
                    self._count -= 1
        except Exception as error:
            start.fail(error)
            raise

    def _add(self, call: Call, run_id: str) -> EventLog:
        events = EventLog(run_id, self._note_end)
        with self._lock:
            self._sweep()
            self._events[run_id] = events
            self._calls[run_id] = call
            self._ended.pop(run_id, None)
        return events

    def _note_end(self, events: EventLog) -> None:
        with self._lock:
            if self._events.get(events.run_id) is events:  # the run may have been repeated
                self._calls.pop(events.run_id, None)
                self._ended[events.run_id] = time.monotonic()

    def _sweep(self) -> None:
        old = time.monotonic() - KEEP_S
        for run_id in [one for one, ended in self._ended.items() if ended < old]:
            self._drop(run_id)

    def _drop(self, run_id: str) -> None:
        self._ended.pop(run_id, None)
        self._events.pop(run_id, None)


class RunStart:
    """The start of a run in another thread: the events of the run, or the error that prevented it."""

    def __init__(self, begin: Callable[[str], EventLog]) -> None:
        self._begin, self._known = begin, Event()
        self.events: EventLog | None = None
        self.error: Exception | None = None

    @property
    def run_id(self) -> str:
        return self.events.run_id if self.events is not None else ""

    def __call__(self, run_id: str) -> EventLog:
        events = self.events = self._begin(run_id)
        self._known.set()
        return events

    def fail(self, error: Exception) -> None:
        self.error = error
        self._known.set()
        if self.events is not None:
            self.events.end()

    def wait(self) -> None:
        """Wait until the run has begun; raise the error that prevented it."""
        self._known.wait()
        if self.events is None and self.error is not None:
            raise self.error


_starts: ContextVar[list[RunStart] | None] = ContextVar("_starts", default=None)


@contextmanager
def collect_starts() -> Iterator[list[RunStart]]:
    """Inside, runs are begun but not waited for: the caller waits for the collected ones where it costs no thread."""
    starts: list[RunStart] = []
    token = _starts.set(starts)
    try:
        yield starts
    finally:
        _starts.reset(token)


def _interrupt(space: Space, run_id: str) -> None:
    row = run_rows.find_run(space.tx, run_id)
    if row is not None and row.state == "running":
        run_rows.end_run(space, run_id, "interrupted", None, INTERRUPTED)


_runs: WeakKeyDictionary[Engine, Runs] = WeakKeyDictionary()
_lock = Lock()


def runs_of(engine: Engine) -> Runs:
    with _lock:
        runs = _runs.get(engine)
        if runs is None:
            runs = _runs[engine] = Runs()
            engine.forgets.append(runs.forget)
            engine.ends.append(runs.interrupt)
        return runs
