"""The runs of this process, and cached outputs of steps.

On a server each run has a thread of its own, so that it goes on when the connection breaks.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Event, Lock, Thread
from typing import cast
from weakref import WeakKeyDictionary

from ..core.access import Principal
from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.space import Space
from ..errors import MemwellError, Unavailable
from . import run_rows
from .run import MAX_EVENTS, MAX_SECONDS, EventLog, RunEvent
from .run_rows import Output

MAX_CACHED = 1000
MAX_CACHED_CHARACTERS = 16 * 1024 * 1024
MAX_RUNS, MAX_TENANT_RUNS = 200, 100
"""Runs of a server, and of one of its tenants. An embedded memory has one tenant."""
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
        self._runs: dict[str, tuple[Principal, EventLog]] = {}
        self._counts: Counter[str] = Counter()
        self._closed = False
        self._lock = Lock()

    def find_events(self, run_id: str) -> EventLog | None:
        """Return the events of a run of this process that is in progress or ended recently."""
        with self._lock:
            self._drop_ended(time.monotonic() - KEEP_S)
            found = self._runs.get(run_id)
        return None if found is None else found[1]

    def forget(self) -> None:
        """Drop all outputs and the events of ended runs, because something was erased."""
        self.cache.clear()
        with self._lock:
            self._drop_ended(time.monotonic())

    def run(self, call: Call, work: Callable[[RunStart], None], read: Callable[[str], object], *, wait: bool) -> str:
        """Execute a run, to its end or in the background, and return its id. Raise the error if the run could not start.

        When the run is stored, `work` calls its argument with the id and gets the log for the events. Inside `collect_starts`
        this method does not wait for the end; `read` reads the answer to the caller then.
        """
        start, starts = RunStart(partial(self._add, call.principal), read), _starts.get()

        def run() -> None:
            with suppress(Exception):  # `start` passes it on
                self._run(call, work, start)

        if wait and starts is None:
            self._run(call, work, start)
        else:
            Thread(target=run, name="memwell-run", daemon=True).start()
            start.wait()
        if start.events is None:  # an equal request was faster
            self.join(start.run_id, read, wait=wait)
        elif wait and starts is not None:
            starts.append(start)
        return start.run_id

    def join(self, run_id: str, read: Callable[[str], object], *, wait: bool) -> None:
        """Wait for a run that was begun before, as `run` does. A run of another process is not waited for."""
        events, starts = self.find_events(run_id), _starts.get()
        if not wait or events is None or events.is_over:
            return
        start = RunStart.of(events, read)
        if starts is not None:
            starts.append(start)
        else:
            start.wait_for_end(MAX_SECONDS)

    def cancel(self, run_id: str) -> None:
        """Stop a run of this process that was marked as cancelled. Other processes notice the mark."""
        events = self.find_events(run_id)
        if events is not None:
            events.cancel()

    def interrupt(self, engine: Engine) -> None:
        """Mark the runs as interrupted, because the process is about to end. Otherwise this shows only when the leases expire."""
        with self._lock:
            self._closed = True
            current = [one for one in self._runs.values() if one[1].ended_at is None]

        def mark(space: Space, run_id: str) -> None:
            row = run_rows.find_run(space.tx, run_id)
            if row is not None and row.state == "running":
                run_rows.end_run(space, run_id, "interrupted", None, INTERRUPTED)

        for principal, events in current:
            with suppress(MemwellError):
                engine.write(principal, mark, events.run_id)
            events.add(RunEvent(kind="run", run=events.run_id, state="interrupted", error=INTERRUPTED))
            events.end()

    def _run(self, call: Call, work: Callable[[RunStart], None], start: RunStart) -> None:
        tenant = call.principal.tenant
        share = MAX_RUNS if call.engine.links.embedded else MAX_TENANT_RUNS
        try:
            with self._lock:
                if self._closed:
                    raise Unavailable("This process is shutting down and starts no more runs: try again in a moment.")
                if self._counts.total() >= MAX_RUNS or self._counts[tenant] >= share:
                    raise Unavailable(
                        f"There are {self._counts.total()} runs in progress: try again when one has ended."
                    )
                self._counts[tenant] += 1
            try:
                work(start)
            finally:
                with self._lock:
                    self._counts -= Counter([tenant])
        except Exception as error:
            start.fail(error)
            raise

    def _add(self, principal: Principal, run_id: str) -> EventLog:
        events = EventLog(run_id)
        with self._lock:
            self._drop_ended(time.monotonic() - KEEP_S)
            self._runs[run_id] = principal, events
        return events

    def _drop_ended(self, until: float) -> None:
        over = [one.run_id for _, one in self._runs.values() if one.ended_at is not None and one.ended_at <= until]
        for run_id in over:
            del self._runs[run_id]


class RunStart:
    """The start of a run in another thread: the events of the run, or the error that prevented it. `read` reads the answer to
    the request with the id of the run."""

    def __init__(self, begin: Callable[[str], EventLog], read: Callable[[str], object]) -> None:
        self._begin, self.read, self._settled = begin, read, Event()
        self._prepared: EventLog | None = None
        self.run_id = ""
        self.events: EventLog | None = None
        self.error: Exception | None = None

    @staticmethod
    def of(events: EventLog, read: Callable[[str], object]) -> RunStart:
        """Return the start of a run that was begun before."""
        start = RunStart(EventLog, read)
        start.run_id, start.events = events.run_id, events
        return start

    def prepare(self, run_id: str) -> None:
        """Prepare the events of a run before it is stored, so that an equal request that finds the run finds them."""
        self._drop_prepared()
        self._prepared = self._begin(run_id)

    def __call__(self, run_id: str) -> EventLog:
        self.run_id = run_id
        if self._prepared is None or self._prepared.run_id != run_id:
            self.prepare(run_id)
        events = self.events = cast("EventLog", self._prepared)
        self._settled.set()
        return events

    def skip(self, run_id: str) -> None:
        """Settle the start: an equal request has begun this run at the same time."""
        self._drop_prepared()
        self.run_id = run_id
        self._settled.set()

    def _drop_prepared(self) -> None:
        if self._prepared is not None and self.events is None:
            self._prepared.end()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._drop_prepared()
        self._settled.set()
        if self.events is not None:
            self.events.end()

    def wait(self) -> None:
        """Wait until the run has started; raise the error if it could not."""
        self._settled.wait()
        if not self.run_id and self.error is not None:
            raise self.error

    def wait_for_end(self, timeout_s: float) -> bool:
        """Return True if the run has ended in time."""
        return self.events is None or self.events.list_after(MAX_EVENTS, timeout_s)[1]


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
            engine.ends.append(partial(runs.interrupt, engine))
        return runs
