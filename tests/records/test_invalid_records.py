"""Records that no longer match their schema are withheld from models with a warning; code still reads them (S3.45, C24)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memwell import Forbidden, Invalid, function
from memwell.context import contexts
from memwell.sdk._sync_apps import App
from memwell.testing import FrozenClock

from ..contract.conftest import engine_of
from ..contract.task_documents import run, tasks
from ..engines import Memory, remains
from ..live import live

WIDE: dict[str, Any] = {"type": "object", "properties": {"n": {"type": ["string", "integer"]}}}
NARROW: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
STEP: dict[str, Any] = {"step_type": "text", "template": "[{{memory.prefs.n}}{{memory.profile.n}}]"}
CANARY = "canary5417"
SAY = {"kind": "task", "action": "send_text_message", "inputs": {"text": "Hi"}}
ASKS = {"kind": "task", "action": "send_text_message", "inputs": {"text": "='Hi ' & $context.memory.profile.n"}}


@pytest.fixture
def memory(tmp_path: Path, clock: FrozenClock) -> Iterator[Memory]:
    """A definition and a strict store, both narrowed after something was written: nothing in them fits any more."""
    with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
        narrowed(memory)
        yield memory


@pytest.fixture
def shop(memory: Memory) -> App:
    return memory.app("shop")


@pytest.fixture
def reads() -> str:
    """A function that reads the store, and writes what is to be there if nothing is."""

    @function("reads")
    def reads(message: str, memory: Any) -> Any:
        found = memory.get_content("prefs")
        return memory.set_content("prefs", {"n": 0}) if found is None else found

    return "reads"


def narrowed(memory: Memory) -> None:
    memory.definitions.create("Profile", schema=WIDE)
    memory.user("u1").records["profile"] = {"n": CANARY}
    memory.definitions.update("profile", schema=NARROW, accept_breaking=True)
    shop = memory.app("shop")
    shop.stores.create("prefs", schema=WIDE, strict=True)
    shop.scope(user_id="u1").set_content("prefs", {"n": CANARY})
    shop.stores.update("prefs", schema=NARROW, accept_breaking=True)


def warnings_of(memory: Memory, run_id: str) -> list[list[str]]:
    return [step.warnings for step in memory.workflows.show(run_id).steps]


# -- contexts --------------------------------------------------------------------------------------------------------------


def left_out(memory: Memory, **asked: Any) -> list[tuple[str, str, str]]:
    return [(one.what, one.id, one.reason) for one in memory.user("u1").context(**asked).left_out]


def test_a_context_names_the_records_that_do_not_fit(memory: Memory) -> None:
    memory.user("u1").records["other"] = {"n": "shown"}
    found = memory.user("u1").context()
    assert "shown" in found.text
    assert CANARY not in repr(found)
    assert left_out(memory) == [("record", "profile", "misfit")]
    memory.user("u1").records["profile"] = {"n": 7}
    assert left_out(memory) == []


def test_a_context_says_where_it_stopped_looking(memory: Memory) -> None:
    """What is behind the last record that was looked at is not passed over in silence."""
    me = memory.user("u2")
    for number in range(contexts.RECORDS):
        me.records[f"r{number:04}"] = {"n": number}
    assert me.context(budget=100_000).left_out == []
    me.records["r9998"] = me.records["r9999"] = {"n": 0}
    assert [(one.id, one.reason) for one in me.context(budget=100_000).left_out] == [("r9998", "many")]


def test_what_came_later_is_not_missing_from_an_earlier_context(memory: Memory, clock: FrozenClock) -> None:
    me = memory.user("u2")
    for number in range(contexts.RECORDS):
        me.records[f"r{number:04}"] = {"n": number}
    moment = datetime.fromtimestamp(clock.now() / 1e6, UTC)
    clock.advance(seconds=60)
    before = me.context(budget=100_000, as_of=moment, stable_prefix=True)
    me.records["r9999"] = {"n": 0}
    assert me.context(budget=100_000, as_of=moment, stable_prefix=True) == before


# -- templates -------------------------------------------------------------------------------------------------------------


def test_a_rendered_prompt_says_what_is_withheld(memory: Memory) -> None:
    asked = {"app": "shop", "user_id": "u1", "template": STEP["template"]}
    made = memory.call("apps.render", asked)
    assert made.text == "[]"
    assert [one.split(":")[0] for one in made.warnings] == ["`prefs` is withheld", "`profile` is withheld"]
    assert CANARY not in repr(made)
    assert memory.call("apps.render", {**asked, "user_id": "u2"}).warnings is None
    assert memory.app("shop").scope(user_id="u1").rendered(STEP["template"]) == made


def test_a_step_says_what_is_withheld_from_its_template(memory: Memory, shop: App) -> None:
    twice = {**STEP, "template": STEP["template"] * 2}
    shop.configure(
        workflow=memory.workflows.create({"name": "t", "steps": [twice, {"step_type": "display_result"}]}).id
    )
    done = shop.execute("Hi", "s1", user_id="u1")
    assert (done.status, done.output) == ("done", "[][]")
    first, second = warnings_of(memory, done.run_id)
    assert [one.split(":")[0] for one in first] == ["`prefs` is withheld", "`profile` is withheld"]
    assert (second, CANARY in repr(first)) == ([], False)
    assert warnings_of(memory, shop.execute("Hi", "s2", user_id="u2").run_id) == [[], []]


def test_a_step_that_is_answered_from_before_says_it_too(memory: Memory) -> None:
    cached = {"step_type": "text", "template": "[{{memory.profile.n}}]", "cache_minutes": 5}
    for state in ("done", "cached"):
        (step,) = memory.workflows.run({"name": "t", "steps": [cached]}, owner="u1").steps
        assert (step.status, [one.split(":")[0] for one in step.warnings]) == (state, ["`profile` is withheld"])


def test_warnings_are_erased_with_the_record_that_they_name(memory: Memory, tmp_path: Path) -> None:
    """A warning names fields, which are somebody's data as well."""
    memory.user("u3").records["notes"] = {"zyxoqwvquill": 1}
    memory.definitions.create("Notes", schema=NARROW)
    document = {"name": "t", "steps": [{"step_type": "text", "template": "[{{memory.notes.n}}]"}]}
    found = memory.workflows.run(document, owner="u3")
    assert "zyxoqwvquill" in repr(found.steps[0].warnings)
    memory.user("u3").records.delete("notes")
    assert "zyxoqwvquill" not in repr(memory.workflows.show(found.id))
    engine_of(memory).worker.run_due("default")
    assert [name for name, data in remains(tmp_path).items() if b"zyxoqwvquill" in data] == []


