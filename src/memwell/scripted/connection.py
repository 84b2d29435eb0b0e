"""One connection to a scripted server: it reads what is asked, and answers or fails as it is told."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from .replies import HUGE, Fault, Raw, StreamFault, ToolCalls, Worded, worded

if TYPE_CHECKING:
    from .server import ScriptedServer

MAX_BODY = 16 * 1024 * 1024
PATIENCE_S = 60.0
"""After this long even an answer that was told to hang ends, so that a test which forgot it ends."""
PAGE = b"<html>not what you expected</html>"
BEGUN = Worded("This is how the answer begins, and this is how it would go on.")
"""What is said where a stream fails in its middle."""


class Connection(BaseHTTPRequestHandler):
    """One connection."""

    script: ScriptedServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    disable_nagle_algorithm = True  # a stream is many small parts, and none of them waits for the next

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as it is named there
        """Nothing is printed."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._json(200, self.script.wire.models(self.script.model))
        else:
            self._error(404, "there is nothing at that address")

    def do_POST(self) -> None:
        body = self._asked()
        if body is None:
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, reply = self.script.reply_to(self.path, headers, body)
        if isinstance(reply, Raw):
            self._send(reply.status, reply.body, **reply.headers)
        elif isinstance(reply, StreamFault):
            self._break(number, reply, body)
        elif isinstance(reply, Fault) and reply in _BROKEN:
            _BROKEN[reply](self)
        else:
            self._say(number, reply if isinstance(reply, ToolCalls) else worded(reply), body)

    def _asked(self) -> dict[str, Any] | None:
        """What is asked, if it is asked as the protocol wants; otherwise that is told, and None returned."""
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._error(413, "too large")
            return None
        body = _decoded(self.rfile.read(int(length)))
        if self.path.rstrip("/") != self.script.wire.path:
            self._error(404, "there is nothing at that address")
        elif body is None:
            self._error(400, "model and messages are needed, as JSON")
        else:
            return body
        return None

    def _say(self, number: int, reply: ToolCalls | Worded, body: dict[str, Any]) -> None:
        if body.get("stream"):
            self._stream(self.script.wire.parts(number, reply, body))
        else:
            self._json(200, self.script.wire.whole(number, reply, body))

    def _break(self, number: int, fault: StreamFault, body: dict[str, Any]) -> None:
        """Half of a stream, and then what goes wrong."""
        if not body.get("stream"):
            _BROKEN[_LIKEWISE[fault]](self)
            return
        parts = list(self.script.wire.parts(number, BEGUN, body))
        half, rest = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        if fault is StreamFault.GARBAGE:
            self._stream([*half, b"data: " + PAGE + b"\n\n", *rest])
        elif fault is StreamFault.ERROR:
            self._stream([*half, self.script.wire.broken()])
        else:
            self._begin(half)
            _UNENDED[fault](self)

    def _stream(self, parts: Iterable[bytes]) -> None:
        self._begin(parts)
        self.wfile.write(_chunk(b""))

    def _begin(self, parts: Iterable[bytes]) -> None:
        """A stream without its end."""
        self._head(200, None, **{"content-type": "text/event-stream"})
        for part in parts:
            self.wfile.write(_chunk(part))

    def _json(self, status: int, body: object) -> None:
        self._send(status, json.dumps(body).encode())

    def _error(self, status: int, told: str) -> None:
        self._json(status, self.script.wire.error(told))

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self._head(status, len(body), **headers)
        self.wfile.write(body)

    def _head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is None:
            headers["transfer-encoding"] = "chunked"
        else:
            headers["content-length"] = str(length)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    # -- faults ----------------------------------------------------------------------------------------------------

    def hang(self) -> None:
        self.script.closing.wait(PATIENCE_S)
        self.close_connection = True

    def drip(self) -> None:
        self._head(200, HUGE)
        self._drops(b" ")

    def drip_events(self) -> None:
        """A comment that does not end."""
        self._drops(_chunk(b":"))

    def drip_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        self._drops(b"x")

    def _drops(self, drop: bytes) -> None:
        self.close_connection = True
        for _ in range(int(PATIENCE_S / self.script.drip_s)):
            if self.script.closing.wait(self.script.drip_s):
                return
            self.wfile.write(drop)

    def error(self) -> None:
        self._send(500, PAGE, **{"content-type": "text/html"})

    def busy(self) -> None:
        self._send(429, json.dumps(self.script.wire.error("not now")).encode(), **{"retry-after": "20"})

    def unauthorised(self) -> None:
        self._error(401, "that key is not known")

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def cut(self) -> None:
        self.close_connection = True

    def half(self) -> None:
        body = json.dumps(self.script.wire.whole(1, Worded('{"facts": []}'), {"model": self.script.model})).encode()
        self._head(200, len(body))
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def huge(self) -> None:
        """All in one answer whose JSON would be right, as far as it goes."""
        self._head(200, HUGE)
        self.wfile.write(self.script.wire.opening)
        for _ in range(HUGE // 65536):
            self.wfile.write(b"x" * 65536)
        self.close_connection = True

    def no_choices(self) -> None:
        self._json(200, self.script.wire.nothing)

    def garbage(self) -> None:
        self._send(200, PAGE, **{"content-type": "text/html"})


def _chunk(part: bytes) -> bytes:
    """A part of an answer whose length nobody knows yet; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(part), part)


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return None
    messages = body.get("messages")
    named = isinstance(messages, list) and messages and all(isinstance(message, dict) for message in messages)
    return body if named else None


_BROKEN: dict[Fault, Callable[[Connection], None]] = {
    Fault.HANG: Connection.hang,
    Fault.DRIP: Connection.drip,
    Fault.DRIP_HEADERS: Connection.drip_headers,
    Fault.ERROR: Connection.error,
    Fault.BUSY: Connection.busy,
    Fault.UNAUTHORISED: Connection.unauthorised,
    Fault.RESET: Connection.reset,
    Fault.HALF: Connection.half,
    Fault.HUGE: Connection.huge,
    Fault.NO_CHOICES: Connection.no_choices,
    Fault.GARBAGE: Connection.garbage,
}
_UNENDED: dict[StreamFault, Callable[[Connection], None]] = {
    StreamFault.CUT: Connection.cut,
    StreamFault.HANG: Connection.hang,
    StreamFault.DRIP: Connection.drip_events,
}
_LIKEWISE = {
    StreamFault.GARBAGE: Fault.GARBAGE,
    StreamFault.CUT: Fault.HALF,
    StreamFault.HANG: Fault.HANG,
    StreamFault.DRIP: Fault.DRIP,
    StreamFault.ERROR: Fault.ERROR,
}
