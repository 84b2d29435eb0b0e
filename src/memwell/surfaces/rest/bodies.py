"""The bodies of requests, as far as they may be read."""

from __future__ import annotations

from starlette.types import Receive

from ...errors import Invalid, TooLarge


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """The body, if it is not too long; the bytes that come are counted, whatever the header says."""
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
