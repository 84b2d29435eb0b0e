"""How much work a schema can make: what it is when every reference in it is written out, and whether it ever ends.

A short schema may stand for an enormous one, if its parts refer to each other several times; one that describes itself in
several ways at the same place takes twice as long with every level of a value; what asks for the properties that nobody else has
looked at looks at everything below once more; and a validator goes down with every reference, and has only so much room for
that. All of it is refused before it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from ...errors import Invalid
from .patterns import states
from .walk import listed, named, referred

MAX_EXPANDED = 5000
"""Subschemas, with every reference written out."""
MAX_CHAIN = 64
"""How many parts may each describe the same value by the next one."""
AGAIN = 4
"""How often what is below is looked at where `unevaluatedProperties` or `unevaluatedItems` stand."""
HERE, ANY_PROPERTY, ANY_ITEM, NAME = "", ".*", "[*]", "name"
"""A part that describes the same value, one that describes any property or item of it, and one for the names of properties."""
_HERE_ONE = ("not", "if", "then", "else")
_HERE_LIST = ("allOf", "anyOf", "oneOf")
_HERE_NAMED = ("dependencies", "dependentSchemas")
_INSIDE = {
    "additionalProperties": ANY_PROPERTY,
    "unevaluatedProperties": ANY_PROPERTY,
    "contains": ANY_ITEM,
    "items": ANY_ITEM,
    "unevaluatedItems": ANY_ITEM,
    "propertyNames": NAME,
}
_LOOKING_AGAIN = ("unevaluatedProperties", "unevaluatedItems")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
LONG = 1 << 63

MEMBERS = 8
"""So many members of an `enum` take as long to compare as a subschema to apply."""
STARTED = 5
"""What a pattern takes in any case, in parts of it."""
FRACTION, TINY = 50, 150
"""As many subschemas as it takes to divide by a fraction exactly, and by one that is very small."""

Node: TypeAlias = int


class Cost(NamedTuple):
    """What it takes to check one value, with every reference written out."""

    subschemas: int
    weight: int
    """The same, where those that take longer count for more."""
    patterns: int
    """What its patterns have to keep in mind, together."""
    faults: int
    """How many errors one value may have."""

    def plus(self, other: Cost) -> Cost:
        return Cost(*(own + others for own, others in zip(self, other, strict=True)))

    def times(self, number: int) -> Cost:
        return Cost(*(own * number for own in self))


class Own(NamedTuple):
    """What a schema takes without its parts, and whether it looks at them once more."""

    cost: Cost
    again: bool


class Edge(NamedTuple):
    """From a schema to one that it uses, and for which part of a value."""

    place: str
    target: Node


Graph: TypeAlias = dict[Node, list[Edge]]
Costs: TypeAlias = dict[Node, Cost]


NOTHING = Cost(0, 0, 0, 0)


def cost(source: dict[str, Any]) -> Cost:
    """What a schema takes with every reference written out; an error if that is too much, or has no end."""
    graph, own = _graph(source)
    sizes: Costs = {}
    chains: dict[Node, int] = {}
    for group in _groups(graph):
        inside = set(group)
        if len(group) > 1 or any(edge.target in inside for edge in graph[group[0]]):
            group = list(_inner_first(graph, group, inside))
            _check_recursion(graph, group, inside)
            if any(own[node].again for node in group):
                raise Invalid(
                    "`schema` describes itself where it asks what is unevaluated, so that checking a value could take for "
                    "ever: use `additionalProperties` or `items` there.",
                    field="schema",
                )
        for node in group:
            chains[node] = _chain(graph[node], chains)
        sizes.update(dict.fromkeys(group, _size(graph, group, own, sizes)))
    return sizes[id(source)]


def _chain(edges: list[Edge], chains: dict[Node, int]) -> int:
    """How many parts describe the same value by one another, from here on."""
    length = 1 + max((chains[edge.target] for edge in edges if edge.place == HERE), default=0)
    if length > MAX_CHAIN:
        raise Invalid(
            f"`schema` describes a value by more than {MAX_CHAIN} parts that refer to one another: make it simpler.",
            field="schema",
        )
    return length


def _size(graph: Graph, group: list[Node], own: dict[Node, Own], sizes: Costs) -> Cost:
    inside = set(group)
    left = [sizes[edge.target] for node in group for edge in graph[node] if edge.target not in inside]
    below = reduce(Cost.plus, left, NOTHING).times(AGAIN if any(own[node].again for node in group) else 1)
    size = reduce(Cost.plus, (own[node].cost for node in group), below)
    if size.subschemas > MAX_EXPANDED:
        raise Invalid(
            f"`schema` stands for more than {MAX_EXPANDED} subschemas once its references are written out: make it smaller.",
            field="schema",
        )
    return size


def _graph(source: dict[str, Any]) -> tuple[Graph, dict[Node, Own]]:
    graph: Graph = {}
    own: dict[Node, Own] = {}
    waiting = [source]
    while waiting:
        one = waiting.pop()
        if id(one) in graph:
            continue
        parts = list(_parts(one, source))
        graph[id(one)] = [Edge(place, id(part)) for place, part in parts]
        own[id(one)] = Own(_own(one), any(name in one for name in _LOOKING_AGAIN))
        waiting += [part for _, part in parts]
    return graph, own


def _own(one: dict[str, Any]) -> Cost:
    wanted = [listed(one, "required"), *named(one, "dependentRequired").values(), *named(one, "dependencies").values()]
    faults = 1 + sum(len(names) for names in wanted if isinstance(names, list)) + _booleans(one)
    members = parts_of(listed(one, "enum")) + parts_of(one.get("const")) + faults
    slow = FRACTION * sum(_is_long(one.get(name)) for name in _NUMBERS) + _divided(one.get("multipleOf"))
    return Cost(1, 1 + members // MEMBERS + slow, patterns_of(one), faults)


def patterns_of(one: dict[str, Any]) -> int:
    """What the patterns of a schema have to keep in mind."""
    own = [one["pattern"]] if isinstance(one.get("pattern"), str) else []
    return sum(STARTED + states(pattern) for pattern in [*own, *named(one, "patternProperties")])


def _booleans(one: dict[str, Any]) -> int:
    """How many of the schemas in one are no more than yes or no."""
    found = [one.get(name) for name in (*_HERE_ONE, *_INSIDE)]
    found += [each for name in (*_HERE_LIST, "prefixItems") for each in listed(one, name)]
    found += [each for name in (*_HERE_NAMED, "patternProperties", "properties") for each in named(one, name).values()]
    return sum(isinstance(each, bool) for each in found)


def _divided(by: Any) -> int:
    if not isinstance(by, float):
        return 0
    return FRACTION if abs(by) > 1e-9 else TINY


def _is_long(number: Any) -> bool:
    return isinstance(number, int) and not -LONG <= number < LONG


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
    found += [(place, one.get(name)) for name, place in _INSIDE.items()]
    found += [(HERE, each) for name in _HERE_LIST for each in listed(one, name)]
    found += [(f"[{number}]", each) for number, each in enumerate(listed(one, "prefixItems"))]
    found += [(f".{name}", each) for name, each in named(one, "properties").items()]
    found += [(ANY_PROPERTY, each) for each in named(one, "patternProperties").values()]
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


def _check_recursion(graph: Graph, inner_first: list[Node], inside: set[Node]) -> None:
    """Refuse what describes itself in several ways for the same part of a value."""
    ways: dict[Node, Counter[str]] = {}
    for node in inner_first:
        found: Counter[str] = Counter()
        for edge in graph[node]:
            if edge.target in inside:
                found.update(ways[edge.target] if edge.place == HERE else [edge.place])
        ways[node] = found
        if any(_several(found, kind, anywhere) for kind, anywhere in ((".", ANY_PROPERTY), ("[", ANY_ITEM))):
            raise Invalid(
                "`schema` describes itself in several ways at the same place, so that checking a value could take for ever: "
                "let one part refer to itself there.",
                field="schema",
            )


def _several(ways: Counter[str], kind: str, anywhere: str) -> bool:
    """Whether there are several ways to the same property, or the same item."""
    here = [count for place, count in ways.items() if place.startswith(kind) and place != anywhere]
    return max(here, default=0) + ways[anywhere] > 1


def _inner_first(graph: Graph, group: list[Node], inside: set[Node]) -> Iterator[Node]:
    """The schemas of a group, each after its parts that describe the same value; an error if there is no end to that."""
    done: set[Node] = set()
    under_way: set[Node] = set()
    for start in group:
        work = [start]
        while work:
            node = work[-1]
            parts = [] if node in done else [e.target for e in graph[node] if e.place == HERE and e.target in inside]
            left = [part for part in parts if part not in done]
            if node in done or not left:
                work.pop()
                under_way.discard(node)
                if node not in done:
                    done.add(node)
                    yield node
                continue
            under_way.add(node)
            if any(part in under_way for part in left):
                raise Invalid("`schema` refers to itself without an end.", field="schema")
            work += left
