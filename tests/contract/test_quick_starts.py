"""The first steps of each of the five documents, as a reader takes them: from nothing, with their code and their requests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from memwell import function

from ..live import live
from ..scripted import ScriptedServer
from .conftest import Cli
from .task_documents import ANSWER, GREET, PROFILE, SAVE

MESSAGES = """
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
"""
NODE = '''
from gen.messages_pb2 import ChatRequest, ChatReply
from gen.axiom_context import AxiomContext


async def chat_agent(ax: AxiomContext, input: ChatRequest) -> ChatReply:
    """Replies using recent conversation turns and long-term facts."""
    session = ax.agent.memory.session(input.session_id)

    # Episodic: record this turn, then load recent history.
    await session.history.append(role="user", content=input.text)
    recent = await session.history.last(20)

    # Semantic: retrieve facts consolidated from earlier sessions of this flow.
    facts = await ax.agent.memory.search(input.text, limit=5)

    reply = f"I see {len(recent)} recent turn(s) and {len(facts)} relevant memorie(s)."
    await session.history.append(role="assistant", content=reply)
    return ChatReply(text=reply)
'''


def test_a_node_and_the_command_line(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """S0.1, S0.33, S0.45, S0.50–S0.56: a package with its generated messages, run in two sessions, then inspected."""
    for name, text in (
        ("nodes/chat_agent.py", NODE),
        ("gen/messages_pb2.py", MESSAGES),
        ("gen/axiom_context.py", "from memwell import NodeContext as AxiomContext"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def chat(session: str, text: str) -> str:
        given = json.dumps({"session_id": session, "text": text})
        run = cli("run", "nodes/chat_agent.py:chat_agent", "--flow", "support", "--input", given)
        assert run.code == 0, run.err
        return str(json.loads(run.out)["text"])

    assert chat("monday", "I moved to Porto.") == "I see 1 recent turn(s) and 0 relevant memorie(s)."
    assert "support" in cli("memory", "ls").out
    assert "monday" in cli("memory", "ls", "--flow", "support").out
    assert "None." in cli("memory", "show", "monday").out
    assert cli("memory", "end", "monday", stdin="y\n").code == 0
    assert "moved to Porto" in cli("memory", "show", "monday").out.partition("Semantic memories")[2]
    assert chat("tuesday", "Where did I move to?") == "I see 1 recent turn(s) and 1 relevant memorie(s)."
    assert "moved to Porto" in cli("memory", "search", "--flow", "support", "where does the user live").out
    assert cli("memory", "rm", "monday", stdin="y\n").code == 0
    assert cli("memory", "rm", "--flow", "support", "--all", "--yes").code == 0
    assert "No flow" in cli("memory", "ls").out


def test_a_question_and_answer_agent_over_banks(tmp_path: Path) -> None:
    """S1.1, S1.13, S1.18, S1.61: a bank made over REST, the steps of the full example with its id, and two runs."""
    with (
        ScriptedServer(["You live by the river.", "The user lives in Porto.", "In Porto.", "Nothing new."]) as model,
        live(tmp_path, worker=False, llm=f"openai:any@{model.url}") as server,
        server.client() as client,
    ):
        bank = _post(client, "/v1/memory_banks", {"name": "facts", "type": "general"}, 201)["id"]
        key = {"memory_bank_id": bank, "key": "{{metadata.user_id}}"}
        learn = {
            "step_type": "prompt_call",
            "prompt_template": "Extract any new facts or preferences from this exchange:\nQ: {{agent.input}}\nA: {{input}}",
            "steps": [{"step_type": "add_memory", **key, "content": "{{input}}"}],
        }
        answer = {
            "step_type": "prompt_call",
            "prompt_template": "Past context:\n{{input}}\n\nUser question: {{agent.input}}\n\nAnswer the question, "
            "referencing past context where relevant.",
            "steps": [learn, {"step_type": "streaming_result"}],
        }
        search = {"step_type": "search_memory", **key, "query": "{{input}}", "steps": [answer]}
        workflow = _post(client, "/v1/workflows", {"document": {"name": "q and a", "steps": [search]}}, 201)["id"]
        for question in ("I live in Porto, by the river.", "Where do I live?"):
            asked = {"input": question, "metadata": {"user_id": "alice"}}
            run = _post(client, f"/v1/workflows/{workflow}/runs", asked, None)
            assert run["status"] == "done", run
        prompts = [str(one.body["messages"]) for one in model.requests]
    assert '"matches":[]' in prompts[0].replace("\\", "")
    assert "The user lives in Porto." in prompts[2], "what the first run has stored"


SCHEMA = {
    "type": "object",
    "properties": {
        "preferences": {
            "type": "object",
            "properties": {"language": {"type": "string"}, "notifications": {"type": "boolean"}},
        },
        "recentOrders": {"type": "array", "items": {"type": "string"}},
        "lastVisit": {"type": "string", "format": "date-time"},
    },
}
REQUEST = {
    "message": "Hello",
    "session_id": "sess_123",
    "metadata": {"userId": "user_456", "userName": "John", "customerTier": "premium", "channel": "mobile_app"},
}


def test_memory_stores_of_an_app(tmp_path: Path) -> None:
    """S2.6, S2.17–S2.34: a store with the example schema, code that reads, writes and deletes, prompts, and the request."""
    seen: dict[str, Any] = {}

    @function("quick_start")
    def answer(memory: Any) -> str:
        memory.set_content(
            "userPrefs",
            {"preferences": {"language": "en", "notifications": True}, "lastVisit": "2026-04-19T10:00:00"},
        )
        prefs = memory.get_content("userPrefs")
        seen["partial"] = memory.get_content("userPrefs", {"preferences.language": 1, "lastVisit": 1})
        seen["meta"] = memory.get_content("sessionMeta")
        memory.set_content("cart", {"items": ["A-17"]})
        memory.delete_content("cart")
        seen["cart"] = memory.get_content("cart")
        return str(prefs["preferences"]["language"])

    with live(tmp_path, worker=False) as server, server.client() as client:
        store = {"technical_name": "userPrefs", "name": "User preferences", "schema": SCHEMA, "retention": "1 month"}
        _post(client, "/v1/apps/shop/stores", {**store, "access": "user", "strict": True}, 201)
        cart = {"technical_name": "cart", "access": "session", "retention": "session_only"}
        _post(client, "/v1/apps/shop/stores", cart, 201)
        assert client.put("/v1/apps/shop", json={"function": "quick_start"}).status_code == 200
        done = _post(client, "/v1/apps/shop/execute", REQUEST, None)
        assert (done["status"], done["output"]) == ("done", "en"), done
        template = "Hello {{memory.sessionMeta.metadata.userName}}! In {{memory.userPrefs.preferences.language}}."
        rendered = _post(client, "/v1/apps/shop/render", {"session_id": "sess_123", "template": template}, None)
        assert rendered["text"] == "Hello John! In en."
    assert seen["partial"] == {"preferences": {"language": "en"}, "lastVisit": "2026-04-19T10:00:00"}
    assert (seen["meta"]["metadata"]["channel"], seen["meta"]["sessionInfo"]["sessionId"]) == ("mobile_app", "sess_123")
    assert seen["cart"] is None


def test_working_memory_of_an_agent(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.1–S3.8, S3.27–S3.42: a definition by its schema, then the three YAML documents as files, with its id in them."""
    (tmp_path / "schema.json").write_text(json.dumps(PROFILE))
    made = cli("definition", "create", "Customer Profile", "--schema", f"@{tmp_path}/schema.json", "--json")
    definition = json.loads(made.out)["id"]

    def run(document: str, *options: str) -> str:
        text = re.sub(r"\A\s*name: .*\n", "", document)  # the documents have no names
        (tmp_path / "flow.yaml").write_text(
            text.replace("{definition}", definition).replace("{slug}", "customer_profile")
        )
        done = cli("workflow", "run", str(tmp_path / "flow.yaml"), "--owner", "ada", *options)
        assert done.code == 0, done.err
        return done.out

    assert "Hello there" in run(GREET)
    run(SAVE, "--inputs", '{"name": "Ada", "language": "en"}')
    assert "Hello Ada" in run(GREET)
    with ScriptedServer(["Hello Ada, how can I help?"]) as model:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:any@{model.url}")
        document = ANSWER.replace("{action}", "ai_generate_reply")
        assert "how can I help?" in run(document, "--input", "Hi", "--thread", "monday")
        (asked,) = model.requests
    assert asked.body["model"] == "gpt-5.2"
    assert "# Working Memory\n## Customer Profile\n- Preferred name: Ada\n- Language: en" in str(
        asked.body["messages"][0]["content"]
    )
    assert [tool["function"]["name"] for tool in asked.body["tools"]] == ["update_memory"]


def test_an_agent_log_in_a_prompt_hook(tmp_path: Path) -> None:
    """S4.1–S4.16: the requests of the document, and what they answer."""
    with live(tmp_path, worker=False) as server, server.client() as client:
        entry = {"entry_type": "observation", "content": "User confirmed the report looked correct."}
        assert client.post("/api/agent-memory/abc-123", json=entry).status_code == 201
        assert client.get("/api/agent-memory/other").json() == {"data": []}
        (found,) = client.get("/api/agent-memory/abc-123").json()["data"]
        assert found.keys() >= {"entry_type", "content", "created_at"}
        assert (found["entry_type"], found["content"]) == (entry["entry_type"], entry["content"])
        (session,) = client.get("/api/agent-sessions").json()["data"]
        assert session.keys() == {"id", "created_at", "last_seen_at"}
        hook = {"name": "report", "markdown_template": "For {{user_id}} of {{organization_id}}:\n{{memory_context}}"}
        hook_id = client.post("/api/prompt-hooks", json=hook).json()["data"]["id"]
        asked = {"session_id": "abc-123", "context": {"user_id": "alice", "organization_id": "acme"}}
        resolved = client.post(f"/api/prompt-hooks/{hook_id}/resolve", json=asked).json()["data"]
        assert resolved["rendered_prompt"].startswith("For alice of acme:\n")
        assert resolved["rendered_prompt"].endswith("observation: User confirmed the report looked correct.")


def _post(client: httpx.Client, path: str, body: Any, status: int | None) -> Any:
    """Post JSON and return the answer; any success if no status is given."""
    answer = client.post(path, json=body)
    assert answer.status_code == status if status else answer.is_success, answer.text
    return msgspec.json.decode(answer.content)
