"""Values and schemas completed: the defaults of a schema (C23), and the schema of a value that is merged into another (C31)."""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from typing import Any, NamedTuple

import msgspec

from ..errors import Invalid
from .schema_tree import (
    Applicable,
    Group,
    compile_schema,
    get_list,
    get_map,
    map_schema,
    resolve_reference,
    split_reference,
    walk_schemas,
)

MAX_FILLED = 1024 * 1024
"""Bytes of JSON that are filled in; what would come after that stays missing."""
FILLING = 16
"""What it costs to fill in one default beside its bytes. Looking whether one is missing costs one."""
_CERTAIN = ("allOf", "$ref")
_SELF_CONTAINED = (
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "type",
)
"""Keywords whose meaning depends on no other ones."""


def check_defaults(source: dict[str, Any]) -> None:
    """Reject defaults that do not fit their own subschema: a value with them could be read, but not written back."""
    for path, one in walk_schemas(source):
        own = {word: one[word] for word in _SELF_CONTAINED if word in one}
        if "default" in one and own and not compile_schema(own).is_valid(one["default"]):
            raise Invalid(f"`schema{path[:200]}` has a `default` that does not fit it.", field="schema")


class Default(NamedTuple):
    """A default, its size in bytes, and the subschemas that apply to it."""

    value: Any
    size: int
    group: Group


class Defaults:
    """Fills in defaults: in objects, in those inside of them, in lists, and behind references; not in conditions and
    alternatives."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._applicable = Applicable(root, _CERTAIN)
        self._has_any = any("default" in one for _, one in walk_schemas(root))

    def fill(self, value: Any) -> Any:
        if not self._has_any:
            return value
        applicable = self._applicable
        if applicable.is_full:
            applicable = self._applicable = Applicable(self._root, _CERTAIN)
        return _Filling(applicable).fill(applicable.whole, value)


class _Filling:
    """One value that is being filled, within the limits."""

    def __init__(self, applicable: Applicable) -> None:
        self._applicable = applicable
        self._left = MAX_FILLED

    def fill(self, group: Group, value: Any) -> Any:
        if self._left < 0 or not group or not isinstance(value, dict | list):
            return value
        if isinstance(value, list):
            return [
                self.fill(self._applicable.of_item(group, index, "items"), each) for index, each in enumerate(value)
            ]
        found = {name: self.fill(self._of_property(group, name), each) for name, each in value.items()}
        for name, default in self._list_defaults(group).items():
            self._left -= 1
            if name not in found and self._left >= 0:
                self._fill_in(found, name, default)
        return found

    def _of_property(self, group: Group, name: str) -> Group:
        patterns = self._applicable.patterns(group)
        self._left -= len(patterns)
        if self._left < 0:
            return ()
        matches = self._applicable.matches(patterns, name)
        return self._applicable.of_property(group, name, matches, ("additionalProperties",))

    def _list_defaults(self, group: Group) -> dict[str, Default]:
        """Return the defaults of the properties that are named."""
        memo, key = self._applicable.memo, ("defaults", id(group))
        if key not in memo:
            named: dict[str, list[Any]] = {}
            for one in group:
                for name, each in get_map(one, "properties").items():
                    named.setdefault(name, []).append(each)
            found = {name: _find_default(self._applicable.expand(each)) for name, each in named.items()}
            memo[key] = {name: default for name, default in found.items() if default is not None}
        return memo[key]  # type: ignore[no-any-return]

    def _fill_in(self, found: dict[str, Any], name: str, default: Default) -> None:
        self._left -= FILLING + default.size
        if self._left >= 0:
            found[name] = self._complete(default.group, deepcopy(default.value))

    def _complete(self, group: Group, value: Any) -> Any:
        """Fill in what a default lacks itself, but not behind references, which might lead back."""
        if isinstance(value, dict):
            for one in group:
                for name, each in get_map(one, "properties").items():
                    if not isinstance(each, dict):
                        continue
                    if name in value:
                        value[name] = self._complete((each,), value[name])
                    elif (default := _find_default((each,))) is not None:
                        self._fill_in(value, name, default)
        return value


def _find_default(group: Group) -> Default | None:
    one = next((one for one in group if "default" in one), None)
    return None if one is None else Default(one["default"], len(msgspec.json.encode(one["default"])), group)


# Merging

_REQUIRING = ("required", "dependentRequired", "minProperties")
_CONDITIONAL = ("if", "then", "else", "not", "dependentSchemas", "dependencies", "unevaluatedProperties")
"""Keywords that depend on more than is given."""
_DEFS = "#/$defs/"


def relax_schema(root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that accepts every part of a value that fits. Nothing is required of objects that are merged, and nothing
    is asked that the rest of the value may answer; objects in lists are replaced as a whole, and stay as they are."""
    return _Relaxation(root).relax()


class _Relaxation:
    """A schema that is being relaxed. A referenced schema gets a second, relaxed form, since others may need the first."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._defs = dict(get_map(root, "$defs"))
        self._names: dict[tuple[tuple[str, ...], bool], str] = {}
        self._waiting: list[tuple[str, str, bool]] = []

    def relax(self) -> dict[str, Any]:
        found: dict[str, Any] = self._relax({name: each for name, each in self._root.items() if name != "$defs"})
        defs = {name: map_schema(each, self._keep) for name, each in self._defs.items()}
        while self._waiting:
            name, reference, whole = self._waiting.pop()
            target = resolve_reference(self._root, reference)
            defs[name] = map_schema(target, self._keep) if whole else self._relax(target)
        return {**found, "$defs": defs} if defs else found

    def _relax(self, one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        found = {
            name: each
            for name, each in one.items()
            if name not in (*_REQUIRING, *_CONDITIONAL) and not _requires_whole_object(name, each)
        }
        changed: dict[str, Any] = {}
        if "additionalProperties" in found:
            changed["additionalProperties"] = self._relax(found["additionalProperties"])
        for name in ("allOf", "anyOf", "oneOf"):
            if name in found:
                changed[name] = [self._relax(each) for each in get_list(found, name)]
        for name in ("properties", "patternProperties"):
            if isinstance(found.get(name), dict):
                changed[name] = {key: self._relax(each) for key, each in found[name].items()}
        if isinstance(found.get("$ref"), str):
            changed["$ref"] = self._rename(found["$ref"], whole=False)
        rest = {name: each for name, each in found.items() if name not in changed}
        found = {**map_schema(rest, self._keep), **changed}
        if "oneOf" in found:  # several alternatives may fit if nothing is required
            either = {"anyOf": found.pop("oneOf")}
            found |= either if "anyOf" not in found else {"allOf": [*get_list(found, "allOf"), either]}
        return found

    def _keep(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return a schema that is not relaxed: only its reference may lead elsewhere now."""
        reference = one.get("$ref")
        if not isinstance(reference, str) or reference.startswith(_DEFS):
            return one
        return {**one, "$ref": self._rename(reference, whole=True)}

    def _rename(self, reference: str, *, whole: bool) -> str:
        key = tuple(split_reference(reference)), whole  # a reference can be spelled in many ways
        if key not in self._names:
            taken = {*self._defs, *self._names.values()}
            self._names[key] = next(name for name in (f"part_{number}" for number in count(1)) if name not in taken)
            self._waiting.append((self._names[key], reference, whole))
        return _DEFS + self._names[key]


def _requires_whole_object(keyword: str, value: Any) -> bool:
    """Return True for `const` and `enum` with objects, of which only a part may be given."""
    return (keyword == "const" and isinstance(value, dict)) or (
        keyword == "enum" and isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )
