"""S3: tasks that call a model: working memory, tools, history, objects, failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from memwell import Invalid, NotFound, function
from memwell.storage.sqlite.connect import checksum_vfs
from memwell.testing import ToolCall, ToolCalls

from ..engines import Memory, located
from ..scripted import ScriptedServer, TextReply
from ..workflows.test_workflow_runs import served
from .conftest import Cli
from .task_documents import ANSWER, SYSTEM, define, done, registered, run, tasks, values

__all__ = ["registered", "served"]


# -- models --------------------------------------------------------------------------------------------------------------


def messages(server: ScriptedServer, number: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.requests[number].body["messages"]
    return found


def offered(server: ScriptedServer, number: int = -1) -> dict[str, Any]:
    tools = server.requests[number].body.get("tools", [])
    return {one["function"]["name"]: one["function"] for one in tools}


WITH_SCHEMA = (
    "Call the tools that you need. Then answer with JSON alone, without any other word. It must fit this JSON Schema: "
    '{"type":"object","required":["mood"]}'
)
ACTIONS = ["ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_model_sees_memory_and_is_given_the_tool(
    served: Callable[..., ScriptedServer], tmp_path: Path, action: str
) -> None:
    """S3.27, S3.28, S3.29, S3.30, S3.31, S3.32, S3.33: appended to the instructions; seeing is not writing."""
    server = served(['{"mood": "fine"}'])
    with Memory(tmp_path / "home", worker=False) as memory:
        definition = define(memory)
        define(memory, "Other Things")
        memory.definitions.bind(["customer_profile"], owner="u1").update(
            {"customer_profile": {"preferred_name": "Ada", "interests": ["billing", "enterprise plan"]}}
        )
        settings = "    settings: {output_schema: {type: object, required: [mood]}}\n"
        text = ANSWER.format(definition=definition, action=action)
        if "object" in action:
            text = text.replace("    bindings:\n", settings + "    bindings:\n")
        assert done(memory, text, "Hello?", thread="t1") == (
            '{"mood":"fine"}' if "object" in action else '{"mood": "fine"}'
        )
        assert messages(server, 0) == [
            {
                "role": "system",
                "content": f"{SYSTEM}\n\n# Working Memory\n## Customer Profile\n- Preferred name: Ada\n"
                '- Interests: ["billing","enterprise plan"]',
            },
            {"role": "user", "content": "Hello?"},
            *([{"role": "user", "content": WITH_SCHEMA}] if "object" in action else []),
        ]
        assert server.requests[0].body["model"] == "gpt-5.2"
        assert len(server.requests) == 1, "the schema is known from the first call on"
        (tool,) = offered(server, 0).values()
        assert list(tool["parameters"]["properties"]["memory"]["properties"]) == ["customer_profile"]
        assert len(memory.definitions.bind(["customer_profile"], owner="u1").bound.versions) == 1
        assert values(memory, "customer_profile")["customer_profile"]["preferred_name"] == "Ada"


def test_an_agent_updates_memory_and_calls_functions(
    served: Callable[..., ScriptedServer], tmp_path: Path, registered: list[Any], cli: Cli
) -> None:
    """S3.27, S3.32, S3.34, S3.36: two calls of tools, the record updated, the run readable step by step; also in a terminal."""

    def script(request: Any) -> Any:
        told = request.body["messages"]
        if told[-1]["role"] != "tool":
            update = {"memory": {"customer_profile": {"preferred_name": "Ada", "language": "en"}}}
            return ToolCalls((ToolCall("lookup_order", {"order": "A-17"}), ToolCall("update_memory", update)))
        return "Your order has shipped, Ada."

    server = served(script)
    with Memory(tmp_path / "home", worker=False) as memory:
        definition = define(memory)
        memory.definitions.bind(["customer_profile"], owner="u1").update({"customer_profile": {"language": "pt"}})
        tool = "  lookup_order:\n    kind: tools\n    action: lookup_order\n    settings: {times: 2}\n"
        text = ANSWER.format(definition=definition, action="ai_agent")
        text = text.replace("  answer_customer:", f"{tool}  answer_customer:")
        text = text.replace("      memory:\n", "      tools: [lookup_order]\n      memory:\n")
        found = run(memory, text, "I'm Ada. Where is my order A-17?", thread="t1")
        assert (found.status, found.output) == ("done", "Your order has shipped, Ada.")
        assert [(one.id, one.step_type, one.level, one.status) for one in found.steps] == [
            ("answer_customer", "ai_agent", 0, "done"),
            ("answer_customer.1", "lookup_order", 1, "done"),
            ("answer_customer.2", "update_memory", 1, "done"),
        ]
        assert json.loads(found.steps[1].output) == {"order": "A-17", "state": "shippedshipped"}
        assert "Preferred name" not in messages(server, 0)[0]["content"]
        assert "- Language: pt" in messages(server, 0)[0]["content"]
        parameters = offered(server, 0)["lookup_order"]["parameters"]
        assert (list(parameters["properties"]), parameters["required"]) == (["order"], ["order"])
        assert offered(server, 0)["lookup_order"]["description"] == "Looks up an order by its number."
        answers = [one for one in messages(server, 1) if one["role"] == "tool"]
        assert [json.loads(one["content"]) for one in answers][1] == {
            "memory": {"customer_profile": {"preferred_name": "Ada", "language": "en"}}
        }
        assert values(memory, "customer_profile") == {"customer_profile": {"preferred_name": "Ada", "language": "en"}}
    (tmp_path / "support.yaml").write_text(text)
    told = cli(
        "workflow", "run", str(tmp_path / "support.yaml"), "--input", "And now?", "--owner", "u1", "--thread", "t1"
    )
    assert told.code == 0, told.err
    for word in ("answer_customer", "lookup_order", "update_memory", "Your order has shipped, Ada."):
        assert word in told.out + told.err


def test_history_is_the_conversation_of_the_thread(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S3.22, S3.42: the newest messages of the thread, as the flow of the document's name keeps them, each once."""
    numbers = iter(range(1, 100))
    server = served(lambda request: f"Answer {next(numbers)}.")
    with Memory(tmp_path / "home", worker=False) as memory:
        text = ANSWER.format(definition=define(memory), action="ai_generate_reply")
        for number in range(1, 5):
            assert done(memory, text, f"Question {number}?", thread="t1") == f"Answer {number}."
        assert done(memory, text, "Somebody else", thread="t2") == "Answer 5."
        said = [one["content"] for one in messages(server, 3)[1:]]
        assert said == ["Answer 1.", "Question 2?", "Answer 2.", "Question 3?", "Answer 3.", "Question 4?"]
        assert [one["content"] for one in messages(server, 4)[1:]] == ["Somebody else"]
        turns = memory.flow("support").session("owner=u1/thread=t1").history.last(20)
        assert [turn.role for turn in turns] == ["user", "assistant"] * 4
        assert done(memory, text, "What was said?", thread="t1", owner="u2") == "Answer 6."
        assert [one["content"] for one in messages(server)[1:]] == ["What was said?"], "a thread is its owner's"
        with pytest.raises(Invalid, match="History needs a conversation"):
            raise Invalid(run(memory, text, "Hello").error or "")


def test_history_may_be_a_conversation_bank(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    server = served(["Fine."])
    with Memory(tmp_path / "home", worker=False) as memory:
        bank = memory.banks.create("chats")
        bank.add("Earlier", key="u1", speaker="user")
        document = tasks(
            answer={
                "kind": "task",
                "action": "ai_generate_reply",
                "inputs": {"input_mode": "history", "messages_limit": 10},
                "settings": {"history": {"bank": "chats", "key": "=$context.owner"}},
            }
        )
        assert done(memory, document, "Now") == "Fine."
        assert [one["content"] for one in messages(server)[1:]] == ["Earlier", "Now"]
        assert [one["content"] for one in bank.load(key="u1", order="oldest_first").messages or []] == [
            "Earlier",
            "Now",
            "Fine.",
        ]


def test_objects_fit_their_schema(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S3.27: what does not fit is told once, and then it fails."""
    schema = {"type": "object", "properties": {"intent": {"enum": ["buy", "ask"]}}, "required": ["intent"]}
    document = tasks(
        infer={
            "kind": "task",
            "action": "ai_infer_object",
            "inputs": {"prompt": "=$input.text"},
            "settings": {"output_schema": schema},
        },
        outputs={"intent": "=$output.infer.object.intent"},
    )
    server = served(['{"intent": "sing"}', '```json\n{"intent": "buy"}\n```', "no", "neither"])
    with Memory(tmp_path / "home", worker=False) as memory:
        assert json.loads(done(memory, document, "One, please")) == {"intent": "buy"}
        assert "does not fit the schema" in messages(server)[-1]["content"]
        assert "no object that fits" in (run(memory, document, "Hm").error or "")


def test_a_model_is_told_what_was_wrong_and_may_try_again(
    served: Callable[..., ScriptedServer], tmp_path: Path, registered: list[Any]
) -> None:
    """S3.35: an unknown tool, a value that does not fit, a slug that is not bound, arguments that do not fit: told, and nothing
    is written."""
    wrong = [
        ToolCall("delete_everything", {}),
        ToolCall("update_memory", {"memory": {"customer_profile": {"language": 7}}}),
        ToolCall("update_memory", {"memory": {"other_things": {"language": "en"}}}),
        ToolCall("update_memory", {"customer_profile": {"language": "en"}}),
        ToolCall("lookup", {"number": 17}),
    ]
    server = served([ToolCalls(tuple(wrong)), "I could not."])
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        define(memory, "Other Things")
        document = tasks(
            profile={"kind": "memory", "settings": {"definition_id": "customer_profile"}},
            lookup={"kind": "tools", "action": "lookup_order"},
            answer={
                "kind": "task",
                "action": "ai_agent",
                "bindings": {"memory": ["profile"], "tools": ["lookup"]},
            },
        )
        found = run(memory, document, "Do it")
        assert (found.status, found.output) == ("done", "I could not.")
        told = [json.loads(one["content"])["error"] for one in messages(server)[-5:]]
        assert "There is no tool 'delete_everything'. The tools are update_memory, lookup." in told[0]
        assert "language" in told[1]
        assert 'Unknown memory definition "other_things"' in told[2]
        assert "takes one object" in told[3]
        assert "arguments do not fit" in told[4]
        assert [one.status for one in found.steps] == ["done", *["failed"] * 5]
        assert values(memory, "customer_profile", "other_things") == {}
        assert registered == []


def test_a_model_that_calls_tools_for_ever_is_stopped(
    served: Callable[..., ScriptedServer], tmp_path: Path, registered: list[Any]
) -> None:
    server = served([ToolCalls((ToolCall("lookup", {"order": "1"}),))])
    with Memory(tmp_path / "home", worker=False) as memory:
        document = tasks(
            lookup={"kind": "tools", "action": "lookup_order"},
            answer={
                "kind": "task",
                "action": "ai_agent",
                "settings": {"max_steps": 3, "retries": {"enabled": True}},
                "bindings": {"tools": ["lookup"]},
            },
        )
        found = run(memory, document, "Go")
        assert "called tools for 3 rounds" in (found.error or "")
        assert (len(server.requests), len(registered)) == (3, 3)


def test_another_provider_is_refused(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """T11: a document names a model, and never a server or a key."""
    served(["never"])
    with Memory(tmp_path / "home", worker=False) as memory:
        text = ANSWER.format(definition=define(memory), action="ai_agent").replace(
            "provider: openai", "provider: gemini"
        )
        with pytest.raises(Invalid, match="provider 'gemini'"):
            run(memory, text, "Hello", thread="t1")


def test_anthropic_calls_tools_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S3.32: over the other protocol."""
    update = {"memory": {"customer_profile": {"language": "en"}}}
    with ScriptedServer([ToolCalls((ToolCall("update_memory", update),)), "Noted."], protocol="anthropic") as server:
        monkeypatch.setenv("MEMWELL_LLM", f"anthropic:test@{server.url}?timeout_s=5")
        with Memory(tmp_path / "home", worker=False) as memory:
            text = ANSWER.format(definition=define(memory), action="ai_agent").replace(
                "provider: openai", "provider: anthropic"
            )
            assert done(memory, text, "I speak English", thread="t1") == "Noted."
            assert values(memory, "customer_profile") == {"customer_profile": {"language": "en"}}
        *_, called, result = server.requests[1].body["messages"]
        assert called["content"][0]["type"] == "tool_use"
        assert result["content"][0]["tool_use_id"] == called["content"][0]["id"]


def test_forgetting_somebody_empties_the_runs_that_knew_them(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.11, T1: what a run was told and knew goes with its owner, and so does the conversation with its session."""
    served(["Hello Ada."])
    with Memory(tmp_path / "home", worker=False) as memory:
        text = ANSWER.format(definition=define(memory), action="ai_generate_reply")
        memory.definitions.bind(["customer_profile"], owner="u1").update(
            {"customer_profile": {"preferred_name": "Ada"}}
        )
        first = run(memory, text, "Who am I?", thread="t1")
        second = run(memory, text, "Who are you?", owner="u2", thread="t2")
        assert len(memory.flow("support").session("owner=u1/thread=t1").history.last(9)) == 2
        assert memory.user("u1").forget().residual == 0
        assert memory.workflows.show(first.id).output is None
        assert memory.flow("support").session("owner=u1/thread=t1").history.last(9) == []
        assert memory.workflows.show(second.id).output == "Hello Ada."
        memory.flow("support").session("owner=u2/thread=t2").delete()
        assert memory.workflows.show(second.id).output is None
        with pytest.raises(NotFound):
            memory.workflows.show("nothing")


TALK = tasks(answer=("ai_generate_reply", {"input_mode": "history"}))
SHARED = [
    (("eve", "t"), (None, "eve/t")),
    (("org", "alice/t"), ("org/alice", "t")),
    (("a%2Fb", "t"), ("a/b", "t")),
    (("fo/a", "t"), ("fo", "a/t")),
]


@pytest.mark.parametrize(("first", "second"), SHARED)
def test_a_model_is_never_sent_the_conversation_of_another_owner(
    served: Callable[..., ScriptedServer],
    tmp_path: Path,
    first: tuple[str | None, str],
    second: tuple[str | None, str],
) -> None:
    """S3.22, S0.23: owner and thread stay apart, whatever characters they have; and forgetting one leaves the other."""
    server = served(["Noted."])
    with Memory(tmp_path / "home", worker=False) as memory:
        for number, (owner, thread) in enumerate((first, second)):
            done(memory, TALK, f"Secret {number}", owner=owner, thread=thread)
            assert [one["content"] for one in messages(server)[1:]] == [f"Secret {number}"]
        for owner, _ in (second, first):
            if owner is not None:
                memory.user(owner).forget()
                break
        left, number = (first, 0) if second[0] is not None else (second, 1)
        done(memory, TALK, "Again", owner=left[0], thread=left[1])
        assert [one["content"] for one in messages(server)[1:]] == [f"Secret {number}", "Noted.", "Again"]


@pytest.mark.every_engine
def test_workflows_of_one_name_do_not_share_conversations(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.22: a stored workflow has those of its id, also under another name; a document without a name those of its content."""
    server = served(["Noted."])
    nameless = {name: one for name, one in TALK.items() if name != "name"}
    with Memory(tmp_path / "home", worker=False) as memory:
        first, second = memory.workflows.create(TALK).id, memory.workflows.create(TALK).id
        others = (nameless, nameless | {"description": "Another"}, nameless | {"name": "workflow"})
        talks = [first, second, TALK, *others]
        for number, talk in enumerate(talks):
            done(memory, talk, f"Secret {number}", thread="t1")
            assert [one["content"] for one in messages(server)[1:]] == [f"Secret {number}"]
        memory.workflows.update(first, TALK | {"name": "renamed"})
        for number, talk in enumerate(talks):
            done(memory, talk, "Again", thread="t1")
            assert [one["content"] for one in messages(server)[1:]] == [f"Secret {number}", "Noted.", "Again"]
        (session,) = memory.flow(f"workflow={first}").sessions()
        assert session.session == "owner=u1/thread=t1"


def test_a_conversation_under_the_name_of_a_workflow_continues_if_it_can_only_be_its_own(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.22: as an earlier version has written it. Its runs may be deleted; a program's own session is never meant."""
    server = served(["Noted."])
    with Memory(tmp_path / "home", worker=False) as memory:
        first = memory.workflows.create(TALK).id
        for session in ("owner=u1/thread=t1", "t2", "owner=u1/thread=t3"):
            memory.flow(TALK["name"]).session(session).history.append(role="user", content="Before")
        done(memory, first, "Hi", thread="t1")
        assert [one["content"] for one in messages(server)[1:]] == ["Before", "Hi"]
        done(memory, first, "Hi", owner=None, thread="t2")
        assert [one["content"] for one in messages(server)[1:]] == ["Hi"]
        second = memory.workflows.create(TALK).id
        for workflow, before in ((first, ["Before", "Hi", "Noted."]), (second, [])):
            done(memory, workflow, "Again", thread="t1")
            assert [one["content"] for one in messages(server)[1:]] == [*before, "Again"]
            done(memory, workflow, "Again", thread="t3")
            assert [one["content"] for one in messages(server)[1:]] == ["Again"]


def test_a_name_from_outside_never_leads_to_the_conversation_of_an_owner(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.22: neither as a thread nor as the session or key that a document computes."""
    server = served(["Noted."])
    with Memory(tmp_path / "home", worker=False) as memory:
        done(memory, TALK, "Secret", owner="eve", thread="t")
        computed = tasks(answer=reply(history={"flow": TALK["name"], "session": "=$input.session"}))
        (named,) = memory.flow(TALK["name"]).sessions()
        assert named.session == "owner=eve/thread=t"
        found = run(memory, computed, "Hi", owner="mallory", inputs={"session": named.session})
        assert "is kept for the conversation of an owner" in (found.error or "")
        with pytest.raises(Invalid, match="is kept for the conversation of an owner"):
            run(memory, TALK, "Hi", owner=None, thread=named.session)
        done(memory, computed, "Hi", owner="mallory", inputs={"session": "eve/t"})
        assert [one["content"] for one in messages(server)[1:]] == ["Hi"]


def test_a_conversation_that_only_the_author_writes_is_forgotten_with_its_owner(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.11: with `record: false`, a run ties it to the owner as soon as it reads it."""
    server = served(["Noted."])
    with Memory(tmp_path / "home", worker=False) as memory:
        document = tasks(answer=reply(history={"record": False}))
        talk = memory.flow(document["name"]).session("owner=u1/thread=t1")
        talk.history.append(role="user", content="Secret")
        done(memory, document, "Hi", thread="t1")
        assert [one["content"] for one in messages(server)[1:]] == ["Secret"]
        assert memory.user("u1").forget().residual == 0
        assert talk.history.last(9) == []


def test_two_apps_never_share_the_conversation_of_a_session(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S2.30, S3.22: of the same workflow, user and session id."""
    server = served(["Noted."])
    with Memory(tmp_path / "home", worker=False) as memory:
        workflow = memory.workflows.create(TALK).id
        for name, user in (("clinic", "ada"), ("shop", "ada"), ("bank", None), ("forum", None)):
            memory.app(name).configure(workflow=workflow)
            said = {} if user is None else {"userId": user}
            memory.app(name).execute(f"Told to the {name}", "s1" if user else "s2", said)
            assert [one["content"] for one in messages(server)[1:]] == [f"Told to the {name}"]
        computed = tasks(answer=reply(history={"session": "=$context.thread"}))
        memory.workflows.update(workflow, computed)
        memory.app("shop").execute("And again", "s1")
        assert [one["content"] for one in messages(server)[1:]] == ["Told to the shop", "Noted.", "And again"]
        paths = [one.session for one in memory.flow(f"workflow={workflow}").sessions()]
        assert sorted(paths) == [
            "app=bank/session=s2",
            "app=forum/session=s2",
            "owner=ada/app=clinic/session=s1",
            "owner=ada/app=shop/session=s1",
        ]


def rename_addresses(home: Path, names: dict[str, str], shared: str) -> None:
    """Give addresses and ties the names that release 0.1.0 gave them, and the data its schema. All runs have read one."""
    place = located(home)
    on_postgres = place.startswith("postgresql:")
    file = home / "tenants" / "default.db"
    db: Any = psycopg.connect(place, autocommit=True) if on_postgres else apsw.Connection(str(file), vfs=checksum_vfs())
    db.execute("SET search_path = memwell" if on_postgres else "PRAGMA user_version = 9")
    if on_postgres:
        db.execute("DELETE FROM migration WHERE number > 9")
    for new, old in names.items():
        db.execute(f"UPDATE address SET path = '{old}' WHERE path = '{new}'")
        ties = (one.partition("@")[2] for one in (old, new))
        db.execute("UPDATE record_tie SET tie = '{}' WHERE tie = '{}'".format(*ties))
    flows = "(SELECT id FROM collection WHERE dialect = 'flow' AND kind = 'timeline' AND name LIKE '{}')"
    named, stored = flows.format(TALK["name"]), flows.format("workflow=%")
    db.execute(f"UPDATE address SET collection_id = {named} WHERE collection_id IN {stored}")
    db.execute("DELETE FROM record_tie WHERE tie LIKE 'in/%'")
    db.execute(
        "INSERT INTO run_touch (tenant, address_id, run_id) SELECT r.tenant, a.id, r.id FROM run r, address a "
        f"WHERE a.path = '{shared}' ON CONFLICT (tenant, address_id, run_id) DO NOTHING"
    )
    db.close()


@pytest.mark.every_engine
def test_conversations_of_an_earlier_release_are_continued(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.22, S3.14: by their owners alone. One that several have shared is sent to none of them, and still forgotten."""
    server, home = served(["Noted."]), tmp_path / "home"
    threads = [("u1", "t1"), ("a/b", "50%"), ("eve", "t")]
    names = {
        "owner=u1/thread=t1": "u1/t1",
        "owner=a%2Fb/thread=50%25": "a/b/50%",
        "owner=u1/app=shop/session=s1": "u1/shop/s1",
        "app=shop/session=s2": "shop/s2",
        "ticket@thread/app=shop/session=s1": "ticket@thread/shop/s1",
        "owner=eve/thread=t": "eve/t",
    }
    where: Any = {"owner": "u1", "thread": "app=shop/session=s1"}
    with Memory(home, worker=False) as memory:
        memory.definitions.create("Ticket", scope="thread", schema={"type": "object", "properties": {"a": {}}})
        memory.app("shop").configure(workflow=memory.workflows.create(TALK).id)
        for owner, thread in threads:
            done(memory, TALK, f"From {owner}", owner=owner, thread=thread)
        for session, said in (("s1", {"userId": "u1"}), ("s2", {})):
            memory.app("shop").execute(f"From {session}", session, said)
        memory.definitions.bind(["ticket"], **where).update({"ticket": {"a": 1}})
    rename_addresses(home, names, "eve/t")
    with Memory(home, worker=False) as memory:
        flow = memory.flow(TALK["name"])
        assert {one.session for one in flow.sessions()} == {*list(names)[:4], "eve/t"}
        for owner, thread in threads:
            done(memory, TALK, "Again", owner=owner, thread=thread)
            before = [] if owner == "eve" else [f"From {owner}", "Noted."]
            assert [one["content"] for one in messages(server)[1:]] == [*before, "Again"]
        (talk,) = memory.app("shop").sessions.end("s2").conversations
        assert (talk.session, talk.ended) == ("app=shop/session=s2", False)
        for session in ("s1", "s2"):
            memory.app("shop").execute("Again", session)
            assert [one["content"] for one in messages(server)[1:]] == [f"From {session}", "Noted.", "Again"]
        other = memory.workflows.create(TALK).id
        done(memory, other, "Me, too", thread="t1")
        assert [one["content"] for one in messages(server)[1:]] == ["Me, too"], "of another workflow"
        assert memory.definitions.bind(["ticket"], **where).values == {"ticket": {"a": 1}}
        assert memory.app("shop").sessions.end("s1").records == 2
        assert memory.user("eve").forget().residual == 0
        assert flow.session("eve/t").history.last(9) == []


def test_a_task_that_says_nothing_of_it_asks_what_came_in(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """B3.23: the text of the input, with common instructions; of a history, the last four messages."""
    server = served(["Hello."])
    with Memory(tmp_path / "home", worker=False) as memory:
        assert done(memory, tasks(answer=("ai_generate_text", {})), "Who is there?") == "Hello."
        assert [(one["role"], one["content"]) for one in messages(server)] == [
            ("system", "You are a helpful assistant."),
            ("user", "Who is there?"),
        ]
        history = tasks(answer=("ai_generate_reply", {"input_mode": "history"}))
        for number in range(4):
            done(memory, history, f"Message {number}", thread="t1")
        assert [one["content"] for one in messages(server)[1:]] == ["Hello.", "Message 2", "Hello.", "Message 3"]


# -- what must not happen ------------------------------------------------------------------------------------------------


def reply(**settings: Any) -> dict[str, Any]:
    inputs = {"input_mode": "history", "messages_limit": 4}
    return {"kind": "task", "action": "ai_generate_reply", "inputs": inputs, "settings": settings}


def test_a_task_whose_time_is_over_does_nothing_any_more(
    served: Callable[..., ScriptedServer], tmp_path: Path, registered: list[Any]
) -> None:
    """B3.21: nothing is asked, called or written once a task has timed out, also while it is tried again."""

    def script(request: Any) -> Any:
        time.sleep(0.3)
        return ToolCalls((ToolCall("lookup", {"order": str(len(server.requests))}),))

    server = served(script)
    with Memory(tmp_path / "home", worker=False) as memory:
        settings = {"timeout_ms": 400, "max_steps": 20}
        document = tasks(
            lookup={"kind": "tools", "action": "lookup_order"},
            answer={"kind": "task", "action": "ai_agent", "settings": settings, "bindings": {"tools": ["lookup"]}},
        )
        assert "(timeout)" in (run(memory, document, "Go").error or "")
        time.sleep(0.7)
        before = (len(server.requests), len(registered))
        time.sleep(0.7)
        assert (len(server.requests), len(registered)) == before


def test_an_invalid_history_setting_fails_the_run(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """C17: a key or session that is said and comes to nothing fails the run; a bank must be one of conversations."""
    served(["never"])
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.banks.create("chats")
        memory.banks.create("notes", type="general")
        missing = {"bank": "chats", "key": "=$context.metadata.user_id"}
        found = run(memory, tasks(answer=reply(history=missing)), "Hi", thread="web")
        assert "`settings.history.key` is empty" in (found.error or "")
        general = run(memory, tasks(answer=reply(history={"bank": "notes", "key": "k"})), "Hi")
        assert "has no conversations" in (general.error or "")


def test_what_is_said_is_kept_once_wherever_it_belongs(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S3.22: in every conversation that the run goes on with, whatever its tasks are called; and not what is no speech."""
    server = served(["Hello."])
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        bank = memory.banks.create("chats")
        document = tasks(
            first=reply(history={"flow": "inbox", "session": "s1"}),
            second=reply(history={"flow": "inbox", "session": "s2"}),
            third=reply(history={"bank": "chats", "key": "k"}),
            input=(
                "send_text_message",
                {"text": "=$join($distinct([$output.first.text, $output.second.text, $output.third.text])) & ' Bye.'"},
            ),
            keep=("update_memory", {"memory": {"customer_profile": {"language": "en"}}}),
        )
        assert done(memory, document, "Hi") == "Hello. Bye."
        said = [("user", "Hi"), ("assistant", "Hello. Bye.")]
        for session in ("s1", "s2"):
            turns = memory.flow("inbox").session(session).history.last(9)
            assert [(turn.role, turn.content) for turn in turns] == said
        assert [
            (one["role"], one["content"]) for one in bank.load(key="k", order="oldest_first").messages or []
        ] == said
        last = tasks(answer=reply(), keep=("update_memory", {"memory": {"customer_profile": {"language": "pt"}}}))
        done(memory, {**last, "name": "other", "outputs": {"reply": "=$output.answer.text"}}, "Hi", thread="t1")
        turns = memory.flow("other").session("owner=u1/thread=t1").history.last(9)
        assert [turn.content for turn in turns] == ["Hi", "Hello."]
        assert server.requests


def test_repeating_a_run_writes_nothing_twice(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """C45: what was written stays as it has become since, and a model is asked what it was asked then."""
    answers = iter([TextReply("", finish_reason="length"), "Second.", "First."])
    server = served(lambda request: next(answers))
    with Memory(tmp_path / "home", worker=False) as memory:
        define(memory)
        keep = ("update_memory", {"memory": {"customer_profile": {"language": "=$input.text"}}})
        document = tasks(keep=keep, answer=reply())
        first = run(memory, document, "One?", thread="t1")
        assert first.status == "failed"
        assert run(memory, document, "Two?", thread="t1").output == "Second."
        memory.definitions.bind(["customer_profile"], owner="u1").update({"customer_profile": {"language": "newer"}})
        assert memory.workflows.repeat(first.id).output == "First."
        assert [one["content"] for one in messages(server)[1:]] == ["One?"]
        assert values(memory, "customer_profile") == {"customer_profile": {"language": "newer"}}


def test_branches_do_not_see_what_others_remember(memory: Memory) -> None:
    """B3.19, B3.9: until all are done; then everything is there. The first one's message is the run's, if that is enough."""
    define(memory)
    define(memory, "Other Things")
    shown = "=$string($context.memory)"
    flow = [
        {
            "parallel": {
                "steps": [
                    {"do": "a"},
                    {"conditional": {"when": [{"else": True, "steps": [{"do": "b"}, {"do": "see"}]}]}},
                ]
            }
        },
        {"do": "after"},
    ]
    document = tasks(
        flow,
        a=("update_memory", {"memory": {"customer_profile": {"language": "en"}}}),
        b=("update_memory", {"memory": {"other_things": {"language": "pt"}}}),
        see=("send_text_message", {"text": shown}),
        after=("send_text_message", {"text": shown}),
        outputs={"see": "=$output.see.text", "after": "=$output.after.text"},
    )
    found = json.loads(done(memory, document))
    assert json.loads(found["see"]) == {"other_things": {"language": "pt"}}
    assert json.loads(found["after"]) == {"other_things": {"language": "pt"}, "customer_profile": {"language": "en"}}


def test_no_straggler_outlives_its_run(memory: Memory) -> None:
    """S3.15, B3.19: what the first of several leaves behind comes to its end before the run does, however deep it stands."""

    @function("slowly")
    def slowly(seconds: float) -> str:
        time.sleep(seconds)
        return "slow"

    define(memory, "Notes", scope="run", schema={"type": "object", "additionalProperties": True})
    later = [{"do": "slow"}, {"do": "keep"}]
    inner = {
        "parallel": {
            "strategy": "wait_any",
            "steps": [{"do": "mid"}, {"conditional": {"when": [{"else": True, "steps": later}]}}],
        }
    }
    flow = [{"parallel": {"strategy": "wait_any", "steps": [{"do": "fast"}, inner]}}]
    document = tasks(
        flow,
        notes={"kind": "memory", "settings": {"definition_id": "notes"}},
        fast=("slowly", {"seconds": 0.0}),
        mid=("slowly", {"seconds": 0.1}),
        slow=("slowly", {"seconds": 0.4}),
        keep=("update_memory", {"memory": {"notes": {"n": 1}}}),
    )
    found = run(memory, document)
    assert (found.status, len(found.steps)) == ("done", 4), found.error
    assert values(memory, "notes", run=found.id) == {}


def test_a_message_is_never_taken_for_fields(memory: Memory) -> None:
    """S3.26: whoever writes a message does not decide what `$input` holds."""
    document = tasks(say=("send_text_message", {"text": "=$input.text & '|' & $string($exists($input.role))"}))
    text = '{"text": "x", "role": "admin"}'
    assert done(memory, document, text) == f"{text}|false"


def test_a_tool_gets_what_the_model_gave_and_its_defaults(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """A user's words never stand in for an argument that a model left away."""
    seen: list[Any] = []

    @function("find_pages")
    def find_pages(limit: int = 10, lang: str = "en") -> str:
        seen.append((limit, lang))
        return "none"

    served([ToolCalls((ToolCall("find", {"lang": "pt"}),)), "Nothing."])
    with Memory(tmp_path / "home", worker=False) as memory:
        document = tasks(
            find={"kind": "tools", "action": "find_pages"},
            answer={"kind": "task", "action": "ai_agent", "bindings": {"tools": ["find"]}},
        )
        assert done(memory, document, "find me something") == "Nothing."
    assert seen == [(10, "pt")]


def test_an_object_is_asked_for_with_its_schema_in_words_too(
    served: Callable[..., ScriptedServer], tmp_path: Path
) -> None:
    """S3.27: servers that know no schemas can answer as well, and one author's schema says nothing about another's."""
    server = served(['{"n": 1}'])
    with Memory(tmp_path / "home", worker=False) as memory:
        for schema in ({"type": "object", "required": ["n"]}, {"type": "object"}):
            task = {
                "kind": "task",
                "action": "ai_generate_object",
                "settings": {"output_schema": schema, "temperature": 0.7},
            }
            assert done(memory, tasks(make=task), "Go") == '{"n":1}'
            body = server.requests[-1].body
            assert "JSON Schema" in body["messages"][-1]["content"]
            assert body["response_format"]["json_schema"]["strict"] is False
            assert body["temperature"] == 0.7


def test_memory_that_does_not_fit_any_more_is_named(served: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    """S3.45, C24: it is withheld from the model, and the step says so."""
    server = served(["Fine."])
    with Memory(tmp_path / "home", worker=False) as memory:
        definition = define(memory)
        memory.definitions.bind(["customer_profile"], owner="u1").update({"customer_profile": {"language": "pt"}})
        narrow = {"type": "object", "properties": {"language": {"type": "integer"}}}
        memory.definitions.update("customer_profile", schema=narrow, accept_breaking=True)
        found = run(memory, ANSWER.format(definition=definition, action="ai_agent"), "Hi", thread="t1")
        assert "`customer_profile` is withheld" in found.steps[0].warnings[0]
        assert "Working Memory" not in messages(server)[0]["content"]
