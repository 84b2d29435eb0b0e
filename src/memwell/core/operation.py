"""Operations are data; surfaces are loops over them.

An operation has a name, a request and a response type, a function, a route, flags and a runnable example. A dialect is a
list of operations. REST routes, the OpenAPI document, commands, SDK transports, the reference and the parity test are
generated from that list, so an operation that is declared once exists on every surface.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import msgspec

from .. import typed
from ..errors import Invalid
from ..model.fields import NOT_ALLOWED, check_identifier, check_word
from .access import OwnerKind, Role

Effect = Literal["read", "write", "erase"]

NAME_CHECKS: dict[str, Callable[[str, str], str]] = {
    **dict.fromkeys(("flow", "user", "session", "session_id", "user_id", "owner", "id", "tenant"), check_identifier),
    "record": check_word,
}
"""Fields that name something and may be part of a URL, with their checks; the same in every request."""


@dataclass(frozen=True, slots=True)
class Example:
    """A request that works after the requests in `given`. `$0.id` is a field of the response to the first of these."""

    request: dict[str, Any] = field(default_factory=dict)
    given: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    summary: str
    method: str
    path: str
    effect: Effect
    role: Role
    request: type[msgspec.Struct]
    response: Any
    run: Callable[[Any, Any], Any]
    example: Example
    owner: OwnerKind | None
    outside: bool
    status: int
    envelope: bool
    any_scope: bool
    repeatable: bool
    patient: bool
    tells: Callable[[Any], dict[str, Any]] | None
    carries: str | None
    path_fields: tuple[str, ...]
    names: tuple[tuple[str, Callable[[str, str], str]], ...]
    """The fields that are in `NAME_CHECKS`, with their checks."""

    plain: bool
    """True if it only reads, in one transaction."""

    sole: bool
    """True if it usually reads with one statement."""

    @property
    def group(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def verb(self) -> str:
        return self.name.split(".", 1)[1]

    @property
    def command(self) -> str:
        """The verb as the command line spells it."""
        return self.verb.replace("_", "-").replace(".", "-")

    @property
    def writes(self) -> bool:
        return self.effect != "read"

    @property
    def json_fields(self) -> frozenset[str]:
        """The fields that hold objects; in a query string they are JSON."""
        return _json_fields(self.request)

    @property
    def by_version(self) -> bool:
        """True if `if_match` can limit the change to the version that was read."""
        return "if_match" in self.request.__struct_fields__ and "if_match" not in self.json_fields


def operation(
    name: str,
    route: str,
    *,
    effect: Effect = "read",
    role: Role | None = None,
    example: Example | None = None,
    owner: OwnerKind | None = None,
    outside: bool = False,
    status: int = 200,
    envelope: bool = False,
    any_scope: bool = False,
    repeatable: bool = True,
    patient: bool = False,
    tells: Callable[[Any], dict[str, Any]] | None = None,
    carries: str | None = None,
    sole: bool = False,
    request: type[msgspec.Struct] | None = None,
) -> Callable[[Callable[..., Any]], Operation]:
    """Declare the function below as an operation. Its annotations give the types of the request and the response.

    It receives a `Space` inside a transaction, or with `outside=True` a `Call` that opens its own. With `owner`,
    the request has a field `user` or `flow`, which must match the scope of a key. With `any_scope=True`, keys of any scope may
    call it, and the operation itself limits what they reach. Without `repeatable` it
    cannot have an idempotency key; a `patient` one may wait for seconds. `tells` picks the details of a read event from the
    response: names and reasons, never content. `carries` names the field that the body of a request may hold as bytes. A
    `sole` operation usually reads with one statement, which is faster without a transaction.
    """
    method, path = route.split(" ")

    def declare(function: Callable[..., Any]) -> Operation:
        hints = typing.get_type_hints(function, include_extras=True)
        kind: type[msgspec.Struct] = request or hints["request"]
        return Operation(
            name=name,
            summary=" ".join((function.__doc__ or "").split()),
            method=method,
            path=path,
            effect=effect,
            role=role or ("reader" if effect == "read" else "agent"),
            request=kind,
            response=hints["return"],
            run=function,
            example=example or Example(),
            owner=owner,
            outside=outside,
            status=status,
            envelope=envelope,
            any_scope=any_scope,
            repeatable=repeatable,
            patient=patient,
            tells=tells,
            carries=carries,
            sole=sole,
            path_fields=tuple(re.findall(r"{(\w+)}", path)),
            names=tuple((name, NAME_CHECKS[name]) for name in kind.__struct_fields__ if name in NAME_CHECKS),
            plain=effect == "read" and not outside,
        )

    return declare


@cache
def _json_fields(request: type[msgspec.Struct]) -> frozenset[str]:
    """Computed at the first use: reading the hints of all requests would take a fifth of `import memwell`."""
    hints = typing.get_type_hints(request)
    return frozenset(name for name, hint in hints.items() if "dict[" in str(hint))


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all requests."""


class NoFields(Request, frozen=True, kw_only=True):
    """A request without fields."""


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all responses."""


def to_request(operation: Operation, data: dict[str, Any], *, strict: bool = True) -> msgspec.Struct:
    """Convert data to a request, or raise Invalid. A tenant in the data is ignored: it comes from the credential."""
    kind = operation.request
    if "tenant" in data and "tenant" not in kind.__struct_fields__:
        data = {key: value for key, value in data.items() if key != "tenant"}
    try:
        request = typed.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise explain_invalid(kind, str(error)) from None
    except RecursionError:
        raise Invalid("The request is nested too deeply.") from None
    for name, check_name in operation.names:
        value = getattr(request, name)
        if value is not None:
            check_name(value, name)
    return request


def explain_invalid(kind: type[msgspec.Struct], message: str) -> Invalid:
    """Turn a message of msgspec into an Invalid that includes the description of the field."""
    reason, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    name = re.match(r"\w*", path)
    field = name[0] if name else ""
    if unknown := re.search(r"unknown field `(\w+)`", reason):
        known = ", ".join(f"`{name}`" for name in kind.__struct_fields__)
        return Invalid(f"There is no field `{unknown[1]}`. The fields are {known}.", field=unknown[1])
    if missing := re.search(r"missing required field `(\w+)`", reason):
        name_of_field = f"{path}.{missing[1]}".lstrip(".")
        return Invalid(f"`{name_of_field}` is missing. {field_advice(kind, missing[1])}".strip(), field=name_of_field)
    if "matching regex" in reason:
        reason = NOT_ALLOWED
    if "nvalid enum value" in reason and (choices := _choices(kind, field)):
        reason = f"{reason} (it is {choices})"
    if path == "" and where.startswith("` in `$."):  # the name of a property
        field = path = re.sub(r"\W.*", "", where.removeprefix("` in `$."))
        reason = "the names of properties must be text"
    sentence = f"`{path}`: {reason[:1].lower()}{reason[1:]}." if path else f"{reason}."
    return Invalid(f"{sentence} {field_advice(kind, field)}".strip(), field=path or field)


def _choices(kind: Any, field: str) -> str:
    """The values of a field that is a Literal."""
    hint = typing.get_type_hints(kind).get(field)
    options = [one for part in (hint, *typing.get_args(hint)) for one in _literals(part)]
    return " or ".join(f"`{one}`" for one in options)


def _literals(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else ()


def field_advice(kind: Any, field: str) -> str:
    """The description of a field, at any level of its type."""
    hint = typing.get_type_hints(kind, include_extras=True).get(field)
    return _description(hint) if hint is not None else ""


def _description(hint: Any) -> str:
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(filter(None, map(_description, typing.get_args(hint))), "")
    return ""
