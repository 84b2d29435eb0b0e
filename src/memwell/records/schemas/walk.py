"""Where in a JSON Schema there are others, and what a reference in it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

ONE = (
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
DEFINED = ("$defs", "definitions")
PATTERNS = ("pattern", "patternProperties")
ROOT = "#"
MAX_INDEX_DIGITS = 6


def subschemas(source: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all that are inside of it, each with its path."""
    waiting = [("", source)]
    while waiting:
        path, one = waiting.pop()
        yield path, one
        found = [(name, one.get(name)) for name in ONE]
        found += [(f"{name}[{number}]", each) for name in LIST for number, each in enumerate(listed(one, name))]
        found += [(f"{name}.{key}", each) for name in NAMED for key, each in named(one, name).items()]
        waiting += [(f"{path}.{name}", each) for name, each in found if isinstance(each, dict)]


def mapped(one: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A schema with every one inside of it changed, and then itself."""
    if not isinstance(one, dict):
        return one
    found = dict(one)
    for name in found.keys() & ONE:
        found[name] = mapped(found[name], change)
    for name in found.keys() & LIST:
        if isinstance(found[name], list):
            found[name] = [mapped(each, change) for each in found[name]]
    for name in found.keys() & NAMED:
        if isinstance(found[name], dict):
            found[name] = {key: mapped(each, change) for key, each in found[name].items()}
    return change(found)


def referred(root: Any, reference: str) -> Any:
    """What a reference inside a schema leads to; nothing if it leads nowhere."""
    for name in path_of(reference):
        if isinstance(root, list):
            root = root[int(name)] if _is_index(name) and int(name) < len(root) else None
        else:
            root = root.get(name) if isinstance(root, dict) else None
    return root


def path_of(reference: str) -> list[str]:
    """The names on the way of a reference. What is spelled with `%` is what that stands for."""
    parts = reference.removeprefix(ROOT).split("/")[1:]
    return [unquote(part).replace("~1", "/").replace("~0", "~") for part in parts]


def used(source: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that count: a schema, what is inside of it and what is referred to, not what is only defined."""
    found: dict[int, dict[str, Any]] = {}
    waiting: list[Any] = [source]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict) or id(one) in found:
            continue
        found[id(one)] = one
        waiting += [one.get(name) for name in ONE]
        waiting += [each for name in LIST for each in listed(one, name)]
        waiting += [each for name in NAMED if name not in DEFINED for each in named(one, name).values()]
        if isinstance(one.get("$ref"), str):
            waiting.append(referred(source, one["$ref"]))
    return list(found.values())


def named(one: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What stands under a keyword by names; nothing, if it is not like that."""
    found = one.get(name)
    return found if isinstance(found, dict) else {}


def listed(one: Mapping[str, Any], name: str) -> list[Any]:
    """What stands under a keyword in a list; nothing, if it is not like that."""
    found = one.get(name)
    return found if isinstance(found, list) else []


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= MAX_INDEX_DIGITS
