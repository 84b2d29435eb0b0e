"""What is given on a command line and is no plain text: JSON, lists, documents, bytes, and what an empty text clears."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ... import typed
from ...errors import Invalid
from .reading import STANDARD_INPUT, bytes_of, called, file_text, text_of
from .times import moment

FROM_FILE = "@"
CLEARED = "`''` clears it."

Reader = Callable[[str, Any], Any]
"""Reads what was given for a field. What the field is called on the command line is told with what is wrong."""


def json_given(name: str, value: str) -> Any:
    """JSON as it stands, or from a file: `@FILE`."""
    file = _file(value)
    try:
        return msgspec.json.decode(value if file is None else file_text(file))
    except msgspec.DecodeError as error:
        if file is None:
            raise Invalid(f"{name} must be JSON: {error}.{_forgotten(value)}") from None
        raise Invalid(f"{name} in {called(file)} must be JSON: {error}.") from None


def list_given(name: str, value: str) -> Any:
    """Texts with commas between them, or a list as JSON."""
    return json_given(name, value) if value.startswith(("[", FROM_FILE)) else _texts(value)


def fields_given(name: str, value: str) -> Any:
    """The paths of fields with commas between them, each of which is to be returned, or the same as JSON: a list of them, or an
    object. What begins like JSON is no path, which would be that of nothing."""
    if not value.strip().startswith(("{", "[", '"', FROM_FILE)):
        return dict.fromkeys(_texts(value), 1)
    found = json_given(name, value.strip())
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return dict.fromkeys(found, 1)
    if not isinstance(found, dict):
        raise Invalid(
            f'{name} is `one,two.three`, a list such as ["one", "two.three"], or an object such as {{"one": 1}}.'
        )
    return found


def read_given(read: Reader, name: str, value: Any) -> Any:
    """What was given for a field, read as it is meant; what was given several times, together."""
    if not isinstance(value, list):
        return read(name, value)
    found = [read(name, one) for one in value]
    if len(found) == 1:
        return found[0]
    if all(isinstance(one, list) for one in found):
        return [text for one in found for text in one]
    if all(isinstance(one, dict) for one in found):
        return {field: mark for one in found for field, mark in one.items()}
    raise Invalid(f"{name} was given {len(found)} times: give it once, or each time as a list.")


def document_given(name: str, value: str) -> str:
    """A document as it stands, or from a file: `@FILE`."""
    file = _file(value)
    if file is None and (advice := _forgotten(value)):
        raise Invalid(f"{name} is a document, not the name of a file.{advice}")
    return value if file is None else text_of(file)


def text_given(_name: str, value: str) -> str:
    """A text as it stands, or from a file: `@FILE`. Two `@` in front of a text are one that belongs to it."""
    if value.startswith(FROM_FILE * 2):
        return value[len(FROM_FILE) :]
    file = _file(value)
    return value if file is None else file_text(file)


def bytes_given(_name: str, value: str) -> bytes:
    """Bytes as Base64, or from a file: `@FILE`."""
    file = _file(value)
    if file is not None:
        return bytes_of(file)
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
            return typed.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise Invalid(f"{name} is a number, not {value[:100]!r}. {CLEARED}") from None

    return read


READERS: Mapping[str, Reader] = {
    "projections": fields_given,
    "template": text_given,
    "markdown_template": text_given,
    "matching_rules_yaml": text_given,
    "compaction_prompt": text_given,
}
"""How a field is read whose type does not tell: paths that stand for an object, and texts that are kept in files. What somebody
says is not among them, since it may begin with `@`."""

ADVICE: Mapping[Reader, str] = {
    json_given: "As JSON, or from `@FILE`; `@-`: standard input.",
    list_given: "As `one,two`, as JSON, or from `@FILE`; `@-`: standard input. May be given several times.",
    fields_given: "Or as `one,two.three`, as a list in JSON, or from `@FILE`; `@-`: standard input. May be given several times.",
    document_given: "`@-`: standard input.",
    text_given: "Or from `@FILE`; `@-`: standard input; `@@…`: a text that begins with `@`.",
    bytes_given: "The file as `@PATH`, at most 25 MiB, or its bytes as Base64; `@-`: standard input, with --filename.",
}
SEVERAL = (list_given, fields_given)
METAVARS: Mapping[Reader, str] = {json_given: "JSON", list_given: "LIST", fields_given: "FIELDS", moment: "TIME"}


def option(name: str) -> str:
    """A field as an option."""
    return f"--{name.replace('_', '-')}"


def require_one_input(given: Iterable[Any]) -> None:
    """What was read from the standard input is gone."""
    each = [part for one in given for part in (one if isinstance(one, list) else [one])]
    if sum(one == FROM_FILE + STANDARD_INPUT for one in each) > 1:
        raise Invalid("The standard input can be read once: give `@-` once only.")


def _forgotten(value: str) -> str:
    """What to do about the name of a file that was given instead of what is in it."""
    return f" To read it from {value}, write {FROM_FILE}{value}." if os.path.isfile(value) else ""


def _file(value: str) -> str | None:
    return value[len(FROM_FILE) :] if value.startswith(FROM_FILE) else None


def _texts(value: str) -> list[str]:
    return [text for part in value.split(",") if (text := part.strip())]
