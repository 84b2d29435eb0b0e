"""Connections: how many may be open, and what a client may send, and how slowly, before its request is known.

The parser of HTTP keeps a head in memory and joins its pieces, so a head has a limit in bytes, headers and seconds. A client that
does not read its answers or sends a body that nobody reads is cut off. If there are too many connections, the one that has waited
longest without a request makes room.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ...errors import Invalid, MemwellError, TooLarge, Unavailable
from .responses import to_failure

HEAD_BYTES = 1 << 16
HEADERS = 100
HEAD_S = 10
CHUNKS, CHUNK_BYTES = 10_000, 64
"""A chunked body has at most this many chunks, and one more for each so many bytes: the parser calls us for each of them."""
DRAIN_BYTES = 1 << 26
DRAIN_S, DRAIN_PAUSE_S = 5, 0.005
STALL_S = 30
PIPELINED = 64
MAX_CONNECTIONS = 4096
DESCRIPTORS = 1 << 16
SWEEP_S = 1.0
_HEAD_PIECE = 1 << 12
_BODY_PIECE = 1 << 16


def count_allowed() -> int:
    """Return how many connections a process may have: half of its descriptors. Raise the soft limit of these first."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    best = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < best:
        resource.setrlimit(resource.RLIMIT_NOFILE, (best, hard))
        soft = best
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(soft // 2, MAX_CONNECTIONS)


class Connections:
    """The open connections of a process. One address may have half of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[Connection, None] = {}
        self.draining: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Add a connection. If there are too many, close the one that has waited longest, or return False."""
        address = connection.address
        own = self._by_address[address] >= max(self.limit // 2, 1)
        if own or len(self._open) >= self.limit:
            oldest = next((other for other in self._waiting if not own or other.address == address), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.transport.abort()
        self._open.add(connection)
        self._by_address[address] += 1
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(SWEEP_S, self._sweep, connection.loop)
        return True

    def remove(self, connection: Connection) -> None:
        if connection in self._open:
            self._open.discard(connection)
            self.draining.discard(connection)
            self._waiting.pop(connection, None)
            self._by_address[connection.address] -= 1
            if not self._by_address[connection.address]:
                del self._by_address[connection.address]

    def note_waiting(self, connection: Connection) -> None:
        """Note that a connection waits for a request, from now on."""
        if connection in self._open:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def note_busy(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            connection.check_time(now)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if self._open else None


class Refused(Exception):
    """Tells the parser to stop."""


class Connection(HttpToolsProtocol):
    """One connection: uvicorn's protocol with limits."""

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._connections = connections
        self.address = ""
        self._in_body = False
        self._unparsed = 0
        """Bytes since the parser last completed a head or found a piece of a body."""
        self._chunks = 0
        self._body_bytes = 0
        self._head_since: float | None = None
        """The time since which a head is expected."""
        self._drains_until: float | None = None
        """The time by which the client must have sent what nobody will read."""
        self._drained = 0
        self._refusal: MemwellError | None = None
        self._stall: tuple[float, int] | None = None
        """The time since which the client reads nothing, and how much is to be sent."""

    # -- from the network

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self._connections.admit(self):
            self._expect_head()
        else:
            transport.write(_encode(Unavailable("Too many connections are open: try again in a moment.")))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._drains_until is not None:
            self._count_drained(len(data))
        place = 0
        while place < len(data) and not self.transport.is_closing():
            piece = data[place : place + (_BODY_PIECE if self._in_body else _HEAD_PIECE)]
            place += len(piece)
            if self._refusal is not None:
                break
            self._unparsed += len(piece)
            super().data_received(piece)
            if self._unparsed > HEAD_BYTES and self._refusal is None:
                self._refuse(TooLarge(f"The head of the request is larger than {HEAD_BYTES} bytes.", limit=HEAD_BYTES))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = (self.loop.time(), self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall = None

    # -- from the parser

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            self._stop(Unavailable(f"More than {PIPELINED} requests wait on one connection."))
        if self._head_since is None:
            self._head_since = self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEADERS:
            self._stop(TooLarge(f"The request has more than {HEADERS} headers.", limit=HEADERS))

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self._in_body = True
        self._chunks = self._body_bytes = 0
        self._head_since = None
        self._connections.note_busy(self)
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > CHUNKS + self._body_bytes // CHUNK_BYTES:
            self._stop(Invalid("The body comes in too many tiny chunks: send larger ones, or a Content-Length."))

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._in_body = False
        super().on_message_complete()
        if self.cycle.response_complete:  # the rest of a body that nobody read
            self._end_drain()
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.cycle.response_complete:  # the next request has begun
            if self._refusal is not None:
                self.flow.pause_reading()
            return
        if self._refusal is not None:
            self._send_refusal(self._refusal)
        elif self._in_body:
            self._drain()
        else:
            self._expect_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or what `_stop` refused."""
        self._refuse(self._refusal or Invalid("The request is not valid HTTP."))

    # -- limits

    def check_time(self, now: float) -> None:
        """Close the connection if the client takes too long."""
        if self._head_since is not None and now - self._head_since > HEAD_S:
            self.transport.close()
        if self._drains_until is not None and now > self._drains_until:
            self.transport.abort()
        if self._stall is not None:
            since, size = self._stall
            rest = self.transport.get_write_buffer_size()
            if rest < size:
                self._stall = (now, rest)
            elif now - since > STALL_S:
                self.transport.abort()

    def _expect_head(self) -> None:
        self._head_since = self.loop.time()
        self._connections.note_waiting(self)

    def _stop(self, refusal: MemwellError) -> None:
        """End the parser's work on what was received. `send_400_response` follows."""
        self._refusal = refusal
        raise Refused

    def _refuse(self, error: MemwellError) -> None:
        """Parse no more, and answer with an error when the requests before it are answered."""
        self._refusal = error
        self._head_since = None
        is_done = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]
        if self._drains_until is not None:
            self.transport.abort()
        elif is_done:
            self._send_refusal(error)
        elif not self._in_body:
            self.flow.pause_reading()
        elif self.pipeline or self.cycle.response_started:
            self.transport.abort()
        else:
            self.cycle.disconnected = True  # its own answer is dropped
            self.cycle.message_event.set()
            self._send_refusal(error)

    def _send_refusal(self, error: MemwellError) -> None:
        """Send the last answer. The client may finish sending first: if it were cut off, it would not see the answer."""
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.transport.write(_encode(error))
            self.transport.write_eof()
            self._drain()

    def _drain(self) -> None:
        """Read and drop what the client still sends, slowly and for some time."""
        self._drains_until = self.loop.time() + DRAIN_S
        self._connections.draining.add(self)
        self._drained = 0
        self._connections.note_waiting(self)

    def _end_drain(self) -> None:
        self._drains_until = None
        self._connections.draining.discard(self)

    def _count_drained(self, size: int) -> None:
        self._drained += size
        if self._drained > DRAIN_BYTES:
            self.transport.abort()
        else:
            self.flow.pause_reading()
            self.loop.call_later(DRAIN_PAUSE_S * len(self._connections.draining), self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()


def _encode(error: MemwellError) -> bytes:
    """Return a whole response with an error, as bytes."""
    reply = to_failure(error)
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if isinstance(error, TooLarge) else HTTPStatus(reply.status)
    headers = [*reply.all_headers(), (b"connection", b"close")]
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), *(b"%s: %s" % header for header in headers), b"", b""]
    return b"\r\n".join(lines) + reply.body
