"""S1: the step tree, substitutions, outputs of steps, and the documented patterns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from memwell import Invalid, function
from memwell.sdk._sync_banks import Bank
from memwell.testing import FrozenClock
from memwell.workflows.run_operations import Run

from ..cases import cases
from ..engines import Memory
from ..scripted import ScriptedServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"

Step = dict[str, Any]


@pytest.fixture
def chats(memory: Memory) -> Bank:
    return memory.banks.create("chats")


@pytest.fixture
def notes(memory: Memory) -> Bank:
    return memory.banks.create("notes", type="general")


def run(memory: Memory, *steps: Step, given: str = "hello", **how: Any) -> Run:
    how.setdefault("metadata", {"user_id": "u1"})
    return memory.workflows.run({"name": "test", "steps": list(steps)}, given, **how)


def output(memory: Memory, *steps: Step, given: str = "hello", **how: Any) -> str:
    done = run(memory, *steps, given=given, **how)
    assert done.error is None
    return done.output or ""


def text(template: str, *children: Step, **fields: Any) -> Step:
    return {"step_type": "text", "template": template, "steps": list(children), **fields}


# -- the tree ------------------------------------------------------------------------------------------------------------


def test_a_list_is_a_sequence_and_children_get_their_parents_output(memory: Memory) -> None:
    """S1.15, C35."""
    done = run(
        memory, text("a {{input}}", text("b {{input}}", id="b"), text("c {{input}}", id="c")), text("d {{input}}")
    )
    assert {step.id: step.output for step in done.steps} == {
        "step-1": "a hello",
        "b": "b a hello",
        "c": "c a hello",
        "step-2": "d a hello",
    }
    assert done.output == "d a hello"


def test_children_run_side_by_side(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.15: each of them waits for the other, which ends only if both run at once."""
    from memwell.workflows import tree_run

    both = Barrier(2, timeout=10)
    plain = tree_run._STEPS["text"]

    def meet(step: Any, doing: Any) -> Any:
        if "meet" in step.template:
            both.wait()
        return plain(step, doing)

    monkeypatch.setitem(tree_run._STEPS, "text", meet)
    assert run(memory, text("x", text("meet 1"), text("meet 2"))).status == "done"


def test_what_can_be_substituted(memory: Memory) -> None:
    """S1.16, B1.15: input, the run's own input at any depth, names, other steps, metadata inside text."""
    inner = text(
        "{{input}}|{{agent.input}}|{{agent.name}}|{{step.top.input}}|{{step.top.output}}|p-{{metadata.project.id}}"
    )
    done = run(memory, text("X", inner, id="top"), metadata={"project": {"id": 7}})
    assert done.steps[1].output == "X|hello|test|hello|X|p-7"


def test_what_is_substituted_is_data(memory: Memory) -> None:
    """C18: inserted values are never expanded again; missing metadata is empty."""
    assert output(memory, text("{{input}}{{metadata.nothing}}"), given="{{metadata.user_id}}") == "{{metadata.user_id}}"


@cases(
    ("said", "meant"),
    [
        ("{{now}}", "2026-03-31T12:30:00Z"),
        ("{{1 week ago}}", "2026-03-24T12:30:00Z"),
        ("{{yesterday}}", "2026-03-30T00:00:00Z"),
        ("{{1 month ago}}", "2026-02-28T12:30:00Z"),
        ("{{2026-01-01}}", "2026-01-01T00:00:00Z"),
        ("{{2026-01-01T00:00:00Z}}", "2026-01-01T00:00:00Z"),
        ("{{ 2026-01-01T01:30:00+02:00 }}", "2025-12-31T23:30:00Z"),
    ],
)
def test_times_are_substituted(tmp_path: Path, said: str, meant: str) -> None:
    """S1.17: counted from the run's own time, or written in ISO 8601; months are those of the calendar."""
    with Memory(
        tmp_path / "home", worker=False, clock=FrozenClock(datetime(2026, 3, 31, 12, 30, tzinfo=UTC))
    ) as memory:
        assert output(memory, text(said)) == meant
        assert output(memory, text(f"from {said} on")) == f"from {meant} on"


