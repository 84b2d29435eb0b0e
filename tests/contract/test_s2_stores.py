"""S2: memory stores of apps: settings, access, reads and writes, retention."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict, Forbidden, Invalid, MemwellError, NotFound, Stale
from memwell.sdk._sync_apps import App, Scope
from memwell.sdk.types import StoreSettings
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import AsyncMemory, Memory, remains, two_tenants
from ..live import live
from .conftest import engine_of

SCHEMA: dict[str, Any] = {
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
FULL: dict[str, Any] = {
    "preferences": {"language": "pt", "notifications": True},
    "recentOrders": ["A-1", "B-2"],
    "lastVisit": "2026-04-19T10:00:00Z",
}
WITH_DEFAULTS = {
    "type": "object",
    "required": ["userId"],
    "properties": {
        "userId": {"type": "string"},
        "preferences": {
            "type": "object",
            "default": {},
            "properties": {"language": {"type": "string", "default": "en"}},
        },
    },
}
TEXTS = {"type": ["string", "array"]}
CONFIGURED = """
userPrefs:
  access: user
  retention: 1_month
cart:
  access: session
  retention: session_only
featureFlags:
  access: application
  retention: 1_week
quotes:
  retention: 1_day
"""


@pytest.fixture
def shop(memory: Memory) -> App:
    return memory.app("shop")


@pytest.fixture
def prefs(shop: App) -> Scope:
    """Alice's memory of a shop that has one store, `userPrefs`."""
    shop.stores.create("userPrefs", name="User preferences", schema=SCHEMA)
    return shop.scope(user_id="alice")


def work(memory: Memory) -> None:
    engine_of(memory).worker.run_due("default")


def count(scope: Scope, store: str) -> int:
    return (scope.get_content(store) or {"n": 0})["n"]  # type: ignore[no-any-return]


def everything_with(scope: Scope, store: str) -> list[Callable[[], object]]:
    """All that can be done with the content of a store."""
    return [
        lambda: scope.get_content(store),
        lambda: scope.set_content(store, {"n": 7}),
        lambda: scope.delete_content(store),
        lambda: scope.history(store),
        lambda: scope.render(f"{{{{memory.{store}.of}}}}"),
    ]


def found_in(home: Path, word: str) -> list[str]:
    """Where a word is left on the disk or in the tables."""
    return [name for name, data in remains(home).items() if word.encode() in data]


# -- definitions ---------------------------------------------------------------------------------------------------------


def test_every_session_has_its_meta_and_everything_else_is_made(shop: App) -> None:
    """S2.1: one kind is built in, the other is not there before it is defined, and the built-in one is no store."""
    here = shop.scope(user_id="alice", session_id="s1")
    assert here.get_content("sessionMeta").keys() == {"metadata", "sessionInfo", "artifacts"}
    with pytest.raises(NotFound, match="userPrefs"):
        here.get_content("userPrefs")
    shop.stores.create("userPrefs")
    assert here.get_content("userPrefs") is None
    assert [one.technical_name for one in shop.stores.list()] == ["userPrefs"]


def test_a_store_has_the_seven_fields(shop: App) -> None:
    """S2.8: each of them is kept as it was given; only the technical name is needed."""
    given: StoreSettings = {
        "name": "User preferences",
        "description": "What somebody likes.",
        "schema": SCHEMA,
        "access": "session",
        "retention": "1_week",
        "strict": True,
    }
    shop.stores.create("userPrefs", **given)
    kept = shop.stores.get("userPrefs")
    assert {name: getattr(kept, name) for name in given} == given
    assert (kept.app, kept.technical_name, kept.version, kept.warnings) == ("shop", "userPrefs", 1, None)
    plain = shop.stores.create("orderHistory")
    assert (plain.name, plain.access, plain.retention, plain.strict) == ("orderHistory", "user", "1_month", False)
    assert (plain.schema, plain.description) == ({}, None)
    assert [one.technical_name for one in shop.stores.list()] == ["orderHistory", "userPrefs"]


def test_a_store_can_be_changed_but_for_its_technical_name(memory: Memory, shop: App, prefs: Scope) -> None:
    """S2.9, B2.1: the name for people may change, and the content stays where it was."""
    prefs.set_content("userPrefs", FULL)
    changed = shop.stores.update("userPrefs", name="Likes and dislikes", retention="1_week", description="New.")
    assert (changed.name, changed.retention, changed.version) == ("Likes and dislikes", "1_week", 2)
    assert (changed.technical_name, changed.schema) == ("userPrefs", SCHEMA)
    assert prefs.get_content("userPrefs") == FULL
    with pytest.raises(Invalid, match="cannot be changed"):
        memory.call("stores.update", {"app": "shop", "store": "userPrefs", "technical_name": "likes"})
    with pytest.raises(NotFound):
        prefs.get_content("likes")
    assert prefs.get_content("userPrefs") == FULL


def test_the_access_of_a_store_cannot_change(memory: Memory, shop: App, prefs: Scope) -> None:
    """S2.24: the records that are there would be nobody's."""
    with pytest.raises(Invalid):
        memory.call("stores.update", {"app": "shop", "store": "userPrefs", "access": "application"})
    assert shop.stores.get("userPrefs").access == "user"


def test_a_change_of_a_store_that_somebody_else_has_changed_is_refused(shop: App, prefs: Scope) -> None:
    shop.stores.update("userPrefs", name="A", version=1)
    with pytest.raises(Stale):
        shop.stores.update("userPrefs", name="B", version=1)
    assert shop.stores.get("userPrefs").name == "A"


def test_a_technical_name_is_unique_in_its_app(memory: Memory, shop: App, prefs: Scope) -> None:
    """S2.9: another app may have the same; they share nothing."""
    with pytest.raises(Conflict, match="userPrefs"):
        shop.stores.create("userPrefs", access="session")
    assert shop.stores.get("userPrefs").access == "user"
    other = memory.app("bank")
    other.stores.create("userPrefs", access="application")
    prefs.set_content("userPrefs", FULL)
    assert other.scope(user_id="alice").get_content("userPrefs") is None


@cases("name", ["userPrefs", "order_history", "X", "a1", "session_meta", "a" * 255])
def test_names_that_can_be_used(shop: App, name: str) -> None:
    """C22, B2.1."""
    assert shop.stores.create(name).technical_name == name
    shop.scope(user_id="alice").set_content(name, {"n": 1})
    assert shop.scope(user_id="alice").get_content(name) == {"n": 1}


@cases("name", ["user prefs", "user-prefs", "1st", "_x", "préfs", "a.b", "a" * 256, "", "x\n", "a@b"])
def test_names_that_cannot_be_used(shop: App, name: str) -> None:
    """C22, B2.1: no special characters or spaces."""
    with pytest.raises(Invalid):
        shop.stores.create(name)


def test_the_name_of_the_session_meta_is_taken(shop: App) -> None:
    """C22: also where stores are made from a configuration."""
    with pytest.raises(Invalid, match="sessionMeta"):
        shop.stores.create("sessionMeta")
    with pytest.raises(Invalid, match="sessionMeta"):
        shop.stores.define({"sessionMeta": {"access": "session"}})


@cases("name", ["store1", "data", "temp", "Memory", "tmp_2"])
def test_a_name_that_says_nothing_is_warned_of(shop: App, name: str) -> None:
    """C40: the store is made all the same."""
    made = shop.stores.create(name)
    assert made.warnings is not None
    assert name in made.warnings[0]
    assert shop.stores.get(name).technical_name == name


@cases("name", ["userPreferences", "orderHistory", "conversationContext"])
def test_a_name_that_says_something_is_not_warned_of(shop: App, name: str) -> None:
    """C40."""
    assert shop.stores.create(name).warnings is None


@pytest.mark.parametrize("access", ["user", "application", "session"])
def test_there_are_three_access_types(shop: App, access: Any) -> None:
    """S2.11."""
    assert shop.stores.create("here", access=access).access == access


def test_there_is_no_fourth_access_type(shop: App) -> None:
    """S2.11."""
    with pytest.raises(Invalid, match="access"):
        shop.stores.create("here", access="global")  # type: ignore[arg-type]


def test_stores_are_made_from_the_configuration(shop: App) -> None:
    """S2.14: the YAML of the document, and the fourth retention by the same pattern."""
    made = shop.stores.define(CONFIGURED)
    assert [(one.technical_name, one.access, one.retention) for one in made] == [
        ("userPrefs", "user", "1_month"),
        ("cart", "session", "session"),
        ("featureFlags", "application", "1_week"),
        ("quotes", "user", "1_day"),
    ]
    again = shop.stores.define(CONFIGURED)
    assert [one.version for one in again] == [1, 1, 1, 1], "what is there just so stays"


def test_a_configuration_may_say_everything_of_a_store(shop: App) -> None:
    """S2.8, S2.14: as an object as well as in YAML."""
    settings = {"name": "Prefs", "description": "d", "schema": SCHEMA, "access": "session", "retention": "1_day"}
    (made,) = shop.stores.define({"userPrefs": {**settings, "strict": True}})
    assert {name: getattr(made, name) for name in settings} == settings
    assert made.strict


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("new: {access: everyone}", "new"),
        ("new: {retention: 1_decade}", "1_decade"),
        ("new: {acess: user}", "acess"),
        ("'1new': {}", "1new"),
        ("new: {schema: {type: nonsense}}", "schema"),
        ("cart: {access: user}", "cart"),
    ],
)
def test_a_configuration_is_carried_out_whole_or_not_at_all(shop: App, wrong: str, named: str) -> None:
    """S2.14: what is wrong is named, and what stands beside it is not made."""
    shop.stores.create("cart", access="session", retention="session")
    with pytest.raises((Invalid, Conflict), match=named):
        shop.stores.define(f"fine: {{access: user}}\n{wrong}\n")
    assert [(one.technical_name, one.access) for one in shop.stores.list()] == [("cart", "session")]


def test_an_app_has_at_most_fifteen_stores(shop: App) -> None:
    """B2.3: what every session has is not counted, and a deleted store makes room."""
    for number in range(15):
        shop.stores.create(f"kept_{number}")
    with pytest.raises(Conflict, match="15"):
        shop.stores.create("one_more")
    info = shop.info()
    assert (info.stores, info.max_stores) == (15, 15)
    shop.stores.delete("kept_3")
    shop.stores.create("one_more")
    assert shop.info().stores == 15


def test_how_many_stores_an_app_may_have_can_be_set(shop: App) -> None:
    """B2.3."""
    shop.configure(max_stores=2)
    shop.stores.define({"one": {}, "two": {}})
    with pytest.raises(Conflict, match="max_stores"):
        shop.stores.define({"three": {}})
    shop.configure(max_stores=20)
    shop.stores.define({f"kept_{number}": {} for number in range(18)})
    assert shop.info().stores == 20
    with pytest.raises(Invalid):
        shop.configure(max_stores=0)


def test_nothing_but_a_directory_is_needed(tmp_path: Path, clock: FrozenClock) -> None:
    """S2.7: no database is set up, and what was written is there when the process is another."""
    with Memory(tmp_path / "fresh", worker=False, clock=clock) as memory:
        memory.app("shop").stores.create("userPrefs", schema=SCHEMA)
        memory.app("shop").scope(user_id="alice").set_content("userPrefs", FULL)
    with Memory(tmp_path / "fresh", worker=False, clock=clock) as memory:
        assert memory.app("shop").scope(user_id="alice").get_content("userPrefs") == FULL
        assert memory.app("shop").stores.get("userPrefs").schema == SCHEMA


