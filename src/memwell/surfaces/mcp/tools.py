"""Tools: the table's by default, or one for every operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ...errors import Forbidden, Invalid
from ...model import check
from ...model.fields import MAX_REQUEST_DEPTH
from ...model.principal import Bound, Tie
from ...operation import Operation
from ...registry import OPERATIONS
from . import schemas
from .table import ABOUT, EITHER, TABLE, Entry, Route

Selection = Literal["default", "all"]
KINDS: tuple[Bound, ...] = ("user", "flow")
_OVERWRITES = ("DELETE", "PATCH", "PUT")
_BY_OTHER_NAMES = ("owner", "user_id")
"""What a user is called where it is about stores and definitions."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What a tool does to the world, for clients that ask before they let it."""

    read_only: bool
    destructive: bool
    idempotent: bool


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model sees, and the operations behind it."""

    name: str
    title: str
    description: str
    input_schema: schemas.Schema
    output_schema: schemas.Schema
    hints: Hints
    patient: bool
    routes: tuple[Route, ...]

    def request(self, arguments: Mapping[str, Any], tie: Tie | None) -> tuple[Operation, dict[str, Any]]:
        """The operation that the arguments ask for, and its data. A tie's name is stamped on it, whatever they say."""
        check.plain(dict(arguments), "arguments", MAX_REQUEST_DEPTH)
        said = {name: value for name, value in arguments.items() if value is not None}
        if tie is not None:
            said = self._stamped(said, tie)
        route = self._route(said)
        names = route.names()
        for name in said:
            if name not in names and name != "tenant":
                raise Invalid(f"There is no field `{name}` here. The fields are {_listed(names)}.", field=name)
        return OPERATIONS[route.operation], {names.get(name, name): value for name, value in said.items()}

    def _stamped(self, said: dict[str, Any], tie: Tie) -> dict[str, Any]:
        for kind in KINDS:
            if kind in said and (kind, said[kind]) != (tie.kind, tie.name):
                raise Forbidden(
                    f"These tools are held to one {tie.kind} and cannot be used for another: omit `{kind}`."
                )
        return {**said, tie.kind: tie.name} if self.routes[0].kind else said

    def _route(self, said: dict[str, Any]) -> Route:
        routes = self.routes
        if len({route.kind for route in routes}) > 1:
            named = [kind for kind in KINDS if kind in said]
            if len(named) != 1:
                raise Invalid(f"{EITHER[:-1]}, and not both.", field="user")
            routes = tuple(route for route in routes if route.kind == named[0])
        return next((route for route in routes if route.given in said), routes[-1])


@cache
def toolbox(selection: Selection, kind: Bound | None = None, by_key: bool = True) -> Mapping[str, Tool]:
    """The tools for a caller who is held to a user or a flow (`kind`) or to none, by name.

    If it is the key that is held, the engine sees to it as well; else (`by_key=False`) only operations are offered that
    name the user or flow, since nothing but the stamp holds them.
    """
    made = _by_default(kind) if selection == "default" else _of_all(kind, by_key)
    return {tool.name: tool for tool in made}


def _by_default(kind: Bound | None) -> Iterator[Tool]:
    for entry in TABLE:
        routes = tuple(route for route in entry.routes if route.operation in OPERATIONS and kind in (None, route.kind))
        if routes:
            yield _tool(entry._replace(routes=routes, about=_in_words(entry, routes)), kind)


def _in_words(entry: Entry, routes: tuple[Route, ...]) -> dict[str, str]:
    about = ABOUT | entry.about
    if len({route.kind for route in routes}) > 1:
        about |= {kind: f"{about[kind]} {EITHER}" for kind in KINDS}
    return about


def _of_all(kind: Bound | None, by_key: bool) -> Iterator[Tool]:
    for operation in OPERATIONS.values():
        if kind is None or operation.bound == kind or (by_key and operation.any_tie):
            route = Route(operation.bound, operation.name, " ".join(operation.request.__struct_fields__))
            name = operation.name.replace(".", "_")
            yield _tool(Entry(name, operation.name, operation.summary, (route,)), kind)


def _tool(entry: Entry, kind: Bound | None) -> Tool:
    operations = [OPERATIONS[route.operation] for route in entry.routes]
    return Tool(
        name=entry.name,
        title=entry.title,
        description=entry.description,
        input_schema=_input(entry, kind),
        output_schema=schemas.output_schema(operation.response for operation in operations),
        hints=_hints(operations),
        patient=any(operation.patient for operation in operations),
        routes=entry.routes,
    )


def _input(entry: Entry, kind: Bound | None) -> schemas.Schema:
    """The fields of all routes. Required is what every route requires; what is stamped is not there at all."""
    fields: schemas.Schema = {}
    types: schemas.Schema = {}
    required: list[set[str]] = []
    for route in entry.routes:
        known, needed, found = schemas.request_fields(OPERATIONS[route.operation].request)
        told = _told(OPERATIONS[route.operation], kind)
        names = {shown: name for shown, name in route.names().items() if name in known and shown not in told}
        for shown, name in names.items():
            words = {"description": entry.about[shown]} if shown in entry.about else {}
            fields.setdefault(shown, known[name] | words)
        required.append({shown for shown, name in names.items() if name in needed})
        types |= found
    return schemas.input_schema(fields, set.intersection(*required), types)


def _told(operation: Operation, kind: Bound | None) -> tuple[str | None, ...]:
    """The fields that a model need not give, since whom the tools are held to says it: what is stamped, and what the engine
    knows by itself."""
    return (kind, *_BY_OTHER_NAMES) if kind == "user" and operation.any_tie else (kind,)


def _hints(operations: list[Operation]) -> Hints:
    """Whether it only reads, whether it takes away or overwrites, and whether doing it twice is doing it once."""
    return Hints(
        read_only=not any(operation.writes for operation in operations),
        destructive=any(operation.effect == "erase" or operation.method in _OVERWRITES for operation in operations),
        idempotent=all(not operation.writes or operation.method in _OVERWRITES for operation in operations),
    )


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
