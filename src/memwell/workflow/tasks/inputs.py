"""What a run of tasks is given: `$input`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import Invalid
from ...model.schema import Schema


def input_of(text: str, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """`$input`: what was said as its `text`, and the fields that were given. A text is never taken for fields: whoever writes
    a message does not decide them."""
    return {**({"text": text} if text or inputs is None else {}), **(inputs or {})}


def said_in(given: Mapping[str, Any]) -> str:
    """What was said, if something was."""
    said = given.get("text")
    return said if isinstance(said, str) else ""


def held_to(schema: Mapping[str, Any] | None, given: Mapping[str, Any]) -> None:
    """Refuse an input that does not fit."""
    if schema is None:
        return
    problems = Schema(schema, strict=False).problems(dict(given))
    if problems:
        told = "; ".join(f"{one.path or 'the input'}: {one.reason}" for one in problems[:5])
        raise Invalid(f"The input does not fit the schema of the workflow: {told}", field="input")
