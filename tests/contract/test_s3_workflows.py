"""S3: workflows of tasks: definitions and a flow in YAML, expressions, blocks, `update_memory` as a task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, function

from ..engines import Memory
from .task_documents import ANSWER, GREET, NAME, SAVE, define, done, registered, run, tasks, values

pytestmark = pytest.mark.every_engine

__all__ = ["registered"]


# -- expressions ---------------------------------------------------------------------------------------------------------


def test_memory_is_read_in_expressions(memory: Memory) -> None:
    """S3.23, S3.24, S3.25, S3.39: by slug; global definitions are there without being declared; what is missing is no error."""
    define(memory)
    assert done(memory, GREET) == "Hello there"
    memory.definitions.bind(["customer_profile"], owner="u1").update({"customer_profile": {"preferred_name": "Ada"}})
    assert done(memory, GREET) == "Hello Ada"
    assert done(memory, GREET, owner="u2") == "Hello there"
    exists = tasks(say=("send_text_message", {"text": "=$exists($context.memory.nothing.at.all) ? 'yes' : 'no'"}))
    assert done(memory, exists) == "no"


def test_the_input_is_read_in_expressions_also_inside_of_objects(memory: Memory) -> None:
    """S3.26: `$input.<field>`; a plain text is `$input.text`; what a task gave is `$output.<task>`."""
    deep = tasks(
        one=("send_text_message", {"text": "=$input.name & '!'"}),
        two=("send_text_message", {"text": "=$output.one.text & $context.metadata.channel"}),
        outputs={"all": {"name": "=$input.name", "list": ["=$output.two.text", "as it is"]}, "none": "=$input.nothing"},
    )
    found = json.loads(done(memory, deep, {"name": "Ada"}, metadata={"channel": "web"}))
    assert found == {"all": {"name": "Ada", "list": ["Ada!web", "as it is"]}}
    assert done(memory, tasks(say=("send_text_message", {"text": "=$uppercase($input.text)"})), "hello") == "HELLO"


def test_only_what_the_author_wrote_is_evaluated(memory: Memory, registered: list[Any]) -> None:
    """S3.24, B3.24: an input, a stored value, metadata and what a function gave are only ever text, whatever they begin with."""
    define(memory, schema={"type": "object", "additionalProperties": True})
    evil = "=$context.memory.customer_profile.secret"
    memory.definitions.bind(["customer_profile"], owner="u1").update(
        {"customer_profile": {"note": evil, "secret": "hush", "list": [evil, "{{memory.customer_profile.secret}}"]}}
    )
    echo = tasks(
        fetch=("lookup_order", {"order": "=$input.text"}),
        keep=("update_memory", {"memory": {"customer_profile": {"note": "=$input.text", "was": "=$output.fetch"}}}),
        say=("send_text_message", {"text": "=$context.memory.customer_profile.note & '|' & $context.metadata.m"}),
        outputs={"said": "=$output.say.text", "list": "=$output.keep.memory.customer_profile.was"},
    )
    found = json.loads(done(memory, echo, evil, metadata={"m": "=1+1 {{7*7}} $context"}))
    assert found == {"said": f"{evil}|=1+1 {{{{7*7}}}} $context", "list": {"order": evil, "state": "shipped"}}
    assert values(memory, "customer_profile")["customer_profile"]["note"] == evil
    assert registered == [(evil, 1)]


def test_an_expression_that_never_ends_fails_its_task(memory: Memory) -> None:
    """T9."""
    loop = tasks(say=("send_text_message", {"text": "=($f := function($n) { $f($n + 1) }; $f(0))"}))
    found = run(memory, loop)
    assert (found.status, found.steps[0].status) == ("failed", "failed")
    assert done(memory, tasks(say=("send_text_message", {"text": "=1 + 1"}))) == "2"


# -- update_memory as a task ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["global", "workflow", "thread", "run"])
def test_a_task_writes_memory(memory: Memory, scope: str) -> None:
    """S3.38, S3.39, S3.40, S3.12–S3.15: the task needs no bindings; global definitions are there, the others are declared."""
    definition = define(memory, scope=scope)
    document = SAVE.format(definition=definition, slug="customer_profile")
    workflow = memory.workflows.create(document)
    found = run(memory, workflow.id, {"name": "Ada", "language": "en"}, thread="t1")
    assert (found.status, found.error) == ("done", None)
    written = {"preferred_name": "Ada", "language": "en"}
    assert json.loads(found.output or "") == {"memory": {"customer_profile": written}}
    where = {"global": {}, "workflow": {"workflow": workflow.id}, "thread": {"thread": "t1"}, "run": {"run": found.id}}
    kept = {} if scope == "run" else {"customer_profile": written}
    assert values(memory, "customer_profile", **where[scope]) == kept
    assert values(memory, "customer_profile", owner="u2", **where[scope]) == {}


def test_undeclared_stores_cannot_be_written(memory: Memory) -> None:
    """S3.40, S3.41: names first, then whether they are known, then whether the value fits."""
    define(memory, "Session Notes", scope="thread")
    define(memory)

    def error(**memories: Any) -> str:
        found = run(memory, tasks(save=("update_memory", {"memory": "=$input"})), memories, thread="t1")
        assert found.status == "failed"
        return found.error or ""

    assert 'Unknown memory definition "session_notes"' in error(session_notes={})
    assert "lowercase letters, numbers, and underscores" in error(**{"Bad-Slug": {}, "nothing": {}})
    assert 'Unknown memory definition "nothing"' in error(nothing={}, customer_profile={"language": 7})
    assert "`memory.customer_profile`" in error(customer_profile={"language": 7})
    assert "language" in error(customer_profile={"language": 7})
    assert values(memory, "customer_profile") == {}


def test_memory_needs_an_owner(memory: Memory) -> None:
    """S3.11, B3.4."""
    define(memory)
    found = memory.workflows.run(tasks(save=("update_memory", {"memory": {"customer_profile": {}}})), "")
    assert "An owner id is required" in (found.error or "")


def test_later_tasks_see_what_was_written(memory: Memory) -> None:
    """S3.23, B3.9, S3.36: and what is given takes the place of what was there."""
    define(memory)
    both = tasks(
        first=("update_memory", {"memory": {"customer_profile": {"preferred_name": "=$input.text", "language": "en"}}}),
        second=("update_memory", {"memory": {"customer_profile": {"language": NAME}}}),
        say=("send_text_message", {"text": "=$string($context.memory.customer_profile)"}),
    )
    assert json.loads(done(memory, both, "Ada")) == {"language": "Ada"}


# -- bindings and documents ----------------------------------------------------------------------------------------------


def test_the_examples_are_accepted_without_outputs(memory: Memory) -> None:
    """S3.18, S3.19, S3.20, S3.21: also by slug, and the key at run time is the slug, whatever the binding is called."""
    for definition in (define(memory), "customer_profile"):
        for text in (
            GREET,
            SAVE.format(definition=definition, slug="customer_profile"),
            ANSWER.format(definition=definition, action="ai_generate_reply"),
        ):
            checked = memory.workflows.validate(text)
            assert (checked.valid, checked.problems) == (True, [])
            assert memory.workflows.create(text).document is not None


def test_a_definition_that_there_is_not_is_refused(memory: Memory, tmp_path: Path) -> None:
    """S3.28, C29: when the workflow is saved, when it is checked, and when it is run; another tenant's is none."""
    with Memory(tmp_path / "home", tenant="other", worker=False) as other:
        foreign = define(other)
    text = SAVE.format(definition=foreign, slug="customer_profile")
    for refused in (lambda: memory.workflows.create(text), lambda: memory.workflows.run(text, "", owner="u1")):
        with pytest.raises(Invalid, match="Unable to find memory definition") as caught:
            refused()
        (problem,) = caught.value.details["problems"]
        assert problem["path"] == "defs.customer_profile_memory.settings.definition_id"
    (problem,) = memory.workflows.validate(text).problems
    assert (problem["line"], problem["column"]) == (7, 7)


