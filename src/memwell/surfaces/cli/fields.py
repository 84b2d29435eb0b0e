"""The fields of a request as arguments and options of a command, and the values given for them: JSON, lists, files, times."""

from __future__ import annotations

import base64
import inspect
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import NODEFAULT, UNSET
from msgspec.structs import FieldInfo

from ... import typed
from ...core.operation import Operation, field_advice
from ...errors import Invalid, TooLarge
from ...model.fields import MAX_FILE
from ...sdk.values import read_file

STANDARD_INPUT = "-"
FROM_FILE = "@"
MISSING_FILENAME = "--filename is missing: standard input has no file name."
CLEARING = "`''` clears it."
PLAIN = (str, int, float, bool)
ARGUMENT_SUFFIX = "_argument"
"""Ends the name of the parameter that takes a field as an argument, where it is an option as well."""

Parser = Callable[[str, Any], Any]
"""Parses the value of a field. The first argument is the field's name on the command line, for errors."""

_document_name: ContextVar[str] = ContextVar("document_name", default="document")

# -- files and standard input


def read_document(file: str) -> str:
    """Read a document. Problems found in it are reported with the name of the file."""
    _document_name.set(_display_name(file))
    return read_text(file)


def document_name() -> str:
    """The file that the command has read its document from."""
    return _document_name.get()


def reset_document_name() -> None:
    _document_name.set("document")


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


def parse_time(name: str, text: str) -> datetime:
    """Parse a day or a time; without a time zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"{name} must be a day or a time (RFC 3339), such as 2026-04-19 or 2026-04-19T10:00:00Z."
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_json(name: str, value: str) -> Any:
    """Parse JSON, or the JSON in a file: `@FILE`."""
    file = _file_of(value)
    try:
        return msgspec.json.decode(value if file is None else read_text(file))
    except msgspec.DecodeError as error:
        if file is None:
            raise Invalid(f"{name} must be JSON: {error}.{_suggest_file(value)}") from None
        raise Invalid(f"{name} in {_display_name(file)} must be JSON: {error}.") from None


def parse_list(name: str, value: str) -> Any:
    """Parse comma-separated texts, or a list as JSON."""
    return parse_json(name, value) if value.startswith(("[", FROM_FILE)) else _split(value)


def parse_projections(name: str, value: str) -> Any:
    """Parse comma-separated paths, or a list or an object as JSON, into an object of the fields to return."""
    if not value.strip().startswith(("{", "[", '"', FROM_FILE)):
        return dict.fromkeys(_split(value), 1)
    parsed = parse_json(name, value.strip())
    if isinstance(parsed, list) and all(isinstance(one, str) for one in parsed):
        return dict.fromkeys(parsed, 1)
    if not isinstance(parsed, dict):
        raise Invalid(
            f'{name} must be `one,two.three`, a list such as ["one", "two.three"], or an object such as {{"one": 1}}.'
        )
    return parsed


def parse_document(name: str, value: str) -> str:
    """Return a document as it stands, or from a file: `@FILE`."""
    file = _file_of(value)
    if file is None and (suggestion := _suggest_file(value)):
        raise Invalid(f"{name} must be a document, not the name of a file.{suggestion}")
    return value if file is None else read_document(file)


def parse_text(_name: str, value: str) -> str:
    """Return a text as it stands, or from a file: `@FILE`. `@@` begins a text that itself begins with `@`."""
    if value.startswith(FROM_FILE * 2):
        return value[len(FROM_FILE) :]
    file = _file_of(value)
    return value if file is None else read_text(file)


def parse_bytes(_name: str, value: str) -> bytes:
    """Parse Base64, or return the bytes of a file: `@FILE`."""
    file = _file_of(value)
    if file is not None:
        return read_bytes(file)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Invalid(f"{value[:100]!r} is not Base64. To upload a file, write @ before its path.") from None


def _clearable(kind: type) -> Parser:
    """A parser of a field that an empty text clears: over HTTP it is null."""

    def parse(name: str, value: str) -> Any:
        if not value:
            return None
        try:
            return typed.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise Invalid(f"{name} must be a number, not {value[:100]!r}. {CLEARING}") from None

    return parse


def parse_values(parse: Parser, name: str, value: Any) -> Any:
    """Parse the value of a field. Lists and objects given several times are joined."""
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
    """Reject a second `@-`: standard input can be read only once."""
    each = [part for one in values for part in (one if isinstance(one, list) else [one])]
    if sum(one == FROM_FILE + STANDARD_INPUT for one in each) > 1:
        raise Invalid("Standard input can be read only once: give `@-` once.")


def _suggest_file(value: str) -> str:
    return f" To read it from {value}, write {FROM_FILE}{value}." if os.path.isfile(value) else ""


def _file_of(value: str) -> str | None:
    return value[len(FROM_FILE) :] if value.startswith(FROM_FILE) else None


def _split(value: str) -> list[str]:
    return [text for part in value.split(",") if (text := part.strip())]


PARSERS: Mapping[str, Parser] = {
    "projections": parse_projections,
    "template": parse_text,
    "markdown_template": parse_text,
    "matching_rules_yaml": parse_text,
    "compaction_prompt": parse_text,
}
"""Parsers of fields whose type does not tell: paths that stand for an object, and texts that are kept in files. `content` is not
one of them, because what people say may begin with `@`."""
HELP: Mapping[Parser, str] = {
    parse_json: "JSON, or `@FILE`; `@-`: standard input.",
    parse_list: "`one,two`, JSON, or `@FILE`; `@-`: standard input. May be repeated.",
    parse_projections: "Or `one,two.three`, a JSON list, or `@FILE`; `@-`: standard input. May be repeated.",
    parse_document: "`@-`: standard input.",
    parse_text: "Or `@FILE`; `@-`: standard input; `@@…`: a text that begins with `@`.",
    parse_bytes: "The file as `@PATH`, at most 25 MiB, or its bytes as Base64; `@-`: standard input, with --filename.",
}
REPEATABLE = (parse_list, parse_projections)
METAVARS: Mapping[Parser, str] = {
    parse_json: "JSON",
    parse_list: "LIST",
    parse_projections: "FIELDS",
    parse_time: "TIME",
}

# -- arguments and options


class CommandField(NamedTuple):
    """A field of a request on the command line. One that is both an argument and an option has two parameters."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    parse: Parser | None
    """None: the value is taken as it stands."""
    default: Any
    choices: tuple[str, ...]


