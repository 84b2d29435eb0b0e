"""A server on 127.0.0.1 that speaks the OpenAI protocol and does what it is told, also wrong. Standard library only."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Self

from .replies import HUGE, Fault, Raw, Reply, ToolCalls, Worded, completion, stream, worded

MAX_BODY = 16 * 1024 * 1024
MAX_REQUESTS = 10_000
PATIENCE_S = 60.0
"""After this long even an answer that was told to hang ends, so that a test which forgot it ends."""
PAGE = b"<html>not what you expected</html>"


class ChatRequest(NamedTuple):
    """What the server was asked: the headers, in small letters, and the body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All that the messages say."""
        return "\n".join(str(message.get("content")) for message in self.body.get("messages", []))


Script = Iterable[Reply] | Callable[[ChatRequest], Reply]


class ScriptedServer:
    """An OpenAI-compatible server in a thread: `with ScriptedServer(["Hello!"]) as server:`, then ask `server.url`.

    It answers `POST /v1/chat/completions` (whole or streamed, words, JSON or tools) and `GET /v1/models`. The script is a
    list of replies, of which the last is repeated for ever, or a function that is given each request. A reply is a text, a
    mapping (sent as JSON), `ToolCalls`, `Worded`, `Raw`, or a `Fault`. `server.fault = Fault.HANG` makes every answer fail
    that way, until it is None again. `requests` holds what was asked.
    """

    def __init__(
        self,
        script: Script = ({"facts": []},),
        *,
        fault: Fault | None = None,
        model: str = "scripted",
        drip_s: float = 1.0,
    ) -> None:
        self.fault = fault
        self.model = model
        self.drip_s = drip_s
        self.requests: list[ChatRequest] = []
        self.closing = Event()
        self._function = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Connection,), {"script": self}))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), name="scripted-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._server.open)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of it is left: whoever still waits is cut off, and every thread has ended."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.cut_off()
        self._server.server_close()

    def reply_to(self, request: ChatRequest) -> tuple[int, Reply]:
        """The number of the request, and what to answer."""
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
            except OSError:  # it has just ended by itself
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle here; that is what is tested."""


class _Connection(BaseHTTPRequestHandler):
    """One connection."""

    script: ScriptedServer
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as it is named there
        """Nothing is printed."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            model = {"id": self.script.model, "object": "model", "created": 0, "owned_by": "memwell"}
            self._json(200, {"object": "list", "data": [model]})
        else:
            self._error(404, "there is nothing at that address")

    def do_POST(self) -> None:
        request = self._request()
        if request is None:
            return
        number, reply = self.script.reply_to(request)
        if isinstance(reply, Raw):
            self._send(reply.status, reply.body, **reply.headers)
        elif isinstance(reply, Fault) and reply in _BROKEN:
            _BROKEN[reply](self)
        else:
            self._say(number, reply if isinstance(reply, ToolCalls) else worded(reply), request)

    def _request(self) -> ChatRequest | None:
        """What is asked, if it is asked as the protocol wants; otherwise that is told, and None returned."""
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            self._error(413, "too large")
            return None
        body = _asked(self.rfile.read(int(length)))
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._error(404, "there is nothing at that address")
        elif body is None:
            self._error(400, "model and messages are needed, as JSON")
        else:
            return ChatRequest(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        return None

    def _say(self, number: int, reply: ToolCalls | Worded, request: ChatRequest) -> None:
        model = request.body["model"]
        if not request.body.get("stream"):
            self._json(200, completion(number, model, reply, request.prompt))
            return
        self._head(200, None, **{"content-type": "text/event-stream"})
        counts = bool((request.body.get("stream_options") or {}).get("include_usage"))
        for part in stream(number, model, reply, request.prompt, counts=counts):
            self.wfile.write(b"data: " + json.dumps(part).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, status: int, body: object) -> None:
        self._send(status, json.dumps(body).encode())

    def _error(self, status: int, told: str) -> None:
        self._json(status, {"error": {"message": told, "type": "invalid_request_error", "code": None}})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self._head(status, len(body), **headers)
        self.wfile.write(body)

    def _head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is None:
            headers["connection"] = "close"
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
        self._send(429, b'{"error": {"message": "not now"}}', **{"retry-after": "20"})

    def unauthorised(self) -> None:
        self._error(401, "that key is not known")

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def half(self) -> None:
        body = json.dumps(completion(1, self.script.model, Worded('{"facts": []}'), "")).encode()
        self._head(200, len(body))
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def huge(self) -> None:
        """All in one answer whose JSON would be right, as far as it goes."""
        part = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "'
        self._head(200, HUGE)
        self.wfile.write(part)
        for _ in range(HUGE // 65536):
            self.wfile.write(b"x" * 65536)
        self.close_connection = True

    def no_choices(self) -> None:
        self._json(200, {"id": "chatcmpl-0", "object": "chat.completion", "choices": []})

    def garbage(self) -> None:
        self._send(200, PAGE, **{"content-type": "text/html"})


def _asked(data: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(body, dict) and body.get("messages") and isinstance(body.get("model"), str)
    return body if whole else None


_BROKEN: dict[Fault, Callable[[_Connection], None]] = {
    Fault.HANG: _Connection.hang,
    Fault.DRIP: _Connection.drip,
    Fault.DRIP_HEADERS: _Connection.drip_headers,
    Fault.ERROR: _Connection.error,
    Fault.BUSY: _Connection.busy,
    Fault.UNAUTHORISED: _Connection.unauthorised,
    Fault.RESET: _Connection.reset,
    Fault.HALF: _Connection.half,
    Fault.HUGE: _Connection.huge,
    Fault.NO_CHOICES: _Connection.no_choices,
    Fault.GARBAGE: _Connection.garbage,
}
