"""A run as server-sent events: what its steps do and what a model says, as it happens.

Whoever looks on may leave and come back: the run goes on, and `Last-Event-ID` resumes after that event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...dispatch import dispatch
from ...errors import Forbidden, Invalid, MemwellError, Unavailable
from ...model.principal import Principal
from ...registry import find
from ...workflow.run_operations import Happened

if TYPE_CHECKING:
    from .server import Server

MAX_STREAMS = 64
WAIT_S = 5.0
ELSEWHERE_S = 0.5
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class RunStream:
    """The page `GET /v1/runs/{run}/stream`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    async def page(self, request: Request) -> Response:
        principal = await self._server.principal(dict(request.scope["headers"]))
        if not principal.may("reader"):
            raise Forbidden
        if self._open >= MAX_STREAMS:
            raise Unavailable("Too many streams are open.")
        run_id, after = request.path_params["run"], _after(request.headers.get("last-event-id"))
        first = await self._next(principal, run_id, after, 0.0)
        stream = self._events(principal, run_id, after, first)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)

    async def _events(self, principal: Principal, run_id: str, after: int, found: Happened) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            while True:
                for event in found.events:
                    after = max(after, event.number)
                    yield _frame(event.number, event.kind, msgspec.json.encode(event))
                if found.over or self._server.stopping.is_set():
                    return
                if not found.events:
                    yield b": \n\n"
                    await asyncio.sleep(ELSEWHERE_S)
                found = await self._next(principal, run_id, after, WAIT_S)
        except MemwellError:
            return  # the run was deleted meanwhile
        finally:
            self._open -= 1

    async def _next(self, principal: Principal, run_id: str, after: int, wait_s: float) -> Happened:
        data = {"run": run_id, "after": after, "timeout_s": wait_s}
        found: Happened = await asyncio.to_thread(dispatch, self._server.engine, principal, find("runs.events"), data)
        return found


def _frame(number: int, kind: str, data: bytes) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"


def _after(text: str | None) -> int:
    if not text:
        return 0
    if not text.isdigit() or len(text) > 18:
        raise Invalid("`Last-Event-ID` is the number of an event.")
    return int(text)
