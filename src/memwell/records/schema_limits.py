"""Limits of schemas, checked before they are compiled, and of the work to check a value.

The limits of a schema are its size, its depth, and its number of subschemas with all references expanded. A schema may refer to
itself, as that of a tree does, but only once for each part of a value: otherwise the work would double with each level of the
value. Patterns are limited in length, and in size with their repetitions expanded.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, reduce
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import msgspec

from ..errors import Invalid, TooLarge
from ..model.fields import check_json
from .schema_tree import ROOT, get_list, get_map, resolve_reference, walk_schemas

MAX_SCHEMA = 64 * 1024
MAX_DEPTH = 64
"""Levels of JSON. A property with an object takes two: `properties`, and the property."""
MAX_SUBSCHEMAS = 5000
MAX_CHAIN = 64
"""Subschemas in a chain that apply to the same value. The validator recurses for each of them."""
UNEVALUATED = 4
"""Factor for the cost of a schema with `unevaluatedProperties` or `unevaluatedItems`, which the validator checks repeatedly."""
MAX_PATTERN = 512
MAX_PATTERNS = 50_000
"""Total size of all patterns, which determines the time to compile them."""
MAX_WORK = 5_000_000
"""Subschemas times the parts of a value."""
MAX_MATCHED = 200_000_000
"""Characters of a value times the size of the patterns, at about seven nanoseconds each."""
MAX_BIG_INTEGERS = 100
"""Integers beyond 64 bits in a value whose items must be unique. The validator compares every pair of them."""
BIG = 1 << 63

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_FORBIDDEN = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary")
_REPEATED = ("enum", "const", "required", "pattern", "dependentRequired", "dependencies", "not")
"""Keywords whose values the validator repeats in its errors."""

_ANY_PROPERTY, _ANY_ITEM, _NAME = ".*", "[*]", "name"
_SAME_VALUE = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_MAPS = ("dependencies", "dependentSchemas")
_INNER = {
    "additionalProperties": _ANY_PROPERTY,
    "unevaluatedProperties": _ANY_PROPERTY,
    "contains": _ANY_ITEM,
    "items": _ANY_ITEM,
    "unevaluatedItems": _ANY_ITEM,
    "propertyNames": _NAME,
}


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
    _check_structure(_build_graph(source))


# Subschemas and references


class _Node(NamedTuple):
    """A schema and its subschemas, each as the part of the value that it applies to (None: the same value) and its `id`."""

    schema: dict[str, Any]
    edges: list[tuple[str | None, int]]
    booleans: int
    """Number of subschemas that are only true or false."""


class Cost(NamedTuple):
    """The cost of checking one part of a value, with all references expanded."""

    subschemas: int
    work: int
    """Subschemas, weighted by their enums and divisions."""
    patterns: int
    errors: int
    """Errors that one part of a value can have."""

    def plus(self, other: Cost) -> Cost:
        return Cost(*map(operator.add, self, other))


def _build_graph(source: dict[str, Any]) -> dict[int, _Node]:
    graph: dict[int, _Node] = {}
    waiting = [source]
    while waiting:
        one = waiting.pop()
        if id(one) not in graph:
            parts = list(_list_parts(one, source))
            schemas = [(step, part) for step, part in parts if isinstance(part, dict)]
            booleans = sum(isinstance(part, bool) for _, part in parts)
            graph[id(one)] = _Node(one, [(step, id(part)) for step, part in schemas], booleans)
            waiting += [part for _, part in schemas]
    return graph


def _list_parts(one: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield the subschemas that a schema uses. Definitions without a reference to them are left out."""
    yield from ((None, one.get(name)) for name in _SAME_VALUE)
    yield from ((step, one.get(name)) for name, step in _INNER.items())
    yield from ((None, each) for name in _SAME_VALUE_LISTS for each in get_list(one, name))
    yield from ((f"[{number}]", each) for number, each in enumerate(get_list(one, "prefixItems")))
    yield from ((f".{name}", each) for name, each in get_map(one, "properties").items())
    yield from ((_ANY_PROPERTY, each) for each in get_map(one, "patternProperties").values())
    yield from ((None, each) for name in _SAME_VALUE_MAPS for each in get_map(one, name).values())
    if isinstance(one.get("$ref"), str):
        yield None, resolve_reference(root, one["$ref"])


