"""The fixed pages beside the operations: health, metrics, the description of the API, and the live stream of events."""

from __future__ import annotations

import asyncio
import html
import logging
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from functools import cache
from threading import Event as Flag
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ...core.access import Principal
from ...core.engine import Engine
from ...core.events import Event, watch
from ...errors import Forbidden, MemwellError, NotFound, StorageError, Unauthenticated, Unavailable
from ...registry import OPERATIONS
from ...version import __version__
from . import files, openapi, replies
from .runs import RunStream, parse_event_id

if TYPE_CHECKING:
    from .server import Server

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters for Prometheus by operation and status, never by tenant. Only the event loop uses them, so they need no lock."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))

    def record(self, operation: str, status: int, seconds: float) -> None:
        place = bisect_left(BUCKETS, seconds)
        self._requests[operation, status] += 1
        self._seconds[operation] += seconds
        self._buckets[operation][place] += 1

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        lines = [
            "# HELP memwell_requests_total Requests by operation and status.",
            "# TYPE memwell_requests_total counter",
            *(
                f'memwell_requests_total{{operation="{name}",status="{status}"}} {count}'
                for (name, status), count in sorted(self._requests.items())
            ),
            "# HELP memwell_request_seconds Duration of requests.",
            "# TYPE memwell_request_seconds histogram",
        ]
        for name in sorted(self._buckets):
            lines += self._histogram(name)
        for name, (text, value) in gauges.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets[name], strict=True):
            total += count
            lines.append(f'memwell_request_seconds_bucket{{operation="{name}",le="{bound}"}} {total}')
        lines.append(f'memwell_request_seconds_sum{{operation="{name}"}} {self._seconds[name]:.6f}')
        lines.append(f'memwell_request_seconds_count{{operation="{name}"}} {total}')
        return lines


log = logging.getLogger("memwell.rest")

QUEUE = 100
CHECK_EVERY_S = 0.5


class EventsEnd:
    """The last item, if the events end before the stream."""


class EventBridge:
    """A thread that waits for events of the engine and passes them to a stream on the event loop. It ends within half a second of
    `stop`."""

    def __init__(self, engine: Engine, principal: Principal, after: int | None) -> None:
        self._queue: asyncio.Queue[Event | EventsEnd | None] = asyncio.Queue()
        self._room = Semaphore(QUEUE)
        self._loop = asyncio.get_running_loop()
        self._stopped = Flag()
        self._thread = Thread(target=self._run, args=(engine, principal, after), name="memwell-events", daemon=True)
        self._thread.start()

    async def get(self) -> Event | EventsEnd | None:
        """The next event; None if there was none for a while."""
        event = await self._queue.get()
        self._room.release()
        return event

    def stop(self) -> None:
        self._stopped.set()

    def join(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self, engine: Engine, principal: Principal, after: int | None) -> None:
        try:
            for event in watch(engine, principal, after):
                if not self._put(event):
                    return
        except MemwellError as error:
            log.warning("events.failed", extra={"code": error.code})
            self._put(EventsEnd())

    def _put(self, event: Event | EventsEnd | None) -> bool:
        """Pass an event on when there is room; return False if the stream has ended."""
        while not self._room.acquire(timeout=CHECK_EVERY_S):
            if self._stopped.is_set():
                return False
        if self._stopped.is_set():
            return False
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
        except RuntimeError:  # the event loop has ended
            return False
        return True


MAX_STREAMS = 64
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}

PUBLIC = ("/", "/health", "/ready", "/metrics", "/openapi.json", "/docs")
"""Pages without a key. They contain nothing about tenants."""
SIGNED = (files.DOWNLOAD_PATH,)
"""Pages whose address is itself a key."""


def build_pages(server: Server) -> Starlette:
    from ..mcp.http import Endpoint  # here, because it imports the server

    fixed = _Pages(server)
    return Starlette(
        routes=[
            Route("/", lambda request: RedirectResponse("/docs")),
            Route("/health", fixed.health),
            Route("/ready", fixed.ready),
            Route("/metrics", fixed.metrics),
            Route("/openapi.json", fixed.openapi),
            Route("/docs", fixed.docs),
            Route("/v1/events", fixed.events),
            Route("/v1/runs/{run}/stream", RunStream(server).page),
            Route(files.DOWNLOAD_PATH, files.Downloads(server).page),
            Route("/mcp", Endpoint(server)),
        ],
        exception_handlers={404: _answer_not_found, 405: _answer_not_found, MemwellError: _answer_error},
    )


