"""Schemas that admit nothing but what they name (S3.9).

Where each value is described in one place, that place is closed. Where several parts of a schema speak of the same value, none
of them knows all of its properties: closing one would refuse what another names, and closing a condition would change what it
asks. Such a schema stays as it is, and a fence is put around it: a second schema, which says no more than which names there
are, and where.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import Invalid
from .schema_described import Described, Sayings
from .schema_walk import listed, mapped, named, subschemas

MAX_PLACES = 5000
_SAYS_ITSELF = ("additionalProperties", "unevaluatedProperties")
_NAMING = ("properties", "patternProperties")
_BESIDE = ("allOf", "if", "then", "else", "not", "dependentSchemas", "dependencies", "contains")
"""Where schemas stand that speak of a value beside others."""
_ALTERNATIVES = ("$ref", "anyOf", "oneOf")


class Closed(NamedTuple):
    """The schema that counts, and the fence around it, if it needs one."""

    schema: dict[str, Any]
    fence: dict[str, Any] | None


def closed(source: dict[str, Any]) -> Closed:
    """A schema that admits no properties but those that it names, unless it says itself that there may be others."""
    if all(_is_alone(one) for _, one in subschemas(source)):
        return Closed(mapped(source, _close), None)
    return Closed(source, _Fence(source).whole())


def _close(one: dict[str, Any]) -> dict[str, Any]:
    if any(name in one for name in _SAYS_ITSELF) or not any(name in one for name in _NAMING):
        return one
    return {**one, "additionalProperties": False}


def _is_alone(one: dict[str, Any]) -> bool:
    """Whether nobody else names the properties of the value that a schema is about: its parts are alternatives to each other."""
    beside = [each for name in _BESIDE for each in (one.get(name), *listed(one, name), *named(one, name).values())]
    if any(_names_some(each) for each in beside if isinstance(each, dict)):
        return False
    return sum([*(name in one for name in _ALTERNATIVES), any(name in one for name in _NAMING)]) <= 1


def _names_some(one: dict[str, Any]) -> bool:
    """Whether anything in a schema speaks of properties, or may do so elsewhere."""
    return any(name in part for _, part in subschemas(one) for name in (*_NAMING, *_SAYS_ITSELF, "$ref"))


class _Fence:
    """The names that there are in a value, place by place. Places of which the same is said are one."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._described = Described(root)
        self._names: dict[int, str] = {}
        self._waiting: list[tuple[str, Sayings]] = []

    def whole(self) -> dict[str, Any]:
        first = self._place(self._described.whole())
        places: dict[str, Any] = {}
        while self._waiting:
            name, sayings = self._waiting.pop()
            places[name] = self._fenced(sayings)
        return {**first, "$defs": places}

    def _place(self, sayings: Sayings) -> dict[str, Any]:
        name = self._names.get(id(sayings))
        if name is None:
            name = self._names[id(sayings)] = f"place_{len(self._names)}"
            self._waiting.append((name, sayings))
            if len(self._names) > MAX_PLACES:
                raise Invalid("`schema` is composed in too many ways: make it simpler.", field="schema")
        return {"$ref": f"#/$defs/{name}"}

    def _fenced(self, sayings: Sayings) -> dict[str, Any]:
        names = dict.fromkeys(name for one in sayings for name in named(one, "properties"))
        patterns = dict.fromkeys(name for one in sayings for name in named(one, "patternProperties"))
        found: dict[str, Any] = {
            "properties": {name: self._place(self._described.property(sayings, name)) for name in names},
            "patternProperties": dict.fromkeys(patterns, True),
        }
        if (names or patterns) and not any(name in one for one in sayings for name in _SAYS_ITSELF):
            found["additionalProperties"] = False
        return found | self._items(sayings)

    def _items(self, sayings: Sayings) -> dict[str, Any]:
        first = max((len(listed(one, "prefixItems")) for one in sayings), default=0)
        found: dict[str, Any] = {"items": self._place(self._described.item(sayings, first))}
        if first:
            found["prefixItems"] = [self._place(self._described.item(sayings, index)) for index in range(first)]
        return found
