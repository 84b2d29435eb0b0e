"""Trees of steps: the answer of a run without a result step, and steps that have nothing to do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..cases import cases
from ..contract.conftest import Cli, cli
from ..engines import Memory
from ..scripted import ScriptedServer
from .test_workflow_runs import served

__all__ = ["cli", "served"]

KEYS = itertools.count()
"""So that every case has entries of its own."""
BANKS = {"chats": {"type": "conversation"}, "notes": {"type": "general"}}


def add(bank: str = "notes", *below: Any, **fields: Any) -> dict[str, Any]:
    speaker = {"speaker": "assistant"} if bank == "chats" else {}
    step = {"step_type": "add_memory", "memory_bank_id": bank, "key": "{{metadata.key}}", "steps": list(below)}
    return {**step, **speaker, **fields}


def load(bank: str, *below: Any, **fields: Any) -> dict[str, Any]:
    return {
        "step_type": "load_memory",
        "memory_bank_id": bank,
        "key": "{{metadata.key}}",
        **fields,
        "steps": list(below),
    }


def search(*below: Any) -> dict[str, Any]:
    return {"step_type": "search_memory", "memory_bank_id": "notes", "key": "{{metadata.key}}", "steps": list(below)}


def text(template: str, *below: Any, **fields: Any) -> dict[str, Any]:
    return {"step_type": "text", "template": template, **fields, "steps": list(below)}


def tree(*steps: Any) -> dict[str, Any]:
    return {"name": "test", "memory_banks": BANKS, "steps": list(steps)}


@cases(
    ("steps", "answer"),
    [
        ([load("chats", text("summary", add("chats")))], "summary"),
        ([search(text("answer"))], "answer"),
        ([search(add("chats", text("answer", add("chats"), add())))], "answer"),
        ([text("facts"), add("chats")], "facts"),
        ([text("answer", text("new facts", add()))], "new facts"),
        ([search(text("answer"), add())], "answer"),
        ([text("answer", text("one"), text("two"))], "answer"),
        ([text("answer", text("aside"), add())], "answer"),
        ([text("first", text("below")), text("last")], "last"),
        ([text("x"), load("notes", content_type="text/plain")], ""),
        ([search(text("one"), text("two"))], '{"matches": []}'),
        ([add("chats", content="hello")], '[{"role": "assistant", "content": "hello"}]'),
        ([text("answer", add(), {"step_type": "display_result"})], "answer"),
    ],
)
def test_a_tree_without_a_result_returns_its_last_text(tmp_path: Path, steps: list[Any], answer: str) -> None:
    """S1.61, S1.62, S1.65: the figures of the patterns end with a prompt or with the step that stores its answer."""
    with Memory(tmp_path, worker=False) as memory:
        found = memory.workflows.run(tree(*steps), "hello", metadata={"key": str(next(KEYS))})
        assert (found.status, found.error) == ("done", None)
        output = found.output or ""
        assert (json.loads(output) if output[:1] in ("[", "{") else output) == (
            json.loads(answer) if answer[:1] in ("[", "{") else answer
        )


def test_an_entry_without_content_is_not_written_and_says_so(tmp_path: Path, cli: Cli) -> None:
    document = tree(text("{{metadata.nothing}}", add(id="blank")), add(id="kept", content="A note."))
    with Memory(tmp_path / "home", worker=False) as memory:
        run = memory.workflows.run(document, metadata={"key": "k"})
        assert {step.id: step.wrote for step in run.steps} == {"step-1": None, "blank": False, "kept": True}
        assert {step.id: step.wrote for step in memory.workflows.repeat(run.id).steps}["kept"] is True
        events = memory.workflows.stream(document, metadata={"key": "k"})
        ends = [event for event in events if event.kind == "step" and event.state == "done"]
        assert {event.step: event.wrote for event in ends} == {"step-1": None, "blank": False, "kept": True}
    shown = cli("runs", "get", run.id)
    assert shown.out.count("nothing to write") == 1, shown.out


@cases(
    ("bank", "content_type"),
    itertools.product(BANKS, ("application/json", "text/plain", "text/html", "application/xml")),
)
def test_nothing_is_summarised_where_nothing_is(tmp_path: Path, bank: str, content_type: str) -> None:
    """S1.62: the step is skipped with all below it, so that no summary of nothing is stored."""
    summary = text("Summary of {{input}}", add(bank, id="save"), id="summarise", skip_if_empty=True)
    document, metadata = tree(load(bank, summary, content_type=content_type)), {"key": str(next(KEYS))}
    with Memory(tmp_path, worker=False) as memory:
        run = memory.workflows.run(document, metadata=metadata)
        assert [(step.id, step.status) for step in run.steps] == [("step-1", "done"), ("summarise", "skipped")]
        assert run.output == ""
        memory.workflows.run(tree(add(bank, content="Something")), metadata=metadata)
        run = memory.workflows.run(document, metadata=metadata)
        assert [step.status for step in run.steps] == ["done"] * 3
        assert (run.output or "").startswith("Summary of ")
        assert "Something" in (run.output or "")


def test_an_empty_search_is_empty_input_and_a_short_text_is_not(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        run = memory.workflows.run(tree(search(text("x", skip_if_empty=True))), "hello", metadata={"key": "k"})
        assert [step.status for step in run.steps] == ["done", "skipped"]
        for given in ("0", "false", "null", "[1]", '{"a": 1}', "{", '"'):
            run = memory.workflows.run(tree(add(skip_if_empty=True)), given, metadata={"key": "k"})
            assert [(step.status, step.wrote) for step in run.steps] == [("done", True)], given
        for given in ("", " \n", "[]", "{}"):
            run = memory.workflows.run(tree(add(skip_if_empty=True)), given, metadata={"key": "k"})
            assert [(step.status, step.wrote) for step in run.steps] == [("skipped", False)], given


@cases(
    ("value", "status"),
    [
        (True, "done"),
        ("yes", "done"),
        (0, "done"),
        (False, "skipped"),
        (None, "skipped"),
        ("", "skipped"),
        ([], "skipped"),
    ],
)
def test_a_condition_decides_if_a_step_runs(tmp_path: Path, value: Any, status: str) -> None:
    """A step that is skipped needs no complete key, and a result that is skipped is none."""
    with Memory(tmp_path, worker=False) as memory:
        steps = [
            add(id="save", condition="{{metadata.save}}", key="{{metadata.save}}", content="A note."),
            {"step_type": "display_result", "condition": "{{metadata.save}}"},
            text("over"),
        ]
        run = memory.workflows.run(tree(*steps), metadata={"save": value})
        assert run.steps[0].status == status, run.error
        assert run.output == ("A note." if status == "done" else "over")


def test_a_condition_is_a_template(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for condition in ("input", "true"):
            (problem,) = memory.workflows.validate(tree(text("x", condition=condition))).problems
            assert (problem["path"], "use a template" in problem["reason"]) == ("steps[0].condition", True)


def test_a_skipped_step_does_not_ask_the_model(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S1.62, C39: the documented summary of a conversation that has not begun."""
    server = served(["Key points."])
    path = Path(__file__).parents[2] / "examples" / "workflows" / "progressive_summary.yaml"
    with Memory(tmp_path, worker=False) as memory:
        run = memory.workflows.run(path.read_text(), metadata={"user_id": "u1"})
        assert (run.status, run.output, server.requests) == ("done", "", [])
        (bank,) = memory.banks.list()
        assert list(memory.banks.open(bank.id).entries()) == []
