"""The OpenAPI document describes what the server does: every request and response of every operation."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import msgspec
import pytest

from memwell.core.operation import build_schemas
from memwell.registry import OPERATIONS
from memwell.surfaces.rest.openapi import PAGES, REF, build_document, document_bytes

from ..cases import cases
from ..examples import run_example
from ..live import Live, live

DOCUMENT = msgspec.json.decode(msgspec.json.encode(build_document(OPERATIONS.values(), PAGES)))
DESCRIBED: dict[str, tuple[str, str, dict[str, Any]]] = {
    described["operationId"]: (method, path, described)
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
}


@pytest.fixture(scope="module")
def server(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("openapi"), auth=False, worker=False) as server:
        yield server


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The classes that a generator of clients makes from the document."""
    folder = tmp_path_factory.mktemp("client")
    document, module = folder / "openapi.json", folder / "generated_models.py"
    document.write_bytes(document_bytes())
    names = ["--input", str(document), "--input-file-type", "openapi", "--output", str(module)]
    kinds = ["--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin"]
    command = [sys.executable, "-m", "datamodel_code_generator", *names, *kinds]
    subprocess.run(command, check=True, capture_output=True)
    spec = importlib.util.spec_from_file_location(module.stem, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = sys.modules[module.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def check_by_class(models: ModuleType, schema: dict[str, Any], answer: Any) -> None:
    """Read an answer by the generated class of its schema."""
    if "$ref" in schema:
        getattr(models, schema["$ref"].rsplit("/", 1)[-1]).model_validate(answer)
    elif "data" in schema.get("properties", {}):
        check_by_class(models, schema["properties"]["data"], answer["data"])


def validator(schema: dict[str, Any]) -> Any:
    """Validate against a schema of the document."""
    return jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]}, validate_formats=True)


def schema_of(described: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter, or of a response or body of JSON."""
    schema: dict[str, Any] = described.get("schema") or described["content"]["application/json"]["schema"]
    return schema


def expand(schema: Any, components: dict[str, Any], above: tuple[str, ...] = ()) -> Any:
    """A schema with the types that it refers to written out, without their names. A type inside itself is its depth."""
    if isinstance(schema, list):
        return [expand(one, components, above) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return above.index(name) if name in above else expand(components[name], components, (*above, name))
    return {name: expand(value, components, above) for name, value in schema.items() if name != "title"}


def split(described: dict[str, Any], data: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the fields of a request by the place of their parameters, and those of the body."""
    places: dict[str, dict[str, Any]] = {"path": {}, "query": {}}
    kinds = {parameter["name"]: parameter["in"] for parameter in described["parameters"]}
    for name in data.keys() & kinds.keys():
        places[kinds[name]][name] = data[name]
    return places, {name: value for name, value in data.items() if name not in kinds}


@cases("name", OPERATIONS)
def test_requests_and_responses_are_valid_by_their_own_schemas(name: str, server: Live, models: ModuleType) -> None:
    """Of every operation, over HTTP: the example and what it builds on. Generated clients read them, too."""
    tenant = f"of-{list(OPERATIONS).index(name)}"  # nothing is in it
    server.engine.ensure_tenant(tenant)
    server.server.config = replace(server.server.config, tenant=tenant)
    with httpx.Client(base_url=server.url) as client:

        def call(name: str, data: dict[str, Any]) -> Any:
            if name == "tenants.create":
                server.engine.store.drop(data["tenant"])  # of the example before
            method, path, described = DESCRIBED[name]
            fields, body = split(described, data)
            for parameter in described["parameters"]:
                if parameter["name"] in fields.get(parameter["in"], {}):
                    validator(schema_of(parameter)).validate(data[parameter["name"]])
                else:
                    assert not parameter["required"], f"{parameter['name']} is required"
            query = {
                key: value if isinstance(value, str | int | float) else msgspec.json.encode(value).decode()
                for key, value in fields["query"].items()
            }
            for key, value in fields["path"].items():
                path = path.replace("{" + key + "}", quote(str(value), safe=""))
            content = None
            if "requestBody" in described:
                validator(schema_of(described["requestBody"])).validate(body)
                content = msgspec.json.encode(body) if body or described["requestBody"]["required"] else None
            else:
                assert not body
            response = client.request(method, path, params=query, content=content)
            responses = described["responses"]
            assert str(response.status_code) in responses, response.text
            answer = response.json()
            shown = schema_of(responses[str(response.status_code)])
            validator(shown).validate(answer)
            check_by_class(models, shown, answer)
            return answer["data"] if path.startswith("/api/") else answer

        run_example(OPERATIONS[name], call)


@cases("name", OPERATIONS)
def test_every_schema_is_that_of_its_operation(name: str) -> None:
    """Types of one name do not describe each other's operations."""
    operation, described = OPERATIONS[name], DESCRIBED[name][2]
    schemas, components = build_schemas([operation.response], REF)
    shown = schema_of(described["responses"][str(operation.status)])
    if operation.envelope:
        shown = shown["properties"]["data"]
    assert expand(shown, DOCUMENT["components"]["schemas"]) == expand(schemas[0], components)


def test_names_are_unique_and_say_nothing_of_modules() -> None:
    """So that generated clients have a class for each."""
    assert not [name for name in DOCUMENT["components"]["schemas"] if not name.isalnum()]
    titles = [
        schema_of(described["requestBody"])["title"]
        for _, _, described in DESCRIBED.values()
        if "requestBody" in described
    ]
    names = [*DOCUMENT["components"]["schemas"], *titles]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("key", "status"),
    [("k", 201), ("k" * 256, 201), ("a b", 201), ("", 400), ("k" * 257, 400), ("a\tb", 400), ("caf\u00e9", 400)],
)
def test_idempotency_keys_are_accepted_as_described(key: str, status: int, server: Live) -> None:
    described = DESCRIBED["users.add"][2]["parameters"]
    schema = next(schema_of(one) for one in described if one["name"] == "Idempotency-Key")
    assert validator(schema).is_valid(key) == (status == 201)
    headers = {b"Idempotency-Key": key.encode("latin-1")}
    response = httpx.post(f"{server.url}/v1/users/alice/turns", json={"content": "Hello."}, headers=headers)
    assert response.status_code == status


