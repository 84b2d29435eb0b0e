"""What types alone cannot say about a value that came from outside."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec

from ..errors import Invalid, TooLarge
from .fields import ID_ADVICE, MAX_CONTENT, MAX_DEPTH, MAX_KEY, MAX_METADATA

MAX_BITS = 14_000
"""Of a whole number: Python writes no longer ones."""


class _TooDeep(Exception):
    """A value has more levels than it may."""


def content(text: str, *, may_be_empty: bool = False, field: str = "content") -> str:
    if not text and not may_be_empty:
        raise Invalid(f"`{field}` is empty: give at least one character.", field=field)
    if "\x00" in text:
        raise Invalid(f"`{field}` holds the NUL character, which cannot be stored: remove it.", field=field)
    if len(text) * 3 > MAX_CONTENT and _size(text, field) > MAX_CONTENT:
        raise TooLarge(f"`{field}` is larger than 1 MiB: split it or store a reference.", field=field)
    if not text.isascii():
        _size(text, field)
    return text


def identifier(value: str, field: str) -> str:
    """A name that may stand in a URL: `.` and `..` would be folded away by clients."""
    if value in (".", ".."):
        raise Invalid(f"`{field}` cannot be {value!r}. {ID_ADVICE}", field=field)
    if not value.isascii():
        _size(value, field)
    return value


def key(value: str) -> str:
    """An idempotency key, as it may stand in a header."""
    if not 0 < len(value) <= MAX_KEY or not value.isascii() or not value.isprintable():
        raise Invalid(f"An Idempotency-Key has 1 to {MAX_KEY} printable ASCII characters.", field="key")
    return value


def plain(value: Any, field: str, depth: int = MAX_DEPTH + 8) -> None:
    """Refuse what would change on its way through JSON, and what is nested deeper than so many levels."""
    try:
        _check_tree(value, field, depth)
    except _TooDeep:
        raise Invalid(f"`{field}` is nested deeper than {depth} levels.", field=field) from None


def number(value: float | None, field: str) -> float | None:
    if value is not None and not math.isfinite(value):
        raise Invalid(f"`{field}` must be a number from 0 to 1, not {value}.", field=field)
    return value


def to_json(value: Any, field: str = "metadata", limit: int = MAX_METADATA) -> str | None:
    """JSON text of a value from outside, within the limits of size and depth; None and {} are nothing."""
    if not value:
        return None
    plain(value, field, MAX_DEPTH)
    if not isinstance(value, dict | list):
        raise Invalid(f"`{field}` must be a JSON object or list.", field=field)
    text = msgspec.json.encode(value).decode()
    if len(text) > limit:
        raise TooLarge(f"`{field}` is larger than {limit // 1024} KiB as JSON.", field=field)
    return text


def _check_tree(value: Any, field: str, depth: int) -> None:
    if depth < 0:
        raise _TooDeep
    match value:
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise Invalid(f"`{field}` has a key that is not text: {key!r}.", field=field)
                _check_tree(key, field, depth)
                _check_tree(item, field, depth - 1)
        case list() | tuple():
            for item in value:
                _check_tree(item, field, depth - 1)
        case str():
            if "\x00" in value:
                raise Invalid(f"`{field}` holds the NUL character, which cannot be stored: remove it.", field=field)
            _size(value, field)
        case float():
            if not math.isfinite(value):
                raise Invalid(f"`{field}` holds {value}, which JSON cannot express.", field=field)
        case int():
            if value.bit_length() > MAX_BITS:
                raise Invalid(f"`{field}` holds a whole number that is too large.", field=field)
        case None | datetime():
            pass
        case _:
            raise Invalid(f"`{field}` holds a {type(value).__name__}, which is not JSON.", field=field)


def _size(text: str, field: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"`{field}` is not valid Unicode: it holds half of a surrogate pair.", field=field) from None
