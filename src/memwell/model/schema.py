"""JSON Schemas of records: what a value must be, and what it is where nothing was said.

Draft 2020-12. A schema comes from outside: it is bounded in size and depth, refers to nothing but itself, and its patterns
are matched in time linear in the text. What a value holds is in no message about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..errors import Invalid, TooLarge
from .check import plain
from .schema_cost import cost, referred

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_SCHEMA = 64 * 1024
MAX_DEPTH = 64
"""Levels of JSON; an object in an object takes two."""
MAX_PATTERN = 512
MAX_PROBLEMS = 20
MAX_WORK = 5_000_000
"""Subschemas times the parts of a value."""
MANY = 20_000
"""Up to how much of that all problems are named, and not only the first."""
PATTERN_BYTES = 256 * 1024
"""How large a pattern may become when it is compiled."""

_ONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems")
_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_SAYS_ITSELF = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_PARTS = ("$defs", "allOf", "anyOf", "definitions", "dependentSchemas", "else", "if", "not", "oneOf", "then")
"""Where schemas stand that are parts of another one, or are referred to."""
_NEEDED = ("required", "dependentRequired", "minProperties")
_COMPOSED = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
_ELSEWHERE = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary")
Change = Callable[[dict[str, Any], bool], dict[str, Any]]
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Problem(NamedTuple):
    """Where a value does not fit, and why."""

    path: str
    """Dotted, with indexes: `orders[0].id`; empty for the whole."""
    reason: str


class Schema:
    """A schema that was checked. `strict`: properties that it does not name are refused, unless it says itself that there may
    be others (S3.9)."""

    def __init__(self, source: Mapping[str, Any], *, strict: bool) -> None:
        self.source: dict[str, Any] = dict(source)
        _check(self.source)
        self.cost = cost(self.source)
        self._fits = _compiled(self.source)
        self.closed = _closed(self.source) if strict else self.source
        """The schema that counts: of a strict one, the one that admits nothing else."""
        if strict:
            self._fits = _compiled(self.closed)
        self._has_formats = any("format" in one for _, one in _subschemas(self.source))
        self._looks_right: Draft202012Validator | None = None
        self._has_defaults = _has_defaults(self.source)

    def problems(self, value: Any) -> list[Problem]:
        """Why a value does not fit; nothing if it does."""
        work = self._work(value)
        return [] if self._fits.is_valid(value) else _told(self._fits, value, work)

    def warnings(self, value: Any) -> list[Problem]:
        """What is let through although it does not look right: texts that do not have the format that is named (C34)."""
        if not self._has_formats:
            return []
        if self._looks_right is None:
            self._looks_right = _compiled(self.source, formats=True)
        work = self._work(value)
        return [] if self._looks_right.is_valid(value) else _told(self._looks_right, value, work, "format")

    def _work(self, value: Any) -> int:
        """How much there is to do at most; an error if it is too much to wait for."""
        work = self.cost * _parts_of(value)
        if work > MAX_WORK:
            raise TooLarge(
                "The value has too many parts to be checked against so large a schema: make one of them smaller."
            )
        return work

    def with_defaults(self, value: Any) -> Any:
        """A value with what the schema says about properties that are missing (C23)."""
        return _filled(self.source, value) if self._has_defaults else value

    def relaxed(self) -> dict[str, Any]:
        """The schema for a value that is merged into another: nothing is required (C31)."""
        return _Relaxing(self.closed).whole()


def _check(source: dict[str, Any]) -> None:
    plain(source, "schema", MAX_DEPTH)
    if len(msgspec.json.encode(source)) > MAX_SCHEMA:
        raise TooLarge(f"`schema` is larger than {MAX_SCHEMA // 1024} KiB.", field="schema")
    if str(source.get("$schema", _DRAFT)).rstrip("#") != _DRAFT:
        raise Invalid(
            "`schema` is read as JSON Schema Draft 2020-12: leave `$schema` away, or name that.", field="schema"
        )
    for path, one in _subschemas(source):
        _check_one(path, one)


def _check_one(path: str, one: dict[str, Any]) -> None:
    where = f"`schema{path}`"
    for name in _ELSEWHERE:
        if name in one:
            raise Invalid(f"{where} has `{name}`, which cannot be used here.", field="schema")
    reference = one.get("$ref", "#")
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise Invalid(
            f"{where} refers to {str(reference)[:100]!r}: only `#/$defs/…` can be referred to.", field="schema"
        )
    patterns = [one["pattern"]] if isinstance(one.get("pattern"), str) else []
    for pattern in [*patterns, *_named(one, "patternProperties")]:
        if len(pattern) > MAX_PATTERN:
            raise Invalid(f"{where} has a pattern of more than {MAX_PATTERN} characters.", field="schema")


def _named(one: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = one.get(name)
    return found if isinstance(found, dict) else {}


def _subschemas(source: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all that are inside of it, each with its path."""
    waiting = [(path, source)]
    while waiting:
        path, one = waiting.pop()
        yield path, one
        waiting += [(f"{path}.{name}", one[name]) for name in _ONE if isinstance(one.get(name), dict)]
        for name in _LIST:
            listed = one.get(name)
            if isinstance(listed, list):
                waiting += [(f"{path}.{name}[{n}]", each) for n, each in enumerate(listed) if isinstance(each, dict)]
        for name in _NAMED:
            waiting += [
                (f"{path}.{name}.{key}", each) for key, each in _named(one, name).items() if isinstance(each, dict)
            ]


