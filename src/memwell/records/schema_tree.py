"""The structure of JSON Schemas: their subschemas and references, and the subschemas that apply to each part of a value. Also the
compiled validator, and the paths of problems in values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import msgspec

from ..errors import Invalid

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

# fmt: off
SINGLE = (
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)
# fmt: on
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
"""Keywords with one subschema, with a list of subschemas, and with subschemas by name."""
ROOT = "#"
MAX_INDEX_DIGITS = 6
MAX_MEMO = 1000
MAX_TEXT = 200
"""Characters of a path or a reason in a message."""
MAYBE_SECRET = 16
"""Shortest name that may be a secret."""
MAX_NAMES = 10
MAX_SHOWN = 100
PATTERN_BYTES = 1024 * 1024
"""Size of a compiled pattern."""

T = TypeVar("T")
Group: TypeAlias = tuple[dict[str, Any], ...]
"""All subschemas that apply to one value."""


class Problem(NamedTuple):
    """A place where a value does not fit, and the reason."""

    path: str
    """Dotted, with indexes: `orders[0].id`; empty for the whole value."""
    reason: str


def get_map(one: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    found = one.get(keyword)
    return found if isinstance(found, dict) else {}


def get_list(one: Mapping[str, Any], keyword: str) -> list[Any]:
    found = one.get(keyword)
    return found if isinstance(found, list) else []


def list_parts(one: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the subschemas of a keyword, in whatever way it has them."""
    if keyword in LISTS:
        return get_list(one, keyword)
    return list(get_map(one, keyword).values()) if keyword in MAPS else [one[keyword]] if keyword in one else []


