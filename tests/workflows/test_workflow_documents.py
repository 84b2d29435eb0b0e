"""Documents of workflows: everything that is wrong is said before anything runs, each with where it stands."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.errors import Invalid
from memwell.workflows.operations import parse_document
from memwell.workflows.source import read_source
from memwell.workflows.tree_document import TreeDocument

from ..cases import cases
from ..engines import Memory
from ..scripted import ScriptedServer

pytestmark = pytest.mark.engines()

EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"


def problems(source: str | dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse_document(source)
    return {one["path"]: one["reason"] for one in caught.value.details["problems"]}


def tree(source: str | dict[str, Any]) -> TreeDocument:
    found = parse_document(source)
    assert isinstance(found, TreeDocument)
    return found


def one(**fields: Any) -> dict[str, Any]:
    return {"name": "test", "steps": [{"step_type": "text", "template": "x", **fields}]}


@cases(
    ("text", "where"),
    [
        ("name: x\nsteps:\n  - step_type: [", "line 4, column 1"),
        ("name: x\n\tsteps: []", "line 2, column 1"),
        ("a: 'x", "line 1, column"),
        ("a: &b [1]\nc: *b", "line 1, column 4"),
        ("a: b\nc: *b", "line 2, column 4"),
        ("name: x\nname: y", "line 2"),
        ("a: !!python/object:os.system x", "line 1, column 4"),
        ("a: !!str x", "line 1, column 4"),
        ("!!omap\na: x", "line 1, column 1"),
        ("a:\n  b: !own [x]", "line 2, column 6"),
        ("a: 1\nb: .nan", "line 2, column 4"),
        ("a: 1\n---\nb: 1", "line 2, column 1"),
        ("a: 1\nb: \x01", "line 2, column 4"),
        ("? [1, 2]\n: 3", "line 1"),
    ],
)
def test_broken_yaml_is_named_by_line_and_column(text: str, where: str) -> None:
    with pytest.raises(Invalid, match=where):
        read_source(text)


@cases("text", ["", "[" * 5000, "a: " + "[" * 100 + "]" * 100, "x" * (1024 * 1024 + 1), "- 1\n" * 110_000])
def test_texts_beyond_limits_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_document(text)


BASE = "name: x\nsteps: [{step_type: text, template: hi}]\nversion: "


@cases(
    "text",
    [
        BASE + "[" + "a," * 500_000 + "]",
        BASE + "[" + "a," * 40_000 + "]",
        BASE + "{" + ",".join(f"k{n}: 1" for n in range(90_000)) + "}",
        BASE + "1" + ":1" * 500_000,
        BASE + "1" * 1_000_000,
        BASE + "0x" + "f" * 1_000_000,
        BASE + "{" + "k" * 500_000 + ": " + "[a]" * 100_000,
        "[" * 1_000_000,
        "{a: " * 250_000,
        "- " * 500_000,
        "\n".join(f"k{n}: 1" for n in range(80_000)),
    ],
    ids=range(11),
)
def test_no_text_of_a_mebibyte_takes_long(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(Invalid):
        parse_document(text[: 1024 * 1024])
    assert time.process_time() - began < 2, "of old it was up to half a minute"


@cases(
    ("scalar", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0x1f", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2026-01-02", "2026-01-02"),
        ("'12'", "12"),
        ('"\\u00e9"', "é"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(scalar: str, value: Any) -> None:
    found = read_source(f"a: {scalar}\n").value["a"]
    assert (found, type(found)) == (value, type(value))


def test_json_is_yaml_too_with_characters_in_two_halves() -> None:
    assert tree(json.dumps(one(template="😀 \\ud83d"))).steps[0].fields["template"] == "😀 \\ud83d"


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@cases(
    ("field", "reason"),
    [
        (nested(101), "deeper than 100"),
        (nested(900), "deeper than 100"),
        ([1] * 60_000, "more than 50000 parts"),
        (["x" * 1000] * 1100, "larger than 1 MiB"),
        (2**64, "too large"),
        (float("nan"), "JSON cannot express"),
        ("\ud800", "surrogate"),
        ("a\x00b", "NUL"),
        ({1: 2}, "a key must be text"),
        ({1, 2}, "JSON cannot express"),
    ],
    ids=range(10),
)
def test_objects_have_the_limits_of_texts(field: Any, reason: str) -> None:
    for source in ({**one(), "version": field}, one(entry_metadata=field)):
        (found,) = problems(source).values()
        assert reason in found


def test_deep_values_are_refused_by_every_operation(tmp_path: Path) -> None:
    """Not a failure of the server, and nothing that could not be read again."""
    deep = {"step_type": "add_memory", "memory_bank_id": "b", "key": "k", "entry_metadata": nested(500)}
    with Memory(tmp_path, worker=False) as memory:
        assert not memory.workflows.validate({"steps": [deep]}).valid
        for act in (memory.workflows.create, memory.workflows.run):
            with pytest.raises(Invalid, match="deeper"):
                act({"steps": [deep]})
        assert memory.workflows.list() == []


def test_thirty_levels_of_steps_can_be_written_as_text() -> None:
    deep: dict[str, Any] = {"step_type": "text", "template": "x"}
    for _ in range(29):
        deep = {"step_type": "text", "template": "x", "steps": [deep]}
    assert sum(1 for _ in parse_document(json.dumps({"name": "x", "steps": [deep]})).walk()) == 30


@cases(
    ("text", "path", "line", "column"),
    [
        ("name: [", "", 2, 1),
        ("name: &a x\nversion: *a", "name", 1, 7),
        ("steps:\n  - step_type: text\n    template: a\n    template: b", "steps[0].template", 4, 5),
        ("steps:\n  - step_type: text", "steps[0].template", 2, 5),
        ("name: x", "steps", 1, 1),
        ("", "", 1, 1),
        ("x" * (1024 * 1024 + 1), "", 1, 1),
        (
            "steps:\n  - step_type: load_memory\n    memory_bank_id: none\n    key: k",
            "steps[0].memory_bank_id",
            3,
            5,
        ),
        ("steps:\n  - step_type: text\n    template: |\n      {{x}}", "steps[0].template", 3, 5),
    ],
    ids=range(9),
)
def test_every_problem_has_a_path_a_line_and_a_column(
    tmp_path: Path, text: str, path: str, line: int, column: int
) -> None:
    with Memory(tmp_path, worker=False) as memory:
        (found,) = memory.workflows.validate(text).problems
    assert found == {"path": path, "line": line, "column": column, "reason": found["reason"]}
    assert found["reason"]


@pytest.mark.parametrize("document", ["", "---", "x", "- x", {}])
def test_documents_that_are_no_workflow_are_refused_by_every_operation(document: Any, tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        for operation in ("workflows.create", "runs.begin_document"):
            with pytest.raises(Invalid, match="The workflow has 1 problem"):
                memory.call(operation, {"document": document})


def test_problems_of_objects_have_no_line(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        (found,) = memory.workflows.validate({"steps": [{"step_type": "text"}]}).problems
    assert found == {"path": "steps[0].template", "line": None, "column": None, "reason": "it is missing."}


def test_missing_and_ambiguous_banks_stand_beside_the_other_problems(tmp_path: Path) -> None:
    load = {"step_type": "load_memory", "key": "k"}
    with Memory(tmp_path, worker=False) as memory:
        for _ in range(2):
            memory.banks.create("twice", type="general")
        steps = [{**load, "memory_bank_id": name} for name in ("none", "twice", "mine", "none")]
        source = {"memory_banks": {"mine": {}}, "steps": [*steps, {"step_type": "jump"}]}
        checked = memory.workflows.validate(source)
    assert {one["path"]: one["reason"].split(":")[0] for one in checked.problems} == {
        "steps[0].memory_bank_id": "there is no memory bank 'none'.",
        "steps[1].memory_bank_id": "there are 2 memory banks called 'twice'",
        "steps[3].memory_bank_id": "there is no memory bank 'none'.",
        "steps[4].step_type": checked.problems[0]["reason"].split(":")[0],
    }
    assert (checked.valid, checked.unresolved_banks) == (False, ["none", "twice"])


@cases(
    ("settings", "path"),
    [
        ({"typ": "general"}, ".typ"),
        ({"type": "notes"}, ".type"),
        ({"max_turns": -1}, ".max_turns"),
        ({"max_turns": "many"}, ".max_turns"),
        ({"name": "other"}, ".name"),
        (5, ""),
    ],
)
def test_settings_of_banks_are_checked(settings: Any, path: str) -> None:
    assert set(problems({**one(), "memory_banks": {"b": settings}})) == {f"memory_banks.b{path}"}


@pytest.mark.parametrize(
    ("settings", "path"),
    [({"language": "xx"}, ".language"), ({"max_turns": -1}, ".max_turns"), ({"chunk_size": 9}, ".chunk_size")],
)
def test_a_check_says_which_banks_could_not_be_made(tmp_path: Path, settings: dict[str, Any], path: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        (found,) = memory.workflows.validate({**one(), "memory_banks": {"b": settings}}).problems
    assert found["path"] == f"memory_banks.b{path}"


@cases(
    ("fields", "path"),
    [
        ({"memory_banks": 0}, "memory_banks"),
        ({"memory_banks": False}, "memory_banks"),
        ({"description": 5}, "description"),
        ({"steps": False}, "steps"),
        ({"steps": ""}, "steps"),
        ({"steps": []}, "steps"),
        ({"steps": [{"step_type": "text", "template": "x", "steps": False}]}, "steps[0].steps"),
        ({"steps": [{"step_type": "text", "template": "x", "steps": ""}]}, "steps[0].steps"),
        ({"steps": [{"step_type": "text", "template": "x", "child_steps": 0}]}, "steps[0].child_steps"),
    ],
    ids=range(9),
)
def test_what_is_nothing_only_looks_like_it(fields: dict[str, Any], path: str) -> None:
    assert set(problems({**one(), **fields})) == {path}


ADD = {"step_type": "add_memory", "memory_bank_id": "chats", "key": "k"}
SEARCH = {"step_type": "search_memory", "memory_bank_id": "notes"}


@cases(
    ("step", "path"),
    [
        (ADD, "speaker"),
        ({**ADD, "speaker": "tool"}, "speaker"),
        ({**ADD, "speaker": "user", "key": " "}, "key"),
        ({**ADD, "speaker": "user", "entry_metadata": {"run_id": "x"}}, "entry_metadata"),
        ({**ADD, "speaker": "user", "entry_metadata": nested(20)}, "entry_metadata"),
        ({**SEARCH, "filter": {"a": {"$almost": 1}}}, "filter"),
        ({**SEARCH, "filter": {"a": {"$almost": "{{input}}"}}}, "filter"),
        ({**SEARCH, "added_after": "whenever"}, "added_after"),
        ({**SEARCH, "added_before": "2026-13-01"}, "added_before"),
        ({"step_type": "retrieval", "user": "u", "filter": {"$x": 1}}, "filter"),
        ({"step_type": "retrieval"}, ""),
        ({"step_type": "retrieval", "user": "u", "flow": "f"}, ""),
        ({"step_type": "prompt_call", "prompt_template": " "}, "prompt_template"),
    ],
    ids=range(13),
)
def test_literal_values_are_judged_before_a_run(step: dict[str, Any], path: str) -> None:
    source = {"memory_banks": {"chats": {"type": "conversation"}, "notes": {"type": "general"}}, "steps": [step]}
    assert set(problems(source)) == {f"steps[0].{path}".rstrip(".")}


def test_a_bank_that_may_be_there_already_is_not_judged(tmp_path: Path) -> None:
    """What it is called says nothing about its type."""
    step = {**ADD, "memory_bank_id": "notes"}
    source = {"name": "x", "memory_banks": {"notes": {"description": "Notes."}}, "steps": [step]}
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.banks.create("notes", type="general")
        assert memory.workflows.validate(source).valid
        assert memory.workflows.run(source, "A note.").status == "done"


@cases(
    "step",
    [
        {**ADD, "speaker": "user"},
        {**ADD, "speaker": "{{metadata.who}}"},
        {**ADD, "memory_bank_id": "notes"},
        {**ADD, "memory_bank_id": "of unknown type"},
        {**SEARCH, "filter": {"a": {"$in": ["{{input}}", 2]}}, "added_after": "{{metadata.since}}"},
        {**SEARCH, "added_after": "2026-01-01", "added_before": ""},
        {"step_type": "retrieval", "user": "{{metadata.user}}", "flow": "{{metadata.flow}}"},
        {"step_type": "prompt_call", "prompt_template": "", "use_step_input_as_messages": True},
    ],
    ids=range(8),
)
def test_what_only_a_run_can_tell_is_left_to_it(step: dict[str, Any]) -> None:
    assert parse_document({"memory_banks": {"chats": {}, "notes": {"type": "general"}}, "steps": [step]})


def test_no_document_answers_with_more_than_a_hundred_problems() -> None:
    assert len(problems({**one(), **{f"k{number}": 1 for number in range(500)}})) == 100


@pytest.mark.engines("sqlite")  # a file that an older program has written
def test_a_stored_workflow_that_would_be_refused_today_can_still_be_read(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        bank = memory.banks.create("notes", type="general")
        stored = memory.workflows.create({"steps": [SEARCH]})
        old = b'{"steps": [{"step_type": "search_memory", "memory_bank_id": "notes", "top_n": 500}]}'
        with sqlite3.connect(tmp_path / "tenants" / "default.db") as database:
            database.execute("UPDATE document SET body = ? WHERE kind = 'workflow'", (old.decode(),))
        assert memory.workflows.get(stored.id).document == json.loads(old)
        assert [one.agent_id for one in memory.call("banks.agents", {"bank": bank.id})] == [stored.id]


def test_every_problem_is_said_at_once_with_its_path_and_line() -> None:
    text = """
