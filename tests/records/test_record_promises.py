"""Less common promises of records, stores, definitions and sessions."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict, Invalid
from memwell.sdk._sync_apps import App
from memwell.testing import FrozenClock

from ..contract.task_documents import run, tasks
from ..contract.test_s2_sessions import Answers, Registers, answer, answered_by, at, code, meta, ok, shop, text, work
from ..contract.test_s3_memory import bound, define, keep
from ..engines import Memory, remains
from ..workflows.test_workflow_runs import document

__all__ = ["answer", "code", "shop"]

OPEN: dict[str, Any] = {"type": "object", "additionalProperties": True}
COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
SPEAKS: dict[str, Any] = {
    "type": "object",
    "required": ["language"],
    "properties": {"name": {"type": "string"}, "language": {"type": "string", "default": "en"}},
}
WORD = "zyxoqwvquill"


# -- definitions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_the_slug_of_a_name_has_its_letters_without_their_accents(memory: Memory, form: Any) -> None:
    """S3.5: however the accents are written."""
    made = memory.definitions.create(unicodedata.normalize(form, "Café Préféré"))
    assert made.slug == "cafe_prefere"
    assert memory.definitions.get("cafe_prefere").id == made.id


@pytest.mark.parametrize("wrong", [{"type": "array"}, {"type": "string"}, {"type": ["object", "null"]}])
def test_a_definition_is_not_updated_to_what_is_no_object(memory: Memory, wrong: dict[str, Any]) -> None:
    """S3.8: as none can be made of it, also if it is accepted that records break; nothing changes."""
    slug = define(memory, "Profile", COUNT)
    for accepted in (False, True):
        with pytest.raises(Invalid, match="must describe an object") as refused:
            memory.definitions.update(slug, schema=wrong, accept_breaking=accepted)
        assert refused.value.details["field"] == "schema"
    found = memory.definitions.get(slug)
    assert (found.schema, found.version) == (COUNT, 1)


def test_a_new_definition_warns_of_existing_misfits(memory: Memory) -> None:
    """C24: of the records that people have under its name by then; of those that fit nothing is said."""
    for user, value in (("u1", {"n": "many"}), ("u2", {"n": 1}), ("u3", {"n": []})):
        memory.user(user).records["tally"] = value
        memory.user(user).records["score"] = {"n": 1}
    told = memory.definitions.create("Tally", schema=COUNT).warnings
    assert told == ["2 of 3 existing records do not fit, and are withheld."]
    assert [bound(memory, "tally", owner=user).values for user in ("u1", "u2")] == [{}, {"tally": {"n": 1}}]
    assert memory.definitions.create("Score", schema=COUNT).warnings is None


def test_a_definition_that_merges_does_so_wherever_its_app_is_taken(memory: Memory, tmp_path: Path) -> None:
    """B3.17."""
    define(memory, "Profile", OPEN, update_mode="merge")
    shop = memory.app("shop")
    shop.configure(workflow=memory.workflows.create(document(text("Hi {{memory.profile.name}}"))).id)
    with Memory(tmp_path / "there", worker=False) as there:
        there.app("shop").import_document(shop.export())
        assert there.definitions.get("profile").update_mode == "merge"
        view = keep(there, "profile", {"name": "Ada"})
        assert view.update({"profile": {"language": "en"}}).memory == {"profile": {"name": "Ada", "language": "en"}}


def test_a_run_that_fails_leaves_nothing_that_was_kept_for_it(memory: Memory, code: Registers) -> None:
    """S3.15: it is over, too; what is kept for nothing but the owner stays."""

    def breaks() -> None:
        raise ValueError("broken")

    define(memory, "Scratch", OPEN, scope="run")
    define(memory, "Profile", OPEN)
    failing = tasks(
        scratch={"kind": "memory", "settings": {"definition_id": "scratch"}},
        keep=("update_memory", {"memory": {"scratch": {"n": 1}, "profile": {"n": 2}}}),
        fail=(code(breaks), {}),
    )
    found = run(memory, failing)
    assert (found.status, [step.status for step in found.steps]) == ("failed", ["done", "failed"]), found.error
    assert bound(memory, "scratch", "profile", run=found.id).values == {"profile": {"n": 2}}
    assert list(memory.definitions.records("scratch")) == []


# -- schemas -------------------------------------------------------------------------------------------------------------


def test_a_default_does_not_stand_in_for_what_a_strict_store_requires(memory: Memory) -> None:
    """C23: it fills in on reading; whoever writes has to say it."""
    memory.app("shop").stores.create("profile", schema=SPEAKS, strict=True)
    here = memory.app("shop").scope(user_id="u1")
    with pytest.raises(Invalid, match="language"):
        here.set_content("profile", {"name": "Ada"})
    assert here.get_content("profile") is None
    assert here.set_content("profile", {"language": "pt"}) == {"language": "pt"}


def test_a_default_does_not_stand_in_for_what_a_definition_requires(memory: Memory) -> None:
    """C23: neither for a model nor for code."""
    slug = define(memory, "Profile", SPEAKS)
    with pytest.raises(Invalid, match="language"):
        bound(memory, slug).update({slug: {"name": "Ada"}})
    with pytest.raises(Invalid, match="language"):
        memory.user("u1").records[slug] = {"name": "Ada"}
    assert list(memory.definitions.records(slug)) == []


def test_another_store_is_told_what_a_default_does_not_stand_in_for(memory: Memory) -> None:
    """C23: it is kept, and there is a warning."""
    memory.app("shop").stores.create("profile", schema=SPEAKS)
    written = memory.app("shop").scope(user_id="u1").write("profile", {"name": "Ada"})
    assert ["language" in one.reason for one in written.warnings or []] == [True]


def test_defaults_of_a_definition_show_in_a_prompt(memory: Memory) -> None:
    """C23: as those of a store do, in a template and in a run; where there is no record there are none."""
    define(memory, "Profile", {**SPEAKS, "required": []})
    keep(memory, "profile", {"name": "Ada"})
    template = "[{{memory.profile.name}} {{memory.profile.language}}]"
    for user, expected in (("u1", "[Ada en]"), ("u2", "[ ]")):
        assert memory.app("shop").scope(user_id=user).render(template) == expected
        assert memory.workflows.run(document(text(template)), owner=user).output == expected


def test_misfits_in_a_lenient_store_are_shown_in_prompts(memory: Memory, shop: App) -> None:
    """C24, C23: whoever takes any object shows it; nothing is withheld, and nothing is said."""
    shop.stores.create("tally", schema=COUNT)
    at(shop).set_content("tally", {"n": "many"})
    asked = {"app": "shop", "template": "[{{memory.tally.n}}]", "user_id": "alice"}
    made = memory.call("apps.render", asked)
    assert (made.text, made.missing, made.warnings) == ("[many]", [], None)
    answered_by(memory, text("[{{memory.tally.n}}]"))
    done = shop.execute("Hello", "s1", user_id="alice")
    assert (done.status, done.output) == ("done", "[many]")
    assert [step.warnings for step in memory.workflows.show(done.run_id).steps] == [[]]


@pytest.mark.parametrize(
    "projections", [{"a.b": 1, "a": 1}, {"a": 1, "a.b": 1}, {"a.b.x": 1, "a": 1, "a.c": 1}, {"a": 1}], ids=str
)
def test_what_is_asked_for_as_a_whole_is_whole_in_any_order(memory: Memory, projections: dict[str, Any]) -> None:
    """S2.21: also if a part of it is named before or behind it."""
    value = {"a": {"b": {"x": 1, "y": 2}, "c": 3}, "d": 4}
    memory.app("shop").stores.create("prefs")
    here = memory.app("shop").scope(user_id="u1")
    here.set_content("prefs", value)
    assert here.get_content("prefs", projections) == {"a": value["a"]}
    memory.user("u1").records["prefs"] = value
    assert memory.user("u1").records.get("prefs", projections=projections) == {"a": value["a"]}


# -- sessions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [{"user_id": "alice"}, {"metadata": {"userId": "alice"}}], ids=str)
def test_content_that_outlasts_a_session_is_erased_with_the_user_named_later(
    memory: Memory, shop: App, tmp_path: Path, named: dict[str, Any]
) -> None:
    """B2.11, S2.30: as what lasts as long as the session does; what others have stays."""
    for session in ("s1", "s2"):
        shop.scope(session_id=session).set_content("notes", {"word": WORD + session})
    shop.sessions.update("s1", **named)
    memory.call("users.forget", {"user": "alice"})
    work(memory)
    assert shop.scope(session_id="s1").get_content("notes") is None
    assert not [name for name, data in remains(tmp_path / "home").items() if f"{WORD}s1".encode() in data]
    assert shop.scope(session_id="s2").get_content("notes") == {"word": f"{WORD}s2"}


def test_content_that_outlasts_a_session_is_visible_to_its_user_only(shop: App) -> None:
    """B2.11, S2.30: once it is known whose the session was, also when it has ended."""
    shop.scope(session_id="s1").set_content("notes", {"word": WORD})
    shop.sessions.update("s1", user_id="alice")
    shop.sessions.end("s1")
    with pytest.raises(Conflict, match="another user"):
        at(shop, "bob").get_content("notes")
    assert at(shop).get_content("notes") == {"word": WORD}


def test_a_later_run_still_sees_what_was_passed_along_earlier(memory: Memory, shop: App) -> None:
    """S2.29: as `{{metadata.…}}`, whether the message adds to it or says nothing."""
    answered_by(memory, text("{{metadata.channel}}/{{metadata.tier}}"))
    passed: list[Any] = [{"channel": "web", "tier": "free"}, None, {"tier": "premium"}, {}]
    runs = [shop.execute("Hello", "s1", metadata=one) for one in passed]
    assert [done.output for done in runs] == ["web/free", "web/free", "web/premium", "web/premium"]
    assert memory.workflows.show(runs[1].run_id).metadata == {"channel": "web", "tier": "free"}
    assert shop.execute("Hello", "s2", metadata={"tier": "free"}).output == "/free", "that of its own session only"


def test_a_session_names_its_latest_run(shop: App, answer: Answers, clock: FrozenClock) -> None:
    """S2.4: and not its first; what is passed along without a run changes nothing about it."""
    seen: list[str] = []

    def look(memory: Any) -> None:
        seen.append(memory.get_content("sessionMeta")["sessionInfo"]["runId"])

    runs = []
    for _ in range(3):
        clock.advance(minutes=1)
        runs.append(answer(look).run_id)
        assert meta(shop)["sessionInfo"]["runId"] == runs[-1]
    assert seen == runs
    assert len(set(runs)) == 3
    shop.sessions.update("s1", {"channel": "web"})
    answer(ok, session_id="s2")
    assert shop.sessions.get("s1").session_info.run_id == runs[-1]
