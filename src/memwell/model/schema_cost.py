"""How much work a schema can make: what it is when every reference in it is written out, and whether it ever ends.

A short schema may stand for an enormous one, if its parts refer to each other several times; and one that describes itself in
several ways at the same place takes twice as long with every level of a value. Both are refused before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from ..errors import Invalid

MAX_EXPANDED = 5000
"""Subschemas, with every reference written out."""
HERE, ANY = "", "*"
"""A part that describes the same value, and one that describes any value inside of it."""
_HERE_ONE = ("not", "if", "then", "else")
_HERE_LIST = ("allOf", "anyOf", "oneOf")
_INSIDE_ONE = (
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)

Node: TypeAlias = int


class Edge(NamedTuple):
    """From a schema to one that it uses, and for which part of a value."""

    place: str
    target: Node


Graph: TypeAlias = dict[Node, list[Edge]]


def cost(source: dict[str, Any]) -> int:
    """The number of subschemas with every reference written out; an error if that is too many, or has no end."""
    graph = _graph(source)
    sizes: dict[Node, int] = {}
    for group in _groups(graph):
        inside = set(group)
        if len(group) > 1 or any(edge.target in inside for edge in graph[group[0]]):
            _check_recursion(graph, group, inside)
        left = [edge.target for node in group for edge in graph[node] if edge.target not in inside]
        size = len(group) + sum(sizes[target] for target in left)
        if size > MAX_EXPANDED:
            raise Invalid(
                f"`schema` stands for more than {MAX_EXPANDED} subschemas once its references are written out: make it smaller.",
                field="schema",
            )
        sizes.update(dict.fromkeys(group, size))
    return sizes[id(source)]


def _graph(source: dict[str, Any]) -> Graph:
    graph: Graph = {}
    waiting = [source]
    while waiting:
        one = waiting.pop()
        if id(one) in graph:
            continue
        parts = list(_parts(one, source))
        graph[id(one)] = [Edge(place, id(part)) for place, part in parts]
        waiting += [part for _, part in parts]
    return graph


def _parts(one: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a schema uses, each with the part of a value that it is for. Definitions that nobody refers to are not used."""
    found: list[tuple[str, Any]] = [(HERE, one.get(name)) for name in _HERE_ONE]
    found += [(ANY, one.get(name)) for name in _INSIDE_ONE]
    found += [(HERE, each) for name in _HERE_LIST for each in _list(one.get(name))]
    found += [(f"[{number}]", each) for number, each in enumerate(_list(one.get("prefixItems")))]
    found += [(f".{name}", each) for name, each in _named(one.get("properties"))]
    found += [(ANY, each) for _, each in _named(one.get("patternProperties"))]
    found += [(HERE, each) for _, each in _named(one.get("dependentSchemas"))]
    reference = one.get("$ref")
    if isinstance(reference, str):
        found.append((HERE, referred(root, reference)))
    return ((place, part) for place, part in found if isinstance(part, dict))


def referred(root: Any, reference: str) -> Any:
    """What a reference inside a schema leads to; nothing if it leads nowhere."""
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(root, list):
            root = root[int(name)] if name.isdigit() and int(name) < len(root) else None
        else:
            root = root.get(name) if isinstance(root, dict) else None
    return root


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


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []
