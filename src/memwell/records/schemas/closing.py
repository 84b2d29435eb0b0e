"""Schemas that admit nothing but what they name (S3.9).

Where each value is described in one place, that place is closed. Where several parts of a schema speak of the same value, none
of them knows all of its properties: closing one would refuse what another names, and closing a condition or an alternative would
change what it means. Such a schema stays as it is, and a fence is put around it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .compiled import matcher
from .fence import Fence
from .walk import listed, mapped, named, referred, subschemas, used

_SAYS_ITSELF = ("additionalProperties", "unevaluatedProperties")
_NAMING = ("properties", "patternProperties")
_BESIDE = ("allOf", "if", "then", "else", "not", "dependentSchemas", "dependencies", "contains")
"""Where schemas stand that speak of a value beside others."""
_ALTERNATIVES = ("anyOf", "oneOf")
MOST_MATCHES = 10_000


class Closed(NamedTuple):
    """The schema that counts, and the fence around it, if it needs one."""

    schema: dict[str, Any]
    fence: Fence | None


def closed(source: dict[str, Any]) -> Closed:
    """A schema that admits no properties but those that it names, unless it says itself that there may be others."""
    if all(_is_alone(one, source) for one in used(source)):
        return Closed(mapped(source, _close), None)
    return Closed(source, Fence(source))


def _close(one: dict[str, Any]) -> dict[str, Any]:
    if any(name in one for name in _SAYS_ITSELF) or not any(name in one for name in _NAMING):
        return one
    names: dict[str, Any] = {name: {} for name in listed(one, "required") if isinstance(name, str)}
    return {**one, "properties": {**names, **named(one, "properties")}, "additionalProperties": False}


def _is_alone(one: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether nobody else speaks of the properties of the value that a schema is about."""
    beside = [each for name in _BESIDE for each in (one.get(name), *listed(one, name), *named(one, name).values())]
    if any(_speaks(each) for each in beside if isinstance(each, dict)) or _overlaps(one):
        return False
    others = [name for name in ("$ref", *_ALTERNATIVES) if name in one]
    if any(name in one for name in (*_NAMING, *_SAYS_ITSELF)):
        return not others
    return len(others) <= 1 and all(_has_one_with_parts(listed(one, name), root) for name in _ALTERNATIVES)


def _has_one_with_parts(alternatives: list[Any], root: dict[str, Any]) -> bool:
    """Whether at most one of some alternatives has parts, as where a value may be missing. If there are two, closing one of them
    changes which of them fits."""
    return sum(_may_have_parts(each, root) for each in alternatives) <= 1


def _may_have_parts(one: Any, root: dict[str, Any]) -> bool:
    while isinstance(one, dict) and isinstance(one.get("$ref"), str) and "type" not in one:
        one = referred(root, one["$ref"])  # which has an end: it was looked at before
    if not isinstance(one, dict):
        return one is not False
    kinds = one.get("type", "object")
    return any(kind in ("object", "array") for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _speaks(one: dict[str, Any]) -> bool:
    """Whether anything in a schema speaks of properties, or may do so elsewhere."""
    return any(name in part for _, part in subschemas(one) for name in (*_NAMING, *_SAYS_ITSELF, "$ref"))


def _overlaps(one: dict[str, Any]) -> bool:
    """Whether a property is described by its name and by a pattern, or perhaps by two patterns."""
    names, patterns = named(one, "properties"), named(one, "patternProperties")
    if len(patterns) > 1 or len(names) * len(patterns) > MOST_MATCHES:
        return True
    return any(matcher(pattern).is_valid(name) for pattern in patterns for name in (*names, *listed(one, "required")))
