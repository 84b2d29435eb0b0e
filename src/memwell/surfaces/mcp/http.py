"""Streamable HTTP at `/mcp`, without sessions: every request brings its key, and one answer is all it gets.

`GET` (a stream of the server's own messages) and `DELETE` (the end of a session) are refused with 405, as the protocol
asks of a server that has neither.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from ...dispatch import dispatch
from ...errors import Invalid, NotAllowed, Unavailable
from ...model.principal import Principal
from ...operation import Operation
from ..rest import replies
from ..rest.bodies import read_body
from ..rest.server import Server
from . import require_package
from .answers import Answer, Caller
from .origins import require_allowed
from .tools import Selection, toolbox

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_TOO_LONG = "The request took too long. It may still be carried out."


class Endpoint:
    """The page `/mcp`. What it raises, the pages answer as JSON."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = self._server.config
        require_allowed(scope["headers"], config.host, keys=self._server.auth)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        principal = await self._server.principal(headers)
        if scope["method"] != "POST":
            return await replies.deliver(send, _only_post())
        selection = _selection(scope["query_string"])
        try:
            async with asyncio.timeout(config.request_timeout_s):
                body = await read_body(receive, headers, config.max_body)
                await asyncio.to_thread(_load)
        except TimeoutError:
            raise Unavailable(_TOO_LONG) from None
        manager = self._manager(principal, selection)
        async with manager.run():
            await manager.handle_request(scope, _again(body, receive), send)
        return None

    def _manager(self, principal: Principal, selection: Selection) -> StreamableHTTPSessionManager:
        """A server for this one request: nothing of a caller's can outlive it."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from .server import protocol_server

        tools = toolbox(selection, principal.tie.kind if principal.tie else None)
        server = protocol_server(tools, Caller(principal.tie, self._perform(principal), self._move))
        limit = max(self._server.config.max_body, 1)
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=limit)

    def _perform(self, principal: Principal) -> Callable[[Operation, dict[str, Any]], Any]:
        return lambda operation, data: dispatch(self._server.engine, principal, operation, data)

    async def _move(self, work: Callable[[], Answer], patient: bool) -> Answer:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._server.config.request_timeout_s):
                answer = await self._server.in_thread(work, patient=patient)
        except TimeoutError:
            raise Unavailable(_TOO_LONG) from None
        if answer.operation is not None:
            self._server.metrics.record(answer.operation, answer.status, time.perf_counter() - started)
        return answer


def _load() -> None:
    """Import what the first request needs, off the event loop: it takes a second."""
    require_package()
    import_module(".server", __package__)


def _only_post() -> replies.Reply:
    error = NotAllowed("Only POST is possible here: there are no sessions and no streams.", allowed="POST")
    status, body, headers = replies.failure(error)
    return status, body, [*headers, (b"allow", b"POST")]


def _selection(query: bytes) -> Selection:
    match [value for name, value in parse_qsl(query.decode("latin-1")) if name == "tools"]:
        case [] | ["default"]:
            return "default"
        case ["all"]:
            return "all"
    raise Invalid("`tools` is either `default` or `all`.", field="tools")


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read and counted, to be read once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
