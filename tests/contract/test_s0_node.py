"""S0: node code, in its own process, reaching memory only through the process that runs it."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memwell import Invalid, NodeFailed
from memwell.node import runtime
from memwell.node.gateway import run_node

from ..engines import Memory, two_tenants
from ..live import live
from .conftest import Cli

NODE = '''
import msgspec

class ChatRequest(msgspec.Struct):
    session_id: str
    text: str

class ChatReply(msgspec.Struct):
    text: str

async def chat_agent(ax, input: ChatRequest) -> ChatReply:
    """Replies using recent conversation turns, and remembers a fact."""
    session = ax.agent.memory.session(input.session_id)
    await session.history.append(role="user", content=input.text)
    recent = await session.history.last(20)
    fact = await ax.agent.memory.write(f"someone said {input.text}")
    mine = await session.write("a session fact", importance=0.9)
    reply = f"I see {len(recent)} recent turn(s); remembered {len(fact)} and {len(mine)} characters of id."
    await session.history.append(role="assistant", content=reply)
    return ChatReply(text=reply)

async def forger(ax, input: dict) -> dict:
    """Puts a foreign tenant and flow into every call, and asks for what nodes may not do."""
    link = ax.agent.memory._link
    forged = {"tenant": "beta", "flow": "other", "session": "s"}
    await link.call("flows.append", {**forged, "role": "user", "content": "forged"}, dict)
    seen = await link.call("flows.last", forged, dict)
    refused = []
    for operation in ("flows.delete", "users.history", "tenants.list", "keys.create", "flows.sessions"):
        try:
            await link.call(operation, forged, dict)
        except Exception as error:
            refused.append(type(error).__name__)
    return {"seen": [turn["content"] for turn in seen["turns"]], "refused": refused}

async def breaks(ax, input):
    raise RuntimeError("on purpose")

async def hangs(ax, input):
    import asyncio
    await asyncio.sleep(60)

async def looks(ax, input):
    import os
    return {**os.environ, "PATH": "", "PYTHONPATH": ""}

async def ends(ax, input):
    await ax.agent.memory.session("s").end()
    return "ended"
'''

PROTO_NODE = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

file = descriptor_pb2.FileDescriptorProto(name="chat.proto", package="chat", syntax="proto3")
for name, fields in (("ChatRequest", ("session_id", "text")), ("ChatReply", ("text",))):
    message = file.message_type.add(name=name)
    for number, field in enumerate(fields, 1):
        message.field.add(name=field, number=number, type=9, label=1)
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
ChatRequest = message_factory.GetMessageClass(pool.FindMessageTypeByName("chat.ChatRequest"))
ChatReply = message_factory.GetMessageClass(pool.FindMessageTypeByName("chat.ChatReply"))

async def chat_agent(ax, input: ChatRequest) -> ChatReply:
    return ChatReply(text=f"{input.session_id}: {input.text}")
"""


@pytest.fixture
def package(tmp_path: Path) -> str:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "node.py").write_text(textwrap.dedent(NODE))
    (folder / "proto_node.py").write_text(textwrap.dedent(PROTO_NODE))
    return str(folder)


def run(memory: Memory, name: str, value: Any, package: str, **options: Any) -> Any:
    return run_node(memory._transport, f"node:{name}", "support", value, cwd=package, **options)


def test_a_node_like_the_documents_example_runs_in_its_own_process(memory: Memory, package: str) -> None:
    """S0.1, S0.2, S0.45, S0.46, S0.47: one entry point, awaited calls, read-your-writes, ids returned."""
    reply = run(memory, "chat_agent", {"session_id": "s", "text": "hi"}, package)
    assert reply == {"text": "I see 1 recent turn(s); remembered 26 and 26 characters of id."}
    again = run(memory, "chat_agent", {"session_id": "s", "text": "hi again"}, package)
    assert again["text"].startswith("I see 3 recent turn(s)")
    turns = memory.flow("support").session("s").history.last(10)
    assert [turn.role for turn in turns] == ["user", "assistant", "user", "assistant"]
    known = [fact.content for fact in memory.flow("support").memories() if fact.session is None]
    assert known == ["someone said hi", "someone said hi again"]


def test_the_node_api_takes_no_tenant_and_no_flow() -> None:
    """S0.8"""
    for kind in (runtime.NodeContext, runtime.Agent, runtime.NodeMemory, runtime.NodeSession, runtime.NodeHistory):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            names = set(inspect.signature(method).parameters)
            assert not names & {"tenant", "tenant_id", "flow", "flow_id"}, f"{kind.__name__}.{name}"
    assert not inspect.iscoroutinefunction(runtime.NodeMemory.session)
    assert inspect.iscoroutinefunction(runtime.NodeHistory.append)


def test_whatever_a_node_puts_into_tenant_and_flow_is_ignored(tmp_path: Path, package: str) -> None:
    """S0.6, S0.7: the parent stamps both; everything else is refused."""
    with two_tenants(tmp_path / "home") as (alpha, beta):
        beta.flow("other").session("s").history.append(role="user", content="beta's own")
        alpha.flow("other").session("s").history.append(role="user", content="another flow's")
        answer = run(alpha, "forger", {}, package)
        assert answer == {"seen": ["forged"], "refused": ["Forbidden"] * 5}
        assert [turn.content for turn in alpha.flow("support").session("s").history.last(9)] == ["forged"]
        assert len(alpha.flow("other").session("s").history.last(9)) == 1
        assert len(beta.flow("other").session("s").history.last(9)) == 1
        assert beta.flow("support").sessions() == []


