"""Looking on at runs from the event loop: however many look on or wait for a run, none of them holds a thread.

A run of this process wakes whoever watches it. One of another process is read from the database now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...core.dispatch import Call, dispatch
from ...core.operation import Operation, to_request
from ...errors import Forbidden, Invalid, MemwellError, Unavailable
from ...model.principal import Principal
from ...registry import find
from ...workflows.events import Live
from ...workflows.run_operations import EventsOfRun, Happened, OfRun, Run
from ...workflows.runs import Beginning, left_to_others, runs_of
from . import replies
from .replies import TimeLimit

if TYPE_CHECKING:
    from .server import Sent, Server

ELSEWHERE_S = 0.5
"""How often a run of another process is looked at."""
LAST_S = 5.0
"""How much longer a server that is being stopped waits for a run to end."""


class Onlooker:
    """Looks on at one run, in the name of a principal."""

    def __init__(self, server: Server, principal: Principal, run_id: str) -> None:
        self._server, self._principal, self._run_id = server, principal, run_id

    async def first(self, after: int) -> Happened:
        """What has happened so far. Whether the principal may look on is decided here, and whoever watches reads sees it."""
        engine, data = self._server.engine, {"run": self._run_id, "after": after}
        return await self._server.in_thread(
            lambda: dispatch(engine, self._principal, find("runs.events"), data), patient=False
        )

    async def next(self, after: int, timeout_s: float) -> Happened:
        """What has happened after an event, as soon as something has, the time is up or the server is stopped."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        found = await self._found(after)
        while not (found.events or found.over or self._server.stopping.is_set()):
            left = until - clock()
            if left <= 0:
                break
            await self._change(after, left)
            found = await self._found(after)
        return found

    async def _found(self, after: int) -> Happened:
        live = self._live()
        if live is None:
            return await self._server.in_thread(lambda: self._read(after), patient=False)
        events, over = live.after(after, 0.0)
        return Happened(events=events, over=over)

    async def _change(self, after: int, timeout_s: float) -> None:
        """Until there may be something new."""
        live, stopping = self._live(), self._server.stopping
        if live is None:
            return await _first_of(min(timeout_s, ELSEWHERE_S), stopping)
        with _noticed(live) as happened:
            if live.after(after, 0.0) == ([], False):
                await _first_of(timeout_s, happened, stopping)
        return None

    def _live(self) -> Live | None:
        return runs_of(self._server.engine).live(self._run_id)

    def _read(self, after: int) -> Happened:
        operation = find("runs.events")
        call = Call(self._server.engine, self._principal, operation)
        found: Happened = operation.run(call, EventsOfRun(run=self._run_id, after=after))
        return found


async def ended(live: Live, stopping: asyncio.Event) -> bool:
    """Wait for the end of a run; False if the server ends first."""
    with _noticed(live, lambda: live.over) as over:
        if not live.over:
            await _first_of(None, over, stopping)
        if not live.over:
            await _first_of(LAST_S, over)
    return live.over


@contextmanager
def _noticed(live: Live, when: Callable[[], bool] = lambda: True) -> Iterator[asyncio.Event]:
    """Set on the event loop whenever something happens in a run."""
    loop, noticed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if when():
            with suppress(RuntimeError):  # the loop has ended, and with it whoever looked on
                loop.call_soon_threadsafe(noticed.set)

    with live.watched(wake):
        yield noticed


