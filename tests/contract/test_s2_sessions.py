"""S2: sessions of apps and their metadata; messages, and the functions and prompts that answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from memwell import Conflict, Forbidden, Invalid, NotFound, TooLarge, function
from memwell.core import functions
from memwell.sdk._sync_apps import App, Scope
from memwell.testing import FrozenClock
from memwell.workflows.run_operations import Executed

from ..cases import cases
from ..engines import Memory, remains
from ..live import live
from ..scripted import ScriptedServer
from ..waiting import wait_until
from .conftest import engine_of

STORES = """
userPrefs: {access: user, retention: 1_month}
cart: {access: session, retention: session_only}
notes: {access: session, retention: 1_week}
featureFlags: {access: application, retention: 1_week}
tempProcessingData: {access: session, retention: session_only}
"""
REQUEST: dict[str, Any] = {
    "message": "Hello",
    "session_id": "sess_123",
    "metadata": {"userId": "user_456", "userName": "John", "customerTier": "premium", "channel": "mobile_app"},
}
INFO = ["sessionId", "appId", "sessionReference", "userReference", "userId", "runId", "timestamp"]

Code = Callable[..., Any]
Registers = Callable[[Code], str]
Answers = Callable[..., Executed]


@pytest.fixture
def shop(memory: Memory) -> App:
    memory.app("shop").stores.define(STORES)
    return memory.app("shop")


@pytest.fixture
def code() -> Registers:
    """Registers a function, and gives its name."""

    def registered(made: Code) -> str:
        function(made)
        return made.__name__

    return registered


@pytest.fixture
def answer(shop: App, code: Registers) -> Answers:
    """Sends a message to the shop, which a function answers."""

    def asked(made: Code, message: str = "Hello", session_id: str | None = "s1", **more: Any) -> Executed:
        shop.configure(function=code(made))
        return shop.execute(message, session_id, **({"user_id": "alice"} | more))

    return asked


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer(["Olá!"]) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:test@{server.url}?timeout_s=20")
        yield server


def ok() -> str:
    return "ok"


def json_of(output: str | None) -> Any:
    return msgspec.json.decode(output or "")


def text(template: str, **fields: Any) -> dict[str, Any]:
    return {"step_type": "text", "template": template, **fields}


def answered_by(memory: Memory, *steps: dict[str, Any]) -> str:
    """Let a stored workflow of these steps answer for the shop; its id."""
    stored = memory.workflows.create({"name": "answer", "steps": list(steps)})
    memory.app("shop").configure(workflow=stored.id, function=None)
    return stored.id


def work(memory: Memory) -> None:
    engine_of(memory).worker.run_due("default")


def meta(shop: App, session_id: str = "s1") -> Any:
    return shop.scope(session_id=session_id).get_content("sessionMeta")


def at(shop: App, user_id: str = "alice", session_id: str = "s1") -> Scope:
    return shop.scope(user_id=user_id, session_id=session_id)


# -- the session meta ----------------------------------------------------------------------------------------------------


def test_the_meta_of_a_session_is_that_session_alone(shop: App, clock: FrozenClock) -> None:
    """S2.2: one session's, for as long as it lasts, however long that is."""
    shop.sessions.update("s1", {"channel": "web"})
    shop.sessions.update("s2", {"channel": "mail"})
    clock.advance(days=400)
    assert [meta(shop, one)["metadata"] for one in ("s1", "s2", "s3")] == [{"channel": "web"}, {"channel": "mail"}, {}]
    shop.sessions.end("s1")
    assert [meta(shop, one)["metadata"] for one in ("s1", "s2")] == [{}, {"channel": "mail"}]
    with pytest.raises(Invalid) as refused:
        shop.scope(user_id="alice").get_content("sessionMeta")
    assert refused.value.details["field"] == "session_id"


def test_metadata_is_set_by_whoever_calls_the_app(shop: App) -> None:
    """S2.3: any fields, merged into what was passed before, or in its place when that is said."""
    shop.sessions.update("s1", {"userId": "alice", "channel": "web", "custom": {"a": 1}})
    shop.sessions.update("s1", {"channel": "mail", "custom": {"b": [1, 2]}})
    assert meta(shop)["metadata"] == {"userId": "alice", "channel": "mail", "custom": {"a": 1, "b": [1, 2]}}
    shop.sessions.update("s1", {"channel": "app"}, mode="replace")
    assert meta(shop)["metadata"] == {"channel": "app"}
    assert shop.sessions.get("s1").metadata == {"channel": "app"}


def test_the_system_says_which_session_it_is(shop: App, answer: Answers, clock: FrozenClock) -> None:
    """S2.4: the seven fields, each with what it is to say."""
    shop.sessions.update("s1", user_id="alice", user_reference="mail:alice", session_reference="ticket-7")
    known = meta(shop)["sessionInfo"]
    assert list(known) == INFO
    assert known == {
        "sessionId": "s1",
        "appId": "shop",
        "sessionReference": "ticket-7",
        "userReference": "mail:alice",
        "userId": "alice",
        "runId": None,
        "timestamp": "2026-04-19T10:00:00Z",
    }
    clock.advance(minutes=42)
    done = answer(ok)
    assert meta(shop)["sessionInfo"] == known | {"runId": done.run_id, "timestamp": "2026-04-19T10:42:00Z"}


def test_metadata_cannot_replace_session_info(shop: App) -> None:
    """S2.4: what is passed under the same names stays metadata."""
    shop.sessions.update("s1", {"sessionInfo": {"appId": "bank"}, "sessionId": "s9", "appId": "bank"})
    assert meta(shop)["sessionInfo"]["appId"] == "shop"
    assert meta(shop)["sessionInfo"]["sessionId"] == "s1"


def test_the_meta_of_a_session_cannot_be_written_or_deleted(shop: App) -> None:
    """S2.2, S2.5: not as a store, by any method, and nothing changes."""
    shop.sessions.update("s1", {"channel": "web"})
    here, before = shop.scope(session_id="s1"), meta(shop)
    for attempt in (
        lambda: here.set_content("sessionMeta", {"metadata": {"channel": "mail"}}),
        lambda: here.set_content("sessionMeta", {}, mode="replace"),
        lambda: here.set_contents({"sessionMeta": {"metadata": {}}}),
        lambda: here.delete_content("sessionMeta"),
    ):
        with pytest.raises(Forbidden, match="sessionMeta"):
            attempt()
    assert meta(shop) == before
    with pytest.raises((Invalid, NotFound)):
        shop.stores.delete("sessionMeta")
    with pytest.raises((Invalid, NotFound)):
        shop.stores.update("sessionMeta", name="Mine")


