"""JSON Schemas for tools, made from the types of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..shapes import shapes

REF = "#/$defs/{name}"
_PREFIX = REF.format(name="")

Schema = dict[str, Any]


def request_fields(kind: type[msgspec.Struct]) -> tuple[Schema, list[str], Schema]:
    """The fields of a request, those that are required, and the types they refer to. Nothing is said twice: a field that
    may be left away need not also take null."""
    (root,), types = shapes([kind], REF)
    schema = _resolved(root, types)
    return _lean(schema.get("properties", {})), list(schema.get("required", [])), _lean(types)


def input_schema(fields: Mapping[str, Schema], required: Iterable[str], types: Schema) -> Schema:
    """An object of these fields and no others. (There is no `oneOf` here: model providers refuse it at the top.)"""
    schema: Schema = {
        "type": "object",
        "properties": dict(fields),
        "required": sorted(required),
        "additionalProperties": False,
    }
    return _with_types(schema, types)


def output_schema(responses: Iterable[Any]) -> Schema:
    """An object that is one of these responses. One that is no object (a list) is wrapped as `{"result": …}`."""
    kinds = list(dict.fromkeys(responses))
    roots, types = shapes(kinds, REF)
    found = [_as_object(root, types) for root in roots]
    return _with_types(found[0] if len(found) == 1 else {"type": "object", "anyOf": found}, types)


def _as_object(root: Schema, types: Schema) -> Schema:
    schema = _resolved(root, types)
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"result": root}, "required": ["result"]}


def _resolved(schema: Schema, types: Schema) -> Schema:
    found: Schema = types[schema["$ref"].removeprefix(_PREFIX)] if "$ref" in schema else schema
    return found


def _with_types(schema: Schema, types: Schema) -> Schema:
    """The schema together with the types it refers to, directly or not."""
    needed: Schema = {}
    waiting = _references(schema)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = types[name]
            waiting |= _references(types[name])
    return {**schema, "$defs": {name: needed[name] for name in sorted(needed)}} if needed else schema


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].removeprefix(_PREFIX)} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()


def _lean(value: Any) -> Any:
    """A schema without titles, and without null where a field may be left away instead."""
    if isinstance(value, list):
        return [_lean(item) for item in value]
    if not isinstance(value, dict):
        return value
    lean = {key: _lean(item) for key, item in value.items() if not (key == "title" and isinstance(item, str))}
    options = [option for option in lean.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1 and lean.get("default", ...) is None:
        del lean["anyOf"], lean["default"]
        lean = {**options[0], **lean}
    return lean
