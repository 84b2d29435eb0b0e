"""Cursors: opaque to callers, and refused when they were not made by us for that list."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from ..errors import Invalid

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