class _Pages:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def health(self, request: Request) -> Response:
        """Answer as long as the process runs."""
        return _json({"status": "ok", "version": __version__, "storage": self._server.engine.store.describe()})

    async def ready(self, request: Request) -> Response:
        """Answer if the storage does and the server is not being stopped."""
        if self._server.stopping.is_set():
            raise Unavailable("The server is being stopped.")
        await asyncio.to_thread(self._server.engine.store.control.rows, "next_hint")
        return _json({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        worker = self._server.engine.worker.running
        gauges = {
            "memwell_worker_running": ("1 if this process runs background jobs.", float(worker)),
            "memwell_event_streams": ("Open streams of events.", float(len(self._server.bridges))),
        }
        return PlainTextResponse(self._server.metrics.render(gauges), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return Response(openapi_bytes(), media_type="application/json", headers=_HEADERS)

    async def docs(self, request: Request) -> Response:
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        return HTMLResponse(docs_page(), headers={**_HEADERS, "content-security-policy": policy})

    async def events(self, request: Request) -> Response:
        """Send server-sent events. `Last-Event-ID` resumes after that write; `flow`, `user` and `session` are filters."""
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        principal = await self._server.principal(headers)
        if not principal.may("reader"):
            raise Forbidden
        if len(self._server.bridges) >= MAX_STREAMS:
            raise Unavailable("Too many streams are open.")
        after = parse_event_id(request.headers.get("last-event-id"))
        stream = self._stream(headers, principal, after, dict(request.query_params))
        return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)

    async def _stream(
        self, headers: dict[bytes, bytes], principal: Principal, after: int | None, filters: dict[str, str]
    ) -> AsyncIterator[bytes]:
        bridge = EventBridge(self._server.engine, principal, after)
        self._server.bridges.add(bridge)
        try:
            while not self._server.stopping.is_set():
                event = await bridge.get()
                if isinstance(event, EventsEnd) or not await self._is_admitted(headers):
                    return
                if event is None:
                    yield b": \n\n"
                elif _matches(event, filters):
                    yield _frame(event)
        finally:
            bridge.stop()
            self._server.bridges.discard(bridge)

    async def _is_admitted(self, headers: dict[bytes, bytes]) -> bool:
        """Return False when the key was revoked or cannot be checked. The whole stream counts as one request."""
        try:
            await self._server.principal(headers, counted=False)
        except (Unauthenticated, StorageError):
            return False
        return True


def _frame(event: Event) -> bytes:
    number = b"" if event.seq is None else f"id: {event.seq}\n".encode()
    return number + b"event: " + event.effect.encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


def _matches(event: Event, filters: dict[str, str]) -> bool:
    for dialect in ("flow", "user"):
        if dialect in filters and (event.dialect, event.name) != (dialect, filters[dialect]):
            return False
    return "session" not in filters or event.session == filters["session"]


async def _answer_not_found(request: Request, error: Exception) -> Response:
    return await _answer_error(request, NotFound("There is no such page; /docs lists them."))


async def _answer_error(request: Request, error: Exception) -> Response:
    status, body, headers = replies.failure(error if isinstance(error, MemwellError) else MemwellError())
    named = {key.decode(): value.decode() for key, value in headers}
    return Response(body, status, media_type="application/json", headers={**_HEADERS, **named})


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers=_HEADERS)


@cache
def openapi_bytes() -> bytes:
    return msgspec.json.encode(openapi.build_document(OPERATIONS.values()))


@cache
def docs_page() -> str:
    """The API on one page, without scripts or external resources."""
    sections = "".join(_render_section(name) for name in OPERATIONS)
    links = "".join(f'<li><a href="#{name}"><code>{name}</code></a></li>' for name in OPERATIONS)
    return _PAGE.format(version=__version__, links=links, sections=sections)


def _render_section(name: str) -> str:
    operation = OPERATIONS[name]
    fields = "".join(
        f"<tr><td><code>{html.escape(field.name)}</code></td><td>{_render_text(field.type)}</td>"
        f"<td>{'required' if field.required else ''}</td><td>{_render_text(field.description)}</td></tr>"
        for field in openapi.list_fields(operation)
    )
    table = f"<table>{fields}</table>" if fields else ""
    return (
        f'<section id="{name}"><h2>{name}</h2><p>{_render_text(operation.summary)}</p>'
        f"<pre>{operation.method} {html.escape(operation.path)}</pre>{table}"
        f"<p>Example</p><pre>{html.escape(openapi.render_curl(operation))}</pre>"
        f"<p>Role <code>{operation.role}</code>, answers with status {operation.status}.</p></section>"
    )


def _render_text(text: str) -> str:
    """A text of ours as HTML, with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Memwell API</title>
<meta name="viewport" content="width=device-width"><style>
body{{font:16px/1.5 system-ui,sans-serif;margin:0;display:flex;color:#1d2433;background:#fff}}
nav{{width:16rem;flex-shrink:0;font-size:.85em;height:100vh;overflow:auto;position:sticky;top:0;background:#f4f6fa;padding:1rem;box-sizing:border-box}}
nav ul{{list-style:none;padding:0}} main{{padding:1rem 2.5rem;max-width:56rem;min-width:0}}
a{{color:#1f5fbf;text-decoration:none}} section{{border-top:1px solid #dde3ee;padding:1rem 0}} h2{{margin:.3rem 0}}
pre{{background:#f4f6fa;padding:.7rem;overflow:auto;border-radius:6px}} table{{border-collapse:collapse;width:100%}}
td{{border-bottom:1px solid #e8ecf4;padding:.35rem .7rem .35rem 0;vertical-align:top}}
@media(prefers-color-scheme:dark){{body{{background:#12161f;color:#dfe5f0}}nav,pre{{background:#1b2230}}a{{color:#7fb2ff}}
section,td{{border-color:#2a3346}}}} @media(max-width:50rem){{body{{display:block}}nav{{width:auto;height:auto;position:static}}}}
</style><nav><strong>Memwell {version}</strong><ul>{links}</ul></nav><main><h1>Memwell API</h1>
<p>Send your key as <code>Authorization: Bearer mw_…</code>. A write may carry an <code>Idempotency-Key</code>: the same
request with the same key is done once. Where <code>if_match</code> is a text, the headers
<code>If-Match</code> and <code>If-None-Match: *</code> say the same. The machine-readable form is
<a href="/openapi.json">/openapi.json</a>;
<code>GET /v1/events</code> streams every read and write as it happens, <code>GET /v1/runs/RUN/stream</code> what happens in a
run of a workflow. Errors are
<code>{{"error": {{"code", "message", "details"}}}}</code>; the message says what to do.</p>{sections}</main></html>"""