@cases("said", ["{{2026-02-30}}", "{{2026-01-01T25:00:00Z}}", "{{2026-01-01T}}"])
def test_a_time_that_there_is_not_is_refused(memory: Memory, said: str) -> None:
    """S1.17: before anything runs, so that no search goes without its bound."""
    with pytest.raises(Invalid, match=said.strip("{}")):
        run(memory, text(said))


def test_a_written_time_bounds_a_search(memory: Memory, notes: Bank, clock: FrozenClock) -> None:
    """S1.17, S1.38, S1.39: in braces as without, and strictly after or before."""
    notes.add("an old note", key="u1")
    clock.advance(days=1)
    at = notes.add("a new note", key="u1").created_at.isoformat().replace("+00:00", "Z")
    step = {"step_type": "search_memory", "memory_bank_id": notes.id, "key": "u1", "content_type": "text/plain"}
    for bound in (at, "{{" + at + "}}"):
        assert output(memory, {**step, "added_before": bound}, given="note") == "an old note"
        assert output(memory, {**step, "added_after": bound}, given="note") == ""


@pytest.mark.every_engine
def test_a_summary_says_so_in_what_a_step_hands_on(memory: Memory, chats: Bank, notes: Bank) -> None:
    """C8, C42: in text, HTML, XML and JSON."""
    turns = [chats.add(f"turn {number}", key="u1", speaker="user").id for number in range(2)]
    chats.add("Two turns.", key="u1", speaker="user", compacts=turns)
    summary = notes.add("One note.", key="u1", compacts=[first := notes.add("note", key="u1").id]).id
    load: Step = {"step_type": "load_memory", "memory_bank_id": chats.id, "key": "u1", "content_type": "text/plain"}
    assert output(memory, load) == "assistant: [Summary of 2 earlier messages]\nTwo turns."
    assert "[Summary of 2 earlier messages]" in output(memory, {**load, "content_type": "text/html"})
    assert 'role="assistant" summary_of="2">' in output(memory, {**load, "content_type": "application/xml"})
    load |= {"memory_bank_id": notes.id, "content_type": "application/json", "include_compacted": True}
    entries = json.loads(output(memory, load))["entries"]
    assert {one["id"]: (one.get("summary_of"), one.get("compacted_into")) for one in entries} == {
        summary: (1, None),
        first: (None, summary),
    }
    search = {"step_type": "search_memory", "memory_bank_id": notes.id, "key": "u1"}
    (match,) = json.loads(output(memory, search, given="note"))["matches"]
    assert match["summary_of"] == 1


# -- add -----------------------------------------------------------------------------------------------------------------


@pytest.mark.every_engine
def test_add_to_a_conversation(memory: Memory, chats: Bank) -> None:
    """S1.18, S1.19, S1.20, S1.21, S1.25, S1.28, S1.31, S1.33: the messages array is handed on; agent and run are metadata."""
    step = {"step_type": "add_memory", "memory_bank_id": chats.id, "key": "{{metadata.user_id}}", "speaker": "user"}
    assert json.loads(output(memory, step)) == [{"role": "user", "content": "hello"}]
    done = run(memory, {**step, "content": "again: {{agent.input}}"})
    assert json.loads(done.output or "") == [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": "again: hello"},
    ]
    *_, last = chats.entries(key="u1")
    assert last.metadata == {"key": "u1", "speaker": "user", "agent_id": "test", "run_id": done.id}


@pytest.mark.every_engine
def test_add_to_a_general_bank_is_passed_through(memory: Memory, notes: Bank) -> None:
    """S1.22, S1.26, S1.27, C6: the written content, or the input if that is wanted."""
    step = {"step_type": "add_memory", "memory_bank_id": notes.id, "key": "k", "entry_metadata": {"type": "{{input}}"}}
    assert output(memory, step) == "hello"
    assert output(memory, {**step, "content": "other"}) == "other"
    assert output(memory, {**step, "content": "other", "output": "input"}) == "hello"
    assert [one.metadata for one in notes.entries(filter={"type": "hello"})]


