"""What a run of tasks is given: `$input`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...errors import Invalid
from ...model.schema import Schema


def input_of(text: str) -> dict[str, Any]:
    """`$input`: the object that was given, or the text that was, as its `text`."""
    if text.lstrip().startswith("{"):
        try:
            found = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            found = None
        if isinstance(found, dict):
            return found
    return {"text": text}


def said_in(given: Mapping[str, Any]) -> str:
    """What was said, if something was."""
    said = given.get("text")
    return said if isinstance(said, str) else ""


def held_to(schema: Mapping[str, Any] | None, text: str) -> None:
    """Refuse an input that does not fit."""
    if schema is None:
        return
    problems = Schema(schema, strict=False).problems(input_of(text))
    if problems:
        told = "; ".join(f"{one.path or 'the input'}: {one.reason}" for one in problems[:5])
        raise Invalid(f"The input does not fit the schema of the workflow: {told}", field="input")
