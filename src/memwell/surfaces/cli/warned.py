"""What answers warn of, which people are told besides the answer: it is on standard error, and in JSON where it always was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

FIELD = "warnings"
NAMES = ("technical_name", "slug", "name", "id")
"""The fields by which something in a list is told apart, the most telling first."""


def warnings_of(answer: Any, where: str = "") -> Iterator[str]:
    """What an answer warns of, and each of the things in it; never what only looks like it in somebody's values."""
    if isinstance(answer, list):
        for one in answer:
            yield from warnings_of(one, _name(one))
    elif isinstance(answer, dict):
        for name, one in answer.items():
            yield from warnings_of(one, str(name))
    elif isinstance(answer, msgspec.Struct):
        for field in answer.__struct_fields__:
            value = getattr(answer, field)
            yield from _sentences(value, where) if field == FIELD else warnings_of(value)


def without_warnings(answer: Any) -> Any:
    """An answer as plain values, without what it warns of."""
    plain = msgspec.to_builtins(answer, builtin_types=(datetime,))
    _strip(answer, plain)
    return plain


def _sentences(value: Any, where: str) -> Iterator[str]:
    """Texts, what is wrong with places in a value or with what a slug names, or a mapping of slugs to such lists."""
    if isinstance(value, dict):
        for slug, several in value.items():
            yield from _sentences(several, slug)
        return
    for one in value or ():
        if isinstance(one, str):
            yield _said(where, one)
        else:
            at = getattr(one, "path", None) or getattr(one, "slug", "")
            yield _said(".".join(filter(None, (where, at))), one.reason)


def _said(where: str, reason: str) -> str:
    return f"`{where}`: {reason}" if where else reason


def _name(one: Any) -> str:
    return next((str(found) for name in NAMES if (found := getattr(one, name, None))), "")


def _strip(answer: Any, plain: Any) -> None:
    """What is nothing but its default is not among the plain values."""
    if isinstance(answer, list) and isinstance(plain, list):
        for one, same in zip(answer, plain, strict=True):
            _strip(one, same)
    elif isinstance(plain, dict):
        fields = answer.__struct_fields__ if isinstance(answer, msgspec.Struct) else ()
        if FIELD in fields:
            plain.pop(FIELD, None)
        for name in plain:
            _strip(getattr(answer, name) if name in fields else answer[name], plain[name])
