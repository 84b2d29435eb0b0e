"""Requests that carry a file: read at a pace, in a place of their own, and answered once the text of the file is known."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Receive

from ...dialects.files import FileInfo, OfSession, read_soon, store
from ...dispatch import Call, dispatch, require_role
from ...errors import Unavailable
from . import replies, uploads
from .bodies import read_body
from .shares import Shares

if TYPE_CHECKING:
    from .server import Sent, Server

AT_ONCE = 16
"""How many are read at the same time: each is in memory."""
EACH = 4
"""How many of them may be one tenant's."""
PACE = 16 * 1024
"""Bytes in a second: whoever is slower has a line that would take minutes, or wants to be in the way."""
PATIENCE_S = 10.0


class Paced:
    """A body as it comes in. What has come gives time for the rest."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._until = asyncio.get_running_loop().time() + PATIENCE_S

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Unavailable("The file comes too slowly. Nothing was stored: try again on a better line.") from None
        self._until += len(message.get("body", b"")) / PACE
        return message


class UploadRequests:
    """How the operations that carry a file are carried out. The place is free again before anybody waits for the text."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._places = Shares(AT_ONCE, EACH)

    async def answer(self, sent: Sent, receive: Receive) -> replies.Reply:
        require_role(sent.principal, sent.operation)
        async with self._places.place(sent.principal.tenant):
            reply, stored = await self._stored(sent, receive)
        if stored is None or stored.job is None:
            return reply
        call, at = Call(self._server.engine, sent.principal, sent.operation), OfSession(**_at(sent))
        return await self._server.in_thread(
            lambda: self._server.answered(sent.operation, lambda: read_soon(call, at, stored)), patient=True
        )

    async def _stored(self, sent: Sent, receive: Receive) -> tuple[replies.Reply, FileInfo | None]:
        limit = uploads.limit(sent.operation, sent.query, sent.headers, self._server.config.max_body)
        body = await read_body(Paced(receive), sent.headers, limit)
        return await self._server.in_thread(lambda: self._store(sent._replace(body=body)), patient=True)

    def _store(self, sent: Sent) -> tuple[replies.Reply, FileInfo | None]:
        storing = replace(sent.operation, run=store)
        found: list[FileInfo] = []

        def work() -> Any:
            found.append(dispatch(self._server.engine, sent.principal, storing, sent.data(), key=sent.key()))
            return found[0]

        return self._server.answered(sent.operation, work), found[0] if found else None


def _at(sent: Sent) -> dict[str, str]:
    return dict(zip(sent.operation.path_fields, sent.values, strict=True))