def walk_schemas(source: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and all its subschemas, each with its path."""
    waiting = [("", source)]
    while waiting:
        path, one = waiting.pop()
        yield path, one
        found = [(name, one.get(name)) for name in SINGLE]
        found += [(f"{name}[{number}]", each) for name in LISTS for number, each in enumerate(get_list(one, name))]
        found += [(f"{name}.{key}", each) for name in MAPS for key, each in get_map(one, name).items()]
        waiting += [(f"{path}.{name}", each) for name, each in found if isinstance(each, dict)]


def map_schema(one: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy of a schema with every subschema changed, the inner ones first."""
    if not isinstance(one, dict):
        return one
    found = dict(one)
    for name in found.keys() & SINGLE:
        found[name] = map_schema(found[name], change)
    for name in found.keys() & LISTS:
        if isinstance(found[name], list):
            found[name] = [map_schema(each, change) for each in found[name]]
    for name in found.keys() & MAPS:
        if isinstance(found[name], dict):
            found[name] = {key: map_schema(each, change) for key, each in found[name].items()}
    return change(found)


def resolve_reference(root: Any, reference: str) -> Any:
    """Return the target of a reference inside a schema, or None if it does not exist."""
    for name in split_reference(reference):
        if isinstance(root, list):
            is_index = name.isascii() and name.isdecimal() and len(name) <= MAX_INDEX_DIGITS
            root = root[int(name)] if is_index and int(name) < len(root) else None
        else:
            root = root.get(name) if isinstance(root, dict) else None
    return root


def split_reference(reference: str) -> list[str]:
    """Return the decoded names of a JSON pointer."""
    parts = reference.removeprefix(ROOT).split("/")[1:]
    return [unquote(part).replace("~1", "/").replace("~0", "~") for part in parts]


class Applicable:
    """Finds the subschemas that apply to each part of a value, through the given keywords. Results are cached. Equal groups are
    the same object, so that their `id` can be a key."""

    def __init__(self, root: dict[str, Any], keywords: Sequence[str], *, contains: bool = False) -> None:
        self._root = root
        self._keywords = keywords
        self._contains = contains
        self._groups: dict[tuple[int, ...], Group] = {}
        self._inner: dict[tuple[Any, ...], Group] = {}
        self._matchers: dict[str, Draft202012Validator] = {}
        self._answers: dict[tuple[Any, ...], Any] = {}
        self.whole = self.expand([root])

    @property
    def is_full(self) -> bool:
        """True if the cache is so large, because of property names in values, that a new object should replace this one."""
        return len(self._inner) > MAX_MEMO

    def ask(self, group: Group, question: Callable[[Group], T]) -> T:
        """Return the result of a function for a group, cached."""
        key = id(group), question
        if key not in self._answers:
            self._answers[key] = question(group)
        return self._answers[key]  # type: ignore[no-any-return]

    def expand(self, schemas: Iterable[Any]) -> Group:
        """Return schemas together with all subschemas of them that apply to the same value."""
        found: dict[int, dict[str, Any]] = {}
        waiting = list(schemas)
        for one in waiting:
            if not isinstance(one, dict) or id(one) in found:
                continue
            found[id(one)] = one
            for keyword in self._keywords:
                if keyword == "$ref":
                    waiting += [resolve_reference(self._root, one["$ref"])] if isinstance(one.get("$ref"), str) else []
                else:
                    waiting += list_parts(one, keyword)
        return self._groups.setdefault(tuple(found), tuple(found.values()))

    def matches(self, group: Group, name: str) -> tuple[str, ...]:
        """Return the patterns of a group that match the name of a property."""
        patterns = self.ask(group, list_patterns)
        for pattern in patterns:
            if pattern not in self._matchers:
                self._matchers[pattern] = build_matcher(pattern)
        return tuple(pattern for pattern in patterns if self._matchers[pattern].is_valid(name))

    def of_property(self, group: Group, name: str, matches: tuple[str, ...], others: tuple[str, ...]) -> Group:
        """Return the subschemas of a property: by its name and the patterns that match it, or else by the keywords `others`."""
        key = id(group), name if name in self.ask(group, list_names) else None, matches, others
        if key not in self._inner:
            found: list[Any] = []
            for one in group:
                properties, patterns = get_map(one, "properties"), get_map(one, "patternProperties")
                own = [properties[name]] if name in properties else []
                own += [patterns[pattern] for pattern in matches if pattern in patterns]
                found += own or [one.get(other) for other in others]
            self._inner[key] = self.expand(found)
        return self._inner[key]

    def of_item(self, group: Group, index: int, *others: str) -> Group:
        """Return the subschemas of an item of a list: by `prefixItems`, or else by the first of the keywords `others`."""
        index = min(index, max((len(get_list(one, "prefixItems")) for one in group), default=0))
        key = id(group), index, others
        if key not in self._inner:
            found: list[Any] = [one.get("contains") for one in group] if self._contains else []
            for one in group:
                first = get_list(one, "prefixItems")
                rest = next((one[other] for other in others if other in one), None)
                found.append(first[index] if index < len(first) else rest)
            self._inner[key] = self.expand(found)
        return self._inner[key]


def list_names(group: Group) -> frozenset[str]:
    """Return the names of the properties that a group describes."""
    return frozenset(name for one in group for name in get_map(one, "properties"))


def list_patterns(group: Group) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pattern for one in group for pattern in get_map(one, "patternProperties")))


# The validator and its errors

_TYPES = "array, boolean, integer, null, number, object, string"
_SAFE_IN_REFERENCE = "~!$&'()*+,;=:@-._"


