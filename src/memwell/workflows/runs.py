"""Running a workflow to its end, whichever kind of document it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Event, Lock, Thread
from weakref import WeakKeyDictionary

from ..core.dispatch import Call
from ..core.engine import Engine
from ..core.space import Space
from ..errors import Invalid, MemwellError, Unavailable
from . import store
from .banks import provide
from .document import Runnable
from .events import Live, RunEvent
from .model_call import NO_MODEL
from .run import Heartbeat, Outcome, UnderWay
from .store import Begun
from .tasks.document import TaskDocument, input_of
from .tasks.reader import require
from .tasks.run import TaskRun
from .tree import Cache, TreeRun


def run(call: Call, document: Runnable, begun: Begun, cache: Cache, listen: Callable[[str], Live]) -> Outcome:
    """Run a document to its end."""
    if document.asks and call.engine.completer is None:
        raise Invalid(NO_MODEL)
    if isinstance(document, TaskDocument):
        require(call, document, input_of(begun.asked.input, begun.asked.inputs))
    banks = provide(call, document)
    run_id = call.write(lambda space: store.begin(space, begun))
    live = listen(run_id)
    with Heartbeat(call, run_id):
        return _running(call, document, begun, cache, live, banks, run_id).go()


def _running(
    call: Call, document: Runnable, begun: Begun, cache: Cache, live: Live, banks: Mapping[str, str], run_id: str
) -> UnderWay:
    if isinstance(document, TaskDocument):
        return TaskRun(call, document, begun, live, banks, run_id)
    return TreeRun(call, document, begun, cache, live, banks, run_id)


# -- The runs of this process: each in a thread of its own, so that it goes on when whoever began it has gone.


MOST = 200
KEEP_S = 60.0
INTERRUPTED = "Its process ended while it ran."


class Runs:
    """What runs in this process, and what has ended just now."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._live: dict[str, Live] = {}
        self._ended: dict[str, float] = {}
        self._calls: dict[str, Call] = {}
        self._under_way = 0
        self._closed = False
        self._lock = Lock()

    def live(self, run_id: str) -> Live | None:
        """What happens in a run of this process, or has happened just now."""
        with self._lock:
            self._sweep()
            return self._live.get(run_id)

    def forget(self) -> None:
        """Something was erased: nothing of what is over stays in memory."""
        self.cache.clear()
        with self._lock:
            for run_id in list(self._ended):
                self._drop(run_id)

    def run(self, call: Call, document: Runnable, begun: Begun) -> Outcome:
        """Run to the end, and wait for it; where waiting is left to others, begin it and note it for them."""
        noted = _left_to.get()
        if noted is None:
            return self._go(call, document, begun, Beginning(partial(self._begin, call)))
        noted.append(self._started(call, document, begun))
        return Outcome(noted[-1].run_id, "running", None, None)

    def start(self, call: Call, document: Runnable, begun: Begun) -> str:
        """Run in the background; returns as soon as the run is known, or the error that kept it from beginning."""
        return self._started(call, document, begun).run_id

    def interrupt(self) -> None:
        """The process is about to end: say so of what is under way, which would show only when the lease is over."""
        with self._lock:
            self._closed = True
            under_way = dict(self._calls)
        for run_id, call in under_way.items():
            with suppress(MemwellError):  # then it shows when the lease is over
                call.engine.write(call.principal, partial(_interrupt, run_id=run_id))
            live = self.live(run_id)
            if live is not None:
                live.tell(RunEvent(kind="run", run=run_id, state="interrupted", error=INTERRUPTED))
                live.end()

    def _started(self, call: Call, document: Runnable, begun: Begun) -> Beginning:
        begin = Beginning(partial(self._begin, call))
        Thread(target=self._in_background, args=(call, document, begun, begin), name="memwell-run", daemon=True).start()
        begin.wait()
        return begin

    def _in_background(self, call: Call, document: Runnable, begun: Begun, begin: Beginning) -> None:
        with suppress(Exception):  # it is told to whoever has begun the run
            self._go(call, document, begun, begin)

    def _go(self, call: Call, document: Runnable, begun: Begun, begin: Beginning) -> Outcome:
        try:
            with self._place():
                return run(call, document, begun, self.cache, begin)
        except Exception as error:
            begin.fail(error)
            raise

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the places for runs under way, waited for or not."""
        with self._lock:
            if self._closed:
                raise Unavailable("This process is being stopped, and begins no run any more: try again in a moment.")
            if self._under_way >= MOST:
                raise Unavailable(f"There are {MOST} runs under way: try again when one has ended.")
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def _begin(self, call: Call, run_id: str) -> Live:
        live = Live(run_id, self._over)
        with self._lock:
            self._sweep()
            self._live[run_id] = live
            self._calls[run_id] = call
            self._ended.pop(run_id, None)
        return live

    def _over(self, live: Live) -> None:
        with self._lock:
            if self._live.get(live.run_id) is live:  # it may have begun again
                self._calls.pop(live.run_id, None)
                self._ended[live.run_id] = time.monotonic()

    def _sweep(self) -> None:
        old = time.monotonic() - KEEP_S
        for run_id in [one for one, ended in self._ended.items() if ended < old]:
            self._drop(run_id)

    def _drop(self, run_id: str) -> None:
        self._ended.pop(run_id, None)
        self._live.pop(run_id, None)


class Beginning:
    """What a thread says about the run that it is to begin, and about what has broken it off."""

    def __init__(self, begin: Callable[[str], Live]) -> None:
        self._begin, self._known = begin, Event()
        self.live: Live | None = None
        self.error: Exception | None = None

    @property
    def run_id(self) -> str:
        return self.live.run_id if self.live is not None else ""

    def __call__(self, run_id: str) -> Live:
        live = self.live = self._begin(run_id)
        self._known.set()
        return live

    def fail(self, error: Exception) -> None:
        self.error = error
        self._known.set()
        if self.live is not None:
            self.live.end()

    def wait(self) -> None:
        """Until the run is known; raises what kept it from beginning."""
        self._known.wait()
        if self.live is None and self.error is not None:
            raise self.error


_left_to: ContextVar[list[Beginning] | None] = ContextVar("_left_to", default=None)


@contextmanager
def left_to_others() -> Iterator[list[Beginning]]:
    """Inside, runs are begun but not waited for: whoever asked waits elsewhere, where it costs no thread, for those given."""
    noted: list[Beginning] = []
    token = _left_to.set(noted)
    try:
        yield noted
    finally:
        _left_to.reset(token)


def _interrupt(space: Space, run_id: str) -> None:
    row = store.find(space.tx, run_id)
    if row is not None and row.state == "running":
        store.end(space, run_id, "interrupted", None, INTERRUPTED)


_of: WeakKeyDictionary[Engine, Runs] = WeakKeyDictionary()
_lock = Lock()


def runs_of(engine: Engine) -> Runs:
    with _lock:
        found = _of.get(engine)
        if found is None:
            found = _of[engine] = Runs()
            engine.forgets.append(found.forget)
            engine.ends.append(found.interrupt)
        return found
