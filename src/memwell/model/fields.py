"""The types of request fields, with their limits.

A description is used four times: in the OpenAPI document, in the help of the command line, in the reference, and in the
sentence that a caller is told when a value does not fit.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ..errors import Invalid, Stale

MAX_ID = 256
MAX_CONTENT = 1024 * 1024
MAX_METADATA = 64 * 1024
MAX_DEPTH = 16
MAX_REQUEST_DEPTH = 128
"""Of a request as a whole; each of its fields says how deep it may be."""
MAX_BATCH = 1000
MAX_KEY = 256

ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$(?!\n)"
"""`$` alone lets a line break pass at the very end."""
ID_ADVICE = f"An id has 1 to {MAX_ID} characters, no control characters, and is not '.' or '..'."


def named(pattern: str, longest: int, description: str) -> Meta:
    """What is asked of a field of `operation.NAMED`, which sees to its pattern: msgspec is only to tell of it, since to match one
    takes it as long as to make the rest of a small request. Below a request's own fields nobody would see to it."""
    return Meta(min_length=1, max_length=longest, description=description, extra_json_schema={"pattern": pattern})


Flow = Annotated[str, named(ID_PATTERN, MAX_ID, f"The flow. {ID_ADVICE}")]
User = Annotated[str, named(ID_PATTERN, MAX_ID, f"The user. {ID_ADVICE}")]
SessionId = Annotated[str, named(ID_PATTERN, MAX_ID, f"The session. {ID_ADVICE}")]
AnyId = Annotated[str, Meta(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN, description=f"The id. {ID_ADVICE}")]
TenantId = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$(?!\n)",
        description="A tenant's name has 1 to 63 lower-case letters, digits, '-' or '_', and begins with a letter or digit.",
    ),
]
Label = Annotated[
    str, Meta(min_length=1, max_length=100, pattern=ID_PATTERN, description="A name of 1 to 100 printable characters.")
]
Role = Annotated[
    Literal["user", "assistant", "tool", "system"],
    Meta(description="Who speaks: 'user', 'assistant', 'tool' or 'system'."),
]
Kind = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z][A-Za-z0-9_.:-]*$(?!\n)",
        description="What kind of entry: 1 to 64 letters, digits or '_.:-', such as 'observation', 'tool_call', 'decision'.",
    ),
]
Content = Annotated[
    str, Meta(description="Text of 1 byte to 1 MiB in UTF-8, kept exactly as given. It cannot hold the NUL character.")
]
Importance = Annotated[float, Meta(ge=0, le=1, description="Importance is a number from 0 to 1.")]
Confidence = Annotated[float, Meta(ge=0, le=1, description="Confidence is a number from 0 to 1.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="How many to return, from 1 to 1000.")]
Cursor = Annotated[
    str, Meta(max_length=1000, description="Where to go on: the `next_cursor` of the page before, or nothing.")
]
Metadata = Annotated[
    dict[str, Any],
    Meta(description="A JSON object of at most 64 KiB and 16 levels, stored with the entry."),
]
FilterField = Annotated[
    dict[str, Any],
    Meta(
        description='Conditions on metadata, such as {"topic": "travel", "stars": {"$gte": 4}}; see the guide to search.'
    ),
]
After = Annotated[int, Meta(ge=0, le=2**62, description="Only what has a `seq` above this one.")]
Timeout = Annotated[float, Meta(ge=0, le=10, description="How many seconds to wait, from 0 to 10.")]


# -- Cursors: opaque to callers, and refused when they were not made by us for that list.


T = TypeVar("T")


def cut(rows: Sequence[T], limit: int, cursor_after: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """A page of rows that were asked for with one more than the limit, and where the next page begins, if there is one."""
    page = rows[:limit]
    return page, cursor_after(page[-1]) if len(rows) > limit else None


def to_cursor(kind: str, *position: int | str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([kind, *position])).decode().rstrip("=")


def from_cursor(kind: str, cursor: str | None, *start: int | str) -> list[Any]:
    """The position that a cursor stands for, or the start; the types must be those of the start."""
    if not cursor:
        return list(start)
    try:
        parts = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError):
        parts = None
    if (
        not isinstance(parts, list)
        or parts[:1] != [kind]
        or [type(part) for part in parts[1:]] != [type(part) for part in start]
        or not all(abs(part) < 2**63 for part in parts if isinstance(part, int))
    ):
        raise Invalid(
            "`cursor` is not one that this list gave out: leave it away to begin at the start.", field="cursor"
        )
    return parts[1:]


# -- Entity tags: by which a caller says which version of something is to be changed.


ANY, NONE = "*", "none"
"""Instead of a version: whichever there is, or that there is none."""
_BARE = re.compile(r"[0-9a-f]+-[0-9]+")
MAX_SHOWN = 50


def etag(address_id: int, version: int) -> str:
    """What tells a version from every other, also from those of a record that was deleted before."""
    return f'"{address_id:x}-{version}"'


def match(current: str | None, wanted: str | None) -> None:
    """Refuse to change what is not the version that was read, or one of several."""
    if wanted is None:
        return
    if wanted == NONE:
        if current is not None:
            raise Stale("There is such a record already: read it, and change that one.", version=current)
        return
    tags = [] if wanted == ANY else list(map(_quoted, wanted.split(",")))
    if current is None:
        raise Stale("There is no such record, or not any more: read it again and repeat the change.", version=None)
    if wanted == ANY or current in tags:
        return
    raise Stale("The record is not the one that was read: read it again and repeat the change.", version=current)


def _quoted(tag: str) -> str:
    """A tag as it is written. One that was copied without its quotes is meant as well; what can be none was never read."""
    tag = tag.strip()
    if tag.startswith(('"', "W/")):
        return tag
    if not _BARE.fullmatch(tag):
        told = "`if_match` is the `etag` that was read, or `*` (there must be a record), or `none` (there must not)"
        raise Invalid(f"{told}, not {tag[:MAX_SHOWN]!r}.", field="if_match")
    return f'"{tag}"'
