"""MCP over Streamable HTTP at `/mcp`, without sessions: each request carries its key and gets one answer.

`GET` (a stream of server messages) and `DELETE` (the end of a session) answer 405, as the protocol requires.

The Host and Origin headers are checked against DNS rebinding. Only browsers send an Origin. Pages of this machine may call,
and so may pages of the server's own origin if its Host cannot be a rebound name: an IP address, or the name that the server
is bound to. Without an Origin, any Host is accepted if the server requires keys, since a proxy may pass on a public name.
Without keys, the Host must be a loopback name.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from ...core.dispatch import dispatch
from ...errors import Forbidden, Invalid, NotAllowed, Unavailable
from ..rest.limits import read_body
from ..rest.responses import to_failure
from . import require_package
from .tools import Selection, build_tools

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from ...core.access import Principal
    from ...core.operation import Operation
    from ..rest.app import Server
    from .protocol import Answer

_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)", re.ASCII)
_PORTS = {"http": 80, "https": 443}

Authority = tuple[str, int | None]


def check_origin(headers: Iterable[tuple[bytes, bytes]], bound: str, *, keys: bool) -> None:
    hosts, origins = _list_values(headers, b"host"), _list_values(headers, b"origin")
    host = _parse_authority(hosts[0]) if len(hosts) == 1 else None
    if host is None or not (keys or _is_loopback(host[0])):
        raise Forbidden("This server does not serve the Host of this request.")
    if origins and not (len(origins) == 1 and _may_call(origins[0], host, bound)):
        raise Forbidden("Pages of other origins may not call this server.")


def _may_call(origin: str, host: Authority, bound: str) -> bool:
    match = _ORIGIN.fullmatch(origin)
    caller = _parse_authority(match[2]) if match else None
    if match is None or caller is None:
        return False
    if _is_loopback(caller[0]):
        return True
    if not _is_address(host[0]) and host[0] != bound.lower():
        return False
    port = _PORTS[match[1]]
    return (caller[0], caller[1] or port) == (host[0], host[1] or port)


def _parse_authority(text: str) -> Authority | None:
    match = _AUTHORITY.fullmatch(text.lower())
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    return None if port is not None and not 0 < port < 65536 else (match["host"].strip("[]"), port)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _list_values(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == header]


_TOO_LONG = "The request took too long. It may still be carried out."


class Endpoint:
    """The ASGI app at `/mcp`. The caller turns exceptions into JSON."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = self._server.config
        check_origin(scope["headers"], config.host, keys=self._server.auth)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        principal = await self._server.principal(headers)
        if scope["method"] != "POST":
            error = NotAllowed("Only POST is allowed here: there are no sessions and no streams.", allowed="POST")
            return await to_failure(error)(scope, receive, send)
        selection = _parse_selection(scope["query_string"])
        try:
            async with asyncio.timeout(config.request_timeout_s):
                body = await read_body(receive, headers, config.max_body)
                await asyncio.to_thread(_import_protocol)
        except TimeoutError:
            raise Unavailable(_TOO_LONG) from None
        manager = self._build_manager(principal, selection)
        async with manager.run():
            await manager.handle_request(scope, _replay_body(body, receive), send)
        return None

    def _build_manager(self, principal: Principal, selection: Selection) -> StreamableHTTPSessionManager:
        """Build a protocol server for one request, so that no state of a caller outlives it."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from .protocol import Caller, build_server

        def perform(operation: Operation, data: dict[str, Any]) -> Any:
            return dispatch(self._server.engine, principal, operation, data)

        tools = build_tools(selection, principal.scope.kind if principal.scope else None)
        server = build_server(tools, Caller(principal.scope, perform, self._offload))
        limit = max(self._server.config.max_body, 1)
        return StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=limit)

    async def _offload(self, work: Callable[[], Answer], patient: bool) -> Answer:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._server.config.request_timeout_s):
                answer = await self._server.in_thread(work, patient=patient)
        except TimeoutError:
            raise Unavailable(_TOO_LONG) from None
        if answer.operation is not None:
            self._server.metrics.record(answer.operation, answer.status, time.perf_counter() - started)
        return answer


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
