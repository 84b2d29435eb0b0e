"""Finding the operation for a request. Segments are decoded one by one, so an id may hold a slash."""

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
from ...core.access import Doorman
from ...core.dispatch import dispatch
from ...core.engine import Engine
from ...core.operation import Operation
from ...errors import Forbidden, Invalid, MemwellError, NotAllowed, Unavailable
from ...model.fields import NONE
from ...model.principal import Principal
from ...registry import OPERATIONS
from ...workflows.runs import runs_of
from . import replies, uploads
from .pages import Metrics, Pump, pages
from .replies import TimeLimit, read_body
from .runs import RunRequests
from .threads import Threads
from .uploads import UploadRequests


class Router:
    """A tree of path segments; None stands for any segment, the value of a field."""

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


# -- The ASGI application: operations at their routes, and the fixed pages beside them.
#
# A request is read on the event loop, up to a counted limit, and carried out in a thread. Operations that may wait for long
# have threads of their own, so that they cannot hold up the others, and so has the door: whoever knocks never waits behind
# somebody's work. Whoever waits for a run holds no thread at all.


log = logging.getLogger("memwell.rest")

T = TypeVar("T")

THREADS = 32
DOOR_THREADS = 8
MAX_WAITING = 512
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?", re.ASCII)
_STOPPED = "The server is being stopped. The request may still be carried out: look before you repeat it."


class Sent(NamedTuple):
    """A request as it came in."""

    principal: Principal
    operation: Operation
    values: list[str]
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes

    def data(self) -> dict[str, Any]:
        """The fields of the request: those of the path win over those of the query or the body."""
        if uploads.is_file(self.operation, self.query, self.headers):
            data = uploads.fields(self.operation, _from_query(self.query, self.operation), self.headers, self.body)
        else:
            data = self._said()
        data.update(zip(self.operation.path_fields, self.values, strict=True))
        if self.operation.writes and (b"if-match" in self.headers or b"if-none-match" in self.headers):
            version = self._version()
            if data.setdefault("if_match", version) != version:
                raise Invalid("`if_match` says something else than the header: give one of them.", field="if_match")
        return data

    def _said(self) -> dict[str, Any]:
        """What is in the query or in the body. Where nobody would look, nobody may think that it counts."""
        if self.operation.method not in ("GET", "DELETE"):
            if self.query:
                raise Invalid(
                    "This request has its fields in its body, as JSON: nothing is read from the query string."
                )
            return _from_body(self.body)
        if self.body.strip() not in (b"", b"{}"):
            raise Invalid(f"A {self.operation.method} has its fields in the query string: nothing is read from a body.")
        return _from_query(self.query, self.operation)

    def _version(self) -> str:
        """The version that is to be changed. Where it would not count, nobody may think that it does."""
        given, unless = self.headers.get(b"if-match"), self.headers.get(b"if-none-match")
        if not self.operation.by_version:
            raise Invalid(
                "`If-Match` and `If-None-Match` do not count here: leave them away, and see the fields of the request."
            )
        if unless is None and given is not None:
            return given.decode("latin-1")
        if given is not None or unless != b"*":
            raise Invalid("`If-None-Match` can be `*` only, and alone: nothing is written then if there is something.")
        return NONE

    def key(self) -> str | None:
        key = self.headers.get(b"idempotency-key") if self.operation.writes else None
        return None if key is None else key.decode("latin-1")