name: test
surprise: 1
steps:
  - step_type: search_memory
    memory_bank_id: b
    top_n: 101
    colour: red
    steps:
      - step_type: streaming_result
  - step_type: jump
  - step_type: load_memory
    limit: 1001
    key: "{{nothing.at_all}}"
    id: "two words"
"""
    found = problems(text)
    assert set(found) == {
        "surprise",
        "steps[0].top_n",
        "steps[0].colour",
        "steps[0].steps[0]",
        "steps[1].step_type",
        "steps[2].limit",
        "steps[2].key",
        "steps[2].id",
        "steps[2].memory_bank_id",
    }
    assert "there is no `nothing`" in found["steps[2].key"]
    with pytest.raises(Invalid) as caught:
        parse_document(text)
    lines = {one["path"]: one["line"] for one in caught.value.details["problems"]}
    assert (lines["surprise"], lines["steps[0].top_n"], lines["steps[2].limit"]) == (3, 7, 13)


@cases(
    ("template", "reason"),
    [
        ("{{inptu}}", "not known"),
        ("{{agent.age}}", "not known"),
        ("{{step.nobody.output}}", "no step"),
        ("{{1 wek ago}}", "neither a name nor a time"),
        ("{{input", "closed"),
        ("{{}}", "no name"),
        ("{{secrets.key}}", "no `secrets`"),
        ("{{step.me.ouput}}", "a step has `input`, `output`"),
        ("{{step.me}}", "a step has `input`, `output`"),
        ("{{step.me.output.x}}", "does not exist"),
        ("{{input[3]}}", "does not exist"),
        ("{{input.name}}", "does not exist"),
        ("{{agent.input[0]}}", "does not exist"),
        ("{{organization.name.x}}", "does not exist"),
        ("{{metadata}}", "not known"),
        ("{{20000 days ago}}", "at most 10000"),
    ],
)
def test_templates_are_checked_before_running(template: str, reason: str) -> None:
    """C18: unknown names and namespaces are refused."""
    (found,) = set(problems(one(template=template, id="me")).values())
    assert reason in found


def test_templates_inside_of_fields_are_checked_whatever_they_are_called() -> None:
    step = {"step_type": "add_memory", "memory_bank_id": "b", "key": "k", "entry_metadata": {"name": ["{{nobody}}"]}}
    assert set(problems({"steps": [step]})) == {"steps[0].entry_metadata.name[0]"}


def test_templates_that_are_fine() -> None:
    fine = "{{input}} {{ agent.input }} {{metadata.a.b[0]}} {{step.me.output}} {{1 week ago}} {{yesterday}} {{now}}"
    assert tree(one(template=fine, id="me")).steps[0].id == "me"


def test_ids_are_unique_and_made_where_there_is_none() -> None:
    double = {"name": "x", "steps": [{"step_type": "text", "template": "x", "id": "a"} for _ in range(2)]}
    assert "steps[1].id" in problems(double)
    made = parse_document(
        {
            "name": "x",
            "steps": [{"step_type": "text", "template": "x", "child_steps": [{"step_type": "display_result"}]}],
        }
    )
    assert [node.id for node in made.walk()] == ["step-1", "step-1-1"]


@cases("field", ["retries", "cache_minutes", "timeout_s", "id"])
def test_how_a_step_runs_is_no_template(field: str) -> None:
    assert "cannot be a template" in str(problems(one(**{field: "{{input}}"})))


def test_trees_have_limits() -> None:
    wide = {"name": "x", "steps": [{"step_type": "text", "template": "x"}] * 201}
    assert "more than 200 steps" in str(problems(wide))
    deep: dict[str, Any] = {"step_type": "text", "template": "x"}
    for _ in range(31):
        deep = {"step_type": "text", "template": "x", "steps": [deep]}
    assert "deeper" in str(problems({"name": "x", "steps": [deep]}))


def test_aliases_of_steps() -> None:
    """C30."""
    steps = [
        {"step_type": "add_chat_turn", "memory_bank_id": "b", "key": "k", "speaker": "user"},
        {"step_type": "load_chat_history", "memory_bank_id": "b", "key": "k"},
    ]
    assert [node.kind for node in tree({"name": "x", "steps": steps}).steps] == ["add_memory", "load_memory"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_no_value_is_anything_but_refused_or_taken(value: Any) -> None:
    for source in (value, {"name": "x", "steps": value}, {"name": "x", "steps": [value]}):
        try:
            parse_document(source)
        except Invalid:
            continue


@given(st.text(max_size=200))
def test_no_text_is_anything_but_refused_or_taken(text: str) -> None:
    try:
        parse_document(text)
    except Invalid:
        return


def test_an_insight_keeps_the_numbers_of_what_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mark of a list goes, and nothing else."""
    answer = [
        "1984 is the user's favourite book",
        "3 children live with the user",
        "- likes tea - and cake",
        " 12. has a cat",
        "3) - counts down",
        "2024-05-01: moved to Porto",
        "• 7 is their number",
        "---",
    ]
    with ScriptedServer(["\n".join(answer)]) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:any@{server.url}")
        with Memory(tmp_path, worker=False) as memory:
            found = memory.workflows.run({"steps": [{"step_type": "insight"}]}, "text").output
    assert (found or "").splitlines() == [
        "1984 is the user's favourite book",
        "3 children live with the user",
        "likes tea - and cake",
        "has a cat",
        "- counts down",
        "2024-05-01: moved to Porto",
        "7 is their number",
    ]


def test_the_summary_of_the_examples_is_of_all_that_can_be_loaded() -> None:
    load, *_ = tree((EXAMPLES / "progressive_summary.yaml").read_text()).steps
    assert (load.fields["limit"], load.fields["order"]) == (1000, "oldest_first")
