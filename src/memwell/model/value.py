"""Values of records: one put into another, and parts of them by their paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Invalid

MAX_PROJECTIONS = 100


def merged(old: Any, new: Any) -> Any:
    """A value put into another: objects are merged however deep they are, everything else takes the place of what was there,
    nothing (`null`) included (C1)."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: merged(old[name], value) if name in old else value for name, value in new.items()}}


def projected(value: Any, wanted: Mapping[str, Any]) -> Any:
    """The parts of a value at some dotted paths, where they stood (S2.21, S2.22). What is not there is left out."""
    if len(wanted) > MAX_PROJECTIONS:
        raise Invalid(f"At most {MAX_PROJECTIONS} fields can be asked for.", field="projections")
    found: Any = {}
    for path, mark in wanted.items():
        if mark is not True and mark != 1:
            raise Invalid(f"`projections` names fields with 1: {path[:50]!r} has something else.", field="projections")
        found = merged(found, _at(value, path.split(".")))
    return found


def _at(value: Any, path: list[str]) -> Any:
    """A value with nothing but what is at a path. A list is gone through."""
    if not path:
        return value
    if isinstance(value, list):
        return [part for part in (_at(one, path) for one in value) if part != {}]
    if not isinstance(value, dict) or path[0] not in value:
        return {}
    inner = _at(value[path[0]], path[1:])
    return {} if inner == {} and len(path) > 1 else {path[0]: inner}
