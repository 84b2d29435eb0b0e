"""An OpenAI-compatible embeddings server on 127.0.0.1 that fails on request."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Literal, NamedTuple, Self

from memwell.testing import word_vector

Answer = Literal["normal", "wrong_dimension", "error", "busy", "garbage", "half", "hang", "drip"]


class EmbeddingRequest(NamedTuple):
    """A request that the server received; the names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class EmbeddingServer:
    """An embeddings server in a thread: `with EmbeddingServer() as server:`.

    Its answers can be changed at any time: `server.answer = "hang"`, `server.dimensions = 48`, or any `server.body`.
    `wrong_dimension` makes the last vector too long, `half` breaks off, `drip` sends a byte now and then and never ends.
    """

    def __init__(self, dimensions: int = 32, *, keep_alive: bool = False) -> None:
        self.dimensions = dimensions
        self.answer: Answer = "normal"
        self.body: bytes | None = None
        self.requests: list[EmbeddingRequest] = []
        self.connections = 0
        self.closing = Event()
        self.lock = Lock()
        handler = type("Handler", (_Connection,), {"script": self, "protocol_version": f"HTTP/1.{int(keep_alive)}"})
        self._server = _QuietServer(("127.0.0.1", 0), handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), name="embedding-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request.body["input"]]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: tests make clients leave in the middle."""


class _Connection(BaseHTTPRequestHandler):
    script: EmbeddingServer

    def setup(self) -> None:
        super().setup()
        with self.script.lock:
            self.script.connections += 1

    def finish(self) -> None:
        with self.script.lock:
            self.script.connections -= 1
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name in the base class
        """Print nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        script = self.script
        with script.lock:
            script.requests.append(EmbeddingRequest(self.path, headers, body))
        while script.answer == "hang" and not script.closing.wait(0.01):
            pass
        if script.answer in ("error", "busy"):
            self._send(500 if script.answer == "error" else 429, b'{"error": {"message": "not now"}}')
        elif script.answer == "garbage":
            self._send(200, b"<html>not what you expected</html>")
        else:
            self._answer(script.body or json.dumps(self._vectors(body)).encode())

    def _answer(self, body: bytes) -> None:
        if self.script.answer == "half":
            self._send(200, body[: len(body) // 2], claimed=len(body))
            self.close_connection = True
        elif self.script.answer == "drip":
            self._send(200, b"", claimed=len(body))
            while not self.script.closing.wait(0.02):
                self.wfile.write(b" ")
        else:
            self._send(200, body)

    def _vectors(self, body: dict[str, Any]) -> dict[str, Any]:
        width = self.script.dimensions
        vectors = [word_vector(text, width) for text in body["input"]]
        if self.script.answer == "wrong_dimension":
            vectors[-1] = [*vectors[-1], 1.0]
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return {"object": "list", "data": data[::-1], "model": body["model"]}

    def _send(self, status: int, body: bytes, claimed: int | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) if claimed is None else claimed))
        self.end_headers()
        self.wfile.write(body)
