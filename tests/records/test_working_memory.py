"""Limits of working memory: the size that is shown, what a model may write, and the result of an update."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memwell import Invalid, TooLarge
from memwell.errors import Unavailable
from memwell.records.records import MAX_BYTES, RecordChange
from memwell.sdk._sync_definitions import WorkingMemory
from memwell.testing import FrozenClock

from ..contract.task_documents import tasks
from ..engines import AsyncMemory, Memory

LARGE = 1_000_000
OPEN = {"type": "object", "additionalProperties": True}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}}
NEEDS = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}, "required": ["m"]}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "home", worker=False, clock=FrozenClock()) as memory:
        yield memory


@pytest.fixture
def large(memory: Memory) -> Memory:
    """Twelve definitions, each with a record that takes up nearly all that one may."""
    for number in range(12):
        memory.definitions.create(f"Large {number:02}", slug=f"large_{number:02}", schema=OPEN)
        memory.user("u1").records[f"large_{number:02}"] = {"text": "x" * LARGE}
    return memory


def offered(view: WorkingMemory) -> list[str]:
    tool = view.tool()
    return [] if tool is None else list(tool["function"]["parameters"]["properties"]["memory"]["properties"])


# -- how much is shown at once ---------------------------------------------------------------------------------------------


def test_working_memory_has_a_size(large: Memory) -> None:
    """What has no room is named, and a model that does not see it cannot write over it either."""
    view = large.definitions.bind(owner="u1")
    shown = [f"large_{number:02}" for number in range(8)]
    assert list(view.values) == list(view.bound.versions) == shown
    assert len(msgspec.json.encode(view.values)) <= MAX_BYTES
    told = {one.slug: one.reason for one in view.bound.warnings if one.slug not in shown}
    assert list(told) == [f"large_{number:02}" for number in range(8, 12)]
    assert (offered(view), offered(large.definitions.bind(shown[:2], owner="u1", budget=1_000_000))) == ([], shown[:2])
    assert {"bind fewer definitions" in one for one in told.values()} == {True}
    assert list(large.definitions.bind(["large_11", "large_08"], owner="u1").values) == ["large_11", "large_08"]


def test_strict_working_memory_is_complete_or_refused(large: Memory) -> None:
    with pytest.raises(TooLarge, match="`large_08` has no room"):
        large.definitions.bind(owner="u1", strict=True)
    assert len(large.definitions.bind([f"large_{n:02}" for n in range(8)], owner="u1", strict=True).values) == 8


def test_a_run_says_what_had_no_room(large: Memory) -> None:
    document = tasks(say=("send_text_message", {"text": "Hi"}), outputs={"all": "=$context.memory"})
    warnings = large.workflows.run(document, owner="u1").steps[0].warnings
    assert [one.split(":")[0] for one in warnings] == [f"`large_{number:02}` is withheld" for number in range(8, 12)]


def test_the_records_of_a_definition_are_paged_by_their_size(memory: Memory) -> None:
    memory.definitions.create("Large", schema=OPEN)
    owners = [f"u{number:02}" for number in range(12)]
    for owner in owners:
        memory.user(owner).records["large"] = {"text": "x" * LARGE}
    pages: list[list[str]] = []
    asked: dict[str, Any] = {"definition": "large", "limit": 1000}
    while True:
        page = memory.call("definitions.records", asked)
        assert len(msgspec.json.encode(page)) < MAX_BYTES + 100_000
        pages.append([one.owner for one in page.records])
        if page.next_cursor is None:
            break
        asked["cursor"] = page.next_cursor
    assert [len(page) for page in pages] == [8, 4]
    assert sorted(owner for page in pages for owner in page) == owners
    assert sorted(one.owner for one in memory.definitions.records("large")) == owners


@pytest.mark.parametrize(("count", "limit"), [(4, 2), (5, 2), (1, 1), (0, 3), (3, 3)])
def test_pages_of_records_end_where_they_should(memory: Memory, count: int, limit: int) -> None:
    memory.definitions.create("Count", schema=COUNT)
    for number in range(count):
        memory.user(f"u{number}").records["count"] = {"n": number}
    found, asked = 0, {"definition": "count", "limit": limit}
    while True:
        page = memory.call("definitions.records", asked)
        found += len(page.records)
        assert page.records or not count
        if page.next_cursor is None:
            break
        assert len(page.records) == limit
        asked["cursor"] = page.next_cursor
    assert found == count


# -- what a model may write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["workflow", "thread", "run"])
def test_the_tool_takes_only_what_can_be_written(memory: Memory, scope: Any) -> None:
    memory.definitions.create("Count", schema=COUNT)
    memory.definitions.create("Notes", schema=COUNT, scope=scope)
    bound: Callable[..., WorkingMemory] = memory.definitions.bind
    assert offered(bound(["notes", "count"], owner="u1")) == ["count"]
    assert offered(bound(["notes", "count"], owner="u1", **{scope: "x"})) == ["notes", "count"]
    alone = bound(["notes"], owner="u1")
    assert (alone.tool(), [one.slug for one in alone.bound.warnings]) == (None, ["notes"])


def test_the_tool_takes_what_is_withheld_since_it_does_not_fit(memory: Memory) -> None:
    """So that a model can set it right."""
    memory.definitions.create("Count", schema=COUNT)
    memory.user("u1").records["count"] = {"n": 1}
    memory.definitions.update("count", schema=NEEDS, accept_breaking=True)
    view = memory.definitions.bind(["count"], owner="u1")
    assert (view.values, offered(view)) == ({}, ["count"])


# -- what an update tells --------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(memory: Memory) -> WorkingMemory:
    """Two memories, loaded strictly, one of which does not fit any more by now."""
    for name in ("A", "B"):
        memory.definitions.create(name, slug=f"{name.lower()}_def", schema=COUNT)
        memory.user("u1").records[f"{name.lower()}_def"] = {"n": 1}
    view = memory.definitions.bind(["a_def", "b_def"], owner="u1", strict=True)
    memory.definitions.update("a_def", schema=NEEDS, accept_breaking=True)
    return view


def test_an_update_does_not_fail_once_it_is_written(broken: WorkingMemory) -> None:
    assert broken.update({"b_def": {"n": 2}}).memory == {"b_def": {"n": 2}}
    assert broken.values == {"b_def": {"n": 2}}
    assert [one.slug for one in broken.bound.warnings] == ["a_def"]
    with pytest.raises(Invalid, match="The stored value of 'a_def'"):
        broken.refresh()


def test_a_deletion_does_not_fail_once_it_is_written(broken: WorkingMemory) -> None:
    assert broken.delete("b_def").records == 1
    assert (broken.values, [one.slug for one in broken.bound.warnings]) == ({}, ["a_def"])


def test_an_update_that_cannot_be_read_back_is_no_error_either(broken: WorkingMemory, memory: Memory) -> None:
    """A server may be gone between the two calls."""
    transport: Any = Gone(memory._transport, "definitions.bind")
    view = WorkingMemory(transport, {"owner": "u1"}, broken.bound)
    assert view.update({"b_def": {"n": 3}}).memory == {"b_def": {"n": 3}}
    (warning,) = view.bound.warnings
    assert (warning.slug, warning.reason) == ("b_def", "it was changed, but could not be loaded again: Nobody answers.")
    assert memory.user("u1").records["b_def"] == {"n": 3}


class Gone:
    """A transport that one operation does not get through."""

    def __init__(self, transport: Any, lost: str) -> None:
        self._transport, self._lost = transport, lost

    def call(self, operation: str, data: dict[str, Any]) -> Any:
        if operation == self._lost:
            raise Unavailable("Nobody answers.")
        return self._transport.call(operation, data)


def test_an_error_about_an_unbound_definition_does_not_say_that_it_exists(memory: Memory) -> None:
    memory.definitions.create("Notes", schema=COUNT, scope="thread")
    asked = {"owner": "u1", "thread": "t", "memory": {"notes": {"n": 1}}}
    for slug in ("notes", "nothing"):
        with pytest.raises(Invalid, match=rf'^Unknown memory definition "{slug}"\. Without `definitions`, only global'):
            memory.call("definitions.update_memory", {**asked, "memory": {slug: {"n": 1}}})
    memory.call("definitions.update_memory", {**asked, "definitions": ["notes"]})


@pytest.mark.parametrize("slug", ["a" * 900_000, "A" * 900_000])
def test_an_error_does_not_repeat_a_long_name(memory: Memory, slug: str) -> None:
    with pytest.raises(Invalid) as error:
        memory.call("definitions.update_memory", {"owner": "u1", "memory": {slug: {}}})
    assert len(error.value.message) + len(repr(error.value.details)) < 500


# -- history ---------------------------------------------------------------------------------------------------------------


def test_a_history_is_as_long_as_is_asked_for(memory: Memory) -> None:
    me, scope = memory.user("u1"), memory.app("shop").scope(user_id="u1")
    memory.app("shop").stores.create("prefs")
    for number in range(250):
        me.records.update("count", {"n": number})
        scope.set_content("prefs", {"n": number})
    histories: list[Callable[[int], list[RecordChange]]] = [
        lambda limit: me.records.history("count", limit),
        lambda limit: scope.history("prefs", limit),
    ]
    for history in histories:
        for limit in (1, 20, 100, 101, 249, 250, 1000):
            found = [change.version for change in history(limit)]
            assert found == list(range(250, 250 - min(limit, 250), -1))
        for wrong in (0, -1):
            with pytest.raises(Invalid):
                history(wrong)


def test_a_history_of_large_values_is_whole(memory: Memory) -> None:
    me = memory.user("u1")
    for number in range(20):
        me.records["large"] = {"n": number, "text": "x" * (LARGE // 2)}
    assert [(change.value or {})["n"] for change in me.records.history("large", 20)] == list(range(19, -1, -1))


def test_a_history_is_whole_when_it_is_awaited(tmp_path: Path) -> None:
    async def asked() -> int:
        async with AsyncMemory(tmp_path / "home", worker=False) as memory:
            me = memory.user("u1")
            for number in range(130):
                await me.records.update("count", {"n": number})
            return len(await me.records.history("count", 500))

    assert asyncio.run(asked()) == 130


def test_a_view_with_a_budget_can_be_changed(memory: Memory) -> None:
    """S3.28: the budget is of the prompt, and stays that of the view."""
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    for slug in ("notes", "more"):
        memory.definitions.create(slug.title(), slug=slug, schema=text)
    view = memory.definitions.bind(["notes", "more"], owner="u1", budget=200, strict=True)
    view.update({"notes": {"text": "x " * 1000}})
    assert view.values == {"notes": {"text": "x " * 1000}}
    assert "budget of 200 tokens" in view.bound.warnings[0].reason
    view.delete("notes")
    assert view.update({"more": {"text": "short"}}).memory == view.values == {"more": {"text": "short"}}
    assert "short" in view.prompt()
