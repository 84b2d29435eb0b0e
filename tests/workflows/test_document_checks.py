"""Validation is as strict as a run: what both know of the server, the tenant's data, and the names in a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, function

from ..cases import cases
from ..contract.conftest import Cli, cli
from ..contract.task_documents import tasks
from ..engines import Memory

__all__ = ["cli"]

ADD = """
name: notes
memory_banks:
  notes:
    type: general
    retention_days: {days}
steps:
  - step_type: add_memory
    memory_bank_id: notes
    key: k
"""


def reasons(memory: Memory, document: Any, **how: Any) -> dict[str, str]:
    """The problems of a document, which a run reports at the same places."""
    checked = memory.workflows.validate(document)
    with pytest.raises(Invalid) as error:
        memory.workflows.run(document, "x", **{"owner": "u1", **how})
    assert error.value.details["problems"] == checked.problems
    return {one["path"]: one["reason"] for one in checked.problems}


def test_settings_that_differ_from_those_of_the_bank_are_an_error(tmp_path: Path, cli: Cli) -> None:
    """S1.13: a bank that is meant to be kept for good is not filled under another lifetime in silence."""
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.workflows.run(ADD.format(days=7), "One").status == "done"
        assert memory.workflows.run(ADD.format(days="1 week"), "Two").status == "done"
        found = reasons(memory, ADD.format(days="null"))
        assert list(found) == ["memory_banks.notes.retention_days"]
        assert "it is 7, not null" in found["memory_banks.notes.retention_days"]
        (bank,) = memory.banks.list()
        memory.banks.open(bank.id).update(retention_days=None)
        assert memory.workflows.run(ADD.format(days="null"), "Three").status == "done"
        other = ADD.format(days=0).replace("general", "conversation").replace("key: k", "key: k\n    speaker: user")
        assert list(reasons(memory, other)) == ["memory_banks.notes.type"]
    (tmp_path / "notes.yaml").write_text(ADD.format(days=7))
    shown = cli("workflow", "run", str(tmp_path / "notes.yaml"), "--input", "x")
    assert f"{tmp_path / 'notes.yaml'}:6:5: memory_banks.notes.retention_days: " in shown.err


def test_functions_that_are_missing_or_called_wrongly_are_named(tmp_path: Path) -> None:
    @function("adds")
    def adds(message: str, number: int = 1) -> str:
        return message * number

    def step(name: str, **arguments: Any) -> dict[str, Any]:
        return {"steps": [{"step_type": "function", "function": name, "arguments": arguments}]}

    with Memory(tmp_path, worker=False) as memory:
        assert "no registered function 'subtracts'" in reasons(memory, step("subtracts"))["steps[0].function"]
        assert "takes no `count`" in reasons(memory, step("adds", count=2))["steps[0].function"]
        wrong = tasks(one=("subtracts", {}), two=("adds", {"count": 2}))
        assert list(reasons(memory, wrong)) == ["defs.one.action", "defs.two.action"]
        assert memory.workflows.validate(step("{{metadata.name}}")).valid
        assert memory.workflows.run(step("adds", number=2), "ab").output == "abab"


def test_a_run_names_the_positions_of_its_problems(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n  - step_type: load_memory\n    memory_bank_id: nowhere\n    key: k\n"
    with Memory(tmp_path, worker=False) as memory:
        with pytest.raises(Invalid) as error:
            memory.workflows.run(text, "x")
        (problem,) = error.value.details["problems"]
        assert (problem["line"], problem["column"], problem["path"]) == (4, 5, "steps[0].memory_bank_id")
        with pytest.raises(Invalid, match=r"steps\[0\]: This workflow needs a language model"):
            memory.workflows.run("steps:\n  - step_type: prompt_call\n", "x")
        checked = memory.workflows.validate("steps:\n  - step_type: prompt_call\n")
        assert (checked.valid, "the server has none" in checked.warnings[0]) == (True, True)


LOAD = {"step_type": "load_memory", "memory_bank_id": "b", "key": "k"}


@cases(
    ("document", "path", "choices"),
    [
        ({"steps": [{**LOAD, "order": "up"}]}, "steps[0].order", "`newest_first` or `oldest_first`"),
        ({"steps": [{**LOAD, "content_type": "text"}]}, "steps[0].content_type", "`text/plain`, `text/html` or"),
        (
            {"steps": [LOAD], "memory_banks": {"b": {"type": "chat"}}},
            "memory_banks.b.type",
            "`conversation` or `general`",
        ),
        (tasks(a=("ai_agent", {"input_mode": "chat"})), "defs.a.inputs.input_mode", "`prompt` or `history`"),
        (tasks(a=("update_memory", {"memory": {}, "mode": "add"})), "defs.a.inputs.mode", "`replace` or `merge`"),
    ],
)
def test_errors_about_choices_list_them(tmp_path: Path, document: Any, path: str, choices: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        found = {one["path"]: one["reason"] for one in memory.workflows.validate(document).problems}
        assert choices in found[path]


def test_an_unknown_action_is_one_problem(tmp_path: Path) -> None:
    """And not a missing function without a name, for a task and for a tool."""
    with Memory(tmp_path, worker=False) as memory:
        ask = {"kind": "task", "action": "ai_agnet", "inputs": {"prompt": "=$input.text"}}
        bound = {**ask, "action": "ai_agent", "bindings": {"tools": ["look_up"]}}
        for defs in ({"ask": ask}, {"look_up": {"kind": "tools", "action": "ai_look"}, "ask": bound}):
            document = {"defs": defs, "flow": [{"do": "ask"}]}
            (problem,) = memory.workflows.validate(document).problems
            assert "there is no action 'ai_" in problem["reason"]


def test_errors_about_choices_in_templates_list_them_too(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.banks.create("b", type="general")
        run = memory.workflows.run({"steps": [{**LOAD, "order": "{{input}}"}]}, "up")
        assert "`newest_first` or `oldest_first`" in (run.error or "")


@cases(("text", "name"), [("Answer {input}", "{input}"), ("Of ${metadata.user_id}:", "{metadata.user_id}")])
def test_names_between_single_braces_are_not_sent_to_a_model(tmp_path: Path, text: str, name: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for field in ("prompt_template", "system_template"):
            document = {"steps": [{"step_type": "prompt_call", field: text}]}
            (problem,) = memory.workflows.validate(document).problems
            assert problem["path"] == f"steps[0].{field}"
            assert f"write `{{{name}}}`" in problem["reason"]
        right = {"steps": [{"step_type": "prompt_call", "prompt_template": 'As {"input": …}: {{input}} {x}'}]}
        assert memory.workflows.validate(right).valid


@cases(
    ("prompt", "is_valid"),
    [
        ({"prompt_template": "Summarise this conversation."}, False),
        ({"prompt_template": "Summarise.", "system_template": "Be brief."}, False),
        ({"prompt_template": "Summarise: {{input}}"}, True),
        ({"prompt_template": "Summarise.", "system_template": "Material: {{input}}"}, True),
        ({"prompt_template": "Summarise.", "use_step_input_as_messages": True}, True),
        ({"system_template": "Summarise."}, True),
    ],
)
def test_a_prompt_after_other_steps_uses_what_they_found(tmp_path: Path, prompt: Any, is_valid: bool) -> None:
    """S1.62: a figure's words alone would ask the model to summarise nothing."""
    ask = {"step_type": "prompt_call", **prompt}
    load = {**LOAD, "order": "oldest_first", "steps": [ask]}
    with Memory(tmp_path, worker=False) as memory:
        checked = memory.workflows.validate({"steps": [load], "memory_banks": {"b": {}}})
        assert [one["path"] for one in checked.problems] == ([] if is_valid else ["steps[0].steps[0].prompt_template"])
        assert memory.workflows.validate({"steps": [ask]}).valid, "at the first step nothing was found yet"