def test_only_operations_that_take_an_idempotency_key_are_described_with_one() -> None:
    shown = {
        name
        for name, (_, _, described) in DESCRIBED.items()
        if "Idempotency-Key" in {one["name"] for one in described["parameters"]}
    }
    assert shown == {one.name for one in OPERATIONS.values() if one.writes and one.repeatable}


@cases("name", [name for name, (_, _, described) in DESCRIBED.items() if "requestBody" in described])
def test_a_body_is_required_if_one_of_its_fields_is(name: str, server: Live) -> None:
    method, path, described = DESCRIBED[name]
    fields, _ = split(described, OPERATIONS[name].example.request)
    for key, value in fields["path"].items():
        path = path.replace("{" + key + "}", quote(str(value), safe=""))
    body = described["requestBody"]
    assert body["required"] == bool(schema_of(body)["required"])
    if body["required"]:
        assert httpx.request(method, f"{server.url}{path}").status_code == 400


@pytest.mark.parametrize("limit", [17.0, 1e2, 17])
def test_whole_numbers_may_have_a_point(limit: float, server: Live) -> None:
    """JSON Schema counts 17.0 as an integer, so the server does, too, in the body and in the query, at every depth."""
    search = {"query": "hello", "limit": limit}
    assert validator(schema_of(DESCRIBED["users.search"][2]["requestBody"])).is_valid(search)
    assert httpx.post(f"{server.url}/v1/users/alice/search", json=search).status_code == 200
    assert httpx.get(f"{server.url}/v1/users/alice/turns", params={"limit": limit}).status_code == 200
    bank = {"name": f"notes {limit!r}", "type": "general", "max_turns": limit}
    assert httpx.post(server.url + OPERATIONS["banks.create"].path, json=bank).status_code in (200, 201)
    line = {
        "type": "memory",
        "content": "Likes tea.",
        "evidence": [{"session": "s", "turn": "t", "start": 0.0, "end": limit}],
    }
    refused = httpx.post(f"{server.url}/v1/flows/support/import", json={"lines": [line]})
    assert "whole number" not in refused.text


@pytest.mark.parametrize("at", ["0.5", "1700000000", "-1", "2026", ""])
def test_numbers_are_no_times(at: str, server: Live) -> None:
    refused = httpx.get(f"{server.url}/v1/users/alice/memories", params={"valid_at": at})
    assert (refused.status_code, refused.json()["error"]["details"]["field"]) == (400, "valid_at")


def test_numbers_that_are_not_whole_are_refused(server: Live) -> None:
    refused = httpx.post(f"{server.url}/v1/users/alice/search", json={"query": "hello", "limit": 17.5})
    assert (refused.status_code, refused.json()["error"]["details"]["field"]) == (400, "limit")
    kept = httpx.post(f"{server.url}/v1/users/alice/turns", json={"content": "Hi.", "metadata": {"score": 17.0}})
    assert b'"score":17.0' in httpx.get(f"{server.url}/v1/users/alice/turns").content, kept.text
