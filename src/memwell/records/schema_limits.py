"""Limits of schemas, checked before they are compiled, and of the work to check a value.

References can double the work with each level of a value. So it is counted for each value: how often the validator applies each
subschema to each part. Schemas are limited in size, depth, and subschemas that apply to the same value; patterns are limited in
length, and in size with their repetitions expanded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..errors import Invalid, TooLarge
from ..model.fields import check_json
from .schema_tree import (
    LISTS,
    MAPS,
    MAX_MEMO,
    ROOT,
    SINGLE,
    get_list,
    get_map,
    list_parts,
    resolve_reference,
    walk_schemas,
)

MAX_SCHEMA = 64 * 1024
MAX_DEPTH = 64
"""Levels of JSON. A property with an object takes two: `properties`, and the property."""
MAX_SUBSCHEMAS = 5000
"""Subschemas of all parts of a value. The same one counts repeatedly if references apply it to one part repeatedly."""
MAX_CHAIN = 64
"""Subschemas in a chain that apply to the same value. The validator recurses for each of them."""
UNEVALUATED = 4
"""Factor for the cost of a schema with `unevaluatedProperties` or `unevaluatedItems`, which the validator checks repeatedly."""
MAX_PATTERN = 512
MAX_PATTERNS = 50_000
"""Total size of all patterns, which determines the time to compile them."""
MAX_WORK = 5_000_000
"""Work to check a value: 1 for each subschema that is applied to a part of it, which takes about twenty nanoseconds."""
MATCHING = 1 / 40
"""Work to match one character with one part of a pattern."""
STARTING = 5
"""Size of a pattern besides its parts."""
SLOW_BOUND, FRACTION, TINY_FRACTION = 10, 50, 150
"""Work to compare with a number that is not an integer of 64 bits, and to divide by a fraction, or by a very small one."""
BIG = 1 << 63

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_FORBIDDEN = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary")
_REPEATED = ("enum", "const", "required", "pattern", "dependentRequired", "dependencies", "not")
"""Keywords whose values the validator repeats in its errors."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

_CERTAIN = ("$ref", "allOf", "then", "else", "dependencies", "dependentSchemas")
_ALTERNATIVES = ("anyOf", "oneOf")
"""Keywords whose subschemas are checked first, and checked again to explain errors."""
_CONDITIONS = ("if", "not")
"""Keywords whose subschemas are checked, without errors."""
_SAME_VALUE = (*_CERTAIN, *_ALTERNATIVES, *_CONDITIONS)
_UNUSED = ("$defs", "definitions", "contentSchema")


def check_schema(source: dict[str, Any]) -> None:
    """Reject a schema that is too large, too deep, too costly, or refers to anything but its own subschemas."""
    check_json(source, "schema", MAX_DEPTH)
    if len(msgspec.json.encode(source)) > MAX_SCHEMA:
        raise TooLarge(f"`schema` is larger than {MAX_SCHEMA // 1024} KiB.", field="schema")
    if str(source.get("$schema", _DRAFT)).rstrip(ROOT) != _DRAFT:
        raise Invalid(
            "`schema` must be JSON Schema Draft 2020-12: omit `$schema`, or set it to that draft.", field="schema"
        )
    schemas = list(walk_schemas(source))
    known = {id(one) for _, one in schemas}
    for path, one in schemas:
        where = f"`schema{path[:200]}`"
        for name in _FORBIDDEN:
            if name in one:
                raise Invalid(f"{where} has `{name}`, which is not supported.", field="schema")
        if any(len(pattern) > MAX_PATTERN for pattern in _patterns(one)):
            raise Invalid(f"{where} has a pattern of more than {MAX_PATTERN} characters.", field="schema")
        reference = one.get("$ref", ROOT)
        if not isinstance(reference, str) or not (reference == ROOT or reference.startswith("#/")):
            raise Invalid(
                f"{where} refers to {str(reference)[:100]!r}: a reference must be a path such as `#/$defs/address`.",
                field="schema",
            )
        target = resolve_reference(source, reference)
        if not isinstance(target, bool) and id(target) not in known:
            raise Invalid(f"{where} refers to {reference[:100]!r}, where there is no schema.", field="schema")
    if sum(measure_pattern(pattern) for _, one in schemas for pattern in _patterns(one)) > MAX_PATTERNS:
        raise Invalid(
            "The patterns of `schema` are too large together: shorten them, or use smaller repetitions.", field="schema"
        )
    if Limits(source).subschemas > MAX_SUBSCHEMAS:
        reason = f"stands for more than {MAX_SUBSCHEMAS} subschemas once its references are written out"
        raise Invalid(f"`schema` {reason}: make it smaller.", field="schema")


