"""Time limits and bodies of requests, and answers as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from starlette.types import Receive

from ...core.operation import Operation
from ...errors import Invalid, MemwellError, TooLarge, Unavailable

_TIME_IS_UP = "time is up"


class TimeLimit:
    """Cancels the current task after a while. `answer` is sent instead; it can be replaced by a better one."""

    def __init__(self, seconds: float, operation: Operation) -> None:
        self.answer = Unavailable(f"The request took too long{_advice(operation)}")
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cancel)

    def lift(self) -> None:
        self._timer.cancel()

    def has_caused(self, error: asyncio.CancelledError) -> bool:
        """Return True if this limit cancelled the task, which can then go on to answer."""
        if self._task is None or _TIME_IS_UP not in error.args:
            return False
        self._task.uncancel()
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel(_TIME_IS_UP)


def _advice(operation: Operation) -> str:
    if not operation.writes:
        return ": try again."
    if operation.repeatable:
        return ". It may still be done: repeat it with the same Idempotency-Key."
    return ". It may still be done: check before you repeat it."


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """Read the body up to the limit. The bytes are counted, whatever the header says."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > limit:
        raise TooLarge(f"The request is larger than {limit} bytes.", limit=limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request was cut off.")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLarge(f"The request is larger than {limit} bytes.", limit=limit)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


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
