"""Files and the standard input, as commands read them."""

from __future__ import annotations

import base64
import inspect
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import NODEFAULT, UNSET
from msgspec.structs import FieldInfo

from ... import typed
from ...core.operation import Operation, advice
from ...errors import Invalid, TooLarge
from ...records.file_rows import MAX_FILE
from ...sdk.values import file_given
from .target import moment

STANDARD_INPUT = "-"
NAMELESS = "--filename is missing: what comes from the standard input has no name of its own."
_document: ContextVar[str] = ContextVar("document", default="document")


def text_of(file: str) -> str:
    """The text of a file with a document. Problems that are found in it are told with the file's name."""
    _document.set(called(file))
    return file_text(file)


def file_text(file: str) -> str:
    """The text of a file, or of the standard input: `-`."""
    try:
        if file == STANDARD_INPUT:
            return typer.get_binary_stream("stdin").read().decode("utf-8-sig")
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{called(file)} is not a text in UTF-8.") from None


def bytes_of(file: str) -> bytes:
    """The bytes of a file, or of the standard input: `-`. Of what is too large, no more is read than it takes to know that."""
    if file != STANDARD_INPUT:
        return file_given(file, None)[0]
    content: bytes = typer.get_binary_stream("stdin").read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise TooLarge(f"{called(file)} is larger than {MAX_FILE // 1024**2} MiB: split it.", limit=MAX_FILE)
    return content


def called(file: str) -> str:
    """A file as compilers name it."""
    return "<stdin>" if file == STANDARD_INPUT else file


def document() -> str:
    """What the command has read its document from."""
    return _document.get()


def forget_document() -> None:
    """For the next command in this process."""
    _document.set("document")


# -- What is given on a command line and is no plain text: JSON, lists, documents, bytes, and what an empty text clears.


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


# -- The fields of a request as arguments and options: their names, types, defaults and help.


PLAIN = (str, int, float, bool)


