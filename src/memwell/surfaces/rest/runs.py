"""Requests that wait for a run or follow its events. They wait on the event loop and hold no thread.

A run of this process wakes its subscribers. A run of another process is read from the database now and then.
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

from ...core.access import Principal
from ...core.dispatch import Call, dispatch
from ...core.operation import Operation, to_request
from ...errors import Forbidden, Invalid, MemwellError, Unavailable
from ...registry import require_operation
from ...workflows.live_runs import RunStart, collect_starts, runs_of
from ...workflows.run import EventLog
from ...workflows.run_operations import EventsOfRun, Happened, OfRun, Run
from . import replies
from .replies import TimeLimit

if TYPE_CHECKING:
    from .server import HttpRequest, Server

ELSEWHERE_S = 0.5
"""Interval between two looks at a run of another process."""
SHUTDOWN_WAIT_S = 5.0
"""Time that a server which is being stopped waits for a run to end."""


class RunSubscriber:
    """Follows the events of one run on behalf of a principal."""

    def __init__(self, server: Server, principal: Principal, run_id: str) -> None:
        self._server, self._principal, self._run_id = server, principal, run_id

    async def first(self, after: int) -> Happened:
        """The events so far. This call checks permission and is itself recorded as a read."""
        engine, data = self._server.engine, {"run": self._run_id, "after": after}
        return await self._server.in_thread(
            lambda: dispatch(engine, self._principal, require_operation("runs.events"), data), patient=False
        )

    async def next(self, after: int, timeout_s: float) -> Happened:
        """Wait for events after a number, until the time is up or the server is stopped."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        found = await self._read_events(after)
        while not (found.events or found.over or self._server.stopping.is_set()):
            left = until - clock()
            if left <= 0:
                break
            await self._wait_for_change(after, left)
            found = await self._read_events(after)
        return found

    async def _read_events(self, after: int) -> Happened:
        live = self._live()
        if live is None:
            return await self._server.in_thread(lambda: self._read(after), patient=False)
        events, over = live.list_after(after, 0.0)
        return Happened(events=events, over=over)

    async def _wait_for_change(self, after: int, timeout_s: float) -> None:
        live, stopping = self._live(), self._server.stopping
        if live is None:
            return await _wait_for_any(min(timeout_s, ELSEWHERE_S), stopping)
        with _wake_event(live) as change:
            if live.list_after(after, 0.0) == ([], False):
                await _wait_for_any(timeout_s, change, stopping)
        return None

    def _live(self) -> EventLog | None:
        return runs_of(self._server.engine).find_events(self._run_id)

    def _read(self, after: int) -> Happened:
        operation = require_operation("runs.events")
        call = Call(self._server.engine, self._principal, operation)
        found: Happened = operation.run(call, EventsOfRun(run=self._run_id, after=after))
        return found


async def wait_for_end(live: EventLog, stopping: asyncio.Event) -> bool:
    """Wait for the end of a run; False if the server ends first."""
    with _wake_event(live, lambda: live.is_over) as over:
        if not live.is_over:
            await _wait_for_any(None, over, stopping)
        if not live.is_over:
            await _wait_for_any(SHUTDOWN_WAIT_S, over)
    return live.is_over


@contextmanager
def _wake_event(live: EventLog, when: Callable[[], bool] = lambda: True) -> Iterator[asyncio.Event]:
    """An event on the event loop that is set when something happens in a run."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if when():
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(event.set)

    with live.watch(wake):
        yield event


async def _wait_for_any(timeout_s: float | None, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, or the time is up."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


RunHandler = Callable[["HttpRequest", TimeLimit], Awaitable[replies.Reply]]


class RunRequests:
    """Handlers of the operations that may wait for a run."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._handlers: dict[str, RunHandler] = {
            "runs.begin": self._handle_run,
            "runs.begin_document": self._handle_run,
            "runs.repeat": self._handle_run,
            "runs.events": self._handle_events,
        }

    def find_handler(self, operation: Operation) -> RunHandler | None:
        return self._handlers.get(operation.name)

    async def _handle_run(self, request: HttpRequest, limit: TimeLimit) -> replies.Reply:
        """Begin a run, and answer at its end if the request waits for it."""
        reply, start = await self._server.in_thread(lambda: self._begin(request), patient=False)
        if start is None or start.events is None:
            return reply
        limit.answer = _run_continues(start.run_id)
        if not await wait_for_end(start.events, self._server.stopping):
            raise _run_interrupted(start.run_id)
        return await self._server.in_thread(
            lambda: self._server.reply_to(request.operation, lambda: self._read_run(request.principal, start)),
            patient=False,
        )

    def _begin(self, request: HttpRequest) -> tuple[replies.Reply, RunStart | None]:
        with collect_starts() as starts:
            reply = self._server.perform(request)
        return reply, starts[0] if starts else None

    def _read_run(self, principal: Principal, start: RunStart) -> Run:
        if start.error is not None:
            raise start.error
        query = OfRun(run=start.run_id)
        run: Run = self._server.engine.read(principal, lambda space: require_operation("runs.get").run(space, query))
        return run

    async def _handle_events(self, request: HttpRequest, limit: TimeLimit) -> replies.Reply:
        query, found = await self._server.in_thread(lambda: self._read_request(request), patient=False)
        if query.timeout_s and not found.events and not found.over:
            subscriber = RunSubscriber(self._server, request.principal, query.run)
            found = await subscriber.next(query.after, query.timeout_s)
        return replies.success(request.operation, found)

    def _read_request(self, request: HttpRequest) -> tuple[EventsOfRun, Happened]:
        data = request.data()
        query = to_request(request.operation, data, strict=False)
        assert isinstance(query, EventsOfRun)  # noqa: S101 -- for the type checker
        data["timeout_s"] = 0
        return query, dispatch(self._server.engine, request.principal, request.operation, data, strict=False)


def _run_continues(run_id: str) -> Unavailable:
    return Unavailable(
        f"The run takes longer than a request may, and continues. Read it with GET /v1/runs/{run_id}, or follow it with "
        f"GET /v1/runs/{run_id}/stream.",
        run=run_id,
    )


def _run_interrupted(run_id: str) -> Unavailable:
    return Unavailable(
        f"The server is being stopped, and the run is interrupted. Repeat it with POST /v1/runs/{run_id}/repeat.",
        run=run_id,
    )


MAX_STREAMS = 64
WAIT_S = 5.0
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class RunStream:
    """The page `GET /v1/runs/{run}/stream`: the events of a run as server-sent events. `Last-Event-ID` resumes after an event."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    async def page(self, request: Request) -> Response:
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        principal = await self._server.principal(headers)
        if not principal.may("reader"):
            raise Forbidden
        after = parse_event_id(request.headers.get("last-event-id")) or 0
        subscriber = RunSubscriber(self._server, principal, request.path_params["run"])
        self._enter()
        try:
            first = await subscriber.first(after)
        except BaseException:
            self._leave()
            raise
        return _Stream(self._frames(subscriber, headers, after, first), self._leave)

    def _enter(self) -> None:
        if self._open >= MAX_STREAMS:
            raise Unavailable(f"There are {MAX_STREAMS} streams of runs open: try again when one has ended.")
        self._open += 1

    def _leave(self) -> None:
        self._open -= 1

    async def _frames(
        self, subscriber: RunSubscriber, headers: dict[bytes, bytes], after: int, found: Happened
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
                found = await subscriber.next(after, WAIT_S)
        except MemwellError:
            return  # the key was revoked meanwhile


class _Stream(StreamingResponse):
    """A stream that gives back its slot at its end, even if nobody has read its first event."""

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


def parse_event_id(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Invalid("`Last-Event-ID` must be the number of an event.")
    return int(text)
