"""How much work a schema can make: what it is when every reference in it is written out, and whether it ever ends.

A short schema may stand for an enormous one, if its parts refer to each other several times; and one that describes itself in
several ways at the same place takes twice as long with every level of a value. Both are refused before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from ..errors import Invalid
from .schema_walk import listed, named, referred

MAX_EXPANDED = 5000
"""Subschemas, with every reference written out."""
HERE, ANY = "", "*"
"""A part that describes the same value, and one that describes any value inside of it."""
_HERE_ONE = ("not", "if", "then", "else")
_HERE_LIST = ("allOf", "anyOf", "oneOf")
_HERE_NAMED = ("dependencies", "dependentSchemas")
_INSIDE_ONE = (
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)

MEMBERS = 8
"""So many members of an `enum` take as long to compare as a subschema to apply."""
FRACTION = 50
"""As many subschemas as it takes to divide by a fraction exactly."""

Node: TypeAlias = int


class Cost(NamedTuple):
    """What it takes to check one value, with every reference written out."""

    subschemas: int
    weight: int
    """The same, where those that take longer count for more."""
    patterns: int

    def plus(self, other: Cost) -> Cost:
        return Cost(self.subschemas + other.subschemas, self.weight + other.weight, self.patterns + other.patterns)


class Edge(NamedTuple):
    """From a schema to one that it uses, and for which part of a value."""

    place: str
    target: Node


Graph: TypeAlias = dict[Node, list[Edge]]
Costs: TypeAlias = dict[Node, Cost]


def cost(source: dict[str, Any]) -> Cost:
    """What a schema takes with every reference written out; an error if that is too much, or has no end."""
    graph, own = _graph(source)
    sizes: Costs = {}
    for group in _groups(graph):
        inside = set(group)
        if len(group) > 1 or any(edge.target in inside for edge in graph[group[0]]):
            _check_recursion(graph, group, inside)
        left = [edge.target for node in group for edge in graph[node] if edge.target not in inside]
        size = reduce(Cost.plus, [*(own[node] for node in group), *(sizes[target] for target in left)])
        if size.subschemas > MAX_EXPANDED:
            raise Invalid(
                f"`schema` stands for more than {MAX_EXPANDED} subschemas once its references are written out: make it smaller.",
                field="schema",
            )
        sizes.update(dict.fromkeys(group, size))
    return sizes[id(source)]


def _graph(source: dict[str, Any]) -> tuple[Graph, Costs]:
    graph: Graph = {}
    own: Costs = {}
    waiting = [source]
    while waiting:
        one = waiting.pop()
        if id(one) in graph:
            continue
        parts = list(_parts(one, source))
        graph[id(one)] = [Edge(place, id(part)) for place, part in parts]
        own[id(one)] = _own(one)
        waiting += [part for _, part in parts]
    return graph, own


def _own(one: dict[str, Any]) -> Cost:
    members = parts_of(listed(one, "enum")) + parts_of(one.get("const"))
    divided = FRACTION if isinstance(one.get("multipleOf"), float) else 0
    patterns = ("pattern" in one) + len(named(one, "patternProperties"))
    return Cost(1, 1 + members // MEMBERS + divided, patterns)


def parts_of(value: Any) -> int:
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


def _parts(one: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a schema uses, each with the part of a value that it is for. Definitions that nobody refers to are not used."""
    found: list[tuple[str, Any]] = [(HERE, one.get(name)) for name in _HERE_ONE]
    found += [(ANY, one.get(name)) for name in _INSIDE_ONE]
    found += [(HERE, each) for name in _HERE_LIST for each in listed(one, name)]
    found += [(f"[{number}]", each) for number, each in enumerate(listed(one, "prefixItems"))]
    found += [(f".{name}", each) for name, each in named(one, "properties").items()]
    found += [(ANY, each) for each in named(one, "patternProperties").values()]
    found += [(HERE, each) for name in _HERE_NAMED for each in named(one, name).values()]
    reference = one.get("$ref")
    if isinstance(reference, str):
        found.append((HERE, referred(root, reference)))
    return ((place, part) for place, part in found if isinstance(part, dict))


def _groups(graph: Graph) -> Iterator[list[Node]]:
    """Schemas that lead to each other, the innermost first (Tarjan's algorithm, without recursion)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    path: list[Node] = []
    on_path: set[Node] = set()
    for start in graph:
        work = [(start, 0)] if start not in index else []
        while work:
            node, step = work.pop()
            if step == 0:
                index[node] = low[node] = len(index)
                path.append(node)
                on_path.add(node)
            edges = graph[node]
            if step and edges[step - 1].target in on_path:
                low[node] = min(low[node], low[edges[step - 1].target])
            while step < len(edges) and edges[step].target in index:
                if edges[step].target in on_path:
                    low[node] = min(low[node], index[edges[step].target])
                step += 1
            if step < len(edges):
                work += [(node, step + 1), (edges[step].target, 0)]
                continue
            if low[node] == index[node]:
                cut = path.index(node)
                group, path = path[cut:], path[:cut]
                on_path.difference_update(group)
                yield group


def _check_recursion(graph: Graph, group: list[Node], inside: set[Node]) -> None:
    for node in group:
        ways: dict[str, int] = {}
        for edge in _reached(graph, node, inside):
            ways[edge.place] = ways.get(edge.place, 0) + 1
        anywhere = ways.pop(ANY, 0)
        if max([0, *ways.values()]) + anywhere > 1:
            raise Invalid(
                "`schema` describes itself in several ways at the same place, so that checking a value could take for ever: "
                "let one part refer to itself there.",
                field="schema",
            )


def _reached(graph: Graph, node: Node, inside: set[Node]) -> Iterator[Edge]:
    """The schemas of a group that are reached from one for a part of its value, as often as there are ways to them."""
    waiting: list[tuple[Node, tuple[Node, ...]]] = [(node, (node,))]
    steps = 0
    while waiting:
        here, way = waiting.pop()
        for edge in graph[here]:
            if edge.target not in inside:
                continue
            steps += 1
            if steps > MAX_EXPANDED or (edge.place == HERE and edge.target in way):
                raise Invalid("`schema` refers to itself without an end.", field="schema")
            if edge.place == HERE:
                waiting.append((edge.target, (*way, edge.target)))
            else:
                yield edge
