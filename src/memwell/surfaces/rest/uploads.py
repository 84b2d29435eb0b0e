"""Bodies that are files: the file itself, a form with one file in it, or JSON. They may be larger than other requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

import msgspec
from starlette.types import Message, Receive

from ...core.dispatch import Call, dispatch, require_role
from ...core.operation import Operation
from ...errors import Invalid, TooLarge, Unavailable
from ...files.files import FileInfo, OfSession, read_soon, store
from ...records.file_rows import MAX_FILE
from . import replies
from .replies import read_body
from .threads import Shares

if TYPE_CHECKING:
    from .server import Sent, Server

LONGER = 4.0
"""How many times as long as another request one may take: some lines are slow."""
MAX_RAW = MAX_FILE + 1024**2
MAX_JSON = MAX_FILE * 4 // 3 + 1024**2
MAX_FIELD = 64 * 1024
MAX_HEAD = 8 * 1024
MAX_PARTS = 16

_FORM = "multipart/form-data"
_JSON = ("", "application/json", "application/x-www-form-urlencoded")
"""What is JSON; the last is what some programs say of whatever they send."""
_SAYS_NOTHING = ("", "application/octet-stream", "application/x-www-form-urlencoded")
_PARAMETER = re.compile(r';\s*([\w*]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))')
_FOLD = re.compile(rb"\r\n[ \t]+")
_AS_IT_IS = ("", "7bit", "8bit", "binary")
_CHARSETS = ("utf-8", "iso-8859-1", "us-ascii")
_CUT_OFF = "The form is cut off or its boundary is wrong: it does not end with its boundary. Nothing was stored."


class Part(NamedTuple):
    """A part of a form: a field, or a file if it has a file's name."""

    name: str
    filename: str | None
    mimetype: str | None
    content: bytes


def upload_limit(operation: Operation, query: bytes, headers: Mapping[bytes, bytes], usual: int) -> int:
    """How large a body may be."""
    if operation.carries is None:
        return usual
    return max(usual, MAX_RAW if is_file(operation, query, headers) else MAX_JSON)


def is_file(operation: Operation, query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Whether the body is a file, or a form with one. What has its name beside it is a file, whatever its type."""
    return operation.carries is not None and (_kind(headers) not in _JSON or _is_named(query, headers))


def fields(operation: Operation, query: dict[str, Any], headers: Mapping[bytes, bytes], body: bytes) -> dict[str, Any]:
    """The fields of a request whose body is a file or a form."""
    _require_once(operation, query)
    if _kind(headers) == _FORM:
        return {**query, **_from_form(operation, headers, body)}
    found: dict[str, Any] = {str(operation.carries): body, **query}
    if _kind(headers) not in _SAYS_NOTHING:
        found.setdefault("mimetype", _kind(headers))
    if b"x-filename" in headers:
        found.setdefault("filename", unquote(headers[b"x-filename"].decode("latin-1")))
    return found


def _from_form(operation: Operation, headers: Mapping[bytes, bytes], body: bytes) -> dict[str, Any]:
    parts = [part for part in parse(body, _boundary(headers)) if part.name != "_charset_"]  # which browsers fill in
    known = set(operation.request.__struct_fields__) - {operation.carries}
    files = [part for part in parts if part.filename and part.name not in known]
    given = [part for part in parts if part.filename is None or part.name in known]
    _require_once(operation, [part.name for part in given])
    if len(files) != 1:
        raise Invalid(f"The form has {len(files) or 'no'} files: send one in each request.", field=operation.carries)
    found: dict[str, Any] = {str(operation.carries): files[0].content, "filename": files[0].filename}
    if files[0].mimetype is not None:
        found["mimetype"] = files[0].mimetype
    return found | {part.name: _value(operation, part) for part in given}


def _require_once(operation: Operation, given: Collection[str]) -> None:
    if operation.carries in given:
        raise Invalid(
            f"`{operation.carries}` is the file itself: it is not given a second time.", field=operation.carries
        )


def _value(operation: Operation, part: Part) -> Any:
    if len(part.content) > MAX_FIELD:
        raise TooLarge(f"`{part.name[:100]}` is larger than {MAX_FIELD // 1024} KiB.", field=part.name[:100])
    try:
        text = part.content.decode()
        return msgspec.json.decode(text) if part.name in operation.json_fields else text
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        what = "JSON" if isinstance(error, msgspec.DecodeError | RecursionError) else "UTF-8"
        raise Invalid(f"`{part.name[:100]}` is not valid {what}.", field=part.name[:100]) from None


def parse(body: bytes, boundary: bytes) -> list[Part]:
    """The parts of a form (RFC 7578). One that does not end as it should has lost something."""
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
        found.append(_part(body, at, end))
        at = end + len(marked)
    return found


def _part(body: bytes, start: int, end: int) -> Part:
    blank = body.find(b"\r\n\r\n", start, end)
    head = body[start:blank].lstrip(b" \t")
    if blank < 0 or len(head) > MAX_HEAD or not head.startswith(b"\r\n"):
        raise Invalid("The form is not valid: a part of it has no heading.")
    headers = dict(_header(line) for line in _FOLD.sub(b" ", head).split(b"\r\n") if line)
    if headers.get("content-transfer-encoding", "").lower() not in _AS_IT_IS:
        raise Invalid("A part of the form is encoded: send the bytes as they are, without `Content-Transfer-Encoding`.")
    given = _parameters(headers.get("content-disposition", ""))
    name, filename = given.get("name"), given.get("filename")
    if "filename*" in given:
        filename = _extended(given["filename*"])
    if name is None and filename is None:
        raise Invalid("The form is not valid: a part of it has no name.")
    return Part(name or "", filename, headers.get("content-type"), body[blank + 4 : end])


def _extended(value: str) -> str:
    """A name as RFC 5987 has it: its charset, its language, and its percent-encoded bytes."""
    charset, _, rest = value.partition("'")
    try:
        if charset.lower() not in _CHARSETS:
            raise LookupError
        return unquote_to_bytes(rest.partition("'")[2]).decode(charset)
    except (LookupError, UnicodeDecodeError):
        raise Invalid("The form is not valid: `filename*` must be UTF-8, as in `UTF-8''a%20b.txt`.") from None


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode(errors="replace").partition(":")
    return name.strip().lower(), value.strip()


def _parameters(value: str) -> dict[str, str]:
    """The parameters of a header. A quoted one may hold a quotation mark, as `\\"` or as `%22`."""
    found = {}
    for name, quoted, bare in _PARAMETER.findall(value):
        found[name.lower()] = re.sub(r'\\(["\\])', r"\1", quoted).replace("%22", '"') if quoted else bare.strip()
    return found


def _is_named(query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    if b"x-filename" in headers:
        return True
    try:
        return any(name == "filename" for name, _ in parse_qsl(query.decode("latin-1"), max_num_fields=50))
    except ValueError:  # whoever reads it says what is wrong with it
        return False


def _kind(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


def _boundary(headers: Mapping[bytes, bytes]) -> bytes:
    boundary = _parameters(headers[b"content-type"].decode("latin-1")).get("boundary", "")
    if not 0 < len(boundary) <= 70:
        raise Invalid("The form has no boundary: let your program write the header `Content-Type` itself.")
    return boundary.encode("latin-1")


# -- Requests that carry a file: read at a pace, in a place of their own, and answered once the text of the file is known.


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
        limit = upload_limit(sent.operation, sent.query, sent.headers, self._server.config.max_body)
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
