"""What a value is where nothing was said: the defaults of its schema (C23)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from .walk import listed, named, referred, subschemas

MAX_FILLED = 1024 * 1024
"""How much is filled in, in bytes of JSON: what is missing behind that stays away."""
LOOKED = 16
"""What it takes to look for one, in the same measure."""
MISSING = object()


class Defaults:
    """Fills in what is missing: in objects, in those inside of them and in lists, and where a schema refers to another. What
    holds only under a condition, or is one of several possibilities, is not filled in."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._any = any("default" in one for _, one in subschemas(root))

    def filled(self, value: Any) -> Any:
        return _Filling(self._root).filled([self._root], value) if self._any else value


class _Filling:
    """One value that is filled."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = MAX_FILLED
        self._known: dict[tuple[int, ...], list[dict[str, Any]]] = {}

    def filled(self, schemas: list[Any], value: Any) -> Any:
        if self._left < 0 or not isinstance(value, dict | list):
            return value
        sayings = self._sayings(schemas)
        if isinstance(value, list):
            return [self.filled(_item(sayings, index), each) for index, each in enumerate(value)]
        found = {name: self.filled(_property(sayings, name), each) for name, each in value.items()}
        for one in sayings:
            for name in named(one, "properties"):
                if name not in found:
                    self._fill_in(found, name, self._sayings(_property(sayings, name)))
        return found

    def _fill_in(self, found: dict[str, Any], name: str, sayings: list[dict[str, Any]]) -> None:
        default = next((one["default"] for one in sayings if "default" in one), MISSING)
        self._left -= LOOKED if default is MISSING else LOOKED + len(msgspec.json.encode(default))
        if default is not MISSING and self._left >= 0:
            found[name] = self._completed(sayings, deepcopy(default))

    def _completed(self, sayings: list[dict[str, Any]], value: Any) -> Any:
        """What a default lacks itself is filled in as well, but not by what its properties refer to: that might lead back."""
        if isinstance(value, dict):
            for one in sayings:
                for name, each in named(one, "properties").items():
                    if isinstance(each, dict) and name in value:
                        value[name] = self._completed([each], value[name])
                    elif isinstance(each, dict):
                        self._fill_in(value, name, [each])
        return value

    def _sayings(self, schemas: list[Any]) -> list[dict[str, Any]]:
        """The schemas, and what holds together with each of them."""
        key = tuple(map(id, schemas))
        if key not in self._known:
            self._known[key] = self._found(list(schemas))
        return self._known[key]

    def _found(self, waiting: list[Any]) -> list[dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        while waiting:
            one = waiting.pop(0)
            if not isinstance(one, dict) or id(one) in found:
                continue
            found[id(one)] = one
            waiting += listed(one, "allOf")
            if isinstance(one.get("$ref"), str):
                waiting.append(referred(self._root, one["$ref"]))
        return list(found.values())


def _property(sayings: list[dict[str, Any]], name: str) -> list[Any]:
    return [named(one, "properties")[name] for one in sayings if name in named(one, "properties")]


def _item(sayings: list[dict[str, Any]], index: int) -> list[Any]:
    return [_of_item(one, index) for one in sayings]


def _of_item(one: dict[str, Any], index: int) -> Any:
    first = listed(one, "prefixItems")
    return first[index] if index < len(first) else one.get("items")
