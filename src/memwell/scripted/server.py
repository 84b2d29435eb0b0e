"""A server on 127.0.0.1 that speaks the protocol of a model and does what it is told, also wrong. Standard library only."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from http.server import ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Literal, NamedTuple, Self

from .chat_completions import ChatCompletions
from .connection import Connection
from .messages import Messages
from .replies import Fault, Raw, Reply, StreamFault
from .wire import Wire, words

MAX_REQUESTS = 10_000
PROTOCOLS: dict[str, Callable[[], Wire]] = {"openai": ChatCompletions, "anthropic": Messages}


class ChatRequest(NamedTuple):
    """What the server was asked: the headers, in small letters, and the body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All that the messages say."""
        return words(self.body)


Script = Iterable[Reply] | Callable[[ChatRequest], Reply]


class ScriptedServer:
    """A model's server in a thread: `with ScriptedServer(["Hello!"]) as server:`, then ask `server.url`.

    It answers `POST /v1/chat/completions`, or with `protocol="anthropic"` `POST /v1/messages` (whole or streamed, words,
    JSON or tools), and `GET /v1/models`. The script is a list of replies, of which the last is repeated for ever, or a
    function that is given each request. A reply is a text, a mapping (sent as JSON), `ToolCalls`, `Worded`, `Raw`, a `Fault`
    or a `StreamFault`. `server.fault = Fault.HANG` makes every answer fail that way, until it is None again. `requests`
    holds what was asked.
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
        self.wire = PROTOCOLS[protocol]()
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
        """What a client of the protocol is told: for OpenAI's with `/v1`, for Anthropic's without."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.wire.base}"

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

    def reply_to(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, Reply]:
        """The number of the request, and what to answer."""
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
            except OSError:  # it has just ended by itself
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle here; that is what is tested."""