class Server:
    """Everything a running server holds on to."""

    def __init__(self, engine: Engine, config: Config, *, auth: bool = True) -> None:
        self.engine = engine
        engine.links.embedded = False
        self.config = config
        self.auth = auth
        self.doorman = Doorman(engine.store.control, engine.clock, config.rate_limit)
        self.metrics = Metrics()
        self.stopping = asyncio.Event()
        self.pumps: set[Pump] = set()
        self._router = Router(OPERATIONS.values())
        self._pages = pages(self)
        self._quick: Threads[Any] = Threads(THREADS, "memwell-request")
        self._patient: Threads[Any] = Threads(THREADS, "memwell-wait")
        self._door: Threads[Principal] = Threads(DOOR_THREADS, "memwell-door")
        self._run_requests = RunRequests(self)
        self._upload_requests = UploadRequests(self)

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
        """Who is calling, by the key of this very request. It is asked before a body is read."""
        if not self.auth:
            _require_loopback(headers)
            return self._based(Principal(self.config.tenant, "operator", "local"), headers)
        secret = _secret(headers)
        known = self.doorman.admit_known(secret, counted=counted)
        if known is None:
            known = await self._door.run(lambda: self.doorman.admit(secret, counted=counted))
        return self._based(known, headers)

    def _based(self, principal: Principal, headers: dict[bytes, bytes]) -> Principal:
        """Whoever is calling, and where it reaches this server: as it was set, or as the request says."""
        host = headers.get(b"host", b"").decode("latin-1")
        base = self.config.url.rstrip("/") or (f"http://{host}" if _HOST.fullmatch(host) else "")
        return msgspec.structs.replace(principal, base=base)

    async def _reply(self, operation: Operation, values: list[str], scope: Scope, receive: Receive) -> replies.Reply:
        longer = uploads.LONGER if operation.carries else 1.0
        limit = TimeLimit(self.config.request_timeout_s * longer, operation)
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            principal = await self.principal(headers)
            sent = Sent(principal, operation, values, scope["query_string"], headers, b"")
            if operation.carries is not None:
                return await self._upload_requests.answer(sent, receive)
            sent = sent._replace(body=await read_body(receive, headers, self.config.max_body))
            way = self._run_requests.way(operation)
            if way is not None:
                return await way(sent, limit)
            return await self.in_thread(lambda: self.carry_out(sent), patient=operation.patient)
        except asyncio.CancelledError as error:
            if limit.has_caused(error):
                return replies.failure(limit.answer)
            if self.stopping.is_set():  # whoever stops it waits no longer
                return replies.failure(Unavailable(_STOPPED))
            raise
        except Exception as error:  # noqa: BLE001 -- it is logged
            return _failed(operation, error)
        finally:
            limit.lift()

    def in_thread(self, work: Callable[[], T], *, patient: bool) -> asyncio.Future[T]:
        """The future result of work; `patient` work may wait for seconds."""
        threads = self._patient if patient else self._quick
        if threads.under_way >= MAX_WAITING:
            raise Unavailable("Too many requests are under way: try again in a moment.")
        return threads.run(work)

    def carry_out(self, sent: Sent) -> replies.Reply:
        operation = sent.operation
        strict = operation.method not in ("GET", "DELETE")
        return self.answered(
            operation,
            lambda: dispatch(self.engine, sent.principal, operation, sent.data(), key=sent.key(), strict=strict),
        )

    def answered(self, operation: Operation, work: Callable[[], Any]) -> replies.Reply:
        """What work gives, as an answer; or its error, which is logged even if nobody waits for the answer any more."""
        try:
            return replies.success(operation, work())
        except Exception as error:  # noqa: BLE001 -- it is logged
            return _failed(operation, error)

    def close(self) -> None:
        """End everything. What runs is interrupted first: the rest may take longer than there is time for."""
        for pump in self.pumps:
            pump.join()
        runs_of(self.engine).interrupt()
        for threads in (self._door, self._quick, self._patient):
            threads.close()
        self.engine.close()


def _failed(operation: Operation, error: Exception) -> replies.Reply:
    if not isinstance(error, MemwellError):
        extra = {"operation": operation.name, "error": type(error).__name__}
        log.error("request.crashed", exc_info=error, extra=extra)
        return replies.failure(MemwellError())
    if error.status >= 500:
        log.warning("request.failed", extra={"operation": operation.name, "code": error.code})
    return replies.failure(error)


def _from_query(query: bytes, operation: Operation) -> dict[str, Any]:
    try:
        found: dict[str, Any] = dict(
            parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=50, errors="strict")
        )
    except ValueError:
        raise Invalid("The query string is not valid.") from None
    for name in operation.json_fields & found.keys():
        try:
            found[name] = msgspec.json.decode(found[name])
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid(f"`{name}` must be JSON: {error}.", field=name) from None
    return found


def _from_body(body: bytes) -> dict[str, Any]:
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


def _secret(headers: dict[bytes, bytes]) -> str | None:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers[b"x-api-key"].decode("latin-1").strip() if b"x-api-key" in headers else None


def _require_loopback(headers: dict[bytes, bytes]) -> None:
    """Without keys, only this machine's own programs may call: no page of another origin, no rebound name."""
    host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
    origin = headers.get(b"origin", b"").decode("latin-1")
    from_elsewhere = bool(origin) and origin.split("://")[-1].rsplit(":", 1)[0] not in LOOPBACK
    if host not in LOOPBACK or from_elsewhere:
        raise Forbidden("Without keys, only requests to and from this machine's own address are answered.")