@cases("key", ["{{metadata.missing}}", "p-{{metadata.missing}}", "{{metadata.blank}}", "x{{metadata.blank}}"])
def test_an_incomplete_key_fails_the_step(memory: Memory, notes: Bank, key: str) -> None:
    """S1.19, C17: nobody's memory ends up under a key that everybody shares."""
    step = {"step_type": "add_memory", "memory_bank_id": notes.id, "key": key}
    done = run(memory, step, metadata={"blank": ""})
    assert done.status == "failed"
    assert "incomplete" in (done.error or "")
    assert list(notes.entries()) == []


@cases("speaker", ["system", "{{metadata.user_id}}", ""])
def test_a_speaker_is_checked_after_substitution(memory: Memory, chats: Bank, speaker: str) -> None:
    """S1.20, C16."""
    step = {"step_type": "add_memory", "memory_bank_id": chats.id, "key": "k", "speaker": speaker}
    assert run(memory, step).status == "failed"
    fine = {**step, "speaker": "{{metadata.who}}"}
    assert run(memory, fine, metadata={"who": "assistant"}).status == "done"


# -- search and load -----------------------------------------------------------------------------------------------------


def test_search_as_a_step(memory: Memory, notes: Bank) -> None:
    """S1.34, S1.35, S1.36, S1.37, S1.44, S1.46, S1.47: JSON with matches; the query is the input unless it is given."""
    step = {"step_type": "search_memory", "memory_bank_id": notes.id, "key": "{{metadata.user_id}}"}
    assert json.loads(output(memory, step)) == {"matches": []}
    notes.add("prefers an aisle seat", key="u1")
    notes.add("prefers a window seat", key="u2")
    (match,) = json.loads(output(memory, step, given="seat"))["matches"]
    assert match["content"] == "prefers an aisle seat"
    assert {"content_title", "content", "content_url", "content_publish_date"} <= match.keys()
    assert len(json.loads(output(memory, {**step, "query": "seats", "key": None}))["matches"]) == 2


@pytest.mark.every_engine
def test_search_in_time_with_a_filter_and_as_text(memory: Memory, notes: Bank, clock: FrozenClock) -> None:
    """S1.38, S1.39, S1.40, S1.41, S1.42, S1.45, S1.66."""
    notes.add("an old decision", key="u1", metadata={"category": "decision"})
    clock.advance(days=10)
    notes.add("a new decision", key="u1", metadata={"category": "decision"})
    notes.add("a new chat", key="u1", metadata={"category": "chat"})
    step = {"step_type": "search_memory", "memory_bank_id": notes.id, "key": "u1", "content_type": "text/plain"}
    recent = output(memory, {**step, "added_after": "{{1 week ago}}"}, given="decision")
    assert sorted(recent.split("\n---\n")) == ["a new chat", "a new decision"]
    assert output(memory, {**step, "added_before": "{{yesterday}}"}, given="decision") == "an old decision"
    decided = output(memory, {**step, "filter": {"category": {"$eq": "decision"}}}, given="decision")
    assert sorted(decided.split("\n---\n")) == ["a new decision", "an old decision"]
    coerced = output(memory, {**step, "content_type": "application/xml"}, given="decision")
    assert len(json.loads(coerced)["matches"]) == 3
    with pytest.raises(Invalid, match="added_after"):
        run(memory, {**step, "added_after": "soon"})
    assert run(memory, {**step, "added_after": "{{metadata.when}}"}, metadata={"when": "soon"}).status == "failed"


@pytest.mark.every_engine
def test_load_as_a_step(memory: Memory, notes: Bank, chats: Bank) -> None:
    """S1.48, S1.49, S1.50, S1.51, S1.52, S1.53, S1.54, S1.55, S1.56, S1.57, S1.58, S1.60, C5, C8: entries, messages, text,
    and a child that receives them."""
    for number in range(3):
        notes.add(f"note {number}", key="u1")
        chats.add(f"turn {number}", key="u1", speaker=("user", "assistant")[number % 2])
    step = {"step_type": "load_memory", "memory_bank_id": notes.id, "key": "u1", "order": "oldest_first"}
    entries = json.loads(output(memory, step))["entries"]
    assert [one["content"] for one in entries] == ["note 0", "note 1", "note 2"]
    assert all({"content", "created_at", "title"} <= one.keys() for one in entries)
    assert json.loads(output(memory, {**step, "shape": "array", "limit": 1})) == [
        {"content": "note 0", "title": "note 0"}
    ]
    assert output(memory, {**step, "content_type": "text/plain"}) == "note 0\n---\nnote 1\n---\nnote 2"
    assert output(memory, {**step, "content_type": "application/xml"}).startswith("<entries>")
    told = json.loads(output(memory, {**step, "memory_bank_id": chats.id}))
    assert told[0] == {"role": "user", "content": "turn 0"}
    assert json.loads(output(memory, {**step, "key": "nobody"})) == {"entries": []}
    child = run(memory, {**step, "content_type": "text/plain", "steps": [text("got {{input}}", id="child")]})
    assert child.steps[1].output.startswith("got note 0")