def test_the_tool_name_is_reserved(memory: Memory) -> None:
    """S3.37, C21, unlike B3.13: a custom tool of that name is refused when the workflow is saved."""
    for name, action in (("update_memory", "lookup_order"), ("custom", "update_memory")):
        tool = {"kind": "tools", "action": action}
        agent = {"kind": "task", "action": "ai_agent", "bindings": {"tools": [name]}}
        document = {"name": "test", "defs": {name: tool, "answer": agent}, "flow": [{"do": "answer"}]}
        with pytest.raises(Invalid, match="`update_memory` is the name of the tool"):
            memory.workflows.create(document)


def test_every_problem_is_named_with_its_place(memory: Memory) -> None:
    """B3.18–B3.22: all at once, each with path, line and column."""
    text = """name: wrong
extra: 1
defs:
  Bad-Name: {kind: task, action: send_text_message, inputs: {text: hi}}
  odd: {kind: pipeline}
  none: {kind: memory}
  memo: {kind: memory, settings: {definition_id: x, more: 1}}
  model: {kind: model, settings: {provider: openai, model_id: m, url: http://x}}
  shout: {kind: task, action: send_text_message, inputs: {text: "=1 +", loud: true}}
  typo: {kind: task, action: ai_generate_rely}
  agent:
    kind: task
    action: ai_agent
    inputs: {messages_limit: 0, input_mode: "=x"}
    settings: {timeout_ms: -1, retries: {max_attempts: 99}}
    bindings: {model: memo, memory: [memo, memo, absent], tools: [model]}
  object: {kind: task, action: ai_generate_object}
flow:
  - do: nothing
  - do: memo
  - loop: {}
  - parallel: {strategy: race, steps: []}
  - conditional:
      when:
        - {else: true, steps: [{do: shout}]}
        - {condition: 1, steps: [{do: shout}]}
outputs: [1]
"""
    checked = memory.workflows.validate(text)
    found = {one["path"]: one["reason"] for one in checked.problems}
    assert not checked.valid
    assert {
        "extra",
        "defs.Bad-Name",
        "defs.odd.kind",
        "defs.none.settings",
        "defs.memo.settings.more",
        "defs.model.settings.url",
        "defs.shout.inputs.text",
        "defs.shout.inputs.loud",
        "defs.typo.action",
        "defs.agent.inputs.messages_limit",
        "defs.agent.inputs.input_mode",
        "defs.agent.settings.timeout_ms",
        "defs.agent.settings.retries",
        "defs.agent.bindings.model",
        "defs.agent.bindings.memory",
        "defs.agent.bindings.tools",
        "defs.object.settings.output_schema",
        "flow[0].do",
        "flow[1].do",
        "flow[2]",
        "flow[3].parallel.strategy",
        "flow[3].parallel.steps",
        "flow[4].conditional.when[0].else",
        "flow[4].conditional.when[1].condition",
        "outputs",
    } <= set(found), found
    assert "there are no loops" in found["flow[2]"]
    assert "expression cannot be read" in found["defs.shout.inputs.text"]
    (place,) = [(one["line"], one["column"]) for one in checked.problems if one["path"] == "flow[1].do"]
    assert place == (20, 5)


