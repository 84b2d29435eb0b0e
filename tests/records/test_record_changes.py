"""What changes a record beside a value: fields that are unset, versions by their tags, lifetimes of definitions that change,
retries of others, and names that slugs may have."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict, Erased, Forbidden, Invalid, Stale
from memwell.sdk._sync import User
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory
from ..live import live

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


@pytest.fixture
def me(memory: Memory) -> User:
    return memory.user("alice")


def now(clock: FrozenClock) -> datetime:
    return datetime.fromtimestamp(clock.now() / 1e6, UTC)


# -- fields that are to be gone ------------------------------------------------------------------------------------------


def test_fields_are_unset(me: User, clock: FrozenClock) -> None:
    me.records["profile"] = {"a": 1, "seat": {"row": 12, "side": "aisle"}, "list": [{"x": 1}]}
    clock.advance(hours=1)
    changed = me.records.update("profile", {"b": 2}, unset=["seat.row", "a", "none", "list.x", "b.c"])
    assert changed.value == me.records["profile"] == {"b": 2, "seat": {"side": "aisle"}, "list": [{"x": 1}]}
    clock.advance(hours=1)
    me.records.update("profile", {"c": 3})
    values = [change.value for change in me.records.history("profile")]
    assert [sorted(value or {}) for value in values] == [
        ["b", "c", "list", "seat"],
        ["b", "list", "seat"],
        ["a", "list", "seat"],
    ]
    then = me.records.get("profile", as_of=now(clock) - timedelta(minutes=30))
    assert then == {"b": 2, "seat": {"side": "aisle"}, "list": [{"x": 1}]}


def test_required_fields_cannot_be_unset(memory: Memory, me: User) -> None:
    """C3: the result counts."""
    memory.definitions.create("Profile", schema={**SCHEMA, "required": ["a"]})
    me.records["profile"] = {"a": "1", "b": "2"}
    with pytest.raises(Invalid, match="required"):
        me.records.update("profile", {}, unset=["a"])
    assert me.records["profile"] == {"a": "1", "b": "2"}
    for wrong in ([""], ["x"] * 101):
        with pytest.raises(Invalid, match="unset"):
            me.records.update("profile", {}, unset=wrong)


def test_fields_of_contents_are_unset(memory: Memory) -> None:
    memory.app("shop").stores.create("prefs")
    scope = memory.app("shop").scope(user_id="u1")
    scope.set_content("prefs", {"a": {"b": 1, "c": 2}, "d": 3})
    assert scope.set_content("prefs", {"e": 4}, unset=["a.b", "d"]) == {"a": {"c": 2}, "e": 4}
    assert scope.set_content("prefs", {"f": 5, "g": 6}, mode="replace", unset=["g"]) == {"f": 5}


# -- which version -------------------------------------------------------------------------------------------------------


def test_a_tag_may_be_given_without_its_quotes(me: User) -> None:
    """As it is where somebody has copied it into a shell."""
    first = me.records.set("profile", {"n": 1})
    second = me.records.set("profile", {"n": 2}, if_match=first.etag.strip('"'))
    third = me.records.set("profile", {"n": 3}, if_match=f" {first.etag} , {second.etag.strip(chr(34))}")
    with pytest.raises(Stale):
        me.records.set("profile", {"n": 4}, if_match=second.etag.strip('"'))
    assert me.records.read("profile").etag == third.etag


@cases("tag", ["1", "old", "abc-", "-1", ""])
def test_an_invalid_tag_matches_no_version(me: User, tag: str) -> None:
    me.records["profile"] = {"n": 1}
    for name in ("profile", "nothing"):
        with pytest.raises(Invalid, match="if_match") as error:
            me.records.set(name, {"n": 2}, if_match=tag)
        assert error.value.details["field"] == "if_match"
    with pytest.raises(Stale, match="does not exist, or was deleted"):
        me.records.set("nothing", {"n": 2}, if_match="*")


def test_versions_of_what_is_not_written_are_refused(memory: Memory) -> None:
    memory.definitions.create("Profile", schema=SCHEMA)
    asked = {"owner": "u1", "memory": {"profile": {"a": "1"}}, "if_match": {"other": '"0-0"'}}
    with pytest.raises(Invalid, match="not written"):
        memory.call("definitions.update_memory", asked)
    assert memory.definitions.bind(owner="u1").values == {}


# -- lifetimes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("later", "lives"), [(None, None), (3600, 3600), (5, 5)])
def test_a_changed_lifetime_of_a_definition_counts_from_the_next_write(
    memory: Memory, me: User, clock: FrozenClock, later: int | None, lives: int | None
) -> None:
    """S3.7, S3.16: whichever door it is written by."""
    memory.definitions.create("Profile", ttl_seconds=60, schema=SCHEMA)
    me.records["profile"] = {"a": "1"}
    clock.advance(seconds=1)
    memory.definitions.update("profile", ttl_seconds=later)
    clock.advance(seconds=1)
    expires = None if lives is None else now(clock) + timedelta(seconds=lives)
    assert me.records.update("profile", {"a": "2"}).expires_at == expires


def test_nothing_lives_longer_than_its_definition_lets_it(memory: Memory, me: User, clock: FrozenClock) -> None:
    """S3.7."""
    memory.definitions.create("Profile", ttl_seconds=60, schema=SCHEMA)
    for asked in (9999, 0):
        assert me.records.set("profile", {"a": "1"}, ttl_s=asked).expires_at == now(clock) + timedelta(seconds=60)


def test_a_value_was_not_there_any_more_when_it_had_expired(me: User, clock: FrozenClock) -> None:
    """C15: also if it was written again before it was swept."""
    me.records.set("code", {"n": 1}, ttl_s=10)
    clock.advance(seconds=5)
    between = now(clock)
    me.records.set("code", {"n": 2}, ttl_s=10)
    clock.advance(seconds=9)
    assert me.records.get("code", as_of=between - timedelta(seconds=1)) == {"n": 1}
    assert me.records.get("code", as_of=between) == {"n": 2}
    me.records.set("code", {"n": 3}, ttl_s=1)
    assert me.records.get("code", as_of=now(clock) + timedelta(seconds=2)) is None


# -- retries -------------------------------------------------------------------------------------------------------------


def test_a_stored_answer_is_given_to_its_first_caller_only(tmp_path: Path) -> None:
    """T3: the same key and the same words of somebody else are another request."""
    with live(tmp_path / "home", worker=False) as server, server.memory() as memory:
        memory.app("shop").stores.create("prefs")
        memory.definitions.create("Profile", schema=SCHEMA)
        for user in ("u1", "u2"):
            memory.app("shop").scope(user_id=user).set_content("prefs", {"secret": user})
        keys = {user: memory.keys.create(user, "agent", user=user).secret for user in ("u1", "u2")}
        keys["flow"] = memory.keys.create("flow", "agent", flow="support").secret
        at = "/v1/apps/shop/stores/prefs/content"

        def sent(who: str, method: str, path: str, **data: Any) -> tuple[int, Any]:
            headers = {"authorization": f"Bearer {keys[who]}", "idempotency-key": "req-1"}
            with server.client() as client:
                answer = client.request(method, path, json=data or None, headers=headers)
            return answer.status_code, answer.json()

        for _ in range(2):
            for user in ("u1", "u2"):
                status, found = sent(user, "PATCH", at, data={"lang": "pt"})
                assert (status, found["content"]) == (200, {"secret": user, "lang": "pt"})
        assert sent("flow", "PATCH", at, data={"lang": "pt"})[0] == 403
        update = {"owner": "u1", "memory": {"profile": {"a": "1"}}}
        assert sent("u1", "PATCH", "/v1/working_memory", **update)[0] == 200
        assert sent("u2", "PATCH", "/v1/working_memory", **update)[0] == 403
        assert sent("flow", "PATCH", "/v1/working_memory", **update)[0] == 403
        assert sent("u1", "DELETE", at)[1]["deleted"]
        assert memory.app("shop").scope(user_id="u2").get_content("prefs") == {"secret": "u2", "lang": "pt"}
        assert sent("u2", "DELETE", at)[1]["deleted"]
        assert memory.app("shop").scope(user_id="u2").get_content("prefs") is None


def test_no_retry_is_answered_with_what_has_expired(memory: Memory, clock: FrozenClock) -> None:
    """C15: a later write may have made it live shorter."""
    first = {"user": "alice", "record": "code", "value": {"v": "first"}, "ttl_s": 86_400}
    memory.call("users.set_record", first, key="first")
    memory.call("users.set_record", {**first, "value": {"v": "second"}, "ttl_s": 1}, key="second")
    clock.advance(seconds=2)
    for data, key in ((first, "first"), ({**first, "value": {"v": "second"}, "ttl_s": 1}, "second")):
        with pytest.raises(Erased):
            memory.call("users.set_record", data, key=key)


# -- histories -----------------------------------------------------------------------------------------------------------


def test_many_large_changes_are_kept_so_that_they_can_be_read(me: User) -> None:
    """Between two whole values there is never more than a few times such a value to be put together."""
    for number in range(20):
        me.records.update("large", {f"k{each}": number for each in range(10_000)})
    changes = me.records.history("large", 20)
    assert {change.mode for change in changes} == {"replace"}
    small = [me.records.update("large", {"k1": number}).version for number in range(3)]
    assert [change.mode for change in me.records.history("large", 3)] == ["merge"] * len(small)


# -- names, and what the tool was called with ----------------------------------------------------------------------------


@pytest.mark.parametrize("slug", ["2fa", "_hidden", "0"])
def test_every_slug_is_the_name_of_a_record(memory: Memory, me: User, slug: str) -> None:
    """S3.4: it is the same record."""
    memory.definitions.create(f"Name {slug}", slug=slug)
    memory.definitions.bind([slug], owner="alice").update({slug: {"x": 1}})
    assert {name: me.records[name] for name in me.records} == {slug: {"x": 1}}
    assert slug in me.records
    me.records.set_all({slug: {"x": 2}})
    assert len(me.records.history(slug)) == 2
    del me.records[slug]


def test_arguments_of_a_tool_call_may_be_json(memory: Memory) -> None:
    """S3.34: OpenAI hands the arguments on as a text."""
    memory.definitions.create("Profile", schema=SCHEMA)
    view = memory.definitions.bind(["profile"], owner="u1")
    view.update(json.dumps({"memory": {"profile": {"a": "1"}}}))
    assert view.values == {"profile": {"a": "1"}}
    for wrong in ("{", "[]", '"x"', ""):
        with pytest.raises(Invalid):
            view.update(wrong)


def test_a_definition_that_is_named_twice_is_bound_once(memory: Memory) -> None:
    made = memory.definitions.create("Profile", schema=SCHEMA)
    memory.user("u1").records["profile"] = {"a": "1"}
    assert memory.definitions.bind(["profile", made.id, "profile"], owner="u1").prompt().count("## Profile") == 1


# -- what is to be there -------------------------------------------------------------------------------------------------


def test_a_definition_that_is_to_be_there_is_made_once(memory: Memory) -> None:
    """For the start of a program: the second time it is the same, and what differs is named."""
    made = memory.definitions.define("Customer Profile", schema=SCHEMA, ttl_seconds=60)
    assert memory.definitions.define(" Customer Profile", schema=SCHEMA, ttl_seconds=60) == made
    with pytest.raises(Conflict, match="another schema and ttl_seconds") as error:
        memory.definitions.define("Customer Profile")
    assert error.value.details["differences"] == ["schema", "ttl_seconds"]
    with pytest.raises(Conflict, match="another name"):
        memory.definitions.define("Profile", slug="customer_profile", schema=SCHEMA, ttl_seconds=60)
    with pytest.raises(Conflict, match="name"):
        memory.definitions.define("Customer Profile", slug="other")
    with pytest.raises(Invalid, match="slug"):
        memory.definitions.define("客户")
    assert [one.slug for one in memory.definitions.list().definitions] == ["customer_profile"]


def test_what_never_changes_says_so(memory: Memory) -> None:
    """S2.9, S3.5."""
    memory.definitions.create("Profile", schema=SCHEMA)
    memory.app("shop").stores.create("prefs")
    for wrong in ({"slug": "other"}, {"scope": "run"}):
        with pytest.raises(Invalid, match="cannot be changed"):
            memory.call("definitions.update", {"definition": "profile", **wrong})
    with pytest.raises(Invalid, match="cannot be changed"):
        memory.call("stores.update", {"app": "shop", "store": "prefs", "access": "session"})
    memory.call("definitions.update", {"definition": "profile", "slug": "profile", "scope": "global"})
    memory.call("stores.update", {"app": "shop", "store": "prefs", "access": "user"})


def test_a_store_holds_objects(memory: Memory) -> None:
    """S2.10: a schema that nothing could ever fit is no schema of a store."""
    stores = memory.app("shop").stores
    for wrong in ({"type": "array"}, {"type": "string"}):
        with pytest.raises(Invalid, match="must describe an object"):
            stores.create("prefs", schema=wrong)
    stores.create("prefs", schema={"properties": {}})
    with pytest.raises(Invalid, match="must describe an object"):
        stores.update("prefs", schema={"type": "array"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "integer", "default": "x"},
        {"enum": ["a", "b"], "default": "c"},
        {"type": "string", "minLength": 2, "default": ""},
        {"type": "array", "items": {"properties": {"n": {"type": "string", "default": 7}}}},
    ],
)
def test_a_default_fits_what_it_is_the_default_of(memory: Memory, wrong: dict[str, Any]) -> None:
    """C23: what is read can be written back."""
    schema = {"type": "object", "properties": {"n": wrong}}
    with pytest.raises(Invalid, match="default"):
        memory.app("shop").stores.create("prefs", schema=schema)
    with pytest.raises(Invalid, match="default"):
        memory.definitions.create("Profile", schema=schema)
    fitting = {
        "type": "object",
        "properties": {"n": {"type": ["integer", "null"], "default": None}, "m": {"default": {}}},
    }
    memory.definitions.create("Profile", schema=fitting)
    view = memory.definitions.bind(["profile"], owner="u1")
    assert view.update({"profile": {}}).memory == {"profile": {"n": None, "m": {}}}
    view.update(view.values)


def test_a_store_says_which_definition_it_hides(memory: Memory) -> None:
    memory.definitions.create("Profile", schema=SCHEMA)
    warnings = memory.app("shop").stores.create("profile").warnings
    assert warnings is not None
    assert "definition 'profile'" in warnings[0]


def test_limits_of_an_app_are_not_below_what_there_is(memory: Memory) -> None:
    """S2.39: an app that is exported can be imported."""
    shop = memory.app("shop")
    for number in range(4):
        shop.stores.create(f"s{number}x")
    with pytest.raises(Invalid, match="max_stores"):
        shop.configure(max_stores=3)
    shop.configure(max_stores=4)
    memory.app("other").import_document(shop.export())
    assert [one.app for one in memory.apps()] == ["other", "shop"]


# -- whose records a store holds -----------------------------------------------------------------------------------------


def test_the_records_of_a_store_are_listed(memory: Memory) -> None:
    shop = memory.app("shop")
    shop.stores.define({"prefs": {}, "cart": {"access": "session"}, "flags": {"access": "application"}})
    for user, session in (("u1", "s1"), ("u2", "s2")):
        scope = shop.scope(user_id=user, session_id=session)
        scope.set_contents({"prefs": {"of": user}, "cart": {"of": session}})
    shop.scope().set_content("flags", {"on": True})
    assert {one.user_id: one.value for one in shop.stores.records("prefs")} == {"u1": {"of": "u1"}, "u2": {"of": "u2"}}
    carts = shop.stores.records("cart")
    assert {one.session_id: one.value for one in carts} == {"s1": {"of": "s1"}, "s2": {"of": "s2"}}
    assert {one.user_id for one in carts} == {None}
    assert [(one.user_id, one.session_id) for one in shop.stores.records("flags")] == [(None, None)]
    page = memory.call("stores.records", {"app": "shop", "store": "prefs", "limit": 1})
    rest = memory.call("stores.records", {"app": "shop", "store": "prefs", "limit": 1, "cursor": page.next_cursor})
    assert {one.user_id for one in (*page.records, *rest.records)} == {"u1", "u2"}
    assert rest.next_cursor is None


def test_a_user_key_supplies_its_user(tmp_path: Path) -> None:
    with live(tmp_path / "home", worker=False) as server, server.memory() as memory:
        memory.definitions.create("Profile", schema=SCHEMA)
        memory.user("bob").records["profile"] = {"a": "bob's"}
        memory.app("shop").stores.create("prefs")
        with pytest.raises(Invalid, match="owner"):
            memory.call("definitions.bind", {})
        with Memory(server.url, api_key=memory.keys.create("held", "agent", user="alice").secret) as held:
            held.call("definitions.update_memory", {"memory": {"profile": {"a": "alice's"}}})
            assert held.call("definitions.bind", {}).values == {"profile": {"a": "alice's"}}
            for asked in ({"owner": "bob"}, {"owner": "nobody"}):
                with pytest.raises(Forbidden):
                    held.call("definitions.bind", asked)
            with pytest.raises(Forbidden):
                held.app("shop").scope(user_id="bob").render("{{memory.profile.a}}")
            assert held.app("shop").scope().render("{{memory.profile.a}}") == "alice's"
            assert held.call("definitions.delete_memory", {"definition": "profile"}).records == 1
        assert memory.user("bob").records["profile"] == {"a": "bob's"}
