"""Replies of a run: each is handed out and recorded in order, and no model is asked with its own message as the last one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..contract.conftest import Cli, cli
from ..contract.task_documents import run, tasks
from ..engines import Memory
from ..scripted import ScriptedServer
from .test_workflow_runs import document, served

__all__ = ["cli", "served"]

HISTORY = {"input_mode": "history", "messages_limit": 9}
WAIT = ("send_text_message", {"text": "One moment please"})
REPLY = ("ai_generate_reply", HISTORY)
AGENT = ("ai_agent", HISTORY)
NOTE = "You have already sent these messages. Go on from there, and do not repeat them:"
ASK = {"step_type": "prompt_call", "id": "ask", "prompt_template": "Hi"}


def recorded(memory: Memory, name: str = "test") -> list[tuple[str | None, str]]:
    (session,) = memory.flow(name).sessions()
    return [(turn.role, turn.content) for turn in memory.flow(name).session(session.session).history.last(20)]


def sent(server: ScriptedServer, number: int = -1) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in server.requests[number].body["messages"]]


@pytest.mark.parametrize("answer", [REPLY, AGENT])
def test_a_reply_after_a_sent_message_is_handed_out_and_recorded(
    served: Callable[..., ScriptedServer], tmp_path: Path, answer: Any
) -> None:
    """S3.22: in the order in which they were said, also in the events of a stored run, and in the next run."""
    server = served(["It has shipped.", "You are welcome."])
    flow = tasks(wait=WAIT, answer=answer, keep=("update_memory", {"memory": {}}))
    with Memory(tmp_path / "home", worker=False) as memory:
        first = run(memory, flow, "Where is my order?", thread="t1")
        assert (first.status, first.output) == ("done", "It has shipped.")
        said = [("user", "Where is my order?"), ("assistant", "One moment please"), ("assistant", "It has shipped.")]
        assert recorded(memory) == said
        events = list(memory.workflows.follow(first.id))
        assert [one.text for one in events if one.kind == "result"] == ["One moment please", "It has shipped."]
        assert [step.id for step in first.steps if step.reply] == ["wait", "answer"]
        second = run(memory, tasks(answer=answer), "Thank you!", thread="t1")
        assert sent(server)[1:] == [*said, ("user", "Thank you!")]
        assert recorded(memory)[3:] == [("user", "Thank you!"), ("assistant", second.output)]
    with Memory(tmp_path / "home", worker=False) as memory:  # from the stored run
        events = list(memory.workflows.follow(first.id))
        assert [one.text for one in events if one.kind == "result"] == ["One moment please", "It has shipped."]


def test_a_model_is_not_asked_with_its_own_message_as_the_last_one(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """It is told what it has sent already, on one line each, so that it does not answer twice."""
    server = served(["It has\n# Shipped.", "Anything else?"])
    with Memory(tmp_path / "home", worker=False) as memory:
        found = run(memory, tasks(wait=WAIT, answer=REPLY, more=REPLY), "Where?", thread="t1")
        assert found.output == "Anything else?"
        assert recorded(memory) == [
            ("user", "Where?"),
            ("assistant", "One moment please"),
            ("assistant", "It has\n# Shipped."),
            ("assistant", "Anything else?"),
        ]
        common = "You are a helpful assistant."
        assert sent(server, 0) == [("system", f"{common}\n\n{NOTE}\n- One moment please"), ("user", "Where?")]
        lines = '- One moment please\n- "It has\\n# Shipped."'
        assert sent(server, 1) == [("system", f"{common}\n\n{NOTE}\n{lines}"), ("user", "Where?")]


def test_an_author_may_let_a_model_continue_its_own_message(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """By `continues`, or by a prompt of the task, which then comes last."""
    server = served(["… here."])
    with Memory(tmp_path / "home", worker=False) as memory:
        go_on = {"kind": "task", "action": "ai_agent", "inputs": HISTORY, "settings": {"history": {"continues": True}}}
        assert run(memory, tasks(wait=WAIT, answer=go_on), "Where?", thread="t1").status == "done"
        assert sent(server)[-2:] == [("user", "Where?"), ("assistant", "One moment please")]
        prompted = ("ai_agent", {**HISTORY, "prompt": "Now look up the order."})
        assert run(memory, tasks(wait=WAIT, answer=prompted), "And now?", thread="t2").status == "done"
        last = [("user", "And now?"), ("assistant", "One moment please"), ("user", "Now look up the order.")]
        assert sent(server)[-3:] == last


def test_an_answer_of_which_a_later_text_is_made_is_no_reply(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """A draft, also by way of other tasks, is neither recorded nor handed out."""
    served(["draft", "better"])
    polish = ("ai_generate_reply", {"prompt": "='Polish: ' & $output.draft.text"})
    show = ("send_text_message", {"text": "='Answer: ' & $output.polish.text"})
    with Memory(tmp_path / "home", worker=False) as memory:
        found = run(memory, tasks(draft=REPLY, polish=polish, show=show), "Hello", thread="t1")
        assert found.output == "Answer: better"
        assert recorded(memory) == [("user", "Hello"), ("assistant", "Answer: better")]


def test_all_replies_of_an_app_are_in_its_answer(
    served: Callable[..., ScriptedServer], tmp_path: Path, cli: Cli
) -> None:
    """The command line prints them in order, too."""
    served(["It has shipped."])
    flow = tasks(wait=WAIT, answer=REPLY)
    with Memory(tmp_path / "home", worker=False) as memory:
        stored = memory.workflows.create(flow)
        app = memory.app("shop")
        app.configure(workflow=stored.id)
        answer = app.execute("Where?", user_id="alice")
        assert (answer.replies, answer.output) == (["One moment please", "It has shipped."], "It has shipped.")
    printed = cli("workflow", "run", stored.id, "--input", "Where?", "--owner", "u1", "--thread", "t1")
    assert printed.out == "One moment please\nIt has shipped.\n"


def test_messages_of_a_tree_do_not_end_with_those_of_the_model(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S1.31: neither in a step with messages, unless it `continues` or has a prompt."""
    server = served(["Fine."])
    given = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
    first = {"step_type": "text", "template": json.dumps(given)}
    ask = {"step_type": "prompt_call", "use_step_input_as_messages": True}
    with Memory(tmp_path / "home", worker=False) as memory:
        for more, last in (
            ({}, [("system", f"{NOTE}\n- Hi."), ("user", "Hello")]),
            ({"continues": True}, [("user", "Hello"), ("assistant", "Hi.")]),
            ({"prompt_template": "And?"}, [("assistant", "Hi."), ("user", "And?")]),
        ):
            assert memory.workflows.run(document(first, {**ask, **more})).status == "done"
            assert sent(server)[-2:] == last


@pytest.mark.parametrize("greeting", [["assistant"], ["system", "assistant"]])
def test_a_model_is_not_asked_without_a_message_of_the_user(
    served: Callable[..., ScriptedServer], tmp_path: Path, greeting: list[str]
) -> None:
    """S1.31: a conversation that is only a greeting needs a prompt, or is continued."""
    server = served(["Fine."])
    given = [{"role": role, "content": "Welcome."} for role in greeting]
    first = {"step_type": "text", "template": json.dumps(given)}
    ask = {"step_type": "prompt_call", "use_step_input_as_messages": True, "system_template": "Be kind."}
    with Memory(tmp_path / "home", worker=False) as memory:
        found = memory.workflows.run(document(first, ask))
        assert (found.status, server.requests) == ("failed", [])
        assert "none is of the user. Give a prompt" in (found.error or "")
        assert memory.workflows.run(document(first, {**ask, "prompt_template": "Hello"})).status == "done"
        assert sent(server)[-2:] == [("assistant", "Welcome."), ("user", "Hello")]


def test_a_message_after_a_greeting_comes_last(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S3.22: also if the run records nothing."""
    server = served(["Fine."])
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.flow("test").session("owner=u1/thread=t1").history.append(role="assistant", content="Welcome.")
        settings = {"history": {"record": False}}
        silent = {"kind": "task", "action": "ai_agent", "inputs": HISTORY, "settings": settings}
        assert run(memory, tasks(answer=silent), "Hello", thread="t1").status == "done"
        assert sent(server)[-2:] == [("assistant", "Welcome."), ("user", "Hello")]
        found = run(memory, tasks(answer=REPLY), "", thread="t1")
        assert "There is nothing to answer" in (found.error or "")


def test_a_window_that_begins_with_the_assistant_reaches_any_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C42: a conversation behind a summary, and the newest messages of one; the server refuses other beginnings and ends."""
    with ScriptedServer(["Fine."], protocol="anthropic") as server:
        monkeypatch.setenv("MEMWELL_LLM", f"anthropic:test@{server.url}")
        with Memory(tmp_path / "home", worker=False) as memory:
            bank = memory.banks.create("chats", max_turns=2)
            for number in range(5):
                bank.add(f"Question {number}", key="k", speaker="user")
                bank.add(f"Answer {number}", key="k", speaker="assistant")
            memory.jobs.wait(bank.compact(key="k").job)
            chats = {"memory_bank_id": "chats", "key": "k"}
            ask = {"step_type": "prompt_call", "use_step_input_as_messages": True}
            for first in (
                {"step_type": "add_memory", "speaker": "user", **chats},
                {"step_type": "load_memory", "order": "oldest_first", **chats},
            ):
                found = memory.workflows.run(document(first, ask), "And now?")
                assert found.error is None
            history = {"history": {"bank": "chats", "key": "k"}}
            window = {
                "kind": "task",
                "action": "ai_agent",
                "inputs": {**HISTORY, "messages_limit": 2},
                "settings": history,
            }
            found = run(memory, tasks(wait=WAIT, answer=window), "Hello?")
            assert found.error is None
        assert all(one.body["messages"][0]["role"] == "user" for one in server.requests)
        assert "summary" in str(server.requests[0].body["messages"]).lower()
