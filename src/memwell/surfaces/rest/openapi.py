"""The description of the API, built from the registry: the OpenAPI document and an HTML page."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from ...core.operation import Operation
from ...errors import tree
from ...registry import OPERATIONS
from ...version import __version__
from ..schemas import build_schemas

REF = "#/components/schemas/{name}"
_HEADERS: list[tuple[str, dict[str, Any]]] = [
    ("Idempotency-Key", {"schema": {"type": "string"}}),
    (
        "If-Match",
        {
            "schema": {"type": "string"},
            "description": "The ETag that was read; 412 if it has changed since. `*`: 412 if nothing is there.",
        },
    ),
    (
        "If-None-Match",
        {"schema": {"type": "string", "enum": ["*"]}, "description": "412 if something is there."},
    ),
]
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


class Field(NamedTuple):
    """A field of a request in the documentation."""

    name: str
    type: str
    required: bool
    default: Any
    description: str


@cache
def document_bytes() -> bytes:
    return msgspec.json.encode(build_document(OPERATIONS.values()))


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
        "parameters": _list_parameters(operation, body),
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
        schema = _omit(body, operation.path_fields)
        bodies: dict[str, Any] = {"application/json": {"schema": schema}}
        if operation.carries is not None:  # a form, or the file itself
            form = _omit(schema, (operation.carries, "filename"))
            form["properties"] |= {"file": {"type": "string", "format": "binary"}}
            bodies["multipart/form-data"] = {"schema": {**form, "required": [*form["required"], "file"]}}
            bodies["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
        description["requestBody"] = {"content": bodies}
    return description


def _list_parameters(operation: Operation, body: dict[str, Any]) -> list[dict[str, Any]]:
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


# -- the page


@cache
def docs_page() -> str:
    """The API on one page, without scripts or external resources."""
    sections = "".join(_render_section(name) for name in OPERATIONS)
    links = "".join(f'<li><a href="#{name}"><code>{name}</code></a></li>' for name in OPERATIONS)
    return _PAGE.format(version=__version__, links=links, sections=sections)


def _render_section(name: str) -> str:
    operation = OPERATIONS[name]
    fields = "".join(
        f"<tr><td><code>{html.escape(field.name)}</code></td><td>{_render_text(field.type)}</td>"
        f"<td>{'required' if field.required else ''}</td><td>{_render_text(field.description)}</td></tr>"
        for field in list_fields(operation)
    )
    table = f"<table>{fields}</table>" if fields else ""
    return (
        f'<section id="{name}"><h2>{name}</h2><p>{_render_text(operation.summary)}</p>'
        f"<pre>{operation.method} {html.escape(operation.path)}</pre>{table}"
        f"<p>Example</p><pre>{html.escape(render_curl(operation))}</pre>"
        f"<p>Role <code>{operation.role}</code>, answers with status {operation.status}.</p></section>"
    )


def _render_text(text: str) -> str:
    """Render a text as HTML, with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Memwell API</title>
<meta name="viewport" content="width=device-width"><style>
body{{font:16px/1.5 system-ui,sans-serif;margin:0;display:flex;color:#1d2433;background:#fff}}
nav{{width:16rem;flex-shrink:0;font-size:.85em;height:100vh;overflow:auto;position:sticky;top:0;background:#f4f6fa;padding:1rem;box-sizing:border-box}}
nav ul{{list-style:none;padding:0}} main{{padding:1rem 2.5rem;max-width:56rem;min-width:0}}
a{{color:#1f5fbf;text-decoration:none}} section{{border-top:1px solid #dde3ee;padding:1rem 0}} h2{{margin:.3rem 0}}
pre{{background:#f4f6fa;padding:.7rem;overflow:auto;border-radius:6px}} table{{border-collapse:collapse;width:100%}}
td{{border-bottom:1px solid #e8ecf4;padding:.35rem .7rem .35rem 0;vertical-align:top}}
@media(prefers-color-scheme:dark){{body{{background:#12161f;color:#dfe5f0}}nav,pre{{background:#1b2230}}a{{color:#7fb2ff}}
section,td{{border-color:#2a3346}}}} @media(max-width:50rem){{body{{display:block}}nav{{width:auto;height:auto;position:static}}}}
</style><nav><strong>Memwell {version}</strong><ul>{links}</ul></nav><main><h1>Memwell API</h1>
<p>Send your key as <code>Authorization: Bearer mw_…</code>. A write may carry an <code>Idempotency-Key</code>: the same
request with the same key is done once. If <code>if_match</code> is a text, it can also be sent as the header
<code>If-Match</code> or <code>If-None-Match: *</code>. The machine-readable form is
<a href="/openapi.json">/openapi.json</a>.
<code>GET /v1/events</code> streams every read and write as it happens, <code>GET /v1/runs/RUN/stream</code> the events of a
workflow run. Errors are
<code>{{"error": {{"code", "message", "details"}}}}</code>; the message says what to do.</p>{sections}</main></html>"""
