"""`as_of` and `valid_at` mean the same on every surface, in lists and of single memories."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
from anyio.from_thread import start_blocking_portal
from mcp import Client
from typer.testing import CliRunner

from memwell import NotFound
from memwell.surfaces.cli.main import app

from ..engines import AsyncMemory, Memory, located
from ..examples import plain
from ..live import live

Ask = Callable[..., Any]
"""Asks for one memory if it is given an id, for all else; with `as_of` and `valid_at`. Returns what was found, or a message."""


def by_sdk(memory: Memory) -> Ask:
    def ask(memory_id: str | None = None, **when: datetime) -> Any:
        flow = memory.flow("support")
        try:
            return plain(flow.memories(**when) if memory_id is None else flow.get(memory_id, **when))  # type: ignore[arg-type]
        except NotFound as error:
            return error.message

    return ask


def by_async_sdk(open_memory: Callable[[], AsyncMemory]) -> Ask:
    async def run(memory_id: str | None, when: dict[str, Any]) -> Any:
        async with open_memory() as memory:
            flow = memory.flow("support")
            return plain(await flow.memories(**when) if memory_id is None else await flow.get(memory_id, **when))

    def ask(memory_id: str | None = None, **when: datetime) -> Any:
        try:
            return asyncio.run(run(memory_id, when))
        except NotFound as error:
            return error.message

    return ask


def by_rest(url: str) -> Ask:
    def ask(memory_id: str | None = None, **when: datetime) -> Any:
        path = f"{url}/v1/flows/support/memories" + ("" if memory_id is None else f"/{memory_id}")
        return _found(httpx.get(path, params=plain(when)).json())

    return ask


def by_command(home: Path) -> Ask:
    def ask(memory_id: str | None = None, **when: datetime) -> Any:
        options = [f"--{name.replace('_', '-')}={at.isoformat()}" for name, at in when.items()]
        what = ["memories", "support"] if memory_id is None else ["memory", "support", memory_id]
        result = CliRunner().invoke(app, ["--home", located(home), "flow", *what, *options, "--json"])
        if result.exit_code:
            return result.stderr.removeprefix("Error: ").strip()
        return _found(msgspec.json.decode(result.stdout))

    return ask


@contextmanager
def by_tools(url: str) -> Iterator[Ask]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(f"{url}/mcp")) as client:

        def ask(memory_id: str | None = None, **when: datetime) -> Any:
            tool, one = ("list_memories", {}) if memory_id is None else ("get_memory", {"id": memory_id})
            return _found(
                portal.call(client.call_tool, tool, {"flow": "support", **one, **plain(when)}).structured_content
            )

        yield ask


def _found(answer: dict[str, Any]) -> Any:
    return answer["error"]["message"] if "error" in answer else answer.get("memories", answer)


def test_every_surface_knows_both_moments(tmp_path: Path) -> None:
    start = datetime.now(UTC)
    with (
        live(tmp_path, auth=False, worker=False) as server,
        server.memory() as remote,
        Memory(tmp_path, worker=False) as embedded,
        by_tools(server.url) as tools,
    ):
        time.sleep(0.01)
        memory_id = remote.flow("support").write("Ships to the EU only")
        time.sleep(0.01)
        then = datetime.now(UTC)
        time.sleep(0.01)
        remote.flow("support").update(memory_id, content="Ships to the EU and Norway")
        expected = by_sdk(embedded)
        surfaces = {
            "http": by_sdk(remote),
            "async, http": by_async_sdk(lambda: AsyncMemory(server.url, api_key=server.key)),
            "async, embedded": by_async_sdk(lambda: AsyncMemory(tmp_path, worker=False)),
            "rest": by_rest(server.url),
            "command line": by_command(tmp_path),
            "tools": tools,
        }
        moments = [{}, {"as_of": then}, {"valid_at": then}, {"as_of": start}, {"as_of": then, "valid_at": start}]
        assert [[one["version"] for one in expected(**when)] for when in moments] == [[2], [1], [2], [], []]
        for name, ask in surfaces.items():
            for when in moments:
                assert ask(**when) == expected(**when), (name, when)
                assert ask(memory_id, **when) == expected(memory_id, **when), (name, when)
        assert "not known at that time" in expected(memory_id, as_of=start)
        assert "not true at that time" in expected(memory_id, valid_at=start)
