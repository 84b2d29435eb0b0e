"""The fence around a schema: a second one, which says no more than which names of properties there are, and at which place. A
place is a value, as the schema describes it: by one schema, or by several that speak of the same value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ...errors import Invalid
from .compiled import matches
from .described import Described, Sayings, longest_prefix
from .walk import listed, named

MAX_NAMES = 20_000
"""At all places together."""
_NAMING = ("properties", "patternProperties")
_SAYS_ITSELF = ("additionalProperties", "unevaluatedProperties")

Said = Callable[[dict[str, Any]], list[Any]]
"""What a schema says of a part of its value."""


def fence(root: dict[str, Any]) -> dict[str, Any]:
    """The fence around a schema."""
    return _Fence(root).whole()


class Place(NamedTuple):
    """What is said of a value: all of it, and what holds; the rest is only asked."""

    every: Sayings
    firm: Sayings


class _Fence:
    def __init__(self, root: dict[str, Any]) -> None:
        self._every, self._firm = Described(root), Described(root, asking=False)
        self._names: dict[tuple[int, int], str] = {}
        self._waiting: list[tuple[str, Place]] = []
        self._left = MAX_NAMES

    def whole(self) -> dict[str, Any]:
        first = self._place(Place(self._every.whole(), self._firm.whole()))
        places: dict[str, Any] = {}
        while self._waiting:
            name, place = self._waiting.pop()
            places[name] = self._fenced(place)
        return {**first, "$defs": places}

    def _place(self, place: Place) -> dict[str, Any]:
        key = id(place.every), id(place.firm)
        if key not in self._names:
            self._names[key] = f"place_{len(self._names)}"
            self._waiting.append((self._names[key], place))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _inside(self, place: Place, said: Said) -> dict[str, Any]:
        """The place of a part of a value, by what each schema says of it."""
        every = self._every.of(each for one in place.every for each in said(one))
        firm = self._firm.of(each for one in place.firm for each in said(one))
        return self._place(Place(every, firm))

    def _fenced(self, place: Place) -> dict[str, Any]:
        names = dict.fromkeys(name for one in place.every for name in named(one, "properties"))
        patterns = dict.fromkeys(name for one in place.every for name in named(one, "patternProperties"))
        self._count((len(names) + 1) * (len(place.every) + len(patterns)))
        both = [name for name in names if any(matches(pattern, name) for pattern in patterns)]
        matched = partial(_of_patterns, names=both)
        found: dict[str, Any] = {
            "properties": {name: self._inside(place, partial(_of_name, name=name)) for name in names},
            "patternProperties": dict.fromkeys(patterns, self._inside(place, matched)) if patterns else {},
        }
        if any(one[name] is not False for one in place.firm for name in _SAYS_ITSELF if name in one):
            found["additionalProperties"] = self._inside(place, _of_others)
        elif any(name in one for one in place.firm for name in _NAMING):
            found["additionalProperties"] = False
        return found | self._items(place)

    def _items(self, place: Place) -> dict[str, Any]:
        first = longest_prefix(place.every)
        self._count(first * len(place.every))
        found = {"items": self._inside(place, partial(_of_item, index=first))}
        if first == 0:
            return found
        each = [self._inside(place, partial(_of_item, index=index)) for index in range(first)]
        return {**found, "prefixItems": each}

    def _count(self, names: int) -> None:
        self._left -= names
        if self._left < 0:
            raise Invalid("`schema` is composed in too many ways: make it simpler.", field="schema")


def _of_name(one: dict[str, Any], name: str) -> list[Any]:
    own = [named(one, "properties")[name]] if name in named(one, "properties") else []
    own += [each for pattern, each in named(one, "patternProperties").items() if matches(pattern, name)]
    return own or _of_others(one)


def _of_patterns(one: dict[str, Any], names: list[str]) -> list[Any]:
    """What is said of whatever matches some pattern: another one may match it, too, and these names do."""
    own = [named(one, "properties").get(name) for name in names]
    return [*own, *named(one, "patternProperties").values(), *_of_others(one)]


def _of_others(one: dict[str, Any]) -> list[Any]:
    return [one.get(name) for name in _SAYS_ITSELF]


def _of_item(one: dict[str, Any], index: int) -> list[Any]:
    first = listed(one, "prefixItems")
    if index < len(first):
        return [first[index], one.get("contains")]
    return [one.get("items", one.get("unevaluatedItems")), one.get("contains")]
