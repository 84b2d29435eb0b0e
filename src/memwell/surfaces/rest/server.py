"""The ASGI application: operations at their routes, and the fixed pages beside them.

A request is read on the event loop, up to a counted limit, and carried out in a thread. Operations that may wait for long have
their own threads, and so has authentication, so that neither waits behind other work. Waiting for a run holds no thread.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.types import Receive, Scope, Send

from ...config import Config
from ...core.access import Authenticator, Principal
from ...core.dispatch import dispatch
from ...core.engine import Engine
from ...core.operation import Operation
from ...errors import Forbidden, Invalid, MemwellError, NotAllowed, Unavailable
from ...model.fields import NONE
from ...registry import OPERATIONS
from ...workflows.live_runs import runs_of
from . import files, replies
from .pages import EventBridge, Metrics, build_pages
from .replies import TimeLimit, read_body
from .runs import RunRequests
from .threads import ThreadPool


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
        """The operations at a path by method, and the values of its fields."""
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


log = logging.getLogger("memwell.rest")

T = TypeVar("T")

THREADS = 32
AUTH_THREADS = 8
MAX_PENDING = 512
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)
_STOPPED = "The server is being stopped. The request may still be done: check before you repeat it."


class HttpRequest(NamedTuple):
    """An authenticated request for an operation."""

    principal: Principal
    operation: Operation
    values: list[str]
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes

    def data(self) -> dict[str, Any]:
        """The fields of the request. Those of the path win over those of the query or the body."""
        if files.is_file(self.operation, self.query, self.headers):
            data = files.read_fields(self.operation, _parse_query(self.query, self.operation), self.headers, self.body)
        else:
            data = self._read_fields()
        data.update(zip(self.operation.path_fields, self.values, strict=True))
        if self.operation.writes and (b"if-match" in self.headers or b"if-none-match" in self.headers):
            version = self._version()
            if data.setdefault("if_match", version) != version:
                raise Invalid("`if_match` differs from the header: give one of them.", field="if_match")
        return data

    def _read_fields(self) -> dict[str, Any]:
        """Read the fields from the query or the body. Reject fields sent where they would be ignored."""
        if self.operation.method not in ("GET", "DELETE"):
            if self.query:
                raise Invalid("Send the fields of this request as JSON in the body, not in the query string.")
            return _parse_body(self.body)
        if self.body.strip() not in (b"", b"{}"):
            raise Invalid(f"Send the fields of a {self.operation.method} in the query string, not in a body.")
        return _parse_query(self.query, self.operation)

    def _version(self) -> str:
        """The version in the headers. Reject it where it would be ignored."""
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
        self.bridges: set[EventBridge] = set()
        self._router = Router(OPERATIONS.values())
        self._pages = build_pages(self)
        self._quick: ThreadPool[Any] = ThreadPool(THREADS, "memwell-request")
        self._patient: ThreadPool[Any] = ThreadPool(THREADS, "memwell-wait")
        self._auth_threads: ThreadPool[Principal] = ThreadPool(AUTH_THREADS, "memwell-auth")
        self._run_requests = RunRequests(self)
        self._upload_requests = files.UploadRequests(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            found = self._router.find(scope["raw_path"]) if scope["type"] == "http" else None
        except UnicodeDecodeError:
            return await replies.deliver(send, replies.failure(Invalid("The address is not valid UTF-8.")))
        if found is None:
            return await self._pages(scope, receive, send)
        started = time.perf_counter()
        methods, values = found
        operation = methods.get(scope["method"])
        if operation is None:
            allowed = ", ".join(sorted(methods))
            error = NotAllowed(f"{scope['method']} is not possible here; {allowed} is.", allowed=allowed)
            status, body, _ = replies.failure(error)
            return await replies.deliver(send, (status, body, [(b"allow", allowed.encode())]))
        reply = await self._reply(operation, values, scope, receive)
        await replies.deliver(send, reply)
        self.metrics.record(operation.name, reply[0], time.perf_counter() - started)
        return None

    async def principal(self, headers: dict[bytes, bytes], *, counted: bool = True) -> Principal:
        """Authenticate the request by its key, before its body is read."""
        if not self.auth:
            _check_loopback(headers)
            return self._with_base_url(Principal(self.config.tenant, "operator", "local"), headers)
        secret = _read_key(headers)
        principal = self.authenticator.admit_cached(secret, counted=counted)
        if principal is None:
            principal = await self._auth_threads.run(lambda: self.authenticator.admit(secret, counted=counted))
        return self._with_base_url(principal, headers)

    def _with_base_url(self, principal: Principal, headers: dict[bytes, bytes]) -> Principal:
        """Add the base address for links: from the settings, or from the request."""
        host = headers.get(b"host", b"").decode("latin-1")
        base = self.config.url.rstrip("/") or (f"http://{host}" if _HOST.fullmatch(host) else "")
        return msgspec.structs.replace(principal, base=base)

    async def _reply(self, operation: Operation, values: list[str], scope: Scope, receive: Receive) -> replies.Reply:
        factor = files.UPLOAD_TIME_FACTOR if operation.carries else 1.0
        limit = TimeLimit(self.config.request_timeout_s * factor, operation)
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            principal = await self.principal(headers)
            request = HttpRequest(principal, operation, values, scope["query_string"], headers, b"")
            if operation.carries is not None:
                return await self._upload_requests.answer(request, receive)
            request = request._replace(body=await read_body(receive, headers, self.config.max_body))
            handler = self._run_requests.find_handler(operation)
            if handler is not None:
                return await handler(request, limit)
            return await self.in_thread(lambda: self.perform(request), patient=operation.patient)
        except asyncio.CancelledError as error:
            if limit.has_caused(error):
                return replies.failure(limit.answer)
            if self.stopping.is_set():  # the grace period is over
                return replies.failure(Unavailable(_STOPPED))
            raise
        except Exception as error:  # noqa: BLE001 -- it is logged
            return _to_failure(operation, error)
        finally:
            limit.lift()

    def in_thread(self, work: Callable[[], T], *, patient: bool) -> asyncio.Future[T]:
        """Start work in a thread; `patient` work may wait for seconds."""
        threads = self._patient if patient else self._quick
        if threads.pending >= MAX_PENDING:
            raise Unavailable("Too many requests are being processed: try again in a moment.")
        return threads.run(work)

    def perform(self, request: HttpRequest) -> replies.Reply:
        operation = request.operation
        strict = operation.method not in ("GET", "DELETE")
        return self.reply_to(
            operation,
            lambda: dispatch(
                self.engine, request.principal, operation, request.data(), key=request.idempotency_key(), strict=strict
            ),
        )

    def reply_to(self, operation: Operation, work: Callable[[], Any]) -> replies.Reply:
        """Do work and return its result or error as a reply. Errors are logged even if the client has left."""
        try:
            return replies.success(operation, work())
        except Exception as error:  # noqa: BLE001 -- it is logged
            return _to_failure(operation, error)

    def close(self) -> None:
        """End everything. Runs are interrupted first, because the rest may take longer than the grace period."""
        for bridge in self.bridges:
            bridge.join()
        runs_of(self.engine).interrupt()
        for threads in (self._auth_threads, self._quick, self._patient):
            threads.close()
        self.engine.close()


def _to_failure(operation: Operation, error: Exception) -> replies.Reply:
    if not isinstance(error, MemwellError):
        extra = {"operation": operation.name, "error": type(error).__name__}
        log.error("request.crashed", exc_info=error, extra=extra)
        return replies.failure(MemwellError())
    if error.status >= 500:
        log.warning("request.failed", extra={"operation": operation.name, "code": error.code})
    return replies.failure(error)


def _parse_query(query: bytes, operation: Operation) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = dict(
            parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=50, errors="strict")
        )
    except ValueError:
        raise Invalid("The query string is not valid.") from None
    for name in operation.json_fields & fields.keys():
        try:
            fields[name] = msgspec.json.decode(fields[name])
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid(f"`{name}` must be JSON: {error}.", field=name) from None
    return fields


def _parse_body(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        data = msgspec.json.decode(body)
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Invalid(f"The body is not valid JSON: {error}.") from None
    if not isinstance(data, dict):
        raise Invalid("The body must be a JSON object.")
    return data


def _read_key(headers: dict[bytes, bytes]) -> str | None:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers[b"x-api-key"].decode("latin-1").strip() if b"x-api-key" in headers else None


def _check_loopback(headers: dict[bytes, bytes]) -> None:
    """Without keys, allow only programs of this machine: no page of another origin, and no rebound host name."""
    host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
    origin = headers.get(b"origin", b"").decode("latin-1")
    from_elsewhere = bool(origin) and origin.split("://")[-1].rsplit(":", 1)[0] not in LOOPBACK
    if host not in LOOPBACK or from_elsewhere:
        raise Forbidden("Without keys, only requests from this machine to its own address are answered.")
