"""The protocol over standard input and output, for a client that starts `memwell mcp` itself.

Standard output carries the protocol and nothing else: while it is served, whatever else is printed goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, TextIO, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server

from ...core.operation import Operation
from ...errors import TooLarge
from ...model.principal import Scope
from .server import Answer, Caller, protocol_server
from .tools import Tool

THREADS = 16
AHEAD = 16

Perform = Callable[[Operation, dict[str, Any]], Any]


def serve(tools: Mapping[str, Tool], scope: Scope | None, perform: Perform, max_line: int) -> None:
    """Serve until standard input is closed, the client is gone, or a signal says so."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as where a shell has started this in the background
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
    server = protocol_server(tools, Caller(scope, perform, _mover()))
    lines = Lines(0, max_line)
    with _protocol_output() as output:
        # `lines` is only ever iterated over, and a file of anyio's could not be given up on Ctrl-C
        reader = cast("anyio.AsyncFile[str]", lines)
        async with stdio_server(reader, anyio.wrap_file(output)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    if lines.too_long:
        raise TooLarge(f"A message was longer than {max_line} bytes.", limit=max_line)


def _mover() -> Callable[[Callable[[], Answer], bool], Awaitable[Answer]]:
    limiter = anyio.CapacityLimiter(THREADS)

    async def move(work: Callable[[], Answer], _: bool) -> Answer:
        return await anyio.to_thread.run_sync(work, limiter=limiter)

    return move


@contextmanager
def _protocol_output() -> Iterator[TextIO]:
    """The real standard output, while everybody else's is standard error."""
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
    """Lines of a file, read in a daemon thread: a thread that waits for input cannot be cancelled, and a process that
    waited for it would not end on Ctrl-C."""

    def __init__(self, file: int, limit: int) -> None:
        self.too_long = False
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(AHEAD)
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
            self._hand_over(line)

    def _hand_over(self, line: bytes) -> None:
        put = self._lines.put(line)
        try:
            asyncio.run_coroutine_threadsafe(put, self._loop).result()
        except RuntimeError:  # the loop has ended, and with it whoever listened
            put.close()