class FieldError(typer.BadParameter):
    """A usage error whose message names both ways to give a field, which Typer's own message would not."""

    def format_message(self) -> str:
        return self.message


def list_positional(operation: Operation) -> list[str]:
    """The fields that are arguments: those of the path, and the content."""
    content = [name for name in operation.request.__struct_fields__ if name == "content" and operation.writes]
    return [*operation.path_fields, *content]


def find_main_field(operation: Operation) -> str | None:
    """The field that is an argument as well as an option: the only required one beside the path, if no content is."""
    if len(list_positional(operation)) > len(operation.path_fields):
        return None
    required = [one.name for one in msgspec.structs.fields(operation.request) if one.required]
    others = [name for name in required if name not in operation.path_fields]
    return others[0] if len(others) == 1 else None


def list_fields(operation: Operation) -> list[CommandField]:
    """The fields of a request, arguments first."""
    hints = typing.get_type_hints(operation.request, include_extras=True)
    order = [*list_positional(operation), find_main_field(operation)]
    fields = sorted(
        msgspec.structs.fields(operation.request),
        key=lambda one: order.index(one.name) if one.name in order else len(order),
    )
    return [_to_command_field(operation, field, hints[field.name]) for field in fields]


def resolve_main_field(
    operation: Operation, values: Mapping[str, Any], invocation: typer.Context
) -> tuple[Mapping[str, Any], Collection[str]]:
    """Return the values by field, and the fields that were given as arguments."""
    arguments, name = list_positional(operation), find_main_field(operation)
    if name is None:
        return values, arguments
    argument = values[name + ARGUMENT_SUFFIX]
    if argument is None and values[name] is None:
        raise FieldError(f"Missing argument '{name.upper()}' (or {option_name(name)}).", invocation)
    if argument is not None and values[name] is not None:
        raise FieldError(f"{name.upper()} and {option_name(name)} are the same: give one of them.", invocation)
    return (values, arguments) if argument is None else ({**values, name: argument}, [*arguments, name])


def option_name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def label(field: str, arguments: Collection[str]) -> str:
    """A field as it was given: as an argument or as an option."""
    return field.upper() if field in arguments else option_name(field)


