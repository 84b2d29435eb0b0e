"""Documents of workflows: everything that is wrong is said before anything runs, each with where it stands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memwell.errors import Invalid
from memwell.workflow.document import parse
from memwell.workflow.yaml_text import read


def problems(source: str | dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse(source)
    return {one["path"]: one["reason"] for one in caught.value.details["problems"]}


def one(**fields: Any) -> dict[str, Any]:
    return {"name": "test", "steps": [{"step_type": "text", "template": "x", **fields}]}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name: x\nsteps:\n  - step_type: [", "line 3, column 17"),
        ("name: x\n\tsteps: []", "line 2, column 1"),
        ("a: 'x", "line 1, column"),
        ("a: &b [1]\nc: *b", "line 1"),
        ("name: x\nname: y", "line 2"),
        ("a: !!python/object:os.system x", "line 1"),
        ("? [1, 2]\n: 3", "line 1"),
    ],
)
def test_broken_yaml_is_named_by_line_and_column(text: str, where: str) -> None:
    with pytest.raises(Invalid, match=where):
        read(text)


@pytest.mark.parametrize(
    "text", ["", "[" * 5000, "a: " + "[" * 100 + "]" * 100, "x" * (1024 * 1024 + 1), "- 1\n" * 110_000]
)
def test_texts_beyond_limits_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse(text)


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
        parse(text)
    lines = {one["path"]: one["line"] for one in caught.value.details["problems"]}
    assert (lines["surprise"], lines["steps[0].top_n"], lines["steps[2].limit"]) == (3, 7, 13)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{inptu}}", "not known"),
        ("{{agent.age}}", "not known"),
        ("{{step.nobody.output}}", "no step"),
        ("{{1 wek ago}}", "neither a name nor a time"),
        ("{{input", "closed"),
        ("{{}}", "no name"),
        ("{{secrets.key}}", "no `secrets`"),
    ],
)
def test_templates_are_checked_before_running(template: str, reason: str) -> None:
    """C18: unknown names and namespaces are refused."""
    (found,) = set(problems(one(template=template)).values())
    assert reason in found


def test_templates_that_are_fine() -> None:
    fine = "{{input}} {{ agent.input }} {{metadata.a.b[0]}} {{step.me.output}} {{1 week ago}} {{yesterday}} {{now}}"
    assert parse(one(template=fine, id="me")).steps[0].id == "me"


def test_ids_are_unique_and_made_where_there_is_none() -> None:
    double = {"name": "x", "steps": [{"step_type": "text", "template": "x", "id": "a"} for _ in range(2)]}
    assert "steps[1].id" in problems(double)
    made = parse(
        {
            "name": "x",
            "steps": [{"step_type": "text", "template": "x", "child_steps": [{"step_type": "display_result"}]}],
        }
    )
    assert [node.id for node in made.walk()] == ["step-1", "step-1-1"]


@pytest.mark.parametrize("field", ["retries", "cache_minutes", "timeout_s", "id"])
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
    assert [node.kind for node in parse({"name": "x", "steps": steps}).steps] == ["add_memory", "load_memory"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_no_value_is_anything_but_refused_or_taken(value: Any) -> None:
    for source in (value, {"name": "x", "steps": value}, {"name": "x", "steps": [value]}):
        try:
            parse(source)
        except Invalid:
            continue


@given(st.text(max_size=200))
def test_no_text_is_anything_but_refused_or_taken(text: str) -> None:
    try:
        parse(text)
    except Invalid:
        return
