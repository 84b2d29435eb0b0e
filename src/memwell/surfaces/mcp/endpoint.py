"""MCP over Streamable HTTP at `/mcp`, without sessions: each request carries its key and gets one answer.

`GET` (a stream of server messages) and `DELETE` (the end of a session) answer 405, as the protocol requires.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from ...core.dispatch import Pending, dispatch
from ...errors import Invalid, NotAllowed, Unavailable
from ..rest.origin import check_origin, read_headers
from ..rest.responses import to_failure
from ..rest.streams import WAIT_SHARE, wait_for_end, wait_for_events
from . import require_package
from .tools import Selection, build_tools

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from ...core.access import Principal
    from ...core.operation import Operation
    from ...workflows.live_runs import RunStart
    from ..rest.app import Server
    from .protocol import Answer, Suspended

MAX_BODY = 8 * 1024 * 1024
MAX_VALUES = 10_000
"""Bytes and JSON values of a message. The protocol server decodes it on the event loop."""
_TOO_LONG = "The request took too long. It may still be carried out."


class Endpoint:
    """The ASGI app at `/mcp`. The caller turns exceptions into JSON."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = self._server.config
        check_origin(scope["headers"], config.host, keys=self._server.auth)
        headers = read_headers(scope)
        principal = await self._server.principal(headers)
        if scope["method"] != "POST":
            error = NotAllowed("Only POST is allowed here: there are no sessions and no streams.", allowed="POST")
            return await to_failure(error)(scope, receive, send)
        selection = _parse_selection(scope["query_string"])
        limit = min(config.max_body, MAX_BODY)
        try:
            async with AsyncExitStack() as held:
                async with asyncio.timeout(config.request_timeout_s):
                    body = await self._server.read_body(principal, receive, headers, limit, held)
                    await self._server.check_values(body, MAX_VALUES, principal.tenant)
                    await asyncio.to_thread(_import_protocol)
                manager = self._build_manager(principal, selection)
                async with manager.run():
                    await manager.handle_request(scope, _replay_body(body, receive), send)
        except TimeoutError:
            raise Unavailable(_TOO_LONG) from None
        return None

    def _build_manager(self, principal: Principal, selection: Selection) -> StreamableHTTPSessionManager:
        """Build a protocol server for one request, so that no state of a caller outlives it."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from .protocol import Caller, build_server

        def perform(operation: Operation, data: dict[str, Any]) -> Any:
            return self._perform(principal, operation, data)

        async def offload(work: Callable[[], Answer | Suspended], patient: bool) -> Answer:
            return await self._offload(work, principal.tenant, patient)

        tools = build_tools(selection, principal.scope.kind if principal.scope else None)
        server = build_server(tools, Caller(principal.scope, perform, offload))
        limit = max(min(self._server.config.max_body, MAX_BODY), 1)
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=limit)

    def _perform(self, principal: Principal, operation: Operation, data: dict[str, Any]) -> Any:
        """Perform an operation. If it waits, return the rest of it, which holds no thread while it waits."""
        from ...workflows.live_runs import collect_starts
        from .protocol import Rest

        server = self._server
        if operation.name == "runs.events":
            found = dispatch(server.engine, principal, operation, {**data, "timeout_s": 0})
            timeout_s = min(float(data.get("timeout_s") or 0), server.config.request_timeout_s * WAIT_SHARE)
            if found.events or found.over or not timeout_s:
                return found
            return Rest(partial(_wait_for_events, server, principal, data["run"], data.get("after", 0), timeout_s))
        with collect_starts() as starts:
            result = dispatch(server.engine, principal, operation, data, wait=False)
        if isinstance(result, Pending):
            return Rest(partial(_wait_for_job, server, principal.tenant, result))
        return Rest(partial(_wait_for_run, server, starts[0], result)) if starts else result

    async def _offload(self, work: Callable[[], Answer | Suspended], tenant: str, patient: bool) -> Answer:
        from .protocol import Suspended

        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._server.config.request_timeout_s):
                answer = await self._server.in_thread(work, tenant, patient=patient)
                while isinstance(answer, Suspended):
                    last = await answer.rest.wait()
                    answer = await self._server.in_thread(partial(answer.answer, last), tenant, patient=False)
        except TimeoutError:
            raise Unavailable(_TOO_LONG) from None
        if answer.operation is not None:
            self._server.metrics.record(answer.operation, answer.status, time.perf_counter() - started)
        return answer


async def _wait_for_job(server: Server, tenant: str, pending: Pending) -> Callable[[], Any]:
    job = await server.wait_for_job(pending, tenant)
    return lambda: pending.complete(job)


async def _wait_for_run(server: Server, start: RunStart, begun: Any) -> Callable[[], Any]:
    """Wait for a run, but not longer than a request may take. The answer names a run that goes on."""
    if start.events is None:
        return lambda: start.read(start.run_id)
    try:
        async with asyncio.timeout(server.config.request_timeout_s * WAIT_SHARE):
            in_time = await wait_for_end(start.events, server.stopping)
    except TimeoutError:
        in_time = False
    return lambda: start.read(start.run_id) if in_time else begun


async def _wait_for_events(
    server: Server, principal: Principal, run: str, after: int, timeout_s: float
) -> Callable[[], Any]:
    found = await wait_for_events(server, principal, run, after, timeout_s)
    return lambda: found


def _import_protocol() -> None:
    """Import the protocol server. This takes a second, so call it off the event loop."""
    require_package()
    import_module(".protocol", __package__)


def _parse_selection(query: bytes) -> Selection:
    match [value for name, value in parse_qsl(query.decode("latin-1")) if name == "tools"]:
        case [] | ["default"]:
            return "default"
        case ["all"]:
            return "all"
    raise Invalid("`tools` is either `default` or `all`.", field="tools")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers a body that was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
