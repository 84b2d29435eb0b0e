"""Readers of fields that take more than their type: lifetimes such as `2 weeks`, and times such as `2026-01-01`.

A type names its reader in its limits (`lifetime_limits`, `moment_limits`). Requests are read before they are converted, on every
surface and in documents, so a reader sees what the caller wrote, null included.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from .. import typed
from ..text.lifetimes import parse_lifetime_in
from ..text.moments import parse_date

Reader: TypeAlias = Callable[[Any, str, tzinfo], Any]

_READ = "read"
LIFETIME = "lifetime"
"""The format of lifetimes in JSON Schemas, until `render_formats` replaces it."""


def lifetime_limits(unit: str, longest: int, description: str, none: str = "for good") -> Meta:
    """The limits of a lifetime as a number of units. Null, 0 and `none` are for good, or as `none` says it."""

    def read(value: Any, field: str, _: tzinfo) -> int | None:
        return parse_lifetime_in(value, unit, longest, field)

    about = f"{description} A number of {unit}s, or a time such as `2 weeks`; `null`, 0 or `none`: {none}."
    return Meta(ge=0, description=about, extra={_READ: read, LIFETIME: True}, extra_json_schema={"format": LIFETIME})


def sought_lifetime_limits(unit: str, longest: int, description: str) -> Meta:
    """The limits of a lifetime that is sought: null seeks none, and 0 or `none` what is kept for good."""

    def read(value: Any, field: str, _: tzinfo) -> int | None:
        return None if value is None else parse_lifetime_in(value, unit, longest, field) or 0

    about = f"{description} A number of {unit}s, or a time such as `2 weeks`; 0 or `none`: for good."
    return Meta(ge=0, description=about, extra={_READ: read, LIFETIME: True}, extra_json_schema={"format": LIFETIME})


def text_lifetime_limits(read: Callable[[Any], str], description: str) -> Meta:
    """The limits of a lifetime that is a text in a canonical form."""

    def read_value(value: Any, _field: str, _: tzinfo) -> str:
        return read(value)

    extra = {_READ: read_value, LIFETIME: True}
    return Meta(max_length=50, description=description, extra=extra, extra_json_schema={"format": LIFETIME})


_MOMENT = [{"format": "date"}, {"format": "date-time"}]


def moment_limits(description: str) -> Meta:
    """The limits of a time: a day, which stands for its beginning, or a time."""
    about = f"{description}: a day or a time (RFC 3339), such as 2026-04-19 or 2026-04-19T10:00:00Z."
    return Meta(description=about, extra={_READ: read_moment}, extra_json_schema={"format": None, "anyOf": _MOMENT})


def read_moment(value: Any, _field: str, zone: tzinfo) -> Any:
    """Return a time; a value that is not one so that its conversion fails. It would take the text of a number for a time."""
    if isinstance(value, str):
        return parse_date(value, zone) or ""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=zone)
    return datetime(value.year, value.month, value.day, tzinfo=zone) if isinstance(value, date) else value


def convert_request(data: Any, kind: Any, *, strict: bool = True, zone: tzinfo = UTC) -> Any:
    """Convert the fields of a request to its type. Raise Invalid, or `msgspec.ValidationError`."""
    fields = read_fields(data, kind, zone) if isinstance(data, Mapping) else data
    try:
        return typed.convert(fields, kind, strict=strict)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
        return typed.convert(_to_integers(fields, kind), kind, strict=strict)


def _to_integers(value: Any, hint: Any) -> Any:
    """Return a value with integers where its type wants them: in JSON, 17.0 is one."""
    for kind in list_members(hint):
        if isinstance(value, float):
            is_integer = kind is int and float not in list_members(hint) and value.is_integer()
            value = int(value) if is_integer else value
        elif isinstance(value, list) and typing.get_origin(kind) is list:
            value = [_to_integers(one, typing.get_args(kind)[0]) for one in value]
        elif isinstance(value, dict) and typing.get_origin(kind) is dict:
            value = {name: _to_integers(one, typing.get_args(kind)[1]) for name, one in value.items()}
        elif isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = _hints(kind)
            value = {name: _to_integers(one, hints.get(name)) for name, one in value.items()}
    return value


def read_fields(data: Mapping[str, Any], kind: Any, zone: tzinfo = UTC) -> dict[str, Any]:
    """Return the fields of a request, read."""
    readers = list_readers(kind)
    found = readers.keys() & data.keys() if readers else ()
    return {**data, **{name: readers[name](data[name], name, zone) for name in found}} if found else dict(data)


@cache
def list_readers(kind: Any) -> Mapping[str, Reader]:
    """The readers of a struct's fields. Computed at the first use: it reads the hints of the type."""
    readers = {name: _find_reader(hint) for name, hint in _hints(kind).items()}
    return {name: read for name, read in readers.items() if read is not None}


@cache
def list_nullable(kind: Any) -> frozenset[str]:
    """The fields for which null differs from an omitted field."""
    hints = _hints(kind)
    return frozenset(
        field.name
        for field in msgspec.structs.fields(kind)
        if _find_extra(hints[field.name], LIFETIME)
        or (_accepts_null(hints[field.name]) and (field.required or field.default is not None))
    )


def is_lifetime(hint: Any) -> bool:
    return bool(_find_extra(hint, LIFETIME))


def has_reader(hint: Any) -> bool:
    return _find_extra(hint, _READ) is not None


def render_formats(text: bytes) -> bytes:
    """Write the types of fields with readers in encoded JSON Schemas as what they take."""
    for kind in (b"integer", b"string"):
        text = text.replace(b'"format":"lifetime","type":"%s"' % kind, b'"type":["integer","string","null"]')
    return text.replace(b'"format":null,', b"")


def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _find_reader(hint: Any) -> Reader | None:
    own = _find_extra(hint, _READ)
    if own is not None:
        return own  # type: ignore[no-any-return]
    structs = [
        item
        for one in list_members(hint)
        if typing.get_origin(one) is list
        for item in list_members(typing.get_args(one)[0])
        if isinstance(item, type) and issubclass(item, msgspec.Struct)
    ]
    return _build_list_reader(structs[0]) if structs and list_readers(structs[0]) else None


def _build_list_reader(kind: Any) -> Reader:
    """Build the reader of a list of structs."""

    def read(value: Any, _field: str, zone: tzinfo) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [read_fields(one, kind, zone) if isinstance(one, dict) else one for one in value]

    return read


def _find_extra(hint: Any, name: str) -> Any:
    """Return what the limits of a type, or of a member of a union, say under a name."""
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, Meta) and name in (meta.extra or {}):
            return (meta.extra or {})[name]
    if typing.get_origin(hint) is Annotated:
        return _find_extra(typing.get_args(hint)[0], name)
    if _is_union(hint):
        return next((found for one in typing.get_args(hint) if (found := _find_extra(one, name)) is not None), None)
    return None


def list_members(hint: Any) -> list[Any]:
    """The types of a union, without annotations."""
    if typing.get_origin(hint) is Annotated:
        return list_members(typing.get_args(hint)[0])
    return [member for one in typing.get_args(hint) for member in list_members(one)] if _is_union(hint) else [hint]


def _accepts_null(hint: Any) -> bool:
    return any(one in (type(None), Any) for one in list_members(hint))


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
