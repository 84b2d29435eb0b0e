"""The OpenAPI description of the API, built from the registry."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ...core.operation import Operation
from ...errors import tree
from ...version import __version__
from ..schemas import build_schemas

REF = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a request in the documentation."""

    name: str
    type: str
    required: bool
    default: Any
    description: str


def build_document(operations: Iterable[Operation]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    components: dict[str, Any] = {"Error": _ERROR}
    for operation in operations:
        (response,), found = build_schemas([operation.response], REF)
        components |= found
        body, found = _schema(operation)
        components |= {name: schema for name, schema in found.items() if name != operation.request.__name__}
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, body, response)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Memwell", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{"bearer": []}, {"header": []}],
    }


def list_fields(operation: Operation) -> list[Field]:
    schema, _ = _schema(operation)
    required = schema.get("required", [])
    return [
        Field(name, _type(value), name in required, value.get("default"), _description(value))
        for name, value in schema.get("properties", {}).items()
    ]


def render_curl(operation: Operation) -> str:
    """The example of an operation as a curl command."""
    rest = {name: value for name, value in operation.example.request.items() if name not in operation.path_fields}
    path = operation.path
    for name in operation.path_fields:
        value = str(operation.example.request[name])
        path = path.replace("{" + name + "}", "ID" if value.startswith("$") else value)
    lines = [f"curl -X {operation.method} http://127.0.0.1:8420{path}", '  -H "Authorization: Bearer $MEMWELL_API_KEY"']
    if operation.method in ("GET", "DELETE"):
        query = urlencode(
            {name: value if isinstance(value, str) else json.dumps(value) for name, value in rest.items()}
        )
        lines[0] = f"curl -X {operation.method} 'http://127.0.0.1:8420{path}{'?' + query if query else ''}'"
    elif rest:
        lines.append(f"  -d {shlex.quote(json.dumps(rest, ensure_ascii=False))}")
    return " \\\n".join(lines)


def _describe(operation: Operation, body: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    if operation.envelope:
        response = {"type": "object", "properties": {"data": response}, "required": ["data"]}
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.group],
        "parameters": _parameters(operation, body),
        "responses": {
            str(operation.status): {
                "description": "Success.",
                "content": {"application/json": {"schema": response}},
            },
            "default": {
                "description": "An error; its message says what to do.",
                "content": {"application/json": {"schema": {"$ref": REF.format(name="Error")}}},
            },
        },
        "x-role": operation.role,
        "x-effect": operation.effect,
    }
    if operation.method not in ("GET", "DELETE"):
        description["requestBody"] = {"content": _bodies(operation, _omit(body, operation.path_fields))}
    return description


def _bodies(operation: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    """Media types of a body: JSON; for uploads also a form or the file itself."""
    bodies: dict[str, Any] = {"application/json": {"schema": schema}}
    if operation.carries is not None:
        form = _omit(schema, (operation.carries, "filename"))
        form["properties"] |= {"file": {"type": "string", "format": "binary"}}
        bodies["multipart/form-data"] = {"schema": {**form, "required": [*form["required"], "file"]}}
        bodies["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    return bodies


def _parameters(operation: Operation, body: dict[str, Any]) -> list[dict[str, Any]]:
    in_query = operation.method in ("GET", "DELETE")
    found = [
        {
            "name": name,
            "in": "path" if name in operation.path_fields else "query",
            "required": name in operation.path_fields or name in body.get("required", []),
            "schema": schema,
        }
        for name, schema in body.get("properties", {}).items()
        if name in operation.path_fields or in_query
    ]
    headers = _HEADERS if operation.by_version else _HEADERS[:1]
    if operation.writes:
        found += [{"name": name, "in": "header", "required": False, **about} for name, about in headers]
    return found


_HEADERS: list[tuple[str, dict[str, Any]]] = [
    ("Idempotency-Key", {"schema": {"type": "string"}}),
    (
        "If-Match",
        {
            "schema": {"type": "string"},
            "description": "The ETag that was read: 412 if it has changed since. `*`: something must be there.",
        },
    ),
    (
        "If-None-Match",
        {"schema": {"type": "string", "enum": ["*"]}, "description": "Nothing must be there: 412 otherwise."},
    ),
]


def _schema(operation: Operation) -> tuple[dict[str, Any], dict[str, Any]]:
    (schema,), components = build_schemas([operation.request], REF)
    return (components[operation.request.__name__] if "$ref" in schema else schema), components


def _omit(schema: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in names}
    required = [name for name in schema.get("required", []) if name not in names]
    return {**schema, "properties": properties, "required": required}


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"] if option != {"type": "null"})
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any")


def _description(schema: dict[str, Any]) -> str:
    if "description" in schema:
        return str(schema["description"])
    return next((found for option in schema.get("anyOf", ()) if (found := _description(option))), "")


_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string", "enum": sorted({error.code for error in tree()})},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
        }
    },
}
