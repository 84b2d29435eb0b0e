"""Which Host and Origin a request may name.

A browser sends an `Origin`; a program does not. A page of this machine may call, and so may a page of the server's own
origin if its Host cannot be a rebound name: it is an IP address, or the very name that the server is bound to. Without an
Origin, any Host will do where a key is asked for: the key is what counts, and a proxy may have passed on a public name.
Without keys, the Host must be a loopback name, whoever calls.
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
from ...core.operation import Operation
from ...errors import Forbidden, Invalid, NotAllowed, Unavailable
from ...model.principal import Principal
from ..rest import replies
from ..rest.replies import read_body
from ..rest.server import Server
from . import require_package
from .server import Answer, Caller
from .tools import Selection, toolbox

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)", re.ASCII)
_PORTS = {"http": 80, "https": 443}

Authority = tuple[str, int | None]


def require_allowed(headers: Iterable[tuple[bytes, bytes]], bound: str, *, keys: bool) -> None:
    hosts, origins = _values(headers, b"host"), _values(headers, b"origin")
    host = _authority(hosts[0]) if len(hosts) == 1 else None
    if host is None or not (keys or _is_loopback(host[0])):
        raise Forbidden("The Host of this request is not one that this server answers to.")
    if origins and not (len(origins) == 1 and _may_call(origins[0], host, bound)):
        raise Forbidden("Pages of other origins may not call this server.")


def _may_call(origin: str, host: Authority, bound: str) -> bool:
    found = _ORIGIN.fullmatch(origin)
    caller = _authority(found[2]) if found else None
    if found is None or caller is None:
        return False
    if _is_loopback(caller[0]):
        return True
    certain = _is_address(host[0]) or host[0] == bound.lower()
    return certain and _with_port(caller, found[1]) == _with_port(host, found[1])


def _authority(text: str) -> Authority | None:
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    return None if port is not None and not 0 < port < 65536 else (found["host"].strip("[]"), port)


def _with_port(authority: Authority, scheme: str) -> Authority:
    return authority[0], authority[1] or _PORTS[scheme]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _values(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


# -- Streamable HTTP at `/mcp`, without sessions: every request brings its key, and one answer is all it gets.
#
# `GET` (a stream of the server's own messages) and `DELETE` (the end of a session) are refused with 405, as the protocol
# asks of a server that has neither.


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

        tools = toolbox(selection, principal.scope.kind if principal.scope else None)
        server = protocol_server(tools, Caller(principal.scope, self._perform(principal), self._move))
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