def test_a_schema_that_was_shown_is_a_copy(tmp_path: Path) -> None:
    """C24, T3: whoever changes it changes no store, neither their own nor that of another tenant, before it is saved."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    with two_tenants(tmp_path) as (memory, other):
        for one in (memory, other):
            one.app("shop").stores.create("here", schema=schema, strict=True)
            one.app("shop").scope(user_id="alice").set_content("here", {"n": 1})
        stores = memory.app("shop").stores
        settings = {"here": {"schema": schema, "strict": True}}
        ways = (stores.get("here"), stores.list()[0], stores.define(settings)[0], stores.update("here", strict=True))
        for shown in (*ways, stores.get("here")):
            shown.schema["properties"]["n"] |= {"type": "string", "default": "one"}
        with pytest.raises(Conflict, match="1 of 1"):
            stores.update("here", schema=shown.schema)
        for one in (memory, other):
            assert one.app("shop").stores.get("here").schema == schema
            assert one.app("shop").scope(user_id="bob").set_content("here", {"n": 2}) == {"n": 2}


def test_a_configuration_that_says_whose_content_anew_is_told_what_to_do(shop: App) -> None:
    """S2.14, S2.24: `stores.update` cannot change that."""
    shop.stores.create("cart")
    with pytest.raises(Conflict, match="cannot be changed") as refused:
        shop.stores.define({"cart": {"access": "session"}})
    assert "stores.update" not in refused.value.message
    with pytest.raises(Conflict, match=r"stores\.update"):
        shop.stores.define({"cart": {"retention": "1_day"}})


# -- schemas -------------------------------------------------------------------------------------------------------------


def test_the_schema_of_the_document_can_be_used(shop: App) -> None:
    """S2.10: nested objects, arrays with items, a format, required fields and defaults."""
    shop.stores.create("userPrefs", schema=SCHEMA, strict=True)
    shop.stores.create("profile", schema=WITH_DEFAULTS, strict=True)
    here = shop.scope(user_id="alice")
    assert here.set_content("userPrefs", FULL) == FULL
    for wrong in ({"preferences": {"language": 7}}, {"recentOrders": [1]}, {"lastVisit": 5}):
        with pytest.raises(Invalid):
            here.set_content("userPrefs", wrong)
    with pytest.raises(Invalid, match="userId"):
        here.set_content("profile", {"preferences": {}})
    assert here.get_content("userPrefs") == FULL
    assert here.get_content("profile") is None


@cases(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": {"a": {"$ref": "https://example.com/schema"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
    ],
)
def test_an_invalid_schema_is_refused_when_the_store_is_created(shop: App, schema: dict[str, Any]) -> None:
    """S2.10."""
    with pytest.raises(Invalid) as refused:
        shop.stores.create("userPrefs", schema=schema)
    assert refused.value.details["field"] == "schema"
    with pytest.raises(NotFound):
        shop.stores.get("userPrefs")


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"preferences": {"notifications": "yes"}}, "preferences.notifications"),
        ({"recentOrders": ["A-1", 2]}, "recentOrders[1]"),
        ({"preferences": {"language": None}}, "preferences.language"),
    ],
)
def test_misfits_are_refused_by_a_strict_store(shop: App, data: dict[str, Any], path: str) -> None:
    """S2.13, C3: the error says where and why, never what, and the old record is untouched."""
    shop.stores.create("userPrefs", schema=SCHEMA, strict=True)
    here = shop.scope(user_id="alice")
    before = here.write("userPrefs", FULL)
    with pytest.raises(Invalid) as refused:
        here.set_content("userPrefs", {**data, "lastVisit": "2027-01-01T00:00:00Z"})
    (problem,) = refused.value.details["problems"]
    assert problem["path"] == path
    assert problem["reason"]
    assert path in refused.value.message
    after = here.read("userPrefs")
    assert (after.content, after.version, after.etag) == (FULL, 1, before.etag)


@pytest.mark.parametrize("data", [{"colour": "red"}, {"preferences": {"language": "pt", "colour": "red"}}])
def test_a_strict_store_takes_no_fields_that_its_schema_does_not_name(shop: App, data: dict[str, Any]) -> None:
    """S2.13, C23: an exact match, at every depth."""
    shop.stores.create("userPrefs", schema=SCHEMA, strict=True)
    with pytest.raises(Invalid, match="colour"):
        shop.scope(user_id="alice").set_content("userPrefs", data)
    assert shop.scope(user_id="alice").get_content("userPrefs") is None


def test_a_strict_store_takes_what_its_schema_says_there_may_be(shop: App) -> None:
    """C23: whoever allows other fields has them."""
    shop.stores.create("userPrefs", schema={**SCHEMA, "additionalProperties": True}, strict=True)
    assert shop.scope(user_id="alice").set_content("userPrefs", {"colour": "red"}) == {"colour": "red"}


def test_another_store_takes_any_object_and_warns(prefs: Scope) -> None:
    """C23: without strict adherence nothing is refused; what does not fit is told."""
    written = prefs.write("userPrefs", {"recentOrders": "none", "colour": "red"})
    assert written.content == {"recentOrders": "none", "colour": "red"}
    assert [one.path for one in written.warnings or []] == ["recentOrders"]
    assert prefs.get_content("userPrefs") == written.content
    assert prefs.write("userPrefs", {"recentOrders": []}).warnings is None


def test_a_record_must_be_an_object(memory: Memory, prefs: Scope) -> None:
    """S2.23, C23."""
    for wrong in ([1], "text", 7, None):
        with pytest.raises(Invalid):
            memory.call("stores.set_content", {"app": "shop", "store": "userPrefs", "user_id": "alice", "data": wrong})
    assert prefs.get_content("userPrefs") is None


@pytest.mark.parametrize("store", ["free", "held"])
@pytest.mark.parametrize(
    "value",
    [datetime(2026, 4, 19, tzinfo=UTC), date(2026, 4, 19), ("A-1", "B-2"), {1: 2}, {"x"}],
    ids=["datetime", "date", "tuple", "numbered", "set"],
)
def test_what_is_not_json_is_refused_or_becomes_it(shop: App, store: str, value: Any) -> None:
    """S2.22, S2.23: what a write returns is what is read afterwards, whatever Python calls it."""
    shop.stores.define({"free": {}, "held": {"schema": {"type": "object", "properties": {"seen": TEXTS}}}})
    here = shop.scope(user_id="alice")
    try:
        written = here.set_content(store, {"seen": value})
    except Invalid:
        written = None
    assert written == here.get_content(store)


def test_the_result_is_checked_and_not_what_was_given(shop: App) -> None:
    """C3, S2.37: what is required may be left away once it is there."""
    shop.stores.create("profile", schema=WITH_DEFAULTS, strict=True)
    here = shop.scope(user_id="alice")
    with pytest.raises(Invalid, match="userId"):
        here.set_content("profile", {"preferences": {"language": "pt"}})
    here.set_content("profile", {"userId": "u1"})
    here.set_content("profile", {"preferences": {"language": "pt"}})
    assert here.get_content("profile") == {"userId": "u1", "preferences": {"language": "pt"}}
    with pytest.raises(Invalid, match="userId"):
        here.set_content("profile", {"preferences": {}}, mode="replace")


def test_defaults_are_read_and_not_written(shop: App) -> None:
    """S2.37, C23: they show where a field is missing, at every depth, and a changed default shows at once."""
    shop.stores.create("profile", schema=WITH_DEFAULTS, strict=True)
    here = shop.scope(user_id="alice")
    assert here.get_content("profile") is None, "where there is no record there are no defaults"
    here.set_content("profile", {"userId": "u1"})
    assert here.get_content("profile") == {"userId": "u1", "preferences": {"language": "en"}}
    assert here.get_content("profile", {"preferences.language": 1}) == {"preferences": {"language": "en"}}
    assert [change.value for change in here.history("profile")] == [{"userId": "u1"}]
    changed = json.loads(json.dumps(WITH_DEFAULTS).replace('"en"', '"pt"'))
    shop.stores.update("profile", schema=changed)
    assert here.get_content("profile")["preferences"] == {"language": "pt"}
    here.set_content("profile", {"preferences": {"language": "de"}})
    assert here.get_content("profile")["preferences"] == {"language": "de"}


@pytest.mark.every_engine
def test_a_write_returns_what_is_read_afterwards(shop: App) -> None:
    """S2.23, C23: with the defaults, which are still not written."""
    shop.stores.create("profile", schema=WITH_DEFAULTS)
    here = shop.scope(user_id="alice")
    expected = {"userId": "u1", "preferences": {"language": "en"}}
    assert here.set_content("profile", {"userId": "u1"}) == expected == here.get_content("profile")
    assert here.set_contents({"profile": {}}) == {"profile": expected}
    assert [change.value for change in here.history("profile")] == [{"userId": "u1"}] * 2


def test_a_format_warns_and_never_refuses(shop: App) -> None:
    """C34: the document itself writes a time without a zone."""
    shop.stores.create("userPrefs", schema=SCHEMA, strict=True)
    here = shop.scope(user_id="alice")
    written = here.write("userPrefs", {"lastVisit": "2026-04-19T10:00:00.123456"})
    assert [one.path for one in written.warnings or []] == ["lastVisit"]
    assert here.get_content("userPrefs") == {"lastVisit": "2026-04-19T10:00:00.123456"}
    assert here.write("userPrefs", {"lastVisit": "2026-04-19T10:00:00Z"}).warnings is None


def test_a_schema_that_stored_content_does_not_fit_is_refused(shop: App) -> None:
    """C24: how much would break is told, and whose; it can be accepted."""
    shop.stores.create("userPrefs", schema=SCHEMA, strict=True)
    shop.scope(user_id="alice").set_content("userPrefs", FULL)
    shop.scope(user_id="bob").set_content("userPrefs", {})
    narrower = {"type": "object", "properties": {"preferences": {"type": "object", "maxProperties": 1}}}
    with pytest.raises(Conflict, match="1 of 2") as refused:
        shop.stores.update("userPrefs", schema=narrower)
    assert [one["owner"] for one in refused.value.details["examples"]] == ["alice"]
    assert shop.stores.get("userPrefs").schema == SCHEMA
    assert shop.stores.update("userPrefs", schema=narrower, accept_breaking=True).schema == narrower


@pytest.mark.every_engine
def test_a_tighter_schema_of_a_store_that_is_not_strict_reports_what_no_longer_fits(shop: App, prefs: Scope) -> None:
    """S2.13, C24: the content stays as it is, so the change is made."""
    prefs.set_content("userPrefs", FULL)
    shop.scope(user_id="bob").set_content("userPrefs", {})
    narrower = {"type": "object", "properties": {"preferences": {"type": "object", "maxProperties": 1}}}
    (told,) = shop.stores.update("userPrefs", schema=narrower).warnings or []
    assert ("1 of 2 stored records do not fit" in told, "alice: `preferences`" in told) == (True, True), told
    assert prefs.get_content("userPrefs")["preferences"] == FULL["preferences"]
    assert shop.stores.update("userPrefs", schema=SCHEMA).warnings is None


@pytest.mark.every_engine
def test_a_store_becomes_strict_only_if_its_content_fits(shop: App, prefs: Scope) -> None:
    """S2.13, C24."""
    prefs.set_content("userPrefs", {"colour": "red"})
    with pytest.raises(Conflict, match="1 of 1"):
        shop.stores.update("userPrefs", strict=True)
    assert not shop.stores.get("userPrefs").strict
    prefs.set_content("userPrefs", {}, mode="replace")
    assert shop.stores.update("userPrefs", strict=True).strict


# -- reading -------------------------------------------------------------------------------------------------------------


def test_a_record_is_read_whole(prefs: Scope) -> None:
    """S2.20, S2.22, S2.19, C25, B2.5: it is the data itself, and a plain value at once, not a result that holds it."""
    assert prefs.set_content("userPrefs", FULL) == FULL
    found = prefs.get_content("userPrefs")
    assert type(found) is dict
    assert found == FULL
    assert found["preferences"]["language"] == "pt"


def test_fields_are_read_by_their_paths(prefs: Scope) -> None:
    """S2.21, S2.22: what is asked for stands where it stood, and nothing else."""
    prefs.set_content("userPrefs", FULL)
    assert prefs.get_content("userPrefs", {"preferences.language": 1, "lastVisit": 1}) == {
        "preferences": {"language": "pt"},
        "lastVisit": FULL["lastVisit"],
    }
    assert prefs.get_content("userPrefs", {"preferences": 1}) == {"preferences": FULL["preferences"]}
    assert prefs.get_content("userPrefs", {"recentOrders": 1}) == {"recentOrders": ["A-1", "B-2"]}


def test_fields_that_are_not_there_are_left_out(prefs: Scope) -> None:
    """S2.21, S2.27."""
    prefs.set_content("userPrefs", {"preferences": {"language": None}})
    assert prefs.get_content("userPrefs", {"nothing": 1, "preferences.sound": 1}) == {"preferences": {}}
    assert prefs.get_content("userPrefs", {"preferences.language": 1}) == {"preferences": {"language": None}}
    assert prefs.get_content("userPrefs", {"preferences.language.code": 1, "nothing.at.all": 1}) == {"preferences": {}}


def test_paths_go_through_lists(prefs: Scope) -> None:
    """S2.21: of each item what was asked for."""
    prefs.set_content("userPrefs", {"cart": {"items": [{"sku": "A", "n": 1}, {"sku": "B", "n": 2}]}})
    assert prefs.get_content("userPrefs", {"cart.items.sku": 1}) == {"cart": {"items": [{"sku": "A"}, {"sku": "B"}]}}


@cases("mark", [0, "1", 2, None, {"x": 1}])
def test_a_field_is_asked_for_with_a_one(prefs: Scope, mark: Any) -> None:
    """S2.21."""
    prefs.set_content("userPrefs", FULL)
    with pytest.raises(Invalid, match="lastVisit"):
        prefs.get_content("userPrefs", {"lastVisit": mark})


@cases("store", ["userPrefs", "sessionMeta"])
def test_what_is_asked_for_is_judged_before_there_is_anything(shop: App, prefs: Scope, store: str) -> None:
    """S2.21: a mistake shows at once, and not only once there is a record."""
    here = shop.scope(user_id="alice", session_id="s1")
    for wrong in ({"lastVisit": 0}, {f"f{number}": 1 for number in range(101)}):
        with pytest.raises(Invalid) as refused:
            here.get_content(store, wrong)
        assert refused.value.details["field"] == "projections"


def test_a_missing_record_is_nothing_and_no_error(prefs: Scope) -> None:
    """S2.27, C25: what callers write against it works, with projections, too."""
    assert prefs.get_content("userPrefs") is None
    found = prefs.get_content("userPrefs")
    assert ((found or {}).get("preferences") or {}).get("language", "en") == "en"
    assert prefs.get_content("userPrefs", {"preferences.language": 1}) is None
    assert prefs.read("userPrefs").version is None
    assert prefs.delete_content("userPrefs") is False


def test_a_store_is_named_by_its_technical_name_only(prefs: Scope) -> None:
    """S2.17: its name for people, another spelling and another app's name lead nowhere."""
    prefs.set_content("userPrefs", FULL)
    for name in ("User preferences", "userprefs", "USERPREFS", "user_prefs", "nothing"):
        with pytest.raises(NotFound):
            prefs.get_content(name)
        with pytest.raises(NotFound):
            prefs.set_content(name, {"a": 1})
        with pytest.raises(NotFound):
            prefs.delete_content(name)
    with pytest.raises(Invalid):
        prefs.render("{{memory.userprefs.lastVisit}}")
    assert prefs.get_content("userPrefs") == FULL


# -- writing -------------------------------------------------------------------------------------------------------------


def test_a_record_is_made_or_updated(prefs: Scope, clock: FrozenClock) -> None:
    """S2.23: one record, whatever its version."""
    first = prefs.write("userPrefs", {"recentOrders": ["A-1"]})
    clock.advance(seconds=5)
    second = prefs.write("userPrefs", {"recentOrders": ["A-1", "B-2"]})
    assert (first.version, second.version) == (1, 2)
    assert first.updated_at is not None
    assert second.updated_at == first.updated_at + timedelta(seconds=5)
    assert prefs.get_content("userPrefs") == {"recentOrders": ["A-1", "B-2"]}


def test_fields_that_are_not_given_stay_at_every_depth(prefs: Scope) -> None:
    """S2.25, C1, C2: objects are merged; arrays and single values are replaced, and null is a value."""
    prefs.set_content("userPrefs", {**FULL, "deep": {"a": {"b": {"c": 1, "d": 2}}}, "was": {"an": "object"}})
    update = {
        "preferences": {"language": "en"},
        "recentOrders": ["C-3"],
        "lastVisit": None,
        "deep": {"a": {"b": {"c": {"now": "an object"}}}},
        "was": 7,
        "new": {"x": 1},
    }
    expected = {
        "preferences": {"language": "en", "notifications": True},
        "recentOrders": ["C-3"],
        "lastVisit": None,
        "deep": {"a": {"b": {"c": {"now": "an object"}, "d": 2}}},
        "was": 7,
        "new": {"x": 1},
    }
    assert prefs.set_content("userPrefs", update) == expected
    assert prefs.get_content("userPrefs") == expected
    assert prefs.set_content("userPrefs", {}) == expected


def test_a_record_can_be_replaced_when_that_is_said(prefs: Scope) -> None:
    """C1: one operation with a mode; `set_content` merges unless told otherwise."""
    prefs.set_content("userPrefs", FULL)
    prefs.set_content("userPrefs", {"recentOrders": []}, mode="replace")
    assert prefs.get_content("userPrefs") == {"recentOrders": []}


def test_writers_at_the_same_time_keep_each_others_fields(prefs: Scope) -> None:
    """S2.25: every update is merged into what is there then."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: prefs.set_content("userPrefs", {f"field{number}": number}), range(40)))
    assert prefs.get_content("userPrefs") == {f"field{number}": number for number in range(40)}
    assert prefs.read("userPrefs").version == 40


def test_a_change_of_what_somebody_else_has_changed_is_refused(prefs: Scope) -> None:
    """C1: nothing of it is kept, and the current version is told."""
    first = prefs.write("userPrefs", {"n": 1})
    second = prefs.write("userPrefs", {"n": 2}, if_match=first.etag)
    with pytest.raises(Stale) as refused:
        prefs.set_content("userPrefs", {"n": 3}, if_match=first.etag)
    assert refused.value.details["version"] == second.etag
    assert prefs.get_content("userPrefs") == {"n": 2}
    with pytest.raises(Stale):
        prefs.set_content("userPrefs", {"n": 3}, if_match='"0-1"')


def test_only_what_is_there_can_be_changed_when_that_is_asked(memory: Memory, prefs: Scope) -> None:
    with pytest.raises(Stale):
        prefs.set_content("userPrefs", {"n": 1}, if_match="*")
    assert prefs.get_content("userPrefs") is None
    first = prefs.write("userPrefs", {"n": 1})
    prefs.write("userPrefs", {"n": 2}, if_match="*")
    at = {"app": "shop", "store": "userPrefs", "user_id": "alice"}
    with pytest.raises(Stale):
        memory.call("stores.delete_content", {**at, "if_match": first.etag})
    assert prefs.get_content("userPrefs") == {"n": 2}


def test_several_stores_are_written_together_or_not_at_all(shop: App) -> None:
    """C4."""
    shop.stores.define(CONFIGURED)
    shop.stores.create("strictly", schema=SCHEMA, strict=True)
    here = shop.scope(user_id="alice", session_id="s1")
    here.set_content("cart", {"items": 1})
    made = here.set_contents({"userPrefs": {"a": 1}, "cart": {"total": 2}, "featureFlags": {"on": True}})
    assert made == {"userPrefs": {"a": 1}, "cart": {"items": 1, "total": 2}, "featureFlags": {"on": True}}
    others: list[dict[str, Any]] = [{"strictly": {"lastVisit": 7}}, {"nowhere": {}}, {"sessionMeta": {"metadata": {}}}]
    for wrong in others:
        with pytest.raises((Invalid, NotFound, Forbidden)):
            here.set_contents({"userPrefs": {"a": 9}, "cart": {"items": 9}, **wrong})
    assert (here.get_content("userPrefs"), here.get_content("cart")) == ({"a": 1}, {"items": 1, "total": 2})


def test_earlier_values_can_be_read(prefs: Scope, clock: FrozenClock) -> None:
    for number in range(3):
        prefs.set_content("userPrefs", {"n": number, f"f{number}": True})
        clock.advance(hours=1)
    assert prefs.read("userPrefs", as_of=datetime.fromisoformat("2026-04-19T11:30:00Z")).content == {
        "n": 1,
        "f0": True,
        "f1": True,
    }
    assert prefs.read("userPrefs", {"n": 1}, as_of=datetime.fromisoformat("2026-04-19T10:00:00Z")).content == {"n": 0}
    assert prefs.read("userPrefs", as_of=datetime.fromisoformat("2026-04-19T09:59:59Z")).content is None
    assert prefs.get_content("userPrefs") == {"n": 2, "f0": True, "f1": True, "f2": True}


def test_every_version_is_kept(prefs: Scope) -> None:
    """The newest first; a deleted record takes its history with it."""
    prefs.set_content("userPrefs", {"n": 1})
    prefs.set_content("userPrefs", {"m": 2})
    assert [(one.version, one.value) for one in prefs.history("userPrefs")] == [(2, {"n": 1, "m": 2}), (1, {"n": 1})]
    assert [one.version for one in prefs.history("userPrefs", limit=1)] == [2]
    prefs.delete_content("userPrefs")
    with pytest.raises(NotFound):
        prefs.history("userPrefs")
    prefs.set_content("userPrefs", {"n": 3})
    assert [one.value for one in prefs.history("userPrefs")] == [{"n": 3}]


# -- whose content -------------------------------------------------------------------------------------------------------


def test_content_of_a_session_is_that_of_one_session(memory: Memory, shop: App) -> None:
    """S2.24, S2.30: app and session say which record; another session, or the same in another app, has its own."""
    memory.app("bank").stores.create("cart", access="session")
    shop.stores.create("cart", access="session")
    one, other = shop.scope(session_id="s1"), shop.scope(session_id="s2")
    elsewhere = memory.app("bank").scope(session_id="s1")
    one.set_content("cart", {"n": 1})
    assert (other.get_content("cart"), elsewhere.get_content("cart")) == (None, None)
    other.set_content("cart", {"n": 2})
    elsewhere.set_content("cart", {"n": 3})
    assert [count(here, "cart") for here in (one, other, elsewhere)] == [1, 2, 3]


def test_content_of_a_user_stays_from_session_to_session(memory: Memory, shop: App, prefs: Scope) -> None:
    """S2.24, S2.31: app and user say which record, whatever the session."""
    memory.app("bank").stores.create("userPrefs")
    shop.scope(user_id="alice", session_id="s1").set_content("userPrefs", {"n": 1})
    shop.sessions.end("s1")
    assert shop.scope(user_id="alice", session_id="s2").get_content("userPrefs") == {"n": 1}
    assert prefs.get_content("userPrefs") == {"n": 1}
    assert shop.scope(user_id="bob", session_id="s2").get_content("userPrefs") is None
    assert memory.app("bank").scope(user_id="alice").get_content("userPrefs") is None


def test_the_user_of_a_session_is_known_by_the_session(shop: App, prefs: Scope) -> None:
    """S2.24, S2.31: whoever gives the session alone reaches its user's content."""
    prefs.set_content("userPrefs", {"n": 1})
    shop.sessions.update("s1", {"channel": "web"}, user_id="alice")
    shop.sessions.update("s2", {"userId": "bob"})
    assert shop.scope(session_id="s1").get_content("userPrefs") == {"n": 1}
    assert shop.scope(session_id="s2").get_content("userPrefs") is None
    shop.scope(session_id="s2").set_content("userPrefs", {"n": 2})
    assert shop.scope(user_id="bob").get_content("userPrefs") == {"n": 2}


