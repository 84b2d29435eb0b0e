"""Live events: of a tenant and of a run, as server-sent events, and requests that wait for a run.

Requests that wait for a run wait on the event loop and hold no thread. A run of this process wakes its subscribers. A run of
another process is read from the database at intervals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...core.access import Principal
from ...core.dispatch import Call, Pending, dispatch
from ...core.engine import Engine
from ...core.events import Event, watch
from ...core.operation import to_request
from ...errors import Forbidden, Invalid, MemwellError
from ...registry import require_operation
from .limits import StreamQuota, ThreadPool, TimeLimit
from .origin import read_headers
from .responses import SAFE_HEADERS, Reply, to_success

if TYPE_CHECKING:
    from ...workflows.live_runs import Runs, RunStart
    from ...workflows.run import EventLog
    from ...workflows.run_operations import Happened
    from .app import HttpRequest, Server

log = logging.getLogger("memwell.rest")

MAX_STREAMS = (64, 32, 16)
"""Streams of events, in all, per tenant and per key. Each holds a thread while it waits."""
MAX_RUN_STREAMS = (256, 128, 64)
WAIT_S = 5.0
"""Time without an event of a run after which a stream sends a comment."""
WAIT_SHARE = 0.8
"""Share of the time of a request in which a run or its events are waited for."""
ELSEWHERE_S = 0.5
"""Interval at which a run of another process is read."""
SHUTDOWN_WAIT_S = 5.0
"""Time that a stopping server waits for a run to end."""
RUN_OPERATIONS = ("runs.begin", "runs.begin_document", "runs.repeat", "apps.execute", "runs.events")
"""The operations that may wait for a run."""


class EventStream:
    """The page `GET /v1/events`: a tenant's events as server-sent events. `Last-Event-ID` resumes after that write; `flow`,
    `user` and `session` are filters."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._threads: ThreadPool[Event | None] = ThreadPool(MAX_STREAMS[0], "memwell-events")
        self.quota = StreamQuota(*MAX_STREAMS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope)
        principal = await _authenticate(self._server, headers)
        frames = self._frames(headers, principal, _parse_event_id(headers), dict(Request(scope).query_params))
        with self.quota.hold(principal):
            await _to_response(frames)(scope, receive, send)

    async def _frames(
        self, headers: dict[bytes, bytes], principal: Principal, after: int | None, filters: dict[str, str]
    ) -> AsyncIterator[bytes]:
        events = cast("Generator[Event | None]", watch(self._server.engine, principal, after))
        following: asyncio.Future[Event | None] | None = None
        try:
            while not self._server.stopping.is_set():
                following = self._threads.run(lambda: next(events))
                event = await asyncio.shield(following)
                await self._server.principal(headers, counted=False)
                if event is None:
                    yield b": \n\n"
                elif _matches(event, filters):
                    yield _frame(event.seq, event.effect, event)
        except MemwellError as error:  # the key was revoked meanwhile, or the store fails
            log.warning("events.failed", extra={"code": error.code})
        finally:
            if (
                following is not None
            ):  # a thread may still wait for it, and must not be in the generator when it is closed
                following.add_done_callback(lambda done: done.exception() or self._threads.run(events.close))

    def close(self) -> None:
        self._threads.close()


def _matches(event: Event, filters: dict[str, str]) -> bool:
    for dialect in ("flow", "user"):
        if dialect in filters and (event.dialect, event.name) != (dialect, filters[dialect]):
            return False
    return "session" not in filters or event.session == filters["session"]


def find_runs(engine: Engine) -> Runs:
    """The runs of this process."""
    from ...workflows.live_runs import runs_of  # like all rooms, it is loaded at its first use

    return runs_of(engine)


async def wait_for_events(server: Server, principal: Principal, run_id: str, after: int, timeout_s: float) -> Happened:
    """Wait for events of a run after a number, until the time is up or the server is stopped."""
    operation, engine = require_operation("runs.events"), server.engine
    call, request = Call(engine, principal, operation), operation.request(run=run_id, after=after)
    clock = asyncio.get_running_loop().time
    until = clock() + timeout_s
    while True:
        live = find_runs(engine).find_events(run_id)
        found: Happened
        if live is None:
            found = await server.in_thread(lambda: operation.run(call, request), principal.tenant, patient=False)
        else:
            events, over = live.list_after(after, 0.0)
            found = operation.response(events=events, over=over)
        left = until - clock()
        if found.events or found.over or server.stopping.is_set() or left <= 0:
            return found
        if live is None:
            await _wait_for_any(min(left, ELSEWHERE_S), server.stopping)
            continue
        with _wake_event(live) as change:
            if live.list_after(after, 0.0) == ([], False):  # an event before the subscription sets no flag
                await _wait_for_any(left, change, server.stopping)


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
    """Begin a run, and answer at its end if the request waits for it; or wait for events of a run.

    If the run takes longer than a request may, or the server is being stopped, the answer is 202 with the run as it is: a client
    that repeats a request after an error would run it twice."""
    if request.operation.name == "runs.events":
        return await _answer_events(server, request)
    tenant = request.principal.tenant
    reply, start = await server.in_thread(lambda: _begin_run(server, request), tenant, patient=False)
    if start is None or isinstance(reply, Pending) or reply.status >= 400:
        return await server.complete(request.operation, tenant, reply)
    accepted = limit.answer = Reply(202, reply.body, [(b"location", f"/v1/runs/{start.run_id}".encode())])
    if start.events is not None and not await wait_for_end(start.events, server.stopping):
        return accepted

    def read() -> Any:
        if start.error is not None:
            raise start.error
        return start.read(start.run_id)

    return await server.in_thread(lambda: server.reply_to(request.operation, read), tenant, patient=False)


def _begin_run(server: Server, request: HttpRequest) -> tuple[Reply | Pending, RunStart | None]:
    from ...workflows.live_runs import collect_starts

    with collect_starts() as starts:
        reply = server.perform(request)
    return reply, starts[0] if starts else None


async def wait_for_end(live: EventLog, stopping: asyncio.Event) -> bool:
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
        query = to_request(operation, data, strict=False, zone=server.engine.zone)
        return query, dispatch(server.engine, request.principal, operation, {**data, "timeout_s": 0}, strict=False)

    query, found = await server.in_thread(read, request.principal.tenant, patient=False)
    if query.timeout_s and not found.events and not found.over:
        seconds = min(query.timeout_s, server.config.request_timeout_s * WAIT_SHARE)
        found = await wait_for_events(server, request.principal, query.run, query.after, seconds)
    return to_success(operation, found)


class RunStream:
    """The page `GET /v1/runs/{run}/stream`: the events of a run as server-sent events. `Last-Event-ID` resumes after an event."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quota = StreamQuota(*MAX_RUN_STREAMS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope)
        principal = await _authenticate(self._server, headers)
        data = {"run": scope["path_params"]["run"], "after": _parse_event_id(headers) or 0}
        with self._quota.hold(
            principal
        ):  # the first events are read by the operation, which checks permission and records the read
            engine, operation = self._server.engine, require_operation("runs.events")
            found = await self._server.in_thread(
                lambda: dispatch(engine, principal, operation, data), principal.tenant, patient=False
            )
            await _to_response(self._frames(principal, headers, **data, found=found))(scope, receive, send)

    async def _frames(
        self, principal: Principal, headers: dict[bytes, bytes], *, run: str, after: int, found: Happened
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
                found = await wait_for_events(self._server, principal, run, after, WAIT_S)
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
