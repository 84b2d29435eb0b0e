"""`GET /v1/files/…`: a file, for whoever has its link. Nothing that comes from here can act in a browser.

A file is read piece by piece, as fast as whoever asks for it takes it. Whoever takes nothing for a while is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...core.file_links import Named
from ...errors import MemwellError
from ...extract.kinds import content_disposition
from ...files.files import named, opened, piece
from ...records.file_rows import File
from .threads import Shares

if TYPE_CHECKING:
    from .server import Server

log = logging.getLogger("memwell.rest")

PATH = "/v1/files/{token}"
AT_ONCE = 32
EACH = 8
"""How many of them may be one tenant's files."""
PATIENCE_S = 20.0
"""How long somebody may take for a piece."""
_HARMLESS = (
    "application/pdf",
    "application/json",
    "application/zip",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/bmp",
    "text/plain",
    "text/csv",
)
"""What a browser may be told the truth about."""
_OFFICE = "application/vnd."
_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "private, no-store",
    "referrer-policy": "no-referrer",
}


class Downloads:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.places = Shares(AT_ONCE, EACH)

    async def page(self, request: Request) -> Response:
        return Download(self, named(self.server.engine, request.path_params["token"]))


class Download(Response):
    """A file on its way."""

    def __init__(self, downloads: Downloads, link: Named) -> None:
        super().__init__()
        self._places, self._server, self._link = downloads.places, downloads.server, link

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._places.place(self._link.tenant, wait=False):
            link, engine = self._link, self._server.engine
            file, first = await self._server.in_thread(lambda: opened(engine, link), patient=True)
            headers = [(name.encode(), value.encode("latin-1")) for name, value in _headers(file).items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            try:
                await self._send(send, file, first)
            except (TimeoutError, MemwellError) as error:  # it is cut off, and shorter than was said
                log.warning("download.cut", extra={"tenant": link.tenant, "error": type(error).__name__})

    async def _send(self, send: Send, file: File, part: bytes) -> None:
        engine, link, sent = self._server.engine, self._link, 0
        while True:
            sent += len(part)
            more = sent < file.size
            async with asyncio.timeout(PATIENCE_S):
                await send({"type": "http.response.body", "body": part, "more_body": more})
            if not more:
                return
            at = sent
            part = await self._server.in_thread(lambda at=at: piece(engine, link, file, at), patient=True)  # type: ignore[misc]


def _headers(file: File) -> dict[str, str]:
    kind = file.mimetype if file.mimetype in _HARMLESS or file.mimetype.startswith(_OFFICE) else None
    return {
        **_HEADERS,
        "content-disposition": content_disposition(file.filename),
        "content-type": kind or "application/octet-stream",  # as it stands: nobody knows the charset
        "content-length": str(file.size),
    }
