"""What the steps of a run have sent to models and what came back: stored, shown, switched off, and erased."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memwell import Forbidden, function
from memwell.testing import ToolCall, ToolCalls
from memwell.workflows.run_rows import MAX_EXCHANGED, ModelExchange, SentMessage, pack_exchanges, unpack_exchanges

from ..contract.conftest import Cli, cli
from ..contract.task_documents import ANSWER, define, run
from ..engines import Memory, remains
from ..live import live
from ..scripted import ScriptedServer, TextReply
from .test_run_control import ASK, LONG, refusal
from .test_workflow_runs import document, served

__all__ = ["cli", "served"]


def calls_of(memory: Memory, run_id: str, step: int = 0) -> list[ModelExchange]:
    return memory.workflows.show(run_id, model_calls=True).steps[step].model_calls


def exchanges(server: ScriptedServer) -> list[list[tuple[str, str]]]:
    """What the server was sent."""
    return [[(one["role"], one["content"] or "") for one in request.body["messages"]] for request in server.requests]


def test_a_run_shows_what_each_call_was_sent_and_what_came_back(
    served: Callable[..., ScriptedServer], tmp_path: Path, cli: Cli
) -> None:
    """S3.30, S3.36: the instructions with the working memory, the messages with calls of tools, the tools, and the tokens."""

    def script(request: Any) -> Any:
        if request.body["messages"][-1]["role"] == "tool":
            return TextReply("Hello Ada.", 70, 7)
        return ToolCalls((ToolCall("update_memory", {"memory": {"customer_profile": {"language": "en"}}}),))

    server = served(script)
    with Memory(tmp_path / "home", worker=False) as memory:
        definition = define(memory)
        memory.definitions.bind(["customer_profile"], owner="u1").update(
            {"customer_profile": {"preferred_name": "Ada"}}
        )
        found = run(memory, ANSWER.format(definition=definition, action="ai_agent"), "Hi!", thread="t1")
        assert found.status == "done", found.error
        assert found.steps[0].model_calls == [], "only on request"
        first, second = calls_of(memory, found.id)
        assert [(one.role, one.content) for one in first.messages] == exchanges(server)[0]
        assert [(one.role, one.content) for one in second.messages] == exchanges(server)[1]
        assert "# Working Memory\n## Customer Profile\n- Preferred name: Ada" in first.messages[0].content
        assert [one.name for one in first.tools or ()] == [one.name for one in second.tools or ()] == ["update_memory"]
        assert first.tools == second.tools
        (asked,) = first.tool_calls
        assert (asked.name, second.messages[-2].tool_calls) == ("update_memory", (asked,))
        assert second.messages[-1].tool_call_id == asked.id
        assert (second.answer, second.tokens_in, second.tokens_out) == ("Hello Ada.", 70, 7)
        assert (first.model, first.max_tokens, first.error) == ("openai:gpt-5.2", 1024, None)
        step = memory.workflows.show(found.id).steps[0]
        assert (step.tokens_in, step.tokens_out) == (first.tokens_in + 70, first.tokens_out + 7)
    printed = cli("runs", "get", found.id, "--model-calls").out
    assert "call of openai:gpt-5.2: 70 tokens in, 7 out" in printed
    assert "- Preferred name: Ada" in printed
    assert "→ update_memory(" in printed


def test_a_call_that_failed_is_shown_with_its_error(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """Each attempt is a call of its own."""
    served([refusal(503, LONG), "Fine."])
    with Memory(tmp_path / "home", worker=False) as memory:
        found = memory.workflows.run(document({**ASK, "retries": 1, "system_template": "Be brief."}))
        failed, fine = calls_of(memory, found.id)
        assert LONG in (failed.error or "")
        assert [(one.role, one.content) for one in failed.messages] == [("system", "Be brief."), ("user", "Hi")]
        assert (failed.answer, fine.answer, fine.error) == (None, "Fine.", None)


def test_a_tenant_may_store_no_calls(served: Callable[..., ScriptedServer], tmp_path: Path, cli: Cli) -> None:
    """The tokens are counted still. Only an admin changes the setting; another tenant keeps its own."""
    served([TextReply("Fine.", 50, 5)])
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.tenants.settings().record_model_calls is True
        assert memory.tenants.configure(record_model_calls=False).record_model_calls is False
        found = memory.workflows.run(document(ASK))
        assert calls_of(memory, found.id) == []
        assert (found.steps[0].tokens_in, found.steps[0].tokens_out) == (50, 5)
        with Memory(tmp_path / "home", tenant="other", worker=False) as other:
            assert len(calls_of(other, other.workflows.run(document(ASK)).id)) == 1
        assert cli("tenant", "configure", "--record-model-calls").code == 0
        assert len(calls_of(memory, memory.workflows.run(document(ASK)).id)) == 1


def test_the_setting_belongs_to_an_admin(tmp_path: Path) -> None:
    with live(tmp_path / "home", worker=False) as server, server.memory() as memory:
        agent = memory.keys.create("agent", "agent")
        with server.memory(agent.secret) as limited:
            assert limited.tenants.settings().record_model_calls is True
            with pytest.raises(Forbidden):
                limited.tenants.configure(record_model_calls=False)


def test_calls_are_erased_with_the_owner_of_the_run(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """Nothing of them is left in any file; a run that is emptied while it asks keeps none either."""
    inside: list[Any] = []

    @function("forget_alice")
    def forget_alice(message: str) -> str:
        inside[0].user("alice").forget()
        return message

    served(["Your word is zyxoqwvanswer."])
    with Memory(tmp_path / "home", worker=False) as memory:
        inside.append(memory)
        memory.user("alice").add("I am here.")
        ask = document({**ASK, "prompt_template": "My word is zyxoqwvprompt.{{input}}"})
        found = memory.workflows.run(ask, owner="alice")
        assert "zyxoqwvprompt" in str(calls_of(memory, found.id))
        assert memory.user("alice").forget().residual == 0
        assert memory.workflows.show(found.id, model_calls=True).steps == []
        both = document(
            {"step_type": "function", "function": "forget_alice"},
            {**ASK, "prompt_template": "{{input}}", "system_template": "zyxoqwvlate"},
        )
        late = memory.workflows.run(both, "x", owner="alice")
        assert "zyxoqwv" not in str(memory.workflows.show(late.id, model_calls=True))
    assert not [name for name, data in remains(tmp_path / "home").items() if b"zyxoqwv" in data]


def test_long_conversations_are_stored_once_and_cut_at_the_limit() -> None:
    """A call of a loop repeats the messages before it; these are not stored again."""

    def exchange(*texts: str, answer: str = "ok") -> ModelExchange:
        messages = tuple(SentMessage(role="user", content=text) for text in texts)
        return ModelExchange(model="m", messages=messages, max_tokens=1, answer=answer)

    given = [exchange("a", "b"), exchange("a", "b", "c"), exchange("a", "x"), exchange("a")]
    packed = pack_exchanges(given)
    assert [(one.same_messages, len(one.messages)) for one in packed] == [(0, 2), (2, 1), (1, 1), (1, 0)]
    assert unpack_exchanges(packed) == given
    (short,) = unpack_exchanges(pack_exchanges([exchange("a" * MAX_EXCHANGED, "b")]))
    assert (len(short.messages[0].content), short.messages[1].content, short.answer, short.cut) == (
        MAX_EXCHANGED,
        "",
        "",
        True,
    )
