"""How much there is to do when a value is checked: nobody waits while a short schema and a long value meet."""

from __future__ import annotations

from typing import Any

from ..errors import TooLarge
from .schema_cost import cost
from .schema_described import Described, Sayings
from .schema_walk import named

MAX_WORK = 5_000_000
"""Subschemas times the parts of a value."""
MAX_MATCHED = 200_000
"""Characters times the patterns that they are held to: a pattern may take ten microseconds for each."""


class Effort:
    """What a schema takes, and a value under it."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._cost = cost(source)
        self._described = Described(source)

    def of(self, value: Any) -> int:
        """How much there is to do at most; an error if it is too much to wait for."""
        parts, characters = _measured(value)
        work = self._cost.weight * parts
        if work > MAX_WORK:
            raise TooLarge(
                "The value has too many parts to be checked against so large a schema: make one of them smaller."
            )
        if self._cost.patterns * characters > MAX_MATCHED and self._matched(value) > MAX_MATCHED:
            raise TooLarge(
                "The value has texts that are too long for the patterns of its schema: make them shorter, or the schema simpler."
            )
        return work

    def _matched(self, value: Any) -> int:
        """How many characters are matched, each as often as there are patterns for its text."""
        found = 0
        waiting: list[tuple[Any, Sayings]] = [(value, self._described.whole())]
        while waiting and found <= MAX_MATCHED:
            one, sayings = waiting.pop()
            if isinstance(one, str):
                found += len(one) * sum("pattern" in each for each in sayings)
            elif isinstance(one, dict):
                found += sum(map(len, one)) * self._of_names(sayings)
                waiting += [(each, self._described.property(sayings, name)) for name, each in one.items()]
            elif isinstance(one, list):
                waiting += [(each, self._described.item(sayings, index)) for index, each in enumerate(one)]
        return found

    def _of_names(self, sayings: Sayings) -> int:
        """How many patterns the names of properties are held to."""
        own = sum(len(named(one, "patternProperties")) for one in sayings)
        names = self._described.of(one.get("propertyNames") for one in sayings)
        return own + sum("pattern" in one for one in names)


def _measured(value: Any) -> tuple[int, int]:
    """How many values there are in one, itself included, and how many characters."""
    parts, characters, waiting = 0, 0, [value]
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
    return parts, characters
