"""Live events: of a tenant and of a run, as server-sent events, and requests that wait for a run.

Requests that wait for a run wait on the event loop and hold no thread. A run of this process wakes its subscribers. A run of
another process is read from the database at intervals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event as Flag
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...core.access import Principal
from ...core.dispatch import Call, dispatch
from ...core.engine import Engine
from ...core.events import Event, watch
from ...core.operation import to_request
from ...errors import Forbidden, Invalid, MemwellError, StorageError, Unauthenticated, Unavailable
from ...registry import require_operation
from .limits import TimeLimit
from .responses import SAFE_HEADERS, Reply, to_success

if TYPE_CHECKING:
    from ...workflows.live_runs import Runs, RunStart
    from ...workflows.run import EventLog
    from ...workflows.run_operations import Happened
    from .app import HttpRequest, Server

log = logging.getLogger("memwell.rest")

MAX_STREAMS = 64
"""Streams of a tenant's events, and as many of runs."""
QUEUE = 100
CHECK_EVERY_S = 0.5
WAIT_S = 5.0
"""Time without an event of a run after which a stream sends a comment."""
ELSEWHERE_S = 0.5
"""Interval at which a run of another process is read."""
SHUTDOWN_WAIT_S = 5.0
"""Time that a stopping server waits for a run to end."""
RUN_OPERATIONS = ("runs.begin", "runs.begin_document", "runs.repeat", "runs.events")
"""The operations that may wait for a run."""


class EventsEnd:
    """The last item of the queue if the events end before the stream does."""


class EventBridge:
    """A thread that waits for events of the engine and passes them to a stream on the event loop. It ends within half a second of
    `stop`."""

    def __init__(self, engine: Engine, principal: Principal, after: int | None) -> None:
        self._queue: asyncio.Queue[Event | EventsEnd | None] = asyncio.Queue()
        self._room = Semaphore(QUEUE)
        self._loop = asyncio.get_running_loop()
        self._stopped = Flag()
        self._thread = Thread(target=self._run, args=(engine, principal, after), name="memwell-events", daemon=True)
        self._thread.start()

    async def get(self) -> Event | EventsEnd | None:
        """The next event; None if there was none for a while."""
        event = await self._queue.get()
        self._room.release()
        return event

    def stop(self) -> None:
        self._stopped.set()

    def join(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self, engine: Engine, principal: Principal, after: int | None) -> None:
        try:
            for event in watch(engine, principal, after):
                if not self._put(event):
                    return
        except MemwellError as error:
            log.warning("events.failed", extra={"code": error.code})
            self._put(EventsEnd())

    def _put(self, event: Event | EventsEnd | None) -> bool:
        """Pass an event on when there is room; return False if the stream has ended."""
        while not self._room.acquire(timeout=CHECK_EVERY_S):
            if self._stopped.is_set():
                return False
        if self._stopped.is_set():
            return False
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
        except RuntimeError:  # the event loop has ended
            return False
        return True


class EventStream:
    """The page `GET /v1/events`: a tenant's events as server-sent events. `Last-Event-ID` resumes after that write; `flow`,
    `user` and `session` are filters."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        principal = await _authenticate(self._server, headers)
        if len(self._server.bridges) >= MAX_STREAMS:
            raise Unavailable("Too many streams are open.")
        frames = self._frames(headers, principal, _parse_event_id(headers), dict(Request(scope).query_params))
        await _to_response(frames)(scope, receive, send)

    async def _frames(
        self, headers: dict[bytes, bytes], principal: Principal, after: int | None, filters: dict[str, str]
    ) -> AsyncIterator[bytes]:
        bridge = EventBridge(self._server.engine, principal, after)
        self._server.bridges.add(bridge)
        try:
            while not self._server.stopping.is_set():
                event = await bridge.get()
                if isinstance(event, EventsEnd):
                    return
                await self._server.principal(headers, counted=False)
                if event is None:
                    yield b": \n\n"
                elif _matches(event, filters):
                    yield _frame(event.seq, event.effect, event)
        except (Unauthenticated, StorageError):
            return  # the key was revoked meanwhile, or cannot be checked
        finally:
            bridge.stop()
            self._server.bridges.discard(bridge)


def _matches(event: Event, filters: dict[str, str]) -> bool:
    for dialect in ("flow", "user"):
        if dialect in filters and (event.dialect, event.name) != (dialect, filters[dialect]):
            return False
    return "session" not in filters or event.session == filters["session"]


def find_runs(engine: Engine) -> Runs:
    """The runs of this process."""
    from ...workflows.live_runs import runs_of  # like all rooms, it is loaded at its first use

    return runs_of(engine)


class RunSubscriber:
    """Follows the events of one run on behalf of a principal."""

    def __init__(self, server: Server, principal: Principal, run_id: str) -> None:
        self._server, self._principal, self._run_id = server, principal, run_id

    async def first(self, after: int) -> Happened:
        """The events so far. This call checks permission and is itself recorded as a read."""
        operation, data = require_operation("runs.events"), {"run": self._run_id, "after": after}
        return await self._server.in_thread(
            lambda: dispatch(self._server.engine, self._principal, operation, data), patient=False
        )

    async def next(self, after: int, timeout_s: float) -> Happened:
        """Wait for events after a number, until the time is up or the server is stopped."""
        operation, engine = require_operation("runs.events"), self._server.engine
        call, request = Call(engine, self._principal, operation), operation.request(run=self._run_id, after=after)
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        while True:
            live = find_runs(engine).find_events(self._run_id)
            found: Happened
            if live is None:
                found = await self._server.in_thread(lambda: operation.run(call, request), patient=False)
            else:
                events, over = live.list_after(after, 0.0)
                found = operation.response(events=events, over=over)
            left = until - clock()
            if found.events or found.over or self._server.stopping.is_set() or left <= 0:
                return found
            if live is None:
                await _wait_for_any(min(left, ELSEWHERE_S), self._server.stopping)
                continue
            with _wake_event(live) as change:
                if live.list_after(after, 0.0) == ([], False):  # an event before the subscription sets no flag
                    await _wait_for_any(left, change, self._server.stopping)


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


async def answer_run_request(server: Server, request: HttpRequest, limit: TimeLimit) -> Reply:
    """Begin a run, and answer at its end if the request waits for it; or wait for events of a run."""
    if request.operation.name == "runs.events":
        return await _answer_events(server, request)
    reply, start = await server.in_thread(lambda: _begin_run(server, request), patient=False)
    if start is None or start.events is None:
        return reply
    limit.answer = Unavailable(
        f"The run takes longer than a request may, and continues. Read it with GET /v1/runs/{start.run_id}, or follow it "
        f"with GET /v1/runs/{start.run_id}/stream.",
        run=start.run_id,
    )
    if not await _wait_for_end(start.events, server.stopping):
        raise Unavailable(
            "The server is being stopped, and the run is interrupted. Repeat it with "
            f"POST /v1/runs/{start.run_id}/repeat.",
            run=start.run_id,
        )

    def read() -> Any:
        if start.error is not None:
            raise start.error
        operation = require_operation("runs.get")
        query = operation.request(run=start.run_id)
        return server.engine.read(request.principal, lambda space: operation.run(space, query))

    return await server.in_thread(lambda: server.reply_to(request.operation, read), patient=False)


def _begin_run(server: Server, request: HttpRequest) -> tuple[Reply, RunStart | None]:
    from ...workflows.live_runs import collect_starts

    with collect_starts() as starts:
        reply = server.perform(request)
    return reply, starts[0] if starts else None


async def _wait_for_end(live: EventLog, stopping: asyncio.Event) -> bool:
    """Wait for the end of a run; False if the server ends first."""
    with _wake_event(live, lambda: live.is_over) as over:
        if not live.is_over:
            await _wait_for_any(None, over, stopping)
        if not live.is_over:
            await _wait_for_any(SHUTDOWN_WAIT_S, over)
    return live.is_over


async def _answer_events(server: Server, request: HttpRequest) -> Reply:
    operation = request.operation

    def read() -> tuple[Any, Happened]:
        data = request.data()
        query = to_request(operation, data, strict=False)
        return query, dispatch(server.engine, request.principal, operation, {**data, "timeout_s": 0}, strict=False)

    query, found = await server.in_thread(read, patient=False)
    if query.timeout_s and not found.events and not found.over:
        found = await RunSubscriber(server, request.principal, query.run).next(query.after, query.timeout_s)
    return to_success(operation, found)


class RunStream:
    """The page `GET /v1/runs/{run}/stream`: the events of a run as server-sent events. `Last-Event-ID` resumes after an event."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        principal = await _authenticate(self._server, headers)
        after = _parse_event_id(headers) or 0
        if self._open >= MAX_STREAMS:
            raise Unavailable(f"There are {MAX_STREAMS} streams of runs open: try again when one has ended.")
        self._open += 1
        try:
            subscriber = RunSubscriber(self._server, principal, scope["path_params"]["run"])
            frames = self._frames(subscriber, headers, after, await subscriber.first(after))
            await _to_response(frames)(scope, receive, send)
        finally:
            self._open -= 1

    async def _frames(
        self, subscriber: RunSubscriber, headers: dict[bytes, bytes], after: int, found: Happened
    ) -> AsyncIterator[bytes]:
        try:
            while True:
                for event in found.events:
                    after = max(after, event.number)
                    yield _frame(event.number, event.kind, event)
                if found.over or self._server.stopping.is_set():
                    return
                if not found.events:
                    yield b": \n\n"
                await self._server.principal(headers, counted=False)
                found = await subscriber.next(after, WAIT_S)
        except MemwellError:
            return  # the key was revoked meanwhile


async def _authenticate(server: Server, headers: dict[bytes, bytes]) -> Principal:
    principal = await server.principal(headers)
    if not principal.may("reader"):
        raise Forbidden
    return principal


def _to_response(frames: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(frames, media_type="text/event-stream", headers=SAFE_HEADERS)


def _frame(number: int | None, kind: str, event: msgspec.Struct) -> bytes:
    head = f"event: {kind}\ndata: " if number is None else f"id: {number}\nevent: {kind}\ndata: "
    return head.encode() + msgspec.json.encode(event) + b"\n\n"


def _parse_event_id(headers: dict[bytes, bytes]) -> int | None:
    text = headers.get(b"last-event-id", b"")
    if not text:
        return None
    if not text.isdigit() or len(text) > 18:
        raise Invalid("`Last-Event-ID` must be the number of an event.")
    return int(text)
