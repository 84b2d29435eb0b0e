"""Values given on the command line: files and standard input, JSON, lists, documents, times."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
import typer

from ...errors import Invalid, TooLarge
from ...model.fields import MAX_FILE
from ...sdk.values import read_file
from ...text.moments import parse_date

STANDARD_INPUT = "-"
FROM_FILE = "@"
_DOCUMENTS = (".yaml", ".yml", ".json")
_LONGEST_PATH = 4096
_PAIR = re.compile(r"([^\s{\[\"@=][^=]*)=(.*)", re.DOTALL)
MISSING_FILENAME = "--filename is missing: standard input has no file name."

Parser = Callable[[str, Any], Any]
"""Parses the value of a field. The first argument is the field's name on the command line, for errors."""

document_name: ContextVar[str] = ContextVar("document_name", default="document")
"""The file that the command has read its document from."""

# -- files and standard input


def read_document(file: str) -> str:
    """Read a document. Problems found in it are reported with the name of the file."""
    document_name.set(_display_name(file))
    return read_text(file)


def read_text(file: str) -> str:
    """Read a text from a file, or from standard input: `-`."""
    try:
        if file == STANDARD_INPUT:
            return typer.get_binary_stream("stdin").read().decode("utf-8-sig")
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{_display_name(file)} is not UTF-8 text.") from None


def read_bytes(file: str) -> bytes:
    """Read a file or standard input, up to the size that an upload may have."""
    if file != STANDARD_INPUT:
        return read_file(file, None)[0]
    content: bytes = typer.get_binary_stream("stdin").read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise TooLarge(f"{_display_name(file)} is larger than {MAX_FILE // 1024**2} MiB: split it.", limit=MAX_FILE)
    return content


def _display_name(file: str) -> str:
    return "<stdin>" if file == STANDARD_INPUT else file


# -- values


def option_name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def parse_time(name: str, text: str) -> str:
    """Check a day or a time. It is read where the memory is, in the time zone that is set there."""
    if parse_date(text) is None:
        raise Invalid(f"{name} must be a day or a time (RFC 3339), such as 2026-04-19 or 2026-04-19T10:00:00Z.")
    return text


def parse_json(name: str, value: str, forms: str = "JSON or the name of a file") -> Any:
    """Parse JSON, or the JSON in a file or in standard input. `forms` are named in the error."""
    file = _marked_file(value)
    if file is None:
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            if not os.path.isfile(value):
                raise Invalid(f"{name} must be {forms}: {error}.") from None
        file = value
    try:
        return msgspec.json.decode(read_text(file))
    except msgspec.DecodeError as error:
        raise Invalid(f"{name} in {_display_name(file)} must be JSON: {error}.") from None


def parse_metadata(name: str, value: str) -> Any:
    """Parse `name=text`, or an object as JSON."""
    found = _PAIR.fullmatch(value)
    return {found[1]: found[2]} if found else parse_json(name, value, "`name=text`, JSON or the name of a file")


def parse_list(name: str, value: str) -> Any:
    """Parse comma-separated texts, or a list as JSON."""
    is_json = value.startswith("[") or _marked_file(value) is not None
    return parse_json(name, value) if is_json else _split(value)


def parse_projections(name: str, value: str) -> Any:
    """Parse comma-separated paths, or a list or an object as JSON, into an object of the fields to return."""
    value = value.strip()
    if not value.startswith(("{", "[", '"')) and _marked_file(value) is None:
        return dict.fromkeys(_split(value), 1)
    parsed = parse_json(name, value)
    if isinstance(parsed, list) and all(isinstance(one, str) for one in parsed):
        return dict.fromkeys(parsed, 1)
    if not isinstance(parsed, dict):
        raise Invalid(
            f'{name} must be `one,two.three`, a list such as ["one", "two.three"], or an object such as {{"one": 1}}.'
        )
    return parsed


def parse_document(name: str, value: str) -> str:
    """Read a document from a file or from standard input, or return it as it is."""
    file = value if os.path.isdir(value) else _find_file(value)  # a directory is an error
    if file is None and value.endswith(_DOCUMENTS) and "\n" not in value:
        raise Invalid(f"{name}: there is no file {value[:200]!r}.")
    return value if file is None else read_document(file)


def parse_text(_name: str, value: str) -> str:
    """Read a text from a file or from standard input, or return it as it is. `@@` stands for a leading `@` of the text."""
    if value.startswith(FROM_FILE * 2):
        return value[len(FROM_FILE) :]
    file = _find_file(value)
    return value if file is None else read_text(file)


def parse_content(_name: str, value: str) -> str:
    """Read what is said from standard input, without its last line break, or return it as it is."""
    return value if value != STANDARD_INPUT else read_text(value).removesuffix("\n").removesuffix("\r")


def parse_bytes(_name: str, value: str) -> bytes:
    """Read the bytes of a file or of standard input, or parse Base64."""
    file = _find_file(value)
    if file is not None:
        return read_bytes(file)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Invalid(f"There is no file {value[:200]!r}, and it is not Base64.") from None


def parse_values(parse: Parser, name: str, value: Any) -> Any:
    """Parse the value of a field. Join lists and objects of a repeated option."""
    if not isinstance(value, list):
        return parse(name, value)
    parsed = [parse(name, one) for one in value]
    if len(parsed) == 1:
        return parsed[0]
    if all(isinstance(one, list) for one in parsed):
        return [text for one in parsed for text in one]
    if all(isinstance(one, dict) for one in parsed):
        return {field: mark for one in parsed for field, mark in one.items()}
    raise Invalid(f"{name} was given {len(parsed)} times: give it once, or as a list each time.")


def check_standard_input(values: Iterable[Any]) -> None:
    """Reject a second `-`: standard input can be read only once."""
    each = [part for one in values for part in (one if isinstance(one, list) else [one])]
    if sum(isinstance(one, str) and _marked_file(one) == STANDARD_INPUT for one in each) > 1:
        raise Invalid("Standard input can be read only once: give `-` once.")


def file_name(value: str) -> str | None:
    """The name of the file that `parse_bytes` reads; None if it reads no file."""
    file = _find_file(value)
    if file == STANDARD_INPUT:
        raise Invalid(MISSING_FILENAME)
    return None if file is None else Path(file).name


def _marked_file(value: str) -> str | None:
    """Return the file of `@FILE`, or `-` for standard input."""
    return (
        STANDARD_INPUT if value == STANDARD_INPUT else value[len(FROM_FILE) :] if value.startswith(FROM_FILE) else None
    )


def _find_file(value: str) -> str | None:
    """Return the file that a value names, with or without `@`."""
    return _marked_file(value) or (value if len(value) < _LONGEST_PATH and os.path.isfile(value) else None)


def _split(value: str) -> list[str]:
    return [text for part in value.split(",") if (text := part.strip())]
