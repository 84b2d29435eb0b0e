"""The runs of this process: each in a thread of its own, so that it goes on when whoever began it has gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from weakref import WeakKeyDictionary

from ..dispatch import Call
from ..engine import Engine
from ..errors import Unavailable
from .cache import Cache
from .document import Document
from .live import Live
from .runner import Outcome, run
from .stored import Begun

MOST = 200
KEEP_S = 60.0


class Runs:
    """What runs in this process, and what has ended just now."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._live: dict[str, Live] = {}
        self._ended: dict[str, float] = {}
        self._lock = Lock()

    def live(self, run_id: str) -> Live | None:
        return self._live.get(run_id)

    def forget(self) -> None:
        """Something was erased: nothing of what is over stays in memory."""
        self.cache.clear()
        with self._lock:
            for run_id in list(self._ended):
                self._drop(run_id)

    def run(self, call: Call, document: Document, begun: Begun) -> Outcome:
        """Run to the end, and wait for it."""
        return run(call, document, begun, self.cache, self._begin)

    def start(self, call: Call, document: Document, begun: Begun) -> str:
        """Run in the background; returns as soon as the run is known, or the error that kept it from beginning."""
        with self._lock:
            if len(self._live) - len(self._ended) >= MOST:
                raise Unavailable(f"There are {MOST} runs under way: wait for one to end.")
        begin = _Beginning(self._begin)
        Thread(target=self._in_background, args=(call, document, begun, begin), name="memwell-run", daemon=True).start()
        return begin.wait()

    def _in_background(self, call: Call, document: Document, begun: Begun, begin: _Beginning) -> None:
        try:
            run(call, document, begun, self.cache, begin)
        except Exception as error:  # noqa: BLE001 -- it is told to whoever has begun the run
            begin.fail(error)

    def _begin(self, run_id: str) -> Live:
        live = Live(run_id, self._over)
        with self._lock:
            self._sweep()
            self._live[run_id] = live
            self._ended.pop(run_id, None)
        return live

    def _over(self, run_id: str) -> None:
        with self._lock:
            self._ended[run_id] = time.monotonic()

    def _sweep(self) -> None:
        old = time.monotonic() - KEEP_S
        for run_id in [one for one, ended in self._ended.items() if ended < old]:
            self._drop(run_id)

    def _drop(self, run_id: str) -> None:
        self._ended.pop(run_id, None)
        self._live.pop(run_id, None)


class _Beginning:
    """What a thread says about the run that it is to begin."""

    def __init__(self, begin: Callable[[str], Live]) -> None:
        self._begin, self._known = begin, Event()
        self._run_id = ""
        self._error: Exception | None = None

    def __call__(self, run_id: str) -> Live:
        live = self._begin(run_id)
        self._run_id = run_id
        self._known.set()
        return live

    def fail(self, error: Exception) -> None:
        self._error = error
        self._known.set()

    def wait(self) -> str:
        self._known.wait()
        if not self._run_id and self._error is not None:
            raise self._error
        return self._run_id


_of: WeakKeyDictionary[Engine, Runs] = WeakKeyDictionary()
_lock = Lock()


def runs_of(engine: Engine) -> Runs:
    with _lock:
        found = _of.get(engine)
        if found is None:
            found = _of[engine] = Runs()
            engine.forgets.append(found.forget)
        return found
