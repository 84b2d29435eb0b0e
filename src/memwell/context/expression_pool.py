"""The processes that evaluate expressions: a few, started on demand, reused, and replaced after they were killed.

Callers wait for a slot. A free slot goes to the lane that has the fewest, so that a caller who fills its lane delays itself
and nobody else.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock

from ..errors import Unavailable, Unsupported
from ..sandbox.child import OUT_OF_MEMORY, READY
from ..sandbox.process import START_S, Frame, FrameTooLarge, Process, describe_status, find_packages
from .expression_child import DONE

MEMORY = 256 * 2**20
PATIENCE_S = 0.05  # a longer evaluation continues at a lower priority, and its process is not used again
NICENESS = 5
FORCE_S = 0.1  # from when it should have stopped by itself until it is killed
MAX_REQUESTS = 10_000  # of one process
MAX_FRAME = 8 * 2**20
MAX_PROCESSES = 4
MAX_IN_LANE = 2
MAX_WAITING = 64
MAX_IDLE = 2
WAIT_S = 5.0
_BUSY = "Too many expressions are being evaluated: try again in a moment."
_ENDED = "The process that evaluates expressions was ended: try again in a moment."
# Without this the evaluator's allocator reserves a GiB at once, which makes a limit of address space useless.
_ENVIRONMENT = {"MIMALLOC_DISALLOW_ARENA_ALLOC": "1"}


class Stopped(Exception):
    """The process was stopped or crashed: the reason, and how many answers came before."""

    def __init__(self, reason: str, answered: int) -> None:
        super().__init__(reason)
        self.reason, self.answered = reason, answered


class Evaluator:
    """One evaluating process, used by one thread at a time."""

    def __init__(self) -> None:
        self._ready = self._slow = False
        self._requests = 0
        packages = find_packages("jsonatapy")
        if packages is None:
            raise Unsupported('Expressions need the package `jsonatapy`: run `pip install "memwell[workflows]"`.')
        try:
            self.process = Process.start_confined(
                "memwell.context.expression_child", MEMORY, max_frame=MAX_FRAME, packages=packages, env=_ENVIRONMENT
            )
        except OSError as error:
            raise Unavailable(f"No process can be started to evaluate expressions: {error}.") from error

    @property
    def is_usable(self) -> bool:
        return not self._slow and self._requests < MAX_REQUESTS and self.process.is_alive

    def ask(self, request: bytes, timeout_s: float) -> list[Frame]:
        """The answers to a request. The time counts from when the process is ready."""
        self._requests += 1
        self._wait_until_ready()
        answers: list[Frame] = []
        begin = time.monotonic()
        deadline = begin + timeout_s + FORCE_S
        try:
            self.process.send(b"A", request, deadline)
            while (answer := self._receive(begin + PATIENCE_S, deadline)).kind != DONE:
                answers.append(answer)
        except TimeoutError:
            raise Stopped(f"took longer than {timeout_s:g} seconds", len(answers)) from None
        except FrameTooLarge:
            raise Unavailable(_ENDED) from None
        except (EOFError, ConnectionError):
            raise Stopped(self._explain_end(timeout_s), len(answers)) from None
        return answers

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        with suppress(TimeoutError, EOFError, ConnectionError, FrameTooLarge):
            self._ready = self.process.receive(time.monotonic() + START_S).kind == READY
        if not self._ready:
            raise Unavailable("The process that evaluates expressions cannot be started: try again in a moment.")

    def _receive(self, patience: float, deadline: float) -> Frame:
        """One answer. After a while the process gets a lower priority than everything else."""
        if not self._slow and patience < deadline:
            try:
                return self.process.receive(patience)
            except TimeoutError:
                self._slow = True
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
        return self.process.receive(deadline)

    def _explain_end(self, timeout_s: float) -> str:
        """The reason in words that follow "the expression". Rust ends a process that gets no memory with SIGABRT."""
        try:
            status = self.process.wait()
        except TimeoutError:
            raise Unavailable(_ENDED) from None
        if status == -signal.SIGKILL:
            raise Unavailable(_ENDED)
        if status in (OUT_OF_MEMORY, -signal.SIGABRT):
            return f"used more than {MEMORY >> 20} MiB of memory"
        if status == -signal.SIGALRM:
            return f"took longer than {timeout_s:g} seconds"
        if status in (-signal.SIGSEGV, -signal.SIGBUS):
            return "is nested too deeply, or used too much memory"
        return f"ended the process that evaluated it ({describe_status(status)})"


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    lane: Hashable
    admitted: Event = field(default_factory=Event)


class Pool:
    """Safe to use by many threads at once."""

    def __init__(
        self,
        *,
        most: int = MAX_PROCESSES,
        in_lane: int = MAX_IN_LANE,
        waiting: int = MAX_WAITING,
        wait_s: float = WAIT_S,
    ) -> None:
        self._most, self._in_lane, self._most_waiting, self._wait_s = most, in_lane, waiting, wait_s
        self._lock = Lock()
        self._busy: Counter[Hashable] = Counter()
        self._waiting: list[Ticket] = []
        self._idle: list[Evaluator] = []  # the last one was used last: it is ready
        self._working: set[Evaluator] = set()
        self._closed = 0  # number of times

    def ask(self, request: bytes, timeout_s: float, lane: Hashable = None) -> list[Frame]:
        """The answers to a request. A call without a lane gets one of its own."""
        lane = object() if lane is None else lane
        self._enter(lane)
        try:
            closed, child = self._closed, self._acquire()
            try:
                return child.ask(request, timeout_s)
            except BaseException:
                child.process.kill()  # whatever it was about, it must not answer the next one
                raise
            finally:
                self._release(child, closed)
        finally:
            self._leave(lane)

    def close(self) -> None:
        """End all processes. Calls in progress fail; later calls start new processes."""
        with self._lock:
            idle, working = self._idle, list(self._working)
            self._idle = []
            self._closed += 1
        for child in working:
            child.process.kill()
        for child in idle:
            child.process.close()

    def disown(self) -> None:
        """Forget the processes without ending them: they belong to the process that this one was forked from."""
        for child in (*self._idle, *self._working):
            child.process.disown()

    @property
    def pids(self) -> set[int]:
        with self._lock:
            return {child.process.pid for child in (*self._idle, *self._working)}

    def _acquire(self) -> Evaluator:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
                if child is not None and child.is_usable:
                    self._working.add(child)
                    return child
            if child is None:
                break
            child.process.close()
        child = Evaluator()
        with self._lock:
            self._working.add(child)
        return child

    def _release(self, child: Evaluator, closed: int) -> None:
        with self._lock:
            self._working.discard(child)
            is_usable = child.is_usable
            if is_usable and len(self._idle) < MAX_IDLE:
                self._idle.append(child)
                return
        child.process.close()
        if not is_usable:
            self._replace(closed)

    def _replace(self, closed: int) -> None:
        """Start a process for the next call, unless one is idle or the pool was closed meanwhile."""
        if self._idle or self._closed != closed:
            return
        try:
            child = Evaluator()
        except Unavailable:
            return  # the next call reports it
        with self._lock:
            if self._closed == closed and len(self._idle) < MAX_IDLE:
                self._idle.insert(0, child)
                return
        child.process.close()

    def _enter(self, lane: Hashable) -> None:
        with self._lock:
            if self._has_slot(lane):
                self._busy[lane] += 1
                return
            if len(self._waiting) >= self._most_waiting:
                raise Unavailable(_BUSY)
            ticket = Ticket(lane)
            self._waiting.append(ticket)
        if ticket.admitted.wait(self._wait_s):
            return
        with self._lock:
            if ticket.admitted.is_set():  # in the meantime
                return
            self._waiting.remove(ticket)
        raise Unavailable(_BUSY)

    def _leave(self, lane: Hashable) -> None:
        with self._lock:
            self._busy[lane] -= 1
            self._busy += Counter()  # forget lanes that are empty
            while able := [one for one in self._waiting if self._has_slot(one.lane)]:
                ticket = min(able, key=lambda one: self._busy[one.lane])
                self._waiting.remove(ticket)
                self._busy[ticket.lane] += 1
                ticket.admitted.set()

    def _has_slot(self, lane: Hashable) -> bool:
        return self._busy.total() < self._most and self._busy[lane] < self._in_lane
