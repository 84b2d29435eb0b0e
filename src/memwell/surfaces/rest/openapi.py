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

from ...core.operation import Operation, build_schemas
from ...errors import tree
from ...model.fields import MAX_KEY
from ...registry import OPERATIONS
from ...version import __version__
from .streams import RUN_OPERATIONS

REF = "#/components/schemas/{name}"
_REPEATABLE: list[tuple[str, dict[str, Any]]] = [
    (
        "Idempotency-Key",
        {
            "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]([ -~]*[!-~])?$"},
            "description": "The same request with the same key is done once. Printable ASCII characters.",
        },
    )
]
_VERSIONED: list[tuple[str, dict[str, Any]]] = [
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


_FILE = {"type": "string", "format": "binary", "minLength": 1}
_ABOUT_FILES = "If the body is the file itself, its name is in the header `X-Filename`, percent-encoded."
_ACCEPTED = "The run takes longer than the request may. It goes on: read it at the address in `Location`."
_FAILURE = {
    "default": {
        "description": "An error; its message says what to do.",
        "content": {"application/json": {"schema": {"$ref": REF.format(name="Error")}}},
    }
}


class Page(NamedTuple):
    """A page beside the operations; all of them answer GET. A stream names the type of its events, and the query its filters."""

    name: str
    path: str
    summary: str
    media_type: str
    event: str | None = None
    query: tuple[str, ...] = ()
    public: bool = False


_STREAM = "text/event-stream"
_JSON = "application/json"
PAGES = (
    Page(
        "events.stream",
        "/v1/events",
        "Stream every read and write as it happens, or those of one `flow`, `user` or `session`.",
        _STREAM,
        "Event",
        ("flow", "user", "session"),
    ),
    Page("runs.stream", "/v1/runs/{run}/stream", "Stream the events of a run until it is over.", _STREAM, "RunEvent"),
    Page(
        "files.download",
        "/v1/files/{token}",
        "Download a file of a session by its link, which is the permission.",
        "application/octet-stream",
        public=True,
    ),
    Page("server.health", "/health", "Answer as long as the process runs.", _JSON, public=True),
    Page(
        "server.ready", "/ready", "Answer if the storage does and the server is not being stopped.", _JSON, public=True
    ),
    Page("server.metrics", "/metrics", "Return counters for Prometheus.", "text/plain", public=True),
)


class Field(NamedTuple):
    """A field of a request in the documentation."""

    name: str
    type: str
    required: bool
    default: Any
    description: str


@cache
def document_bytes() -> bytes:
    return msgspec.json.encode(build_document(OPERATIONS.values(), PAGES))


def build_document(operations: Iterable[Operation], pages: Iterable[Page] = ()) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    listed = list(operations)
    # In one call, which gives different types of one name different names.
    schemas, components = build_schemas([kind for one in listed for kind in (one.request, one.response)], REF)
    for operation, request, response in zip(listed, schemas[::2], schemas[1::2], strict=True):
        body = _resolve_reference(request, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, body, response)
    paths |= {page.path: {"get": _describe_page(page)} for page in pages}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Memwell", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR} | _select_used(components, paths),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
        "security": [{"bearer": []}, {"header": []}],
    }


def _resolve_reference(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = components[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
    return found


def _select_used(components: dict[str, Any], paths: dict[str, Any]) -> dict[str, Any]:
    """The components that paths refer to, directly or not."""
    used: set[str] = set()
    waiting = _list_references(paths) & components.keys()
    while waiting:
        used |= waiting
        waiting = _list_references([components[name] for name in waiting]) & components.keys() - used
    return {name: schema for name, schema in components.items() if name in used}


def _list_references(value: Any) -> set[str]:
    return set(re.findall(REF.format(name='([^"]+)'), msgspec.json.encode(value).decode()))


def list_fields(operation: Operation) -> list[Field]:
    (request,), components = build_schemas([operation.request], REF)
    schema = _resolve_reference(request, components)
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


def _begins_run(operation: Operation) -> bool:
    return operation.name in RUN_OPERATIONS and operation.writes


def _describe(operation: Operation, body: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    if operation.envelope:
        response = {"type": "object", "properties": {"data": response}, "required": ["data"]}
    content = {"application/json": {"schema": response}}
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.group],
        "parameters": _list_parameters(operation, body),
        "responses": {
            str(operation.status): {"description": "Success.", "content": content},
            **({"202": {"description": _ACCEPTED, "content": content}} if _begins_run(operation) else {}),
            **_FAILURE,
        },
        "x-role": operation.role,
        "x-effect": operation.effect,
    }
    if operation.method not in ("GET", "DELETE"):
        name = re.sub(r"[._]?([a-z]+)", lambda word: word[1].title(), operation.name)
        schema = {
            **_omit(body, operation.path_fields),
            "title": f"{name}Request",
        }  # a class of its own in generated clients
        bodies: dict[str, Any] = {"application/json": {"schema": schema}}
        if operation.carries is not None:  # a form, or the file itself
            form = _omit(schema, (operation.carries, "filename"))
            form["properties"] |= {"file": _FILE}
            bodies["multipart/form-data"] = {"schema": {**form, "required": [*form["required"], "file"]}}
            bodies["application/octet-stream"] = {"schema": _FILE}
        about = {"description": _ABOUT_FILES} if operation.carries is not None else {}
        description["requestBody"] = {**about, "required": bool(schema["required"]), "content": bodies}
    return description


def _describe_page(page: Page) -> dict[str, Any]:
    text = {"schema": {"type": "string"}}
    names = [(name, "path", True) for name in re.findall(r"{(\w+)}", page.path)]
    names += [(name, "query", False) for name in page.query]
    names += [("Last-Event-ID", "header", False)] if page.event else []
    content: dict[str, Any] = {"schema": {"type": "object" if page.media_type == _JSON else "string"}}
    if page.event:  # OpenAPI 3.1 cannot describe the items of a stream
        about = (
            f"Server-sent events. The `data` of each is a `{page.event}` as JSON; its `id` resumes the stream after it."
        )
        content = {"schema": {"type": "string", "description": about}, "x-event": {"$ref": REF.format(name=page.event)}}
    return {
        "operationId": page.name,
        "summary": page.summary,
        "tags": [page.name.partition(".")[0]],
        "parameters": [{"name": name, "in": place, "required": required, **text} for name, place, required in names],
        "responses": {"200": {"description": "Success.", "content": {page.media_type: content}}, **_FAILURE},
        **({"security": []} if page.public else {"x-role": "reader"}),
    }


def _list_parameters(operation: Operation, body: dict[str, Any]) -> list[dict[str, Any]]:
    in_query = operation.method in ("GET", "DELETE")
    found = [
        {
            "name": name,
            "in": "path" if name in operation.path_fields else "query",
            "required": name in operation.path_fields or name in body.get("required", []),
            **({"content": {_JSON: {"schema": schema}}} if name in operation.json_fields else {"schema": schema}),
        }
        for name, schema in body.get("properties", {}).items()
        if name in operation.path_fields or in_query
    ]
    headers = (_REPEATABLE if operation.repeatable else []) + (_VERSIONED if operation.by_version else [])
    if operation.writes:
        found += [{"name": name, "in": "header", "required": False, **about} for name, about in headers]
    return found


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
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(one for one in kind if one != "null")
    return str(schema.get("format") or kind or "any")


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
    pages = "".join(
        f"<tr><td><code>GET {html.escape(page.path)}</code></td><td>{_render_text(page.summary)}</td></tr>"
        for page in PAGES
    )
    return _PAGE.format(version=__version__, links=links, pages=pages, sections=sections)


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
<a href="/openapi.json">/openapi.json</a>. Errors are
<code>{{"error": {{"code", "message", "details"}}}}</code>; the message says what to do.</p>
<p>Beside the operations there are these pages:</p><table>{pages}</table>{sections}</main></html>"""
