"""All that a schema says of one value: a schema, its parts and what they refer to may each say something of the same one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from .schema_walk import listed, named, referred

_ONE = ("else", "if", "not", "then")
_LIST = ("allOf", "anyOf", "oneOf")
_NAMED = ("dependencies", "dependentSchemas")
_OTHERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("contains", "items", "unevaluatedItems")

Sayings: TypeAlias = tuple[dict[str, Any], ...]
"""Every schema that says something of one value."""


class Described:
    """Finds what is said of a value, and of what is inside of it. The same is the same object each time."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[tuple[int, ...], Sayings] = {}
        self._inside: dict[tuple[int, str | int], Sayings] = {}

    def whole(self) -> Sayings:
        return self.of([self._root])

    def of(self, schemas: Iterable[Any]) -> Sayings:
        """These schemas with their parts, each once."""
        found: dict[int, dict[str, Any]] = {}
        waiting = list(schemas)
        while waiting:
            one = waiting.pop()
            if not isinstance(one, dict) or id(one) in found:
                continue
            found[id(one)] = one
            waiting += [one.get(name) for name in _ONE]
            waiting += [each for name in _LIST for each in listed(one, name)]
            waiting += [each for name in _NAMED for each in named(one, name).values()]
            if isinstance(one.get("$ref"), str):
                waiting.append(referred(self._root, one["$ref"]))
        return self._known.setdefault(tuple(sorted(found)), tuple(found.values()))

    def property(self, sayings: Sayings, name: str) -> Sayings:
        """What may be said of a property. Which patterns its name matches is not asked: any may."""
        known = self._inside.get((id(sayings), name))
        if known is None:
            found = [named(one, "properties").get(name) for one in sayings]
            found += [each for one in sayings for each in named(one, "patternProperties").values()]
            found += [one.get(other) for one in sayings for other in _OTHERS]
            known = self._inside[id(sayings), name] = self.of(found)
        return known

    def item(self, sayings: Sayings, index: int) -> Sayings:
        """What may be said of an item of a list."""
        index = min(index, max((len(listed(one, "prefixItems")) for one in sayings), default=0))
        known = self._inside.get((id(sayings), index))
        if known is None:
            found = [one.get(name) for one in sayings for name in _ITEMS]
            found += [each for one in sayings for each in listed(one, "prefixItems")[index : index + 1]]
            known = self._inside[id(sayings), index] = self.of(found)
        return known
