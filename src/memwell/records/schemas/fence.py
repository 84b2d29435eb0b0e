"""The fence around a schema: which names of properties there are, and at which place. A place is a value, as the schema describes
it: by one schema, or by several that speak of the same value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...errors import TooLarge
from ..values import At, path_to
from .compiled import Problem, matcher, not_allowed
from .described import Described, Sayings, longest_prefix, of_property
from .walk import listed, named, subschemas

MAX_MATCHES = 200_000
"""Of names and patterns, in one value."""
_NAMING = ("properties", "patternProperties")
_SAYS_ITSELF = ("additionalProperties", "unevaluatedProperties")


class Place(NamedTuple):
    """What is said of a value: all of it, and what holds; the rest is only asked."""

    every: Sayings
    firm: Sayings


class Part(NamedTuple):
    """An object or a list in a value, where it is, and what is said of it."""

    at: At | None
    value: Any
    place: Place


class Names(NamedTuple):
    """What a place says of the names of properties: those that are named, the patterns, and whether there may be others."""

    known: frozenset[str]
    patterns: tuple[str, ...]
    closed: bool


class Fence:
    """Says of a value where it has properties that no part of a schema names. Each value is looked at by what is said of it,
    and of no other one: a pattern counts where it matches."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._every, self._firm = Described(root), Described(root, asking=False)
        self._whole = Place(self._every.whole(), self._firm.whole())
        self._names: dict[tuple[int, int], Names] = {}
        self._inside: dict[tuple[int, int, Any], Place] = {}
        schemas = [one for _, one in subschemas(root)]
        self._matching = {name: matcher(name) for one in schemas for name in named(one, "patternProperties")}
        self._openly = frozenset(name for one in schemas for name in named(one, "properties"))

    def problems(self, value: Any, most: int) -> list[Problem]:
        """Where there is something that has no name, up to so many places."""
        found: list[Problem] = []
        left = MAX_MATCHES
        waiting = [Part(None, value, self._whole)]
        while waiting and len(found) < most:
            part = waiting.pop()
            if isinstance(part.value, list):
                waiting += self._items(part)
                continue
            left -= len(part.value) * len(self._said(part.place).patterns)
            if left < 0:
                raise TooLarge(
                    "The value has too many properties for the patterns of its schema: make one of them smaller."
                )
            unknown: list[str] = []
            waiting += self._properties(part, unknown)
            found += [Problem(path_to(part.at, self._openly), not_allowed(unknown))] if unknown else []
        return found

    def _items(self, part: Part) -> Iterator[Part]:
        for number, each in enumerate(part.value):
            if isinstance(each, dict | list):
                yield Part(At(part.at, number), each, self._item(part.place, number))

    def _properties(self, part: Part, unknown: list[str]) -> Iterator[Part]:
        """The properties that have parts themselves; the names that nobody knows are noted."""
        names = self._said(part.place)
        for name, each in part.value.items():
            matched = tuple(pattern for pattern in names.patterns if self._matching[pattern].is_valid(name))
            if names.closed and name not in names.known and not matched:
                unknown.append(name)
            elif isinstance(each, dict | list):
                yield Part(At(part.at, name), each, self._property(part.place, names, name, matched))

    def _said(self, place: Place) -> Names:
        key = id(place.every), id(place.firm)
        if key not in self._names:
            known = frozenset(
                name for one in place.every for name in (*named(one, "properties"), *listed(one, "required"))
            )
            patterns = dict.fromkeys(name for one in place.every for name in named(one, "patternProperties"))
            self._names[key] = Names(known, tuple(patterns), _is_closed(place.firm))
        return self._names[key]

    def _property(self, place: Place, names: Names, name: str, matched: tuple[str, ...]) -> Place:
        is_known = name in names.known
        key = id(place.every), id(place.firm), (name if is_known else None, matched)
        if key not in self._inside:
            others = () if is_known or matched else ("unevaluatedProperties",)
            every = self._every.of(each for one in place.every for each in of_property(one, name, matched, others))
            firm = self._firm.of(each for one in place.firm for each in of_property(one, name, matched, others))
            self._inside[key] = Place(every, firm)
        return self._inside[key]

    def _item(self, place: Place, index: int) -> Place:
        index = min(index, longest_prefix(place.every))
        key = id(place.every), id(place.firm), index
        if key not in self._inside:
            asked = [one.get("contains") for one in place.every]
            every = self._every.of([*asked, *(each for one in place.every for each in _of_item(one, index))])
            firm = self._firm.of(each for one in place.firm for each in _of_item(one, index))
            self._inside[key] = Place(every, firm)
        return self._inside[key]


def _is_closed(firm: Sayings) -> bool:
    """Whether properties are named, and it is not said itself what others may be."""
    if any(one[name] is not False for one in firm for name in _SAYS_ITSELF if name in one):
        return False
    return any(name in one for one in firm for name in _NAMING)


def _of_item(one: dict[str, Any], index: int) -> list[Any]:
    first = listed(one, "prefixItems")
    return [first[index]] if index < len(first) else [one.get("items", one.get("unevaluatedItems"))]