async def _first_of(timeout_s: float | None, *events: asyncio.Event) -> None:
    """Until one of them is set, or the time is up."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


# -- Requests that wait for a run: its end, or what happens next in it. The run has a thread of its own, the waiting none.


Way = Callable[["Sent", TimeLimit], Awaitable[replies.Reply]]


class RunRequests:
    """How the operations that may wait for a run are carried out."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ways: dict[str, Way] = {
            "runs.begin": self._run,
            "runs.begin_document": self._run,
            "runs.repeat": self._run,
            "runs.events": self._events,
        }

    def way(self, operation: Operation) -> Way | None:
        return self._ways.get(operation.name)

    async def _run(self, sent: Sent, limit: TimeLimit) -> replies.Reply:
        """Begin a run, and answer at its end if it is to be waited for."""
        reply, begun = await self._server.in_thread(lambda: self._begin(sent), patient=False)
        if begun is None or begun.live is None:
            return reply
        limit.answer = _goes_on(begun.run_id)
        if not await ended(begun.live, self._server.stopping):
            raise _stopped(begun.run_id)
        return await self._server.in_thread(
            lambda: self._server.answered(sent.operation, lambda: self._shown(sent.principal, begun)), patient=False
        )

    def _begin(self, sent: Sent) -> tuple[replies.Reply, Beginning | None]:
        with left_to_others() as noted:
            reply = self._server.carry_out(sent)
        return reply, noted[0] if noted else None

    def _shown(self, principal: Principal, begun: Beginning) -> Run:
        if begun.error is not None:
            raise begun.error
        asked = OfRun(run=begun.run_id)
        run: Run = self._server.engine.read(principal, lambda space: find("runs.get").run(space, asked))
        return run

    async def _events(self, sent: Sent, limit: TimeLimit) -> replies.Reply:
        """What has happened in a run, as soon as something has."""
        asked, found = await self._server.in_thread(lambda: self._so_far(sent), patient=False)
        if asked.timeout_s and not found.events and not found.over:
            onlooker = Onlooker(self._server, sent.principal, asked.run)
            found = await onlooker.next(asked.after, asked.timeout_s)
        return replies.success(sent.operation, found)

    def _so_far(self, sent: Sent) -> tuple[EventsOfRun, Happened]:
        data = sent.data()
        asked = to_request(sent.operation, data, strict=False)
        assert isinstance(asked, EventsOfRun)  # noqa: S101 -- for the type checker
        data["timeout_s"] = 0
        return asked, dispatch(self._server.engine, sent.principal, sent.operation, data, strict=False)


def _goes_on(run_id: str) -> Unavailable:
    return Unavailable(
        f"The run takes longer than a request may, and goes on. Read it with GET /v1/runs/{run_id}, or look on with "
        f"GET /v1/runs/{run_id}/stream.",
        run=run_id,
    )


def _stopped(run_id: str) -> Unavailable:
    return Unavailable(
        f"The server is being stopped, and the run is interrupted. Repeat it with POST /v1/runs/{run_id}/repeat.",
        run=run_id,
    )


# -- A run as server-sent events: what its steps do and what a model says, as it happens.
#
# Whoever looks on may leave and come back: the run goes on, and `Last-Event-ID` resumes after that event.


MAX_STREAMS = 64
WAIT_S = 5.0
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class RunStream:
    """The page `GET /v1/runs/{run}/stream`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    async def page(self, request: Request) -> Response:
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        principal = await self._server.principal(headers)
        if not principal.may("reader"):
            raise Forbidden
        after = _after(request.headers.get("last-event-id"))
        onlooker = Onlooker(self._server, principal, request.path_params["run"])
        self._enter()
        try:
            first = await onlooker.first(after)
        except BaseException:
            self._leave()
            raise
        return _Stream(self._frames(onlooker, headers, after, first), self._leave)

    def _enter(self) -> None:
        if self._open >= MAX_STREAMS:
            raise Unavailable(f"There are {MAX_STREAMS} streams of runs open: try again when one has ended.")
        self._open += 1

    def _leave(self) -> None:
        self._open -= 1

    async def _frames(
        self, onlooker: Onlooker, headers: dict[bytes, bytes], after: int, found: Happened
    ) -> AsyncIterator[bytes]:
        try:
            while True:
                for event in found.events:
                    after = max(after, event.number)
                    yield _frame(event.number, event.kind, msgspec.json.encode(event))
                if found.over or self._server.stopping.is_set():
                    return
                if not found.events:
                    yield b": \n\n"
                await self._server.principal(headers, counted=False)
                found = await onlooker.next(after, WAIT_S)
        except MemwellError:
            return  # the key was revoked meanwhile


class _Stream(StreamingResponse):
    """Server-sent events whose place is free again at their end, even if nobody has read the first of them."""

    def __init__(self, frames: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers=_HEADERS)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


def _frame(number: int, kind: str, data: bytes) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"


def _after(text: str | None) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Invalid("`Last-Event-ID` is the number of an event.")
    return int(text)
