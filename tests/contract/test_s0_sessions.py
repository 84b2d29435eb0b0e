"""S0: sessions, their history, direct writes, and their end."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from memwell import Invalid, NotFound, Stale
from memwell.jobs.queue import find
from memwell.sdk import _async, _sync
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory
from .conftest import engine_of

pytestmark = pytest.mark.every_engine


def test_a_session_needs_no_declaration_and_its_first_turn_creates_it(memory: Memory) -> None:
    """S0.23, S0.24, S0.25, S0.31: the id is the caller's, the call is plain, the first append creates it."""
    session = memory.flow("support").session("any id, even with a / in it")
    assert memory.flow("support").sessions() == []
    assert session.history.last(5) == []
    session.history.append(role="user", content="hello")
    assert [found.session for found in memory.flow("support").sessions()] == ["any id, even with a / in it"]


def test_turns_are_appended_by_keyword_and_read_back_in_order(memory: Memory) -> None:
    """S0.15, S0.26, S0.27, S0.46: append(role=, content=), last(n) oldest first, and a turn is readable at once."""
    history = memory.flow("support").session("s").history
    for number in range(30):
        history.append(role="user", content=f"turn {number}")
        assert history.last(1)[0].content == f"turn {number}"
    recent = history.last(20)
    assert len(recent) == 20
    assert [turn.content for turn in recent] == [f"turn {number}" for number in range(10, 30)]
    assert [turn.seq for turn in recent] == list(range(11, 31))
    with pytest.raises(TypeError):
        history.append("user", "positional")  # type: ignore[call-arg]


def test_order_does_not_depend_on_the_clock(memory: Memory, clock: FrozenClock) -> None:
    """C28: equal times and a clock that jumps back leave the order as it was."""
    history = memory.flow("support").session("s").history
    history.append(role="user", content="first")
    history.append(role="user", content="second")
    clock.advance(hours=-5)
    history.append(role="user", content="third")
    assert [turn.content for turn in history.last(10)] == ["first", "second", "third"]


def test_several_turns_are_recorded_together_or_not_at_all(memory: Memory) -> None:
    history = memory.flow("support").session("s").history
    with pytest.raises(Invalid):
        history.extend([{"role": "user", "content": "fine"}, {"role": "user", "content": ""}])
    assert history.last(10) == []
    assert [turn.seq for turn in history.extend([{"role": "user", "content": str(n)} for n in range(5)])] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_pages_walk_through_a_session_in_both_directions(memory: Memory) -> None:
    history = memory.flow("support").session("s").history
    history.extend([{"role": "user", "content": str(number)} for number in range(25)])
    forward = history.page(limit=10)
    second = history.page(limit=10, cursor=forward.next_cursor)
    third = history.page(limit=10, cursor=second.next_cursor)
    seen = [turn.content for page in (forward, second, third) for turn in page.turns]
    assert seen == [str(number) for number in range(25)]
    assert third.next_cursor is None
    backward = history.page(limit=10, order="newest_first")
    rest = history.page(limit=20, order="newest_first", cursor=backward.next_cursor)
    assert [turn.content for turn in backward.turns + rest.turns] == seen[::-1]
    assert [turn.content for turn in history.all()] == seen
    with pytest.raises(Invalid, match="cursor"):
        history.page(order="newest_first", cursor=forward.next_cursor)


def test_a_turn_may_say_who_when_and_which_tool(memory: Memory) -> None:
    """C44: name, occurred_at, metadata; B0.1: tools; empty content only with a tool call."""
    history = memory.flow("support").session("s").history
    calls = [{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}]
    history.append(role="assistant", tool_calls=calls)
    history.append(role="tool", content="42", tool_name="lookup", tool_call_id="c1", metadata={"cost": 0.1})
    asked, answered = history.last(2)
    assert (asked.content, asked.tool_calls) == ("", calls)
    assert (answered.tool_name, answered.tool_call_id, answered.metadata) == ("lookup", "c1", {"cost": 0.1})
    with pytest.raises(Invalid, match="empty"):
        history.append(role="user", content="")


def test_writing_returns_an_id_and_is_there_at_once(memory: Memory) -> None:
    """S0.22, S0.29, S0.47, S0.39: flow.write and session.write; default importance 0.5."""
    flow = memory.flow("support")
    memory_id = flow.write("Ships to the EU only")
    assert isinstance(memory_id, str)
    assert flow.get(memory_id).content == "Ships to the EU only"
    assert flow.get(memory_id).importance == 0.5
    session_id = flow.session("s").write("Prefers e-mail", 0.9)
    (shown,) = flow.session("s").show().memories
    assert (shown.id, shown.content, shown.importance, shown.session) == (session_id, "Prefers e-mail", 0.9, "s")
    assert [(found.id, found.session) for found in flow.memories()] == [(memory_id, None), (session_id, "s")]
    assert inspect.signature(_sync.Session.write).parameters["importance"].default == 0.5
    assert inspect.signature(_async.AsyncFlow.write).parameters["importance"].default == 0.5


@cases("importance", [-0.01, 1.01, float("nan"), float("inf")])
def test_importance_lies_between_0_and_1(memory: Memory, importance: float) -> None:
    """S0.19 (the range)."""
    with pytest.raises(Invalid, match="importance"):
        memory.flow("support").write("x", importance)


def test_a_written_memory_can_be_changed_and_deleted(memory: Memory, clock: FrozenClock) -> None:
    """Its id and creation time stay, its metadata is kept, and a stale change is refused."""
    flow = memory.flow("support")
    memory_id = flow.write("Ships to the EU", metadata={"source": "faq"})
    made = flow.get(memory_id)
    clock.advance(hours=1)
    changed = flow.update(memory_id, content="Ships to the EU and Norway", version=1)
    assert (changed.id, changed.version, changed.metadata) == (memory_id, 2, {"source": "faq"})
    assert (changed.created_at, changed.updated_at > made.updated_at) == (made.created_at, True)
    assert [found.content for found in flow.memories()] == ["Ships to the EU and Norway"]
    assert flow.memories()[0].created_at == made.created_at
    with pytest.raises(Stale):
        flow.update(memory_id, content="late", version=1)
    flow.delete_memory(memory_id)
    with pytest.raises(NotFound):
        flow.get(memory_id)
    assert flow.memories() == []


def test_ending_a_session_closes_it_and_puts_its_consolidation_in_line(memory: Memory) -> None:
    """S0.30, C13: idempotent, fine on an empty session, reopened by a turn; then only the new turns are distilled."""
    session = memory.flow("support").session("s")
    assert session.end().job is None
    session.history.extend([{"role": "user", "content": str(number)} for number in range(3)])
    first = session.end()
    assert first.ended_at is not None
    assert memory.jobs.show(first.job or "").kind == "consolidate"
    assert session.end().job is None
    assert session.end().ended_at == first.ended_at
    session.history.append(role="user", content="one more thing")
    assert memory.flow("support").sessions()[0].ended_at is None
    second = session.end()
    assert second.job not in (None, first.job)
    assert _range(memory, first.job or "") == {"to_seq": 3}
    assert _range(memory, second.job or "") == {"to_seq": 4}
    assert len(session.history.last(10)) == 4


def _range(memory: Memory, job_id: str) -> dict[str, int]:
    job = engine_of(memory).store.read("default", lambda tx: find(tx, job_id))
    assert job is not None
    return msgspec.json.decode(job.payload, type=dict[str, int])
