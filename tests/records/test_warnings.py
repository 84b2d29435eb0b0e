"""Warnings about likely mistakes in schemas, and errors that name the wrong item and the valid ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memwell import Invalid, NotFound
from memwell.records.schema import MAX_DOUBTS, list_doubts
from memwell.registry import OPERATIONS
from memwell.surfaces.mcp.tools import build_tools
from memwell.surfaces.rest.openapi import build_document

from ..cases import cases
from ..engines import Memory
from ..live import live

NAMED = {"type": "object", "properties": {"name": {"type": "string"}}}
OPEN = "does not name any `properties`"


# -- schemas -------------------------------------------------------------------------------------------------------------


@cases(
    ("schema", "told"),
    [
        ({"type": "object", "propertys": {"a": {}}}, ["`propertys`, an unknown keyword", "mean `properties`", OPEN]),
        ({"preferred_name": "string"}, ["`preferred_name`", OPEN]),
        ({"properties": {"a": {"type": "string", "require": True}}}, ["`schema.properties.a` has `require`"]),
        ({"type": "object", "description": "Anything."}, [OPEN]),
    ],
)
def test_a_schema_that_is_hardly_meant_is_doubted(schema: dict[str, Any], told: list[str]) -> None:
    found = "\n".join(list_doubts(schema, strict=True))
    assert all(word in found for word in told)


@cases(
    "schema",
    [
        {},
        NAMED,
        {"type": "object", "additionalProperties": True},
        {"$ref": "#/$defs/a", "$defs": {"a": NAMED}, "$comment": "…"},
        {"properties": {"a": {"x-order": 1, "readOnly": True, "examples": [1], "maxLength": 3}}},
        {"properties": {"propertys": {"type": "string"}, "a": {"enum": [{"odd": 1}], "default": {"odd": 1}}}},
    ],
)
def test_what_is_said_well_is_not_doubted(schema: dict[str, Any]) -> None:
    assert [one for one in list_doubts(schema, strict=bool(schema)) if schema] == []


def test_warnings_are_limited() -> None:
    assert len(list_doubts({f"odd{n}": 1 for n in range(99)} | NAMED, strict=True)) == MAX_DOUBTS


def test_an_open_schema_is_no_doubt_where_nothing_is_refused() -> None:
    assert list_doubts({"type": "object"}, strict=False) == []


@pytest.mark.parametrize("kind", ["a store", "a store, changed", "a definition", "a definition, changed"])
def test_doubts_come_with_what_was_made_of_a_schema(memory: Memory, kind: str) -> None:
    odd = {"type": "object", "properties": {"a": {}}, "require": ["a"]}
    stores = memory.app("shop").stores
    before = NAMED if "changed" in kind else odd
    if "store" in kind:
        made = stores.create("prefs", access="user", schema=before)
        told = (stores.update("prefs", schema=odd) if "changed" in kind else made).warnings
    else:
        defined = memory.definitions.create("Profile", schema=before)
        told = (memory.definitions.update("profile", schema=odd) if "changed" in kind else defined).warnings
    assert [one for one in told or [] if "did you mean `required`" in one]
    assert memory.definitions.create("No schema at all").warnings is None


@cases(
    "work",
    [
        lambda memory: memory.app("shop").stores.create("prefs", access="user", schema={"properties": {"a": str}}),
        lambda memory: memory.definitions.create("Profile", schema={"properties": {"a": str}}),
        lambda memory: memory.app("shop").stores.define([{"technical_name": "x"}]),
        lambda memory: memory.app("shop").stores.define(5),
    ],
)
def test_invalid_json_is_refused_in_a_sentence(memory: Memory, work: Callable[[Memory], Any]) -> None:
    with pytest.raises(Invalid, match=r"must be JSON|must be an object"):
        work(memory)


# -- which of several ----------------------------------------------------------------------------------------------------


def test_which_of_several_is_wrong_is_said(memory: Memory) -> None:
    shop = memory.app("shop")
    shop.stores.define({name: {"access": "user", "schema": NAMED, "strict": True} for name in ("one", "two")})
    with pytest.raises(Invalid, match=r"`contents.two`: .*does not fit") as error:
        shop.scope(user_id="u1").set_contents({"one": {"name": "A"}, "two": {"name": 1}})
    assert error.value.details["store"] == "two"
    assert error.value.details["problems"][0]["path"] == "name"
    assert shop.scope(user_id="u1").get_content("one") is None
    memory.definitions.create("Profile", schema=NAMED)
    with pytest.raises(Invalid, match=r"`records.profile`: ") as error:
        memory.user("u1").records.set_all({"other": {}, "profile": {"name": 1}})
    assert error.value.details["record"] == "profile"


def test_all_that_is_unknown_is_named_with_what_there_is(memory: Memory) -> None:
    memory.definitions.create("Profile", schema=NAMED)
    view = memory.definitions.bind(["profile"], "u1")
    with pytest.raises(Invalid) as error:
        view.update({"profil": {}, "other": {}})
    assert '"profil"' in error.value.message
    assert '"other"' in error.value.message
    assert "Known here: profile." in error.value.message
    memory.app("shop").stores.create("userPrefs", access="user")
    with pytest.raises(NotFound, match=r"'userprefs'\. Its stores are: userPrefs\."):
        memory.app("shop").scope(user_id="u1").get_content("userprefs")
    with pytest.raises(NotFound, match="'profil'"):
        memory.user("u1").records.read("profil")


def test_a_user_key_does_not_reveal_other_users(tmp_path: Path) -> None:
    with live(tmp_path / "home") as server, server.memory() as memory:
        memory.app("shop").stores.create("userPrefs", access="user")
        key = memory.keys.create(role="agent", user="u1").secret
        with server.memory(key) as held, pytest.raises(NotFound) as error:
            held.app("shop").scope(user_id="u1").get_content("userprefs")
        assert "userPrefs" not in error.value.message


def test_a_user_key_supplies_the_owner(tmp_path: Path) -> None:
    with live(tmp_path / "home") as server, server.memory() as memory:
        memory.definitions.create("Profile", schema=NAMED)
        key = memory.keys.create(role="agent", user="u1").secret
        with server.memory(key) as held:
            held.definitions.bind(["profile"]).update({"profile": {"name": "Ada"}})
        assert memory.definitions.bind(["profile"], "u1").values == {"profile": {"name": "Ada"}}
        with pytest.raises(Invalid, match="An owner id is required"):
            memory.definitions.bind(["profile"])


@pytest.mark.parametrize("path", ["recentOrders[0]", "a..b", "", ".a", "a."])
def test_a_path_that_can_lead_nowhere_is_refused(memory: Memory, path: str) -> None:
    records = memory.user("u1").records
    records["profile"] = {"a": {"b": 1}}
    with pytest.raises(Invalid, match="takes paths of fields"):
        records.get("profile", projections={path: 1})
    if path:
        with pytest.raises(Invalid, match="takes paths of fields"):
            records.update("profile", {}, unset=[path])
    assert records.read("profile").version == 1
    assert records.get("profile", projections={"a.c": 1}) == {"a": {}}


# -- over HTTP -----------------------------------------------------------------------------------------------------------


def test_fields_are_not_looked_for_where_they_do_not_count(tmp_path: Path) -> None:
    with live(tmp_path / "home") as server, server.client() as client:
        at = "/v1/users/alice/records/profile"
        odd = client.put(f"{at}?ttl_s=5", json={"value": {"a": 1}})
        assert (odd.status_code, "as JSON in the body" in odd.text) == (400, True)
        assert client.get(at).status_code == 404
        assert client.put(at, json={"value": {"a": 1}}).status_code == 200
        odd = client.request("DELETE", at, json={"if_match": "*"})
        assert (odd.status_code, "query string" in odd.text) == (400, True)
        assert client.request("DELETE", at, content=b"{}").status_code == 200


def test_values_are_as_deep_over_http_as_elsewhere(tmp_path: Path) -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(levels - 1):
            value = {"a": value}
        return value

    with live(tmp_path / "home") as server, server.memory() as memory:
        memory.user("alice").records["deep"] = nested(64)
        assert memory.user("alice").records["deep"] == nested(64)
        with pytest.raises(Invalid, match="deeper than 64 levels"):
            memory.user("alice").records["deep"] = nested(70)
        with pytest.raises(Invalid, match="deeper than 128 levels"):
            memory.user("alice").records["deep"] = nested(200)
        schema = nested(1)
        for _ in range(20):
            schema = {"type": "object", "properties": {"a": schema}}
        assert memory.definitions.create("Deep", schema=schema).schema == schema
    tool = build_tools("all")["users_set_record"]
    assert tool.build_request({"user": "alice", "record": "deep", "value": nested(64)}, None)[1]["value"] == nested(64)


def test_schemas_for_others_look_neither_ahead_nor_back() -> None:
    """Many who read them know no such patterns."""
    shown = str(build_document(OPERATIONS.values())) + str([tool.input_schema for tool in build_tools("all").values()])
    assert "A-Za-z0-9_]+$" in shown
    assert "(?" not in shown


def test_a_page_is_gone_through_as_a_list(memory: Memory) -> None:
    for name in ("First Thing", "Second Thing"):
        memory.definitions.create(name)
        memory.banks.create(name)
    assert [one.name for one in memory.definitions.list(sort="name", order="asc")] == ["First Thing", "Second Thing"]
    assert len(memory.definitions.list(limit=1)) == 1
    assert [one.name for one in memory.banks.list(sort="name", order="asc")] == ["First Thing", "Second Thing"]
