"""The ASGI application: operations at their routes, and fixed pages.

The event loop reads a request, and a thread carries it out. Operations that may take long, large bodies and authentication have
their own threads, so that quick work does not queue behind them, and tenants take turns. A request that waits for a run or a job
holds no thread.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...config import Config
from ...core.access import Authenticator, Principal, require_role
from ...core.dispatch import Pending, dispatch
from ...core.engine import Engine
from ...core.operation import Operation
from ...errors import Invalid, MemwellError, NotAllowed, NotFound, Unavailable, WrongType
from ...jobs.queue import StoredJob
from ...model.fields import NONE
from ...registry import OPERATIONS
from ...version import __version__
from ..mcp.endpoint import Endpoint
from . import file_transfer, openapi
from .limits import (
    LARGE_BODY,
    LARGE_BYTES,
    LARGE_KEY_BYTES,
    LARGE_TENANT_BYTES,
    LARGE_THREADS,
    ByteBudget,
    ThreadPool,
    TimeLimit,
    check_values,
    decode_json,
    largest_body,
    read_body,
    release_memory,
)
from .origin import check_origin, read_headers
from .responses import SAFE_HEADERS, Reply, log_failure, to_failure, to_success
from .streams import RUN_OPERATIONS, EventStream, RunStream, answer_run_request, find_runs

T = TypeVar("T")

THREADS, TENANT_THREADS, TENANT_PATIENT_THREADS = 32, 24, 8
AUTH_THREADS = 8
RELEASE_S = 0.5
"""Time after large bodies, and between two times that freed memory is returned to the system."""
MAX_PENDING = 512
"""Requests of a tenant that are processed or wait for a thread."""
WAITS_PER_POLL = 200
"""With more requests than this waiting for jobs, each looks less often than every second."""
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)


class Router:
    """A tree of path segments; None stands for the value of a field. Segments are decoded one by one, so that an id
    can contain a slash."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root: dict[str | None, object] = {}
        for operation in operations:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                name = None if segment.startswith("{") else segment
                node = node.setdefault(name, {})  # type: ignore[assignment]
            methods: dict[str, Operation] = node.setdefault("", {})  # type: ignore[assignment]
            methods[operation.method] = operation

    def find(self, raw_path: bytes) -> tuple[dict[str, Operation], list[str]] | None:
        """Return the operations at a path by method, and the values of its fields."""
        node = self._root
        values: list[str] = []
        path = raw_path.decode("ascii", "replace")
        encoded = "%" in path
        for raw in path.partition("?")[0].strip("/").split("/"):
            segment = unquote(raw, errors="strict") if encoded else raw
            following = node.get(segment) if raw else None
            if following is None:
                following = node.get(None) if raw else None
                values.append(segment)
            if following is None:
                return None
            node = following  # type: ignore[assignment]
        methods: dict[str, Operation] | None = node.get("")  # type: ignore[assignment]
        return None if methods is None else (methods, values)


class HttpRequest(NamedTuple):
    """An authenticated request for an operation."""

    principal: Principal
    operation: Operation
    values: list[str]
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes

    def data(self) -> dict[str, Any]:
        """Return the fields of the request. The path overrides the query and the body."""
        if file_transfer.is_file(self.operation, self.query, self.headers):
            data = file_transfer.read_fields(self.operation, self._parse_query(), self.headers, self.body)
        elif self.operation.method not in ("GET", "DELETE"):
            if self.query:
                raise Invalid("Send the fields of this request as JSON in the body, not in the query string.")
            if self.body and not file_transfer.is_json(self.headers):
                raise WrongType("Send the fields of this request as JSON, with the Content-Type `application/json`.")
            data = self._parse_body()
        else:
            if self.body.strip() not in (b"", b"{}"):
                raise Invalid(f"Send the fields of a {self.operation.method} in the query string, not in a body.")
            data = self._parse_query()
        data.update(zip(self.operation.path_fields, self.values, strict=True))
        if self.operation.writes and (b"if-match" in self.headers or b"if-none-match" in self.headers):
            version = self._version()
            if data.setdefault("if_match", version) != version:
                raise Invalid("`if_match` differs from the header: give one of them.", field="if_match")
        return data

    def _parse_query(self) -> dict[str, Any]:
        try:
            fields: dict[str, Any] = dict(
                parse_qsl(self.query.decode("ascii"), keep_blank_values=True, max_num_fields=50, errors="strict")
            )
        except ValueError:
            raise Invalid("The query string is not valid.") from None
        for name in self.operation.json_fields & fields.keys():
            try:
                fields[name] = msgspec.json.decode(fields[name])
            except (msgspec.DecodeError, RecursionError) as error:
                raise Invalid(f"`{name}` must be JSON: {error}.", field=name) from None
        return fields

    def _parse_body(self) -> dict[str, Any]:
        data = decode_json(self.body)
        if not isinstance(data, dict):
            raise Invalid("The body must be a JSON object.")
        return data

    def _version(self) -> str:
        """Return the version in the headers. Raise if the operation would ignore it."""
        match, none_match = self.headers.get(b"if-match"), self.headers.get(b"if-none-match")
        if not self.operation.by_version:
            raise Invalid("`If-Match` and `If-None-Match` are not supported here: omit them.")
        if none_match is None and match is not None:
            return match.decode("latin-1")
        if match is not None or none_match != b"*":
            raise Invalid("`If-None-Match` must be `*`, without `If-Match`: write only if nothing is there.")
        return NONE

    def idempotency_key(self) -> str | None:
        key = self.headers.get(b"idempotency-key") if self.operation.writes else None
        return None if key is None else key.decode("latin-1")


