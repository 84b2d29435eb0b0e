"""S0: durable, isolated stores; the three tiers; retention."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memwell import Invalid
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory, located, remains
from ..live import live
from .conftest import engine_of


def test_memory_outlives_the_process_that_wrote_it(tmp_path: Path) -> None:
    """S0.1, S0.3: durable across executions; the first use just works, in a directory that did not exist."""
    home = tmp_path / "never" / "made"
    program = f"""
from memwell import Memory
memory = Memory({located(home)!r})
memory.flow("support").session("s1").history.append(role="user", content="remember me")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with Memory(home, worker=False) as memory:
        assert [turn.content for turn in memory.flow("support").session("s1").history.last(5)] == ["remember me"]


def test_executions_of_one_flow_share_its_store_and_other_flows_have_their_own(memory: Memory) -> None:
    """S0.4, S0.5, S0.16: one store per flow; nothing of it in another flow, under the same session id."""
    memory.flow("a").session("s").history.append(role="user", content="in a")
    memory.flow("a").write("a fact of a")
    assert [turn.content for turn in memory.flow("a").session("s").history.last(5)] == ["in a"]
    assert memory.flow("b").session("s").history.last(5) == []
    assert memory.flow("b").memories() == []
    assert memory.flow("b").sessions() == []


@pytest.mark.every_engine
def test_a_forged_tenant_or_flow_in_a_body_changes_nothing(tmp_path: Path) -> None:
    """S0.6, S0.7: tenant and flow come from the credential and the route of the call."""
    with live(tmp_path, worker=False) as server, server.client() as client:
        server.engine.ensure_tenant("victim")
        body = {"role": "user", "content": "hello", "tenant": "victim", "flow": "other"}
        assert client.post("/v1/flows/mine/sessions/s/turns", json=body).status_code == 201
        with server.memory() as memory:
            assert [turn.content for turn in memory.flow("mine").session("s").history.last(5)] == ["hello"]
            assert memory.flow("other").sessions() == []
        assert server.engine.store.read("victim", lambda tx: tx.rows("list_events", after=0, limit=10)) == []


@pytest.mark.every_engine
def test_three_tiers_with_lifetimes_of_their_own(memory: Memory, clock: FrozenClock) -> None:
    """S0.11, S0.13, S0.17, S0.22: turns go after 90 days by default, facts stay; working memory is the message itself."""
    session = memory.flow("support").session("s")
    session.history.append(role="user", content="an episode")
    memory.flow("support").write("a fact")
    clock.advance(days=89.9)
    assert len(session.history.last(5)) == 1
    clock.advance(days=0.2)
    assert session.history.last(5) == []
    assert memory.flow("support").sessions() == []
    assert [fact.content for fact in memory.flow("support").memories()] == ["a fact"]


def test_retention_counts_from_when_it_was_recorded(memory: Memory, clock: FrozenClock) -> None:
    """C44: imported history does not expire at once."""
    from datetime import UTC, datetime

    session = memory.flow("support").session("s")
    session.history.append(role="user", content="old news", occurred_at=datetime(2001, 1, 1, tzinfo=UTC))
    clock.advance(days=1)
    (turn,) = session.history.last(5)
    assert turn.occurred_at == datetime(2001, 1, 1, tzinfo=UTC)


@pytest.mark.every_engine
def test_expired_turns_are_purged_from_the_file(memory: Memory, clock: FrozenClock, tmp_path: Path) -> None:
    """S0.17, C15: invisible at once, and the bytes go with the next sweep."""
    memory.flow("support").session("s").history.append(role="user", content="zyxomma was said")
    clock.advance(days=91)
    assert engine_of(memory).worker.run_due("default") == 2, "expire, and embed"
    assert [name for name, data in remains(tmp_path).items() if b"zyxomma" in data] == []


@cases("role", ["user", "assistant", "tool", "system"])
def test_a_turn_has_one_of_four_roles_a_content_and_a_time(memory: Memory, clock: FrozenClock, role: str) -> None:
    """S0.14: role, content, timestamp."""
    turn = memory.flow("support").session("s").history.append(role=role, content="text")
    assert (turn.role, turn.content, turn.created_at.timestamp()) == (role, "text", clock.now() / 1e6)


def test_another_role_is_refused(memory: Memory) -> None:
    """S0.14"""
    with pytest.raises(Invalid, match="'user', 'assistant', 'tool' or 'system'"):
        memory.flow("support").session("s").history.append(role="human", content="text")
