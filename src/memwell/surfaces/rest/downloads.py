"""`GET /v1/files/…`: a file, for whoever has its link. Nothing that comes from here can act in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ...dialects.file_links import opened
from ...extract.names import content_disposition

if TYPE_CHECKING:
    from .server import Server

PATH = "/v1/files/{token}"
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
        self._server = server

    async def page(self, request: Request) -> Response:
        token = request.path_params["token"]
        file, content = await self._server.in_thread(lambda: opened(self._server.engine, token), patient=True)
        kind = file.mimetype if file.mimetype in _HARMLESS or file.mimetype.startswith(_OFFICE) else None
        headers = {**_HEADERS, "content-disposition": content_disposition(file.filename)}
        headers["content-type"] = kind or "application/octet-stream"  # as it stands: nobody knows the charset
        return Response(content, headers=headers)
