"""What a value is where nothing was said: the defaults of its schema (C23)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, TypeAlias

from .schema_walk import listed, named, referred, subschemas

Seen: TypeAlias = frozenset[str] | None
"""The references that led to a default, none of which is followed again in it; None: nothing was filled in yet."""


class Defaults:
    """Fills in what is missing: in objects, in those inside of them and in lists, and where a schema refers to another. What
    holds only under a condition, or is one of several possibilities, is not filled in."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._any = any("default" in one for _, one in subschemas(root))

    def filled(self, value: Any) -> Any:
        return self._filled([self._root], value, None) if self._any else value

    def _filled(self, schemas: Iterable[Any], value: Any, seen: Seen) -> Any:
        if not isinstance(value, dict | list):
            return value
        sayings, seen = self._sayings(schemas, seen)
        if isinstance(value, list):
            return [self._filled(_item(sayings, index), each, seen) for index, each in enumerate(value)]
        found = {name: self._filled(_property(sayings, name), each, seen) for name, each in value.items()}
        for name in dict.fromkeys(name for one in sayings for name in named(one, "properties")):
            if name not in found:
                self._fill_in(found, name, _property(sayings, name), seen)
        return found

    def _fill_in(self, found: dict[str, Any], name: str, schemas: list[Any], seen: Seen) -> None:
        for one in self._sayings(schemas, seen)[0]:
            if "default" in one:
                found[name] = self._filled(schemas, deepcopy(one["default"]), seen or frozenset())
                return

    def _sayings(self, schemas: Iterable[Any], seen: Seen) -> tuple[list[dict[str, Any]], Seen]:
        """The schemas, and what holds together with each of them."""
        found: list[dict[str, Any]] = []
        waiting = list(schemas)
        while waiting:
            one = waiting.pop(0)
            if not isinstance(one, dict) or any(one is known for known in found):
                continue
            found.append(one)
            waiting += listed(one, "allOf")
            reference = one.get("$ref")
            if isinstance(reference, str) and reference not in (seen or ()):
                waiting.append(referred(self._root, reference))
                seen = None if seen is None else seen | {reference}
        return found, seen


def _property(sayings: list[dict[str, Any]], name: str) -> list[Any]:
    return [named(one, "properties")[name] for one in sayings if name in named(one, "properties")]


def _item(sayings: list[dict[str, Any]], index: int) -> list[Any]:
    return [_of_item(one, index) for one in sayings]


def _of_item(one: dict[str, Any], index: int) -> Any:
    first = listed(one, "prefixItems")
    return first[index] if index < len(first) else one.get("items")