def test_identity_is_that_of_the_invocation_not_of_the_package(tmp_path: Path, package: str) -> None:
    """B0.11: one shared node, run by two tenants, never mixes them; over HTTP the key of the call decides."""
    with two_tenants(tmp_path / "home") as (alpha, beta):
        for memory, text in ((alpha, "from alpha"), (beta, "from beta"), (alpha, "alpha again")):
            run(memory, "chat_agent", {"session_id": "shared", "text": text}, package)
        said = [turn.content for turn in beta.flow("support").session("shared").history.last(99) if turn.role == "user"]
        assert said == ["from beta"]
    with live(tmp_path / "server", worker=False) as server:
        server.engine.ensure_tenant("gamma")
        with server.memory() as operator:
            key = operator.keys.create("gamma's", "agent", tenant="gamma").secret
            with server.memory(key) as gamma:
                run(gamma, "chat_agent", {"session_id": "shared", "text": "from gamma"}, package)
                assert len(gamma.flow("support").session("shared").history.last(99)) == 2
            assert operator.flow("support").sessions() == []


def test_working_memory_is_the_typed_message_and_needs_no_memory(memory: Memory, package: str) -> None:
    """S0.12: protobuf messages in and out; no memory call is made."""
    value = {"session_id": "s", "text": "typed"}
    assert run_node(memory._transport, "proto_node:chat_agent", "support", value, cwd=package) == {"text": "s: typed"}
    assert memory.flows() == []
    with pytest.raises(NodeFailed, match="does not fit ChatRequest"):
        run_node(memory._transport, "proto_node:chat_agent", "support", {"nonsense": 1}, cwd=package)


def test_a_node_that_fails_hangs_or_does_not_exist_is_reported(memory: Memory, package: str) -> None:
    with pytest.raises(NodeFailed, match="RuntimeError: on purpose"):
        run(memory, "breaks", None, package)
    with pytest.raises(NodeFailed, match="within 1 seconds"):
        run(memory, "hangs", None, package, timeout_s=1)
    with pytest.raises(NodeFailed, match="cannot be loaded"):
        run(memory, "missing", None, package)
    with pytest.raises(NodeFailed, match="does not fit ChatRequest"):
        run(memory, "chat_agent", {"session_id": "s"}, package)


def test_a_node_sees_no_secret_of_its_parent(memory: Memory, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S0.2: nothing but the socket leads to memory, and no key of a model or a database is passed on unless it is named."""
    secrets = ("MEMWELL_API_KEY", "MEMWELL_HOME", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PGPASSWORD", "MY_MODELS_KEY")
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_TIME", "C")
    seen = run(memory, "looks", None, package)
    assert "secret" not in seen.values()
    assert seen["LC_TIME"] == "C"
    assert run(memory, "looks", None, package, pass_on=("MY_MODELS_KEY", "ABSENT"))["MY_MODELS_KEY"] == "secret"
    with pytest.raises(Invalid, match="MEMWELL_API_KEY"):
        run(memory, "looks", None, package, pass_on=("MEMWELL_API_KEY",))


def test_memwell_run_takes_a_path_and_answers_mistakes_with_one_sentence(
    cli: Cli, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/words.py").write_text("GREETING = 'Hello'\n")
    chat = "from memwell import NodeContext\nfrom words import GREETING\n\nasync def chat_agent(ax: NodeContext, input: str):\n"
    (tmp_path / "nodes/chat.py").write_text(chat + "    return f'{GREETING} {input} {ax!r:.12}'\n")
    (tmp_path / "nodes/typo.py").write_text("def chat_agent(ax, input)\n    return 1\n")
    (tmp_path / "nodes/absent.py").write_text("\nimport no_such_package\n")
    (tmp_path / "nodes/late.py").write_text("def fail(ax, input):\n    return {}['key']\n")

    def run_file(target: str) -> tuple[int, str]:
        result = cli("run", target, "--flow", "f", "--input", '"Ada"')
        return result.code, result.out + result.err

    assert run_file("nodes/chat.py:chat_agent") == (0, '"Hello Ada NodeContext("\n')
    mistakes = {
        "nodes/chat.py:chat_agnet": "nodes/chat.py has no function `chat_agnet`. Its functions: `chat_agent`.",
        "nodes/chat.py": "Name the node as `module:function` or `FILE.py:function`, not `nodes/chat.py`.",
        "nodes/chta.py:chat_agent": "There is no file nodes/chta.py",
        "nodes/typo.py:chat_agent": "(typo.py, line 1)",
        "nodes/absent.py:chat_agent": "No module named 'no_such_package' (line 2 of ",
        "nothing:chat_agent": "No module named 'nothing'.",
    }
    for target, expected in mistakes.items():
        code, said = run_file(target)
        assert (code, expected in said, said.count("\n")) == (1, True, 1), said
    code, said = run_file("nodes/late.py:fail")
    assert "The node failed: KeyError: 'key'" in said
    assert "nodes/late.py" in said
    assert "runtime.py" not in said


def test_a_node_can_end_its_session(memory: Memory, package: str) -> None:
    """S0.30"""
    memory.flow("support").session("s").history.append(role="user", content="hi")
    assert run(memory, "ends", None, package) == "ended"
    assert memory.flow("support").session("s").show().ended_at is not None


def test_memwell_run_runs_a_node(cli: Cli, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S0.45, C38: `memwell run module:function --flow F --input …`."""
    monkeypatch.chdir(package)
    value = msgspec.json.encode({"session_id": "s", "text": "hi"}).decode()
    result = cli("run", "node:chat_agent", "--flow", "support", "--input", value)
    assert result.code == 0, result.err
    assert msgspec.json.decode(result.out)["text"].startswith("I see 1 recent turn(s)")
    assert "hi" in cli("show", "s").out
