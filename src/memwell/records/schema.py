"""JSON Schemas of records (Draft 2020-12): validation, strictness, and warnings about schemas.

Schemas are untrusted: `schema_limits` bounds their size and cost, and patterns are matched in linear time. Errors never repeat
the content of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from difflib import get_close_matches
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from ..errors import Invalid, TooLarge
from .schema_limits import Effort, Limits, check_schema
from .schema_tree import (
    LISTS,
    MAPS,
    MAX_SHOWN,
    SINGLE,
    Applicable,
    At,
    Group,
    Problem,
    build_matcher,
    compile_schema,
    explain_unexpected,
    get_list,
    get_map,
    list_names,
    list_patterns,
    longest_path,
    map_schema,
    render_path,
    resolve_reference,
    split_reference,
    to_problem,
    walk_schemas,
)

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

NO_FORMAT = "the value does not have any of the formats in the schema"
MAX_PROBLEMS = 20
MAX_ERRORS = 20_000
MAX_ERROR_TEXT = 20_000_000
"""Limits of the number and total size of errors. The validator builds all errors at once, each with its path and a part of the
schema. Beyond the limits, only the first error is built."""


ToProblem: TypeAlias = "Callable[[ValidationError], Problem | None]"


class Schema:
    """A compiled schema. With `strict`, properties that it does not name are rejected, unless it allows others itself (S3.9).
    With `stored`, its limits are not checked again."""

    def __init__(self, source: Mapping[str, Any], *, strict: bool, stored: bool = False) -> None:
        self.source: dict[str, Any] = dict(source)
        if not stored:
            check_schema(self.source)
        self._limits = Limits(self.source)
        self._validator = compile_schema(self.source)
        self.closed: dict[str, Any] = self.source
        """The schema to publish. If it is strict and can be closed, it rejects unnamed properties by itself."""
        self._unknown_names: UnknownNames | None = None
        if strict and all(_is_closable(one, self.source) for one in self._limits.used_schemas):
            self.closed = map_schema(self.source, _close)
            self._validator = compile_schema(self.closed)
        elif strict:
            self._unknown_names = UnknownNames(self.source)
        schemas = [one for _, one in walk_schemas(self.source)]
        self._names = frozenset(name for one in schemas for name in get_map(one, "properties"))
        self._has_formats = any("format" in one for one in schemas)
        self._format_validator: Draft202012Validator | None = None
        self._mergeable = _Mergeable(self.source)
        self._has_defaults = any("default" in one for one in schemas)

    def effort(self, value: Any) -> Effort:
        """Return the effort of checking a value. Raise TooLarge if it is too much."""
        return self._limits.measure(value)

    def problems(self, value: Any, effort: Effort | None = None) -> list[Problem]:
        """Return the reasons why a value does not fit; an empty list if it fits."""
        effort = effort or self.effort(value)
        found: list[Problem] = []
        if not self._validator.is_valid(value):
            found = self._list_problems(self._validator, value, effort, self._to_problem)
        if self._unknown_names is not None:
            found += self._unknown_names.problems(value, MAX_PROBLEMS)
        return list(dict.fromkeys(found))[:MAX_PROBLEMS]

    def warnings(self, value: Any, effort: Effort | None = None) -> list[Problem]:
        """Return the texts that do not have the `format` in the schema. They are accepted (C34)."""
        if not self._has_formats:
            return []
        if self._format_validator is None:
            self._format_validator = compile_schema(self.source, formats=True)
        if self._format_validator.is_valid(value):
            return []
        fits = self._validator.is_valid(value)

        def to_warning(error: ValidationError) -> Problem | None:
            if error.kind.name == "format":
                return self._to_problem(error)
            return self._to_problem(error)._replace(reason=NO_FORMAT) if fits else None  # else it is a problem

        return self._list_problems(self._format_validator, value, effort or self.effort(value), to_warning)

    def fill_defaults(self, value: Any) -> Any:
        """Return a value with the defaults of missing properties (C23)."""
        if not self._has_defaults:
            return value
        mergeable = self._mergeable
        if mergeable.is_full:
            mergeable = self._mergeable = _Mergeable(self.source)
        return _Filling(mergeable).fill(mergeable.whole, value)

    def relax(self) -> dict[str, Any]:
        """Return a schema for values that are merged into another one: nothing is required (C31)."""
        return _Relaxation(self.closed).relax()

    def _to_problem(self, error: ValidationError) -> Problem:
        return to_problem(error, self._names)

    def _list_problems(
        self, validator: Draft202012Validator, value: Any, effort: Effort, convert: ToProblem
    ) -> list[Problem]:
        import jsonschema_rs

        size = effort.errors * (self._limits.longest_text + longest_path(value))
        if effort.errors <= MAX_ERRORS and size <= MAX_ERROR_TEXT:
            return list(islice(filter(None, map(convert, validator.iter_errors(value))), MAX_PROBLEMS))
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return list(filter(None, [convert(error)]))
        return []


# Strictness (S3.9)
#
# If each value is described by one subschema, that subschema is closed with `additionalProperties`. If several subschemas
# describe the same value, none of them names all of its properties: closing one would reject properties that another one names,
# and closing a condition or an alternative would change its meaning. Such a schema is left unchanged, and `UnknownNames` checks
# the names.

_OPENING = ("additionalProperties", "unevaluatedProperties")
_NAMING = ("properties", "patternProperties")
_BESIDE = ("allOf", "if", "then", "else", "not", "dependentSchemas", "dependencies", "contains")
_ALTERNATIVES = ("anyOf", "oneOf")
_CERTAIN = ("else", "then", "allOf", "anyOf", "oneOf", "dependencies", "dependentSchemas", "$ref")
_ALL = (*_CERTAIN, "if", "not")
MAX_OVERLAPS = 10_000
MAX_MATCHES = 200_000
"""Names times patterns in one value."""


def _close(one: dict[str, Any]) -> dict[str, Any]:
    if any(name in one for name in _OPENING) or not any(name in one for name in _NAMING):
        return one
    names: dict[str, Any] = {name: {} for name in get_list(one, "required") if isinstance(name, str)}
    return {**one, "properties": {**names, **get_map(one, "properties")}, "additionalProperties": False}


def _is_closable(one: dict[str, Any], root: dict[str, Any]) -> bool:
    """Return True if no other subschema describes the properties of the same value."""
    beside = [each for name in _BESIDE for each in (one.get(name), *get_list(one, name), *get_map(one, name).values())]
    for part in (part for each in beside if isinstance(each, dict) for _, part in walk_schemas(each)):
        if any(name in part for name in (*_NAMING, *_OPENING, "$ref")):
            return False
    names, patterns = get_map(one, "properties"), get_map(one, "patternProperties")
    if len(patterns) > 1 or len(names) * len(patterns) > MAX_OVERLAPS:
        return False
    if any(
        build_matcher(pattern).is_valid(name) for pattern in patterns for name in (*names, *get_list(one, "required"))
    ):
        return False
    others = [name for name in ("$ref", *_ALTERNATIVES) if name in one]
    if any(name in one for name in (*_NAMING, *_OPENING)):
        return not others
    # With two alternatives that have properties, closing one would change which of them fits.
    composite = [sum(_may_be_composite(each, root) for each in get_list(one, name)) for name in _ALTERNATIVES]
    return len(others) <= 1 and max(composite) <= 1


def _may_be_composite(one: Any, root: dict[str, Any]) -> bool:
    """Return True if a schema may admit objects or lists."""
    while isinstance(one, dict) and isinstance(one.get("$ref"), str) and "type" not in one:
        one = resolve_reference(root, one["$ref"])  # terminates, because `check_schema` rejects endless references
    if not isinstance(one, dict):
        return one is not False
    types = one.get("type", "object")
    return any(kind in ("object", "array") for kind in (types if isinstance(types, list) else [types]))


class _Part(NamedTuple):
    """An object or a list in a value, and the subschemas that apply to it: all of them, and all but conditions."""

    at: At | None
    value: Any
    every: Group
    certain: Group


class UnknownNames:
    """Finds properties in a value that no part of its schema names."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._applicable = self._build()
        self._public = frozenset(name for _, one in walk_schemas(root) for name in get_map(one, "properties"))

    def _build(self) -> tuple[Applicable, Applicable]:
        return Applicable(self._root, _ALL, contains=True), Applicable(self._root, _CERTAIN)

    def problems(self, value: Any, most: int) -> list[Problem]:
        every, certain = self._applicable
        if every.is_full or certain.is_full:
            every, certain = self._applicable = self._build()
        found: list[Problem] = []
        left = MAX_MATCHES
        waiting = [_Part(None, value, every.whole, certain.whole)] if isinstance(value, dict | list) else []
        while waiting and len(found) < most:
            part = waiting.pop()
            if isinstance(part.value, list):
                rest = ("items", "unevaluatedItems")
                waiting += [
                    _Part(
                        At(part.at, n),
                        each,
                        every.of_item(part.every, n, *rest),
                        certain.of_item(part.certain, n, *rest),
                    )
                    for n, each in enumerate(part.value)
                    if isinstance(each, dict | list)
                ]
                continue
            left -= len(part.value) * len(every.ask(part.every, list_patterns))
            if left < 0:
                raise TooLarge(
                    "The value has too many properties for the patterns of its schema: make one of them smaller."
                )
            known, is_closed = every.ask(part.every, _list_known_names), certain.ask(part.certain, _is_closed)
            unknown: list[str] = []
            for name, each in part.value.items():
                matches = every.matches(part.every, name)
                is_known = name in known or bool(matches)
                if is_closed and not is_known:
                    unknown.append(name)
                elif isinstance(each, dict | list):
                    others = _OPENING[:1] if is_known else _OPENING
                    inner = every.of_property(part.every, name, matches, others)
                    inner_certain = certain.of_property(part.certain, name, matches, others)
                    waiting.append(_Part(At(part.at, name), each, inner, inner_certain))
            found += [Problem(render_path(part.at, self._public), explain_unexpected(unknown))] if unknown else []
        return found


def _list_known_names(group: Group) -> frozenset[str]:
    required = (name for one in group for name in get_list(one, "required") if isinstance(name, str))
    return list_names(group).union(required)


def _is_closed(group: Group) -> bool:
    """Return True if the group names properties and does not allow others."""
    is_open = any(one[name] is not False for one in group for name in _OPENING if name in one)
    return not is_open and any(name in one for one in group for name in _NAMING)


# Warnings about schemas that are valid but probably a mistake

MAX_DOUBTS = 5

# fmt: off
_KEYWORDS = frozenset((
    "const", "contentEncoding", "contentMediaType", "default", "dependentRequired", "deprecated", "description",
    "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maximum", "maxItems",
    "maxLength", "maxProperties", "minContains", "minimum", "minItems", "minLength", "minProperties", "multipleOf",
    "pattern", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly",
    *SINGLE, *LISTS, *MAPS,
))
_DESCRIBING = (
    *_NAMING, *_OPENING, "propertyNames",
    "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "enum", "const", "maxProperties",
)
# fmt: on
_CUSTOM = ("$", "x-", "x_")
"""Prefixes of keywords that describe the schema itself, and of custom keywords."""


def list_doubts(source: dict[str, Any], *, strict: bool) -> list[str]:
    """Return warnings about a schema: unknown keywords, and a strict schema that does not name any properties."""
    found = []
    words = ((path, word) for path, one in walk_schemas(source) for word in one)
    unknown = ((path, word) for path, word in words if word not in _KEYWORDS and not word.startswith(_CUSTOM))
    for path, word in islice(unknown, MAX_DOUBTS):
        close = get_close_matches(word[:MAX_SHOWN], _KEYWORDS, 1)
        advice = f": did you mean `{close[0]}`?" if close else "."
        where = f"`schema{path[:MAX_SHOWN]}`"
        found.append(f"{where} has `{word[:MAX_SHOWN]}`, an unknown keyword that has no effect{advice}")
    if strict and not any(word in source for word in _DESCRIBING):
        found.append("The schema does not name any `properties`, so every property is accepted.")
    return found


