"""Values of records: one put into another, and parts of them by their paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeAlias

from ..errors import Invalid

Tree: TypeAlias = dict[str, "Tree | None"]
"""Names, and what is wanted inside of them; None: all of it."""
_NOTHING: Any = object()
MAX_DOTS = 64
"""How many parts the name of a field may have that is looked for by a path."""

MAX_PROJECTIONS = 100
MAX_PATH = 200
"""Characters of a path that are told."""
MAYBE_SECRET = 16
"""The length of a name that may be a secret."""


def merge(old: Any, new: Any) -> Any:
    """A value put into another: objects are merged however deep they are, everything else takes the place of what was there,
    nothing (`null`) included (C1)."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: merge(old[name], value) if name in old else value for name, value in new.items()}}


def unset_fields(value: Any, paths: Sequence[str]) -> Any:
    """A value without some of its fields, by their paths. What is not there need not go."""
    for path in paths:
        value = _unset(value, _steps(path, "unset"))
    return value


def _steps(path: str, field: str) -> list[str]:
    """The names on the way to a field. What can lead to none is refused: nobody would notice that nothing came of it."""
    steps = path.split(".")
    if not all(steps) or "[" in path or "]" in path:
        told = f"`{field}` names fields by their paths, such as `seat.row`"
        raise Invalid(f"{told}: {path[:50]!r} is none. Items of lists have none.", field=field)
    return steps


def _unset(value: Any, path: list[str]) -> Any:
    """A name may have dots in it: the longest that is there is meant."""
    if not isinstance(value, dict):
        return value
    for count in range(min(len(path), MAX_DOTS), 0, -1):
        name, inside = ".".join(path[:count]), path[count:]
        if name in value:
            if inside:
                return {**value, name: _unset(value[name], inside)}
            return {other: each for other, each in value.items() if other != name}
    return value


class At(NamedTuple):
    """A place in a value: the one that it is in, and under which name or number. A path is written only where it is told: written
    for every part, the paths of a value may be much larger than that."""

    above: At | None
    step: str | int


def render_path(at: At | None, names: Set[str] = frozenset()) -> str:
    """The path to a place, as it is told: `orders[0].id`; empty for the whole. `names` are no secrets."""
    steps: list[str] = []
    while at is not None:
        steps.append(f"[{at.step}]" if isinstance(at.step, int) else f".{show_name(at.step, names)}")
        at = at.above
    path = "".join(reversed(steps)).removeprefix(".")
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 1] + "…"


def longest_path(value: Any) -> int:
    """How many characters the names on the way to any part of a value have at most, and one for each number."""
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
    """The name of a property as it is told. A long one with digits may be a secret itself, and none is repeated."""
    return name[:4] + "…" if len(name) >= MAYBE_SECRET and any(map(str.isdigit, name)) else name


def show_name(name: str, names: Set[str]) -> str:
    """The same, but for names that everybody knows."""
    return name if name in names else mask_name(name)


def project(value: Any, projections: Mapping[str, Any]) -> Any:
    """The fields that are named with 1, at their paths; all of them if none is. What is not there is left away, but what it would
    be in stays: whoever goes there by its path finds nothing, and no error."""
    if not projections:
        return value
    if len(projections) > MAX_PROJECTIONS:
        raise Invalid(f"`projections` names more than {MAX_PROJECTIONS} fields.", field="projections")
    wanted: Tree = {}
    for path, mark in projections.items():
        if mark not in (1, True):
            raise Invalid(f"`projections` names fields with 1: {path[:50]!r} has something else.", field="projections")
        _add_to_tree(wanted, _steps(path, "projections"))
    found = _prune(value, wanted)
    return {} if found is _NOTHING else found


def _add_to_tree(tree: Tree, path: list[str]) -> None:
    """Add a path. One that was wanted as a whole stays whole."""
    for place, name in enumerate(path):
        last = place == len(path) - 1
        if tree.get(name, {}) is None:
            return
        if last:
            tree[name] = None
            return
        tree = tree.setdefault(name, {})  # type: ignore[assignment]


def _find_in_tree(tree: Tree | None, path: list[str]) -> Any:
    """What is wanted of a field with dots in its name."""
    for name in path:
        if tree is None or name not in tree:
            return _NOTHING
        tree = tree[name]
    return tree


def _prune(value: Any, wanted: Tree | None) -> Any:
    """A value with nothing but what is wanted of it. A list is gone through."""
    if wanted is None:
        return value
    if isinstance(value, list):
        return [part for part in (_prune(one, wanted) for one in value) if part is not _NOTHING]
    if not isinstance(value, dict):
        return _NOTHING
    parts = {name: _prune(value[name], inner) for name, inner in wanted.items() if name in value}
    for name in value:
        if "." in name and (inner := _find_in_tree(wanted, name.split("."))) is not _NOTHING:
            parts[name] = _prune(value[name], inner)
    return {name: part for name, part in parts.items() if part is not _NOTHING}
