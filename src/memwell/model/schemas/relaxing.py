"""Schemas for values that are merged into others: nothing is required of them (C31)."""

from __future__ import annotations

from itertools import count
from typing import Any

from .walk import listed, mapped, named, referred

_NEEDED = ("required", "dependentRequired", "minProperties")
_ONE = ("then", "else")
_LIST = ("allOf", "anyOf", "oneOf")
_DEFS = "#/$defs/"


def relaxed(root: dict[str, Any]) -> dict[str, Any]:
    """The schema of what may be given, where the rest is there already."""
    return _Relaxing(root).whole()


class _Relaxing:
    """A schema on its way to one in which nothing is needed: of the objects that are merged, not of those in lists, which are
    replaced, nor where it is asked what a value is. What is referred to gets a second form, since others may need the first."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._defs = dict(named(root, "$defs"))
        self._names: dict[tuple[str, bool], str] = {}
        self._waiting: list[tuple[str, str, bool]] = []

    def whole(self) -> dict[str, Any]:
        found: dict[str, Any] = self._part({name: each for name, each in self._root.items() if name != "$defs"})
        defs = {name: mapped(each, self._kept) for name, each in self._defs.items()}
        while self._waiting:
            name, reference, needed = self._waiting.pop()
            target = referred(self._root, reference)
            defs[name] = mapped(target, self._kept) if needed else self._part(target)
        return {**found, "$defs": defs} if defs else found

    def _part(self, one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        found = {name: each for name, each in one.items() if name not in _NEEDED}
        changed: dict[str, Any] = {name: self._part(found[name]) for name in _ONE if name in found}
        changed |= {name: [self._part(each) for each in listed(found, name)] for name in _LIST if name in found}
        if isinstance(found.get("properties"), dict):
            changed["properties"] = {name: self._part(each) for name, each in found["properties"].items()}
        if isinstance(found.get("$ref"), str):
            changed["$ref"] = self._referred(found["$ref"], needed=False)
        rest = {name: each for name, each in found.items() if name not in changed}
        found = {**mapped(rest, self._kept), **changed}
        if "oneOf" in found:  # of what needs nothing, several may fit
            either = {"anyOf": found.pop("oneOf")}
            found |= either if "anyOf" not in found else {"allOf": [*listed(found, "allOf"), either]}
        return found

    def _kept(self, one: dict[str, Any]) -> dict[str, Any]:
        """A schema that stays as it is: what it refers to stands elsewhere now, unless it is defined."""
        reference = one.get("$ref")
        if not isinstance(reference, str) or reference.startswith(_DEFS):
            return one
        return {**one, "$ref": self._referred(reference, needed=True)}

    def _referred(self, reference: str, *, needed: bool) -> str:
        key = reference, needed
        if key not in self._names:
            taken = {*self._defs, *self._names.values()}
            self._names[key] = next(name for name in (f"part_{number}" for number in count(1)) if name not in taken)
            self._waiting.append((self._names[key], reference, needed))
        return _DEFS + self._names[key]
