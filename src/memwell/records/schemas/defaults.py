"""What a value is where nothing was said: the defaults of its schema (C23)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from .compiled import matcher
from .described import of_property
from .walk import listed, named, referred, subschemas

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MAX_FILLED = 1024 * 1024
"""How much is filled in, in bytes of JSON: what is missing behind that stays away."""
MOST_KNOWN = 1000
LOOKED = 16
"""What it takes to fill one in beside its bytes, in the same measure. To look whether one is missing takes one."""

Sayings: TypeAlias = tuple[dict[str, Any], ...]
"""Every schema that holds for one value."""


class Default(NamedTuple):
    """A value that is filled in, how large it is, and what is said of it."""

    value: Any
    size: int
    sayings: Sayings


class Defaults:
    """Fills in what is missing: in objects, in those inside of them, in lists, and where a schema refers to another. What holds
    only under a condition, or is one of several possibilities, is not filled in."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._said = Said(root)
        self._any = any("default" in one for _, one in subschemas(root))

    def filled(self, value: Any) -> Any:
        if not self._any:
            return value
        said = self._said
        if said.is_full:
            said = self._said = Said(self._root)
        return _Filling(said).filled(said.whole, value)


class Said:
    """What a schema says of each part of a value, found once. The same is the same object each time."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._sayings: dict[tuple[int, ...], Sayings] = {}
        self._names: dict[int, dict[str, Sayings]] = {}
        self._defaults: dict[int, dict[str, Default]] = {}
        self._items: dict[tuple[int, int], Sayings] = {}
        self._maps: dict[int, tuple[str, ...] | None] = {}
        self._matching: dict[str, Draft202012Validator] = {}
        self._inside: dict[tuple[int, str | None, tuple[str, ...]], Sayings] = {}
        self.whole = self.of([root])

    def of(self, schemas: Iterable[Any]) -> Sayings:
        """The schemas, and what holds together with each of them."""
        found: dict[int, dict[str, Any]] = {}
        waiting = list(schemas)
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, dict) and id(one) not in found:
                found[id(one)] = one
                waiting += [*listed(one, "allOf"), *([self._referred(one)] if "$ref" in one else [])]
        return self._sayings.setdefault(tuple(found), tuple(found.values()))

    def names(self, sayings: Sayings) -> dict[str, Sayings]:
        """What is said of each property that is named."""
        known = self._names.get(id(sayings))
        if known is None:
            together: dict[str, list[Any]] = {}
            for one in sayings:
                for name, each in named(one, "properties").items():
                    together.setdefault(name, []).append(each)
            known = self._names[id(sayings)] = {name: self.of(each) for name, each in together.items()}
        return known

    @property
    def is_full(self) -> bool:
        """Whether more is known than is worth to be kept: which patterns a name matches is up to the names."""
        return len(self._inside) > MOST_KNOWN

    def maps(self, sayings: Sayings) -> tuple[str, ...] | None:
        """The patterns of names by which something is said of properties; None if nothing is said of any that is not named."""
        key = id(sayings)
        if key not in self._maps:
            patterns = tuple(name for one in sayings for name in named(one, "patternProperties"))
            others = any(isinstance(one.get("additionalProperties"), dict) for one in sayings)
            self._maps[key] = patterns if patterns or others else None
        return self._maps[key]

    def inside(self, sayings: Sayings, name: str, patterns: tuple[str, ...]) -> Sayings:
        """What is said of a property: by its name and the patterns that match it, or as of one of the others."""
        matched = tuple(pattern for pattern in patterns if self._matches(pattern, name))
        key = id(sayings), name if name in self.names(sayings) else None, matched
        if key not in self._inside:
            self._inside[key] = self.of(each for one in sayings for each in of_property(one, name, matched))
        return self._inside[key]

    def defaults(self, sayings: Sayings) -> dict[str, Default]:
        """The properties that are filled in if they are missing."""
        known = self._defaults.get(id(sayings))
        if known is None:
            found = {name: _default(inner) for name, inner in self.names(sayings).items()}
            known = self._defaults[id(sayings)] = {name: one for name, one in found.items() if one is not None}
        return known

    def item(self, sayings: Sayings, index: int) -> Sayings:
        """What is said of an item of a list."""
        place = min(index, max((len(listed(one, "prefixItems")) for one in sayings), default=0))
        key = id(sayings), place
        if key not in self._items:
            self._items[key] = self.of(_of_item(one, place) for one in sayings)
        return self._items[key]

    def _matches(self, pattern: str, name: str) -> bool:
        if pattern not in self._matching:
            self._matching[pattern] = matcher(pattern)
        return self._matching[pattern].is_valid(name)

    def _referred(self, one: dict[str, Any]) -> Any:
        return referred(self._root, one["$ref"]) if isinstance(one["$ref"], str) else None


class _Filling:
    """One value that is filled."""

    def __init__(self, said: Said) -> None:
        self._said = said
        self._left = MAX_FILLED

    def filled(self, sayings: Sayings, value: Any) -> Any:
        if self._left < 0 or not sayings or not isinstance(value, dict | list):
            return value
        if isinstance(value, list):
            return [self.filled(self._said.item(sayings, index), each) for index, each in enumerate(value)]
        found = {name: self.filled(self._inside(sayings, name), each) for name, each in value.items()}
        for name, default in self._said.defaults(sayings).items():
            self._left -= 1
            if name not in found and self._left >= 0:
                self._fill_in(found, name, default)
        return found

    def _inside(self, sayings: Sayings, name: str) -> Sayings:
        maps = self._said.maps(sayings)
        if maps is None:
            return self._said.names(sayings).get(name, ())
        self._left -= len(maps)
        return self._said.inside(sayings, name, maps) if self._left >= 0 else ()

    def _fill_in(self, found: dict[str, Any], name: str, default: Default) -> None:
        self._left -= LOOKED + default.size
        if self._left >= 0:
            found[name] = self._completed(default.sayings, deepcopy(default.value))

    def _completed(self, sayings: Sayings, value: Any) -> Any:
        """What a default lacks itself is filled in as well, but not by what its properties refer to: that might lead back."""
        if isinstance(value, dict):
            for one in sayings:
                for name, each in named(one, "properties").items():
                    if not isinstance(each, dict):
                        continue
                    if name in value:
                        value[name] = self._completed((each,), value[name])
                    elif (default := _default((each,))) is not None:
                        self._fill_in(value, name, default)
        return value


def _default(sayings: Sayings) -> Default | None:
    one = next((one for one in sayings if "default" in one), None)
    return None if one is None else Default(one["default"], len(msgspec.json.encode(one["default"])), sayings)


def _of_item(one: dict[str, Any], index: int) -> Any:
    first = listed(one, "prefixItems")
    return first[index] if index < len(first) else one.get("items")
