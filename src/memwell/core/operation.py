"""Operations are data; surfaces are loops over them.

An operation has a name, a request and a response type, a function, a route, flags and a runnable example. A dialect is a
list of operations. REST routes, the OpenAPI document, commands, SDK transports, the reference and the parity test are
generated from that list, so an operation that is declared once exists on every surface.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ..errors import Invalid
from ..model.field_readers import convert_request, list_members, render_formats
from ..model.fields import NOT_ALLOWED, check_identifier, check_word
from .access import OwnerKind, Role

if TYPE_CHECKING:
    from ..jobs.queue import StoredJob

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


class Awaited(NamedTuple):
    """A job that an answer waits for. `answer` makes the answer, from a call and the job as it is then, None if it is gone."""

    job: str
    timeout_s: float
    answer: Callable[[Any, StoredJob | None], Any]


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
    """The kind of owner that a field `user` or `flow` of the request names, which must match the scope of a key."""

    outside: bool
    status: int
    envelope: bool
    any_scope: bool
    """True if keys of any scope may call it. The operation itself limits what they reach."""

    repeatable: bool
    """True if it can have an idempotency key."""

    patient: bool
    """True if it may take seconds."""

    tells: Callable[[Any], dict[str, Any]] | None
    """Picks the details of a read event from the response: names and reasons, never content."""

    stored: Any
    """The type of the answer that is stored for retries, if it is not the response, which is then built from it."""

    carries: str | None
    """The field that the body of a request may hold as bytes."""

    awaits: Callable[[Any, Any], Awaited | None] | None
    """Tells from the request and the result which job to wait for before the answer."""

    path_fields: tuple[str, ...]
    names: tuple[tuple[str, Callable[[str, str], str]], ...]
    """The fields that are in `NAME_CHECKS`, with their checks."""

    plain: bool
    """True if it only reads, in one transaction."""

    sole: bool
    """True if it usually reads with one statement, which is faster without a transaction."""

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
    stored: Any = None,
    carries: str | None = None,
    awaits: Callable[[Any, Any], Awaited | None] | None = None,
    sole: bool = False,
    request: type[msgspec.Struct] | None = None,
) -> Callable[[Callable[..., Any]], Operation]:
    """Declare the function below as an operation. Its annotations give the types of the request and the response.

    It receives a `Space` inside a transaction, or with `outside=True` a `Call` that opens its own. `Operation` has the flags.
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
            stored=hints["return"] if stored is None else stored,
            carries=carries,
            awaits=awaits,
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


def to_request(
    operation: Operation, data: dict[str, Any], *, strict: bool = True, zone: tzinfo = UTC
) -> msgspec.Struct:
    """Convert data to a request, or raise Invalid. A tenant in the data is ignored: it comes from the credential."""
    kind = operation.request
    if "tenant" in data and "tenant" not in kind.__struct_fields__:
        data = {key: value for key, value in data.items() if key != "tenant"}
    try:
        request: msgspec.Struct = convert_request(data, kind, strict=strict, zone=zone)
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
    if named := re.search(r" - at `(?:key|\$)` in `\$\.?([^`]*)`", message):
        return Invalid(f"The names of the fields in `{named[1]}` must be text.", field=named[1])
    reason, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    name = re.match(r"\w*", path)
    field = name[0] if name else ""
    inner = _find_type(kind, path)
    if unknown := re.search(r"unknown field `(\w+)`", reason):
        struct = next((one for one in list_members(inner) if hasattr(one, "__struct_fields__")), kind)
        known = ", ".join(f"`{name}`" for name in struct.__struct_fields__)
        place = f" in `{path}`" if path and struct is not kind else ""
        return Invalid(f"There is no field `{unknown[1]}`{place}. The fields are {known}.", field=unknown[1])
    if missing := re.search(r"missing required field `(\w+)`", reason):
        name_of_field = f"{path}.{missing[1]}".lstrip(".")
        return Invalid(
            f"`{name_of_field}` is missing. {field_advice(kind, name_of_field)}".strip(), field=name_of_field
        )
    if "matching regex" in reason:
        reason = NOT_ALLOWED
    said = _reword(reason, inner)
    if said is None:
        sentence = f"`{path}`: {reason[:1].lower()}{reason[1:]}." if path else f"{reason}."
    else:
        sentence = f"`{path}` {said}." if path else f"The request {said}."
    return Invalid(f"{sentence} {field_advice(kind, path or field)}".strip(), field=path or field)