class Server:
    def __init__(self, engine: Engine, config: Config, *, auth: bool = True) -> None:
        self.engine = engine
        engine.links.embedded = False
        self.config = config
        self.auth = auth
        self.authenticator = Authenticator(engine.store.control, engine.clock, config.rate_limit)
        self.metrics = Metrics()
        self.stopping = asyncio.Event()
        self.events = EventStream(self)
        self._router = Router(OPERATIONS.values())
        self._pages = _build_pages(self)
        self._quick: ThreadPool[Any] = ThreadPool(
            THREADS, "memwell-request", share=TENANT_THREADS, most_pending=MAX_PENDING
        )
        self._patient: ThreadPool[Any] = ThreadPool(
            THREADS, "memwell-wait", share=TENANT_PATIENT_THREADS, most_pending=MAX_PENDING
        )
        self._large: ThreadPool[Any] = ThreadPool(LARGE_THREADS, "memwell-large", share=1, most_pending=MAX_PENDING)
        self._budget = ByteBudget(LARGE_BYTES, LARGE_TENANT_BYTES, LARGE_KEY_BYTES, self.release_memory_soon)
        self._release: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._auth_threads: ThreadPool[Principal] = ThreadPool(AUTH_THREADS, "memwell-auth")
        self._uploads = file_transfer.Uploads(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            found = self._router.find(scope["raw_path"]) if scope["type"] == "http" else None
        except UnicodeDecodeError:
            return await to_failure(Invalid("The address is not valid UTF-8."))(scope, receive, send)
        if found is None:
            return await self._pages(scope, receive, send)
        started = time.perf_counter()
        methods, values = found
        operation = methods.get(scope["method"])
        if operation is None:
            allowed = ", ".join(sorted(methods))
            error = NotAllowed(f"{scope['method']} is not possible here; {allowed} is.", allowed=allowed)
            return await to_failure(error)(scope, receive, send)
        reply = await self._reply(operation, values, scope, receive)
        await reply(scope, receive, send)
        self.metrics.record(operation.name, reply.status, time.perf_counter() - started)
        return None

    async def principal(self, headers: dict[bytes, bytes], *, counted: bool = True) -> Principal:
        """Authenticate the request by its key, before its body is read."""
        if not self.auth:
            check_origin(headers.items(), self.config.host, keys=False)
            principal = Principal(self.config.tenant, "operator", "local")
        else:
            secret = _read_key(headers)
            cached = self.authenticator.admit_cached(secret, counted=counted)
            principal = cached or await self._auth_threads.run(
                lambda: self.authenticator.admit(secret, counted=counted)
            )
        # The base address of links comes from the settings, or from the request.
        host = headers.get(b"host", b"").decode("latin-1")
        base = self.config.url.rstrip("/") or (f"http://{host}" if _HOST.fullmatch(host) else "")
        return msgspec.structs.replace(principal, base=base)

    async def _reply(self, operation: Operation, values: list[str], scope: Scope, receive: Receive) -> Reply:
        factor = file_transfer.UPLOAD_TIME_FACTOR if operation.carries else 1.0
        limit = TimeLimit(self.config.request_timeout_s * factor, operation)
        try:
            headers = read_headers(scope)
            principal = await self.principal(headers)
            request = HttpRequest(principal, operation, values, scope["query_string"], headers, b"")
            if operation.carries is not None:
                return await self._uploads.answer(request, receive)
            require_role(principal, operation)
            most = largest_body(operation, self.config.max_body)
            async with AsyncExitStack() as held:
                body = await self.read_body(principal, receive, headers, most, held)
                return await self._answer(request._replace(body=body), limit)
        except asyncio.CancelledError as error:
            if limit.has_caused(error):
                return limit.answer
            if self.stopping.is_set():  # the grace period is over
                advice = "The request may still be done: check before you repeat it."
                return to_failure(Unavailable(f"The server is being stopped. {advice}"))
            raise
        except Exception as error:  # noqa: BLE001 -- it is logged
            return log_failure(operation, error)
        finally:
            limit.lift()

    async def read_body(
        self, principal: Principal, receive: Receive, headers: dict[bytes, bytes], limit: int, held: AsyncExitStack
    ) -> bytes:
        """Read a body up to a limit. A large one has its share of memory until `held` is closed."""

        async def when_large(size: int) -> None:
            await held.enter_async_context(self._budget.hold(principal.tenant, principal.actor, size))

        return await read_body(receive, headers, limit, when_large)

    def release_memory_soon(self) -> None:
        """Release the memory of large bodies when the requests that still refer to them have ended."""
        if self._release is None:
            self._release = asyncio.get_running_loop().call_later(RELEASE_S, self._release_memory)

    def _release_memory(self) -> None:
        self._release = None
        self._large.run(release_memory)

    async def check_values(self, body: bytes, limit: int, tenant: str) -> None:
        """Reject a body with too many values. A large one is not counted on the event loop."""
        if len(body) > LARGE_BODY:
            await self._large.run(lambda: check_values(body, limit), tenant)
        else:
            check_values(body, limit)

    async def _answer(self, request: HttpRequest, limit: TimeLimit) -> Reply:
        if request.operation.name in RUN_OPERATIONS:
            return await answer_run_request(self, request, limit)
        tenant = request.principal.tenant
        if len(request.body) > LARGE_BODY:
            answer = await self._large.run(lambda: self.perform(request), tenant)
        else:
            answer = await self.in_thread(lambda: self.perform(request), tenant, patient=request.operation.patient)
        return await self.complete(request.operation, tenant, answer)

    def in_thread(self, work: Callable[[], T], tenant: str, *, patient: bool) -> asyncio.Future[T]:
        """Start work of a tenant in a thread; `patient` work may take seconds."""
        return (self._patient if patient else self._quick).run(work, tenant)

    async def complete(self, operation: Operation, tenant: str, answer: Reply | Pending) -> Reply:
        """Return a reply. If it waits for a job, wait without holding a thread."""
        if isinstance(answer, Reply):
            return answer
        job = await self.wait_for_job(answer, tenant)
        return await self.in_thread(
            lambda: self.reply_to(operation, lambda: answer.complete(job)), tenant, patient=False
        )

    async def wait_for_job(self, pending: Pending, tenant: str) -> StoredJob | None:
        """Look at a job at growing intervals, until it has ended, the time is up, or the server is being stopped."""
        clock = asyncio.get_running_loop().time
        until, pause = clock() + pending.timeout_s, 0.005
        self._waiting += 1
        try:
            while True:
                job = await self.in_thread(pending.poll, tenant, patient=True)
                left = until - clock()
                if job is None or job.is_over or left <= 0 or self.stopping.is_set():
                    return job
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stopping.wait(), min(pause, left))
                pause = min(pause * 1.5, max(0.25, self._waiting / WAITS_PER_POLL))
        finally:
            self._waiting -= 1

    def perform(self, request: HttpRequest) -> Reply | Pending:
        """Return the reply to a request, or the rest of a call that waits for a job."""
        operation, strict = request.operation, request.operation.method not in ("GET", "DELETE")
        try:
            result = dispatch(
                self.engine,
                request.principal,
                operation,
                request.data(),
                key=request.idempotency_key(),
                strict=strict,
                wait=False,
            )
            return result if isinstance(result, Pending) else to_success(operation, result)
        except Exception as error:  # noqa: BLE001 -- it is logged
            return log_failure(operation, error)

    def reply_to(self, operation: Operation, work: Callable[[], Any]) -> Reply:
        """Do work and return its result or error as a reply. Errors are logged even if the client has left."""
        try:
            return to_success(operation, work())
        except Exception as error:  # noqa: BLE001 -- it is logged
            return log_failure(operation, error)

    def close(self) -> None:
        """Stop all threads and close the engine. Interrupt runs first, because the rest may take longer than the grace period."""
        self.events.close()
        find_runs(self.engine).interrupt(self.engine)
        for threads in (self._auth_threads, self._quick, self._patient, self._large):
            threads.close()
        self.engine.close()


