"""Stores and definitions from files that are applied again and again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Conflict, Invalid
from memwell.records.apply import Applied
from memwell.surfaces.cli.main import app

from ..engines import Memory, located

STORES = """
cart: {access: session, retention: session only}
prefs:
  schema: {type: object, properties: {language: {type: string}}}
  retention: 2 weeks
  strict: true
"""
DEFINITIONS = """
customer_profile:
  schema: {type: object, properties: {name: {type: string}}}
  ttl_seconds: 90 days
notes: {scope: thread, name: Notes of a thread}
"""

pytestmark = pytest.mark.every_engine


def actions(applied: Applied) -> dict[str, tuple[str, list[str]]]:
    return {part.name: (part.action, part.changes) for part in applied.parts}


def test_stores_become_what_a_file_says(memory: Memory) -> None:
    """S2.12–S2.14: what is missing is created, what differs changed, the rest stays; a dry run only reports that."""
    shop = memory.app("shop")
    shop.stores.create("old")
    tried = shop.stores.apply(STORES, dry_run=True)
    assert (actions(tried), tried.others) == ({"cart": ("create", []), "prefs": ("create", [])}, ["old"])
    assert [one.technical_name for one in shop.stores.list()] == ["old"], "nothing was done"
    assert actions(shop.stores.apply(STORES)) == actions(tried)
    assert actions(shop.stores.apply(STORES)) == {"cart": ("reuse", []), "prefs": ("reuse", [])}
    changed = STORES.replace("2 weeks", "for good").replace("  strict: true", "  description: What people like")
    expected = {"cart": ("reuse", []), "prefs": ("change", ["description", "retention", "strict"])}
    assert actions(shop.stores.apply(changed, dry_run=True)) == actions(shop.stores.apply(changed)) == expected
    prefs = shop.stores.get("prefs")
    assert (prefs.retention, prefs.strict, prefs.description) == ("none", False, "What people like")
    shop.stores.apply({"prefs": {}})
    prefs = shop.stores.get("prefs")
    assert (prefs.retention, prefs.schema, prefs.description) == ("1_month", {}, None), "omitted settings have defaults"


def test_a_file_is_applied_as_a_whole_or_not_at_all(memory: Memory) -> None:
    shop = memory.app("shop")
    shop.stores.apply(STORES)
    shop.scope(user_id="alice").set_content("prefs", {"language": "pt"})
    narrower = "new: {}\nprefs: {strict: true, schema: {type: object, properties: {language: {type: integer}}}}"
    wrong = [
        (narrower, Conflict, "The store 'prefs': 1 of 1 stored records would not fit", "stores.prefs"),
        ("new: {}\ncart: {access: user}", Conflict, "another access and retention|another access", "stores.cart"),
        ("new: {}\nprefs: {retntion: 1 day}", Invalid, "retntion", "stores.prefs"),
        ("new: {}\nprefs: {retention: soon}", Invalid, "`retention` cannot be 'soon'", None),
        ("- prefs", Invalid, "object of settings by name", "stores"),
    ]
    for text, error, message, field in wrong:
        for dry_run in (True, False):
            with pytest.raises(error, match=message) as refused:
                shop.stores.apply(text, dry_run=dry_run)
            assert field is None or refused.value.details["field"] == field
    assert [one.technical_name for one in shop.stores.list()] == ["cart", "prefs"]
    (_, part) = shop.stores.apply(narrower, accept_breaking=True).parts
    assert "1 of 1 stored records do not fit" in (part.warnings or [""])[0]


def test_definitions_become_what_a_file_says(memory: Memory) -> None:
    """S3.2–S3.8."""
    memory.definitions.create("Old")
    tried = memory.definitions.apply(DEFINITIONS, dry_run=True)
    both: dict[str, tuple[str, list[str]]] = {"customer_profile": ("create", []), "notes": ("create", [])}
    assert (actions(tried), tried.others, memory.definitions.list().total) == (both, ["old"], 1)
    assert actions(memory.definitions.apply(DEFINITIONS)) == both
    assert {part.action for part in memory.definitions.apply(DEFINITIONS).parts} == {"reuse"}
    assert [memory.definitions.get(slug).name for slug in both] == ["Customer profile", "Notes of a thread"]
    memory.definitions.update("customer_profile", name="Profile of a customer")
    changed = memory.definitions.apply("customer_profile: {update_mode: merge}")
    assert actions(changed) == {"customer_profile": ("change", ["schema", "ttl_seconds", "update_mode"])}
    found = memory.definitions.get("customer_profile")
    assert (found.name, found.ttl_seconds, found.update_mode) == ("Profile of a customer", None, "merge")
    for text, error, message in (
        ("notes: {scope: run}", Conflict, "The definition 'notes': it exists with another scope"),
        ("notes: {slug: other}", Invalid, "another `slug`"),
        ("notes: 1", Invalid, "The definition 'notes'"),
        ("No Slug: {}", Invalid, "lowercase letters"),
    ):
        with pytest.raises(error, match=message):
            memory.definitions.apply(text)


def test_files_are_applied_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "stores.yaml").write_text(STORES, encoding="utf-8")
    (tmp_path / "definitions.yaml").write_text(DEFINITIONS, encoding="utf-8")
    home = ["--home", located(tmp_path / "home")]
    for command in (
        ["store", "apply", "shop", f"@{tmp_path / 'stores.yaml'}"],
        ["definition", "apply", f"@{tmp_path / 'definitions.yaml'}"],
    ):
        for more, expected in ((["--dry-run"], "create"), ([], "create"), (["--dry-run"], "reuse")):
            result = CliRunner().invoke(app, [*home, *command, *more])
            assert (result.exit_code, expected in result.stdout) == (0, True), result.output
            printed = CliRunner().invoke(app, [*home, *command, "--dry-run", "--json"])
            parts = msgspec.json.decode(printed.stdout)["parts"]
            assert {part["action"] for part in parts} == {"create" if more and expected == "create" else "reuse"}