# Patterns

_REPETITION = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPuUx]\{[^}]*\}|[pP].|.?)", re.DOTALL)
_UNICODE = re.compile(r"\\[pP]")
_CHARACTER_KIND = re.compile(r"\\[dDsSwW]")
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z-]*i")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]|\\[uUx]")
_MAX_PARTS = 1_000_000


def _patterns(one: Mapping[str, Any]) -> list[str]:
    own = [one["pattern"]] if isinstance(one.get("pattern"), str) else []
    return [*own, *get_map(one, "patternProperties")]


@lru_cache(maxsize=8192)
def measure_pattern(pattern: str) -> int:
    """Return the size of a pattern when it is compiled. A Unicode class counts as hundreds of letters, and so does a class beyond
    ASCII where case is ignored. Classes such as `\\w` count extra, because each one is replaced in the whole pattern."""
    size = _count_parts(pattern, 250) + 10 * len(_CHARACTER_KIND.findall(pattern))
    if _IGNORES_CASE.search(pattern):
        size += 600 * sum(bool(_BEYOND_ASCII.search(one)) for one in _CLASS.findall(pattern))
    return size


@lru_cache(maxsize=8192)
def _matching_size(pattern: Any) -> int:
    """Return the size of a pattern when it is matched."""
    return STARTING + _count_parts(pattern, 4) if isinstance(pattern, str) else 0


def _count_parts(pattern: str, unicode_class: int) -> int:
    """Return the number of characters and classes in a pattern, with counted repetitions expanded."""
    groups: list[list[int]] = [[]]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        token = next(
            (found[0] for kind in (_REPETITION, _ESCAPE, _CLASS) if (found := kind.match(pattern, at))), letter
        )
        repetition = _REPETITION.fullmatch(token)
        if letter == "(":
            groups.append([])
        elif letter == ")" and len(groups) > 1:
            inner = sum(groups.pop())
            groups[-1].append(max(inner, 1))
        elif repetition and groups[-1]:
            times = max(int(repetition[1]), int(repetition[3] or 0), 1)
            groups[-1][-1] = min(_MAX_PARTS, groups[-1][-1] * times)
        elif letter not in "*+?|^$)":
            groups[-1].append(max(1, len(_UNICODE.findall(token)) * unicode_class))
        at += len(token)
    return min(_MAX_PARTS, sum(map(sum, groups)))


# Values


class Effort(NamedTuple):
    """The effort of checking a value: the largest number of errors, and the share of the limit of one value."""

    errors: int
    share: float