def test_a_hook_says_what_is_withheld_from_its_prompt(memory: Memory) -> None:
    asked = {"app": "shop", "context": {"user_id": "u1"}}
    hook = memory.call("hooks.create", {"name": "h", "markdown_template": STEP["template"]})
    for operation, more in (
        ("hooks.preview", {"markdown_template": STEP["template"]}),
        ("hooks.resolve", {"id": hook.id}),
        ("hooks.resolve_any", {}),
    ):
        made = memory.call(operation, {**asked, **more})
        assert made.rendered_prompt == "[]"
        assert [one.split(":")[0] for one in made.warnings] == ["`prefs` is withheld", "`profile` is withheld"]
        assert memory.call(operation, {**asked, **more, "context": {"user_id": "u2"}}).warnings is None


# -- functions -------------------------------------------------------------------------------------------------------------


def test_a_function_is_given_what_is_there(memory: Memory, shop: App, reads: str) -> None:
    """C24, C25: the same as outside of a run; whoever is told that there is nothing would write over it."""
    shop.configure(function=reads)
    done = shop.execute("Hi", "s1", user_id="u1")
    outside = shop.scope(user_id="u1")
    assert outside.get_content("prefs") == {"n": CANARY}
    assert done.output == f'{{"n":"{CANARY}"}}'
    ((warning,), _) = warnings_of(memory, done.run_id)
    assert warning.startswith("`prefs`: The stored value does not fit its schema: `n`")
    assert CANARY not in warning
    assert [change.version for change in outside.history("prefs")] == [1]


def test_a_function_of_a_task_is_given_it_too(memory: Memory, shop: App, reads: str) -> None:
    document = tasks(read=(reads, {"message": "Hi"}))
    shop.configure(workflow=memory.workflows.create(document).id)
    done = shop.execute("Hi", "s1", user_id="u1")
    assert CANARY in (done.output or "")
    assert [len(told) for told in warnings_of(memory, done.run_id)] == [1]


def test_a_function_finds_nothing_where_there_is_nothing(memory: Memory, shop: App, reads: str) -> None:
    shop.configure(function=reads)
    done = shop.execute("Hi", "s1", user_id="u2")
    assert (done.output, warnings_of(memory, done.run_id)) == ('{"n":0}', [[], []])


# -- tasks -----------------------------------------------------------------------------------------------------------------


def told(memory: Memory, document: Any, **how: Any) -> list[list[str]]:
    found = run(memory, document, **how)
    assert found.status == "done", found.error
    return [[one.split(":")[0] for one in step.warnings] for step in found.steps]


def test_a_task_says_what_its_expressions_do_not_see(memory: Memory) -> None:
    withheld = ["`profile` is withheld"]
    assert told(memory, tasks(a=SAY, b=ASKS, c=SAY)) == [[], withheld, []]
    assert told(memory, tasks(a=SAY, b=ASKS), owner="u2") == [[], []]
    assert told(memory, tasks(a=SAY)) == [[]]


def test_the_first_task_speaks_for_what_has_no_place_of_its_own(memory: Memory) -> None:
    """Conditions and outputs are no steps."""
    withheld = ["`profile` is withheld"]
    assert told(memory, tasks(a=SAY, b=SAY, outputs={"n": "=$context.memory.profile.n"})) == [withheld, []]
    condition = {"condition": "=$context.memory.profile.n = 1", "steps": [{"do": "a"}]}
    chosen = [{"conditional": {"when": [condition, {"else": True, "steps": [{"do": "b"}]}]}}]
    assert told(memory, tasks(flow=chosen, a=SAY, b=SAY)) == [withheld]


def test_what_was_written_anew_is_not_withheld_any_more(memory: Memory) -> None:
    write = {"kind": "task", "action": "update_memory", "inputs": {"memory": {"profile": {"n": 1}}}}
    assert told(memory, tasks(a=write, b=ASKS)) == [[], []]


# -- keys ------------------------------------------------------------------------------------------------------------------


def test_a_user_key_renders_as_that_user(tmp_path: Path) -> None:
    with live(tmp_path / "home") as server, server.memory() as memory:
        shop = memory.app("shop")
        shop.stores.create("likes", access="user")
        for user in ("alice", "bob"):
            shop.scope(user_id=user).set_content("likes", {"it": user})
        shop.scope(user_id="bob", session_id="bobs").set_content("likes", {"it": "bob"})
        shop.sessions.update("bobs", user_id="bob")
        with server.memory(memory.keys.create("k", "agent", user="alice").secret) as held:
            assert held.app("shop").scope().render("{{memory.likes.it}}") == "alice"
            assert held.app("shop").scope(user_id="alice").render("{{memory.likes.it}}") == "alice"
            for other in ({"user_id": "bob"}, {"session_id": "bobs"}):
                with pytest.raises(Forbidden):
                    held.app("shop").scope(**other).render("{{memory.likes.it}}")
        assert shop.scope().render("[{{memory.likes.it}}]") == "[]"


# -- words -----------------------------------------------------------------------------------------------------------------


def test_memory_alone_stands_for_nothing(shop: App, memory: Memory) -> None:
    with pytest.raises(Invalid, match="'memory' is a namespace and not a value: add a dot"):
        shop.scope(user_id="u1").render("{{memory}}")
    with pytest.raises(Invalid, match=r"no variable 'memory'\. Add the name of a memory: `memory\.<name>`"):
        memory.call("hooks.preview", {"markdown_template": "{{memory}}"})
