"""Uploads (a file as the body, a form with one file, or JSON) and downloads by link."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

import msgspec
from starlette.types import Message, Receive, Scope, Send

from ...core.access import require_role
from ...core.dispatch import Pending
from ...core.operation import Operation
from ...errors import Invalid, MemwellError, TooLarge
from ...extract.kinds import content_disposition
from ...files.session_files import open_link, parse_link, read_piece
from ...model.fields import MAX_FILE
from .limits import PacedReceive, TenantQuota, read_body
from .responses import Reply

if TYPE_CHECKING:
    from ...core.file_links import FileRef
    from ...records.file_rows import File
    from .app import HttpRequest, Server

log = logging.getLogger("memwell.rest")

DOWNLOAD_PATH = "/v1/files/{token}"
UPLOAD_TIME_FACTOR = 4.0
"""Uploads may take this many times as long as other requests."""
MAX_RAW = MAX_FILE + 1024**2
MAX_JSON = MAX_FILE * 4 // 3 + 1024**2
MAX_FIELD = 64 * 1024
MAX_HEAD = 8 * 1024
MAX_PARTS = 16
MAX_UPLOADS, MAX_TENANT_UPLOADS, MAX_KEY_UPLOADS = 16, 4, 2
"""Uploads at a time: each is in memory."""
MAX_DOWNLOADS, MAX_TENANT_DOWNLOADS = 32, 8
MIN_BYTES_PER_SECOND = 16 * 1024
GRACE_S = 10.0
PIECE_TIMEOUT_S = 20.0
"""Time in which a client must take a piece."""

_FORM = "multipart/form-data"
_JSON = ("", "application/json", "application/x-www-form-urlencoded")
"""Types of a JSON body; some programs send everything as the last one."""
_GENERIC_TYPES = ("", "application/octet-stream", "application/x-www-form-urlencoded")
_PARAMETER = re.compile(r';\s*([\w*]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))')
_FOLD = re.compile(rb"\r\n[ \t]+")
_IDENTITY = ("", "7bit", "8bit", "binary")
_CHARSETS = ("utf-8", "iso-8859-1", "us-ascii")
_SAFE_TYPES = (
    *("application/pdf", "application/json", "application/zip", "text/plain", "text/csv"),
    *("image/png", "image/jpeg", "image/gif", "image/bmp"),
)
"""Types that are harmless in a browser. Others are sent as `application/octet-stream`."""
_CUT_OFF = "The form is cut off or its boundary is wrong: it does not end with its boundary. Nothing was stored."


class Part(NamedTuple):
    """A part of a form: a file if it has a file name, else a field."""

    name: str
    filename: str | None
    mimetype: str | None
    content: bytes


def is_file(operation: Operation, query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Return True if the body is a file or a form. A body with a file name in the query or a header is a file of any type."""
    if operation.carries is None:
        return False
    if _content_type(headers) not in _JSON or b"x-filename" in headers:
        return True
    try:
        return any(name == "filename" for name, _ in parse_qsl(query.decode("latin-1"), max_num_fields=50))
    except ValueError:  # reported when the query is read
        return False


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Return True if the Content-Type of a body is JSON, or one that some programs use for everything."""
    kind = _content_type(headers)
    return kind in _JSON or kind.endswith("+json")


def read_fields(
    operation: Operation, query: dict[str, Any], headers: Mapping[bytes, bytes], body: bytes
) -> dict[str, Any]:
    """The fields of a request whose body is a file or a form."""
    _check_no_content(operation, query)
    mimetype = _content_type(headers)
    if mimetype == _FORM:
        return {**query, **_read_form(operation, headers, body)}
    found: dict[str, Any] = {str(operation.carries): body, **query}
    if mimetype not in _GENERIC_TYPES:
        found.setdefault("mimetype", mimetype)
    if b"x-filename" in headers:
        found.setdefault("filename", unquote(headers[b"x-filename"].decode("latin-1")))
    return found


def _read_form(operation: Operation, headers: Mapping[bytes, bytes], body: bytes) -> dict[str, Any]:
    boundary = _parse_parameters(headers[b"content-type"].decode("latin-1")).get("boundary", "")
    if not 0 < len(boundary) <= 70:
        raise Invalid("The form has no boundary: let your program write the header `Content-Type` itself.")
    parts = [part for part in parse_form(body, boundary.encode("latin-1")) if part.name != "_charset_"]  # from browsers
    known = set(operation.request.__struct_fields__) - {operation.carries}
    files = [part for part in parts if part.filename and part.name not in known]
    others = [part for part in parts if part.filename is None or part.name in known]
    _check_no_content(operation, [part.name for part in others])
    if len(files) != 1:
        raise Invalid(f"The form has {len(files) or 'no'} files: send exactly one.", field=operation.carries)
    found: dict[str, Any] = {str(operation.carries): files[0].content, "filename": files[0].filename}
    if files[0].mimetype is not None:
        found["mimetype"] = files[0].mimetype
    return found | {part.name: _read_value(operation, part) for part in others}


def _check_no_content(operation: Operation, names: Collection[str]) -> None:
    if operation.carries in names:
        raise Invalid(f"`{operation.carries}` is the file itself: omit the field.", field=operation.carries)


def _read_value(operation: Operation, part: Part) -> Any:
    if len(part.content) > MAX_FIELD:
        raise TooLarge(f"`{part.name[:100]}` is larger than {MAX_FIELD // 1024} KiB.", field=part.name[:100])
    try:
        text = part.content.decode()
        return msgspec.json.decode(text) if part.name in operation.json_fields else text
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        kind = "JSON" if isinstance(error, msgspec.DecodeError | RecursionError) else "UTF-8"
        raise Invalid(f"`{part.name[:100]}` is not valid {kind}.", field=part.name[:100]) from None


def parse_form(body: bytes, boundary: bytes) -> list[Part]:
    """Parse a form (RFC 7578). A form without its final boundary was cut off."""
    marked = b"\r\n--" + boundary
    found: list[Part] = []
    at = 0 if body.startswith(marked[2:]) else body.find(marked) + 2
    if not body.startswith(marked[2:], at):
        raise Invalid(_CUT_OFF)
    at += len(marked) - 2
    while not body.startswith(b"--", at):
        end = body.find(marked, at)
        if end < 0:
            raise Invalid(_CUT_OFF)
        if len(found) == MAX_PARTS:
            raise Invalid(f"The form has more than {MAX_PARTS} parts.")
        found.append(_parse_part(body, at, end))
        at = end + len(marked)
    return found


def _parse_part(body: bytes, start: int, end: int) -> Part:
    blank = body.find(b"\r\n\r\n", start, end)
    head = body[start:blank].lstrip(b" \t")
    if blank < 0 or len(head) > MAX_HEAD or not head.startswith(b"\r\n"):
        raise Invalid("The form is not valid: a part has no header.")
    headers = {}
    for line in filter(None, _FOLD.sub(b" ", head).split(b"\r\n")):
        header, _, value = line.decode(errors="replace").partition(":")
        headers[header.strip().lower()] = value.strip()
    if headers.get("content-transfer-encoding", "").lower() not in _IDENTITY:
        raise Invalid("A part of the form is encoded: send plain bytes, without `Content-Transfer-Encoding`.")
    options = _parse_parameters(headers.get("content-disposition", ""))
    name, filename = options.get("name"), options.get("filename")
    if "filename*" in options:
        filename = _decode_extended(options["filename*"])
    if name is None and filename is None:
        raise Invalid("The form is not valid: a part has no name.")
    return Part(name or "", filename, headers.get("content-type"), body[blank + 4 : end])


def _decode_extended(value: str) -> str:
    """Decode a value of RFC 5987: charset, language, and percent-encoded bytes."""
    charset, _, rest = value.partition("'")
    try:
        if charset.lower() not in _CHARSETS:
            raise LookupError
        return unquote_to_bytes(rest.partition("'")[2]).decode(charset)
    except (LookupError, UnicodeDecodeError):
        raise Invalid("The form is not valid: `filename*` must be UTF-8, as in `UTF-8''a%20b.txt`.") from None


def _parse_parameters(value: str) -> dict[str, str]:
    """The parameters of a header. Quotation marks in a quoted one are written as `\\"` or `%22`."""
    found = {}
    for name, quoted, bare in _PARAMETER.findall(value):
        found[name.lower()] = re.sub(r'\\(["\\])', r"\1", quoted).replace("%22", '"') if quoted else bare.strip()
    return found


def _content_type(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


class Uploads:
    """Handler of the operations that carry a file. It releases its slot before it waits for the text of the file."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quota = TenantQuota(MAX_UPLOADS, MAX_TENANT_UPLOADS, MAX_KEY_UPLOADS)

    async def answer(self, request: HttpRequest, receive: Receive) -> Reply:
        server, operation = self._server, request.operation
        require_role(request.principal, operation)
        tenant = request.principal.tenant
        paced = PacedReceive(receive, MIN_BYTES_PER_SECOND, GRACE_S)
        first = await paced()  # nothing is held for a client that sends nothing
        async with self._quota.acquire(tenant, request.principal.actor):
            try:
                answer = await self._read_and_store(request, first, paced)
            finally:
                server.release_memory_soon()
        return await server.complete(operation, tenant, answer)

    async def _read_and_store(self, request: HttpRequest, first: Message, paced: PacedReceive) -> Reply | Pending:
        """Hold the body only here, so that its memory is free when the slot is."""
        limit = MAX_RAW if is_file(request.operation, request.query, request.headers) else MAX_JSON
        limit = max(limit, self._server.config.max_body)
        messages = [first]

        async def receive() -> Message:
            return messages.pop() if messages else await paced()

        body = await read_body(receive, request.headers, limit)
        request = request._replace(body=body)
        return await self._server.in_thread(
            lambda: self._server.perform(request), request.principal.tenant, patient=True
        )


