"""What is given on a command line and is no plain text: JSON, documents, bytes, and what an empty text clears."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from ...errors import Invalid
from .reading import bytes_of, file_text, text_of

FROM_FILE = "@"
JSON_ADVICE = "As JSON, or from a file: `@FILE`."
CLEARED = "`''` clears it."

Reader = Callable[[str, Any], Any]
"""Reads what was given for a field, by the field's name."""


def json_given(name: str, value: str) -> Any:
    """JSON as it stands, or from a file: `@FILE`."""
    file = value[len(FROM_FILE) :] if value.startswith(FROM_FILE) else None
    try:
        return msgspec.json.decode(value if file is None else file_text(file))
    except msgspec.DecodeError as error:
        where = "" if file is None else f" in {file}"
        raise Invalid(f"{option(name)}{where} must be JSON: {error}.") from None


def document_given(_name: str, value: str) -> str:
    """A document as it stands, or from a file: `@FILE`."""
    return text_of(value[len(FROM_FILE) :]) if value.startswith(FROM_FILE) else value


def bytes_given(_name: str, value: str) -> bytes:
    """Bytes as Base64, or from a file: `@FILE`."""
    if value.startswith(FROM_FILE):
        return bytes_of(value[len(FROM_FILE) :])
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Invalid(f"{value[:100]!r} is not Base64. To upload a file, write @ before its path.") from None


def clearable(kind: type) -> Reader:
    """Of a field that may be cleared: nothing if the text is empty, which over HTTP is null."""

    def read(name: str, value: str) -> Any:
        if not value:
            return None
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise Invalid(f"{option(name)} is a number, not {value[:100]!r}. {CLEARED}") from None

    return read


def option(name: str) -> str:
    """A field as an option."""
    return f"--{name.replace('_', '-')}"
