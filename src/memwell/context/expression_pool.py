"""One evaluating process: started, asked, listened to, and stopped when its time is up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple

from ..errors import Unavailable, Unsupported
from . import expression_child
from .expression_child import DONE, HEAD, OUT_OF_MEMORY, READY

MEMORY = 256 * 2**20
START_S = 20.0  # for the process to start, on a machine that is busy; it has nothing to do yet
PATIENCE_S = 0.05  # what takes longer goes on at a lower priority, and its process ends with it
BEHIND = 5  # by how much lower
FORCE_S = 0.1  # from when it should have stopped by itself until it is stopped
MOST_ASKED = 10_000
MOST_HEARD = 8 * 2**20
_VARIABLES = {"MIMALLOC_DISALLOW_ARENA_ALLOC": "1"}  # or the evaluator takes a GiB at once, and no limit tells anything
_LAST_S = 5.0  # for a process that was killed to be gone
_STEP = 1 << 16
_ENDED = "The process that evaluates expressions was ended: try again in a moment."
_NOT_INSTALLED = 'Expressions need the package `jsonatapy`: run `pip install "memwell[workflows]"`.'


class Answer(NamedTuple):
    kind: bytes
    said: bytes


class Stopped(Exception):
    """The process was stopped, or has ended by what it was asked: why, and how many answers came before."""

    def __init__(self, reason: str, answered: int) -> None:
        super().__init__(reason)
        self.reason, self.answered = reason, answered


class Child:
    """A process that evaluates. One thread at a time asks it."""

    def __init__(self) -> None:
        self._ready = self._behind = False
        self._asked = 0
        self._heard = bytearray()
        self._link, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(theirs)
            except BaseException:
                self._link.close()
                raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether to ask it again: it lives, was not put behind the others, and is not too old."""
        return not self._behind and self._asked < MOST_ASKED and self._process.poll() is None

    def ask(self, request: bytes, timeout_s: float) -> list[Answer]:
        """Its answers. The time runs from when it is ready; it stops by itself when that is up, or is stopped a little later."""
        self._asked += 1
        answers: list[Answer] = []
        try:
            self._get_ready()
            begun, most_s = time.monotonic(), timeout_s + FORCE_S
            self._link.settimeout(most_s)
            self._link.sendall(HEAD.pack(b"A", len(request)) + request)
            while (answer := self._next(begun, most_s)).kind != DONE:
                answers.append(answer)
        except TimeoutError:
            raise Stopped(f"took longer than {timeout_s:g} seconds", len(answers)) from None
        except (EOFError, ConnectionError):
            raise Stopped(self._why(timeout_s), len(answers)) from None
        return answers

    def kill(self) -> None:
        """Stop it, whatever it does. Any thread may."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # then the kernel is busy with its end
            self._process.wait(_LAST_S)

    def end(self) -> None:
        """Stop it for good. Nobody asks it any more."""
        self.kill()
        self._link.close()

    def let_go(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._link.close()
        self._process.returncode = 0

    def _get_ready(self) -> None:
        if self._ready:
            return
        try:
            self._ready = self._next(time.monotonic(), START_S, patience_s=0).kind == READY
        except (TimeoutError, EOFError, ConnectionError):
            self._ready = False
        if not self._ready:
            raise Unavailable("The process that evaluates expressions cannot be started: try again in a moment.")

    def _next(self, begun: float, timeout_s: float, *, patience_s: float = PATIENCE_S) -> Answer:
        """One answer. An evaluation that takes long goes on behind everything else that wants the processor."""
        while (answer := self._whole()) is None:
            passed = time.monotonic() - begun
            patient = not self._behind and passed < patience_s
            left = (min(patience_s, timeout_s) if patient else timeout_s) - passed
            if left <= 0:
                raise TimeoutError
            self._link.settimeout(left)
            try:
                self._hear(self._link.recv(_STEP))
            except TimeoutError:
                if not patient:
                    raise
                self._put_behind()
        return answer

    def _hear(self, data: bytes) -> None:
        if not data:
            raise EOFError
        self._heard += data
        if len(self._heard) > MOST_HEARD:
            raise Unavailable(_ENDED)

    def _whole(self) -> Answer | None:
        if len(self._heard) < HEAD.size:
            return None
        kind, size = HEAD.unpack_from(self._heard)
        if len(self._heard) < HEAD.size + size:
            return None
        said = bytes(self._heard[HEAD.size : HEAD.size + size])
        del self._heard[: HEAD.size + size]
        return Answer(kind, said)

    def _put_behind(self) -> None:
        self._behind = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, BEHIND)

    def _why(self, timeout_s: float) -> str:
        """How it ended, in words that follow "the expression". Rust ends a process that gets no memory with SIGABRT."""
        try:
            status = self._process.wait(_LAST_S)
        except subprocess.TimeoutExpired:
            raise Unavailable(_ENDED) from None
        if status == -signal.SIGKILL:
            raise Unavailable(_ENDED)
        if status in (OUT_OF_MEMORY, -signal.SIGABRT):
            return f"used more than {MEMORY >> 20} MiB of memory"
        if status == -signal.SIGALRM:
            return f"took longer than {timeout_s:g} seconds"
        if status in (-signal.SIGSEGV, -signal.SIGBUS):
            return "is nested too deeply, or used too much memory"
        return f"ended the process that evaluated it ({f'signal {-status}' if status < 0 else f'status {status}'})"


def _started(theirs: socket.socket) -> subprocess.Popen[bytes]:
    """With no variables of ours, no terminal, and no descriptor but one end of the link."""
    installed = find_spec("jsonatapy")
    if installed is None or not installed.origin:
        raise Unsupported(_NOT_INSTALLED)
    packages = str(Path(installed.origin).parent.parent)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", expression_child.__file__, packages, str(MEMORY)],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            process_group=0,  # not a session: those share processors evenly, whatever the priority of a process
            env=_VARIABLES,
            cwd="/",
        )
    except OSError as error:
        raise Unavailable(f"No process can be started to evaluate expressions: {error}.") from error


# -- The evaluating processes: a few, started when they are needed, kept, and replaced when they were stopped.
#
# Who asks waits for a place among those who evaluate. Places go to the lane that has the fewest, so that one caller who fills
# its own waits for itself and nobody else does.


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
