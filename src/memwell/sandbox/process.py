"""The parent's side of a sandbox: start a child process, exchange frames over a socket pair, and kill it at a deadline."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Self

from .child import HEAD, encode_frame

START_S = 20.0  # for a child to start on a busy machine, before it gets input
_KILLED_S = 5.0  # for a killed process to end
_CHUNK = 1 << 16
_STDERR = 2
# Python without `site`, and the package without its `__init__`, so that a child loads only its own module of Memwell.
_START = (
    "import importlib, sys, types; package = types.ModuleType('memwell'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['memwell'] = package; sys.argv[3] and sys.path.append(sys.argv[3]); "
    "importlib.import_module(sys.argv[2]).main(*sys.argv[4:])"
)
_PACKAGE = str(Path(__file__).parents[1])


class Frame(NamedTuple):
    kind: bytes
    body: bytes


class FrameTooLarge(Exception):
    """The child sent a frame that is larger than allowed."""


class Process:
    """A child process and our end of the socket pair. One thread at a time may exchange frames; any thread may kill the child.

    Sending and receiving raise TimeoutError at the deadline, and EOFError or ConnectionError if the child has ended.
    """

    def __init__(
        self, command: Sequence[str], *, max_frame: int, env: Mapping[str, str], cwd: str | None, confined: bool
    ) -> None:
        """Start a command. A confined child has the socket as standard input and output. Any other child gets its descriptor as
        the last argument."""
        self._max_frame = max_frame
        self._buffer = bytearray()
        self._link, theirs = socket.socketpair()
        link = theirs.fileno()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command if confined else [*command, str(link)],
                    stdin=link if confined else subprocess.DEVNULL,
                    stdout=link if confined else _STDERR,
                    stderr=subprocess.DEVNULL if confined else None,
                    pass_fds=() if confined else (link,),
                    # A group instead of a session: Linux gives each session a share of the processors, regardless of priority.
                    process_group=0 if confined else None,
                    start_new_session=not confined,
                    env=env,
                    cwd=cwd,
                )
            except BaseException:
                self._link.close()
                raise

    @classmethod
    def start_confined(
        cls,
        module: str,
        *arguments: object,
        max_frame: int,
        packages: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Run `main(*arguments)` of a module of Memwell without a terminal and without descriptors other than the socket. Its
        only variables are those in `env`.

        `packages` is an additional directory to import from.
        """
        command = [sys.executable, "-I", "-S", "-B", "-c", _START, _PACKAGE, module, packages or ""]
        command += map(str, arguments)
        return cls(command, max_frame=max_frame, env=env or {}, cwd="/", confined=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, kind: bytes, body: bytes, deadline: float) -> None:
        self._link.settimeout(_left(deadline))
        self._link.sendall(encode_frame(kind, body))

    def receive(self, deadline: float) -> Frame:
        while (frame := self._next_frame()) is None:
            self._link.settimeout(_left(deadline))
            data = self._link.recv(_CHUNK)
            if not data:
                raise EOFError
            self._buffer += data
        return frame

    def _next_frame(self) -> Frame | None:
        if len(self._buffer) < HEAD.size:
            return None
        kind, size = HEAD.unpack_from(self._buffer)
        if size > self._max_frame:
            raise FrameTooLarge
        end = HEAD.size + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[HEAD.size : end])
        del self._buffer[:end]
        return Frame(kind, body)

    def wait(self, timeout_s: float = _KILLED_S) -> int:
        """Return the exit status. Raise TimeoutError if the child does not end in time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def kill(self) -> None:
        """Kill the child and whatever it started."""
        if self._process.returncode is None:  # not reaped yet, so its id has not been reused
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # the kernel may take longer to end it
            self.wait()

    def close(self) -> None:
        self.kill()
        self._link.close()

    def disown(self) -> None:
        """Leave the child to the process that this one was forked from."""
        self._link.close()
        self._process.returncode = 0


def describe_status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def find_packages(name: str) -> str | None:
    """Return the directory of an installed package, or None if it is not installed."""
    installed = find_spec(name)
    return str(Path(installed.origin).parent.parent) if installed is not None and installed.origin else None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
