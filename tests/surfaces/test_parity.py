"""Every operation does the same through the embedded SDK, the HTTP SDK, REST, the command line and MCP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from memwell import Memory
from memwell.operation import Operation
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.generated import NOUNS, positional
from memwell.surfaces.cli.main import app
from memwell.surfaces.mcp.answers import Answer, Caller
from memwell.surfaces.mcp.server import protocol_server
from memwell.surfaces.mcp.tools import toolbox

from ..engines import located
from ..examples import Call, masked, plain, run_example
from ..live import live


def embedded(home: Path, operation: Operation) -> Any:
    with Memory(home, worker=False) as memory:
        return run_example(operation, lambda name, data: plain(memory.call(name, data)))


def over_http(home: Path, operation: Operation) -> Any:
    with live(home, auth=False, worker=False) as server, server.memory() as memory:
        return run_example(operation, lambda name, data: plain(memory.call(name, data)))


def rest(home: Path, operation: Operation) -> Any:
    with live(home, auth=False, worker=False) as server, httpx.Client(base_url=server.url) as client:
        document = client.get("/openapi.json").json()
        return run_example(operation, _rest_call(client, document))


def _in_query(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def _rest_call(client: httpx.Client, document: dict[str, Any]) -> Call:
    """A client that knows nothing but the OpenAPI document."""
    routes = {
        described["operationId"]: (method, path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    }

    def call(name: str, data: dict[str, Any]) -> Any:
        method, path, described = routes[name]
        places = {parameter["name"]: parameter["in"] for parameter in described["parameters"]}
        query = {field: _in_query(value) for field, value in data.items() if places.get(field) == "query"}
        body = {field: value for field, value in data.items() if field not in places}
        for field, value in data.items():
            if places.get(field) == "path":
                path = path.replace("{" + field + "}", quote(str(value), safe=""))
        content = msgspec.json.encode(body) if "requestBody" in described else None
        response = client.request(method, path, params=query, content=content)
        assert str(response.status_code) in described["responses"], response.text
        answer = response.json()
        return answer["data"] if path.startswith("/api/") else answer

    return call


def command_line(home: Path, operation: Operation) -> Any:
    runner = CliRunner(env={"MEMWELL_WORKER": "no"})  # as everywhere here: jobs wait

    def call(name: str, data: dict[str, Any]) -> Any:
        known = OPERATIONS[name]
        arguments = [str(data[field]) for field in positional(known) if field in data]
        for field, value in data.items():
            if value is True:
                arguments.append(f"--{field.replace('_', '-')}")
            elif field not in positional(known):
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                arguments += [f"--{field.replace('_', '-')}", text]
        if known.effect == "erase":
            arguments.append("--yes")
        group = NOUNS.get(known.group, known.group)
        command = ["--home", str(home), group, known.command, *arguments, "--json"]
        result = runner.invoke(app, command)
        assert result.exit_code == 0, result.output
        return msgspec.json.decode(result.stdout)

    return run_example(operation, call)


def mcp(home: Path, operation: Operation) -> Any:
    async def move(work: Callable[[], Answer], _: bool) -> Answer:
        return await asyncio.to_thread(work)

    with Memory(home, worker=False) as memory:
        caller = Caller(None, lambda known, data: memory.call(known.name, data), move)
        with _tools(protocol_server(toolbox("all"), caller)) as call:
            return run_example(operation, call)


def mcp_over_http(home: Path, operation: Operation) -> Any:
    with live(home, auth=False, worker=False) as server, _tools(f"{server.url}/mcp?tools=all") as call:
        return run_example(operation, call)


def mcp_over_stdio(home: Path, operation: Operation) -> Any:
    memwell = str(Path(sys.executable).with_name("memwell"))
    arguments = ["--home", located(home), "mcp", "--tools", "all"]
    with _tools(StdioServerParameters(command=memwell, args=arguments)) as call:
        return run_example(operation, call)


@contextmanager
def _tools(server: Any) -> Iterator[Call]:
    """A client that knows nothing but the names of tools."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:

        def call(name: str, data: dict[str, Any]) -> Any:
            result = portal.call(client.call_tool, name.replace(".", "_"), data)
            assert not result.is_error, result
            answer = result.structured_content
            return answer["result"] if set(answer) == {"result"} else answer

        yield call


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_surface_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    operation = OPERATIONS[name]
    expected = masked(embedded(tmp_path / "embedded", operation))
    assert masked(over_http(tmp_path / "http", operation)) == expected
    assert masked(rest(tmp_path / "rest", operation)) == expected
    assert masked(command_line(tmp_path / "cli", operation)) == expected
    assert masked(mcp(tmp_path / "mcp", operation)) == expected


@pytest.mark.parametrize("name", ["users.add", "flows.memories", "flows.end", "log.entries", "keys.create"])
def test_mcp_gives_the_same_answer_over_its_transports(name: str, tmp_path: Path) -> None:
    operation = OPERATIONS[name]
    expected = masked(embedded(tmp_path / "embedded", operation))
    assert masked(mcp_over_http(tmp_path / "http", operation)) == expected
    assert masked(mcp_over_stdio(tmp_path / "stdio", operation)) == expected


def test_masks_hide_only_what_must_differ() -> None:
    shown = masked({"id": "01m7gjak4a9zggp1tjs02kkfr3", "at": "2026-11-15T21:38:00.458264Z", "content": "Hello"})
    assert shown == {"id": "<id>", "at": "<time>", "content": "Hello"}
