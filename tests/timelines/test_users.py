"""The front door."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memwell import Invalid, NotFound, StorageError
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import AsyncMemory, Memory, listeners
from ..waiting import wait_until

pytestmark = pytest.mark.every_engine


@pytest.fixture
def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    return Memory(tmp_path, worker=False, clock=clock)


def test_a_text_a_message_and_messages_can_be_added(memory: Memory) -> None:
    me = memory.user("alice")
    me.add("I'm vegetarian.")
    me.add({"role": "assistant", "content": "Noted."})
    me.add([{"role": "user", "content": "Thanks", "name": "Alice"}, {"role": "assistant", "content": "Welcome"}])
    assert [(turn.role, turn.content) for turn in me.history()] == [
        ("user", "I'm vegetarian."),
        ("assistant", "Noted."),
        ("user", "Thanks"),
        ("assistant", "Welcome"),
    ]


def test_turns_within_half_an_hour_are_one_conversation(memory: Memory, clock: FrozenClock) -> None:
    me = memory.user("alice")
    first = me.add("one").session
    clock.advance(minutes=29)
    assert me.add("two").session == first
    clock.advance(minutes=29)
    assert me.add("three").session == first
    clock.advance(minutes=31)
    second = me.add("four").session
    assert second != first
    assert me.add("elsewhere", session="mine").session == "mine"
    assert me.add("five").session == second
    assert {found.session for found in me.sessions()} == {first, second, "mine"}
    assert [turn.content for turn in me.history(session=first)] == ["one", "two", "three"]


def test_history_runs_across_conversations_and_pages_backwards(memory: Memory, clock: FrozenClock) -> None:
    me = memory.user("alice")
    for number in range(25):
        me.add(str(number), session=f"s{number % 3}")
        clock.advance(seconds=1)
    assert [turn.content for turn in me.history(10)] == [str(number) for number in range(15, 25)]
    seen: list[str] = []
    cursor = None
    while True:
        data = {"user": "alice", "limit": 7} | ({"cursor": cursor} if cursor else {})
        page = memory.call("users.history", data)
        seen = [turn.content for turn in page.turns] + seen
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [str(number) for number in range(25)]


def test_history_of_equal_times_loses_and_doubles_nothing(memory: Memory) -> None:
    me = memory.user("alice")
    for number in range(20):
        me.add(str(number), session=f"s{number % 4}")
    seen: list[str] = []
    cursor = None
    while True:
        page = memory.call("users.history", {"user": "alice", "limit": 3} | ({"cursor": cursor} if cursor else {}))
        seen += [turn.content for turn in page.turns]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen, key=int) == [str(number) for number in range(20)]


def test_when_it_was_said_can_be_told(memory: Memory) -> None:
    moment = datetime(2020, 2, 29, 12, tzinfo=UTC)
    me = memory.user("alice")
    me.add("long ago", occurred_at=moment, metadata={"channel": "mail"})
    (turn,) = me.history()
    assert (turn.occurred_at, turn.metadata) == (moment, {"channel": "mail"})


@cases(
    "content", [[], [{"role": "user"}], [{"content": "x"}], [{"role": "user", "content": "x", "extra": 1}], 7, ["x"]]
)
def test_nonsense_is_refused(memory: Memory, content: object) -> None:
    with pytest.raises((Invalid, TypeError)):
        memory.user("alice").add(content)  # type: ignore[arg-type]
    assert memory.user("alice").history() == []


def test_forgetting_somebody_unknown_says_so(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.user("nobody").forget()


def test_the_users_are_listed(memory: Memory) -> None:
    for name in ("bob", "alice"):
        memory.user(name).add("hi")
    assert [user.user for user in memory.users()] == ["alice", "bob"]


def test_the_async_api_is_the_same(tmp_path: Path) -> None:
    """C27: one core, both colours."""

    async def scenario() -> list[str]:
        async with AsyncMemory(tmp_path / "async") as memory:
            me = memory.user("alice")
            await asyncio.gather(*(me.add(str(number), session="s") for number in range(20)))
            turns = await me.history(50)
            assert [turn.seq for turn in turns] == list(range(1, 21))
            session = memory.flow("f").session("s")
            await session.history.append(role="user", content="hello")
            found = [turn.content async for turn in session.history.all()]
            receipt = await me.forget()
            assert receipt.residual == 0
            assert await me.history() == []
            return found

    assert asyncio.run(scenario()) == ["hello"]


def test_async_calls_do_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    async def scenario() -> int:
        async with AsyncMemory(tmp_path / "async") as memory:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            for number in range(20):
                await memory.user("alice").add(str(number))
            ticking.cancel()
            return ticks

    assert asyncio.run(scenario()) > 100


def test_a_memory_is_not_carried_through_a_fork(memory: Memory) -> None:
    memory.user("alice").add("before")
    child = os.fork()
    if child == 0:
        try:
            memory.user("alice").add("in the child")
        except StorageError as error:
            os._exit(7 if "forked" in error.message else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(memory.user("alice").history()) == 1


def test_a_cancelled_watch_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncMemory(tmp_path) as memory:
            await memory.status()

            async def watch() -> None:
                async for _ in memory.watch():
                    pass

            tasks = [asyncio.create_task(watch()) for _ in range(3)]
            await asyncio.to_thread(wait_until, lambda: listeners(tmp_path))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(wait_until, lambda: not listeners(tmp_path), "listeners are left")

    asyncio.run(scenario())


def test_suspicious_turns_are_not_searched_before_their_quarantine(tmp_path: Path) -> None:
    """A text is searched as it stands until it is distilled, but not one that looks like a secret."""
    with Memory(tmp_path / "held", worker=False) as memory:
        me = memory.user("alice")
        me.add("My password is hunterxyzzy42.")
        me.add("My locker is number 12.")
        assert [hit.content for hit in me.search("password locker")] == ["My locker is number 12."]
