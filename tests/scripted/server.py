"""A model server on 127.0.0.1 that speaks OpenAI's or Anthropic's protocol and fails on request. Standard library only."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Literal, NamedTuple, Self

from memwell.testing import ToolCalls

from .protocols import ChatCompletions, Messages, ModelProtocol, prompt_text
from .replies import HUGE, Fault, Raw, Reply, StreamFault, TextReply, to_text_reply

MAX_BODY = 16 * 1024 * 1024
PATIENCE_S = 60.0
"""An answer that hangs ends after this time, so that a forgotten test ends."""
PAGE = b"<html>not what you expected</html>"
PARTIAL = TextReply("This is how the answer begins, and this is how it would go on.")
"""The text of a stream that fails in the middle."""


class Connection(BaseHTTPRequestHandler):
    script: ScriptedServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    disable_nagle_algorithm = True  # the small parts of a stream must not wait for each other

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name in the base class
        """Print nothing."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._json(200, self.script.protocol.models(self.script.model))
        else:
            self._error(404, "there is nothing at that address")

    def do_POST(self) -> None:
        body = self._read_body()
        if body is None:
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, reply = self.script.reply_to(self.path, headers, body)
        if isinstance(reply, Raw):
            self._send(reply.status, reply.body, **reply.headers)
        elif isinstance(reply, StreamFault):
            self._break_stream(number, reply, body)
        elif isinstance(reply, Fault) and reply in _FAULTS:
            _FAULTS[reply](self)
        else:
            self._answer(number, reply if isinstance(reply, ToolCalls) else to_text_reply(reply), body)

    def _read_body(self) -> dict[str, Any] | None:
        """Return the body of a valid request; otherwise answer with an error and return None."""
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._error(413, "too large")
            return None
        body = _decode(self.rfile.read(int(length)))
        if self.path.rstrip("/") != self.script.protocol.path:
            self._error(404, "there is nothing at that address")
        elif body is None:
            self._error(400, "model and messages are needed, as JSON")
        elif (refusal := self.script.protocol.refuse(body)) is not None:
            self._error(400, refusal)
        else:
            return body
        return None

    def _answer(self, number: int, reply: ToolCalls | TextReply, body: dict[str, Any]) -> None:
        if body.get("stream"):
            self._stream(self.script.protocol.parts(number, reply, body))
        else:
            self._json(200, self.script.protocol.whole(number, reply, body))

    def _break_stream(self, number: int, fault: StreamFault, body: dict[str, Any]) -> None:
        """Send half of a stream, then fail."""
        if not body.get("stream"):
            _FAULTS[_UNSTREAMED[fault]](self)
            return
        parts = list(self.script.protocol.parts(number, PARTIAL, body))
        half, rest = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        if fault is StreamFault.GARBAGE:
            self._stream([*half, b"data: " + PAGE + b"\n\n", *rest])
        elif fault is StreamFault.ERROR:
            self._stream([*half, self.script.protocol.broken()])
        else:
            self._begin_stream(half)
            _OPEN_ENDS[fault](self)

    def _stream(self, parts: Iterable[bytes]) -> None:
        self._begin_stream(parts)
        self.wfile.write(_chunk(b""))

    def _begin_stream(self, parts: Iterable[bytes]) -> None:
        """Send a stream without its end."""
        self._head(200, None, **{"content-type": "text/event-stream"})
        for part in parts:
            self.wfile.write(_chunk(part))

    def _json(self, status: int, body: object) -> None:
        self._send(status, json.dumps(body).encode())

    def _error(self, status: int, message: str) -> None:
        self._json(status, self.script.protocol.error(message))

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

    def hang(self) -> None:
        self.script.closing.wait(PATIENCE_S)
        self.close_connection = True

    def drip(self) -> None:
        self._head(200, HUGE)
        self._drops(b" ")

    def drip_events(self) -> None:
        """Send a comment that does not end."""
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
        self._send(429, json.dumps(self.script.protocol.error("not now")).encode(), **{"retry-after": "20"})

    def unauthorised(self) -> None:
        self._error(401, "that key is not known")

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def cut(self) -> None:
        self.close_connection = True

    def half(self) -> None:
        body = json.dumps(
            self.script.protocol.whole(1, TextReply('{"facts": []}'), {"model": self.script.model})
        ).encode()
        self._head(200, len(body))
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def huge(self) -> None:
        """Send one endless text in JSON that is valid so far."""
        self._head(200, HUGE)
        self.wfile.write(self.script.protocol.opening)
        for _ in range(HUGE // 65536):
            self.wfile.write(b"x" * 65536)
        self.close_connection = True

    def no_choices(self) -> None:
        self._json(200, self.script.protocol.nothing)

    def garbage(self) -> None:
        self._send(200, PAGE, **{"content-type": "text/html"})


def _chunk(part: bytes) -> bytes:
    """A chunk of the chunked encoding; an empty one ends the answer."""
    return b"%x\r\n%s\r\n" % (len(part), part)


def _decode(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return None
    messages = body.get("messages")
    is_valid = isinstance(messages, list) and messages and all(isinstance(message, dict) for message in messages)
    return body if is_valid else None


_FAULTS: dict[Fault, Callable[[Connection], None]] = {
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
_OPEN_ENDS: dict[StreamFault, Callable[[Connection], None]] = {
    StreamFault.CUT: Connection.cut,
    StreamFault.HANG: Connection.hang,
    StreamFault.DRIP: Connection.drip_events,
}
_UNSTREAMED = {
    StreamFault.GARBAGE: Fault.GARBAGE,
    StreamFault.CUT: Fault.HALF,
    StreamFault.HANG: Fault.HANG,
    StreamFault.DRIP: Fault.DRIP,
    StreamFault.ERROR: Fault.ERROR,
}


MAX_REQUESTS = 10_000
PROTOCOLS: dict[str, Callable[[], ModelProtocol]] = {"openai": ChatCompletions, "anthropic": Messages}


class ChatRequest(NamedTuple):
    """A request that the server received; the names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return prompt_text(self.body)

    @property
    def contents(self) -> list[str]:
        """The texts of the messages."""
        return [str(message.get("content")) for message in self.body.get("messages", [])]


Script = Iterable[Reply] | Callable[[ChatRequest], Reply]


class ScriptedServer:
    """A model's server in a thread: `with ScriptedServer(["Hello!"]) as server:`, then ask `server.url`.

    It answers `POST /v1/chat/completions`, or with `protocol="anthropic"` `POST /v1/messages` (whole or streamed, words,
    JSON or tools), and `GET /v1/models`. The script is a list of replies, whose last is repeated, or a function of
    the request. A reply is a text, a mapping (sent as JSON), `ToolCalls`, `TextReply`, `Raw`, a `Fault`
    or a `StreamFault`. `server.fault = Fault.HANG` makes every answer fail, until it is None again. `requests`
    lists what it received.
    """

    def __init__(
        self,
        script: Script = ({"facts": []},),
        *,
        fault: Fault | StreamFault | None = None,
        model: str = "scripted",
        drip_s: float = 1.0,
        protocol: Literal["openai", "anthropic"] = "openai",
    ) -> None:
        self.protocol = PROTOCOLS[protocol]()
        self.fault = fault
        self.model = model
        self.drip_s = drip_s
        self.requests: list[ChatRequest] = []
        self.closing = Event()
        self._function = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (Connection,), {"script": self}))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), name="scripted-server", daemon=True)

    @property
    def url(self) -> str:
        """The base address: with `/v1` for OpenAI's clients, without for Anthropic's."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.protocol.base}"

    @property
    def connections(self) -> int:
        return len(self._server.open)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cut off open connections, and wait until every thread has ended."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.cut_off()
        self._server.server_close()

    def reply_to(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Reply]:
        """The number of the request, and the reply to it."""
        request = ChatRequest(path, headers, body)
        with self._lock:
            if len(self.requests) >= MAX_REQUESTS:
                return 0, Raw(503, b'{"error": {"message": "too many requests for a test"}}')
            self.requests.append(request)
            number = len(self.requests)
            if self.fault is not None:
                return number, self.fault
            if self._function is None:
                return number, self._next()
        return number, self._function(request)

    def _next(self) -> Reply:
        if not self._replies:
            return Raw(500, b'{"error": {"message": "the script is empty"}}')
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def cut_off(self) -> None:
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just ended
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: tests make clients leave in the middle."""
