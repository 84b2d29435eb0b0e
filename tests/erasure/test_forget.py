"""Forgetting a user: what it covers, and what its receipt lists as not reached (G9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memwell import NotFound

from ..contract.conftest import engine_of
from ..contract.task_documents import run, tasks
from ..engines import Memory
from ..scripted import ScriptedServer
from ..workflows.test_workflow_runs import served
from .test_erasure import CANARY, traces

__all__ = ["served"]

pytestmark = pytest.mark.every_engine

WRITES: dict[str, Any] = {
    "name": "writer",
    "steps": [
        {"step_type": "text", "template": "the word is {{agent.input}} for now"},
        {"step_type": "add_memory", "memory_bank_id": "team", "key": "board"},
    ],
}
"""A workflow that writes to a key that all users share."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def memory(home: Path) -> Memory:
    return Memory(home, worker=False)


def test_keys_that_are_users_are_erased_with_them(memory: Memory, home: Path) -> None:
    """A bank can declare that its keys are users, also after it has entries."""
    chats = memory.banks.create("chats", type="general", key_is_user=True)
    notes = memory.banks.create("notes", type="general")
    for bank in (chats, notes):
        bank.add(f"the word is {CANARY}", key="alice")
        bank.add("This one stays.", key="bob")
    receipt = memory.user("alice").forget()
    assert [one.place for one in receipt.kept] == [f"a key of the memory bank {notes.id}"]
    assert "key_is_user" in receipt.kept[0].reason
    assert receipt.residual == 0
    assert [one.content for one in chats.entries()] == ["This one stays."]
    notes.update(key_is_user=True)
    assert memory.user("alice").forget().kept == []
    assert traces(home, CANARY, "alice") == []
    assert [one.content for one in notes.entries()] == ["This one stays."]
    with pytest.raises(NotFound):
        memory.user("alice").forget()


def test_what_runs_of_a_user_wrote_to_shared_places_is_erased(memory: Memory, home: Path) -> None:
    team = memory.banks.create("team", type="general")
    memory.workflows.run(WRITES, CANARY, owner="alice")
    memory.workflows.run(WRITES, "another", owner="bob")
    assert len(list(team.entries())) == 2
    receipt = memory.user("alice").forget()
    assert (receipt.residual, receipt.layers["entries"], receipt.layers["runs"]) == (0, 1, 2)
    assert [one.place for one in receipt.kept] == ["1 sessions or keys of banks"]
    assert [one.content for one in team.entries()] == ["the word is another for now"]
    assert traces(home, CANARY, "alice") == []
    assert memory.user("bob").forget().kept == []
    assert len(list(team.entries())) == 0
    assert traces(home, "another for now", "bob") == []


def test_keys_that_runs_of_a_user_write_to_under_its_name_are_erased(memory: Memory, home: Path) -> None:
    """Also what the application has added there."""
    team = memory.banks.create("team", type="general")
    team.add("the word is zyxoqwv from the application", key="alice")
    memory.workflows.run(
        {**WRITES, "steps": [WRITES["steps"][0], {**WRITES["steps"][1], "key": "alice"}]}, "x", owner="alice"
    )
    receipt = memory.user("alice").forget()
    assert (receipt.residual, receipt.layers["entries"], receipt.kept) == (0, 2, [])
    assert traces(home, CANARY, "alice") == []


def test_a_session_that_users_share_keeps_what_others_said(served: Callable[..., ScriptedServer], home: Path) -> None:
    """The facts that rest on it are made again from the turns that stay."""
    served(["Noted."])
    talk = {"kind": "task", "action": "ai_generate_reply", "inputs": {"input_mode": "history"}}
    document = tasks(answer={**talk, "settings": {"history": {"flow": "office", "session": "desk"}}})
    with Memory(home, worker=False) as memory:
        run(memory, document, "I live in Zyxoqwvville.", owner="alice", thread="a")
        run(memory, document, "I live in Porto.", owner="bob", thread="b")
        flow = memory.flow("office")
        memory.call("flows.consolidate", {"flow": "office", "session": "desk"})
        assert any("Zyxoqwvville" in one.content for one in flow.memories()), "what another user says does not end it"
        receipt = memory.user("alice").forget()
        assert (receipt.residual, receipt.layers["entries"]) == (0, 2)
        assert [turn.content for turn in flow.session("desk").history.last(9)] == ["I live in Porto.", "Noted."]
        engine_of(memory).worker.run_due("default")
        known = [one.content for one in flow.memories()]
        assert "Bob lives in Porto." in known
        assert not any("Zyxoqwvville" in one for one in known)
        assert traces(home, "Zyxoqwvville", "zyxoqwvville", "alice") == []


def test_turns_that_name_their_user_are_erased_with_it(memory: Memory, home: Path) -> None:
    """So are the facts that rest on them, and turns whose `user` came from an import."""
    flow = memory.flow("office")
    desk = flow.session("desk")
    desk.history.append(role="user", content="I live in Zyxoqwvville.", user="alice")
    desk.history.append(role="user", content="I live in Porto.", user="bob")
    flow.session("alone", user="alice").history.append(role="user", content="I am allergic to zyxoqwv.")
    desk.history.append(role="user", content="My dog is called Zyxoqwv.", metadata={"user": "alice"})
    for session in ("desk", "alone"):
        memory.call("flows.consolidate", {"flow": "office", "session": session})
    assert any("Zyxoqwvville" in one.content for one in flow.memories())
    receipt = memory.user("alice").forget()
    assert (receipt.residual, receipt.layers["entries"], len(receipt.kept or ())) == (0, 3, 1)
    engine_of(memory).worker.run_due("default")
    assert [turn.content for turn in desk.history.last(9)] == ["I live in Porto."]
    assert [one.content for one in flow.memories()] == ["Bob lives in Porto."]
    assert traces(home, "Zyxoqwv", "zyxoqwv", "alice") == []


def test_places_of_the_same_name_are_listed_and_kept(memory: Memory) -> None:
    memory.flow("support").session("alice").history.append(role="user", content="Hello.")
    memory.log("alice").append(entry_type="observation", content="Seen.")
    memory.user("alice").add("Hello.")
    receipt = memory.user("alice").forget()
    assert sorted(one.place for one in receipt.kept) == [
        "a session of the agent log",
        "a session of the flow support",
    ]
    assert len(memory.flow("support").session("alice").history.last(5)) == 1
    assert "alice" not in str(memory.jobs.list())