def test_templates_in_typed_fields(memory: Memory, notes: Bank) -> None:
    """B1.15: what they become must fit."""
    for number in range(5):
        notes.add(f"note {number}", key="u1")
    step = {
        "step_type": "load_memory",
        "memory_bank_id": notes.id,
        "key": "u1",
        "limit": "{{metadata.n}}",
        "shape": "array",
    }
    assert len(json.loads(output(memory, step, metadata={"n": 2}))) == 2
    for wrong in (0, 1001, "many"):
        assert run(memory, step, metadata={"n": wrong}).status == "failed"


# -- models --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ScriptedServer]]:
    """A scripted server as the model of every memory that is opened from now on."""
    open_: list[ScriptedServer] = []

    def serve(*replies: Any, **how: Any) -> ScriptedServer:
        server = ScriptedServer(*replies, **how)
        server.__enter__()
        open_.append(server)
        monkeypatch.setenv("MEMWELL_LLM", f"openai:test@{server.url}?timeout_s=5")
        return server

    yield serve
    for server in open_:
        server.__exit__()


def asked(server: ScriptedServer, number: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.requests[number].body["messages"]
    return found


def test_a_prompt_is_made_of_templates(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.69, B1.19: prompt and system templates, temperature, max tokens; the input is the prompt by default."""
    server = served(["An answer."])
    with Memory(tmp_path / "home", worker=False) as memory:
        step = {
            "step_type": "prompt_call",
            "system_template": "Be {{metadata.user_id}}.",
            "temperature": 0.5,
            "max_tokens": 77,
        }
        assert output(memory, step) == "An answer."
        assert asked(server) == [{"role": "system", "content": "Be u1."}, {"role": "user", "content": "hello"}]
        body = server.requests[-1].body
        assert (body["temperature"], body["max_tokens"]) == (0.5, 77)
        output(memory, {**step, "prompt_template": "Say {{input}}"})
        assert asked(server)[1]["content"] == "Say hello"


@pytest.mark.parametrize("flag", ["use_step_input_as_messages", "input_is_messages"])
def test_each_message_is_sent_as_one(served: Callable[..., ScriptedServer], tmp_path: Path, flag: str) -> None:
    """S1.31, S1.58, B1.18: the array of a conversation bank goes to the model message by message."""
    server = served(["fine"])
    with Memory(tmp_path / "home", worker=False) as memory:
        bank = memory.banks.create("chats", max_turns=200)
        bank.add("first", key="u1", speaker="user")
        bank.add("second", key="u1", speaker="assistant")
        prompt = {"step_type": "prompt_call", flag: True, "system_template": "Be kind."}
        step = {"step_type": "add_memory", "memory_bank_id": bank.id, "key": "u1", "speaker": "user", "steps": [prompt]}
        assert run(memory, step, given="third").status == "done"
        assert asked(server) == [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "second"},
            {"role": "user", "content": "third"},
        ]
        assert run(memory, prompt, given="no array").status == "failed"


def test_the_prefix_that_a_model_sees_stays_the_same(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.32, C7: byte for byte, turn after turn."""
    server = served(lambda request: f"answer {len(request.body['messages'])}")
    with Memory(tmp_path / "home", worker=False) as memory:
        document = (EXAMPLES / "chatbot.yaml").read_text()
        for number in range(12):
            memory.workflows.run(document, f"question {number}", metadata={"user_id": "u1"})
    sent = [json.dumps(asked(server, number)) for number in range(12)]
    assert all(later.startswith(earlier[:-1]) for earlier, later in pairwise(sent))


def test_insight_by_rules_and_by_a_model(served: Callable[..., ScriptedServer], tmp_path: Path, memory: Memory) -> None:
    """S1.63, S1.69."""
    step = {"step_type": "insight", "extract": "preferences", "output": "json"}
    found = json.loads(output(memory, step, given="I prefer tea to coffee. The weather is nice."))
    assert len(found) == 1
    assert "tea" in found[0]
    served(["- Prefers tea.\n- Lives in Porto."])
    with Memory(tmp_path / "other", worker=False) as other:
        assert output(other, {"step_type": "insight"}, given="…") == "Prefers tea.\nLives in Porto."


def test_retrieval_over_a_bank_a_flow_or_a_user(memory: Memory, notes: Bank) -> None:
    """S1.68, S1.69, B1.17."""
    notes.add("The office is in Porto.", key="any")
    memory.flow("support").write("Ships to the EU only")
    step = {"step_type": "retrieval", "content_type": "text/plain"}
    assert output(memory, {**step, "memory_bank_id": notes.id}, given="office") == "The office is in Porto."
    assert output(memory, {**step, "flow": "support"}, given="ships EU") == "Ships to the EU only"
    assert json.loads(output(memory, {"step_type": "retrieval", "user": "alice"}, given="office")) == {"matches": []}
    with pytest.raises(Invalid, match="retrieval"):
        run(memory, step)


@pytest.mark.every_engine
def test_without_a_model_a_prompt_is_refused_at_the_start(memory: Memory, chats: Bank) -> None:
    with pytest.raises(Invalid, match="MEMWELL_LLM"):
        memory.workflows.run((EXAMPLES / "chatbot.yaml").read_text(), "hi", metadata={"user_id": "u1"})
    assert list(chats.entries()) == []
    assert memory.workflows.runs() == []


# -- the patterns --------------------------------------------------------------------------------------------------------


def pattern(memory: Memory, name: str, given: str) -> Run:
    return memory.workflows.run(
        (EXAMPLES / f"{name}.yaml").read_text(), given, metadata={"user_id": "u1", "project_id": "7"}
    )


def test_remember_and_recall(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.1, S1.61: what was learnt in one run is in the prompt of the next."""
    server = served(["Noted.", "The user is allergic to nuts.", "No nuts for you.", "nothing new"])
    with Memory(tmp_path / "home", worker=False) as memory:
        assert pattern(memory, "remember_and_recall", "I am allergic to nuts.").output == "Noted."
        assert pattern(memory, "remember_and_recall", "Which nuts may I eat?").output == "No nuts for you."
        assert "The user is allergic to nuts." in server.requests[2].prompt


def test_progressive_summarisation(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.62, C39: the summary takes the place of what it summarises."""
    server = served(["They talked about ten things."])
    with Memory(tmp_path / "home", worker=False) as memory:
        bank = memory.banks.create("chats", max_turns=200)
        for number in range(10):
            bank.add(f"thing {number}", key="u1", speaker="user")
        pattern(memory, "progressive_summary", "")
        assert "thing 0\n---\n" in server.requests[0].prompt
        assert bank.load("u1").messages == [
            {"role": "assistant", "content": "[Summary of 10 earlier messages]\nThey talked about ten things."}
        ]
        assert len(bank.load("u1", include_compacted=True).messages or []) == 11


def test_preference_learning_and_facts(memory: Memory) -> None:
    """S1.63: without any model."""
    assert pattern(memory, "preference_learning", "I prefer tea to coffee.").status == "done"
    assert (
        pattern(memory, "facts_of_a_project", "The deadline is the 3rd of May. I work on the backend.").status == "done"
    )
    found = {one.name: memory.banks.open(one.id) for one in memory.banks.list().memory_banks}
    assert "tea" in found["preferences"].search("drink", key="u1").matches[0].content
    assert found["projects"].search("backend", key="project-7").matches


def test_the_personal_chatbot(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.64: preferences and history together, and three things side by side; what is kept is what the user prefers."""
    server = served(lambda asked: "Prefers trains." if "Extract" in asked.prompt else "Aisle, as always.")
    with Memory(tmp_path / "home", worker=False) as memory:
        bank = memory.banks.create("preferences", type="general", retention_days=None)
        bank.add("prefers aisle seats", key="u1")
        done = pattern(memory, "combined", "Which seat should I book? I prefer trains.")
        assert done.output == "Aisle, as always."
        assert "prefers aisle seats" in asked(server, 0)[0]["content"]
        assert asked(server, 0)[-1]["content"] == "Which seat should I book? I prefer trains."
        assert len(done.steps) == 7
        assert [one.content for one in bank.load("u1", order="oldest_first").entries or []] == [
            "prefers aisle seats",
            "Prefers trains.",
        ]


@pytest.mark.every_engine
def test_the_chatbot(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.65."""
    served(["Hi!"])
    with Memory(tmp_path / "home", worker=False) as memory:
        done = pattern(memory, "chatbot", "Hello")
        assert done.output == "Hi!"
        (bank,) = memory.banks.list().memory_banks
        assert memory.banks.open(bank.id).load("u1", order="oldest_first").messages == [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi!"},
        ]


def test_ways_to_search(served: Callable[..., ScriptedServer], tmp_path: Path, clock: FrozenClock) -> None:
    """S1.66: filtered, time-bounded, across keys."""
    server = served(["ok"])
    with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
        projects = memory.banks.create("projects", type="general")
        projects.add("We decided on blue.", key="project-7", metadata={"category": "decision"})
        projects.add("We talked about blue.", key="project-7", metadata={"category": "chat"})
        notes = memory.banks.create("notes", type="general")
        notes.add("blue, long ago", key="u1")
        clock.advance(days=8)
        notes.add("blue, lately", key="u1")
        notes.add("blue of somebody else", key="u2")
        filtered = json.loads(pattern(memory, "filtered_search", "blue").output or "")["matches"]
        assert [one["content"] for one in filtered] == ["We decided on blue."]
        bounded = json.loads(pattern(memory, "time_bounded_recall", "blue").output or "")["matches"]
        assert [one["content"] for one in bounded] == ["blue, lately"]
        pattern(memory, "cross_key_search", "blue")
        assert "blue of somebody else" in server.requests[-1].prompt


def test_ways_to_load(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.67: the last N, an export, all preferences."""
    server = served(["ok"])
    with Memory(tmp_path / "home", worker=False) as memory:
        notes = memory.banks.create("notes", type="general")
        projects = memory.banks.create("projects", type="general")
        memory.banks.create("preferences", type="general", retention_days=None).add("likes tea", key="u1")
        for number in range(15):
            notes.add(f"note {number}.", key="u1")
            projects.add(f"line {number}", key="project-7")
        pattern(memory, "last_entries", "what now?")
        assert "note 14." in server.requests[-1].prompt
        assert "note 4." not in server.requests[-1].prompt
        exported = pattern(memory, "export_as_text", "").output
        assert exported == "\n---\n".join(f"line {number}" for number in range(15))
        pattern(memory, "all_preferences", "what to drink?")
        assert "likes tea" in server.requests[-1].prompt


@pytest.mark.every_engine
def test_context_enrichment(memory: Memory) -> None:
    """S1.68: memory before a retrieval."""
    memory.banks.create("preferences", type="general", retention_days=None).add("vegetarian", key="u1")
    knowledge = memory.banks.create("knowledge", type="general")
    knowledge.add("Vegetarian restaurants: the green fig.", key="guide")
    assert "green fig" in (pattern(memory, "context_enrichment", "where to eat").output or "")


@pytest.mark.every_engine
def test_every_example_is_valid(memory: Memory) -> None:
    memory.definitions.create("Customer Profile", schema={"type": "object"})  # named by one of them
    function("lookup_order")(lambda order: order)
    found = sorted(EXAMPLES.glob("*.yaml"))
    assert len(found) >= 15
    for path in found:
        checked = memory.workflows.validate(path.read_text())
        assert (path.name, checked.problems, checked.unresolved_banks) == (path.name, [], [])
