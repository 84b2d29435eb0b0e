"""The types of request fields with their limits, cursors of pages, and entity tags of versions.

A description is used in the OpenAPI document, the help of the command line, the reference, and the error for an invalid value.
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
"""Levels of a whole request; each field has its own limit."""
MAX_BATCH = 1000
MAX_KEY = 256

ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$(?!\n)"
"""`$` alone would accept a line break at the end."""
ID_ADVICE = f"An id has 1 to {MAX_ID} characters, no control characters, and is not '.' or '..'."


def name_limits(pattern: str, longest: int, description: str) -> Meta:
    """The limits of a field that is in `operation.NAME_CHECKS`, which checks the pattern. msgspec only documents it here, because
    matching it would double the time of a small request. Use it only for the top-level fields of a request."""
    return Meta(min_length=1, max_length=longest, description=description, extra_json_schema={"pattern": pattern})


Flow = Annotated[str, name_limits(ID_PATTERN, MAX_ID, f"The flow. {ID_ADVICE}")]
User = Annotated[str, name_limits(ID_PATTERN, MAX_ID, f"The user. {ID_ADVICE}")]
SessionId = Annotated[str, name_limits(ID_PATTERN, MAX_ID, f"The session. {ID_ADVICE}")]
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
    Meta(description="The speaker: 'user', 'assistant', 'tool' or 'system'."),
]
Kind = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z][A-Za-z0-9_.:-]*$(?!\n)",
        description="Kind of the entry: 1 to 64 letters, digits or '_.:-', such as 'observation', 'tool_call', 'decision'.",
    ),
]
Content = Annotated[
    str, Meta(description="Text of 1 byte to 1 MiB in UTF-8, kept exactly. It cannot contain the NUL character.")
]
Importance = Annotated[float, Meta(ge=0, le=1, description="Importance is a number from 0 to 1.")]
Confidence = Annotated[float, Meta(ge=0, le=1, description="Confidence is a number from 0 to 1.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Largest number of results, from 1 to 1000.")]
Cursor = Annotated[
    str, Meta(max_length=1000, description="The `next_cursor` of the previous page; omit it for the first page.")
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
After = Annotated[int, Meta(ge=0, le=2**62, description="Return only items with a larger `seq`.")]
Timeout = Annotated[float, Meta(ge=0, le=10, description="Seconds to wait, from 0 to 10.")]


T = TypeVar("T")


def cut(rows: Sequence[T], limit: int, cursor_after: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Cut rows to a page and return it with the cursor of the next page, if any. The caller reads one row more than the limit."""
    page = rows[:limit]
    return page, cursor_after(page[-1]) if len(rows) > limit else None


def to_cursor(kind: str, *position: int | str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([kind, *position])).decode().rstrip("=")


def from_cursor(kind: str, cursor: str | None, *start: int | str) -> list[Any]:
    """Decode a cursor to its position; without one, return the start. Reject a cursor of another list."""
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
        raise Invalid("`cursor` is not from this list: omit it to begin at the start.", field="cursor")
    return parts[1:]


ANY, NONE = "*", "none"
"""Values of `if_match` instead of a tag: any version, or no record."""
_BARE = re.compile(r"[0-9a-f]+-[0-9]+")
MAX_SHOWN = 50


def etag(address_id: int, version: int) -> str:
    """The entity tag of a version. It also differs from those of a deleted record of the same name."""
    return f'"{address_id:x}-{version}"'


def match(current: str | None, wanted: str | None) -> None:
    """Raise Stale unless the current version is one that the caller wants to change."""
    if wanted is None:
        return
    if wanted == NONE:
        if current is not None:
            raise Stale("The record exists already: read it and change it instead.", version=current)
        return
    tags = [] if wanted == ANY else list(map(_quote_tag, wanted.split(",")))
    if current is None:
        raise Stale("The record does not exist, or was deleted: read it again and repeat the change.", version=None)
    if wanted == ANY or current in tags:
        return
    raise Stale("The record has changed since it was read: read it again and repeat the change.", version=current)


def _quote_tag(tag: str) -> str:
    """Add missing quotes to a tag, and reject text that cannot be a tag."""
    tag = tag.strip()
    if tag.startswith(('"', "W/")):
        return tag
    if not _BARE.fullmatch(tag):
        choices = "`if_match` is the `etag` that was read, `*` (the record must exist) or `none` (it must not exist)"
        raise Invalid(f"{choices}, not {tag[:MAX_SHOWN]!r}.", field="if_match")
    return f'"{tag}"'