class _Node:
    """A schema that is used, its subschemas by keyword, and the cost of applying it once without them."""

    def __init__(self, schema: dict[str, Any], root: dict[str, Any]) -> None:
        self.schema = schema
        self.parts = {word: list_parts(schema, word) for word in (*SINGLE, *LISTS, *MAPS) if word not in _UNUSED}
        if isinstance(schema.get("$ref"), str):
            self.parts["$ref"] = [resolve_reference(root, schema["$ref"])]
        self.factor = UNEVALUATED if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        self.rank = 0
        """Length of the longest chain of subschemas that apply to the same value."""

    def list_targets(self, *keywords: str) -> Iterator[dict[str, Any]]:
        return (part for word in keywords for part in self.parts.get(word, ()) if isinstance(part, dict))

    def list_inner(self, step: Step) -> Iterator[dict[str, Any]]:
        """Yield the subschemas of a property, an item, or the names of properties. Each pattern counts as a match."""
        if step is None:
            yield from self.list_targets("propertyNames")
            return
        if isinstance(step, str):
            known, rest = get_map(self.schema, "properties"), ("additionalProperties", "unevaluatedProperties")
            own = [known[step]] if step in known else None
            yield from self.list_targets("patternProperties")
        else:
            first, rest = get_list(self.schema, "prefixItems"), ("items", "unevaluatedItems")
            own = [first[step]] if step < len(first) else None
            yield from self.list_targets("contains")
        if own is None:
            yield from self.list_targets(*rest)
        elif isinstance(own[0], dict):
            yield own[0]

    def list_same(self, explained: bool) -> Iterator[tuple[dict[str, Any], bool]]:
        """Yield the subschemas of the same value, each with True if its errors are explained."""
        yield from ((part, explained) for part in self.list_targets(*_CERTAIN))
        yield from ((part, False) for part in self.list_targets(*_ALTERNATIVES, *_CONDITIONS))
        if explained:
            yield from ((part, True) for part in self.list_targets(*_ALTERNATIVES))

    @cached_property
    def errors(self) -> int:
        """Largest number of errors."""
        one = self.schema
        lists = [each for word in ("dependentRequired", "dependencies") for each in get_map(one, word).values()]
        names = sum(len(each) for each in [get_list(one, "required"), *lists] if isinstance(each, list))
        return 1 + names + sum(isinstance(part, bool) for parts in self.parts.values() for part in parts)

    @cached_property
    def work(self) -> int:
        one = self.schema
        members = count_parts(get_list(one, "enum")) + count_parts(one.get("const"))
        bounds = sum(word in one and not _is_small_integer(one[word]) for word in _BOUNDS)
        divisor = one.get("multipleOf")
        division = 0 if not isinstance(divisor, float) else FRACTION if abs(divisor) > 1e-9 else TINY_FRACTION
        return 1 + (members + self.errors) // 4 + SLOW_BOUND * bounds + division


_UNNAMED = "\0"
"""Stands for the properties without a name in the schema. Names never contain this character."""
Step: TypeAlias = str | int | None
"""From a value to a part: the name of a property, the index of an item; None for the names of all properties."""
_Key: TypeAlias = tuple[int, bool]
"""The `id` of a schema, and True if its errors are explained, not only found."""
FindPlace: TypeAlias = "Callable[[Mapping[_Key, int]], _Place]"


class _Place(dict[Step, "_Place"]):
    """The subschemas that apply to a part of a value, with the number of times that each is applied, and the work of that. The
    places of inner parts are found at their first use."""

    def __init__(self, applied: Mapping[_Key, int], nodes: Mapping[int, _Node], find: FindPlace) -> None:
        self.applied, self._nodes, self._find = applied, nodes, find
        used = [(nodes[node], explained, times) for (node, explained), times in applied.items()]
        self.work = sum(node.work * times for node, _, times in used)
        self.errors = sum(node.errors * times for node, explained, times in used if explained)
        schemas = [(node.schema, times * MATCHING) for node, _, times in used]
        self.matching = sum(_matching_size(one.get("pattern")) * times for one, times in schemas)
        self.matching_names = sum(
            _matching_size(each) * times for one, times in schemas for each in get_map(one, "patternProperties")
        )
        self.named = frozenset(name for one, _ in schemas for name in get_map(one, "properties"))
        self.prefix = max((len(get_list(one, "prefixItems")) for one, _ in schemas), default=0)

    def __missing__(self, step: Step) -> _Place:
        """Properties without a name in the schema share a place."""
        if isinstance(step, str) and step not in self.named and step != _UNNAMED:
            return self[_UNNAMED]
        entered: Counter[_Key] = Counter()
        for (id_, explained), times in self.applied.items():
            node = self._nodes[id_]
            for part in node.list_inner(step):
                entered[id(part), explained] += times * node.factor
        self[step] = self._find(entered)
        return self[step]