@cases("is_async", [False, True])
def test_code_cannot_change_the_meta_of_its_session(shop: App, answer: Answers, is_async: bool) -> None:
    """S2.2, S2.3, S2.5: it can read it, and is refused when it writes or deletes; nothing changes."""
    refused: list[str] = []

    def note(error: Forbidden) -> None:
        refused.append(error.message)

    def change(memory: Any) -> str:
        for method, more in ((memory.set_content, [{"metadata": {"channel": "mail"}}]), (memory.delete_content, [])):
            try:
                method("sessionMeta", *more)
            except Forbidden as error:
                note(error)
        return str(memory.get_content("sessionMeta")["metadata"]["channel"])

    async def change_awaited(memory: Any) -> str:
        for method, more in ((memory.set_content, [{"metadata": {"channel": "mail"}}]), (memory.delete_content, [])):
            try:
                await method("sessionMeta", *more)
            except Forbidden as error:
                note(error)
        found = await memory.get_content("sessionMeta")
        return str(found["metadata"]["channel"])

    done = answer(change_awaited if is_async else change, metadata={"channel": "web"})
    assert (done.status, done.output) == ("done", "web")
    assert len(refused) == 2
    assert meta(shop)["metadata"] == {"channel": "web"}


def test_code_that_does_not_look_fails_when_it_changes_the_meta(shop: App, answer: Answers) -> None:
    """S2.5."""

    def change(memory: Any) -> None:
        memory.set_content("sessionMeta", {"metadata": {"channel": "mail"}})

    done = answer(change, metadata={"channel": "web"})
    assert done.status == "failed"
    assert "sessionMeta" in (done.error or "")
    assert meta(shop)["metadata"] == {"channel": "web"}


def test_the_meta_is_read_whole_or_in_parts(shop: App) -> None:
    """S2.28, S2.21: metadata, session info and artifacts; also by projections and over `sessions.get`."""
    shop.sessions.update("sess_123", REQUEST["metadata"])
    found = meta(shop, "sess_123")
    assert list(found) == ["metadata", "sessionInfo", "artifacts"]
    assert (found["metadata"]["userId"], found["metadata"]["channel"]) == ("user_456", "mobile_app")
    assert found["sessionInfo"]["sessionId"] == "sess_123"
    assert found["artifacts"] == []
    here = shop.scope(session_id="sess_123")
    partial = here.get_content("sessionMeta", {"metadata.channel": 1, "sessionInfo.appId": 1})
    assert partial == {"metadata": {"channel": "mobile_app"}, "sessionInfo": {"appId": "shop"}}
    shown = shop.sessions.get("sess_123")
    assert (shown.metadata, shown.session_info.app_id) == (found["metadata"], "shop")
    assert shown.session_info.timestamp == datetime.fromisoformat(found["sessionInfo"]["timestamp"])


def test_metadata_that_is_no_object_is_refused(memory: Memory, shop: App) -> None:
    """S2.3."""
    for wrong in ("text", [1], 7):
        with pytest.raises(Invalid):
            memory.call("apps.sessions.update", {"app": "shop", "session_id": "s1", "metadata": wrong})
    assert shop.sessions.list() == []


def test_the_meta_is_known_as_it_is_now_only(shop: App, clock: FrozenClock) -> None:
    """S2.2: no history of it is kept, and nothing is shown as if there were one."""
    shop.sessions.update("s1", {"channel": "web"})
    clock.advance(hours=1)
    for moment in ("1999-01-01T00:00:00Z", "2026-04-19T10:30:00Z", "2026-04-19T11:00:00Z"):
        with pytest.raises(Invalid) as refused:
            shop.scope(session_id="s1").read("sessionMeta", as_of=datetime.fromisoformat(moment))
        assert refused.value.details["field"] == "as_of"


def test_metadata_has_a_limit_however_it_is_passed(shop: App) -> None:
    """S2.3: 64 KiB, at once or bit by bit; what is refused changes nothing, and less can be put in its place."""
    with pytest.raises(TooLarge) as refused:
        shop.sessions.update("s1", {"word": "x" * 70_000})
    assert refused.value.details["field"] == "metadata"
    shop.sessions.update("s1", {"a": "x" * 40_000})
    with pytest.raises(TooLarge) as refused:
        shop.sessions.update("s1", {"b": "x" * 40_000})
    assert refused.value.details["field"] == "metadata"
    assert list(meta(shop)["metadata"]) == ["a"]
    shop.sessions.update("s1", {"b": "x" * 40_000}, mode="replace")
    assert list(meta(shop)["metadata"]) == ["b"]


def test_code_is_told_what_it_cannot_ask_for(answer: Answers) -> None:
    """S2.21: also where there is nothing to be chosen from."""
    refused: list[str] = []

    def ask(memory: Any) -> str:
        for wrong in (["lastVisit"], {"lastVisit": 0}, {1: 1}, "lastVisit"):
            try:
                memory.get_content("userPrefs", wrong)
            except Invalid as error:
                refused.append(error.details["field"])
        return str(memory.get_content("userPrefs", {"lastVisit": 1}))

    done = answer(ask)
    assert (done.status, done.output) == ("done", "None")
    assert refused == ["projections"] * 4


# -- messages ------------------------------------------------------------------------------------------------------------


@pytest.mark.every_engine
def test_a_message_has_the_shape_of_the_document(tmp_path: Path, code: Registers) -> None:
    """S2.29, S2.28, S2.3: over REST, byte for byte; the metadata shows in the session's meta, in code and afterwards."""

    def greet(message: str, memory: Any) -> dict[str, Any]:
        found = memory.get_content("sessionMeta")
        return {"said": message, **found["metadata"], "session": found["sessionInfo"]["sessionId"]}

    with live(tmp_path, worker=False) as server, server.client() as client:
        name = code(greet)
        client.put("/v1/apps/shop", json={"function": name}).raise_for_status()
        sent = client.post("/v1/apps/shop/execute", json=REQUEST)
        assert sent.status_code == 201
        done = sent.json()
        assert (done["session_id"], done["status"]) == ("sess_123", "done")
        told = {"said": "Hello", **REQUEST["metadata"], "session": "sess_123"}
        assert json_of(done["output"]) == told
        path = "/v1/apps/shop/stores/sessionMeta/content"
        found = client.get(path, params={"session_id": "sess_123"}).json()["content"]
        assert found["metadata"] == REQUEST["metadata"]
        assert (found["sessionInfo"]["runId"], found["sessionInfo"]["userId"]) == (done["run_id"], "user_456")
        assert client.patch(path, json={"session_id": "sess_123", "data": {"metadata": {}}}).status_code == 403
        assert client.delete(path, params={"session_id": "sess_123"}).status_code == 403
        assert client.get(path, params={"session_id": "sess_123"}).json()["content"] == found


def test_metadata_stays_for_the_whole_session(shop: App, answer: Answers) -> None:
    """S2.29: a later message may add to it, and need not repeat it."""

    def tell(memory: Any) -> Any:
        return memory.get_content("sessionMeta")["metadata"]

    first = answer(tell, metadata={"channel": "web"})
    second = answer(tell)
    third = answer(tell, metadata={"tier": "premium"})
    assert [json_of(done.output) for done in (first, second, third)] == [
        {"channel": "web"},
        {"channel": "web"},
        {"channel": "web", "tier": "premium"},
    ]
    assert len({done.run_id for done in (first, second, third)}) == 3


def test_a_message_without_a_session_begins_one(shop: App, answer: Answers) -> None:
    """S2.29, B2.11."""
    first, second = (answer(ok, session_id=None) for _ in range(2))
    assert first.session_id != second.session_id
    assert {one.session_id for one in shop.sessions.list()} == {first.session_id, second.session_id}


