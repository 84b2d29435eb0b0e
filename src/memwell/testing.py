"""Parts for tests, yours and ours: a clock that stands still, two tenants that must not see each other, and models that do
what they are told: an embedder, a language model, and servers that speak the protocols of OpenAI and Anthropic."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from .clock import SECOND, to_micros
from .errors import ModelFailed
from .scripted import ChatRequest as ChatRequest
from .scripted import Fault as Fault
from .scripted import Raw as Raw
from .scripted import ScriptedModel as ScriptedModel
from .scripted import ScriptedServer as ScriptedServer
from .scripted import StreamFault as StreamFault
from .scripted import ToolCall as ToolCall
from .scripted import ToolCalls as ToolCalls
from .scripted import Worded as Worded
from .sdk._sync import Memory

if TYPE_CHECKING:
    from .models.embedder import Vectors

START = datetime(2026, 4, 19, 10, 0, tzinfo=UTC)
PATIENCE_S = 60.0
"""After this long even a model that was told to hang gives up, so that a test which forgot it ends."""


class FrozenClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: datetime = START) -> None:
        self._now = to_micros(start)

    def now(self) -> int:
        return self._now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move on, or with negative numbers back."""
        total = seconds + 60 * (minutes + 60 * (hours + 24 * days))
        self._now += round(total * SECOND)


@contextmanager
def two_tenants(home: str | Path) -> Iterator[tuple[Memory, Memory]]:
    """Two memories in one directory that share nothing but the disk."""
    with Memory(home, tenant="alpha", worker=False) as alpha, Memory(home, tenant="beta", worker=False) as beta:
        yield alpha, beta


# -- an embedder ---------------------------------------------------------------------------------------------------------


class ScriptedEmbedder:
    """An embedder without a model: texts are near each other as far as they share words. It remembers what it was given.

    Its name is all that it must be told, so an entry point of a plugin may name the class itself.
    """

    floor = 0.0
    ceiling = 1.0

    def __init__(self, id: str = "scripted", dimensions: int = 64, quick: int = 1000) -> None:  # noqa: A002
        self.id = id
        self.dimensions = dimensions
        self.quick = quick
        self.seen: list[str] = []
        self._trouble: str | None = None
        self._held = Event()
        self._open = Event()
        self._open.set()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        self.seen.extend(texts)
        self._held.set()
        if not self._open.wait(PATIENCE_S) or self._trouble is not None:
            raise ModelFailed(self._trouble or "The scripted model was never let go.")
        rows = [word_vector(text, self.dimensions) for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), self.dimensions)

    def fail(self, reason: str = "The scripted model fails.") -> None:
        """Fail from now on, with this reason."""
        self._trouble = reason

    def hang(self) -> None:
        """Do not answer until `heal`."""
        self._held.clear()
        self._open.clear()

    def wait_until_asked(self) -> None:
        """Wait until somebody waits for an answer, after `hang`."""
        if not self._held.wait(PATIENCE_S):
            raise TimeoutError("nobody asked the model")

    def heal(self) -> None:
        """Answer again."""
        self._trouble = None
        self._open.set()


def word_vector(text: str, dimensions: int) -> list[float]:
    """A unit vector that every word of a text, by its hash, moves to one side; zeros if there is no word."""
    sums = [0.0] * dimensions
    for word in text.lower().split():
        digest = hashlib.blake2b(word.strip(".,;:!?").encode(errors="replace"), digest_size=16).digest()
        for place in struct.unpack("<4I", digest):
            sums[place % dimensions] += 1.0 if place & 1 << 31 else -1.0
    length = sum(number * number for number in sums) ** 0.5
    return [number / length for number in sums] if length else sums


# -- a server of embeddings ----------------------------------------------------------------------------------------------

Answer = Literal["normal", "wrong_dimension", "error", "busy", "garbage", "half", "hang", "drip"]


class EmbeddingRequest(NamedTuple):
    """What the server was asked: the headers, in small letters, and the body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class EmbeddingServer:
    """An OpenAI-compatible embeddings server on 127.0.0.1, in a thread: `with EmbeddingServer() as server:`.

    How it answers may be changed at any time: `server.answer = "hang"`, `server.dimensions = 48`, or any body at all by
    `server.body`. `wrong_dimension` gives the last vector of an answer a number too many, `half` breaks off, `drip` sends a
    byte now and then and never ends.
    """

    def __init__(self, dimensions: int = 32, *, keep_alive: bool = False) -> None:
        self.dimensions = dimensions
        self.answer: Answer = "normal"
        self.body: bytes | None = None
        self.requests: list[EmbeddingRequest] = []
        self.connections = 0
        self.closing = Event()
        self.lock = Lock()
        handler = type("Handler", (_Embeddings,), {"script": self, "protocol_version": f"HTTP/1.{int(keep_alive)}"})
        self._server = _Quiet(("127.0.0.1", 0), handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), name="embedding-server", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        """Every text that it was asked to embed."""
        return [text for request in self.requests for text in request.body["input"]]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle here; that is what is tested."""


class _Embeddings(BaseHTTPRequestHandler):
    """One connection."""

    script: EmbeddingServer

    def setup(self) -> None:
        super().setup()
        with self.script.lock:
            self.script.connections += 1

    def finish(self) -> None:
        with self.script.lock:
            self.script.connections -= 1
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as it is named there
        """Nothing is printed."""

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