def _sort(children: Mapping[int, Iterable[int]]) -> list[int]:
    """Return the nodes, each after its children. Nodes in a cycle, and nodes that lead to one, are left out."""
    sorter = TopologicalSorter(children)
    with suppress(CycleError):
        sorter.prepare()
    found: list[int] = []
    while ready := sorter.get_ready():
        found += ready
        sorter.done(*ready)
    return found


def _find_recursion(graph: Mapping[int, _Node]) -> set[int]:
    """Return the schemas in a cycle of references, and the schemas on a path between two cycles."""
    leading = graph.keys() - set(_sort({node: [target for _, target in one.edges] for node, one in graph.items()}))
    parents: dict[int, list[int]] = {node: [] for node in leading}
    for node in leading:
        for _, target in graph[node].edges:
            if target in leading:
                parents[target].append(node)
    return leading - set(_sort(parents))


def _check_structure(graph: Mapping[int, _Node]) -> None:
    recursive = _find_recursion(graph)
    same_value = {node: [target for step, target in one.edges if step is None] for node, one in graph.items()}
    chains: dict[int, int] = {}
    steps: dict[int, Counter[str]] = {}
    order = _sort(same_value)
    if len(order) < len(graph):
        raise Invalid("`schema` refers to itself endlessly for the same value.", field="schema")
    for node in order:
        chains[node] = 1 + max((chains[target] for target in same_value[node]), default=0)
        if chains[node] > MAX_CHAIN:
            reason = f"has a chain of more than {MAX_CHAIN} subschemas for the same value: make it simpler"
            raise Invalid(f"`schema` {reason}.", field="schema")
        if node not in recursive:
            continue
        steps[node] = Counter()
        for step, target in graph[node].edges:
            if target in recursive:
                steps[node].update(steps[target] if step is None else [step])
        for kind, anywhere in ((".", _ANY_PROPERTY), ("[", _ANY_ITEM)):
            exact = [count for step, count in steps[node].items() if step.startswith(kind) and step != anywhere]
            if max(exact, default=0) + steps[node][anywhere] > 1:
                raise Invalid(
                    "`schema` describes itself in several ways at the same place, so that checking a value could take for "
                    "ever: let one part refer to itself there.",
                    field="schema",
                )
        if _is_unevaluated(graph[node].schema):
            raise Invalid(
                "`schema` describes itself where it asks what is unevaluated, so that checking a value could take for "
                "ever: use `additionalProperties` or `items` there.",
                field="schema",
            )
    if _add_costs(graph, recursive).subschemas > MAX_SUBSCHEMAS:
        reason = (
            f"stands for more than {MAX_SUBSCHEMAS} subschemas once its references are written out: make it smaller"
        )
        raise Invalid(f"`schema` {reason}.", field="schema")


def _is_unevaluated(one: Mapping[str, Any]) -> bool:
    return "unevaluatedProperties" in one or "unevaluatedItems" in one


def _add_costs(graph: Mapping[int, _Node], recursive: set[int]) -> Cost:
    """Return the cost of the root, which is the first node. All recursive schemas count once, as a single node 0."""
    own: dict[int, Cost] = {}
    children: dict[int, list[int]] = {}
    repeated: set[int] = set()
    for node, one in graph.items():
        merged = 0 if node in recursive else node
        own[merged] = own[merged].plus(_own_cost(one)) if merged in own else _own_cost(one)
        inner = [0 if target in recursive else target for _, target in one.edges]
        children.setdefault(merged, []).extend(target for target in inner if target or merged)
        if _is_unevaluated(one.schema):
            repeated.add(merged)
    costs: dict[int, Cost] = {}
    for node in _sort(children):
        times = UNEVALUATED if node in repeated else 1
        costs[node] = reduce(Cost.plus, (costs[target] for target in children[node] * times), own[node])
    root = next(iter(graph))
    return costs[0 if root in recursive else root]