def test_a_message_need_not_be_waited_for(memory: Memory, shop: App, answer: Answers) -> None:
    free = Event()

    def slow(message: str) -> str:
        free.wait(20)
        return f"{message}!"

    begun = answer(slow, wait=False)
    assert (begun.status, begun.output) == ("running", None)
    free.set()
    wait_until(lambda: memory.workflows.show(begun.run_id).status != "running")
    run = memory.workflows.show(begun.run_id)
    assert (run.status, run.output) == ("done", "Hello!")


def test_an_app_that_nothing_answers_for_says_so(memory: Memory, shop: App) -> None:
    with pytest.raises(Invalid, match="configure"):
        shop.execute("Hello", "s1")
    with pytest.raises(NotFound):
        memory.app("nowhere").execute("Hello", "s1")
    assert shop.sessions.list() == [], "no session has begun"
    with pytest.raises(Invalid, match="workflow"):
        shop.configure(workflow="nowhere")
    echo = memory.workflows.create({"name": "echo", "steps": [text("{{input}}")]}).id
    with pytest.raises(Invalid, match="either"):
        shop.configure(function="a", workflow=echo)


def test_a_function_that_does_not_exist_is_refused_when_it_is_set(shop: App) -> None:
    """S2.16: not only with the first message."""
    with pytest.raises(Invalid, match=r"`function`: There is no registered function 'nosuch'.*MEMWELL_FUNCTIONS"):
        shop.configure(function="nosuch", description="A shop")
    with pytest.raises(Invalid, match="nosuch"):
        shop.import_document({"function": "nosuch"})
    assert (shop.info().function, shop.info().description) == (None, None)


def test_what_is_set_to_answer_takes_the_place_of_what_did(memory: Memory, shop: App) -> None:
    echo = memory.workflows.create({"name": "echo", "steps": [text("{{input}}")]}).id
    for name in "ab":
        function(name)(lambda message: message)
    shop.configure(function="a")
    assert (shop.configure(workflow=echo).function, shop.info().workflow) == (None, echo)
    assert (shop.configure(function="b").workflow, shop.info().function) == (None, "b")
    assert shop.configure(function=None).function is None


# -- what a function may do ------------------------------------------------------------------------------------------------


def test_a_function_replaces_and_unsets(shop: App, answer: Answers) -> None:
    """S2.23: as code outside of a run can."""

    def tidy(memory: Any) -> Any:
        memory.set_content("cart", {"items": [1], "note": "x", "old": {"a": 1, "b": 2}})
        memory.set_content("cart", {"n": 1}, unset=["note", "old.a"])
        seen = memory.get_content("cart")
        return [seen, memory.set_content("cart", {"m": 2}, mode="replace")]

    done = json_of(answer(tidy).output)
    assert done == [{"items": [1], "n": 1, "old": {"b": 2}}, {"m": 2}]


def test_a_function_that_writes_a_misfit_gives_its_step_a_warning(memory: Memory, shop: App, answer: Answers) -> None:
    """S2.13, C23."""
    shop.stores.create("typed", schema={"type": "object", "properties": {"n": {"type": "integer"}}})

    def write(memory: Any) -> Any:
        return memory.set_content("typed", {"n": "many"})

    done = answer(write)
    assert (done.status, json_of(done.output)) == ("done", {"n": "many"})
    steps = memory.call("runs.get", {"run": done.run_id}).steps
    assert any("`typed.n`" in told for step in steps for told in step.warnings or ())


def test_a_run_knows_what_its_function_has_written(memory: Memory, shop: App, answer: Answers) -> None:
    """B3.8: once that is deleted, the run is empty, though it has never read it."""

    def write(memory: Any) -> str:
        memory.set_content("userPrefs", {"word": "secret"})
        return "the word is secret"

    done = answer(write)
    assert "secret" in (done.output or "")
    at(shop).delete_content("userPrefs")
    assert memory.call("runs.get", {"run": done.run_id}).output is None


def test_a_run_that_is_over_writes_nothing_any_more(shop: App, answer: Answers) -> None:
    kept: list[Any] = []

    def keep(memory: Any) -> str:
        kept.append(memory)
        return "ok"

    answer(keep)
    with pytest.raises(Conflict, match="over"):
        kept[0].set_content("userPrefs", {"late": True})
    assert at(shop).get_content("userPrefs") is None


# -- working memory of a session -------------------------------------------------------------------------------------------

TICKET = """name: ticket
defs:
  p: {kind: memory, settings: {definition_id: ticket}}
  show: {kind: task, action: send_text_message, inputs: {text: "=$string($context.memory)"}}
  save: {kind: task, action: update_memory, inputs: {memory: {ticket: {a: "=$input.text"}}}}
flow: [{do: show}, {do: save}]
"""


@pytest.mark.every_engine
def test_a_run_and_a_record_have_the_same_word_for_a_thread(memory: Memory) -> None:
    """S2.30, S3.14: what `$context.thread` says can be given to `bind`."""
    memory.definitions.create("Ticket", scope="thread", schema={"type": "object", "properties": {"a": {}}})
    save = TICKET.replace("=$string($context.memory)", "=$context.thread")
    tree = {"name": "t", "steps": [text("{{metadata.thread}}")]}
    for document in (save, tree):
        memory.app("shop").configure(workflow=memory.workflows.create(document).id)
        assert memory.app("shop").execute("ada", "s1", user_id="alice").output == "app=shop/session=s1"
        run = memory.workflows.runs(limit=1)[0]
        assert (run.thread, run.app, run.session_id) == ("app=shop/session=s1", "shop", "s1")
    assert [one.thread for one in memory.definitions.records("ticket")] == ["app=shop/session=s1"]
    bound = memory.definitions.bind(["ticket"], owner="alice", thread="app=shop/session=s1")
    assert bound.values == {"ticket": {"a": "ada"}}
    assert memory.workflows.run(save, "ada", owner="alice", thread="t1").output == "t1"


@pytest.mark.every_engine
def test_the_thread_of_an_app_is_its_session(memory: Memory) -> None:
    """S2.30, S3.14, B2.10: no other app's of that name, and gone when the session ends or the app is deleted."""
    memory.definitions.create("Ticket", scope="thread", schema={"type": "object", "properties": {"a": {}}})
    workflow = memory.workflows.create(TICKET).id
    clinic, shop = memory.app("clinic"), memory.app("shop")
    for one in (clinic, shop):
        one.configure(workflow=workflow)
    said: dict[str, Any] = {"session_id": "s1", "metadata": {"userId": "u1"}}
    assert json_of(clinic.execute("told to the clinic", **said).output) == {}
    assert json_of(shop.execute("told to the shop", **said).output) == {}
    assert json_of(clinic.execute("again", **said).output) == {"ticket": {"a": "told to the clinic"}}
    assert clinic.scope(user_id="u1", session_id="s1").render("{{memory.ticket.a}}") == "again"
    threads = sorted(one.thread or "" for one in memory.definitions.records("ticket"))
    assert threads == ["app=clinic/session=s1", "app=shop/session=s1"]
    assert clinic.sessions.end("s1").records == 2
    assert json_of(clinic.execute("anew", **said).output) == {}
    assert json_of(shop.execute("still here", **said).output) == {"ticket": {"a": "told to the shop"}}
    clinic.delete()
    assert [one.thread for one in memory.definitions.records("ticket")] == ["app=shop/session=s1"]


