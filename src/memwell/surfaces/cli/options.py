"""The fields of a request as arguments and options: their names, types, defaults and help."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import NODEFAULT, UNSET
from msgspec.structs import FieldInfo

from ...operation import Operation, advice
from .arguments import BARE, label, needed, positional
from .given import (
    ADVICE,
    CLEARED,
    METAVARS,
    READERS,
    SEVERAL,
    Reader,
    bytes_given,
    clearable,
    document_given,
    json_given,
    list_given,
    option,
)
from .times import moment

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
