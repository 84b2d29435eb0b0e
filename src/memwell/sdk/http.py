"""Transports to a server. Writes carry an idempotency key, so a request whose answer was lost is sent again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import date, datetime
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from .. import typed
from ..core.events import Event
from ..core.operation import Operation, to_request
from ..errors import MemwellError, StorageError, Unauthenticated, Unavailable, from_code
from ..ids import new_id
from ..model.field_readers import list_readers
from ..model.fields import MAX_REQUEST_DEPTH, check_idempotency_key, check_json
from ..registry import require_operation
from ..version import __version__

TRIES = 5
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


class HttpTransport:
    def __init__(self, url: str, api_key: str, client: httpx.Client | None = None) -> None:
        self._client = client or httpx.Client(base_url=url, headers=_headers(api_key), timeout=_TIMEOUT)
        self.place = _name_place(self._client.base_url)

    def call(self, name: str, data: dict[str, Any], *, key: str | None = None) -> Any:
        operation = require_operation(name)
        request = _Request(operation, data, key)
        if self._client.is_closed:
            raise StorageError("This memory is closed: open a new one.")
        for attempt in range(TRIES):
            try:
                response = self._client.request(**request.arguments)
                if not request.is_retryable_status(response.status_code) or attempt == TRIES - 1:
                    return _decode_answer(operation, response.status_code, response.content)
                time.sleep(_retry_delay(attempt, response.headers.get("retry-after")))
            except httpx.TransportError as error:
                if attempt == TRIES - 1 or not request.is_retryable_error(error):
                    raise _unreachable(error) from error
                time.sleep(_retry_delay(attempt, None))
        raise Unavailable

    def watch(self) -> Iterator[Event | None]:
        with self._client.stream("GET", "/v1/events", timeout=None) as response:
            if response.status_code != 200:
                _decode_answer(require_operation("events.list"), response.status_code, response.read())
            for line in response.iter_lines():
                yield _event(line)

    def close(self) -> None:
        self._client.close()


def _name_place(url: httpx.URL) -> str:
    return str(url.copy_with(userinfo=b""))


class AsyncHttpTransport:
    def __init__(self, url: str, api_key: str, client: httpx.AsyncClient | None = None) -> None:
        self._client = client or httpx.AsyncClient(base_url=url, headers=_headers(api_key), timeout=_TIMEOUT)
        self.place = _name_place(self._client.base_url)
        self._ready = False

    async def call(self, name: str, data: dict[str, Any], *, key: str | None = None) -> Any:
        if not self._ready:  # the first use of the registry imports all rooms, which would block the event loop
            await asyncio.to_thread(require_operation, name)
            self._ready = True
        operation = require_operation(name)
        request = _Request(operation, data, key)
        if self._client.is_closed:
            raise StorageError("This memory is closed: open a new one.")
        for attempt in range(TRIES):
            try:
                response = await self._client.request(**request.arguments)
                if not request.is_retryable_status(response.status_code) or attempt == TRIES - 1:
                    return _decode_answer(operation, response.status_code, response.content)
                await asyncio.sleep(_retry_delay(attempt, response.headers.get("retry-after")))
            except httpx.TransportError as error:
                if attempt == TRIES - 1 or not request.is_retryable_error(error):
                    raise _unreachable(error) from error
                await asyncio.sleep(_retry_delay(attempt, None))
        raise Unavailable

    async def watch(self) -> AsyncIterator[Event | None]:
        async with self._client.stream("GET", "/v1/events", timeout=None) as response:
            if response.status_code != 200:
                _decode_answer(require_operation("events.list"), response.status_code, await response.aread())
            async for line in response.aiter_lines():
                yield _event(line)

    async def close(self) -> None:
        await self._client.aclose()


MAX_FILTER_DEPTH = 20


class _Request:
    """An operation as an HTTP request: path fields in the path, the rest in the query or the body."""

    def __init__(self, operation: Operation, data: dict[str, Any], key: str | None) -> None:
        rest = _render_days(data, operation.request)
        sent = {name: value for name, value in rest.items() if name != operation.carries}
        check_json(sent, "request", MAX_REQUEST_DEPTH)
        to_request(operation, data)  # check it here, before a name could change the address
        path = operation.path
        for name in operation.path_fields:
            path = path.replace("{" + name + "}", quote(str(rest.pop(name, "")), safe=""))
        self.arguments: dict[str, Any] = {"method": operation.method, "url": path}
        if operation.method in ("GET", "DELETE"):
            self.arguments["params"] = {name: _to_query_value(value) for name, value in rest.items()}
        else:
            self.arguments["content"] = msgspec.json.encode(rest)
            self.arguments["headers"] = {"content-type": "application/json"}
        self._is_safe = not operation.writes or operation.repeatable
        if operation.writes and operation.repeatable:
            self.arguments.setdefault("headers", {})["idempotency-key"] = (
                new_id() if key is None else check_idempotency_key(key)
            )

    def is_retryable_error(self, error: httpx.TransportError) -> bool:
        """Return True if it can be sent again: it never arrived, or arriving twice does no harm."""
        return self._is_safe or isinstance(error, httpx.ConnectError)

    def is_retryable_status(self, status: int) -> bool:
        """Return True if the status asks to send it again, and that does no harm."""
        return status == 429 or (status == 503 and self._is_safe)


def _headers(api_key: str) -> dict[str, str]:
    if not api_key.isascii() or not api_key.isprintable():
        raise Unauthenticated("This is not an API key: it has invalid characters.")
    headers = {"user-agent": f"memwell-python/{__version__}"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    return headers


def _retry_delay(attempt: int, retry_after: str | None) -> float:
    try:
        return min(float(retry_after or ""), 5.0)
    except ValueError:
        return float(min(0.05 * 2**attempt, 1.0))


def _decode_answer(operation: Operation, status: int, body: bytes) -> Any:
    try:
        if status < 300:
            if operation.envelope:
                return typed.decode(body, dict[str, operation.response])["data"]  # type: ignore[name-defined]
            return typed.decode(body, operation.response)
        error = msgspec.json.decode(body)["error"]
        return _raise(from_code(error["code"], error["message"], error.get("details") or {}))
    except (msgspec.DecodeError, KeyError, TypeError):
        if status == 401:
            raise Unauthenticated from None
        raise Unavailable(f"The answer (status {status}) is not from a Memwell server: check the URL.") from None


def _raise(error: MemwellError) -> None:
    raise error


def _unreachable(error: httpx.TransportError) -> Unavailable:
    return Unavailable(
        f"The server cannot be reached ({type(error).__name__}): is `memwell serve` running at that URL?"
    )


def _event(line: str) -> Event | None:
    return typed.decode(line[6:], Event) if line.startswith("data: ") else None


def _render_days(data: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Return fields with the days among their times as text. The server knows in which time zone they begin."""
    readers = list_readers(kind)
    found = {name: _render_day(value) if name in readers else value for name, value in data.items()}
    messages = [name for name, value in found.items() if name in readers and isinstance(value, list)]
    filters = {"filter": _render_filter(found["filter"])} if "filter" in found else {}
    return found | {name: [_render_message(one) for one in found[name]] for name in messages} | filters


def _render_filter(value: Any, depth: int = MAX_FILTER_DEPTH) -> Any:
    """Return a filter with the days in it as text. What is nested too deeply stays as it is, and is rejected later."""
    if depth and isinstance(value, dict):
        return {name: _render_filter(one, depth - 1) for name, one in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_render_filter(one, depth - 1) for one in value]
    return _render_day(value)


def _render_message(message: Any) -> Any:
    return {k: _render_day(v) for k, v in message.items()} if isinstance(message, dict) else message


def _render_day(value: Any) -> Any:
    return value.isoformat() if type(value) is date else value


def _to_query_value(value: Any) -> str:
    """A field in a query string; objects and lists are JSON."""
    if isinstance(value, datetime):
        return value.isoformat()
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
