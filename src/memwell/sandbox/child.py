"""The child's side of a sandbox: frames over standard input and output, and limits that cannot be raised again.

A child loads its modules, calls `confine`, reports `READY`, and only then reads input. Of Memwell it loads only this module and
its own one, so that it starts quickly and has no secrets in memory.
"""

from __future__ import annotations

import math
import os
import resource
import struct
import sys
from contextlib import suppress

HEAD = struct.Struct(">cI")  # kind and length of a frame
READY = b"R"
OUT_OF_MEMORY = 71  # exit status of a child without enough memory to send a message
_DESCRIPTORS = 3  # standard input, output and error: as all are in use, files and sockets cannot be opened


def encode_frame(kind: bytes, body: bytes | str = b"") -> bytes:
    body = body.encode(errors="replace") if isinstance(body, str) else body
    return HEAD.pack(kind, len(body)) + body


def write(frames: bytes) -> None:
    rest = memoryview(frames)
    while rest:
        rest = rest[os.write(1, rest) :]


def read_frame() -> bytes | None:
    """Return the body of the next frame, or None at the end of input."""
    head = sys.stdin.buffer.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    size: int = HEAD.unpack(head)[1]
    body = sys.stdin.buffer.read(size)
    return body if len(body) == size else None


def confine(memory: int, cpu_s: float | None = None) -> None:
    """Limit the address space (bytes) and further processor time (seconds), and forbid files and processes."""
    if cpu_s is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = math.ceil(used.ru_utime + used.ru_stime + cpu_s)
        _limit(
            resource.RLIMIT_CPU, seconds, seconds + 1
        )  # first SIGXCPU, by which the parent knows the reason; then SIGKILL
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_NOFILE, _DESCRIPTORS)


def _limit(what: int, soft: int, hard: int | None = None) -> None:
    _, already = resource.getrlimit(what)
    most = math.inf if already == resource.RLIM_INFINITY else already
    with suppress(ValueError):  # some systems define a limit but reject it
        resource.setrlimit(what, (int(min(soft, most)), int(min(hard or soft, most))))
