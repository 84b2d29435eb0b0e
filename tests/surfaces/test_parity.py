"""Every operation does the same through the embedded SDK, the HTTP SDK, REST, the command line and MCP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import httpx
import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from memwell.core.operation import Operation
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.generated import ASKING, NOUNS, list_positional
from memwell.surfaces.cli.main import app
from memwell.surfaces.mcp.protocol import Answer, Caller, build_server
from memwell.surfaces.mcp.tools import build_tools

from ..engines import Memory, located
from ..examples import Call, masked, plain, run_example
from ..live import Live, live


class Place(NamedTuple):
    """Where an example is carried out: in a tenant with nothing in it, in a store for each of the surfaces."""

    folder: Path
    tenant: str
    http: Live
    rest: Live

    def turned(self, server: Live) -> Live:
        """A server that asks for no key speaks for the tenant that it was started for: from now on, for this one."""
        server.engine.ensure_tenant(self.tenant)
        server.server.config = replace(server.server.config, tenant=self.tenant)
        return server


@contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    with (
        live(folder / "http", auth=False, worker=False) as http,
        live(folder / "rest", auth=False, worker=False) as rest,
    ):
        yield Place(folder, "default", http, rest)


@pytest.fixture(scope="module")
def shared(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_in(tmp_path_factory.mktemp("shared")) as place:
        yield place


@pytest.fixture
def place(name: str, shared: Place, tmp_path: Path) -> Iterator[Place]:
    """A tenant of its own is enough for whatever does not look at tenants themselves."""
    if OPERATIONS[name].role == "operator":
        with place_in(tmp_path) as place:
            yield place
    else:
        yield shared._replace(tenant=name.replace(".", "-").replace("_", "-"))


def embedded(home: Path, operation: Operation, tenant: str = "default") -> Any:
    with Memory(home, tenant=tenant, worker=False) as memory:
        return run_example(operation, lambda name, data: plain(memory.call(name, data)))


def over_http(place: Place, operation: Operation) -> Any:
    with place.turned(place.http).memory() as memory:
        return run_example(operation, lambda name, data: plain(memory.call(name, data)))


Routes = dict[str, tuple[str, str, dict[str, Any]]]


@pytest.fixture(scope="module")
def routes(shared: Place) -> Routes:
    """What the OpenAPI document tells, which is the same for everybody."""
    document = httpx.get(f"{shared.rest.url}/openapi.json").json()
    return {
        described["operationId"]: (method, path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    }


def rest(place: Place, operation: Operation, routes: Routes) -> Any:
    with httpx.Client(base_url=place.turned(place.rest).url) as client:
        return run_example(operation, _rest_call(client, routes))


def _in_query(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def _rest_call(client: httpx.Client, routes: Routes) -> Call:
    """A client that knows nothing but the OpenAPI document."""

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


def command_line(place: Place, operation: Operation) -> Any:
    runner = CliRunner(env={"MEMWELL_WORKER": "no"})  # as everywhere here: jobs wait

    def call(name: str, data: dict[str, Any]) -> Any:
        known = OPERATIONS[name]
        arguments = [str(data[field]) for field in list_positional(known) if field in data]
        for field, value in data.items():
            if isinstance(value, bool):
                arguments.append(f"--{'' if value else 'no-'}{field.replace('_', '-')}")
            elif field not in list_positional(known):
                text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                arguments += [f"--{field.replace('_', '-')}", text]
        if known.effect == "erase" or name in ASKING:
            arguments.append("--yes")
        group = NOUNS[known.group][0]
        where = ["--home", located(place.folder / "cli"), "--tenant", place.tenant]
        command = [*where, group, known.command, *arguments, "--json"]
        result = runner.invoke(app, command)
        assert result.exit_code == 0, result.output
        return msgspec.json.decode(result.stdout)

    return run_example(operation, call)


class Tools:
    """A client of MCP for the memory that is open. It has read what all tools are like, so that it is made once."""

    memory: Memory
    call: Call


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    async def move(work: Callable[[], Any], _: bool) -> Answer:
        return cast(Answer, await asyncio.to_thread(work))

    tools = Tools()
    caller = Caller(None, lambda known, data: tools.memory.call(known.name, data), move)
    with _tools(build_server(build_tools("all"), caller)) as tools.call:
        yield tools


def mcp(place: Place, operation: Operation, tools: Tools) -> Any:
    with Memory(place.folder / "mcp", tenant=place.tenant, worker=False) as tools.memory:
        return run_example(operation, tools.call)


@contextmanager
def mcp_over_http(home: Path) -> Iterator[Call]:
    with live(home, auth=False, worker=False) as server, _tools(f"{server.url}/mcp?tools=all") as call:
        yield call


@contextmanager
def mcp_over_stdio(home: Path) -> Iterator[Call]:
    memwell = str(Path(sys.executable).with_name("memwell"))
    arguments = ["--home", located(home), "mcp", "--tools", "all"]
    with _tools(StdioServerParameters(command=memwell, args=arguments)) as call:
        yield call


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
def test_every_surface_gives_the_same_answer(name: str, place: Place, routes: Routes, tools: Tools) -> None:
    operation = OPERATIONS[name]
    expected = masked(embedded(place.folder / "embedded", operation, place.tenant))
    assert masked(over_http(place, operation)) == expected
    assert masked(rest(place, operation, routes)) == expected
    assert masked(command_line(place, operation)) == expected
    assert masked(mcp(place, operation, tools)) == expected


@pytest.mark.parametrize("transport", [mcp_over_http, mcp_over_stdio])
def test_mcp_gives_the_same_answer_over_its_transports(
    transport: Callable[[Path], AbstractContextManager[Call]], tmp_path: Path
) -> None:
    with transport(tmp_path / "home") as call:
        for name in ("users.add", "flows.memories", "flows.end", "log.entries", "keys.create"):
            expected = masked(embedded(tmp_path / name, OPERATIONS[name]))
            assert masked(run_example(OPERATIONS[name], call)) == expected, name


def test_masks_hide_only_what_must_differ() -> None:
    shown = masked({"id": "01m7gjak4a9zggp1tjs02kkfr3", "at": "2026-11-15T21:38:00.458264Z", "content": "Hello"})
    assert shown == {"id": "<id>", "at": "<time>", "content": "Hello"}
