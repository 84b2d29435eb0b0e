"""Registered functions as tools of a model: what they take, said in JSON Schema, and called with what the model gave."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ... import typed
from ...context.outputs import JSON
from ...errors import Invalid
from ...models import completer
from ..calling import call_function
from ..run_memory import Reach
from . import document

OWN = "memory"
"""The parameter that every function may have, and that nobody fills in but us."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool(NamedTuple):
    """A function that a model may call."""

    tool: document.Tool
    function: Callable[..., Any]
    takes: type[msgspec.Struct]

    @property
    def offered(self) -> completer.Tool:
        """As the model is told of it."""
        told = self.tool.description or inspect.getdoc(self.function) or f"Calls `{self.tool.action}`."
        return completer.Tool(self.tool.name, told, _schema(self.takes))

    def call(self, arguments: Mapping[str, Any], reach: Reach) -> str:
        """What it gives, as text. Arguments that do not fit are an error that says so."""
        try:
            given = typed.convert(dict(arguments), self.takes)
        except msgspec.ValidationError as error:
            raise Invalid(f"The arguments do not fit: {error}.") from None
        named = {name: getattr(given, name) for name in self.takes.__struct_fields__}
        named = {name: value for name, value in named.items() if value is not msgspec.UNSET}
        text, _ = call_function(self.function, self.tool.action, None, {**named, **self.tool.settings}, reach)
        return text


def tool_of(tool: document.Tool, function: Callable[..., Any]) -> FunctionTool:
    """A function as a tool. What its definition settles, a model is not asked for."""
    hints = _hints(function)
    parameters = _parameters(tool, function)
    fields: list[Any] = []
    for one in parameters.values():
        if one.kind in _NAMED and one.name != OWN and one.name not in tool.settings:
            kind = hints.get(one.name, Any)
            needed = one.default is inspect.Parameter.empty
            fields.append((one.name, kind) if needed else (one.name, kind | msgspec.UnsetType, msgspec.UNSET))
    takes = msgspec.defstruct(f"{tool.name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return FunctionTool(tool, function, takes)


def _parameters(tool: document.Tool, function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise Invalid(f"`{tool.action}` cannot be a tool: nobody can tell what it takes.") from None
    unknown = [name for name in tool.settings if name not in parameters]
    if unknown and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        raise Invalid(f"`settings.{unknown[0][:100]}`: the function `{tool.action}` takes no such argument.")
    return parameters


def value_of(text: str, content_type: str) -> Any:
    """What a function gave, as expressions see it."""
    return msgspec.json.decode(text) if content_type == JSON else text


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that can be said in JSON Schema; whatever else is annotated may be anything."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {
            name: one for name, one in getattr(function, "__annotations__", {}).items() if not isinstance(one, str)
        }
    return {name: hint for name, hint in hints.items() if name != "return" and _can_be_said(hint)}


def _can_be_said(hint: Any) -> bool:
    try:
        msgspec.json.schema(hint)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _schema(takes: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of what a tool takes, with an object at its top, as every server wants it."""
    (_,), parts = msgspec.json.schema_components([takes], ref_template="#/$defs/{name}")
    top = parts.pop(takes.__name__)
    top = {name: value for name, value in top.items() if name != "title"}
    return top | ({"$defs": parts} if parts else {})
