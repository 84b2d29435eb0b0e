"""How much there is to do when a value is checked: nobody waits while a short schema and a long value meet."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ...errors import TooLarge
from .cost import LONG, cost, patterns_of
from .described import Described, Sayings, longest_prefix
from .walk import listed, named, subschemas

MAX_WORK = 5_000_000
"""Subschemas times the parts of a value."""
MAX_MATCHED = 40_000_000
"""Characters times the parts of the patterns that they are held to: each takes ten to fifty nanoseconds."""
MAX_LONG = 100
"""Whole numbers that do not fit into 64 bits look all the same to a validator that asks whether items are unique: each is
compared with every other."""
_OTHERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("contains", "items", "unevaluatedItems")


_REPEATED = ("enum", "const", "required", "pattern", "dependentRequired", "dependencies", "not")
"""What an error repeats of the schema that it comes from."""


class Taken(NamedTuple):
    """What it takes to check a value."""

    faults: int
    """How many errors it may have at most."""
    share: float
    """How much of what one value may take at most."""


class Effort:
    """What a schema takes, and a value under it."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._cost = cost(source)
        self._matching = Matching(source)
        every = [one for _, one in subschemas(source)]
        self._compares = any("uniqueItems" in one for one in every)
        self.said = max(map(_said, every), default=0)
        """How many characters of the schema an error may repeat."""

    def of(self, value: Any) -> Taken:
        """What it takes to check a value; an error if that is too long."""
        parts, characters, long = _measured(value)
        if self._compares and long > MAX_LONG:
            raise TooLarge(
                f"The value has more than {MAX_LONG} whole numbers of over 63 bits, and its schema asks whether items are "
                "unique, which takes long with such: give them as text."
            )
        if self._cost.weight * parts > MAX_WORK:
            raise TooLarge(
                "The value has too many parts to be checked against so large a schema: make one of them smaller."
            )
        matched = self._cost.patterns * characters
        if matched > MAX_MATCHED:
            matched = self._matching.of(value)
        if matched > MAX_MATCHED:
            raise TooLarge(
                "The value has texts that are too long for the patterns of its schema: make them shorter, or the schema simpler."
            )
        return Taken(self._cost.faults * parts, max(self._cost.weight * parts / MAX_WORK, matched / MAX_MATCHED))


class Matching:
    """How much the patterns of a schema have to match in a value. Which patterns the name of a property matches is not asked: any
    may, so that names that no schema names are all the same."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._described = Described(source)
        self._inside: dict[tuple[int, str | int | None], Sayings] = {}
        self._known: dict[int, dict[str, list[Any]]] = {}
        self._texts: dict[int, int] = {}
        self._names: dict[int, int] = {}

    def of(self, value: Any) -> int:
        """Characters times the parts of the patterns that they are held to; no more is counted than may be."""
        found = 0
        waiting: list[tuple[Any, Sayings]] = [(value, self._described.whole())]
        while waiting and found <= MAX_MATCHED:
            one, sayings = waiting.pop()
            if isinstance(one, str):
                found += len(one) * self._of_text(sayings)
            elif isinstance(one, dict):
                found += sum(map(len, one)) * self._of_names(sayings)
                waiting += [(each, self._property(sayings, name)) for name, each in one.items()]
            elif isinstance(one, list):
                waiting += [(each, self._item(sayings, index)) for index, each in enumerate(one)]
        return found

    def _of_text(self, sayings: Sayings) -> int:
        """The patterns that a text is held to."""
        key = id(sayings)
        if key not in self._texts:
            self._texts[key] = sum(patterns_of(each) for each in sayings if "pattern" in each)
        return self._texts[key]

    def _of_names(self, sayings: Sayings) -> int:
        """The patterns that the names of properties are held to."""
        key = id(sayings)
        if key not in self._names:
            names = self._described.of(one.get("propertyNames") for one in sayings)
            self._names[key] = sum(patterns_of(one) for one in (*sayings, *names))
        return self._names[key]

    def _property(self, sayings: Sayings, name: str) -> Sayings:
        names = self._known.get(id(sayings))
        if names is None:
            names = self._known[id(sayings)] = _by_name(sayings)
        key = id(sayings), name if name in names else None
        if key not in self._inside:
            found = [*names.get(name, ()), *(one.get(other) for one in sayings for other in _OTHERS)]
            found += [each for one in sayings for each in named(one, "patternProperties").values()]
            self._inside[key] = self._described.of(found)
        return self._inside[key]

    def _item(self, sayings: Sayings, index: int) -> Sayings:
        index = min(index, longest_prefix(sayings))
        key = id(sayings), index
        if key not in self._inside:
            found = [one.get(name) for one in sayings for name in _ITEMS]
            found += [each for one in sayings for each in listed(one, "prefixItems")[index : index + 1]]
            self._inside[key] = self._described.of(found)
        return self._inside[key]


def _said(one: dict[str, Any]) -> int:
    return sum(len(msgspec.json.encode(one[word])) for word in _REPEATED if word in one)


def _by_name(sayings: Sayings) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for one in sayings:
        for name, each in named(one, "properties").items():
            found.setdefault(name, []).append(each)
    return found


def _measured(value: Any) -> tuple[int, int, int]:
    """How many values there are in one, itself included, how many characters, and how many long numbers."""
    parts, characters, long, waiting = 0, 0, 0, [value]
    while waiting:
        one = waiting.pop()
        parts += 1
        if isinstance(one, dict):
            characters += sum(map(len, one))
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            characters += len(one)
        elif isinstance(one, int) and not -LONG <= one < LONG:
            long += 1
    return parts, characters, long