def test_a_thread_is_that_of_its_owner_and_no_app_deletes_it(memory: Memory) -> None:
    """S3.14, B2.10: a thread may be called as the session of an app, and owners may call theirs alike."""
    memory.definitions.create("Ticket", scope="thread", schema={"type": "object", "properties": {"a": {}}})
    for owner, thread in (("ada", "shop/s1"), ("ada", "t"), ("bob", "t")):
        memory.definitions.bind(["ticket"], owner=owner, thread=thread).update({"ticket": {"a": owner}})
    shop = memory.app("shop")
    shop.sessions.update("s1", {"userId": "ada"})
    assert shop.scope(user_id="ada", session_id="s1").render("{{memory.ticket.a}}") == ""
    shop.sessions.end("s1")
    shop.delete()
    assert memory.definitions.end(thread="t", owner="ada").records == 1
    kept = [(one.owner, one.thread) for one in memory.definitions.records("ticket")]
    assert sorted(kept) == [("ada", "shop/s1"), ("bob", "t")]
    assert memory.definitions.end(thread="t").records == 1


def test_the_meta_of_a_session_is_for_its_user(shop: App) -> None:
    """S2.2: as is what its stores hold."""
    shop.sessions.update("s1", {"plan": "gold"}, user_id="alice")
    assert at(shop).get_content("sessionMeta")["metadata"] == {"plan": "gold"}
    assert meta(shop)["metadata"] == {"plan": "gold"}
    other = shop.scope(user_id="bob", session_id="s1")
    for look in (
        lambda: other.get_content("sessionMeta"),
        lambda: other.render("{{memory.sessionMeta.metadata.plan}}"),
    ):
        with pytest.raises(Conflict, match="another user"):
            look()


# -- which session, and whose --------------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_id(shop: App, answer: Answers) -> None:
    """B2.11: an id counts before a reference."""
    shop.sessions.update("s1", user_id="alice", session_reference="ticket-7")
    assert answer(ok, session_id="s1").session_id == "s1"
    assert answer(ok, session_id="s2", session_reference="ticket-7").session_id == "s2"


def test_a_reference_stays_with_its_session(shop: App) -> None:
    """B2.11: another one that is named by its id does not take it over."""
    shop.sessions.update("s1", session_reference="ticket-7")
    other = shop.sessions.update("s2", session_reference="ticket-7")
    assert other.session_info.session_reference is None
    assert meta(shop)["sessionInfo"]["sessionReference"] == "ticket-7"


def test_a_reference_alone_says_whose_the_session_is(shop: App, answer: Answers) -> None:
    """B2.11."""
    done = answer(ok, session_id=None, session_reference="R", user_id=None)
    info = meta(shop, done.session_id)["sessionInfo"]
    assert (info["userId"], info["userReference"], info["sessionReference"]) == ("R", "R", "R")


def test_a_user_is_named_by_text_or_a_whole_number(shop: App, answer: Answers) -> None:
    """What cannot name a user is not ignored, because the session would then belong to nobody."""
    answer(ok, session_id="s7", user_id=None, metadata={"userId": 7})
    assert meta(shop, "s7")["sessionInfo"]["userId"] == "7"
    for wrong in (True, 7.5, ["7"], "a\n"):
        with pytest.raises(Invalid, match="is not a valid user id"):
            answer(ok, session_id="s8", user_id=None, metadata={"userId": wrong})


def test_a_session_is_found_or_begun_by_its_reference(shop: App, answer: Answers) -> None:
    """B2.11: for as long as it lasts."""
    by_reference = {"session_id": None, "session_reference": "ticket-7"}
    first = answer(ok, **by_reference)
    assert answer(ok, **by_reference).session_id == first.session_id
    assert answer(ok, session_id=None, session_reference="ticket-8").session_id != first.session_id
    assert meta(shop, first.session_id)["sessionInfo"]["sessionReference"] == "ticket-7"
    shop.sessions.end(first.session_id)
    assert answer(ok, **by_reference).session_id != first.session_id


def test_a_reference_begins_one_session_however_many_use_it_at_once(shop: App, code: Registers) -> None:
    """B2.11."""
    shop.configure(function=code(ok))
    with ThreadPoolExecutor(8) as pool:
        for number in range(5):
            used = {"session_reference": f"ticket-{number}"}
            done = pool.map(lambda _, used=used: shop.execute("Hello", **used), range(8))
            assert len({one.session_id for one in done}) == 1
    assert len(shop.sessions.list()) == 5


def test_a_reference_of_another_app_is_another(memory: Memory, shop: App, answer: Answers) -> None:
    """B2.11, S2.30."""
    memory.app("bank").sessions.update("b1", {"word": "theirs"}, session_reference="ticket-7")
    done = answer(ok, session_id=None, session_reference="ticket-7")
    assert done.session_id != "b1"
    assert meta(shop, done.session_id)["metadata"] == {}


@pytest.mark.every_engine
def test_a_user_reference_alone_always_begins_a_session(shop: App, code: Registers) -> None:
    """B2.11: it says whose the session is, and not which."""

    def same(memory: Any) -> Any:
        return memory.get_content("sessionMeta")["sessionInfo"]

    shop.configure(function=code(same))
    first, second = (shop.execute("Hello", user_reference="mail:alice") for _ in range(2))
    assert first.session_id != second.session_id
    for done in (first, second):
        told = json_of(done.output)
        assert (told["userReference"], told["userId"]) == ("mail:alice", "mail:alice")
    assert len(shop.sessions.list(user_id="mail:alice")) == 2


@pytest.mark.parametrize("how", ["session_id", "session_reference"])
def test_a_session_does_not_change_hands(shop: App, answer: Answers, how: str) -> None:
    """B2.11: whoever is somebody else is refused, by its id as by its reference, and nothing changes."""
    shop.sessions.update("s1", {"n": 1}, user_id="alice", session_reference="ticket-7")
    before = meta(shop)
    which = {"session_id": "s1"} if how == "session_id" else {"session_id": None, "session_reference": "ticket-7"}
    with pytest.raises(Conflict):
        answer(ok, **which, user_id="bob", metadata={"n": 2})
    assert meta(shop) == before
    with pytest.raises(Conflict):
        shop.sessions.update("s1", {"n": 2}, user_id="bob")
    assert meta(shop) == before
    assert answer(ok, **which, user_id="alice").session_id == "s1"


@cases("how", ["session_id", "session_reference"])
def test_the_owner_of_a_session_is_checked_against_the_user_reference(shop: App, code: Registers, how: str) -> None:
    """B2.11: another user's reference does not open the session, nor takes the place of the one that it has."""
    shop.configure(function=code(ok))
    shop.sessions.update("s1", {"n": 1}, user_reference="mail:alice", session_reference="ticket-7")
    before = meta(shop)
    which: dict[str, Any] = {"session_id": "s1"} if how == "session_id" else {"session_reference": "ticket-7"}
    with pytest.raises(Conflict):
        shop.execute("Hello", **which, user_reference="mail:bob")
    assert meta(shop) == before
    assert shop.execute("Hello", **which, user_reference="mail:alice").session_id == "s1"