def test_content_of_an_app_is_everybodys(memory: Memory, shop: App) -> None:
    """S2.24, S2.32: the app alone says which record."""
    shop.stores.create("featureFlags", access="application")
    memory.app("bank").stores.create("featureFlags", access="application")
    shop.scope(user_id="alice", session_id="s1").set_content("featureFlags", {"a": 1})
    shop.scope(user_id="bob", session_id="s2").set_content("featureFlags", {"b": 2})
    for here in (shop.scope(), shop.scope(user_id="carol"), shop.scope(session_id="s3")):
        assert here.get_content("featureFlags") == {"a": 1, "b": 2}
    assert memory.app("bank").scope().get_content("featureFlags") is None


@pytest.mark.parametrize(("access", "field"), [("user", "user_id"), ("session", "session_id")])
def test_a_missing_owner_is_an_error(shop: App, access: Any, field: str) -> None:
    """S2.24: nobody's content is everybody's by accident."""
    shop.stores.create("here", access=access)
    for attempt in (
        lambda: shop.scope().get_content("here"),
        lambda: shop.scope().set_content("here", {"n": 1}),
        lambda: shop.scope().delete_content("here"),
    ):
        with pytest.raises(Invalid) as refused:
            attempt()
        assert refused.value.details["field"] == field


@pytest.mark.parametrize("access", ["user", "session", "application"])
def test_the_record_of_the_caller_is_deleted_and_no_other(memory: Memory, tmp_path: Path, access: Any) -> None:
    """S2.26: with its history and its bytes; those of others, and of other apps, stay."""
    for name in ("shop", "bank"):
        memory.app(name).stores.create("here", access=access)
        memory.app(name).stores.create("beside", access=access)
    mine = memory.app("shop").scope(user_id="alice", session_id="s1")
    others = [memory.app("bank").scope(user_id="alice", session_id="s1")]
    others += [] if access == "application" else [memory.app("shop").scope(user_id="bob", session_id="s2")]
    mine.set_content("here", {"n": "zyxoqwvquill"})
    mine.set_content("here", {"n": "replaced"})
    mine.set_content("beside", {"n": "kept"})
    for other in others:
        other.set_content("here", {"n": "theirs"})
    assert found_in(tmp_path / "home", "zyxoqwvquill") != []
    assert mine.delete_content("here") is True
    assert mine.get_content("here") is None
    assert mine.get_content("beside") == {"n": "kept"}
    assert [other.get_content("here") for other in others] == [{"n": "theirs"}] * len(others)
    assert mine.delete_content("here") is False
    work(memory)
    assert found_in(tmp_path / "home", "zyxoqwvquill") == []


def test_a_session_of_one_user_is_closed_to_another(shop: App) -> None:
    """S2.24, S2.30: whose it is was settled when it was first written to."""
    shop.stores.create("cart", access="session")
    shop.scope(user_id="alice", session_id="s1").set_content("cart", {"n": 1})
    bob = shop.scope(user_id="bob", session_id="s1")
    for attempt in everything_with(bob, "cart"):
        with pytest.raises(Conflict):
            attempt()
    assert shop.scope(user_id="alice", session_id="s1").get_content("cart") == {"n": 1}


@pytest.mark.parametrize("ended", [False, True])
def test_content_of_a_user_does_not_go_with_the_session_of_another(shop: App, ended: bool) -> None:
    """S2.24, S2.33: nobody's content ends when somebody else's session does; also with what is left of one."""
    shop.stores.define({"here": {"retention": "session"}, "notes": {"access": "session"}})
    shop.scope(user_id="alice", session_id="a").set_content("here", {"n": 1})
    shop.scope(user_id="bob", session_id="b").set_content("notes", {"n": 1})
    if ended:
        shop.sessions.end("b")
    elsewhere = shop.scope(user_id="alice", session_id="b")
    with pytest.raises(Conflict):
        elsewhere.set_content("here", {"n": 7})
    assert elsewhere.get_content("here") == {"n": 1}, "one's own can be read anywhere"
    shop.sessions.end("b")
    assert shop.scope(user_id="alice").get_content("here") == {"n": 1}
    assert shop.scope(user_id="bob", session_id="b").set_content("here", {"n": 2}) == {"n": 2}


def test_a_user_key_may_omit_the_user(tmp_path: Path) -> None:
    """S2.24: the key says it. The session of another is still another's, and one that is nobody's stays so."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        shop = memory.app("shop")
        shop.stores.define({"here": {}, "going": {"retention": "session"}})
        shop.sessions.update("b", user_id="bob")
        shop.sessions.update("nobodys", {"n": 1})
        with server.memory(memory.keys.create("alice's", "agent", user="alice").secret) as held:
            mine = held.app("shop").scope()
            assert mine.get_content("here") is None
            assert mine.set_content("here", {"n": 1}) == {"n": 1}
            assert held.app("shop").scope(session_id="a").set_content("going", {"n": 1}) == {"n": 1}
            for store in ("here", "going"):
                for attempt in everything_with(held.app("shop").scope(session_id="b"), store)[:4]:
                    with pytest.raises(Forbidden):
                        attempt()
            with pytest.raises(Forbidden):
                held.app("shop").scope(session_id="nobodys").set_content("going", {"n": 7})
        assert shop.scope(user_id="alice").get_content("here") == {"n": 1}
        assert [one.session_id for one in shop.sessions.list(user_id="alice")] == ["a"]
        assert shop.sessions.get("nobodys").session_info.user_id is None
        with server.memory(memory.keys.create("f", "agent", flow="alice").secret) as flow, pytest.raises(Forbidden):
            flow.app("shop").scope().get_content("here")


def test_a_user_key_reaches_that_users_content_only(tmp_path: Path) -> None:
    """S2.24, S2.26: no other user's, no other's session, and not the app's."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        shop = memory.app("shop")
        shop.stores.define(CONFIGURED)
        shop.sessions.update("a", user_id="alice")
        shop.sessions.update("b", {"word": "theirs"}, user_id="bob")
        for user, session in (("alice", "a"), ("bob", "b")):
            shop.scope(user_id=user, session_id=session).set_contents({"userPrefs": {"of": user}, "cart": {"of": user}})
        shop.scope().set_content("featureFlags", {"on": True})
        key = memory.keys.create("alice's", "agent", user="alice").secret
        with server.memory(key) as held:
            mine = held.app("shop").scope(user_id="alice", session_id="a")
            assert mine.set_content("userPrefs", {"n": 1}) == {"of": "alice", "n": 1}
            assert mine.set_content("cart", {"n": 1}) == {"of": "alice", "n": 1}
            assert mine.get_content("sessionMeta")["sessionInfo"]["userId"] == "alice"
            assert held.app("shop").sessions.get("a").session_info.user_id == "alice"
            assert mine.render("{{memory.userPrefs.of}}") == "alice"
            assert mine.delete_content("cart") is True
            _is_kept_out(held.app("shop"))
        assert shop.scope(user_id="bob", session_id="b").get_content("userPrefs") == {"of": "bob"}
        assert shop.scope(user_id="bob", session_id="b").get_content("cart") == {"of": "bob"}
        assert shop.scope().get_content("featureFlags") == {"on": True}


def _is_kept_out(shop: App) -> None:
    """Alice's key cannot do anything with what is Bob's, or everybody's."""
    ways = (
        (shop.scope(user_id="bob"), "userPrefs"),
        (shop.scope(session_id="b"), "userPrefs"),
        (shop.scope(session_id="b"), "cart"),
        (shop.scope(user_id="bob", session_id="b"), "cart"),
        (shop.scope(user_id="alice"), "featureFlags"),
    )
    for scope, store in ways:
        for attempt in everything_with(scope, store):
            with pytest.raises(Forbidden):
                attempt()
    others: list[Callable[[], object]] = [
        lambda: shop.scope(session_id="b").get_content("sessionMeta"),
        lambda: shop.scope(session_id="b").render("{{memory.sessionMeta.metadata.word}}"),
        lambda: shop.sessions.get("b"),
        lambda: shop.sessions.list(),
        lambda: shop.sessions.update("b", {"x": 1}),
        lambda: shop.sessions.end("b"),
        lambda: shop.execute("hi", "b"),
        lambda: shop.stores.delete("userPrefs"),
        lambda: shop.delete(),
    ]
    for attempt in others:
        with pytest.raises(Forbidden):
            attempt()
    with pytest.raises((Forbidden, Conflict)):
        shop.scope(user_id="alice", session_id="b").get_content("cart")


def outcome(attempt: Callable[[], object]) -> str:
    """The error of an attempt with its message, or its result."""
    try:
        return repr(attempt())
    except MemwellError as error:
        return repr((error.code, error.message))


def test_a_user_key_cannot_tell_sessions_of_others_from_unknown_ones(tmp_path: Path) -> None:
    """S2.24: reading, that is. By writing, it begins a session that nobody has."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.app("shop").stores.define(CONFIGURED)
        memory.app("shop").sessions.update("b", user_id="bob")
        with server.memory(memory.keys.create("alice's", "agent", user="alice").secret) as held:
            shop = held.app("shop")
            ways: list[Callable[[str], object]] = [
                lambda session: shop.sessions.get(session),
                lambda session: shop.scope(session_id=session).get_content("sessionMeta"),
                lambda session: shop.scope(session_id=session).get_content("cart"),
                lambda session: shop.scope(session_id=session).history("cart"),
                lambda session: shop.scope(session_id=session).delete_content("cart"),
                lambda session: shop.scope(session_id=session).render("{{memory.sessionMeta.metadata.word}}"),
                lambda session: shop.scope(session_id=session).render("{{memory.cart.of}}"),
                lambda session: shop.scope(session_id=session).render("{{artifacts.text}}"),
            ]
            for way in ways:
                found = [outcome(partial(way, session)) for session in ("b", "unknown")]
                assert found[0] == found[1]
                assert "forbidden" in found[0]
            shop.scope(session_id="mine").set_content("cart", {"n": 1})
            assert shop.scope(session_id="mine").get_content("cart") == {"n": 1}
            assert shop.sessions.get("mine").session_id == "mine"


def test_a_flow_key_learns_no_names_of_stores(tmp_path: Path) -> None:
    """S2.24: of those of an app, of definitions, and of apps neither."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.app("shop").stores.define(CONFIGURED)
        memory.definitions.create("Profile", slug="profile", schema={"type": "object"})
        with server.memory(memory.keys.create("f", "agent", flow="alice").secret) as held:
            tried = [
                outcome(attempt)
                for app in ("shop", "nothing")
                for name in ("userPrefs", "cart", "profile", "nothing")
                for scope in (held.app(app).scope(), held.app(app).scope(user_id="u", session_id="s"))
                for attempt in everything_with(scope, name)
            ]
            binds = [partial(held.definitions.bind, [name], owner="u") for name in ("profile", "nothing")]
            tried += [outcome(bind) for bind in binds]
        assert {one[:12] for one in tried} == {"('forbidden'"}
        assert len(set(tried)) == 1


def test_a_flow_key_reaches_no_store(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.app("shop").stores.define(CONFIGURED)
        memory.app("shop").scope().set_content("featureFlags", {"on": True})
        with server.memory(memory.keys.create("f", "agent", flow="alice").secret) as held:
            here = held.app("shop").scope(user_id="alice", session_id="s")
            for store in ("userPrefs", "cart", "featureFlags", "sessionMeta"):
                with pytest.raises(Forbidden):
                    here.get_content(store)
            with pytest.raises(Forbidden):
                held.app("shop").sessions.get("s")


@pytest.mark.every_engine
def test_a_key_that_only_reads_does_not_write(tmp_path: Path) -> None:
    """S2.16."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        memory.app("shop").stores.create("userPrefs")
        memory.app("shop").scope(user_id="alice").set_content("userPrefs", {"n": 1})
        with server.memory(memory.keys.create("r", "reader").secret) as reader:
            here = reader.app("shop").scope(user_id="alice")
            assert here.get_content("userPrefs") == {"n": 1}
            for attempt in (
                lambda: here.set_content("userPrefs", {"n": 2}),
                lambda: here.delete_content("userPrefs"),
            ):
                with pytest.raises(Forbidden):
                    attempt()
            assert here.get_content("userPrefs") == {"n": 1}


# -- for how long --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "days"),
    [("1_day", 1), ("1_week", 7), ("1_month", 30), ("3_days", 3), ("2_weeks", 14), ("6_months", 180), ("90_day", 90)],
)
def test_content_stays_for_its_retention(shop: App, clock: FrozenClock, retention: str, days: int) -> None:
    """S2.12, S2.33, B2.4: 24 hours, 7 days, 30 days, or so many of them; after it, it is gone at once."""
    shop.stores.create("here", retention=retention)
    mine = shop.scope(user_id="alice")
    written = mine.write("here", {"n": 1})
    assert written.updated_at is not None
    assert written.expires_at == written.updated_at + timedelta(days=days)
    clock.advance(days=days, seconds=-1)
    assert mine.get_content("here") == {"n": 1}
    clock.advance(seconds=1)
    assert mine.get_content("here") is None
    mine.set_content("here", {"m": 2})
    assert mine.get_content("here") == {"m": 2}, "nothing of what has expired comes back"


@pytest.mark.parametrize("retention", ["session", "session_only"])
def test_content_of_a_session_stays_until_that_ends(shop: App, clock: FrozenClock, retention: str) -> None:
    """S2.12, S2.14, S2.33: however long that takes."""
    assert shop.stores.create("cart", access="session", retention=retention).retention == "session"
    here = shop.scope(user_id="alice", session_id="s1")
    assert here.write("cart", {"n": 1}).expires_at is None
    clock.advance(days=400)
    assert here.get_content("cart") == {"n": 1}
    shop.sessions.end("s1")
    assert here.get_content("cart") is None


@cases("retention", ["1_decade", "week", "-1_day", "1.5_days", "", "9999_months", True, []])
def test_there_are_no_other_retentions(shop: App, retention: Any) -> None:
    """S2.12, B2.4."""
    with pytest.raises(Invalid, match="retention"):
        shop.stores.create("here", retention=retention)


@pytest.mark.parametrize(
    ("access", "retention"),
    list(product(["user", "session", "application"], ["session", "1_day", "1_week", "1_month"])),
)
def test_access_and_retention_combine_freely(shop: App, clock: FrozenClock, access: Any, retention: str) -> None:
    """S2.6, S2.34, B2.2, C13: how long does not depend on whose; the end of the session takes what was to end with it."""
    shop.stores.create("here", access=access, retention=retention)
    here = shop.scope(user_id="alice", session_id="s1")
    here.set_content("here", {"n": 1})
    assert here.get_content("here") == {"n": 1}
    ended = shop.sessions.end("s1")
    stays = retention != "session"
    assert here.get_content("here") == ({"n": 1} if stays else None)
    assert (ended.job is None) is (stays and access != "session"), (
        "a session of a known user was begun by a write to it"
    )
    clock.advance(days=31)
    assert here.get_content("here") is None


@pytest.mark.parametrize("access", ["user", "application"])
def test_session_content_ends_with_the_session_that_wrote_last(shop: App, access: Any) -> None:
    """B2.2, S2.33: retention by session, of content that several sessions share."""
    shop.stores.create("here", access=access, retention="session")
    one, other = (shop.scope(user_id="alice", session_id=session) for session in ("s1", "s2"))
    one.set_content("here", {"a": 1})
    other.set_content("here", {"b": 2})
    shop.sessions.end("s1")
    assert other.get_content("here") == {"a": 1, "b": 2}
    shop.sessions.end("s2")
    assert other.get_content("here") is None


def test_session_content_needs_a_session(shop: App) -> None:
    """B2.2: otherwise nothing would ever end it. It can be read without."""
    shop.stores.create("here", access="user", retention="session")
    with pytest.raises(Invalid) as refused:
        shop.scope(user_id="alice").set_content("here", {"n": 1})
    assert refused.value.details["field"] == "session_id"
    shop.scope(user_id="alice", session_id="s1").set_content("here", {"n": 1})
    assert shop.scope(user_id="alice").get_content("here") == {"n": 1}


def test_writing_renews_and_reading_does_not(shop: App, clock: FrozenClock) -> None:
    """C15."""
    shop.stores.create("here", retention="1_week")
    mine = shop.scope(user_id="alice")
    mine.set_content("here", {"a": 1})
    clock.advance(days=5)
    mine.set_content("here", {"b": 2})
    clock.advance(days=5)
    until = mine.read("here").expires_at
    for _ in range(3):
        assert mine.get_content("here") == {"a": 1, "b": 2}
        assert mine.render("{{memory.here.a}}") == "1"
    assert mine.read("here").expires_at == until
    clock.advance(days=2)
    assert mine.get_content("here") is None


def test_expired_content_is_purged(memory: Memory, shop: App, clock: FrozenClock, tmp_path: Path) -> None:
    """C15, B2.2: out of sight at once, and out of the files with the next round."""
    shop.stores.create("here", retention="1_day")
    shop.scope(user_id="alice").set_content("here", {"word": "zyxoqwvquill"})
    clock.advance(days=2)
    assert shop.scope(user_id="alice").get_content("here") is None
    work(memory)
    clock.advance(days=1)
    work(memory)
    assert found_in(tmp_path / "home", "zyxoqwvquill") == []


@pytest.mark.every_engine
def test_a_changed_retention_counts_from_the_next_write(shop: App, clock: FrozenClock) -> None:
    """S2.12, C15."""
    shop.stores.create("here", retention="1_day")
    mine = shop.scope(user_id="alice")
    mine.set_content("here", {"n": 1})
    shop.stores.update("here", retention="1_month")
    clock.advance(hours=23)
    mine.set_content("here", {"n": 2})
    clock.advance(days=29)
    assert mine.get_content("here") == {"n": 2}


def test_a_longer_retention_does_not_bring_time_to_what_is_stored(shop: App) -> None:
    """S2.12, C15: nobody who was told a time finds the content there after it."""
    shop.stores.create("here", retention="1_day")
    mine = shop.scope(user_id="alice")
    until = mine.write("here", {"n": 1}).expires_at
    assert shop.stores.update("here", retention="1_month").warnings is None
    assert mine.read("here").expires_at == until
    assert mine.write("here", {"n": 2}).expires_at != until


@pytest.mark.parametrize("access", ["user", "session", "application"])
def test_a_shorter_retention_holds_for_what_is_stored(
    memory: Memory, shop: App, clock: FrozenClock, tmp_path: Path, access: Any
) -> None:
    """S2.12, B2.2: of everybody, counted from the last write; also in what is read as of now, and in every byte."""
    for name in ("shop", "bank"):
        memory.app(name).stores.define({"here": {"access": access}, "beside": {"access": access}})
    mine = shop.scope(user_id="alice", session_id="s1")
    others = [shop.scope(user_id="bob", session_id="s2")]
    kept = [(mine, "beside"), (memory.app("bank").scope(user_id="alice", session_id="s1"), "here")]
    for here, store in [(mine, "here"), *((other, "here") for other in others), *kept]:
        here.set_content(store, {"word": "early"})
        written = here.write(store, {"word": "zyxoqwvquill" if (here, store) not in kept else "theirs"})
    clock.advance(hours=20)
    assert shop.stores.update("here", retention="1_day").warnings is None
    assert written.updated_at is not None
    for here in (mine, *others):
        assert here.read("here").expires_at == written.updated_at + timedelta(days=1)
        assert here.read(
            "here", as_of=datetime.fromisoformat("2026-04-20T06:00:00Z")
        ).expires_at == written.updated_at + timedelta(days=1)
    clock.advance(hours=4)
    assert [here.get_content("here") for here in (mine, *others)] == [None, None]
    assert [here.get_content(store) for here, store in kept] == [{"word": "theirs"}] * 2
    assert shop.scope(user_id="alice", session_id="s1").render("{{memory.here.word}}") == ""
    work(memory)
    clock.advance(days=1)
    work(memory)
    assert found_in(tmp_path / "home", "zyxoqwvquill") == []


def test_content_too_old_for_a_shorter_retention_expires_at_once(
    memory: Memory, shop: App, clock: FrozenClock, tmp_path: Path
) -> None:
    """S2.12, B2.2: with its bytes; what is written then has nothing of it."""
    shop.stores.create("here", retention="1_month")
    mine = shop.scope(user_id="alice")
    mine.set_content("here", {"word": "zyxoqwvquill"})
    clock.advance(days=3)
    shop.stores.update("here", retention="1_day")
    assert mine.get_content("here") is None
    with pytest.raises(NotFound):
        mine.history("here")
    work(memory)
    assert found_in(tmp_path / "home", "zyxoqwvquill") == []
    assert mine.set_content("here", {"n": 1}) == {"n": 1}


def test_what_was_to_end_with_its_session_still_does_and_may_end_earlier(shop: App, clock: FrozenClock) -> None:
    """S2.12, S2.33: a time instead of the session; whichever comes first, until it is written again."""
    shop.stores.create("cart", access="session", retention="session")
    one, other, third = (shop.scope(user_id="alice", session_id=session) for session in ("s1", "s2", "s3"))
    for here in (one, other, third):
        here.set_content("cart", {"n": 1})
    shop.stores.update("cart", retention="1_week")
    shop.sessions.end("s1")
    assert one.get_content("cart") is None
    third.set_content("cart", {"n": 2})
    shop.sessions.end("s3")
    assert third.get_content("cart") == {"n": 2}, "it was written after the change"
    clock.advance(days=7, seconds=-1)
    assert other.get_content("cart") == {"n": 1}
    clock.advance(seconds=1)
    assert other.get_content("cart") is None


@pytest.mark.every_engine
def test_what_is_to_end_with_its_session_does_although_it_was_written_before(
    memory: Memory, shop: App, clock: FrozenClock, tmp_path: Path
) -> None:
    """S2.12, S2.33: never later than it was to; what is of a session that has ended is gone at once, with its bytes."""
    shop.stores.create("notes", access="session", retention="1_week")
    ended, going, lasting = (shop.scope(user_id="alice", session_id=session) for session in ("s1", "s2", "s3"))
    for here, word in ((ended, "zyxoqwvquill"), (going, "going"), (lasting, "lasting")):
        here.set_content("notes", {"word": word})
    shop.sessions.end("s1")
    assert ended.get_content("notes") == {"word": "zyxoqwvquill"}
    until = going.read("notes").expires_at
    assert shop.stores.update("notes", retention="session").warnings is None
    assert ended.get_content("notes") is None
    assert going.read("notes").expires_at == until
    work(memory)
    assert found_in(tmp_path / "home", "zyxoqwvquill") == []
    assert shop.sessions.end("s2").records == 2, "the content and the meta"
    assert going.get_content("notes") is None
    assert lasting.write("notes", {"n": 1}).expires_at is None
    clock.advance(days=30)
    assert lasting.get_content("notes") == {"word": "lasting", "n": 1}


@pytest.mark.parametrize("access", ["user", "application"])
def test_what_has_no_known_session_stays_as_long_as_it_was_to_and_that_is_told(
    shop: App, clock: FrozenClock, access: Any
) -> None:
    """S2.33, B2.2: until it is written in a session, which it goes with from then on."""
    shop.stores.create("here", access=access, retention="1_week")
    here = shop.scope(user_id="alice", session_id="s1")
    until = here.write("here", {"n": 1}).expires_at
    told = shop.stores.update("here", retention="session").warnings
    assert told is not None
    assert told[0].startswith("1 of the stored records")
    assert shop.stores.get("here").warnings is None
    shop.sessions.end("s1")
    assert here.read("here").expires_at == until
    here.set_content("here", {"m": 2})
    assert here.read("here").expires_at is None
    shop.stores.update("here", retention="1_month")
    assert shop.stores.update("here", retention="session").warnings is None, "its session is known by now"
    shop.sessions.end("s1")
    assert here.get_content("here") is None


# -- deleting ------------------------------------------------------------------------------------------------------------


def test_a_deleted_store_takes_the_content_of_all_with_it(memory: Memory, shop: App, tmp_path: Path) -> None:
    shop.stores.define({"here": {}, "beside": {}})
    for user in ("alice", "bob"):
        shop.scope(user_id=user).set_contents({"here": {"word": "zyxoqwvquill"}, "beside": {"n": 1}})
    assert shop.stores.delete("here").records == 2
    with pytest.raises(NotFound):
        shop.scope(user_id="alice").get_content("here")
    assert shop.scope(user_id="bob").get_content("beside") == {"n": 1}
    work(memory)
    assert found_in(tmp_path / "home", "zyxoqwvquill") == []
    shop.stores.create("here")
    assert shop.scope(user_id="alice").get_content("here") is None, "one of the same name is another"


@pytest.mark.every_engine
def test_a_deleted_app_takes_everything_with_it(memory: Memory, shop: App, tmp_path: Path) -> None:
    """Stores, content of every access type, and sessions; another app keeps its own."""
    for name in ("shop", "bank"):
        app = memory.app(name)
        app.stores.define(CONFIGURED)
        app.sessions.update("s1", {"word": f"{name}zyxoqwvquill"}, user_id="alice")
        content = {store: {"word": f"{name}zyxoqwvquill"} for store in ("userPrefs", "cart", "featureFlags")}
        app.scope(user_id="alice", session_id="s1").set_contents(content)
    gone = shop.delete()
    assert (gone.stores, gone.records) == (4, 4)
    work(memory)
    assert found_in(tmp_path / "home", "shopzyxoqwvquill") == []
    with pytest.raises(NotFound):
        shop.info()
    assert shop.stores.list() == []
    assert shop.sessions.list() == []
    kept = memory.app("bank").scope(user_id="alice", session_id="s1")
    assert kept.get_content("userPrefs") == kept.get_content("cart") == {"word": "bankzyxoqwvquill"}
    shop.stores.define(CONFIGURED)
    assert shop.scope(user_id="alice", session_id="s1").get_content("userPrefs") is None


@pytest.mark.every_engine
def test_a_forgotten_user_is_forgotten_in_every_app(memory: Memory, shop: App, tmp_path: Path) -> None:
    """S2.31: what is kept of a user, and of the user's sessions; others stay, and so does what is the app's."""
    shop.stores.define(CONFIGURED)
    for user, session in (("alice", "a"), ("bob", "b")):
        here = shop.scope(user_id=user, session_id=session)
        shop.sessions.update(session, {"word": f"{user}zyxoqwvquill"}, user_id=user)
        here.set_contents({store: {"word": f"{user}zyxoqwvquill"} for store in ("userPrefs", "cart")})
    memory.call("users.forget", {"user": "alice"})
    work(memory)
    assert found_in(tmp_path / "home", "alicezyxoqwvquill") == []
    assert shop.scope(user_id="bob", session_id="b").get_content("cart") == {"word": "bobzyxoqwvquill"}
    assert [one.session_id for one in shop.sessions.list()] == ["b"]


@pytest.mark.parametrize("before", ["nobody's", "expired"])
def test_content_that_a_user_writes_in_a_session_is_erased_with_the_user(
    memory: Memory, shop: App, clock: FrozenClock, before: str
) -> None:
    """S2.24, S2.30: also where something was written there before that was nobody's, or is over."""
    shop.stores.create("notes", access="session", retention="1_day")
    alice = shop.scope(user_id="alice", session_id="s1")
    if before == "expired":
        alice.set_content("notes", {"n": 1})
        shop.sessions.end("s1")
        clock.advance(days=2)
    else:
        shop.scope(session_id="s1").set_content("notes", {"n": 1})
    alice.set_content("notes", {"word": "zyxoqwvquill"})
    with pytest.raises(Conflict):
        shop.scope(user_id="bob", session_id="s1").get_content("notes")
    memory.call("users.forget", {"user": "alice"})
    assert shop.scope(session_id="s1").get_content("notes") is None


# -- the other ways ------------------------------------------------------------------------------------------------------


def test_the_methods_can_be_awaited(tmp_path: Path) -> None:
    """S2.19, C27: the same three methods, with the same results."""

    async def use() -> None:
        async with AsyncMemory(tmp_path / "home", worker=False) as memory:
            shop = memory.app("shop")
            await shop.stores.create("userPrefs", schema=SCHEMA)
            here = shop.scope(user_id="alice")
            assert await here.get_content("userPrefs") is None
            assert await here.set_content("userPrefs", FULL) == FULL
            await here.set_content("userPrefs", {"preferences": {"language": "en"}})
            partial = await here.get_content("userPrefs", {"preferences": 1})
            assert partial == {"preferences": {"language": "en", "notifications": True}}
            assert await here.delete_content("userPrefs") is True
            assert await here.get_content("userPrefs") is None
            with pytest.raises(Forbidden):
                await shop.scope(session_id="s").set_content("sessionMeta", {"metadata": {}})

    asyncio.run(use())


def test_the_methods_are_requests_that_javascript_can_make(tmp_path: Path) -> None:
    """S2.19, S2.20, S2.21, S2.23, S2.25, S2.26: what `await memory.…` sends, and what it resolves to."""
    with live(tmp_path, worker=False) as server, server.memory() as memory, server.client() as client:
        memory.app("shop").stores.create("userPrefs", schema=SCHEMA, strict=True)
        path, whose = "/v1/apps/shop/stores/userPrefs/content", {"user_id": "alice"}

        def read(**more: str) -> Any:
            return client.get(path, params={**whose, **more}).raise_for_status().json()["content"]

        assert read() is None
        assert client.patch(path, json={**whose, "data": FULL}).json()["content"] == FULL
        client.patch(path, json={**whose, "data": {"preferences": {"language": "en"}}}).raise_for_status()
        assert read() == {**FULL, "preferences": {"language": "en", "notifications": True}}
        partial = read(projections=json.dumps({"preferences.language": 1, "lastVisit": 1}))
        assert partial == {"preferences": {"language": "en"}, "lastVisit": FULL["lastVisit"]}
        refused = client.patch(path, json={**whose, "data": {"preferences": {"language": 7}}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid")
        assert refused.json()["error"]["details"]["problems"][0]["path"] == "preferences.language"
        assert client.delete(path, params={"user_id": "bob"}).json()["deleted"] is False
        assert client.delete(path, params=whose).json()["deleted"] is True
        assert read() is None


def test_stores_are_made_and_kept_apart_over_rest(tmp_path: Path) -> None:
    """S2.8, S2.9, S2.17."""
    new: Mapping[str, Any] = {"technical_name": "userPrefs", "name": "Preferences", "access": "user"}
    with live(tmp_path, worker=False) as server, server.client() as client:
        path = "/v1/apps/shop/stores"
        assert client.post(path, json=new).status_code == 201
        assert client.post(path, json=new).status_code == 409
        assert client.patch(f"{path}/userPrefs", json={"technical_name": "other"}).status_code == 400
        assert client.patch(f"{path}/userPrefs", json={"name": "Likes"}).json()["technical_name"] == "userPrefs"
        assert client.get(f"{path}/Likes/content", params={"user_id": "alice"}).status_code == 404
        listed = client.get(path).json()["stores"]
        assert [(one["technical_name"], one["name"]) for one in listed] == [("userPrefs", "Likes")]