def test_yaml_that_explodes_is_refused(memory: Memory) -> None:
    bomb = "a: &a [x,x]\nb: &b [*a,*a]\nflow: *b\n"
    with pytest.raises(Invalid, match="cannot be read"):
        memory.workflows.create(bomb)


# -- blocks --------------------------------------------------------------------------------------------------------------


def test_blocks_in_sequence_side_by_side_and_under_a_condition(memory: Memory) -> None:
    """B3.19: branches see what was before, and not each other; only the branch that holds is done."""
    say = {name: ("send_text_message", {"text": f"='{name}' & $count($keys($output))"}) for name in "abcdef"}
    flow = [
        {"do": "a"},
        {"parallel": {"steps": [{"do": "b"}, {"do": "c"}]}},
        {
            "conditional": {
                "when": [
                    {"condition": "=$output.b.text = 'x'", "steps": [{"do": "d"}]},
                    {"condition": "=$output.b.text = 'b1'", "steps": [{"do": "e"}]},
                    {"else": True, "steps": [{"do": "f"}]},
                ]
            }
        },
    ]
    outputs = {name: f"=$output.{name}.text" for name in "abcdef"}
    document = tasks(flow, outputs, **say)
    assert json.loads(done(memory, document)) == {"a": "a0", "b": "b1", "c": "c1", "e": "e3"}
    flow[2]["conditional"]["when"][1]["condition"] = "=$input.nothing"  # type: ignore[index]
    assert json.loads(done(memory, tasks(flow, outputs, **say)))["f"] == "f3"


def test_the_first_of_several_is_enough(memory: Memory, registered: list[Any]) -> None:
    """B3.19: `wait_any`: a branch that fails does not count as long as another does not."""
    flow = [{"parallel": {"strategy": "wait_any", "steps": [{"do": "bad"}, {"do": "good"}]}}, {"do": "say"}]
    defs = {
        "bad": ("lookup_order", {"order": "=$error('broken')"}),
        "good": ("lookup_order", {"order": "7"}),
        "say": ("send_text_message", {"text": "=$output.good.state"}),
    }
    assert done(memory, tasks(flow, **defs)) == "shipped"
    both = [{"parallel": {"steps": [{"do": "bad"}, {"do": "good"}]}}]
    assert run(memory, tasks(both, **{name: defs[name] for name in ("bad", "good")})).status == "failed"


def test_functions_are_actions(memory: Memory, registered: list[Any]) -> None:
    document = tasks(look=("lookup_order", {"order": "=$input.order", "times": 2}))
    assert json.loads(done(memory, document, {"order": "A-17"})) == {"order": "A-17", "state": "shippedshipped"}
    with pytest.raises(Invalid, match="no registered function 'nobody'"):
        run(memory, tasks(look=("nobody", {})))


def test_tasks_are_tried_again_and_have_a_time(memory: Memory) -> None:
    """B3.21: retries with a pause, over the defaults of the document."""
    count = iter(range(10))

    @function("flaky")
    def flaky() -> str:
        if next(count) < 2:
            from memwell import Unavailable

            raise Unavailable("not yet")
        return "there"

    document = tasks(call={"kind": "task", "action": "flaky", "settings": {"retries": {"max_attempts": 3}}})
    document["defaults"] = {"settings": {"retries": {"enabled": True, "backoff_ms": 1}}}
    found = run(memory, document)
    assert (found.output, found.steps[0].attempts) == ("there", 3)


def test_the_input_is_validated_against_its_schema(memory: Memory) -> None:
    """B3.18: refused before anything runs."""
    document = tasks(say=("send_text_message", {"text": "=$string($input.n)"}))
    document["inputs"] = {"schema": {"n": {"type": "integer"}}}
    assert done(memory, document, {"n": 7}) == "7"
    with pytest.raises(Invalid, match="input does not fit"):
        run(memory, document, {"n": "seven"})
    assert len(memory.workflows.runs()) == 1
