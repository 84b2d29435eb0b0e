"""Substitutions, stores and `sessionMeta` in workflows of tasks, and the checks of names, slugs and values in their documents."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, function

from ..cases import cases
from ..contract.task_documents import PROFILE, define, done, run, tasks
from ..engines import Memory
from ..scripted import ScriptedServer
from .test_workflow_runs import served

__all__ = ["served"]

HOMES = itertools.count()
"""So that every case has a directory of its own."""
PREFS = {"type": "object", "properties": {"language": {"type": "string"}, "note": {"type": "string"}}}


def shop(memory: Memory, document: Any) -> Any:
    app = memory.app("shop")
    app.stores.create("userPrefs", schema=PREFS)
    app.configure(workflow=memory.workflows.create(document).id)
    app.scope(user_id="u1").set_content("userPrefs", {"language": "Portuguese", "note": "a\n# Rules\n{{7*7}}"})
    return app


def say(text: str, **more: Any) -> dict[str, Any]:
    return tasks(say=("send_text_message", {"text": text}), **more)


@pytest.mark.every_engine
def test_substitutions_work_in_tasks_as_in_steps(memory: Memory) -> None:
    """S2.18, S2.28, S3.23: stores of the app, `sessionMeta`, definitions, metadata, the input and times; each once."""
    define(memory)
    memory.definitions.bind(["customer_profile"], owner="u1").update({"customer_profile": {"preferred_name": "Ada"}})
    text = (
        "{{memory.userPrefs.language}}|{{memory.sessionMeta.metadata.channel}}|{{memory.customer_profile.preferred_name}}"
        "|{{metadata.channel}}|{{input}}|{{agent.input}}|{{agent.name}}|{{memory.userPrefs.nothing}}|{{2026-01-01}}"
    )
    app = shop(memory, say(text))
    found = app.execute("{{input}} = $1", "s1", {"channel": "web"}, user_id="u1")
    assert found.status == "done", found.error
    today = "2026-01-01T00:00:00Z"
    assert found.output == f"Portuguese|web|Ada|web|{{{{input}}}} = $1|{{{{input}}}} = $1|test||{today}"


@pytest.mark.every_engine
def test_expressions_see_stores_and_the_session(memory: Memory) -> None:
    """S2.15, S2.18: under `$context.memory`, as definitions are; what a function wrote, the next task reads."""

    @function("learns")
    def learns(memory: Any) -> None:
        memory.set_content("userPrefs", {"language": "German"})

    where = "$context.memory.sessionMeta.sessionInfo"
    document = tasks(
        before=("send_text_message", {"text": "=$context.memory.userPrefs.language"}),
        learns=("learns", {}),
        after=("send_text_message", {"text": f"={where}.sessionId & ' ' & $context.memory.userPrefs.language"}),
        outputs={
            "all": "=$context.memory.userPrefs.language",
            "was": "=$output.before.text",
            "said": "=$output.after.text",
        },
    )
    found = shop(memory, document).execute("Hello", "s1", user_id="u1")
    assert found.status == "done", found.error
    assert json.loads(found.output or "") == {"all": "German", "was": "Portuguese", "said": "s1 German"}


def test_a_prompt_of_a_task_gets_values_on_one_line(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """C20, C18: a stored value forges no heading, and is not rendered again."""
    server = served(["Bom dia."])
    with Memory(tmp_path / "home", worker=False) as memory:
        inputs = {"system": "Rules: {{memory.userPrefs.note}}", "prompt": "{{memory.userPrefs.language}}: {{input}}"}
        found = shop(memory, tasks(ask=("ai_generate_reply", inputs))).execute("{{input}}?", "s1", user_id="u1")
        assert found.status == "done", found.error
        system, prompt = (one["content"] for one in server.requests[0].body["messages"])
        assert system == 'Rules: "a\\n# Rules\\n{{7*7}}"'
        assert prompt == "Portuguese: {{input}}?"


def test_a_value_that_no_longer_fits_is_withheld_with_a_warning(tmp_path: Path) -> None:
    """C24: in substitutions, expressions, and outside of tasks."""
    for document in (
        say("[{{memory.typed.language}}]"),
        say("='[' & $context.memory.typed.language & ']'"),
        {**say("x"), "outputs": {"x": "=$context.memory.typed.language"}},
        {**say("x"), "outputs": {"x": "{{memory.typed.language}}"}},
    ):
        with Memory(tmp_path, worker=False) as memory:
            app = memory.app("shop")
            app.stores.create("typed", schema=PREFS, strict=True)
            app.scope(user_id="u1").set_content("typed", {"language": "German"})
            changed = {"type": "object", "properties": {"language": {"type": "integer"}}}
            app.stores.update("typed", schema=changed, accept_breaking=True)
            app.configure(workflow=memory.workflows.create(document).id)
            found = app.execute("Hello", "s1", user_id="u1")
            assert found.status == "done", found.error
            assert "German" not in (found.output or "")
            assert any("`typed` is withheld" in one for one in found.warnings), found.warnings
            app.delete()


def test_a_conversation_whose_key_is_incomplete_is_not_read(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """C17."""
    served(["Hi."])
    with Memory(tmp_path / "home", worker=False) as memory:
        ask = {"kind": "task", "action": "ai_generate_reply", "inputs": {"input_mode": "history"}}
        document = tasks(ask={**ask, "settings": {"history": {"flow": "f", "session": "of-{{metadata.user}}"}}})
        assert done(memory, document, "Hello", metadata={"user": "ada"}) == "Hi."
        assert [turn.content for turn in memory.flow("f").session("of-ada").history.last(5)] == ["Hello", "Hi."]
        assert "`{{metadata.user}}` is empty" in (run(memory, document, "Hello").error or "")


def problems(memory: Memory, document: Any, *, runs: bool = True) -> dict[str, str]:
    checked = memory.workflows.validate(document)
    if runs and checked.problems:
        with pytest.raises(Invalid) as error:
            run(memory, document, "x")
        assert error.value.details["problems"] == checked.problems
    return {one["path"]: one["reason"] for one in checked.problems}


TEXT = "defs.say.inputs.text"


@cases(
    ("text", "reason"),
    [
        ("=$contxt.memory.customer_profile", "there is no `$contxt`"),
        ("=$output.t99.text", "there is no task `t99`"),
        ("=$output.idle.text", "`idle` is not in the flow"),
        ("=$output.say.txt", "has `text`"),
        ("=$context.ownr", "there is no `$context.ownr`"),
        ("=$uppercas($input.text)", "there is no `$uppercas`"),
        ("=$eval('1')", "`$eval` is not available"),
        ("=$context.memory.customer_profil.language", "'customer_profil' is neither"),
        ("=$context.memory.notes.n", "declare it in `defs`"),
        ("='Hi {{memory.customer_profile.language}}'", "`$context.memory`"),
        ("Hi {{step.say.output}}", "`=$output.<task>.text`"),
        ("Hi {{name}}", "is not known"),
        ("Hi {{memory.nothing.at_all}}", "'nothing' is neither"),
        ("Hi {{", "never closed"),
        ("Hi $context.memory.customer_profile.language", "begin it with `=`"),
        ("price = $input", "`$input` is used as it is"),
    ],
)
def test_names_that_do_not_exist_are_problems(tmp_path: Path, text: str, reason: str) -> None:
    with Memory(tmp_path / str(next(HOMES)), worker=False) as memory:
        define(memory, "Notes", scope="thread")
        define(memory)
        idle = {"idle": {"kind": "task", "action": "send_text_message", "inputs": {"text": "x"}}}
        found = problems(memory, say(text, **idle, flow=[{"do": "say"}]))
        assert list(found) == [TEXT]
        assert reason in found[TEXT], found


@cases(
    ("changes", "place"),
    [
        ({"outputs": {"said": "$output.say.text"}}, "outputs.said"),
        ({"context": {"mine": ["$input.text"]}}, "context.mine[0]"),
        ({"defaults": {"settings": {"history": {"flow": "f", "session": "$context.thread"}}}}, None),
        ({"defs": {"say": {"kind": "task", "action": "shelve", "inputs": {"book": "$input.text"}}}}, None),
    ],
)
def test_expressions_without_their_sign_are_problems_everywhere(
    tmp_path: Path, changes: dict[str, Any], place: str | None
) -> None:
    """A session with such a name would be shared by all."""

    @function("shelve")
    def shelve(book: str) -> str:
        return book

    place = place or ("defs.say.inputs.book" if "defs" in changes else "defaults.settings.history.session")
    with Memory(tmp_path / str(next(HOMES)), worker=False) as memory:
        found = problems(memory, {**say("Hello"), **changes})
        assert list(found) == [place], found
        assert "begin it with `=`" in found[place]


LATER = {"kind": "task", "action": "send_text_message", "inputs": {"text": "x"}}
DO_SAY, DO_LATER, OF_LATER = {"do": "say"}, {"do": "later"}, "=$output.later.text"


@cases(
    ("flow", "place"),
    [
        ([DO_SAY, DO_LATER], TEXT),
        ([DO_LATER, DO_SAY], None),
        ([DO_SAY, DO_LATER, DO_SAY], None),
        ([{"parallel": {"steps": [DO_LATER, DO_SAY]}}], TEXT),
        ([{"parallel": {"steps": [DO_LATER, DO_LATER]}}, DO_SAY], None),
        ([{"conditional": {"when": [{"condition": "=true", "steps": [DO_LATER]}]}}, DO_SAY], None),
        (
            [
                {
                    "conditional": {
                        "when": [{"condition": "=true", "steps": [DO_LATER]}, {"else": True, "steps": [DO_SAY]}]
                    }
                }
            ],
            TEXT,
        ),
        (
            [DO_LATER, DO_SAY, {"conditional": {"when": [{"condition": "=$output.say.text = ''", "steps": [DO_SAY]}]}}],
            None,
        ),
        (
            [{"conditional": {"when": [{"condition": OF_LATER, "steps": [DO_LATER]}]}}, DO_SAY],
            "flow[0].conditional.when[0].condition",
        ),
    ],
)
def test_an_output_is_read_after_its_task(tmp_path: Path, flow: list[Any], place: str | None) -> None:
    """It would be empty, whatever the run does. What may have run, in a branch, is no problem."""
    with Memory(tmp_path / str(next(HOMES)), worker=False) as memory:
        found = problems(memory, say(OF_LATER, later=LATER, flow=flow), runs=False)
        assert list(found) == ([] if place is None else [place]), found
        assert place is None or "`later` has not run yet at this place" in found[place]


def test_an_output_is_not_in_the_context(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        found = problems(memory, {**say("x", later=LATER), "context": {"mine": OF_LATER}})
        assert list(found) == ["context.mine"]


@cases(
    "text",
    [
        "=$exists($context.memory.nothing.at.all) and $exists($output.later) ? 'yes' : 'no'",
        "=($context := {'x': 1}; $contxt := $context.x; $map([1], function($v, $i) { $v + $i + $contxt }))",
        "=$input.orders@$o#$i.{'n': $o.n / $i} ~> $string",
        "=/* $bad */ $replace($input.text, /[$x]+/, '$1') & '$nothing'",
        "=$context.`memory`.customer_profile.language & $context.metadata.x & $context.mine",
        "=$sum($input.xs) / $count($input.xs) / 2",
        "=λ($x) { $x }(1)",
        "Costs $5 or {x}; {{input}}",
    ],
)
def test_names_that_an_expression_binds_are_no_problems(tmp_path: Path, text: str) -> None:
    with Memory(tmp_path / str(next(HOMES)), worker=False) as memory:
        define(memory)
        assert problems(memory, {**say(text), "context": {"mine": "=$input.text"}}) == {}


@cases(
    ("value", "path", "reason"),
    [
        ({"customer_profil": {}}, "customer_profil", 'unknown memory definition "customer_profil"'),
        ({"Bad-Slug": {}}, "Bad-Slug", "lowercase letters"),
        ({"notes": {}}, "notes", "declare it in `defs`"),
        ({"customer_profile": "Ada"}, "customer_profile", "must be an object"),
        ({"customer_profile": {"language": 7}}, "customer_profile", "`language`"),
        ({"customer_profile": {"language": 7, "preferred_name": "=$input.name"}}, "customer_profile", "`language`"),
        ({"customer_profile": {"nme": "=$input.name"}}, "customer_profile", "'nme'"),
        ({"customer_profile": {"interests": [1, "=$input.x"]}}, "customer_profile", "`interests[0]`"),
        ({"strict": {"b": "{{input}}"}}, "strict", '"a" is a required property'),
    ],
)
def test_literal_slugs_and_values_are_checked(tmp_path: Path, value: Any, path: str, reason: str) -> None:
    with Memory(tmp_path / str(next(HOMES)), worker=False) as memory:
        define(memory)
        define(memory, "Notes", scope="thread")
        define(memory, "Strict", schema={**PROFILE, "properties": {"a": {}, "b": {}}, "required": ["a"]})
        found = problems(memory, tasks(save=("update_memory", {"memory": value})))
        assert list(found) == [f"defs.save.inputs.memory.{path}"], found
        assert reason in str(found), found


def test_values_that_may_fit_are_accepted(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        define(memory)
        define(
            memory, "Strict", schema={**PROFILE, "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}
        )
        define(memory, "Merged", schema={**PROFILE, "required": ["language"]}, update_mode="merge")
        for value in (
            {"strict": {"a": "=$input.a", "b": 1}},
            {"strict": "=$input.all"},
            {"merged": {"preferred_name": "Ada"}},
            {"customer_profile": {"interests": ["=$input.a", "tea"]}},
            "=$input.memory",
        ):
            assert problems(memory, tasks(save=("update_memory", {"memory": value})), runs=False) == {}, value
        merge = tasks(save=("update_memory", {"memory": {"strict": {"b": 1}}, "mode": "merge"}))
        assert problems(memory, merge, runs=False) == {}


def test_names_of_memory_are_checked_before_a_run(tmp_path: Path) -> None:
    """S2.18: in both kinds of documents. A store belongs to an app: only `apps.execute` can read it."""
    tree = {
        "steps": [{"step_type": "text", "template": "{{memory.userPrefs.language}}{{memory.sessionMeta.metadata.x}}"}]
    }
    with Memory(tmp_path, worker=False) as memory:
        assert list(problems(memory, tree, runs=False)) == ["steps[0].template"], "there is no such store"
        app = shop(memory, tree)
        assert problems(memory, tree, runs=False) == {}
        with pytest.raises(Invalid, match=r"`apps\.execute`"):
            memory.workflows.run(tree, "x", owner="u1")
        assert app.execute("Hello", "s1", {"x": "!"}, user_id="u1").output == "Portuguese!"
        other = memory.app("other")
        other.configure(workflow=memory.workflows.create(tree).id)
        with pytest.raises(Invalid, match="'userPrefs' is neither"):
            other.execute("Hello", "s1", user_id="u1")


def test_what_is_not_evaluated_is_refused(tmp_path: Path) -> None:
    """A tool's fixed arguments and its description reach the function and the model as they are."""

    @function("finds")
    def finds(shelf: str, limit: int = 1) -> str:
        return shelf * limit

    with Memory(tmp_path, worker=False) as memory:
        tool = {"kind": "tools", "action": "finds", "settings": {"shelf": "={{input}}"}, "description": "Of {{input}}"}
        ask = {"kind": "task", "action": "ai_agent", "bindings": {"tools": ["t"]}}
        found = problems(memory, tasks(t=tool, ask=ask), runs=False)
        assert list(found) == ["defs.t.settings.shelf", "defs.t.description"]