def _read_key(headers: dict[bytes, bytes]) -> str | None:
    if b"authorization" in headers and b"x-api-key" in headers:
        raise Invalid("The request has two keys: send either `Authorization` or `X-API-Key`.")
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers[b"x-api-key"].decode("latin-1").strip() if b"x-api-key" in headers else None


# -- pages


class Metrics:
    """Counters for Prometheus by operation and status, never by tenant. Only the event loop uses them, so they need no lock."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))

    def record(self, operation: str, status: int, seconds: float) -> None:
        self._requests[operation, status] += 1
        self._seconds[operation] += seconds
        self._buckets[operation][bisect_left(BUCKETS, seconds)] += 1

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
        for name, counts in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                total += count
                lines.append(f'memwell_request_seconds_bucket{{operation="{name}",le="{bound}"}} {total}')
            lines.append(f'memwell_request_seconds_sum{{operation="{name}"}} {self._seconds[name]:.6f}')
            lines.append(f'memwell_request_seconds_count{{operation="{name}"}} {total}')
        for name, (text, value) in gauges.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _build_pages(server: Server) -> Starlette:
    async def health(request: Request) -> Response:
        """Answer as long as the process runs."""
        return _json_page({"status": "ok", "version": __version__, "storage": server.engine.store.describe()})

    async def ready(request: Request) -> Response:
        """Answer if the storage does and the server is not being stopped."""
        if server.stopping.is_set():
            raise Unavailable("The server is being stopped.")
        await asyncio.to_thread(server.engine.store.control.rows, "next_hint")
        return _json_page({"status": "ready"})

    async def metrics(request: Request) -> Response:
        worker = server.engine.worker.running
        gauges = {
            "memwell_worker_running": ("1 if this process runs background jobs.", float(worker)),
            "memwell_event_streams": ("Open streams of events.", float(len(server.events.quota))),
        }
        text = server.metrics.render(gauges)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4", headers=SAFE_HEADERS)

    async def openapi_document(request: Request) -> Response:
        return Response(openapi.document_bytes(), media_type="application/json", headers=SAFE_HEADERS)

    async def docs(request: Request) -> Response:
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return HTMLResponse(openapi.docs_page(), headers={**SAFE_HEADERS, "content-security-policy": policy})

    return Starlette(
        routes=[
            Route("/", lambda request: RedirectResponse("/docs", headers=SAFE_HEADERS)),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", metrics),
            Route("/openapi.json", openapi_document),
            Route("/docs", docs),
            Route("/v1/events", server.events, methods=["GET"]),
            Route("/v1/runs/{run}/stream", RunStream(server), methods=["GET"]),
            Route(file_transfer.DOWNLOAD_PATH, file_transfer.Downloads(server), methods=["GET"]),
            Route("/mcp", Endpoint(server)),
        ],
        exception_handlers={404: _answer_not_found, 405: _answer_not_allowed, MemwellError: _answer_error},
    )


def _json_page(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers=SAFE_HEADERS)


async def _answer_not_found(request: Request, error: Exception) -> Any:
    return to_failure(NotFound("There is no such page; /docs lists them."))


async def _answer_not_allowed(request: Request, error: Any) -> Any:
    allowed = ", ".join(sorted(error.headers["Allow"].split(", ")))
    return to_failure(NotAllowed(f"{request.method} is not possible here; {allowed} is.", allowed=allowed))


async def _answer_error(request: Request, error: Exception) -> Any:
    return to_failure(error if isinstance(error, MemwellError) else MemwellError())