def _mapped(one: Any, change: Change, fresh: bool = True) -> Any:
    """A schema with every one inside of it changed, and then itself. `fresh`: it says all that is said of its value; it is no
    part of another schema of the same value."""
    if not isinstance(one, dict):
        return one
    found = dict(one)
    for name in found.keys() & _ONE:
        found[name] = _mapped(found[name], change, name not in _PARTS)
    for name in found.keys() & _LIST:
        if isinstance(found[name], list):
            found[name] = [_mapped(each, change, name not in _PARTS) for each in found[name]]
    for name in found.keys() & _NAMED:
        if isinstance(found[name], dict):
            found[name] = {key: _mapped(each, change, name not in _PARTS) for key, each in found[name].items()}
    return change(found, fresh)


def _closed(source: dict[str, Any]) -> dict[str, Any]:
    """A schema that admits no properties but those that it names. Where it is composed, what its parts name counts."""

    def close(one: dict[str, Any], fresh: bool) -> dict[str, Any]:
        if not fresh or any(name in one for name in _SAYS_ITSELF) or not _names_some(one, source):
            return one
        composed = any(name in one for name in _COMPOSED)
        return {**one, ("unevaluatedProperties" if composed else "additionalProperties"): False}

    found: dict[str, Any] = _mapped(source, close)
    return found


class _Relaxing:
    """A schema on its way to one in which nothing is needed: of the objects that are merged, not of those in lists, which are
    replaced, nor where it is asked what a value is. What is referred to gets a second form, since others may need the first."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self._added: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        found: dict[str, Any] = self._part(self._root)
        return {**found, "$defs": {**_named(self._root, "$defs"), **self._added}} if self._added else found

    def _part(self, one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        found = {name: each for name, each in one.items() if name not in _NEEDED}
        if isinstance(found.get("properties"), dict):
            found["properties"] = {name: self._part(each) for name, each in found["properties"].items()}
        if isinstance(found.get("allOf"), list):
            found["allOf"] = [self._part(each) for each in found["allOf"]]
        if isinstance(found.get("$ref"), str):
            found["$ref"] = f"#/$defs/{self._referred(found['$ref'])}"
        return found

    def _referred(self, reference: str) -> str:
        if reference not in self._names:
            free = (f"part_{n}" for n in count(1) if f"part_{n}" not in _named(self._root, "$defs"))
            name = next(one for one in free if one not in self._added)
            self._names[reference], self._added[name] = name, {}
            self._added[name] = self._part(referred(self._root, reference))
        return self._names[reference]


def _names_some(one: Any, root: dict[str, Any]) -> bool:
    """Whether a schema or a part of it names properties."""
    waiting, seen = [one], set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        if "properties" in part:
            return True
        seen.add(id(part))
        waiting += [part.get("then"), part.get("else")]
        waiting += [each for name in ("allOf", "anyOf", "oneOf") for each in part.get(name) or []]
        reference = part.get("$ref")
        if isinstance(reference, str):
            waiting.append(referred(root, reference))
    return False


def _compiled(source: Mapping[str, Any], *, formats: bool = False) -> Draft202012Validator:
    import jsonschema_rs  # here, since it takes a while to load

    try:
        return jsonschema_rs.Draft202012Validator(
            dict(source),
            validate_formats=formats,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
            mask="the value",
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        path, reason = _problem(error)
        raise Invalid(f"`{path or 'schema'}` of the schema cannot be used: {reason}.", field="schema") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise Invalid(f"The schema cannot be used: {str(error)[:200]}.", field="schema") from None


def _told(validator: Draft202012Validator, value: Any, work: int, kind: str | None = None) -> list[Problem]:
    """What is wrong with a value. All errors are made at once, so of a large value only the first one is."""
    import jsonschema_rs

    if work <= MANY:
        odd = (one for one in validator.iter_errors(value) if kind in (None, one.kind.name))
        return [_problem(one) for one in islice(odd, MAX_PROBLEMS)]
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [_problem(error)] if kind in (None, error.kind.name) else []
    return []


def _parts_of(value: Any) -> int:
    """How many values there are in one, itself included."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return count


def _problem(error: ValidationError) -> Problem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return Problem(path.removeprefix("."), error.message.splitlines()[0])


def _filled(schema: Any, value: Any) -> Any:
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return value
    properties = _named(schema, "properties")
    wanted = (name for name, each in properties.items() if name not in value and _has_default(each))
    missing = {name: deepcopy(properties[name]["default"]) for name in wanted}
    return {name: _filled(properties.get(name), each) for name, each in (value | missing).items()}


def _has_defaults(schema: Any) -> bool:
    """Whether anything in a schema stands for what is missing."""
    properties = _named(schema, "properties") if isinstance(schema, dict) else {}
    return any(_has_default(one) or _has_defaults(one) for one in properties.values())


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema
