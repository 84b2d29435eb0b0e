"""All that a schema says of one value: a schema, its parts and what they refer to may each say something of the same one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from .walk import listed, named, referred

_CONDITIONS = ("if", "not")
_ONE = ("else", "then")
_LIST = ("allOf", "anyOf", "oneOf")
_NAMED = ("dependencies", "dependentSchemas")

Sayings: TypeAlias = tuple[dict[str, Any], ...]
"""Every schema that says something of one value."""


class Described:
    """Finds what is said of a value. The same is the same object each time. `asking`: with what is only asked of it, too."""

    def __init__(self, root: dict[str, Any], *, asking: bool = True) -> None:
        self._root = root
        self._one = (*_ONE, *_CONDITIONS) if asking else _ONE
        self._known: dict[tuple[int, ...], Sayings] = {}

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
            waiting += [one.get(name) for name in self._one]
            waiting += [each for name in _LIST for each in listed(one, name)]
            waiting += [each for name in _NAMED for each in named(one, name).values()]
            if isinstance(one.get("$ref"), str):
                waiting.append(referred(self._root, one["$ref"]))
        return self._known.setdefault(tuple(sorted(found)), tuple(found.values()))


def longest_prefix(sayings: Sayings) -> int:
    """How many items of a list are described one by one."""
    return max((len(listed(one, "prefixItems")) for one in sayings), default=0)


def of_property(one: dict[str, Any], name: str, matched: tuple[str, ...], others: tuple[str, ...] = ()) -> list[Any]:
    """What a schema says of a property: by its name, by the patterns that match it, or as of one of the others. What nobody has
    looked at is nothing that anybody names."""
    own = [named(one, "properties")[name]] if name in named(one, "properties") else []
    own += [each for pattern, each in named(one, "patternProperties").items() if pattern in matched]
    return own or [one.get(other) for other in ("additionalProperties", *others)]