def _own_cost(node: _Node) -> Cost:
    one = node.schema
    lists: list[Any] = [get_list(one, "required")]
    lists += [each for word in ("dependentRequired", "dependencies") for each in get_map(one, word).values()]
    errors = 1 + sum(len(names) for names in lists if isinstance(names, list)) + node.booleans
    members = Measure.of(get_list(one, "enum")).parts + Measure.of(one.get("const")).parts
    # Dividing by a fraction takes one microsecond; by a very small fraction, fifteen.
    divisor = one.get("multipleOf")
    division = 0 if not isinstance(divisor, float) else 50 if abs(divisor) > 1e-9 else 150
    patterns = sum(_matching_size(pattern) for pattern in _patterns(one))
    return Cost(1, 1 + (members + errors) // 4 + division, patterns, errors)


# Patterns

_REPETITION = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPuUx]\{[^}]*\}|[pP].|.?)", re.DOTALL)
_UNICODE = re.compile(r"\\[pP]")
_CHARACTER_KIND = re.compile(r"\\[dDsSwW]")
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z-]*i")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]|\\[uUx]")
_ENDLESS = re.compile(r"[*+|]|\{\d+,\}|\(\?(?!:)")
_MAX_PARTS = 1_000_000
_LARGE = 300
"""Size from which on matching a pattern takes long even at the beginning of texts."""
_SMALL = 12
"""Largest size of a pattern that always compiles to a small automaton."""


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
def _matching_size(pattern: str) -> int:
    """Return the size of a pattern when it is matched: 0 if it is not large, begins with `^` and has a bounded length, because
    only the beginning of a text is matched then."""
    size = _count_parts(pattern, 4)
    if size <= _LARGE and pattern.startswith("^") and not _ENDLESS.search(pattern):
        return 0
    return 1 if size <= _SMALL else size


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


class Measure(NamedTuple):
    """The size of a value: its parts, including itself, its characters, and its integers beyond 64 bits."""

    parts: int
    characters: int
    big_integers: int

    @classmethod
    def of(cls, value: Any) -> Measure:
        parts, characters, big, waiting = 0, 0, 0, [value]
        while waiting:
            one = waiting.pop()
            parts += 1
            if isinstance(one, dict):
                characters += sum(map(len, one))
                waiting += one.values()
            elif isinstance(one, list):
                waiting += one
            elif isinstance(one, str):
                characters += len(one)
            elif isinstance(one, int) and not -BIG <= one < BIG:
                big += 1
        return cls(parts, characters, big)


class Effort(NamedTuple):
    """The effort of checking a value: the largest number of errors, and the share of the limit of one value."""

    errors: int
    share: float


class Limits:
    """The limits of values under a schema."""

    def __init__(self, source: dict[str, Any]) -> None:
        graph = _build_graph(source)
        self.used_schemas = [node.schema for node in graph.values()]
        """The schema, its subschemas, and the definitions that it refers to."""
        self._cost = _add_costs(graph, _find_recursion(graph))
        schemas = [one for _, one in walk_schemas(source)]
        self._compares_items = any("uniqueItems" in one for one in schemas)
        texts = (sum(len(msgspec.json.encode(one[word])) for word in _REPEATED if word in one) for one in schemas)
        self.longest_text = max(texts, default=0)
        """Characters of the schema that one error may repeat."""

    def measure(self, value: Any) -> Effort:
        """Return the effort of checking a value. Raise TooLarge if it is too much."""
        parts, characters, big_integers = Measure.of(value)
        if self._compares_items and big_integers > MAX_BIG_INTEGERS:
            reason = "its schema requires unique items, which takes long to check: give them as text"
            raise TooLarge(f"The value has more than {MAX_BIG_INTEGERS} integers of over 63 bits, and {reason}.")
        if self._cost.work * parts > MAX_WORK:
            raise TooLarge(
                "The value has too many parts to be checked against such a large schema: make one of them smaller."
            )
        matched = self._cost.patterns * characters
        if matched > MAX_MATCHED:
            raise TooLarge(
                "The value has texts that are too long for the patterns of its schema: shorten them, or simplify the schema."
            )
        return Effort(self._cost.errors * parts, max(self._cost.work * parts / MAX_WORK, matched / MAX_MATCHED))
