"""How much a file may cost."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import IO

from . import wire
from .wire import HEAD, OUT_OF_MEMORY


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take, and give."""

    wall_s: float = 1.7  # which makes two seconds with the start of the process
    cpu_s: float = 2.0  # in whole seconds: a part of one counts as one
    memory: int = 256 * 2**20  # bytes of address space, hence of memory
    characters: int = 2_000_000  # of text; the rest is left out
    unpacked: int = 100_000_000  # bytes
    start_s: float = 20.0  # for the process to start, on a machine that is busy; it has no file yet


# -- One run of the reading process: started, fed, listened to, and stopped when its time is up.


TOO_BIG = "needed too much memory"
TOO_LONG = "took longer than {:g} seconds to read"
LOST = "could not be read: its reader stopped without a word ({})"

# The package without its `__init__`, which loads all of Memwell, and Python without `site`, which loads what others want.
_START = (
    "import sys, types; package = types.ModuleType('memwell'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['memwell'] = package; sys.path += sys.argv[7:]; from memwell.extract.child import main; "
    "main(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))"
)
_PACKAGE = str(Path(__file__).parents[1])
_STEP = 1 << 16
_WIDEST = 4  # bytes of a character
_SLACK = 1 << 20  # for what frames add, and reasons
_LAST_S = 1.0  # for a process that has said its last to be gone

_at_once = BoundedSemaphore(max(2, os.cpu_count() or 1))  # each may take a processor and the memory allowed


@dataclass(slots=True)
class Heard:
    """What the process has said: the text that came in time, and why there is no more of it."""

    most: int
    texts: list[str] = field(default_factory=list)
    ready: bool = False
    ended: bool = False
    cut: bool = False
    noted: str | None = None
    wrong: str | None = None
    _bytes: bytearray = field(default_factory=bytearray)
    _total: int = 0

    def stop(self, wrong: str | None = None) -> None:
        self.ended, self.wrong = True, wrong

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        self._bytes += data
        while not self.ended and len(self._bytes) >= HEAD.size:
            kind, size = HEAD.unpack_from(self._bytes)
            if len(self._bytes) < HEAD.size + size:
                break
            said = self._bytes[HEAD.size : HEAD.size + size].decode(errors="replace")
            del self._bytes[: HEAD.size + size]
            self._take(kind, said)
        if not self.ended and self._total > _WIDEST * self.most + _SLACK:
            self.cut = True
            self.stop()

    def _take(self, kind: bytes, said: str) -> None:
        match kind:
            case wire.READY:
                self.ready = True
            case wire.TEXT:
                self.texts.append(said)
            case wire.NOTE:
                self.noted = said
            case wire.DONE | wire.CUT:
                self.cut = kind == wire.CUT
                self.stop()
            case wire.FAILED:
                self.stop(said)
            case _:
                self.stop(LOST.format("it said what it should not"))


def read(kind: str, content: bytes, limits: Limits, packages: tuple[str, ...] = ()) -> Heard:
    """Have a process read a file, with these directories to import from besides Python's own. It ends here, in any case."""
    with _at_once:
        arguments = [kind, limits.memory, limits.cpu_s, limits.characters, limits.unpacked]
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", _START, _PACKAGE, *map(str, arguments), *packages],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                process_group=0,  # no session of its own: on Linux each gets a share of the processors
                env={},
                cwd="/",
            )
        except OSError as error:
            return Heard(0, ended=True, wrong=f"could not be read: no process could be started ({error})")
        with child:
            return _heard(child, content, limits)


def _heard(child: subprocess.Popen[bytes], content: bytes, limits: Limits) -> Heard:
    heard = Heard(limits.characters)
    try:
        _converse(child, content, limits, heard)
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return heard


def _converse(child: subprocess.Popen[bytes], content: bytes, limits: Limits, heard: Heard) -> None:
    """Wait until the process is ready, send the file, listen. The time runs from when it is ready."""
    if not child.stdin or not child.stdout:
        raise TypeError("A reading process has pipes.")
    try:
        _listen(child.stdout, heard, time.monotonic() + limits.start_s, until_ready=True)
        if heard.ready:
            until = time.monotonic() + limits.wall_s
            _send(child.stdin, content, until)
            _listen(child.stdout, heard, until)
        if not heard.ended:  # it is gone, or has closed its output
            heard.stop(_why(child.wait(_LAST_S), limits))
    except TimeoutError:
        heard.stop(TOO_LONG.format(limits.wall_s) if heard.ready else LOST.format("it was not ready in time"))
    except subprocess.TimeoutExpired:
        heard.stop(LOST.format("it closed its output and went on"))


def _listen(pipe: IO[bytes], heard: Heard, until: float, *, until_ready: bool = False) -> None:
    while not heard.ended and not (until_ready and heard.ready):
        _wait(pipe, selectors.EVENT_READ, until)
        data = os.read(pipe.fileno(), _STEP)
        if not data:
            return
        heard.feed(data)


def _send(pipe: IO[bytes], content: bytes, until: float) -> None:
    """Send a file. The process says nothing until it has all of it, so that nobody waits for each other."""
    os.set_blocking(pipe.fileno(), False)
    rest = memoryview(content)
    with suppress(BrokenPipeError):  # what was heard, or how it ended, says why it no longer listens
        while rest:
            _wait(pipe, selectors.EVENT_WRITE, until)
            rest = rest[os.write(pipe.fileno(), rest[:_STEP]) :]
    pipe.close()


def _wait(pipe: IO[bytes], event: int, until: float) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, event)
        left = until - time.monotonic()
        if left <= 0 or not selector.select(left):
            raise TimeoutError


def _why(status: int, limits: Limits) -> str:
    if status == OUT_OF_MEMORY:
        return TOO_BIG
    if status == -signal.SIGXCPU:
        return TOO_LONG.format(limits.cpu_s)
    return LOST.format(f"signal {-status}" if status < 0 else f"status {status}")