def compile_schema(source: dict[str, Any], *, formats: bool = False) -> Draft202012Validator:
    """Return a validator for a schema. The caller has checked the limits of the schema."""
    import jsonschema_rs  # lazy, because it is slow to load

    try:
        return jsonschema_rs.Draft202012Validator(
            map_schema(source, _spell_reference),
            validate_formats=formats,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
            mask="the value",
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        path, reason = to_problem(error)
        places = [part for part in error.instance_path if isinstance(part, str)]
        if error.kind.name == "format" and any(place in ("pattern", "patternProperties") for place in places[-2:]):
            reason = (
                "it is not a regular expression, is too large once compiled, or uses lookaround, which is not supported"
            )
        elif places[-1:] == ["type"]:
            reason = f"a type must be one of {_TYPES}"
        raise Invalid(f"`{path or 'schema'}` of the schema cannot be used: {reason}.", field="schema") from None
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise Invalid(f"The schema cannot be used: {str(error)[:MAX_TEXT]}.", field="schema") from None


def _spell_reference(one: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its reference encoded for the validator, so that the target is the one that was checked."""
    reference = one.get("$ref")
    if not isinstance(reference, str):
        return one
    names = (part.replace("~", "~0").replace("/", "~1") for part in split_reference(reference))
    encoded = "/".join([ROOT, *(quote(name, safe=_SAFE_IN_REFERENCE) for name in names)])
    return one if encoded == reference else {**one, "$ref": encoded}


def to_problem(error: ValidationError, names: Set[str] = frozenset()) -> Problem:
    """Return the path and the reason of an error. `names` are the names in the schema, which are not secret."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{show_name(part, names)}" for part in error.instance_path]
    unexpected: list[str] = getattr(error.kind, "unexpected", [])
    reason = error.message.splitlines()[0]
    if unexpected:
        reason = explain_unexpected(unexpected)
    elif error.kind.name == "propertyNames":  # the validator does not mask the name in its message
        inner: Any = getattr(error.kind, "error")  # noqa: B009 -- missing in its type
        name = str(inner.instance)
        quoted = msgspec.json.encode(name).decode()
        rest = reason.removeprefix(quoted) if reason.startswith(quoted) else " does not fit"
        reason = f"the name {mask_name(name)[:MAX_SHOWN]!r}{rest}"
    return Problem(_cut("".join(parts).removeprefix(".")), _cut(reason))


ADDITIONAL = "Additional properties are not allowed"


def explain_unexpected(names: list[str]) -> str:
    shown = [repr(mask_name(name)[:MAX_SHOWN]) for name in names[:MAX_NAMES]] + ["…"] * (len(names) > MAX_NAMES)
    verb = "was" if len(names) == 1 else "were"
    return f"{ADDITIONAL} ({', '.join(shown)} {verb} unexpected)"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


@lru_cache(maxsize=256)
def build_matcher(pattern: str) -> Draft202012Validator:
    """Return a validator for a pattern, so that names are matched by the same rules as in the schema."""
    return compile_schema({"pattern": pattern})


# Paths in values


class At(NamedTuple):
    """A place in a value: its parent, and a name or an index. Paths are rendered only when they are needed, because all paths of
    a value together can be much larger than the value."""

    above: At | None
    step: str | int


def render_path(at: At | None, names: Set[str] = frozenset()) -> str:
    """Return the path of a place: `orders[0].id`; empty for the whole value. `names` are not secret."""
    steps: list[str] = []
    while at is not None:
        steps.append(f"[{at.step}]" if isinstance(at.step, int) else f".{show_name(at.step, names)}")
        at = at.above
    return _cut("".join(reversed(steps)).removeprefix("."))


def longest_path(value: Any) -> int:
    """Return the length of the longest path in a value, with one character for each index."""
    longest, waiting = 0, [(value, 0)]
    while waiting:
        one, length = waiting.pop()
        longest = max(longest, length)
        if isinstance(one, dict):
            waiting += [(each, length + len(name)) for name, each in one.items()]
        elif isinstance(one, list):
            waiting += [(each, length + 1) for each in one]
    return longest


def mask_name(name: str) -> str:
    """Return the name of a property for a message. A long name with digits is shortened, because it may be a secret."""
    return name[:4] + "…" if len(name) >= MAYBE_SECRET and any(map(str.isdigit, name)) else name


def show_name(name: str, names: Set[str]) -> str:
    return name if name in names else mask_name(name)
