"""Warnings on the way from a step to the answer of a run, and what a model or a caller must not learn."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, function
from memwell.testing import ToolCall, ToolCalls

from ..contract.conftest import Cli, cli
from ..contract.task_documents import define, run, tasks
from ..engines import Memory
from ..scripted import ScriptedServer
from .test_workflow_runs import served

__all__ = ["cli", "served"]

SECRET = {"customer_profile": {"preferred_name": "password: hunterxyzzy42"}}
DATED = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}
MODEL: dict[str, Any] = {
    "known": {"kind": "memory", "settings": {"definition_id": "customer_profile"}},
    "ask": {"kind": "task", "action": "ai_agent", "inputs": {"prompt": "=$input.text"}},
}


def test_a_task_that_writes_a_secret_warns_everywhere(tmp_path: Path, cli: Cli) -> None:
    """S3.44: in the step, the run, the events, and on the command line."""
    document = tasks(save=("update_memory", {"memory": SECRET}))
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        found = run(memory, document)
        assert found.status == "done", found.error
        (warning,) = found.steps[0].warnings
        assert "customer_profile.preferred_name" in warning
        assert "secret" in warning
        assert "hunter" not in warning
        assert found.warnings == memory.workflows.show(found.id).warnings == [f"`save`: {warning}"]
        events = list(memory.workflows.stream(document, owner="u1"))
        assert [event.warnings for event in events if event.state == "done" and event.kind == "step"] == [[warning]]
        assert list(memory.workflows.follow(events[0].run)) == events
    (tmp_path / "save.json").write_text(json.dumps(document))
    for shown in (
        cli("workflow", "run", str(tmp_path / "save.json"), "--owner", "u1"),
        cli("runs", "get", found.id),
    ):
        assert shown.err.count("Warning: `save`: `customer_profile.preferred_name`") == 1, shown.err


def test_an_entry_with_a_secret_warns(tmp_path: Path) -> None:
    """S1.26: it is stored as it is, and the run says so without repeating it."""
    add = {"step_type": "add_memory", "id": "save", "memory_bank_id": "notes", "key": "k"}
    document = {"memory_banks": {"notes": {"type": "general"}}, "steps": [add]}
    with Memory(tmp_path / "home", worker=False) as memory:
        (warning,) = memory.workflows.run(document, "The alarm: password: hunterxyzzy42").warnings
        assert warning.startswith("`save`: `content` holds what looks like a secret")
        assert "hunter" not in warning
        assert memory.workflows.run(document, "The alarm is in the hall.").warnings == []


def test_a_value_whose_expressions_are_all_empty_warns(tmp_path: Path) -> None:
    """S3.41: it replaces what was stored."""
    values = {"preferred_name": "=$input.name", "language": "=$input.language"}
    document = tasks(save=("update_memory", {"memory": {"customer_profile": values}}))
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        assert run(memory, document, {"name": "Ada"}).warnings == []
        expected = "`save`: `customer_profile`: none of its expressions has a value, so that it is empty"
        assert run(memory, document, {"nme": "Ada"}).warnings == [expected]
        assert run(memory, tasks(save=("update_memory", {"memory": {"customer_profile": {}}}))).warnings == []


def test_a_prompt_that_does_not_have_the_input_warns(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.62: at the first step, where a run without an input may have such a prompt."""
    server = served(["Tea."] * 4)
    ask = {"step_type": "prompt_call", "id": "ask", "prompt_template": "Extract the preferences"}
    with Memory(tmp_path / "home", worker=False) as memory:
        (warning,) = memory.workflows.run({"steps": [ask]}, "I like tea.").warnings
        assert "`prompt_template`" in warning
        assert "{{input}}" in warning
        assert "tea" not in str(server.requests[0].body["messages"])
        assert memory.workflows.run({"steps": [ask]}).warnings == []
        for more in ({"prompt_template": "Extract: {{input}}"}, {"system_template": "From: {{input}}"}):
            assert memory.workflows.run({"steps": [{**ask, **more}]}, "I like tea.").warnings == []