def map_labels(fields: Iterable[CommandField], data: Mapping[str, Any], arguments: Collection[str]) -> dict[str, str]:
    """Map fields to their labels, to translate error messages. Names that are also a choice or a given value are left out,
    because a message may mean these."""
    words = {*_words(data.values()), *(choice for field in fields for choice in field.choices)}
    return {field.name: label(field.name, arguments) for field in fields if field.name not in words}


def _words(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from map(str, value)
            yield from _words(value.values())
        elif isinstance(value, list):
            yield from _words(value)


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _to_command_field(operation: Operation, field: FieldInfo, hint: Any) -> CommandField:
    plain = _plain_type(hint)
    parse = _choose_parser(field, plain, hint)
    kind = plain if parse is None and plain in PLAIN else str  # choices are checked with the request, which says more
    choices = typing.get_args(plain)
    text = _help(operation, field, parse)
    argument = typer.Argument(help=text, metavar=field.name.upper(), show_default=False)
    if field.name in list_positional(operation):
        parameter = (
            keyword(field.name, Annotated[kind, argument])
            if field.required
            else keyword(field.name, Annotated[kind | None, argument], None)
        )
        return CommandField(field.name, (parameter,), parse, None, choices)
    default = None if parse is not None or field.default in (NODEFAULT, UNSET, "") else field.default
    metavar = f"[{'|'.join(choices)}]" if choices else None if parse is None else METAVARS.get(parse)
    if field.name == find_main_field(operation):
        # Neither parameter is required by itself: `resolve_main_field` checks that one of them is given.
        argument.help = f"{text} Required, here or as {option_name(field.name)}."
        both = (
            keyword(field.name + ARGUMENT_SUFFIX, Annotated[kind | None, argument], None),
            _to_option(field, kind, metavar, f"The same as {field.name.upper()}.", None, required=False),
        )
        return CommandField(field.name, both, parse, None, choices)
    required = field.required and not (operation.carries and field.name == "filename")
    kind = list[kind] if parse in REPEATABLE else kind  # type: ignore[valid-type]
    option = _to_option(field, kind, metavar, text, default, required=required)
    return CommandField(field.name, (option,), parse, default, choices)


def _to_option(
    field: FieldInfo, kind: Any, metavar: str | None, text: str, default: Any, *, required: bool
) -> inspect.Parameter:
    name = option_name(field.name)
    names = f"{name}/--no-{name[2:]}" if kind is bool else name
    option = typer.Option(names, help=text, metavar=metavar, show_default=default is not None)
    if required:
        return keyword(field.name, Annotated[kind, option])
    return keyword(field.name, Annotated[kind | None, option], default)


def _help(operation: Operation, field: FieldInfo, parse: Parser | None) -> str:
    form = HELP.get(parse, "") if parse is not None else ""
    if field.name == operation.carries:
        return form
    clearing = CLEARING if field.default is UNSET else ""
    return " ".join(filter(None, (field_advice(operation.request, field.name), form, clearing)))


def _plain_type(hint: Any) -> Any:
    """The type of a field that is given as it stands, as a time or as bytes; None for a field that is given as JSON."""
    options = [one for one in _union_members(hint) if one is not type(None)]
    if len(options) != 1:
        return None
    is_plain = typing.get_origin(options[0]) is typing.Literal or options[0] in (*PLAIN, datetime, bytes)
    return options[0] if is_plain else None


def _choose_parser(field: FieldInfo, kind: Any, hint: Any) -> Parser | None:
    if field.name in PARSERS and kind in (str, None):
        return PARSERS[field.name]
    if kind is datetime:
        return parse_time
    if kind is bytes:
        return parse_bytes
    if kind is not None:
        return _clearable(kind) if field.default is UNSET else None
    members = _union_members(hint)
    items = [typing.get_args(one)[0] for one in members if typing.get_origin(one) is list]
    if any(_plain_type(item) not in (None, datetime, bytes) for item in items):
        return parse_list
    is_document = str in members and any(typing.get_origin(one) is dict for one in members)
    return parse_document if is_document else parse_json


def _union_members(hint: Any) -> list[Any]:
    """The types of a union, without annotations."""
    if typing.get_origin(hint) is Annotated:
        return _union_members(typing.get_args(hint)[0])
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return [member for one in typing.get_args(hint) for member in _union_members(one)]
    return [hint]
