"""One evaluating process: started, asked, listened to, and stopped when its time is up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
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
