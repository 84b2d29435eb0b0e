"""Runs of workflows: stored, streamed, repeated, interrupted, and ended in a named state whatever a model does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from memwell import Conflict, Invalid, NotFound, Stale
from memwell.core.engine import Engine
from memwell.sdk.transport import LocalTransport
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory, remains
from ..live import live
from ..scripted import Fault, ScriptedServer, StreamFault
from ..waiting import wait_until

CHATBOT = (Path(__file__).parents[2] / "examples" / "workflows" / "chatbot.yaml").read_text()
WHO = {"user_id": "u1"}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ScriptedServer]]:
    opened: list[ScriptedServer] = []

    def serve(script: Any = ("Hi!",), timeout_s: float = 20, **how: Any) -> ScriptedServer:
        server = ScriptedServer(script, **how)
        server.__enter__()
        opened.append(server)
        monkeypatch.setenv("MEMWELL_LLM", f"openai:test@{server.url}?timeout_s={timeout_s}")
        return server

    yield serve
    for server in opened:
        server.__exit__()


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def text(template: str, **fields: Any) -> dict[str, Any]:
    return {"step_type": "text", "template": template, **fields}


def document(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "test", "steps": list(steps), **fields}


def test_workflows_are_stored_and_versioned(memory: Memory, clock: FrozenClock) -> None:
    first = memory.workflows.create(document(text("one")))
    clock.advance(seconds=1)
    second = memory.workflows.update(first.id, document(text("two")), expected_version=1)
    assert (first.version, second.version) == (1, 2)
    with pytest.raises(Stale):
        memory.workflows.update(first.id, document(text("three")), expected_version=1)
    assert memory.workflows.run(first.id).output == "two"
    earlier = memory.workflows.run(first.id, version=1)
    assert (earlier.output, earlier.workflow, earlier.workflow_version) == ("one", first.id, 1)
    assert memory.workflows.get(first.id, version=1).document == document(text("one"))
    assert [one.name for one in memory.workflows.list()] == ["test"]
    assert [run.workflow_version for run in memory.workflows.runs(first.id)] == [1, 2]
    with pytest.raises(NotFound):
        memory.workflows.get(first.id, version=3)
    memory.workflows.delete(first.id)
    with pytest.raises(NotFound):
        memory.workflows.run(first.id)


@cases(
    "inputs, expected",
    [
        ({"text": "x"}, "x"),
        ({"text": "x", "city": "Porto"}, "x"),
        ({"city": "Porto"}, '{"city":"Porto"}'),
        ({"text": 5}, '{"text":5}'),
        ({}, ""),
    ],
)
def test_an_input_that_is_an_object_is_the_input_of_steps_and_tasks(
    memory: Memory, inputs: dict[str, Any], expected: str
) -> None:
    """S1.16: its text, or all of it as JSON; and the run shows what it was given."""
    run = memory.workflows.run(document(text("{{input}}|{{agent.input}}")), inputs)
    assert run.output == f"{expected}|{expected}"
    assert (run.input, run.inputs) == (expected, inputs)
    say = {"kind": "task", "action": "send_text_message", "inputs": {"text": "Q: {{input}}{{agent.input}}"}}
    told = memory.workflows.run({"name": "t", "defs": {"say": say}, "flow": [{"do": "say"}]}, inputs)
    assert told.output == f"Q: {expected}{expected}"
    again = memory.workflows.repeat(run.id)
    assert (again.output, again.inputs) == (run.output, inputs)


def test_a_run_is_stored_with_what_each_step_did(memory: Memory) -> None:
    done = memory.workflows.run(
        document(text("{{input}}!", id="a")), "hi", metadata={"x": 1}, owner="alice", thread="t1"
    )
    again = memory.workflows.show(done.id)
    assert again == done
    assert (again.status, again.input, again.metadata, again.owner, again.thread) == (
        "done",
        "hi",
        {"x": 1},
        "alice",
        "t1",
    )
    (step,) = again.steps
    assert (step.id, step.step_type, step.status, step.input, step.output) == ("a", "text", "done", "hi", "hi!")
    assert step.ended_at >= step.started_at


def test_banks_that_there_are_not_are_named(memory: Memory) -> None:
    step = {"step_type": "load_memory", "memory_bank_id": "nowhere", "key": "k"}
    with pytest.raises(Invalid, match="nowhere"):
        memory.workflows.run(document(step))
    checked = memory.workflows.validate(document(step))
    assert (checked.valid, checked.unresolved_banks) == (False, ["nowhere"])
    made = document(step, memory_banks={"nowhere": {"type": "general", "retention_days": None}})
    assert memory.workflows.run(made).status == "done"
    assert [one.name for one in memory.banks.list().memory_banks] == ["nowhere"]
    with pytest.raises(Invalid, match="memory_banks"):
        memory.workflows.run(document({**step, "memory_bank_id": "x"}, memory_banks={"x": {"type": "wrong"}}))


def test_events_are_shown_as_they_happen(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    served(["A longer answer that comes in several pieces, one after the other."])
    with Memory(tmp_path / "home", worker=False) as memory:
        events = list(memory.workflows.stream(CHATBOT, "Hello", metadata=WHO))
        assert (events[0].kind, events[0].state) == ("run", "running")
        assert (events[-1].kind, events[-1].state) == ("run", "done")
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        pieces = [event.text or "" for event in events if event.kind == "text"]
        assert len(pieces) > 1
        assert "".join(pieces) == events[-1].text
        states = [(event.step, event.state) for event in events if event.kind == "step"]
        assert states[:2] == [("save_question", "running"), ("save_question", "done")]
        run = memory.workflows.show(events[0].run)
        assert run.output == events[-1].text
        assert list(memory.workflows.follow(run.id)) == events


def test_a_run_continues_without_its_caller(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """C45: nobody looks on, and it can be read afterwards."""
    served(["Hi!"])
    with Memory(tmp_path / "home", worker=False) as memory:
        begun = memory.call(
            "runs.begin_document", {"document": CHATBOT, "input": "Hello", "metadata": WHO, "wait": False}
        )
        wait_until(lambda: memory.workflows.show(begun.id).status != "running")
        run = memory.workflows.show(begun.id)
        assert (run.status, run.output) == ("done", "Hi!")


def test_retries_and_their_end(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    served([Fault.ERROR, Fault.ERROR, "At last."])
    with Memory(tmp_path / "home", worker=False) as memory:
        ask = {"step_type": "prompt_call", "retries": 2}
        done = memory.workflows.run(document(ask), "x")
        assert (done.status, done.output, done.steps[0].attempts) == ("done", "At last.", 3)
    served([Fault.ERROR])
    with Memory(tmp_path / "home", worker=False) as memory:
        failed = memory.workflows.run(document({"step_type": "prompt_call", "retries": 1}), "x")
        assert (failed.status, failed.steps[0].attempts) == ("failed", 2)
        assert "server_error" in (failed.error or "")


def test_a_step_that_takes_too_long_fails(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    from memwell.workflows import tree_run

    free = Event()
    plain = tree_run._STEPS["text"]

    def wait(step: Any, doing: Any) -> Any:
        free.wait(20)
        return plain(step, doing)

    monkeypatch.setitem(tree_run._STEPS, "text", wait)
    run = memory.workflows.run(document(text("x", timeout_s=0.1)))
    free.set()
    assert run.status == "failed"
    assert "timeout" in (run.error or "")


def test_answers_of_models_are_cached_until_an_erasure(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    server = served(["first", "second"])
    with Memory(tmp_path / "home", worker=False) as memory:
        ask = document({"step_type": "prompt_call", "cache_minutes": 5})
        assert [memory.workflows.run(ask, "same").output for _ in range(3)] == ["first"] * 3
        assert memory.workflows.runs()[0].status == "done"
        assert memory.workflows.run(ask, "other").output == "second"
        assert len(server.requests) == 2
        memory.user("alice").add("x")
        memory.user("alice").forget()
        assert memory.workflows.run(ask, "same").output == "second"


JSON_ONLY = (Fault.WRONG_SCHEMA, Fault.WRONG_IDS, Fault.DUPLICATES, Fault.CUT_JSON, Fault.NAN, Fault.DEEP)
"""What is wrong only where JSON is asked for."""


@pytest.mark.parametrize("fault", [*(one for one in Fault if one not in JSON_ONLY), *StreamFault])
def test_a_model_that_fails_ends_the_run_in_a_named_state(
    served: Callable[..., ScriptedServer], tmp_path: Path, fault: Fault | StreamFault
) -> None:
    """Nothing that was written is lost, siblings run to their ends, and the next run works."""
    server = served(["Hi!"], timeout_s=1, drip_s=0.15)
    server.fault = fault
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(CHATBOT, "Hello", metadata=WHO)
        assert run.status == "failed"
        assert [step.status for step in run.steps] == ["done", "failed"]
        assert run.error
        server.fault = None
        assert memory.workflows.run(CHATBOT, "Again", metadata=WHO).status == "done"
        bank = memory.banks.open(memory.banks.list().memory_banks[0].id)
        assert [one.content for one in bank.entries()] == ["Hello", "Again", "Hi!"]


def test_a_failing_child_does_not_stop_its_siblings(memory: Memory) -> None:
    bad = {"step_type": "retrieval", "id": "bad", "user": "{{metadata.nobody}}"}
    run = memory.workflows.run(document(text("x", steps=[bad, text("fine", id="good")])))
    assert run.status == "failed"
    assert {step.id: step.status for step in run.steps} == {"step-1": "done", "bad": "failed", "good": "done"}


def test_erased_data_is_in_no_run(tmp_path: Path) -> None:
    """The run has read and written a key: when that is erased, nothing of it is left with the run."""
    with Memory(tmp_path / "home", worker=False) as memory:
        add = {"step_type": "add_memory", "memory_bank_id": "notes", "key": "{{metadata.user_id}}"}
        source = document(add, memory_banks={"notes": {"type": "general"}})
        run = memory.workflows.run(source, "the word is zyxoqwvquillrun", metadata={"user_id": "zyxoqwvkey"})
        bank = memory.banks.open(memory.banks.list().memory_banks[0].id)
        assert "zyxoqwvquillrun" in str(memory.workflows.show(run.id))
        assert bank.wipe().residual == 0
        left = memory.workflows.show(run.id)
        assert (left.status, left.input, left.steps) == ("done", "", [])
    assert not [name for name, data in remains(tmp_path / "home").items() if b"zyxoqwv" in data]


def test_runs_that_read_from_a_user_are_emptied_with_them(tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.user("alice").add("My word is zyxoqwvuser.")
        run = memory.workflows.run(document({"step_type": "retrieval", "user": "alice"}), "word")
        assert "zyxoqwvuser" in str(run)
        assert memory.user("alice").forget().residual == 0
        assert "zyxoqwvuser" not in str(memory.workflows.show(run.id))
        with pytest.raises(Conflict):
            memory.workflows.repeat(run.id)


def test_a_run_is_repeated_after_its_entries_were_compacted(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """C45: what is behind a summary was written, too."""
    served([Fault.ERROR, "Yes."])
    add = {"step_type": "add_memory", "memory_bank_id": "chats", "key": "k", "speaker": "user"}
    banks = {"chats": {"max_turns": 2}}
    with Memory(tmp_path / "home", worker=False) as memory:
        first = memory.workflows.run(
            document(add, {"step_type": "prompt_call"}, memory_banks=banks), "the first of them"
        )
        assert first.status == "failed"
        for number in range(3):
            memory.workflows.run(document(add, memory_banks=banks), f"number {number}")
        engine_of(memory).worker.run_due("default")
        bank = memory.banks.open(memory.banks.list().memory_banks[0].id)
        before = bank.load("k", include_compacted=True).messages
        assert memory.workflows.repeat(first.id).status == "done"
        assert bank.load("k", include_compacted=True).messages == before


def test_nothing_found_is_nothing_written(memory: Memory) -> None:
    insight = {"step_type": "insight", "extract": "preferences"}
    add = {"step_type": "add_memory", "memory_bank_id": "notes", "key": "k"}
    source = document(insight, add, memory_banks={"notes": {"type": "general"}})
    assert memory.workflows.run(source, "Hello there!").status == "done"
    bank = memory.banks.open(memory.banks.list().memory_banks[0].id)
    assert list(bank.entries()) == []


def test_a_load_from_memory_can_be_summarised(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    served(["A summary."])
    with Memory(tmp_path / "home", worker=False) as memory:
        bank = memory.banks.create("chats")
        for number in range(3):
            bank.add(f"turn {number}", key="k", speaker="user")
        at = {"memory_bank_id": "chats", "key": "k"}
        load = {"step_type": "load_memory", "order": "oldest_first", "cache_minutes": 5, **at}
        memory.workflows.run(document(load))
        add = {"step_type": "add_memory", "speaker": "assistant", "compacts": "input", **at}
        memory.workflows.run(document({**load, "steps": [{"step_type": "prompt_call", "steps": [add]}]}))
        assert [one["content"] for one in bank.load("k").messages or []] == [
            "[Summary of 3 earlier messages]\nA summary."
        ]


def test_old_runs_go(memory: Memory, clock: FrozenClock) -> None:
    run = memory.workflows.run(document(text("x")))
    clock.advance(days=31)
    engine_of(memory).worker.run_due("default")
    with pytest.raises(NotFound):
        memory.workflows.show(run.id)


def test_the_workflows_that_use_a_bank(memory: Memory) -> None:
    """B1.9."""
    bank = memory.banks.create("notes", type="general")
    uses = {"step_type": "load_memory", "memory_bank_id": "notes", "key": "k"}
    first = memory.workflows.create({"name": "first", "steps": [uses]})
    memory.workflows.create({"name": "second", "steps": [text("x")]})
    (found,) = memory.call("banks.agents", {"bank": bank.id})
    assert (found.agent_id, found.agent_name) == (first.id, "first")


def test_a_run_is_streamed_over_http_and_can_be_taken_up_again(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """C45: server-sent events; whoever comes back goes on after the last event that arrived."""
    served(["A longer answer that comes in several pieces, one after the other."])
    with live(tmp_path / "server", worker=False) as server, server.memory() as memory:
        events = list(memory.workflows.stream(CHATBOT, "Hello", metadata=WHO))
        assert events[-1].state == "done"
        assert len([event for event in events if event.kind == "text"]) > 1
        begun = memory.call(
            "runs.begin_document", {"document": CHATBOT, "input": "Hello", "metadata": WHO, "wait": False}
        )
        headers = {"authorization": f"Bearer {server.key}"}
        url = f"{server.url}/v1/runs/{begun.id}/stream"
        frames: list[str] = []
        with httpx.stream("GET", url, headers=headers, timeout=20) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                frames.append(line)
                if len([one for one in frames if one.startswith("id:")]) == 3:
                    break
        with httpx.stream("GET", url, headers={**headers, "last-event-id": "3"}, timeout=20) as response:
            rest = [line for line in response.iter_lines() if line.startswith("id:")]
        assert rest[0] == "id: 4"
        assert memory.workflows.show(begun.id).status == "done"
        assert httpx.get(url, timeout=20).status_code == 401
        assert httpx.get(f"{server.url}/v1/runs/nothing/stream", headers=headers, timeout=20).status_code == 404
        bad = httpx.get(url, headers={**headers, "last-event-id": "x"}, timeout=20)
        assert bad.status_code == 400


KEYS = "{{metadata.org}}/{{metadata.user}}"


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a/b", "c"), ("a", "b/c")), (("a%2Fb", "c"), ("a/b", "c")), (("a", "c"), ("a/c", "a/c"))],
)
def test_a_key_of_several_parts_is_of_those_parts_alone(
    tmp_path: Path, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """C17: whatever characters they have, no two of them share a key."""
    add = {"step_type": "add_memory", "memory_bank_id": "notes", "key": KEYS}
    load = {"step_type": "load_memory", "memory_bank_id": "notes", "key": KEYS}
    banks = {"notes": {"type": "general"}}
    with Memory(tmp_path / "home", worker=False) as memory:
        for org, user in (first, second):
            who = {"org": org, "user": user}
            assert memory.workflows.run(document(load, memory_banks=banks), metadata=who).output == '{"entries":[]}'
            memory.workflows.run(document(add, memory_banks=banks), "A note.", metadata=who)
        plain = {"org": "acme", "user": "ada@example.com"}
        memory.workflows.run(document(add, memory_banks=banks), "Hers.", metadata=plain)
        bank = memory.banks.open(memory.banks.list().memory_banks[0].id)
        assert [one.content for one in bank.entries(key="acme/ada@example.com")] == ["Hers."]


def test_parts_of_a_key_need_something_between_them(memory: Memory) -> None:
    """C17: for `ab` and `c` are `a` and `bc` otherwise."""
    for key in ("{{metadata.org}}{{metadata.user}}", "{{metadata.org}}and{{metadata.user}}"):
        add = {"step_type": "add_memory", "memory_bank_id": "notes", "key": key}
        with pytest.raises(Invalid, match="cannot tell its parts apart"):
            memory.workflows.create(document(add, memory_banks={"notes": {"type": "general"}}))


def test_a_computed_key_never_leads_to_the_conversation_of_an_owner(memory: Memory) -> None:
    """S3.22, C17."""
    load = {"step_type": "load_memory", "memory_bank_id": "chats", "key": "{{input}}"}
    run = memory.workflows.run(document(load, memory_banks={"chats": {}}), "owner=eve/thread=t")
    assert "is kept for the conversation of an owner" in (run.error or "")
