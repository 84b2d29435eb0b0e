"""A run as server-sent events: what its steps do and what a model says, as it happens.

Whoever looks on may leave and come back: the run goes on, and `Last-Event-ID` resumes after that event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...errors import Forbidden, Invalid, MemwellError, Unavailable
from ...workflow.run_operations import Happened
from .onlooker import Onlooker

if TYPE_CHECKING:
    from .server import Server

MAX_STREAMS = 64
WAIT_S = 5.0
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class RunStream:
    """The page `GET /v1/runs/{run}/stream`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    async def page(self, request: Request) -> Response:
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        principal = await self._server.principal(headers)
        if not principal.may("reader"):
            raise Forbidden
        after = _after(request.headers.get("last-event-id"))
        onlooker = Onlooker(self._server, principal, request.path_params["run"])
        self._enter()
        try:
            first = await onlooker.first(after)
        except BaseException:
            self._leave()
            raise
        return _Stream(self._frames(onlooker, headers, after, first), self._leave)

    def _enter(self) -> None:
        if self._open >= MAX_STREAMS:
            raise Unavailable(f"There are {MAX_STREAMS} streams of runs open: try again when one has ended.")
        self._open += 1

    def _leave(self) -> None:
        self._open -= 1

    async def _frames(
        self, onlooker: Onlooker, headers: dict[bytes, bytes], after: int, found: Happened
    ) -> AsyncIterator[bytes]:
        try:
            while True:
                for event in found.events:
                    after = max(after, event.number)
                    yield _frame(event.number, event.kind, msgspec.json.encode(event))
                if found.over or self._server.stopping.is_set():
                    return
                if not found.events:
                    yield b": \n\n"
                await self._server.principal(headers, counted=False)
                found = await onlooker.next(after, WAIT_S)
        except MemwellError:
            return  # the key was revoked meanwhile


class _Stream(StreamingResponse):
    """Server-sent events whose place is free again at their end, even if nobody has read the first of them."""

    def __init__(self, frames: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers=_HEADERS)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


def _frame(number: int, kind: str, data: bytes) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"


def _after(text: str | None) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Invalid("`Last-Event-ID` is the number of an event.")
    return int(text)