class Taken(NamedTuple):
    """A field as the command line takes it, how what was given for it is read, if it is not taken as it stands, and what can be
    chosen from. One that may be given with and without its name has two parameters."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    read: Reader | None
    default: Any
    choices: tuple[str, ...]


def taken(operation: Operation) -> list[Taken]:
    """The fields of a request, those without a name first."""
    hints = typing.get_type_hints(operation.request, include_extras=True)
    order = [*positional(operation), needed(operation)]
    fields = msgspec.structs.fields(operation.request)
    fields = tuple(sorted(fields, key=lambda one: order.index(one.name) if one.name in order else len(order)))
    return [_taken(operation, field, hints[field.name]) for field in fields]


def spelled(fields: Iterable[Taken], data: Mapping[str, Any], bare: Collection[str]) -> dict[str, str]:
    """The fields of a request by their names on the command line. Words that are something else as well are left out, which may
    be meant: a choice, or what was given."""
    words = {*_words(data.values()), *(choice for field in fields for choice in field.choices)}
    return {field.name: label(field.name, bare) for field in fields if field.name not in words}


def _words(values: Iterable[Any]) -> Iterator[str]:
    """The texts and names in what was given, at every depth."""
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


def _taken(operation: Operation, field: FieldInfo, hint: Any) -> Taken:
    plain = _plain(hint)
    read = _reader(field, plain, hint)
    kind = plain if read is None and plain in PLAIN else str  # a choice is checked with the request, which says more
    choices = typing.get_args(plain)
    text = _help(operation, field, read)
    if field.name in positional(operation):
        return Taken(field.name, (_argument(field, kind, text),), read, None, choices)
    default = None if read is not None or field.default in (NODEFAULT, UNSET, "") else field.default
    metavar = f"[{'|'.join(choices)}]" if choices else None if read is None else METAVARS.get(read)
    if field.name == needed(operation):
        return Taken(field.name, _either(field, kind, metavar, text), read, None, choices)
    required = field.required and not (operation.carries and field.name == "filename")
    many = list[kind] if read in SEVERAL else kind  # type: ignore[valid-type]
    made = _option(field, many, metavar, text, default, required=required)
    return Taken(field.name, (made,), read, default, choices)


def _argument(field: FieldInfo, kind: Any, text: str) -> inspect.Parameter:
    argument = typer.Argument(help=text, metavar=field.name.upper(), show_default=False)
    if field.required:
        return keyword(field.name, Annotated[kind, argument])
    return keyword(field.name, Annotated[kind | None, argument], None)


def _either(field: FieldInfo, kind: Any, metavar: str | None, text: str) -> tuple[inspect.Parameter, ...]:
    """A field as an argument and as an option. Neither is required by itself; that one is, is seen when both are known."""
    text = f"{text} Required, here or as {option(field.name)}."
    argument = typer.Argument(help=text, metavar=field.name.upper(), show_default=False)
    bare = keyword(field.name + BARE, Annotated[kind | None, argument], None)
    return bare, _option(field, kind, metavar, f"The same as {field.name.upper()}.", None, required=False)


def _option(
    field: FieldInfo, kind: Any, metavar: str | None, text: str, default: Any, *, required: bool
) -> inspect.Parameter:
    name = option(field.name)
    names = f"{name}/--no-{name[2:]}" if kind is bool else name
    made = typer.Option(names, help=text, metavar=metavar, show_default=default is not None)
    if required:
        return keyword(field.name, Annotated[kind, made])
    return keyword(field.name, Annotated[kind | None, made], default)


def _help(operation: Operation, field: FieldInfo, read: Reader | None) -> str:
    """What a field is for, and how it is given if it is no plain text."""
    how = ADVICE.get(read, "") if read is not None else ""
    if field.name == operation.carries:
        return how
    cleared = CLEARED if field.default is UNSET else ""
    return " ".join(filter(None, (advice(operation.request, field.name), how, cleared)))


def _plain(hint: Any) -> Any:
    """The type of a field that is given as it stands, as a time or as bytes; None if it is given as JSON."""
    if typing.get_origin(hint) is Annotated:
        return _plain(typing.get_args(hint)[0])
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        options = [one for one in typing.get_args(hint) if one is not type(None)]
        return _plain(options[0]) if len(options) == 1 else None
    if typing.get_origin(hint) is typing.Literal or hint in (*PLAIN, datetime, bytes):
        return hint
    return None


def _reader(field: FieldInfo, kind: Any, hint: Any) -> Reader | None:
    """How what is given for a field is read; None: as it stands."""
    if field.name in READERS and kind in (str, None):
        return READERS[field.name]
    if kind is datetime:
        return moment
    if kind is bytes:
        return bytes_given
    if kind is not None:
        return clearable(kind) if field.default is UNSET else None
    if _is_texts(hint):
        return list_given
    return document_given if _may_be_text(hint) else json_given


def _may_be_text(hint: Any) -> bool:
    """Whether a field is a text or an object, as a workflow is."""
    options = _options(hint)
    return str in options and any(typing.get_origin(one) is dict for one in options)


def _is_texts(hint: Any) -> bool:
    """Whether a field is a list of texts."""
    return any(
        typing.get_origin(one) is list and _plain(typing.get_args(one)[0]) not in (None, datetime, bytes)
        for one in _options(hint)
    )


def _options(hint: Any) -> list[Any]:
    """The types that a field may have, without what is said of them."""
    if typing.get_origin(hint) is Annotated:
        return _options(typing.get_args(hint)[0])
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return [found for one in typing.get_args(hint) for found in _options(one)]
    return [hint]


# -- What is given without a name: where something is, what is said, and the one field that a command needs besides.


BARE = "_argument"
"""How the parameter ends that takes a field without its name, beside its option."""


def positional(operation: Operation) -> list[str]:
    """The fields that are given without a name: where it is, and what is said."""
    content = [name for name in operation.request.__struct_fields__ if name == "content" and operation.writes]
    return [*operation.path_fields, *content]


def needed(operation: Operation) -> str | None:
    """The field that may be given without its name as well, since there is no other that must be given. What is said has no name
    already, and a word beside it would be taken for the rest of it."""
    places = operation.path_fields
    if len(positional(operation)) > len(places):
        return None
    required = [one.name for one in msgspec.structs.fields(operation.request) if one.required]
    others = [name for name in required if name not in places]
    return others[0] if len(others) == 1 else None


def label(name: str, bare: Collection[str]) -> str:
    """A field as it is given here: as an argument, if it is one of those, else as an option."""
    return name.upper() if name in bare else option(name)


class Said(NamedTuple):
    """What was given, by field, and which of the fields have no name."""

    values: Mapping[str, Any]
    bare: Collection[str]


def settled(operation: Operation, said: Mapping[str, Any], invocation: typer.Context) -> Said:
    """What was given, in whichever way the needed field was."""
    bare, name = positional(operation), needed(operation)
    if name is None:
        return Said(said, bare)
    argument = said[name + BARE]
    if (argument is None) == (said[name] is None):
        raise Misused(_misused(name, twice=argument is not None), invocation)
    return Said(said, bare) if argument is None else Said({**said, name: argument}, [*bare, name])


def _misused(name: str, *, twice: bool) -> str:
    if twice:
        return f"{name.upper()} and {option(name)} are the same: give one of them."
    return f"Missing argument '{name.upper()}' (or {option(name)})."


class Misused(typer.BadParameter):
    """A command that was not given what it takes. It is told like what Typer finds out, whose words would name one way only."""

    def format_message(self) -> str:
        return self.message