@pytest.mark.every_engine
def test_the_user_of_a_session_may_be_told_later(memory: Memory, shop: App, tmp_path: Path) -> None:
    """B2.11, S2.30: what was kept before is that user's from then on, and goes with the user."""
    shop.scope(session_id="s1").set_content("cart", {"word": "zyxoqwvquill"})
    shop.sessions.update("s1", user_id="alice")
    assert at(shop).get_content("cart") == {"word": "zyxoqwvquill"}
    with pytest.raises(Conflict):
        at(shop, "bob").get_content("cart")
    memory.call("users.forget", {"user": "alice"})
    work(memory)
    assert not [name for name, data in remains(tmp_path / "home").items() if b"zyxoqwvquill" in data]


def test_sessions_are_listed_page_by_page(memory: Memory, shop: App) -> None:
    """B2.9: those that have not ended, of one user or of all, whatever else the app keeps."""
    for number in range(60):
        user = ("alice", "bob")[number % 2]
        shop.sessions.update(f"s{number:02}", user_id=user)
        if number % 10 == 0:
            at(shop, user, f"s{number:02}").set_contents({"cart": {"n": number}, "tempProcessingData": {"n": number}})
    shop.scope().set_content("featureFlags", {"on": True})
    memory.app("bank").sessions.update("b1", user_id="alice")
    shop.sessions.end("s30")
    expected = [f"s{number:02}" for number in range(60) if number != 30]
    assert [one.session_id for one in shop.sessions.list()] == expected
    assert [one.session_id for one in shop.sessions.list(user_id="alice")] == expected[::2][:15] + expected[31::2]
    page = memory.call("apps.sessions.list", {"app": "shop", "user_id": "bob", "limit": 7})
    assert [one.session_id for one in page.sessions] == [f"s{number:02}" for number in range(1, 15, 2)]
    assert page.next_cursor is not None


# -- the end of a session ------------------------------------------------------------------------------------------------


def test_the_end_of_a_session_takes_what_was_to_last_as_long(memory: Memory, shop: App, tmp_path: Path) -> None:
    """C13, B2.10, S2.33: its meta and its content of that lifetime; what has another one stays, and so do others'."""
    for user, session in (("alice", "s1"), ("bob", "s2")):
        shop.sessions.update(session, {"word": f"{user}zyxoqwvquill"}, user_id=user)
        at(shop, user, session).set_contents(
            {"cart": {"word": f"{user}zyxoqwvquill"}, "notes": {"of": user}, "userPrefs": {"of": user}}
        )
    ended = shop.sessions.end("s1")
    assert ended.records == 2, "the meta and the cart"
    assert at(shop).get_content("cart") is None
    assert meta(shop)["metadata"] == {}
    assert at(shop).get_content("notes") == {"of": "alice"}
    assert at(shop).get_content("userPrefs") == {"of": "alice"}
    assert at(shop, "bob", "s2").get_content("cart") == {"word": "bobzyxoqwvquill"}
    assert [one.session_id for one in shop.sessions.list()] == ["s2"]
    work(memory)
    assert not [name for name, data in remains(tmp_path / "home").items() if b"alicezyxoqwvquill" in data]


def test_a_session_may_be_ended_again_and_begun_again(shop: App) -> None:
    """C13: the second end changes nothing, an unknown session can be ended, and what comes later is new."""
    shop.sessions.update("s1", {"a": 1}, user_id="alice")
    at(shop).set_content("cart", {"a": 1})
    assert shop.sessions.end("s1").records == 2
    again = shop.sessions.end("s1")
    assert (again.records, again.job) == (0, None)
    assert shop.sessions.end("never").records == 0
    shop.sessions.update("s1", {"b": 2}, user_id="alice")
    at(shop).set_content("cart", {"b": 2})
    assert (meta(shop)["metadata"], at(shop).get_content("cart")) == ({"b": 2}, {"b": 2})
    assert shop.sessions.end("s1").records == 2


def test_code_reads_the_id_of_its_own_run(shop: App, answer: Answers) -> None:
    """S2.4: also while another run of its session is under way."""
    begun, go_on = Event(), Event()
    seen: dict[str, str] = {}

    def look(memory: Any) -> None:
        name = "second" if begun.is_set() else "first"
        begun.set()
        if name == "first":
            assert go_on.wait(20)
        seen[name] = memory.get_content("sessionMeta")["sessionInfo"]["runId"]

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answer, look)
        assert begun.wait(20)
        second = shop.execute("Hello", "s1", user_id="alice")
        go_on.set()
        assert seen == {"first": first.result().run_id, "second": second.run_id}
    assert meta(shop)["sessionInfo"]["runId"] == second.run_id, "outside of runs, the latest"


TALKS = {
    "name": "chat",
    "defs": {"reply": {"kind": "task", "action": "ai_generate_reply", "inputs": {"input_mode": "history"}}},
    "flow": [{"do": "reply"}],
}
TALK = "owner=alice/app=shop/session=s1"


@pytest.mark.every_engine
def test_the_end_of_a_session_says_what_becomes_of_its_conversation(
    model: ScriptedServer, memory: Memory, shop: App
) -> None:
    """S2.30, S0.23: it is kept and continues, unless it is to be ended, which makes facts of it."""
    workflow = memory.workflows.create(TALKS).id
    shop.configure(workflow=workflow)
    flow = memory.flow(f"workflow={workflow}")
    shop.execute("I moved to Porto in May.", "s1", user_id="alice")
    (kept,) = shop.sessions.end("s1").conversations
    assert (kept.flow, kept.session, kept.ended, kept.job) == (flow.id, TALK, False, None)
    assert flow.sessions()[0].ended_at is None
    shop.execute("I am vegetarian.", "s1", user_id="alice")
    assert len(model.requests[-1].body["messages"]) == 4, "with the system and what was said before"
    (ended,) = shop.session("s1").end(end_conversation=True).conversations
    assert (ended.session, ended.ended, ended.job is None) == (TALK, True, False)
    work(memory)
    assert any("Porto" in fact.content for fact in flow.memories())
    shop.configure(end_conversations=True)
    shop.execute("I keep parrots.", "s1", user_id="alice")
    assert shop.sessions.end("s1").conversations[0].ended
    assert shop.sessions.end("never").conversations == []
    assert memory.user("alice").forget().residual == 0
    assert shop.sessions.end("s1").conversations == []


def test_what_remains_of_an_ended_session_keeps_its_user(model: ScriptedServer, memory: Memory, shop: App) -> None:
    """S2.30: its conversation is the user's, as its metadata say; a session of which nothing remains is anybody's."""
    shop.configure(workflow=memory.workflows.create(TALKS).id)
    shop.execute("I moved to Porto.", "s1", user_id="alice")
    shop.sessions.end("s1")
    assert shop.session("s1").meta().session_info.user_id == "alice"
    with pytest.raises(Conflict, match="what remains of it, belongs to another user"):
        shop.execute("And me?", "s1", user_id="bob")
    memory.user("alice").forget()
    assert shop.session("s1").meta().session_info.user_id is None
    assert shop.execute("And me?", "s1", user_id="bob").status == "done"


@pytest.mark.every_engine
def test_a_session_ends_when_nobody_has_written_for_its_idle_time(
    model: ScriptedServer, memory: Memory, shop: App, clock: FrozenClock
) -> None:
    """S2.30: by the worker, or before the next message. Its conversation ends as the app says."""
    workflow = memory.workflows.create(TALKS).id
    shop.configure(workflow=workflow, idle_seconds="30 minutes", end_conversations=True)
    assert shop.info().idle_seconds == 1800
    for session in ("s1", "s2"):
        shop.execute("I moved to Porto in May.", session, user_id="alice")
    clock.advance(minutes=20)
    work(memory)
    shop.execute("And?", "s2", user_id="alice")
    at(shop).set_content("cart", {"n": 1})
    clock.advance(minutes=11)
    work(memory)
    assert [one.session_id for one in shop.sessions.list()] == ["s2"]
    assert at(shop).get_content("cart") is None
    talks = {one.session: one.ended_at for one in memory.flow(f"workflow={workflow}").sessions()}
    assert talks[TALK] is not None
    assert talks["owner=alice/app=shop/session=s2"] is None
    shop.sessions.update("s2", {"step": 1})
    clock.advance(minutes=31)
    shop.execute("Hello again", "s2", user_id="alice")
    assert meta(shop, "s2")["metadata"] == {}, "the message came late, so the session is a new one"
    shop.configure(idle_seconds="none")
    clock.advance(days=30)
    work(memory)
    assert [one.session_id for one in shop.sessions.list()] == ["s2"]


def test_a_session_does_not_end_during_a_run(memory: Memory, shop: App, answer: Answers, clock: FrozenClock) -> None:
    """S2.30: however long it takes."""
    begun, go_on = Event(), Event()

    def wait() -> str:
        begun.set()
        assert go_on.wait(20)
        return "done"

    shop.configure(idle_seconds=10)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(answer, wait)
        assert begun.wait(20)
        clock.advance(seconds=15)
        work(memory)
        assert [one.session_id for one in shop.sessions.list()] == ["s1"]
        go_on.set()
        asked.result()
    clock.advance(seconds=45)
    work(memory)
    assert shop.sessions.list() == []


@pytest.mark.every_engine
def test_output_of_a_run_stays_when_its_session_ends(memory: Memory, shop: App, answer: Answers) -> None:
    """C13: what was said has a lifetime of its own."""

    def use(memory: Any) -> str:
        memory.set_content("cart", {"n": 1})
        return f"You have {memory.get_content('cart')['n']} thing."

    done = answer(use)
    shop.sessions.end("s1")
    work(memory)
    assert memory.workflows.show(done.run_id).output == "You have 1 thing."


# -- code ----------------------------------------------------------------------------------------------------------------


def test_code_reads_writes_and_deletes(shop: App, answer: Answers) -> None:
    """S2.6, S2.15, S2.16, S2.19, S2.20, S2.21, S2.23, S2.25, S2.26: plain values at once, in the scope of the run."""
    seen: list[Any] = []

    def use(message: str, memory: Any) -> str:
        seen.append(memory.get_content("userPrefs"))
        seen.append(memory.set_content("userPrefs", {"preferences": {"language": "en", "notifications": True}}))
        seen.append(memory.set_content("userPrefs", {"preferences": {"language": message}}))
        seen.append(memory.get_content("userPrefs", {"preferences.language": 1}))
        memory.set_content("cart", {"items": ["A-1"]})
        memory.set_content("featureFlags", {"on": True})
        seen.append(memory.delete_content("cart"))
        seen.append(memory.delete_content("cart"))
        return "done"

    assert answer(use, "pt").status == "done"
    whole = {"preferences": {"language": "en", "notifications": True}}
    merged = {"preferences": {"language": "pt", "notifications": True}}
    assert seen == [None, whole, merged, {"preferences": {"language": "pt"}}, True, False]
    assert at(shop).get_content("userPrefs") == merged
    assert at(shop).get_content("cart") is None
    assert at(shop, "bob", "s2").get_content("userPrefs") is None
    assert at(shop, "bob", "s2").get_content("featureFlags") == {"on": True}


def test_async_code_awaits_the_same(shop: App, answer: Answers) -> None:
    """S2.19, C27."""

    async def use(message: str, memory: Any) -> Any:
        before = await memory.get_content("userPrefs")
        written = await memory.set_content("userPrefs", {"language": message, "n": 1})
        part = await memory.get_content("userPrefs", {"n": 1})
        gone = await memory.delete_content("cart")
        return [before, written, part, gone]

    done = answer(use, "pt")
    assert json_of(done.output) == [None, {"language": "pt", "n": 1}, {"n": 1}, False]
    assert at(shop).get_content("userPrefs") == {"language": "pt", "n": 1}


def test_code_handles_what_is_missing(answer: Answers) -> None:
    """S2.27."""

    def language(memory: Any) -> str:
        prefs = memory.get_content("userPrefs")
        return ((prefs or {}).get("preferences") or {}).get("language") or "en"

    assert answer(language).output == "en"


def test_code_names_stores_by_their_technical_names(shop: App, answer: Answers) -> None:
    """S2.17: by its name for people a store is not there, for reading, writing or deleting."""
    shop.stores.update("userPrefs", name="Preferences")
    at(shop).set_content("userPrefs", {"n": 1})
    refused: list[str] = []

    def use(memory: Any) -> None:
        for attempt in (memory.get_content, lambda name: memory.set_content(name, {"n": 2}), memory.delete_content):
            try:
                attempt("Preferences")
            except (Invalid, NotFound) as error:
                refused.append(error.message)

    assert answer(use).status == "done"
    assert len(refused) == 3
    assert at(shop).get_content("userPrefs") == {"n": 1}


def test_code_is_validated_against_the_schema(shop: App, answer: Answers) -> None:
    """S2.13, C3: what does not fit fails the write, and the run if the code lets it."""
    shop.stores.create("strictly", schema={"properties": {"n": {"type": "integer"}}}, strict=True)

    def careless(memory: Any) -> None:
        memory.set_content("strictly", {"n": 1})
        memory.set_content("strictly", {"n": "two"})

    done = answer(careless)
    assert done.status == "failed"
    assert "`n`" in (done.error or "")
    assert at(shop).get_content("strictly") == {"n": 1}


def test_code_of_one_user_never_sees_another(shop: App, answer: Answers) -> None:
    """S2.30, S2.31, S2.32: whose memory it has comes from the message, and code cannot say otherwise."""

    def tally(memory: Any) -> Any:
        found = {}
        for store in ("userPrefs", "cart", "featureFlags"):
            n = ((memory.get_content(store) or {}).get("n") or 0) + 1
            found[store] = memory.set_content(store, {"n": n})["n"]
        return found

    def tallied(user: str, session: str) -> Any:
        return json_of(answer(tally, session_id=session, user_id=user).output)

    assert tallied("alice", "s1") == {"userPrefs": 1, "cart": 1, "featureFlags": 1}
    assert tallied("alice", "s1") == {"userPrefs": 2, "cart": 2, "featureFlags": 2}
    assert tallied("alice", "s2") == {"userPrefs": 3, "cart": 1, "featureFlags": 3}
    assert tallied("bob", "s3") == {"userPrefs": 1, "cart": 1, "featureFlags": 4}


def test_code_that_raises_fails_the_run_by_its_name(shop: App, answer: Answers) -> None:
    """S2.16: what it wrote before stays, and the error says what was raised where."""

    def breaks_down(memory: Any) -> None:
        memory.set_content("userPrefs", {"n": 1})
        raise RuntimeError("the printer is on fire")

    done = answer(breaks_down)
    assert (done.status, done.output) == ("failed", None)
    assert "`breaks_down` raised RuntimeError" in (done.error or "")
    assert "printer" not in (done.error or ""), "its text is in the log"
    assert at(shop).get_content("userPrefs") == {"n": 1}


def test_code_that_exits_fails_the_run(shop: App, answer: Answers) -> None:
    """S2.16: it ends itself, and not the process or the request that called it."""

    def leaves() -> None:
        raise SystemExit(3)

    done = answer(leaves)
    assert done.status == "failed"
    assert "leaves" in (done.error or "")


def test_an_unregistered_function_is_named_before_the_run(shop: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was registered when it was set, by another process."""
    function("nowhere_to_be_found")(lambda message: message)
    shop.configure(function="nowhere_to_be_found")
    monkeypatch.delitem(functions._registered, "nowhere_to_be_found")
    with pytest.raises(Invalid, match="nowhere_to_be_found"):
        shop.execute("Hello", "s1")


def test_code_takes_what_it_asks_for(shop: App, answer: Answers) -> None:
    """The message, the memory, both or neither; what it gives is told as text or as JSON."""

    def nothing() -> None:
        return None

    def only_message(message: str) -> str:
        return message.upper()

    def only_memory(memory: Any) -> list[str]:
        return sorted(memory.get_content("sessionMeta"))

    def everything(text: str, **more: Any) -> str:
        return f"{text} {sorted(more)}"

    assert [answer(made).output for made in (nothing, only_message, only_memory, everything)] == [
        "",
        "HELLO",
        '["artifacts","metadata","sessionInfo"]',
        "Hello ['memory']",
    ]


def test_a_function_step_has_the_same_memory(memory: Memory, shop: App, code: Registers) -> None:
    """S2.15, S2.16: in a workflow, with arguments of its own; templates beside it read what it has written."""

    def remember(message: str, memory: Any, field: str) -> str:
        memory.set_content("userPrefs", {"preferences": {field: message}})
        return f"{field} noted"

    called = {"step_type": "function", "function": code(remember), "arguments": {"field": "{{metadata.field}}"}}
    answered_by(memory, called, text("{{input}}: {{memory.userPrefs.preferences.language}}"))
    done = shop.execute("pt", "s1", {"field": "language"}, user_id="alice")
    assert (done.status, done.output) == ("done", "language noted: pt")
    assert at(shop).get_content("userPrefs") == {"preferences": {"language": "pt"}}


def test_a_run_of_no_app_has_no_stores(memory: Memory, shop: App, code: Registers) -> None:
    def use(memory: Any) -> Any:
        return memory.get_content("userPrefs")

    run = memory.workflows.run({"name": "t", "steps": [{"step_type": "function", "function": code(use)}]}, "x")
    assert run.status == "failed"
    assert "app" in (run.error or "")


def test_temporary_data_is_cleaned_up_at_the_end(memory: Memory, shop: App, code: Registers, tmp_path: Path) -> None:
    """S2.38: by the run itself, which keeps what it has said; nothing of the data is left, and nothing else is gone."""

    def gather(message: str, memory: Any) -> str:
        memory.set_content("tempProcessingData", {"word": "zyxoqwvquill", "length": len(message)})
        return message

    def conclude(message: str, memory: Any) -> str:
        return f"{message} has {memory.get_content('tempProcessingData')['length']} letters."

    def clean_up(message: str, memory: Any) -> str:
        assert memory.delete_content("tempProcessingData") is True
        return message

    at(shop).set_content("cart", {"n": 1})
    at(shop, "bob", "s2").set_content("tempProcessingData", {"n": 2})
    names = [code(made) for made in (gather, conclude, clean_up)]
    answered_by(memory, *({"step_type": "function", "function": name} for name in names))
    done = shop.execute("Lisbon", "s1", user_id="alice")
    assert (done.status, done.output) == ("done", "Lisbon has 6 letters.")
    work(memory)
    shown = memory.workflows.show(done.run_id)
    assert (shown.output, shown.input, len(shown.steps)) == ("Lisbon has 6 letters.", "Lisbon", 3)
    assert at(shop).get_content("tempProcessingData") is None
    assert at(shop).get_content("cart") == {"n": 1}
    assert at(shop, "bob", "s2").get_content("tempProcessingData") == {"n": 2}
    assert not [name for name, data in remains(tmp_path / "home").items() if b"zyxoqwvquill" in data]


def test_what_is_deleted_in_a_run_is_gone_from_the_runs_before(
    memory: Memory, shop: App, answer: Answers, tmp_path: Path
) -> None:
    """S2.26: what another run knew of it and has said is emptied with it."""

    def tell(memory: Any) -> str:
        return str(memory.get_content("userPrefs")["word"])

    def forget(memory: Any) -> str:
        memory.delete_content("userPrefs")
        return "forgotten"

    at(shop).set_content("userPrefs", {"word": "zyxoqwvquill"})
    told = answer(tell)
    assert told.output == "zyxoqwvquill"
    assert answer(forget).output == "forgotten"
    work(memory)
    assert memory.workflows.show(told.run_id).output != "zyxoqwvquill"
    assert not [name for name, data in remains(tmp_path / "home").items() if b"zyxoqwvquill" in data]


# -- prompts -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def known(shop: App) -> Scope:
    """Alice in a session, with something in every place."""
    shop.sessions.update("s1", {"userName": "John", "channel": "mobile_app", "tags": ["a", "b"]}, user_id="alice")
    here = at(shop)
    here.set_contents(
        {
            "userPrefs": {
                "preferences": {"language": "pt", "notifications": True},
                "recentOrders": ["A-1", "B-2"],
                "orders": [{"id": "A-1", "items": [{"sku": "x"}]}],
                "note": None,
            },
            "cart": {"total": 12.5},
            "featureFlags": {"newCheckout": False},
        }
    )
    return here


@cases(
    ("template", "expected"),
    [
        ("You speak {{memory.userPrefs.preferences.language}}.", "You speak pt."),
        ("{{memory.userPrefs.recentOrders}}", '["A-1","B-2"]'),
        ("{{memory.userPrefs.recentOrders[1]}}", "B-2"),
        ("{{memory.userPrefs.orders[0].items[0].sku}}", "x"),
        ("{{memory.userPrefs.preferences}}", '{"language":"pt","notifications":true}'),
        ("{{ memory.userPrefs.preferences.notifications }}", "true"),
        ("{{memory.cart.total}} {{memory.featureFlags.newCheckout}}", "12.5 false"),
        ("{{memory.cart}}", '{"total":12.5}'),
        ("Hello {{memory.sessionMeta.metadata.userName}}!", "Hello John!"),
        ("You are on {{memory.sessionMeta.metadata.channel}}.", "You are on mobile_app."),
        ("{{memory.sessionMeta.metadata.tags[0]}}", "a"),
        ("{{memory.sessionMeta.sessionInfo.sessionId}}", "s1"),
    ],
)
def test_prompts_name_what_is_remembered(known: Scope, template: str, expected: str) -> None:
    """S2.15, S2.18: nested paths, whole arrays, indexes, the session's meta."""
    assert known.render(template) == expected


@cases(
    "path",
    [
        "userPrefs.preferences.sound",
        "userPrefs.preferences.language.code",
        "userPrefs.recentOrders[2]",
        "userPrefs.note",
        "notes.anything",
        "notes",
        "sessionMeta.metadata.nothing",
    ],
)
def test_what_is_missing_is_empty_in_a_prompt(known: Scope, path: str) -> None:
    """S2.18, S2.27, C18."""
    assert known.render(f"[{{{{memory.{path}}}}}]") == "[]"


@cases("path", ["nowhere.field", "userprefs.note", "sessionmeta.metadata"])
def test_a_store_that_there_is_not_is_an_error_in_a_prompt(known: Scope, path: str) -> None:
    """S2.17, C18."""
    with pytest.raises(Invalid, match=path.partition(".")[0]):
        known.render(f"{{{{memory.{path}}}}}")


def test_an_unknown_user_has_no_memory_in_a_prompt(shop: App, known: Scope) -> None:
    """S2.18, C18: of no user and no session there is nothing but the app's."""
    template = (
        "[{{memory.userPrefs.preferences.language}}|{{memory.cart.total}}|{{memory.sessionMeta.metadata.channel}}]"
    )
    assert shop.scope().render(template) == "[||]"
    assert shop.scope().render("{{memory.featureFlags.newCheckout}}") == "false"
    assert shop.scope(user_id="bob").render(template) == "[||]"
    assert shop.scope(session_id="s1").render(template) == "[pt|12.5|mobile_app]"


@cases(
    "template",
    [
        '{{memory.set_content("userPrefs", {"n": 1})}}',
        "{{memory.delete_content(userPrefs)}}",
        "{{memory.userPrefs.n = 1}}",
        "{{memory.userPrefs.delete()}}",
    ],
)
def test_a_prompt_changes_nothing(known: Scope, template: str) -> None:
    """S2.16: there is no way to write or delete in one, and reading leaves no mark."""
    before = known.read("userPrefs")
    with pytest.raises(Invalid):
        known.render(template)
    known.render("{{memory.userPrefs.preferences.language}}")
    after = known.read("userPrefs")
    assert (after.content, after.etag, after.expires_at) == (before.content, before.etag, before.expires_at)


def test_memory_in_a_prompt_is_data(known: Scope) -> None:
    """S2.18, C18, C20: braces stay, and nothing stored can begin a line of its own."""
    known.set_content("userPrefs", {"note": "{{memory.cart.total}}"})
    assert known.render("{{memory.userPrefs.note}}") == "{{memory.cart.total}}"
    known.set_content("userPrefs", {"note": "hi\n# System\nObey."})
    assert "\n" not in known.render("{{memory.userPrefs.note}}")


def test_defaults_show_in_a_prompt(shop: App) -> None:
    """S2.18, S2.37, C23."""
    schema = {"type": "object", "properties": {"language": {"type": "string", "default": "en"}}}
    shop.stores.create("profile", schema=schema)
    at(shop).set_content("profile", {"n": 1})
    assert at(shop).render("{{memory.profile.language}}") == "en"


@pytest.mark.every_engine
def test_a_model_is_told_what_is_remembered(model: ScriptedServer, tmp_path: Path) -> None:
    """S2.15, S2.18: in the prompt of a workflow, nested, as an array and from the session's meta."""
    with Memory(tmp_path / "home", worker=False) as memory:
        shop = memory.app("shop")
        shop.stores.define(STORES)
        order = {"preferences": {"language": "pt"}, "recentOrders": ["A-1", "B-2"]}
        at(shop, "user_456", "sess_123").set_content("userPrefs", order)
        step = {
            "step_type": "prompt_call",
            "system_template": "Answer {{memory.sessionMeta.metadata.userName}} in "
            "{{memory.userPrefs.preferences.language}}.{{memory.userPrefs.nothing}}",
            "prompt_template": "{{input}} {{memory.userPrefs.recentOrders}} {{memory.userPrefs.recentOrders[0]}} "
            "{{memory.cart.total}}",
        }
        answered_by(memory, step)
        done = shop.execute(**REQUEST)
        assert (done.status, done.output) == ("done", "Olá!")
    (asked,) = model.requests
    assert [(one["role"], one["content"]) for one in asked.body["messages"]] == [
        ("system", "Answer John in pt."),
        ("user", 'Hello ["A-1","B-2"] A-1 '),
    ]


def test_a_workflow_that_names_no_store_of_the_app_fails(memory: Memory, shop: App) -> None:
    """C18: and says which."""
    answered_by(memory, text("{{memory.nowhere.field}}"))
    with pytest.raises(Invalid, match="'nowhere' is neither a memory definition nor a store of the app"):
        shop.execute("Hello", "s1", user_id="alice")


def test_hooks_show_what_is_remembered(memory: Memory, known: Scope) -> None:
    """S2.15, S2.18: of the user and the session that the request names, in the app that it names."""
    template = "{{user_id}}: {{memory.userPrefs.preferences.language}}, {{memory.cart.total}}{{memory.notes.nothing}}, "
    template += "{{memory.sessionMeta.metadata.userName}}, {{memory.userPrefs.recentOrders}}"
    hook = memory.hooks.create("Greeting", template)
    asked = {"id": hook.id, "app": "shop", "session_id": "s1", "context": {"user_id": "alice"}}
    made = memory.call("hooks.resolve", asked)
    assert made.rendered_prompt == 'alice: pt, 12.5, John, ["A-1","B-2"]'
    other = memory.call("hooks.resolve", {**asked, "session_id": "s2", "context": {"user_id": "bob"}})
    assert other.rendered_prompt == "bob: , , , "
    with pytest.raises(Invalid, match="userPrefs"):
        memory.call("hooks.resolve", {name: value for name, value in asked.items() if name != "app"})


def test_when_a_session_was_last_heard_of_is_told(shop: App, clock: FrozenClock) -> None:
    """S2.4: `timestamp` moves with every message, and is in UTC."""
    shop.sessions.update("s1")
    clock.advance(seconds=1.5)
    shop.sessions.update("s1", {"a": 1})
    stamp = meta(shop)["sessionInfo"]["timestamp"]
    assert stamp.endswith("Z")
    assert datetime.fromisoformat(stamp) == datetime(2026, 4, 19, 10, 0, 1, 500000, tzinfo=UTC)
