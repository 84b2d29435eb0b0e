"""The evaluating processes: a few, started when they are needed, kept, and replaced when they were stopped.

Who asks waits for a place among those who evaluate. Places go to the lane that has the fewest, so that one caller who fills
its own waits for itself and nobody else does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Event, Lock

from ..errors import Unavailable
from .expression_process import Answer, Child

MOST = 4
MOST_IN_LANE = 2
MOST_WAITING = 64
WAIT_S = 5.0
KEPT = 2  # processes that have nothing to do
_BUSY = "Too many expressions are being evaluated: try again in a moment."


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    lane: Hashable
    admitted: Event = field(default_factory=Event)


class Pool:
    """Safe to use by many threads at once."""

    def __init__(
        self, *, most: int = MOST, in_lane: int = MOST_IN_LANE, waiting: int = MOST_WAITING, wait_s: float = WAIT_S
    ) -> None:
        self._most, self._in_lane, self._most_waiting, self._wait_s = most, in_lane, waiting, wait_s
        self._lock = Lock()
        self._busy: Counter[Hashable] = Counter()
        self._waiting: list[Waiting] = []
        self._idle: list[Child] = []  # the one that was used last is at the end: it is ready for sure
        self._working: set[Child] = set()
        self._closed = 0  # how often

    def ask(self, request: bytes, timeout_s: float, lane: Hashable = None) -> list[Answer]:
        """The answers of a process. Without a lane, a call is one of its own."""
        lane = object() if lane is None else lane
        self._enter(lane)
        try:
            closed, child = self._closed, self._taken()
            try:
                return child.ask(request, timeout_s)
            except BaseException:
                child.kill()  # whatever it was about, it must not answer the next one
                raise
            finally:
                self._give_back(child, closed)
        finally:
            self._leave(lane)

    def close(self) -> None:
        """End all processes. Whoever waits for an answer is told; whoever asks later starts new ones."""
        with self._lock:
            idle, working = self._idle, list(self._working)
            self._idle = []
            self._closed += 1
        for child in working:
            child.kill()
        for child in idle:
            child.end()

    def let_go(self) -> None:
        """Forget the processes without ending them: they belong to the process that this one was forked from."""
        for child in (*self._idle, *self._working):
            child.let_go()

    @property
    def pids(self) -> set[int]:
        with self._lock:
            return {child.pid for child in (*self._idle, *self._working)}

    # -- processes -----------------------------------------------------------------------------------------------------

    def _taken(self) -> Child:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
                if child is not None and child.usable:
                    self._working.add(child)
                    return child
            if child is None:
                break
            child.end()
        child = Child()
        with self._lock:
            self._working.add(child)
        return child

    def _give_back(self, child: Child, closed: int) -> None:
        with self._lock:
            self._working.discard(child)
            usable = child.usable
            if usable and len(self._idle) < KEPT:
                self._idle.append(child)
                return
        child.end()
        if not usable:
            self._replace(closed)

    def _replace(self, closed: int) -> None:
        """Start one in time for the next who asks, unless there is one, or all are to be gone."""
        if self._idle or self._closed != closed:
            return
        try:
            child = Child()
        except Unavailable:
            return  # whoever needs it will see
        with self._lock:
            if self._closed == closed and len(self._idle) < KEPT:
                self._idle.insert(0, child)
                return
        child.end()

    # -- places --------------------------------------------------------------------------------------------------------

    def _enter(self, lane: Hashable) -> None:
        with self._lock:
            if self._fits(lane):
                self._busy[lane] += 1
                return
            if len(self._waiting) >= self._most_waiting:
                raise Unavailable(_BUSY)
            waiting = Waiting(lane)
            self._waiting.append(waiting)
        if waiting.admitted.wait(self._wait_s):
            return
        with self._lock:
            if waiting.admitted.is_set():  # just now
                return
            self._waiting.remove(waiting)
        raise Unavailable(_BUSY)

    def _leave(self, lane: Hashable) -> None:
        with self._lock:
            self._busy[lane] -= 1
            self._busy += Counter()  # forget lanes that are empty
            while able := [one for one in self._waiting if self._fits(one.lane)]:
                first = min(able, key=lambda one: self._busy[one.lane])
                self._waiting.remove(first)
                self._busy[first.lane] += 1
                first.admitted.set()

    def _fits(self, lane: Hashable) -> bool:
        return self._busy.total() < self._most and self._busy[lane] < self._in_lane
