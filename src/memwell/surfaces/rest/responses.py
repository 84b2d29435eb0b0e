"""Results and errors of operations as HTTP responses."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from ...core.operation import Operation
from ...errors import MemwellError

log = logging.getLogger("memwell.rest")

SAFE_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_ALWAYS = [
    (b"content-type", b"application/json"),
    *((name.encode(), value.encode()) for name, value in SAFE_HEADERS.items()),
]

_encode = msgspec.json.Encoder().encode


class Reply(NamedTuple):
    """A response of JSON. Like the responses of Starlette it is an ASGI application, but it costs less."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.all_headers()})
        await send({"type": "http.response.body", "body": self.body})

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        return [*_ALWAYS, (b"content-length", str(len(self.body)).encode()), *self.headers]


def to_success(operation: Operation, result: Any) -> Reply:
    etag = getattr(result, "etag", None)
    headers = [] if etag is None else [(b"etag", str(etag).encode())]
    return Reply(operation.status, _encode({"data": result} if operation.envelope else result), headers)


def to_failure(error: MemwellError) -> Reply:
    body = {"error": {"code": error.code, "message": error.message, "details": error.details}}
    headers = []
    if error.status in (429, 503):
        seconds = error.details.get("retry_after_s", 1)
        headers.append((b"retry-after", str(max(round(seconds), 1)).encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status == 405:
        headers.append((b"allow", error.details["allowed"].encode()))
    return Reply(error.status, _encode(body), headers)


def log_failure(operation: Operation, error: Exception) -> Reply:
    """Log an error if it is the server's, and return its response. Unknown errors say nothing about themselves."""
    try:
        return _log_failure(operation, error)
    finally:
        error.__traceback__ = error.__context__ = None  # its frames hold the body, until the next collection of garbage


def _log_failure(operation: Operation, error: Exception) -> Reply:
    if not isinstance(error, MemwellError):
        extra = {"operation": operation.name, "error": type(error).__name__}
        log.error("request.crashed", exc_info=error, extra=extra)
        return to_failure(MemwellError())
    if error.status >= 500:
        log.warning("request.failed", extra={"operation": operation.name, "code": error.code})
    return to_failure(error)
