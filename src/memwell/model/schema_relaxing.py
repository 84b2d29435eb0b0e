"""Schemas for values that are merged into others: nothing is required of them (C31)."""

from __future__ import annotations

from itertools import count
from typing import Any

from .schema_walk import listed, named, referred

_NEEDED = ("required", "dependentRequired", "minProperties")
_ONE = ("then", "else")
_LIST = ("allOf", "anyOf")


def relaxed(root: dict[str, Any]) -> dict[str, Any]:
    """The schema of what may be given, where the rest is there already."""
    return _Relaxing(root).whole()


class _Relaxing:
    """A schema on its way to one in which nothing is needed: of the objects that are merged, not of those in lists, which are
    replaced, nor where it is asked what a value is. What is referred to gets a second form, since others may need the first."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self._added: dict[str, Any] = {}
        self._waiting: list[tuple[str, str]] = []

    def whole(self) -> dict[str, Any]:
        found: dict[str, Any] = self._part(self._root)
        while self._waiting:
            name, reference = self._waiting.pop()
            self._added[name] = self._part(referred(self._root, reference))
        return {**found, "$defs": {**named(self._root, "$defs"), **self._added}} if self._added else found

    def _part(self, one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        found = {name: each for name, each in one.items() if name not in _NEEDED}
        if "oneOf" in found and "anyOf" not in found:  # of what needs nothing, several may fit
            found["anyOf"] = found.pop("oneOf")
        if isinstance(found.get("properties"), dict):
            found["properties"] = {name: self._part(each) for name, each in found["properties"].items()}
        found |= {name: self._part(found[name]) for name in _ONE if name in found}
        found |= {name: [self._part(each) for each in listed(found, name)] for name in _LIST if name in found}
        if isinstance(found.get("$ref"), str):
            found["$ref"] = f"#/$defs/{self._referred(found['$ref'])}"
        return found

    def _referred(self, reference: str) -> str:
        if reference not in self._names:
            free = (f"part_{number}" for number in count(1) if f"part_{number}" not in named(self._root, "$defs"))
            name = next(one for one in free if one not in self._added)
            self._names[reference], self._added[name] = name, {}
            self._waiting.append((name, reference))
        return self._names[reference]