class Downloads:
    """The page `GET /v1/files/{token}`. It sends a file as fast as the client reads it. The link is the permission."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quota = TenantQuota(MAX_DOWNLOADS, MAX_TENANT_DOWNLOADS, MAX_TENANT_DOWNLOADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        engine = self._server.engine
        link = parse_link(engine, scope["path_params"]["token"])
        async with self._quota.acquire(link.tenant, wait=False):
            file, first = await self._server.in_thread(lambda: open_link(engine, link), link.tenant, patient=True)
            headers = [(name.encode(), value.encode("latin-1")) for name, value in _download_headers(file).items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            try:
                await self._send(send, link, file, first)
            except (TimeoutError, MemwellError) as error:  # the client sees that it is shorter than its content-length
                log.warning("download.cut", extra={"tenant": link.tenant, "error": type(error).__name__})

    async def _send(self, send: Send, link: FileRef, file: File, part: bytes) -> None:
        engine, sent = self._server.engine, 0
        while True:
            sent += len(part)
            more = sent < file.size
            async with asyncio.timeout(PIECE_TIMEOUT_S):
                await send({"type": "http.response.body", "body": part, "more_body": more})
            if not more:
                return
            reading = functools.partial(read_piece, engine, link, file, sent)
            part = await self._server.in_thread(reading, link.tenant, patient=True)


def _download_headers(file: File) -> dict[str, str]:
    kind = file.mimetype if file.mimetype in _SAFE_TYPES or file.mimetype.startswith("application/vnd.") else None
    return {
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
        "cache-control": "private, no-store",
        "referrer-policy": "no-referrer",
        "content-disposition": content_disposition(file.filename),
        "content-type": kind or "application/octet-stream",  # without a charset, which is unknown
        "content-length": str(file.size),
    }