def reword_error(kind: Any, message: str) -> str:
    """Say in the words of JSON what is wrong, and with which field, by a message of msgspec."""
    reason, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    said = _reword(reason, _find_type(kind, path))
    return message if said is None else f"`{path}` {said}" if path else said


_JSON_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time",
    "bytes": "Base64",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "==": "exactly"}
_PARTS = {"str": "characters", "array": "items", "object": "fields"}


def _reword(reason: str, hint: Any) -> str | None:
    """Say in the words of JSON which type, size or choice msgspec expected; None if the reason is another one."""
    if reason == "Invalid RFC3339 encoded datetime":
        return "is not a time"
    if (found := re.fullmatch(r"Invalid enum value (.+)", reason)) and (choices := _choices(hint)):
        return f"cannot be {found[1]}: it is {choices}"
    if found := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", reason):
        wanted = [_JSON_TYPES.get(one, one) for one in found[1].split(" | ") if one != "null" or found[1] == "null"]
        return f"must be {' or '.join(wanted)}, not {_JSON_TYPES.get(found[2], found[2])}"
    if found := re.fullmatch(r"Expected `(\w+)[^`]*` (of length )?([<>=]+) (-?[\d.]+)", reason):
        size = f"{_BOUNDS[found[3]]} {found[4].removesuffix('.0')}"
        return f"must have {size} {_PARTS.get(found[1], 'items')}" if found[2] else f"must be {size}"
    return None


def _choices(hint: Any) -> str:
    """The values of a type that is a Literal."""
    options = [
        one for part in list_members(hint) if typing.get_origin(part) is Literal for one in typing.get_args(part)
    ]
    shown = [f"`{one}`" for one in options]
    return " or ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def _find_type(kind: Any, path: str) -> Any:
    """Return the type at a path such as `messages[0].role`; None if it has none."""
    found = kind
    for part in re.findall(r"\w+|\[[^\]]*\]", path):
        options = [_step_into(one, part) for one in list_members(found)]
        found = next((one for one in options if one is not None), None)
    return found


def _step_into(hint: Any, part: str) -> Any:
    """Return the type of a field of a struct, or of the values in a list or an object."""
    if part.startswith("["):
        inner = [one for one in typing.get_args(hint) if one is not ...]
        return inner[-1] if typing.get_origin(hint) in (list, dict, tuple) else None
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return typing.get_type_hints(hint, include_extras=True).get(part) if is_struct else None


def field_advice(kind: Any, path: str) -> str:
    """The description of the field at a path, or of the closest one around it that has a description."""
    parts = re.findall(r"\w+|\[[^\]]*\]", path)
    around = ("".join(one if one[0] == "[" else f".{one}" for one in parts[:end]) for end in range(len(parts), 0, -1))
    return next(filter(None, (_description(_find_type(kind, one)) for one in around)), "")


def _description(hint: Any) -> str:
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(filter(None, map(_description, typing.get_args(hint))), "")
    return ""


def build_schemas(types: Sequence[Any], ref_template: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the JSON Schemas of requests and responses for other programs, and those that they refer to by name."""
    text = msgspec.json.encode(msgspec.json.schema_components(types, ref_template=ref_template))
    schemas, components = msgspec.json.decode(render_formats(text).replace(_LOOKAHEAD, b""))
    return schemas, components


_LOOKAHEAD = rb"(?!\\n)"
"""Follows a `$` in Python's patterns, where `$` also matches before a final line break. JSON Schema does not need it, and
many of its readers do not support lookahead."""
