"""The protocol over standard input and output, for a client that starts `memwell mcp` itself.

Standard output carries only the protocol: meanwhile, all other output goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, TextIO, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from ...core.access import Scope
from ...core.operation import Operation
from ...errors import TooLarge
from .protocol import Answer, Caller, Suspended, build_server
from .tools import Tool

THREADS = 16
QUEUE_SIZE = 16

Perform = Callable[[Operation, dict[str, Any]], Any]


def serve(tools: Mapping[str, Tool], scope: Scope | None, perform: Perform, max_line: int) -> None:
    """Serve until standard input closes, the client disconnects, or SIGINT or SIGTERM arrives."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell does that for background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)
    previous = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(_serve(tools, scope, perform, max_line))
    except (KeyboardInterrupt, BrokenPipeError):
        return
    except ExceptionGroup as errors:
        others = errors.split(BrokenPipeError)[1]
        if others is not None:
            raise others from None
    finally:
        signal.signal(signal.SIGTERM, previous)


async def _serve(tools: Mapping[str, Tool], scope: Scope | None, perform: Perform, max_line: int) -> None:
    limiter = anyio.CapacityLimiter(THREADS)

    async def offload(work: Callable[[], Answer | Suspended], _: bool) -> Answer:
        return cast(Answer, await anyio.to_thread.run_sync(work, limiter=limiter))  # `perform` waits

    server = build_server(tools, Caller(scope, perform, offload))
    lines = Lines(0, max_line)
    with _protocol_output() as output:
        # The server only iterates over `lines`. A file of anyio would block Ctrl-C.
        reader = cast("anyio.AsyncFile[str]", lines)
        async with stdio_server(reader, anyio.wrap_file(output)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    if lines.too_long:
        raise TooLarge(f"A message was longer than {max_line} bytes.", limit=max_line)


@contextmanager
def _protocol_output() -> Iterator[TextIO]:
    """Yield the real standard output; redirect other writes to standard error."""
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(wire, "w", encoding="utf-8", newline="\n", closefd=False) as output:
            yield output
    finally:
        sys.stdout.flush()
        os.dup2(wire, 1)
        os.close(wire)


class Lines:
    """Lines of a file, read in a daemon thread, which does not keep the process alive after Ctrl-C."""

    def __init__(self, file: int, limit: int) -> None:
        self.too_long = False
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(QUEUE_SIZE)
        Thread(target=self._read, args=(file,), name="memwell-stdin", daemon=True).start()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    def _read(self, file: int) -> None:
        source = open(file, "rb", closefd=False)  # noqa: SIM115 (closing it would wait for the reader)
        line = b"\n"
        while line:
            line = source.readline(self._limit + 1)
            if len(line) > self._limit:
                self.too_long, line = True, b""
            self._put(line)

    def _put(self, line: bytes) -> None:
        pending = self._lines.put(line)
        try:
            asyncio.run_coroutine_threadsafe(pending, self._loop).result()
        except RuntimeError:  # the loop has ended
            pending.close()
