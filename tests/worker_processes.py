"""Workers that consolidate or compact, in processes of their own, and are killed, or stopped, at a named step of it.

They are forked from one process that has loaded everything, so that a round of a test costs milliseconds to begin.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from threading import RLock, Thread, current_thread, main_thread
from typing import Any, NamedTuple

from memwell.clock import SECOND
from memwell.config import load
from memwell.jobs.worker import Worker
from memwell.registry import open_engine

from .processes import forks

KINDS = ("consolidate", "compact")
LEASE = SECOND // 2
PATIENCE_S = 60.0
READY, REACHED = "ready", "reached"


class StopPoint(NamedTuple):
    """Where a worker is stopped: as it sends a statement, or once the transaction that has it in it is over, so that its
    answer does not arrive."""

    statement: str
    over: bool = False


def work(home: str, point: StopPoint | None, how: int, parent: Connection) -> None:
    """Work, once told to, until stopped; the parent is told when it is about to be, and what the worker logs."""
    engine = open_engine(load(home=home))
    handlers = {kind: engine.handlers[kind] for kind in KINDS}
    worker = Worker(engine.store, engine.clock, handlers, lease=LEASE)
    if point is not None:
        store: Any = engine.store
        stopper = _Stopper(point, how, parent)
        store.read, store.write = stopper.around(store.read), stopper.around(store.write)
    logging.getLogger().addHandler(_LogForwarder(parent))
    parent.send(READY)
    parent.recv()
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    worker.work()


def _end_with(parent: Connection) -> None:
    """Nobody is left behind by a test that was ended itself."""
    try:
        parent.recv()
    except EOFError:
        os._exit(1)


class _LogForwarder(logging.Handler):
    def __init__(self, parent: Connection) -> None:
        super().__init__()
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        self._parent.send(record.getMessage())


class _Stopper:
    """Strikes this process, once. If it is to be stopped, nothing else of it, such as a heartbeat, is in a transaction."""

    def __init__(self, point: StopPoint, how: int, parent: Connection) -> None:
        self._point, self._how, self._parent, self._done = point, how, parent, False
        self._between: Any = RLock() if how == signal.SIGSTOP else nullcontext()

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(tenant: str, work: Callable[..., Any]) -> Any:
            with self._between:
                sent: list[str] = []
                result = method(tenant, lambda tx: work(_WatchedTx(tx, sent, self)))
                if self._point.over and self._point.statement in sent and current_thread() is main_thread():
                    self._stop()
                return result

        return call

    def sending(self, statement: str) -> None:
        if statement == self._point.statement and not self._point.over:
            self._stop()

    def _stop(self) -> None:
        if not self._done:
            self._done = True
            self._parent.send(REACHED)
            os.kill(os.getpid(), self._how)


class _WatchedTx:
    """A transaction whose statements are noted."""

    def __init__(self, tx: Any, sent: list[str], stopper: _Stopper) -> None:
        self._tx, self._sent, self._stop = tx, sent, stopper

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tx, name)
        return self._noted(found) if name in ("row", "rows", "run", "send") else found

    def _noted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(statement: str, **given: Any) -> Any:
            self._stop.sending(statement)
            self._sent.append(statement)
            return method(statement, **given)

        return call


class WorkerProcess:
    """A worker process, as the test sees it; without a point, one that nothing happens to."""

    def __init__(self, home: str, point: StopPoint | None = None, how: int = signal.SIGKILL) -> None:
        self._told, child = forks().Pipe()
        self._process = forks().Process(target=work, args=(home, point, int(how), child), daemon=True)
        self._process.start()
        child.close()
        self.wait_for(READY)

    def begin(self) -> None:
        self._told.send(None)

    def wait_for(self, word: str) -> None:
        """Wait until it says something."""
        assert self.says(word, PATIENCE_S), f"a worker did not say {word!r}"

    def says(self, word: str, within_s: float) -> bool:
        until = time.monotonic() + within_s
        while self._told.poll(max(0.0, until - time.monotonic())):
            if self._told.recv() == word:
                return True
        return False

    def go_on(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._told.close()
