"""Schemas for values that are merged into others: nothing is required of them (C31)."""

from __future__ import annotations

from itertools import count
from typing import Any

from .walk import listed, mapped, named, path_of, referred

_NEEDED = ("required", "dependentRequired", "minProperties")
_ASKING = ("if", "then", "else", "not", "dependentSchemas", "dependencies", "unevaluatedProperties")
"""What depends on more than was given."""
_ONE = ("additionalProperties",)
_LIST = ("allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties")
_DEFS = "#/$defs/"


def relaxed(root: dict[str, Any]) -> dict[str, Any]:
    """The schema of what may be given, where the rest is there already."""
    return _Relaxing(root).whole()


class _Relaxing:
    """A schema on its way to one that refuses no part of what fits: of the objects that are merged nothing is needed, and nothing
    is asked that the rest of the value may answer; objects in lists are replaced, and stay as they are. What is referred to gets
    a second form, since others may need the first."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._defs = dict(named(root, "$defs"))
        self._names: dict[tuple[tuple[str, ...], bool], str] = {}
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
        found = {
            name: each for name, each in one.items() if name not in (*_NEEDED, *_ASKING) and not _is_whole(name, each)
        }
        changed: dict[str, Any] = {name: self._part(found[name]) for name in _ONE if name in found}
        changed |= {name: [self._part(each) for each in listed(found, name)] for name in _LIST if name in found}
        for names in _NAMED:
            if isinstance(found.get(names), dict):
                changed[names] = {name: self._part(each) for name, each in found[names].items()}
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
        key = tuple(path_of(reference)), needed  # the same may be spelled in many ways
        if key not in self._names:
            taken = {*self._defs, *self._names.values()}
            self._names[key] = next(name for name in (f"part_{number}" for number in count(1)) if name not in taken)
            self._waiting.append((self._names[key], reference, needed))
        return _DEFS + self._names[key]


def _is_whole(word: str, value: Any) -> bool:
    """Whether an object is asked for that is just so, of which only a part may be given."""
    return (word == "const" and isinstance(value, dict)) or (
        word == "enum" and isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )
