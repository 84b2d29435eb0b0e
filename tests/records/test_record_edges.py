"""Edge cases between sessions, runs, schemas and records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from memwell import Conflict, Invalid, TooLarge, function
from memwell.records.definitions import DEFINITIONS, require_definition
from memwell.records.schema import Schema
from memwell.records.schema_tree import MAX_MEMO
from memwell.testing import FrozenClock

from ..contract.conftest import engine_of
from ..contract.test_s3_memory import define
from ..engines import Memory
from ..live import live


def test_a_field_to_be_unset_is_one_for_functions_and_scopes_too(memory: Memory) -> None:
    """S2.25: a text is not the list of its letters."""
    shop = memory.app("shop")
    shop.stores.create("prefs")

    def forgets(message: str, memory: Any) -> Any:
        memory.set_content("prefs", {"a": 1, "b": 2, "ab": 3})
        return memory.set_content("prefs", {}, unset="ab")

    function(forgets)
    shop.configure(function="forgets")
    shop.execute("x", "s1", {"userId": "u1"})
    here = shop.scope(user_id="u1")
    assert here.get_content("prefs") == {"a": 1, "b": 2}
    assert here.set_content("prefs", {"ab": 3}, unset="a") == {"b": 2, "ab": 3}


def test_a_session_is_its_users_by_whatever_name(memory: Memory) -> None:
    """B2.11: a reference that comes later is that of the user who says so; one alone is somebody's whom nobody knows."""
    shop = memory.app("shop")
    shop.stores.create("cart", access="session", retention="session")
    shop.scope(user_id="u1", session_id="s1").set_content("cart", {"n": 1})
    with pytest.raises(Conflict, match="another user"):
        shop.sessions.update("s1", user_reference="R")
    shop.sessions.update("s1", user_id="u1", user_reference="R")
    assert shop.sessions.update("s1", user_reference="R").session_info.user_id == "u1"
    with pytest.raises(Conflict, match="another user"):
        shop.sessions.update("s1", user_reference="Q")
    with pytest.raises(Conflict, match="another user"):
        shop.sessions.update("s1", user_reference="Q", user_id="u1")
    assert shop.sessions.update("s1", user_reference="R").session_info.user_reference == "R"


def test_a_session_has_one_user(memory: Memory) -> None:
    """S2.3: nobody is asked which of two is meant, not even the first time."""
    shop = memory.app("shop")
    with pytest.raises(Invalid, match="name different users"):
        shop.sessions.update("s1", {"userId": "u2"}, user_id="u1")
    assert shop.sessions.list() == []
    assert shop.sessions.update("s1", {"userId": "u1"}, user_id="u1").session_info.user_id == "u1"


def test_metadata_that_are_not_given_are_not_replaced(memory: Memory) -> None:
    """S2.3."""
    shop = memory.app("shop")
    shop.sessions.update("s1", {"channel": "web"})
    assert shop.sessions.update("s1", mode="replace", session_reference="R").metadata == {"channel": "web"}
    assert shop.sessions.update("s1", {}, mode="replace").metadata == {}


@pytest.mark.parametrize("slug", ["memory", "bind", "end", "records", "check"])
def test_whatever_its_slug_a_definition_is_reached_by_it_over_http(tmp_path: Path, slug: str) -> None:
    """S3.4: no operation has its address where a slug could stand."""
    with live(tmp_path / "home") as server, server.client() as client:
        made = client.post("/v1/memory_definitions", json={"name": "One", "slug": slug})
        assert made.status_code == 201
        at = f"/v1/memory_definitions/{slug}"
        assert client.get(at).json()["slug"] == slug
        assert client.patch(at, json={"ttl_seconds": 60}).json()["ttl_seconds"] == 60
        assert client.post(f"{at}/check", json={"schema": {"type": "object"}}).json()["breaking"] == 0
        written = client.patch("/v1/working_memory", json={"owner": "u1", "memory": {slug: {"n": 1}}})
        assert written.json()["memory"] == {slug: {"n": 1}}
        assert len(client.get(f"{at}/records").json()["records"]) == 1
        assert client.delete(at).json()["slug"] == slug


def test_the_memory_of_a_run_that_is_over_stays_gone(memory: Memory) -> None:
    """S3.15. Of runs elsewhere nothing is known."""
    define(memory, "Scratch", {"type": "object"}, scope="run")
    run = memory.workflows.run({"name": "w", "steps": [{"step_type": "text", "template": "x"}]}, "hi", owner="u1")
    over = memory.definitions.bind(["scratch"], owner="u1", run=run.id)
    with pytest.raises(Conflict, match="This run has ended"):
        over.update({"scratch": {"a": 1}})
    assert over.values == {}
    elsewhere = memory.definitions.bind(["scratch"], owner="u1", run="one-of-my-own")
    assert elsewhere.update({"scratch": {"a": 1}}).memory == {"scratch": {"a": 1}}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_format_that_is_one_of_several_possibilities_is_looked_at(memory: Memory, word: str) -> None:
    """C34: such as a date or nothing."""
    when = {word: [{"type": "string", "format": "date"}, {"type": "null"}]}
    shop = memory.app("shop")
    shop.stores.create("trips", schema={"type": "object", "properties": {"when": when, "n": {"type": "integer"}}})
    here = shop.scope(user_id="u1")
    (told,) = here.write("trips", {"when": "tomorrow"}).warnings or []
    assert (told.path, "format" in told.reason) == ("when", True)
    assert here.write("trips", {"when": None}).warnings is None
    assert here.write("trips", {"when": "2026-04-19"}).warnings is None
    assert [one.path for one in here.write("trips", {"n": "x"}).warnings or []] == ["n"]


def test_defaults_are_filled_in_in_maps(memory: Memory) -> None:
    """C23: by the patterns that match a name, or as of one of the others."""
    place = {"type": "object", "properties": {"open": {"default": True}}}
    room = {"type": "object", "properties": {"beds": {"default": 2}}}
    both = {"additionalProperties": place, "patternProperties": {"^room": room}, "properties": {"room0": place}}
    shop = memory.app("shop")
    shop.stores.create("map", schema={"type": "object", "properties": {"places": both, "plain": {"type": "object"}}})
    value = {"places": {"bar": {}, "room1": {}, "room0": {}, "n": 1}, "plain": {"a": {}}}
    filled = shop.scope(user_id="u1").set_content("map", value)
    assert filled["places"] == {
        "bar": {"open": True},
        "room1": {"beds": 2},
        "room0": {"open": True, "beds": 2},
        "n": 1,
    }
    assert filled["plain"] == {"a": {}}


def test_defaults_in_maps_take_what_matching_takes() -> None:
    """However many patterns there are, each is read once; and what is known of names does not grow without an end."""
    inner = {"type": "object", "properties": {"x": {"default": 1}}}
    patterns = {f"^k{number}_[a-z]{{1,3}}$": inner for number in range(300)}
    schema = Schema({"type": "object", "patternProperties": patterns}, strict=False)
    value = {f"k{number}_ab": dict[str, Any]() for number in range(300)}
    assert schema.fill_defaults(value) == {name: {"x": 1} for name in value}
    started = time.thread_time()
    schema.fill_defaults(value)
    assert time.thread_time() - started < 1
    many = Schema({"patternProperties": {f"k{number:02}": inner for number in range(12)}}, strict=False)
    for first in range(0, 4096, 512):
        names = [
            "".join(f"k{bit:02}" for bit in range(12) if number >> bit & 1) for number in range(first, first + 512)
        ]
        assert many.fill_defaults({name: {} for name in names})[names[-1]] == {"x": 1}
    assert len(many._mergeable._inner) <= MAX_MEMO + 512


def test_what_is_stored_stays_readable_whatever_is_refused_by_now(memory: Memory) -> None:
    """Limits of patterns count where a schema is given."""
    slow = {"a": "(?i)" + "[ -\U0010ffff]" * 60, "b": r"\w" * 250}
    parts = {f"{name}{number}": {"pattern": one} for name, one in slow.items() for number in range(2)}
    heavy = {"type": "object", "properties": parts}
    with pytest.raises(Invalid, match="patterns of `schema` are too large"):
        Schema(heavy, strict=True)
    assert Schema(heavy, strict=True, stored=True).problems({}) == []
    with pytest.raises(Invalid, match="patterns of `schema` are too large"):
        memory.definitions.create("Heavy", schema=heavy)


def test_small_values_behind_large_ones_are_shown(memory: Memory) -> None:
    """C24: what is not checked does not count."""
    columns = {f"c{number}": {"type": "number", "multipleOf": 0.01} for number in range(80)}
    row = {"type": "object", "properties": columns}
    large = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    rows = [dict.fromkeys(columns, 1)] * 1000
    for number in range(12):
        define(memory, f"T{number}", large)
        memory.user("u1").records[f"t{number}"] = {"rows": rows}
    define(memory, "Zz", {"type": "object", "properties": {"name": {"type": "string"}}})
    memory.user("u1").records["zz"] = {"name": "Ada"}
    shown = memory.definitions.bind(owner="u1")
    assert shown.values["zz"] == {"name": "Ada"}
    withheld = [one for one in shown.bound.warnings if "cut" not in one.reason]
    assert 0 < len(withheld) < 12


def test_money_is_checked_however_much_of_it_there_is(memory: Memory) -> None:
    columns = {name: {"type": "number", "multipleOf": 0.01} for name in "abcdefghij"}
    define(
        memory,
        "Orders",
        {"type": "object", "properties": {"orders": {"items": {"type": "object", "properties": columns}}}},
    )
    orders = [dict.fromkeys(columns, number + 0.25) for number in range(400)]
    memory.user("u1").records["orders"] = {"orders": orders}
    assert memory.user("u1").records["orders"]["orders"] == orders


def test_a_lifetime_that_was_changed_before_it_was_noted_is_followed(memory: Memory, clock: FrozenClock) -> None:
    """C15: as definitions were stored that do not know what it was before."""
    made = define(memory, "Note", {"type": "object"}, ttl_seconds=60)
    memory.user("u1").records["note"] = {"n": 1}
    clock.advance(seconds=1)
    memory.definitions.update(made, ttl_seconds=3600)

    def unknown(space: Any) -> None:
        item = require_definition(space, made)
        DEFINITIONS.update(space, item, structs.replace(item.settings, former_ttls=None))

    engine_of(memory).write(memory._transport.principal, unknown)  # type: ignore[attr-defined]
    clock.advance(seconds=1)
    written = memory.user("u1").records.update("note", {"n": 2})
    assert written.expires_at is not None
    assert (written.expires_at - written.updated_at).total_seconds() == 3600


def test_what_breaks_is_counted_also_where_that_is_accepted(memory: Memory) -> None:
    """C24."""
    number = {"type": "object", "properties": {"n": {"type": "integer"}}}
    define(memory, "Profile", {"type": "object"})
    shop = memory.app("shop")
    for name, strict in (("strict", True), ("loose", False)):
        shop.stores.create(name, strict=strict)
    for user, n in (("u1", 1), ("u2", "x"), ("u3", "y")):
        memory.user(user).records["profile"] = {"n": n}
        shop.scope(user_id=user).set_contents({"strict": {"n": n}, "loose": {"n": n}})
    told = memory.definitions.update("profile", schema=number, accept_breaking=True).warnings or []
    assert [one[:35] for one in told] == ["2 of 3 stored records do not fit th"]
    (refusing,) = shop.stores.update("strict", schema=number, accept_breaking=True).warnings or []
    (keeping,) = shop.stores.update("loose", schema=number).warnings or []
    assert "stay as they are" in keeping, "it takes any object"
    assert "withheld" in refusing


def test_a_store_that_is_not_strict_takes_what_is_too_large_to_be_checked(memory: Memory) -> None:
    """C23: any object, with a warning."""
    shop = memory.app("shop")
    schema = {"type": "object", "properties": {"t": {"type": "string", "pattern": "[a-z]{1,200}[0-9]{1,800}x"}}}
    shop.stores.create("loose", schema=schema)
    shop.stores.create("strict", schema=schema, strict=True)
    here = shop.scope(user_id="u1")
    (told,) = here.write("loose", {"t": "x" * 300_000}).warnings or []
    assert "too large to be checked" in told.reason
    with pytest.raises(TooLarge):
        here.write("strict", {"t": "x" * 300_000})


@pytest.mark.parametrize("wrong", ["false", "[]", "0", '""'])
def test_an_invalid_description_creates_no_store(memory: Memory, wrong: str) -> None:
    """S2.14."""
    shop = memory.app("shop")
    with pytest.raises(Invalid, match="cart"):
        shop.stores.define(f"cart: {wrong}")
    assert shop.stores.list() == []
    assert [one.technical_name for one in shop.stores.define("cart:")] == ["cart"]
