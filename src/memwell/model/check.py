"""Checks of values in requests that types cannot express."""

from __future__ import annotations

import math
import re
from collections.abc import Set
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import chain
from types import NoneType
from typing import Any
from uuid import UUID

import msgspec

from ..errors import Invalid, TooLarge
from .fields import ID_ADVICE, ID_PATTERN, MAX_CONTENT, MAX_DEPTH, MAX_KEY, MAX_METADATA

NOT_ALLOWED = "this holds a character that is not allowed"
MAX_BITS = 14_000
"""Bits of an integer; Python does not print longer ones."""
MAX_SHOWN = 100
MAX_VALUES = 16 * 1024 * 1024
"""Values inside one value, repeated ones included: more than any request can hold, so that a cycle is detected."""
WORD = re.compile(r"^[A-Za-z0-9_]+$(?!\n)")
_ID = re.compile(ID_PATTERN)


class _TooDeep(Exception):
    """A value has too many levels."""


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
    """Check a name that may be part of a URL, where clients would resolve `.` and `..`."""
    if value in (".", ".."):
        raise Invalid(f"`{field}` cannot be {value!r}. {ID_ADVICE}", field=field)
    if not value.isprintable() and not _ID.search(value):  # joiners, for one, are allowed
        raise Invalid(f"`{field}`: {NOT_ALLOWED}. {ID_ADVICE}", field=field)
    if not value.isascii():
        _size(value, field)
    return value


def word(value: str, field: str) -> str:
    """Check a name of letters, digits and underscores."""
    if not WORD.search(value):
        raise Invalid(f"`{field}`: {NOT_ALLOWED}. Use letters, digits and underscores.", field=field)
    return value


def key(value: str) -> str:
    """Check an idempotency key, which is sent in a header."""
    if not 0 < len(value) <= MAX_KEY or not value.isascii() or not value.isprintable():
        raise Invalid(f"An Idempotency-Key has 1 to {MAX_KEY} printable ASCII characters.", field="key")
    return value


def plain(value: Any, field: str, depth: int = MAX_DEPTH + 8, *, longest: int | None = None) -> None:
    """Reject values that JSON cannot express exactly, values with more than `depth` levels, and names longer than `longest`."""
    try:
        _check_tree(value, field, depth, longest)
    except _TooDeep:
        raise Invalid(f"`{field}` is nested deeper than {depth} levels.", field=field) from None


def number(value: float | None, field: str) -> float | None:
    if value is not None and not math.isfinite(value):
        raise Invalid(f"`{field}` must be a number from 0 to 1, not {value}.", field=field)
    return value


def to_json(value: Any, field: str = "metadata", limit: int = MAX_METADATA) -> str | None:
    """Encode a value of a request as JSON, within the limits of size and depth. None and {} become None."""
    if not value:
        return None
    plain(value, field, MAX_DEPTH)
    if not isinstance(value, dict | list):
        raise Invalid(f"`{field}` must be a JSON object or list.", field=field)
    text = msgspec.json.encode(value).decode()
    if len(text) > limit:
        raise TooLarge(f"`{field}` is larger than {limit // 1024} KiB as JSON.", field=field)
    return text


def _check_tree(value: Any, field: str, depth: int, longest: int | None = None) -> None:
    """Check a value level by level, and the values of one type together, which is as fast as encoding it."""
    level, left = [value], MAX_VALUES
    for _ in range(depth + 1):
        left -= len(level)
        if left < 0:
            raise TooLarge(f"`{field}` holds more than {MAX_VALUES} values.", field=field)
        level = _below(level, field, longest)
        if not level:
            return
    raise _TooDeep


def _below(level: list[Any], field: str, longest: int | None) -> list[Any]:
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
            raise Invalid(f"`{field}` has a key that is not text: {repr(wrong)[:MAX_SHOWN]}.", field=field)
    _check_texts(keys, field)
    if longest is not None and max(map(len, keys), default=0) > longest:
        raise TooLarge(f"`{field}` has a name of more than {longest} characters: make it shorter.", field=field)


def _check_leaves(kind: type, values: list[Any], field: str) -> None:
    if issubclass(kind, Enum):
        _check_tree([value.value for value in values], field, 1)
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
