"""Lifetimes mean the same wherever they are given: null, 0 and `none` are for good, and `2 weeks` is a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Invalid
from memwell.clock import to_datetime
from memwell.registry import require_operation
from memwell.surfaces.cli.main import app
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory, located
from ..live import live
from .test_mcp import call, in_process

Create = Callable[[str, Any], Any]
FOR_GOOD = [None, 0, "0", "none", "for good"]


def by_tool(memory: Memory, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    work = call(name, arguments)
    made = in_process(lambda operation, data: memory.call(operation.name, data), work, selection="all")
    assert not made.is_error, made.structured_content
    found: dict[str, Any] = made.structured_content
    return found


def ways_to_create_a_bank(memory: Memory) -> dict[str, Create]:
    """Ways to create a bank with a retention. Each returns the retention of the bank in days."""

    def by_document(name: str, retention: Any) -> Any:
        document = {
            "name": name,
            "memory_banks": {name: {"type": "general", "retention_days": retention}},
            "steps": [{"step_type": "add_memory", "memory_bank_id": name, "key": "k"}],
        }
        assert memory.workflows.validate(document).problems == []
        memory.workflows.run(document, "hello")
        return retention_of(name)

    def by_import(name: str, retention: Any) -> Any:
        banks = {name: {"name": name, "type": "general", "retention_days": retention}}
        memory.app("imported").import_document({"memory_banks": banks})
        return retention_of(name)

    def retention_of(name: str) -> Any:
        (bank,) = [one for one in memory.banks.list(limit=100) if one.name == name]
        return bank.retention_days

    def by_mcp(name: str, retention: Any) -> Any:
        return by_tool(memory, "banks_create", {"name": name, "retention_days": retention}).get("retention_days")

    return {
        "sdk": lambda name, retention: memory.banks.create(name, retention_days=retention).info().retention_days,
        "mcp": by_mcp,
        "document": by_document,
        "import": by_import,
    }


def test_a_bank_is_kept_for_good_whoever_creates_it(memory: Memory) -> None:
    wanted: list[tuple[Any, int | None]] = [*((one, None) for one in FOR_GOOD), ("2 weeks", 14), ("1 month", 30)]
    wrong = [
        (how, retention, days)
        for how, create in ways_to_create_a_bank(memory).items()
        for number, (retention, expected) in enumerate(wanted)
        if (days := create(f"{how}{number}", retention)) != expected
    ]
    assert wrong == []


def test_a_tool_clears_what_null_clears(memory: Memory) -> None:
    """Null differs from an omitted field in changes, and models often send null for what they omit."""
    bank = memory.banks.create("notes", retention_days=7, description="d", max_turns=5)
    changed = by_tool(memory, "banks_update", {"bank": bank.id, "retention_days": None, "name": None})
    assert (changed.get("retention_days"), changed["max_turns"], changed["name"]) == (None, 5, "notes")
    changed = by_tool(memory, "banks_update", {"bank": bank.id, "description": None, "max_turns": None})
    assert {"description", "max_turns"}.isdisjoint(changed)
    memory.app("shop").configure(description="a shop")
    assert "description" not in by_tool(memory, "apps_configure", {"app": "shop", "description": None})
    assert by_tool(memory, "banks_list", {"type": None, "limit": None})["total"] == 1


@pytest.mark.every_engine
def test_what_is_kept_for_good_stays(memory: Memory, clock: FrozenClock) -> None:
    """Banks, stores, definitions and records alike."""
    shop, me = memory.app("shop"), memory.user("alice")
    banks = [
        memory.banks.create(f"b{number}", type="general", retention_days=one) for number, one in enumerate(FOR_GOOD)
    ]
    for number, one in enumerate(FOR_GOOD):
        store, slug = f"s{number}", f"d{number}"
        assert shop.stores.create(store, retention=one).retention == "none"
        assert memory.definitions.create(slug, ttl_seconds=one).ttl_seconds is None
        shop.scope(user_id="u").set_content(store, {"n": number})
        me.records.set(slug, {"n": number}, ttl_s=60)
        assert me.records.update(slug, {"m": 1}).expires_at is not None
        assert me.records.update(slug, {"m": 2}, ttl_s=one).expires_at is None
        banks[number].add("hello", key="k")
    clock.advance(days=5000)
    for number, bank in enumerate(banks):
        assert [entry.content for entry in bank.load("k").entries or ()] == ["hello"]
        assert shop.scope(user_id="u").get_content(f"s{number}") == {"n": number}
        assert me.records[f"d{number}"] == {"n": number, "m": 2}


def test_lifetimes_are_times_too(memory: Memory, clock: FrozenClock) -> None:
    shop, me = memory.app("shop"), memory.user("alice")
    shop.stores.create("cart", access="session", retention="session only")
    assert shop.stores.get("cart").retention == "session"
    assert shop.stores.create("here", retention="two weeks").retention == "2_weeks"
    assert shop.stores.update("here", retention="1 year").retention == "1_year"
    assert shop.stores.create("short", retention="12 hours").retention == "12_hours"
    (made,) = shop.stores.define("there: {retention: 3}")
    assert made.retention == "3_days"
    assert memory.definitions.create("Profile", ttl_seconds="1 month").ttl_seconds == 30 * 86_400
    assert memory.definitions.update("profile", ttl_seconds="2 weeks").ttl_seconds == 14 * 86_400
    assert me.records.set("otp", {"n": 1}, ttl_s="5 minutes").expires_at == to_datetime(clock.now()) + timedelta(
        minutes=5
    )
    shop.scope(user_id="u").set_content("short", {"n": 1})
    clock.advance(hours=12)
    assert shop.scope(user_id="u").get_content("short") is None


def test_a_store_that_is_kept_for_good_from_now_on(memory: Memory, clock: FrozenClock) -> None:
    """Like any longer retention, it counts from the next write on."""
    shop = memory.app("shop")
    shop.stores.create("cart", access="session", retention="session")
    shop.stores.create("notes", retention="1_day")
    here = shop.scope(user_id="u", session_id="s1")
    for store in ("cart", "notes"):
        here.set_content(store, {"n": 1})
        assert shop.stores.update(store, retention=None).retention == "none"
    clock.advance(days=1)
    assert (here.get_content("cart"), here.get_content("notes")) == ({"n": 1}, None)
    for store in ("cart", "notes"):
        here.set_content(store, {"n": 2})
    shop.sessions.end("s1")
    clock.advance(days=5000)
    assert [here.get_content(store) for store in ("cart", "notes")] == [{"n": 2}, {"n": 2}]
    assert shop.stores.update("notes", retention="1_day").retention == "1_day"
    assert here.get_content("notes") is None


@cases(
    ("operation", "field", "value", "reason"),
    [
        ("banks.create", "retention_days", "session", "only memory stores"),
        ("banks.create", "retention_days", "12 hours", "whole number of days"),
        ("banks.create", "retention_days", "soon", "cannot be 'soon'"),
        ("banks.create", "retention_days", -1, "cannot be -1"),
        ("definitions.create", "ttl_seconds", "session", "only memory stores"),
        ("definitions.create", "ttl_seconds", "101 years", "at most"),
        ("users.set_record", "ttl_s", "soon", "cannot be 'soon'"),
        ("stores.create", "retention", "11 years", "at most 3650 days"),
    ],
)
def test_other_lifetimes_are_refused(memory: Memory, operation: str, field: str, value: Any, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        memory.call(operation, {**require_operation(operation).example.request, field: value})


def test_a_document_says_where_a_lifetime_is_wrong(memory: Memory) -> None:
    document = {"name": "w", "memory_banks": {"b": {"retention_days": "soon"}}, "steps": []}
    problems = memory.workflows.validate(document).problems
    assert [one["path"] for one in problems if "soon" in one["reason"]] == ["memory_banks.b.retention_days"]


def test_the_command_line_takes_lifetimes_and_shows_them(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["--home", located(tmp_path), *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    created = msgspec.json.decode(run("bank", "create", "notes", "--retention-days", "none", "--json"))
    assert created["retention_days"] is None
    shown = run("bank", "get", created["id"])
    assert ("for good" in shown, "no limit" in shown, "null" in shown) == (True, True, False)
    assert "for good" in run("bank", "list")
    assert "14 days" in run("bank", "update", created["id"], "--retention-days", "2 weeks")
    assert "for good" in run("bank", "update", created["id"], "--retention-days", "")
    run("store", "create", "shop", "notes", "--retention", "none")
    assert "30 minutes" in run("app", "configure", "shop", "--idle-seconds", "30 minutes")
    assert "no limit" in run("app", "configure", "shop", "--idle-seconds", "none")
    assert "for good" in run("store", "list", "shop")
    run("definition", "create", "Profile", "--ttl-seconds", "1 month")
    run("definition", "create", "Other")
    assert [
        run("definition", "list", "--ttl-seconds", one).count("global") for one in ("none", "30 days", "2 weeks")
    ] == [1, 1, 0]
    made = msgspec.json.decode(run("key", "create", "--expires-in-s", "2 weeks", "--json"))
    lasts = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert lasts == timedelta(weeks=2)
    listed = run("definition", "list")
    assert "30 days" in listed
    assert "for good" in listed
    run("user", "set-record", "alice", "otp", "--value", "{}", "--ttl-s", "none")


def test_over_http_null_and_texts_arrive(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.client() as client, server.memory() as memory:
        made = client.post("/v1/memory_banks", json={"name": "chats", "retention_days": 0}).json()
        assert made.get("retention_days") is None
        where = f"/v1/memory_banks/{made['id']}"
        assert client.put(where, json={"retention_days": "2 weeks"}).json()["retention_days"] == 14
        memory.user("alice").records.set("otp", {"n": 1}, ttl_s=60)
        assert memory.user("alice").records.set("otp", {"n": 2}, ttl_s=None).expires_at is None
        store = {"technical_name": "notes", "retention": None}
        assert client.post("/v1/apps/shop/stores", json=store).json()["retention"] == "none"


def test_what_is_kept_for_good_is_said_everywhere(memory: Memory) -> None:
    """A lifetime is never missing in an answer: null means for good."""
    bank = memory.banks.create("notes", retention_days="none")
    for tool, arguments in (("banks_get", {"bank": bank.id}), ("banks_update", {"bank": bank.id, "max_turns": 5})):
        assert by_tool(memory, tool, arguments)["retention_days"] is None
    assert by_tool(memory, "definitions_create", {"name": "Profile"})["ttl_seconds"] is None
    assert [
        one["ttl_seconds"] for one in by_tool(memory, "definitions_list", {"ttl_seconds": "none"})["definitions"]
    ] == [None]
    assert by_tool(memory, "definitions_list", {"ttl_seconds": "2 weeks"})["definitions"] == []
    for number, lifetime in enumerate((*FOR_GOOD, "1 week")):
        expires_at = memory.keys.create(f"k{number}", expires_in_s=lifetime).expires_at
        assert (expires_at is None) is (lifetime in FOR_GOOD), lifetime


def test_an_exported_app_keeps_what_its_banks_keep(memory: Memory) -> None:
    bank = memory.banks.create("notes", type="general", retention_days=None)
    step = {"step_type": "add_memory", "memory_bank_id": bank.id, "key": "k"}
    workflow = memory.workflows.create({"name": "w", "steps": [step]})
    memory.app("shop").configure(workflow=workflow.id)
    (exported,) = memory.app("shop").export()["memory_banks"].values()
    assert exported["retention_days"] is None
