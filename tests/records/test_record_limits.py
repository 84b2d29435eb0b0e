"""Records at their limits: lists that are too long for an answer, lifetimes that meet, values that have expired and come back,
schemas that somebody changes under the hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict, Erased, Invalid, Stale, function
from memwell.sdk._sync import User
from memwell.testing import FrozenClock

from ..engines import Memory
from ..erasure.test_erasure import traces
from ..live import live

CANARY = "zyxoqwvcanary"
MIB = 1024 * 1024


@pytest.fixture
def me(memory: Memory) -> User:
    return memory.user("alice")


# -- lists ---------------------------------------------------------------------------------------------------------------


def test_a_list_that_is_too_large_for_an_answer_goes_on_behind_its_cursor(memory: Memory, me: User) -> None:
    for number in range(20):
        me.records.set(f"r{number:02}", {"text": "x" * (MIB - 100)})
    me.records.set("small", {"a": 1})
    page = memory.call("users.records", {"user": "alice", "limit": 100})
    assert 1 <= len(page.records) < 20
    assert sum(len(one.value["text"]) for one in page.records) <= 8 * MIB
    assert page.next_cursor is not None
    assert sorted(me.records.all()) == [*(f"r{number:02}" for number in range(20)), "small"]
    assert len(me.records) == 21


def test_pages_end_exactly(memory: Memory, me: User) -> None:
    me.records.set_all({f"r{number:02}": {"n": number} for number in range(32)})
    page = memory.call("users.records", {"user": "alice", "limit": 32})
    assert (len(page.records), page.next_cursor) == (32, None)
    first = memory.call("users.records", {"user": "alice", "limit": 16})
    rest = memory.call("users.records", {"user": "alice", "limit": 16, "cursor": first.next_cursor})
    assert [one.name for one in [*first.records, *rest.records]] == [f"r{number:02}" for number in range(32)]
    assert rest.next_cursor is None


# -- lifetimes -----------------------------------------------------------------------------------------------------------


def test_a_short_life_stays_short_where_a_definition_would_let_it_be_longer(
    memory: Memory, me: User, clock: FrozenClock
) -> None:
    memory.definitions.create("Code", slug="code", ttl_seconds=3600)
    me.records.set("code", {"n": 1}, ttl_s=10)
    me.records.update("code", {"m": 2})
    clock.advance(seconds=9)
    assert me.records.get("code") == {"n": 1, "m": 2}
    clock.advance(seconds=1)
    assert me.records.get("code") is None
    me.records.set("code", {"n": 3})
    clock.advance(seconds=3599)
    assert me.records.get("code") == {"n": 3}


def test_a_key_is_known_when_its_record_has_expired(memory: Memory, clock: FrozenClock) -> None:
    """The retry of a request does not bring back what has expired."""
    asked = {"user": "alice", "record": "code", "value": {"code": CANARY}, "ttl_s": 300}
    made = memory.call("users.set_record", asked, key="k1")
    assert memory.call("users.set_record", asked, key="k1") == made
    clock.advance(seconds=300)
    for _ in range(2):  # before it is swept, and after
        with pytest.raises(Erased):
            memory.call("users.set_record", asked, key="k1")
        assert memory.user("alice").records.get("code") is None
        memory._transport.engine.worker.run_due("default")  # type: ignore[attr-defined]


def test_a_record_rewritten_after_expiry_has_nothing_of_its_old_value(
    memory: Memory, clock: FrozenClock, tmp_path: Path
) -> None:
    """Not in runs that knew it, not in answers, not in a byte."""

    @function("tell")
    def tell(message: str, memory: Any) -> Any:
        return memory.get_content("notes")

    app = memory.app("shop")
    app.stores.create("notes", access="user", retention="1_day")
    app.configure(function="tell")
    content = {"app": "shop", "store": "notes", "user_id": "alice", "data": {"word": CANARY}}
    before = memory.call("stores.set_content", content, key="k1")
    run = app.execute("?", "s1", user_id="alice")
    assert CANARY in (run.output or "")
    clock.advance(days=2)
    shown = memory.call("runs.get", {"run": run.run_id})
    assert (shown.output, shown.steps, memory.call("runs.list", {}).runs[0].output) == (None, [], None)
    assert CANARY not in str(memory.call("runs.events", {"run": run.run_id}))
    scope = app.scope(user_id="alice")
    assert scope.get_content("notes") is None
    after = scope.write("notes", {"word": "new"})
    assert (after.content, after.version, after.etag != before.etag) == ({"word": "new"}, 1, True)
    assert [change.data for change in scope.history("notes")] == [{"word": "new"}]
    assert memory.call("runs.get", {"run": run.run_id}).output is None
    memory._transport.engine.worker.run_due("default")  # type: ignore[attr-defined]
    assert traces(tmp_path / "home", CANARY) == []
    assert scope.get_content("notes") == {"word": "new"}


# -- schemas that are handed out -------------------------------------------------------------------------------------------

LOOSE = {"type": "object", "properties": {"n": {"type": "integer"}}}


def test_a_schema_that_was_read_may_be_changed_and_saved(memory: Memory, me: User) -> None:
    """S3.45: and what it would break is told."""
    memory.definitions.create("Profile", slug="profile", schema=LOOSE)
    me.records.set("profile", {"n": 1})
    schema = memory.definitions.get("profile").schema
    schema["required"] = ["age"]
    schema["properties"]["n"]["type"] = "string"
    assert memory.definitions.get("profile").schema == LOOSE
    me.records.set("profile", {"n": 2})
    with pytest.raises(Conflict):
        memory.definitions.update("profile", schema=schema)


def test_a_record_that_is_too_large_to_be_checked_is_named_and_holds_up_nobody(memory: Memory, me: User) -> None:
    """C24: it is withheld, and everything else is there."""
    parts = {"p1": {"type": "integer"}, "list": {"items": {"multipleOf": 0.01}}}
    wide = {"type": "object", "properties": parts}
    me.records.set("large", {"list": [1] * 200_000})
    me.records.set("small", {"p1": 1})
    memory.definitions.create("Large", slug="large", schema={**wide, "additionalProperties": True})
    memory.definitions.create("Small", slug="small", schema=wide)
    (broken,) = memory.definitions.check("large", {**wide, "additionalProperties": True}).examples
    assert (broken.owner, "too large" in broken.problems[0]["reason"]) == ("alice", True)
    bound = memory.definitions.bind(owner="alice")
    assert bound.values == {"small": {"p1": 1}}
    assert [one.slug for one in bound.bound.warnings] == ["large"]
    assert '"p1":1' in me.context("what is it", budget=4000).text.replace(" ", "")


# -- secrets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x " * 33_000, "b": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"},
        {"list": list(range(4000)), "b": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"},
        {"userPassword": "hunter2xyz"},
        {"password": {"value": "hunter2xyz"}},
        {"passwords": ["hunter2xyz"]},
        {"password1": "hunter2xyz"},
        {"DBPassword": "hunter2xyz"},
        {"password": {"old": "hunter2xyz", "new": "hunter3xyz"}},
        {"sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD": 1},
    ],
    ids=[
        "behind a long text",
        "behind numbers",
        "camel case",
        "nested",
        "a list",
        "a number",
        "capitals",
        "two",
        "a name",
    ],
)
def test_secrets_are_found_wherever_they_are(memory: Memory, value: dict[str, Any]) -> None:
    """S3.44."""
    memory.definitions.create("Profile", slug="profile", secrets="reject")
    with pytest.raises(Invalid, match="Secrets do not belong") as error:
        memory.user("alice").records.set("profile", value)
    assert "hunter2xyz" not in str(error.value)
    assert "abcdefghijkl" not in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        {"passwordPolicy": {"minLength": 12, "rotated": "2026-01-01"}},
        {"keyboardLayout": "pt"},
        {"tokens_used": 123_456},
        {"a_rather_long_name_of_a_field_2": 1},
    ],
)
def test_what_is_no_secret_is_kept(memory: Memory, value: dict[str, Any]) -> None:
    memory.definitions.create("Profile", slug="profile", secrets="reject")
    memory.user("alice").records.set("profile", value)


def test_values_that_cannot_be_screened_are_withheld_from_prompts(me: User) -> None:
    me.records.set("notes", {"a": "x " * 40_000, "b": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"})
    context = me.context("what is it", budget=1_000_000)
    assert "sk-proj" not in context.text
    assert context.left_out


def test_bytes_go_soon_after_the_moment_however_many_moments_there_are(
    me: User, memory: Memory, clock: FrozenClock, tmp_path: Path
) -> None:
    """One sweep plans the next: also for what no other thing expires with."""
    for number, name in enumerate(("first", "second", "third"), 1):
        me.records.set(name, {"word": f"{CANARY}{name}"}, ttl_s=number * 3600)
    for name in ("first", "second", "third"):
        clock.advance(seconds=3600 + 1)
        memory._transport.engine.worker.run_due("default")  # type: ignore[attr-defined]
        assert traces(tmp_path / "home", f"{CANARY}{name}") == [], name
        clock.advance(seconds=-1)


# -- only if there is none -------------------------------------------------------------------------------------------------


def test_of_two_concurrent_creations_of_a_record_one_is_refused(me: User) -> None:
    made = me.records.set("profile", {"by": "first"}, if_match="none")
    with pytest.raises(Stale, match="already") as error:
        me.records.set("profile", {"by": "second"}, if_match="none")
    assert error.value.details["version"] == made.etag
    assert me.records["profile"] == {"by": "first"}


def test_conditions_of_http(tmp_path: Path) -> None:
    """As RFC 9110 has them: `If-None-Match: *`, and lists of versions."""
    with live(tmp_path / "served", worker=False) as server, server.client() as client:
        url = "/v1/users/alice/records/profile"

        def put(**headers: str) -> int:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.put(url, json={"value": {}}, headers=names).status_code

        assert put(if_match="*") == 412
        assert [put(if_none_match="*"), put(if_none_match="*")] == [200, 412]
        current = client.get(url).headers["etag"]
        assert put(if_match=f'"0-0", {current}') == 200
        assert put(if_match=f'"0-0", {current}') == 412
        assert put(if_none_match='"0-0"') == 400
        assert put(if_none_match="*", if_match="*") == 400
        turn = {"content": "hello"}
        elsewhere = client.post("/v1/users/alice/turns", json=turn, headers={"if-none-match": "*"})
        assert (elsewhere.status_code, "not supported here" in elsewhere.text) == (400, True)


def test_projections_are_judged_whether_or_not_there_is_a_record(me: User) -> None:
    with pytest.raises(Invalid, match="projections"):
        me.records.get("profile", projections={"a": 0})


def test_a_large_list_of_harmless_words_is_no_secret(memory: Memory) -> None:
    memory.definitions.create("Profile", slug="profile", secrets="reject")
    memory.user("alice").records.set("profile", {"favourite_categories": ["book"] * 100_000})


def test_a_run_that_writes_anew_what_has_expired_keeps_its_answer(memory: Memory, clock: FrozenClock) -> None:
    """It read it in time."""

    @function("late")
    def late(message: str, memory: Any) -> Any:
        seen = memory.get_content("notes")
        clock.advance(days=2)
        memory.set_content("notes", {"seen": True})
        return seen

    app = memory.app("shop")
    app.stores.create("notes", access="user", retention="1_day")
    app.configure(function="late")
    app.scope(user_id="alice").set_content("notes", {"word": CANARY})
    assert CANARY in (app.execute("?", "s1", user_id="alice").output or "")
    assert app.scope(user_id="alice").get_content("notes") == {"seen": True}