# Defaults (C23)

MAX_FILLED = 1024 * 1024
"""Bytes of JSON that defaults may add to a value. Further defaults are omitted."""
FILLING = 16
"""Cost of a default besides its bytes. Checking whether a property is missing costs 1."""
# fmt: off
_SELF_CONTAINED = (
    "const", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maximum", "minItems", "minLength",
    "minimum", "multipleOf", "pattern", "type",
)
# fmt: on
"""Keywords that do not depend on other keywords."""


def check_defaults(source: dict[str, Any]) -> None:
    """Reject defaults that do not fit their own subschema, because a value with them could be read but not written back."""
    for path, one in walk_schemas(source):
        own = {word: one[word] for word in _SELF_CONTAINED if word in one}
        if "default" in one and own and not compile_schema(own).is_valid(one["default"]):
            raise Invalid(f"`schema{path[:200]}` has a `default` that does not fit it.", field="schema")


class Default(NamedTuple):
    """A default, its size in bytes, and the subschemas that apply to it."""

    value: Any
    size: int
    group: Group


class _Mergeable(Applicable):
    """The subschemas that always apply to each part of a value, and their defaults."""

    def __init__(self, root: dict[str, Any]) -> None:
        super().__init__(root, ("allOf", "$ref"))

    def list_defaults(self, group: Group) -> dict[str, Default]:
        """Return the defaults of the properties that a group names."""
        named: dict[str, list[Any]] = {}
        for one in group:
            for name, each in get_map(one, "properties").items():
                named.setdefault(name, []).append(each)
        found = {name: _find_default(self.expand(each)) for name, each in named.items()}
        return {name: default for name, default in found.items() if default is not None}


