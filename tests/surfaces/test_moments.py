"""`as_of` and `valid_at` mean the same on every surface, in lists and of single memories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client
from typer.testing import CliRunner

from memwell import Invalid, NotFound
from memwell.surfaces.cli.main import app
from memwell.testing import FrozenClock

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


def test_python_takes_days_as_times(tmp_path: Path) -> None:
    """Wherever a time is taken: in reads at another time, in searches, and in the messages that are added."""
    long_ago, tomorrow = date(2020, 1, 1), date.today() + timedelta(days=2)
    with (
        live(tmp_path / "server", auth=False, worker=False) as server,
        server.memory() as remote,
        Memory(tmp_path / "home", worker=False) as embedded,
    ):
        for memory in (embedded, remote):
            me, flow = memory.user("alice"), memory.flow("support")
            added = me.add([{"role": "user", "content": "I moved to Porto.", "occurred_at": long_ago}])
            turn = flow.session("s").history.append(role="user", content="Hello", occurred_at=long_ago)
            assert {added.turns[0].occurred_at, turn.occurred_at} == {datetime(2020, 1, 1, tzinfo=UTC)}
            fact = flow.write("Ships to the EU only")
            assert [len(flow.memories(as_of=day)) for day in (long_ago, tomorrow)] == [0, 1]
            assert [len(flow.search("Norway, EU", as_of=day)) for day in (long_ago, tomorrow)] == [0, 1]
            assert flow.get(fact, as_of=tomorrow, valid_at=tomorrow).id == fact
            assert len(me.search("Porto", include="turns", after=date(2019, 1, 1), before=tomorrow)) == 1
            assert "Porto" in me.context("Porto", as_of=tomorrow).text
            me.records.set("profile", {"seat": 14})
            assert [me.records.get("profile", as_of=day) for day in (long_ago, tomorrow)] == [None, {"seat": 14}]
            with pytest.raises(Invalid, match="JSON"):
                me.add("x", metadata={"day": long_ago})


def test_days_begin_in_the_time_zone_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.17, S1.38: in searches on every surface, and where a step says `yesterday`."""
    monkeypatch.setenv("MEMWELL_TIME_ZONE", "Pacific/Auckland")  # thirteen hours ahead in January
    clock = FrozenClock(datetime(2026, 1, 1, 10, 30, tzinfo=UTC))
    with (
        live(tmp_path, auth=False, worker=False, clock=clock) as server,
        server.memory() as remote,
        Memory(tmp_path, worker=False, clock=clock) as embedded,
    ):
        bank = embedded.banks.create("notes", type="general", retention_days=None)
        bank.add("Written on New Year's Day.", key="k", metadata={"day": "2026-01-01"})
        clock.advance(hours=1)  # it is the 2nd in Auckland, and the 1st in UTC
        bank.add("Written on the second day.", key="k", metadata={"day": "2026-01-02"})
        later: dict[str, dict[str, Any]] = {
            "text": {"added_after": "2026-01-02"},
            "date": {"added_after": date(2026, 1, 2)},
            "filter": {"filter": {"day": {"$gt": date(2026, 1, 1)}}},
            "time in a filter": {"filter": {"day": {"$gt": datetime(2026, 1, 1, tzinfo=UTC)}}},
        }
        found = {
            (name, where): [one.content for one in memory.banks.open(bank.id).search("written", **conditions).matches]
            for name, conditions in later.items()
            for where, memory in (("embedded", embedded), ("http", remote))
        }
        command = [
            "--home",
            located(tmp_path),
            "bank",
            "search",
            bank.id,
            "written",
            "--added-after",
            "2026-01-02",
            "--json",
        ]
        printed = msgspec.json.decode(CliRunner().invoke(app, command).stdout)
        found["command", ""] = [one["content"] for one in printed["matches"]]
        step = {"step_type": "search_memory", "memory_bank_id": bank.id, "query": "written"}
        for name, day in (("words", "today"), ("template", "{{today}}"), ("day", "2026-01-02")):
            run = embedded.workflows.run({"name": "w", "steps": [{**step, "added_after": day}]}, "x")
            found[name, "step"] = [one["content"] for one in msgspec.json.decode(run.output or "")["matches"]]
        assert {name: one for name, one in found.items() if one != ["Written on the second day."]} == {}


def _found(answer: dict[str, Any]) -> Any:
    return answer["error"]["message"] if "error" in answer else answer.get("memories", answer)


def test_every_surface_knows_both_moments(tmp_path: Path) -> None:
    start = datetime.now(UTC) - timedelta(minutes=1)
    clock = FrozenClock(start)
    with (
        live(tmp_path, auth=False, worker=False, clock=clock) as server,
        server.memory() as remote,
        Memory(tmp_path, worker=False, clock=clock) as embedded,
        by_tools(server.url) as tools,
    ):
        clock.advance(seconds=10)
        memory_id = remote.flow("support").write("Ships to the EU only")
        then = start + timedelta(seconds=20)
        clock.advance(seconds=20)
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
