"""Server-sent events, out of bytes as they come: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .completer import failed

OTHERS = frozenset({b"", b"event", b"id", b"retry"})
"""The fields that nothing here needs; the one without a name is a comment."""


def events(parts: Iterable[bytes], max_line: int) -> Iterator[bytes]:
    """The data of each event. One that breaks off is none; a line that belongs to no event is `invalid_answer`."""
    data: list[bytes] = []
    for line in _lines(parts, max_line):
        field, _, value = line.partition(b":")
        if not line and data:
            yield b"\n".join(data)
            data = []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field not in OTHERS:
            raise failed("invalid_answer")


def _lines(parts: Iterable[bytes], max_line: int) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
        if len(rest) > max_line:
            raise failed("too_large")