class Limits:
    """The limits of values under a schema. Chains of subschemas for the same value must be short, and end."""

    def __init__(self, source: dict[str, Any]) -> None:
        self._source = source
        self._nodes = _build_graph(source)
        self._places: dict[frozenset[tuple[_Key, int]], _Place] = {}
        self.used_schemas = [node.schema for node in self._nodes.values()]
        """The schema, its subschemas, and the definitions that it refers to."""
        self.subschemas = self._rank()
        self._root: dict[_Key, int] = {(id(source), True): 1}
        self._whole = self._find_place(self._root)
        schemas = [one for _, one in walk_schemas(source)]
        self._compares_items = any("uniqueItems" in one for one in schemas)
        texts = (sum(len(msgspec.json.encode(one[word])) for word in _REPEATED if word in one) for one in schemas)
        self.longest_text = max(texts, default=0)
        """Characters of the schema that one error may repeat."""

    def measure(self, value: Any) -> Effort:
        """Return the effort of checking a value. Raise TooLarge if it is too much."""
        if len(self._places) > MAX_MEMO:
            self._places = {}
            self._whole = self._find_place(self._root)
        work, errors, weights = 0.0, 0, 0
        waiting: list[tuple[Any, _Place]] = [(value, self._whole)]
        while waiting:
            one, place = waiting.pop()
            if not place.applied and not self._compares_items:
                continue
            work += place.work
            errors += place.errors
            if isinstance(one, dict):
                names = place[None]
                work += names.work * len(one) + (place.matching_names + names.matching) * sum(map(len, one))
                errors += names.errors * len(one)
                waiting += [(each, place[name]) for name, each in one.items()]
            elif isinstance(one, list):
                first = (place[index] for index in range(place.prefix))
                waiting += zip(one, chain(first, repeat(place[place.prefix])), strict=False)
            elif isinstance(one, str):
                work += place.matching * len(one)
            elif isinstance(one, int) and not -BIG <= one < BIG:
                # The validator parses a large integer at each comparison, which takes time by the square of its length.
                weight = 30 + one.bit_length() ** 2 // 5000
                weights += weight if self._compares_items else 0  # each is compared with all others
                work += place.work * weight + weights
            if work > MAX_WORK:
                raise TooLarge(
                    "The value takes too long to be checked: make it smaller, give large integers as text, or simplify its "
                    "schema and the patterns in it."
                )
        return Effort(errors, work / MAX_WORK)

    def _find_place(self, entered: Mapping[_Key, int]) -> _Place:
        """Return the place to which subschemas apply, together with those that they apply to the same value."""
        found = frozenset(entered.items())
        if found not in self._places:
            ranks = [self._nodes[node].rank for node, _ in entered]
            levels: list[Counter[_Key]] = [Counter() for _ in range(max(ranks, default=0) + 1)]
            for (key, times), rank in zip(entered.items(), ranks, strict=True):
                levels[rank][key] += times
            for level in reversed(levels):  # a subschema of the same value has a lower rank
                for (node, explained), times in level.items():
                    for part, is_explained in self._nodes[node].list_same(explained):
                        levels[self._nodes[id(part)].rank][id(part), is_explained] += times * self._nodes[node].factor
            applied = {key: times for level in levels for key, times in level.items()}
            self._places[found] = _Place(applied, self._nodes, self._find_place)
        return self._places[found]

    def _rank(self) -> int:
        """Set the ranks of all schemas, and return the number of subschemas of all parts of a value."""
        same = {node: [id(part) for part in one.list_targets(*_SAME_VALUE)] for node, one in self._nodes.items()}
        sizes: dict[int, int] = {}
        try:
            order = list(TopologicalSorter(same).static_order())
        except CycleError:
            raise Invalid("`schema` refers to itself endlessly for the same value.", field="schema") from None
        for node in order:
            one = self._nodes[node]
            one.rank = 1 + max((self._nodes[part].rank for part in same[node]), default=0)
            if one.rank > MAX_CHAIN:
                reason = f"has a chain of more than {MAX_CHAIN} subschemas for the same value: make it simpler"
                raise Invalid(f"`schema` {reason}.", field="schema")
            sizes[node] = 1 + one.factor * sum(sizes[part] for part in same[node])
        inner = {id(part) for one in self._nodes.values() for part in one.list_targets(*one.parts.keys() - _SAME_VALUE)}
        return sum(sizes[node] for node in {id(self._source), *inner})


def _build_graph(source: dict[str, Any]) -> dict[int, _Node]:
    """Return the schemas that are used, by `id`. Definitions without a reference to them are left out."""
    graph: dict[int, _Node] = {}
    waiting = [source]
    for one in waiting:
        if id(one) not in graph:
            graph[id(one)] = _Node(one, source)
            waiting += graph[id(one)].list_targets(*graph[id(one)].parts)
    return graph


def count_parts(value: Any) -> int:
    """Return the number of parts of a value, including itself."""
    waiting = [value]
    for one in waiting:
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return len(waiting)


def _is_small_integer(number: Any) -> bool:
    return isinstance(number, int) and -BIG <= number < BIG
