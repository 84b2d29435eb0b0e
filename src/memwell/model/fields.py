"""The types of request fields with their limits and checks, cursors of pages, and entity tags of versions.

A description is used in the OpenAPI document, the help of the command line, the reference, and the error for an invalid value.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import chain
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta

from .. import typed
from ..clock import to_micros
from ..errors import Invalid, Stale, TooLarge

MAX_ID = 256
MAX_CONTENT = 1024 * 1024
MAX_METADATA = 64 * 1024
MAX_DEPTH = 16
MAX_REQUEST_DEPTH = 128
"""Levels of a whole request; each field has its own limit."""
MAX_BATCH = 1000
MAX_FILTER = 256 * 1024
MAX_KEY = 256
MAX_FILE = 25 * 1024 * 1024

ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$(?!\n)"
"""`$` alone would accept a line break at the end."""
ID_ADVICE = f"An id has 1 to {MAX_ID} characters, no control characters, and is not '.' or '..'."


def name_limits(pattern: str, longest: int, description: str) -> Meta:
    """The limits of a field that is in `operation.NAME_CHECKS`, which checks the pattern. msgspec only documents it here, because
    matching it would double the time of a small request. Use it only for the top-level fields of a request."""
    return Meta(min_length=1, max_length=longest, description=description, extra_json_schema={"pattern": pattern})


def id_limits(longest: int, description: str | None = None) -> Meta:
    """The limits of an id or a name without control characters."""
    return Meta(min_length=1, max_length=longest, pattern=ID_PATTERN, description=description)


Flow = Annotated[str, name_limits(ID_PATTERN, MAX_ID, f"The flow. {ID_ADVICE}")]
User = Annotated[str, name_limits(ID_PATTERN, MAX_ID, f"The user. {ID_ADVICE}")]
SessionId = Annotated[str, name_limits(ID_PATTERN, MAX_ID, f"The session. {ID_ADVICE}")]
AnyId = Annotated[str, id_limits(MAX_ID, f"The id. {ID_ADVICE}")]
TenantId = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$(?!\n)",
        description="A tenant's name has 1 to 63 lower-case letters, digits, '-' or '_', and begins with a letter or digit.",
        extra={"bytes": 63},
    ),
]
Label = Annotated[str, id_limits(100, "A name of 1 to 100 printable characters.")]
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
    str,
    Meta(
        description="Text of 1 byte to 1 MiB in UTF-8, kept exactly. It cannot contain the NUL character.",
        extra={"bytes": MAX_CONTENT},
        extra_json_schema={"minLength": 1},
    ),
]
Importance = Annotated[float, Meta(ge=0, le=1, description="Importance is a number from 0 to 1.")]
Confidence = Annotated[float, Meta(ge=0, le=1, description="Confidence is a number from 0 to 1.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Largest number of results, from 1 to 1000.")]
Cursor = Annotated[
    str, Meta(max_length=1000, description="The `next_cursor` of the previous page; omit it for the first page.")
]
Metadata = Annotated[
    dict[str, Any],
    Meta(
        description="A JSON object of at most 64 KiB and 16 levels, stored with the entry. Keys have no dots, and do not begin "
        "with `$`, so that filters can address them.",
        extra={"bytes": MAX_METADATA},
    ),
]
FilterField = Annotated[
    dict[str, Any],
    Meta(
        description='Conditions on metadata, such as {"topic": "travel", "stars": {"$gte": 4}}; see the guide to search.',
        extra={"bytes": MAX_FILTER},
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
        raise Invalid(f"{choices}, not {tag[:50]!r}.", field="if_match")
    return f'"{tag}"'


# -- Checks that types cannot express

NOT_ALLOWED = "this holds a character that is not allowed"
MAX_BITS = 14_000
"""Bits of an integer; Python does not print longer ones."""
MAX_VALUES = 16 * 1024 * 1024
"""Values inside one value, repeated ones included: more than any request can hold, so that a cycle is detected."""
WORD = re.compile(r"^[A-Za-z0-9_]+$(?!\n)")
_ID = re.compile(ID_PATTERN)


def check_content(text: str, *, may_be_empty: bool = False, field: str = "content") -> str:
    if not text and not may_be_empty:
        raise Invalid(f"`{field}` is empty: give at least one character.", field=field)
    if "\x00" in text:
        raise Invalid(f"`{field}` holds the NUL character, which cannot be stored: remove it.", field=field)
    if len(text) * 3 > MAX_CONTENT and _size(text, field) > MAX_CONTENT:
        raise TooLarge(f"`{field}` is larger than 1 MiB: split it or store a reference.", field=field)
    if not text.isascii():
        _size(text, field)
    return text


def check_identifier(value: str, field: str) -> str:
    """Check a name that may be part of a URL, where clients would resolve `.` and `..`."""
    if value in (".", ".."):
        raise Invalid(f"`{field}` cannot be {value!r}. {ID_ADVICE}", field=field)
    if not value.isprintable() and not _ID.search(value):  # joiners, for one, are allowed
        raise Invalid(f"`{field}`: {NOT_ALLOWED}. {ID_ADVICE}", field=field)
    if not value.isascii():
        _size(value, field)
    return value


def check_word(value: str, field: str) -> str:
    """Check a name of letters, digits and underscores."""
    if not WORD.search(value):
        raise Invalid(f"`{field}`: {NOT_ALLOWED}. Use letters, digits and underscores.", field=field)
    return value


def check_idempotency_key(value: str) -> str:
    """Check an idempotency key, which is sent in a header."""
    if not 0 < len(value) <= MAX_KEY or not value.isascii() or not value.isprintable():
        raise Invalid(f"An Idempotency-Key has 1 to {MAX_KEY} printable ASCII characters.", field="key")
    return value


def check_json(value: Any, field: str, depth: int = MAX_DEPTH + 8, *, longest: int | None = None) -> None:
    """Reject values that JSON cannot express exactly, values with more than `depth` levels, and names longer than `longest`."""
    # Values are checked level by level, and those of one type together, which is as fast as encoding them.
    level, left = [value], MAX_VALUES
    for _ in range(depth + 1):
        left -= len(level)
        if left < 0:
            raise TooLarge(f"`{field}` holds more than {MAX_VALUES} values.", field=field)
        level = _check_level(level, field, longest)
        if not level:
            return
    raise Invalid(f"`{field}` is nested deeper than {depth} levels.", field=field)


def check_number(value: float | None, field: str) -> float | None:
    if value is not None and not math.isfinite(value):
        raise Invalid(f"`{field}` must be a number from 0 to 1, not {value}.", field=field)
    return value


def to_json(value: Any, field: str = "metadata", limit: int = MAX_METADATA) -> str | None:
    """Encode a value of a request as JSON, within the limits of size and depth. None and {} become None."""
    if not value:
        return None
    check_json(value, field, MAX_DEPTH)
    if not isinstance(value, dict | list):
        raise Invalid(f"`{field}` must be a JSON object or list.", field=field)
    text = msgspec.json.encode(value).decode()
    if len(text) > limit:
        raise TooLarge(f"`{field}` is larger than {limit // 1024} KiB as JSON.", field=field)
    return text


def check_keys(metadata: Any, field: str = "metadata", level: int = 0) -> None:
    """Reject keys of metadata that no filter can address."""
    if isinstance(metadata, list | tuple):
        for one in metadata:
            check_keys(one, field, level + 1)
    elif isinstance(metadata, Mapping):
        for key, value in metadata.items():
            name = str(key)
            reason = "a dot leads into an object: use another name, or an object" if "." in name else ""
            if level == 0 and name.startswith("$"):
                reason = "`$` begins operators: use another name"
            if reason:
                raise Invalid(
                    f"`{field}` has the key {reprlib.repr(name)}, which filters cannot address: {reason}.", field=field
                )
            if isinstance(value, Mapping | list | tuple):
                check_keys(value, field, level + 1)


def encode_metadata(metadata: dict[str, Any] | None, field: str = "metadata") -> str | None:
    """Encode the metadata of an entry, within its limits. Filters must be able to address all keys."""
    text = to_json(metadata, field)
    check_keys(metadata, field)
    return text


def _check_level(level: list[Any], field: str, longest: int | None) -> list[Any]:
    """Check the values of a level and return the values inside them."""
    found: list[Any] = []
    kinds = set(map(type, level))
    for kind in kinds:
        same: list[Any] = level if len(kinds) == 1 else [value for value in level if type(value) is kind]
        if issubclass(kind, dict):
            _check_keys(list(chain.from_iterable(same)), field, longest)
            found += chain.from_iterable(map(dict.values, same))
        elif issubclass(kind, list | tuple):
            found += chain.from_iterable(same)
        else:
            _check_leaves(kind, same, field)
    return found


def _check_keys(keys: list[Any], field: str, longest: int | None) -> None:
    for kind in set(map(type, keys)):
        if kind is not str and not issubclass(kind, Enum):
            wrong = next(key for key in keys if type(key) is kind)
            raise Invalid(f"`{field}` has a key that is not text: {repr(wrong)[:100]}.", field=field)
    _check_texts(keys, field)
    if longest is not None and max(map(len, keys), default=0) > longest:
        raise TooLarge(f"`{field}` has a name of more than {longest} characters: make it shorter.", field=field)


def _check_leaves(kind: type, values: list[Any], field: str) -> None:
    if issubclass(kind, Enum):
        if _check_level([value.value for value in values], field, None):
            raise Invalid(f"`{field}` holds a {kind.__name__}, which is not JSON.", field=field)
    elif kind is str:
        _check_texts(values, field)
    elif kind is float:
        if not all(map(math.isfinite, values)):
            wrong = next(value for value in values if not math.isfinite(value))
            raise Invalid(f"`{field}` holds {wrong}, which JSON cannot express.", field=field)
    elif kind is int:
        if max(max(values), -min(values)) >> MAX_BITS:
            raise Invalid(f"`{field}` holds a whole number that is too large.", field=field)
    elif kind not in (bool, NoneType, datetime):
        raise Invalid(f"`{field}` holds a {kind.__name__}, which is not JSON{_as_json(kind)}.", field=field)


def as_object(kind: type) -> str:
    """Advice, after a colon, on how to convert a Python object to a JSON object; empty if there is none."""
    if hasattr(kind, "model_dump"):
        return ': give its `model_dump(mode="json")`'
    return ": give its `dataclasses.asdict(…)`" if is_dataclass(kind) else ""


def _as_json(kind: type) -> str:
    if advice := as_object(kind):
        return advice
    if issubclass(kind, date | time):
        return ": give its `isoformat()`"
    bases = ((str, str | UUID | Decimal), (float, float), (int, int), (list, Set))
    base = next((one.__name__ for one, kinds in bases if issubclass(kind, kinds)), None)
    return "" if base is None else f": convert it by `{base}(…)`"


def _check_texts(texts: list[str], field: str) -> None:
    joined = "".join(texts)
    if "\x00" in joined:
        raise Invalid(f"`{field}` holds the NUL character, which cannot be stored: remove it.", field=field)
    if not joined.isascii():
        _size(joined, field)


def _size(text: str, field: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"`{field}` is not valid Unicode: it holds half of a surrogate pair.", field=field) from None


def to_instant(moment: datetime | None, field: str = "occurred_at") -> int | None:
    """Convert a time of a request to microseconds."""
    if moment is None:
        return None
    if not 2 <= moment.year <= 9998:
        raise Invalid(f"`{field}` is out of range: give a year from 2 to 9998.", field=field)
    return to_micros(moment)


_decode_object = typed.decoder(dict[str, Any])


def to_metadata(text: str | None) -> dict[str, Any] | None:
    return _decode_object(text) if text else None