class _Filling:
    """Fills in the defaults of one value, within limits: in objects at every depth, in lists, and through references, but not
    from conditions and alternatives."""

    def __init__(self, applicable: _Mergeable) -> None:
        self._applicable = applicable
        self._left = MAX_FILLED

    def fill(self, group: Group, value: Any) -> Any:
        if self._left < 0 or not group or not isinstance(value, dict | list):
            return value
        applicable = self._applicable
        if isinstance(value, list):
            return [self.fill(applicable.of_item(group, index, "items"), each) for index, each in enumerate(value)]
        found = {}
        for name, each in value.items():
            self._left -= len(applicable.ask(group, list_patterns))
            if self._left >= 0:
                inner = applicable.of_property(group, name, applicable.matches(group, name), ("additionalProperties",))
                each = self.fill(inner, each)
            found[name] = each
        for name, default in applicable.ask(group, applicable.list_defaults).items():
            self._left -= 1
            if name not in found and self._left >= 0:
                self._fill_in(found, name, default)
        return found

    def _fill_in(self, found: dict[str, Any], name: str, default: Default) -> None:
        self._left -= FILLING + default.size
        if self._left >= 0:
            found[name] = self._complete(default.group, deepcopy(default.value))

    def _complete(self, group: Group, value: Any) -> Any:
        """Fill in the defaults inside a default. References are not followed, because they might be endless."""
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
"""Keywords that depend on other parts of the value, which may be missing."""
_DEFS = "#/$defs/"


class _Relaxation:
    """Builds a schema that accepts every part of a valid value. For objects that are merged, it drops required properties and
    conditions on the rest of the value. Lists are replaced as a whole, so the schemas of their items are unchanged. A referenced
    schema gets a second, relaxed form, because others may need the original."""

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
        if "oneOf" in found:  # without requirements, several alternatives may fit
            either = {"anyOf": found.pop("oneOf")}
            found |= either if "anyOf" not in found else {"allOf": [*get_list(found, "allOf"), either]}
        return found

    def _keep(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return a schema that is not relaxed. Only its reference may be renamed."""
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
    """Return True for `const` and `enum` with objects, which a part of an object cannot equal."""
    return (keyword == "const" and isinstance(value, dict)) or (
        keyword == "enum" and isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )
