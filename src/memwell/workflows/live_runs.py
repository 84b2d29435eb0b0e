"""The runs of this process, and cached outputs of steps.

On a server each run has a thread of its own, so that it goes on when the connection breaks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Event, Lock, Thread
from weakref import WeakKeyDictionary

from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.space import Space
from ..errors import MemwellError, Unavailable
from . import run_rows
from .run import EventLog, Output, RunEvent

MAX_CACHED = 1000
MAX_CACHED_CHARACTERS = 16 * 1024 * 1024
MAX_RUNS = 200
KEEP_S = 60.0
"""The time that the events of a run stay in memory after its end."""
INTERRUPTED = "The process ended during the run."


class Cache:
    """Outputs by the hash of what they depend on. The least recently used are dropped first."""

    def __init__(self) -> None:
        self._outputs: OrderedDict[bytes, tuple[float, Output]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: bytes) -> Output | None:
        with self._lock:
            if key not in self._outputs:
                return None
            expires_at, output = self._outputs[key]
            if expires_at < time.monotonic():
                self._drop(key)
                return None
            self._outputs.move_to_end(key)
            return output

    def put(self, key: bytes, output: Output, seconds: float) -> None:
        with self._lock:
            if key in self._outputs:
                self._drop(key)
            self._outputs[key] = (time.monotonic() + seconds, output)
            self._size += len(output.text)
            while len(self._outputs) > MAX_CACHED or self._size > MAX_CACHED_CHARACTERS:
                self._drop(next(iter(self._outputs)))

    def clear(self) -> None:
        with self._lock:
            self._outputs.clear()
            self._size = 0

    def _drop(self, key: bytes) -> None:
        self._size -= len(self._outputs.pop(key)[1].text)


class Runs:
    """The runs of this process, including those that ended recently."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._events: dict[str, EventLog] = {}
        self._ended: dict[str, float] = {}
        self._calls: dict[str, Call] = {}
        self._count = 0
        self._closed = False
        self._lock = Lock()

    def find_events(self, run_id: str) -> EventLog | None:
        """Return the events of a run of this process that is in progress or ended recently."""
        with self._lock:
            self._sweep()
            return self._events.get(run_id)

    def forget(self) -> None:
        """Drop all outputs and the events of ended runs, because something was erased."""
        self.cache.clear()
        with self._lock:
            for run_id in list(self._ended):
                self._drop(run_id)

    def run(self, call: Call, work: Callable[[RunStart], None], *, wait: bool) -> str:
        """Execute a run, to its end or in the background, and return its id. Raise the error if the run could not start.

        When the run is stored, `work` calls its argument with the id and gets the log for the events. Inside `collect_starts`
        this method does not wait for the end.
        """
        start, starts = RunStart(partial(self._add, call)), _starts.get()
        if wait and starts is None:
            self._run(work, start)
            return start.run_id

        def run() -> None:
            with suppress(Exception):  # `start` passes it on
                self._run(work, start)

        Thread(target=run, name="memwell-run", daemon=True).start()
        start.wait()
        if wait and starts is not None:
            starts.append(start)
        return start.run_id

    def interrupt(self) -> None:
        """Mark the runs as interrupted, because the process is about to end. Otherwise this shows only when the leases expire."""
        with self._lock:
            self._closed = True
            calls = dict(self._calls)

        def mark(space: Space, run_id: str) -> None:
            row = run_rows.find_run(space.tx, run_id)
            if row is not None and row.state == "running":
                run_rows.end_run(space, run_id, "interrupted", None, INTERRUPTED)

        for run_id, call in calls.items():
            with suppress(MemwellError):
                call.engine.write(call.principal, mark, run_id)
            events = self.find_events(run_id)
            if events is not None:
                events.add(RunEvent(kind="run", run=run_id, state="interrupted", error=INTERRUPTED))
                events.end()

    def _run(self, work: Callable[[RunStart], None], start: RunStart) -> None:
        try:
            with self._lock:
                if self._closed:
                    raise Unavailable("This process is shutting down and starts no more runs: try again in a moment.")
                if self._count >= MAX_RUNS:
                    raise Unavailable(f"There are {MAX_RUNS} runs in progress: try again when one has ended.")
                self._count += 1
            try:
                work(start)
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
        for run_id in [run_id for run_id, ended_at in self._ended.items() if ended_at < old]:
            self._drop(run_id)

    def _drop(self, run_id: str) -> None:
        self._ended.pop(run_id, None)
        self._events.pop(run_id, None)


class RunStart:
    """The start of a run in another thread: the events of the run, or the error that prevented it."""

    def __init__(self, begin: Callable[[str], EventLog]) -> None:
        self._begin, self._settled = begin, Event()
        self.events: EventLog | None = None
        self.error: Exception | None = None

    @property
    def run_id(self) -> str:
        return self.events.run_id if self.events is not None else ""

    def __call__(self, run_id: str) -> EventLog:
        events = self.events = self._begin(run_id)
        self._settled.set()
        return events

    def fail(self, error: Exception) -> None:
        self.error = error
        self._settled.set()
        if self.events is not None:
            self.events.end()

    def wait(self) -> None:
        """Wait until the run has started; raise the error if it could not."""
        self._settled.wait()
        if self.events is None and self.error is not None:
            raise self.error


_starts: ContextVar[list[RunStart] | None] = ContextVar("_starts", default=None)


@contextmanager
def collect_starts() -> Iterator[list[RunStart]]:
    """Start runs without waiting for their ends. The caller waits for the collected ones in a way that costs no thread."""
    starts: list[RunStart] = []
    token = _starts.set(starts)
    try:
        yield starts
    finally:
        _starts.reset(token)


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
