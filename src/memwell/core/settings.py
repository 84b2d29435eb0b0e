"""Settings of documents, declared once. Requests and responses get them from there:

    class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
        selector: Fixed[Selector] = "all"              # updates cannot change it
        description: Clearable[Description] = None     # null in an update clears it
        priority: Priority = 0                         # null in an update leaves it

    @create_request(Hook)
    class CreateHook(Request, frozen=True, kw_only=True):
        name: Name

    @update_request(Hook)
    class UpdateHook(Request, frozen=True, kw_only=True):
        id: HookId
        name: Name | None = None
        version: Version | None = None

    @response(Hook)
    class HookInfo(Hook, Response, frozen=True, kw_only=True):
        id: str
        name: str

A decorator inserts the settings that the class does not declare itself behind its field `name`, or the one named by `after`.
A class inherits from the settings only to tell type checkers of them, if anybody reads them from it.
"""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable
from functools import reduce
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, structs

from ..model.field_readers import is_lifetime

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
_Field = tuple[str, Any] | tuple[str, Any, Any]

FIXED, CLEARABLE = object(), object()
Fixed = Annotated[T, FIXED]
Clearable = Annotated[T, CLEARABLE] | None


def list_flagged(settings: type[Struct], flag: object) -> list[str]:
    """Return the names of the settings that are `FIXED` or `CLEARABLE`."""
    hints = {field.name: field.type for field in structs.fields(settings)}
    members = {name: (hint, *typing.get_args(hint)) for name, hint in hints.items()}
    return [name for name, some in members.items() if any(flag in typing.get_args(one) for one in some)]


def build_settings(settings: type[S], request: Struct, **values: Any) -> S:
    """Return the settings of a request that creates a document, with these values instead of its own."""
    given = {name: getattr(request, name) for name in settings.__struct_fields__ if hasattr(request, name)}
    return settings(**given | values)


def create_request(settings: type[Struct], *, after: str = "name") -> Callable[[type[S]], type[S]]:
    """Add settings to a request that creates a document."""
    fields = list(map(_to_field, structs.fields(settings)))
    return lambda declared: _insert_fields(declared, settings, fields, after)


def update_request(settings: type[Struct], *, after: str = "name") -> Callable[[type[S]], type[S]]:
    """Add settings to a request that changes a document: those that are not fixed, and none is required."""
    fixed, clearable = list_flagged(settings, FIXED), list_flagged(settings, CLEARABLE)
    fields: list[_Field] = [
        (field.name, field.type | None, UNSET if field.name in clearable else None)
        for field in structs.fields(settings)
        if field.name not in fixed
    ]
    return lambda declared: _insert_fields(declared, settings, fields, after)


def response(settings: type[Struct], *, after: str = "name") -> Callable[[type[S]], type[S]]:
    """Add settings to a response about a document, without limits. A setting is required unless it can be null. A lifetime is
    always there, because its null means for good."""
    fields: list[_Field] = []
    for field in structs.fields(settings):
        hint = _remove_limits(field.type)
        optional = type(None) in typing.get_args(hint) and not is_lifetime(field.type)
        fields.append((field.name, hint, None) if optional else (field.name, hint))
    return lambda declared: _insert_fields(declared, settings, fields, after)


def _insert_fields(declared: type[S], settings: type[Struct], fields: list[Any], after: str) -> type[S]:
    """Return a struct with the fields that a class declares, and these fields of settings that it does not declare."""
    declarations = {field.name: _to_field(field) for field in structs.fields(declared)}
    own = [declarations[name] for name in declared.__annotations__]
    place = list(declared.__annotations__).index(after) + 1
    own[place:place] = [field for field in fields if field[0] not in declared.__annotations__]
    struct = msgspec.defstruct(
        declared.__name__,
        sorted(own, key=len),  # the required ones first
        bases=tuple(base for base in declared.__bases__ if base is not settings),
        module=declared.__module__,
        namespace={"__doc__": declared.__doc__},
        frozen=True,
        kw_only=True,
    )
    return cast("type[S]", struct)


def _to_field(field: structs.FieldInfo) -> _Field:
    if field.required:
        return (field.name, field.type)
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    return (field.name, field.type, default)


def _remove_limits(hint: Any) -> Any:
    """Return the type of a setting in responses, where a choice is just a text."""
    if typing.get_origin(hint) is Annotated:
        return _remove_limits(hint.__origin__)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return reduce(operator.or_, map(_remove_limits, typing.get_args(hint)))
    return str if typing.get_origin(hint) is Literal else hint
