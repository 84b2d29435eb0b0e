"""Answers as bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from ...errors import MemwellError
from ...operation import Operation

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Reply = tuple[int, bytes, list[tuple[bytes, bytes]]]

_JSON = (b"content-type", b"application/json")
_SAFE = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]

_encode = msgspec.json.Encoder().encode


def success(operation: Operation, result: Any) -> Reply:
    etag = getattr(result, "etag", None)
    headers = [] if etag is None else [(b"etag", str(etag).encode())]
    return operation.status, _encode({"data": result} if operation.envelope else result), headers


def failure(error: MemwellError) -> Reply:
    body = {"error": {"code": error.code, "message": error.message, "details": error.details}}
    headers = []
    if error.status in (429, 503):
        seconds = error.details.get("retry_after_s", 1)
        headers.append((b"retry-after", str(max(round(seconds), 1)).encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return error.status, _encode(body), headers


async def deliver(send: Send, reply: Reply) -> None:
    status, body, headers = reply
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *_SAFE, *headers]})
    await send({"type": "http.response.body", "body": body})