def test_a_prompt_that_is_empty_is_named(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    served(["Hi."])
    with Memory(tmp_path / "home", worker=False) as memory:
        ask = {"kind": "task", "action": "ai_agent"}
        for inputs, reason in (({"prompt": "=$input.name"}, "`prompt` is empty"), ({}, "give `prompt`")):
            error = memory.workflows.run(tasks(ask={**ask, "inputs": inputs})).error
            assert reason in (error or "")


def test_a_model_that_writes_a_secret_is_told(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S3.44: the answer of the tool has the warning, and so has the step."""
    server = served([ToolCalls((ToolCall("update_memory", {"memory": SECRET}),)), "Saved."])
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        document = tasks(**{**MODEL, "ask": {**MODEL["ask"], "bindings": {"memory": ["known"]}}})
        found = run(memory, document, "Hello")
        assert found.status == "done", found.error
        (answer,) = [one for one in server.requests[-1].body["messages"] if one["role"] == "tool"]
        (warning,) = json.loads(answer["content"])["warnings"]
        assert warning in found.steps[0].warnings
        assert "secret" in warning


def test_an_app_answers_with_the_warnings_of_its_run(tmp_path: Path, cli: Cli) -> None:
    @function("books")
    def books(message: str, memory: Any) -> str:
        memory.set_content("visits", {"day": "some day"})
        return "Booked."

    with Memory(tmp_path / "home", worker=False) as memory:
        shop = memory.app("shop")
        shop.stores.create("visits", schema=DATED, access="application")
        shop.configure(function="books")
        found = shop.execute("Tomorrow", user_id="u1")
        (warning,) = found.warnings
        assert found.status == "done", found.error
        assert "`visits.day`" in warning
    shown = cli("app", "execute", "shop", "Tomorrow", "--user-id", "u1")
    assert shown.err.count("Warning: ") == 1, shown.err


@pytest.mark.parametrize("slug", ["salaries", "nothing_at_all"])
def test_a_model_cannot_tell_whether_an_unbound_memory_exists(
    served: Callable[..., ScriptedServer], tmp_path: Path, slug: str
) -> None:
    """S3.32: what it is told is the same for a definition that exists and one that does not."""
    server = served([ToolCalls((ToolCall("update_memory", {"memory": {slug: {}}}),)), "Sorry."])
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        define(memory, "Salaries")
        document = tasks(**{**MODEL, "ask": {**MODEL["ask"], "bindings": {"memory": ["known"]}}})
        run(memory, document, "Hello")
        (answer,) = [one for one in server.requests[-1].body["messages"] if one["role"] == "tool"]
        assert json.loads(answer["content"]) == {
            "error": f'Unknown memory definition "{slug}". Known here: customer_profile.'
        }
        with pytest.raises(Invalid) as error:
            memory.definitions.bind(["customer_profile"], owner="u1").update({slug: {}})
        assert error.value.message == f'Unknown memory definition "{slug}". Known here: customer_profile.'
        with pytest.raises(Invalid) as error:
            memory.call("definitions.update_memory", {"owner": "u1", "memory": {slug + "_2": {}}})
        assert "`definitions`" in error.value.message


def test_the_text_of_an_exception_stays_in_the_log(
    served: Callable[..., ScriptedServer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S2.16: neither the model nor the caller reads what an exception says; what a function refuses by `Invalid` they do."""

    @function("connects")
    def connects(host: str) -> str:
        if host == "wrong":
            raise Invalid("There is no such host.")
        raise OSError("postgres://admin:tiger@10.0.0.5 refused the connection")

    calls = tuple(ToolCall("connects", {"host": host}) for host in ("db", "wrong"))
    server = served([ToolCalls(calls), "It is down."])
    tool = {"kind": "tools", "action": "connects"}
    with Memory(tmp_path / "home", worker=False) as memory, caplog.at_level(logging.ERROR, "memwell"):
        ask = {**MODEL["ask"], "bindings": {"tools": ["connects"]}}
        found = run(memory, tasks(connects=tool, ask=ask), "Connect")
        assert found.status == "done", found.error
        sent = [one["content"] for one in server.requests[-1].body["messages"] if one["role"] == "tool"]
        assert "`connects` raised OSError" in sent[0]
        assert "There is no such host." in sent[1]
        failed = memory.workflows.run({"steps": [{"step_type": "function", "function": "connects"}]}, "db")
        assert failed.status == "failed"
        assert "`connects` raised OSError" in (failed.error or "")
        for shown in (*sent, repr(found), repr(failed)):
            assert "tiger" not in shown
            assert "10.0.0.5" not in shown
        assert failed.id in caplog.text
        assert caplog.text.count("tiger@10.0.0.5") >= 2
