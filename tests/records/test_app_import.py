"""Importing an app: into one that is there, a second time, from a wrapped document, and with errors that say which part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict, Invalid, function
from memwell.workflows.app_transfer import ImportedApp

from ..cases import cases
from ..engines import Memory

QUOTED = """\
name: quoted
defs:
  say:
    kind: task
    action: send_text_message
    inputs: {text: "=EXPRESSION"}
flow:
  - do: say
"""

function("reply")(lambda message: message)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "home", worker=False) as opened:
        yield opened


def acted(made: ImportedApp) -> dict[tuple[str, str], tuple[str, str | None]]:
    return {(part.what, part.name): (part.action, part.reason) for part in made.parts}


# -- into an app that is there -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_app_that_nothing_answers_for_gets_the_function(memory: Memory, dry_run: bool) -> None:
    """And a description if it has none; both are told, and the second time there is nothing to tell."""
    shop = memory.app("shop")
    shop.stores.create("other")
    document = {"function": "reply", "description": "An online shop", "max_stores": 20, "stores": {"cart": {}}}
    told = acted(shop.import_document(document, dry_run=dry_run))
    assert told["app", "shop"] == ("change", "the import sets `max_stores`, `function`, `description`")
    info = shop.info()
    if dry_run:
        assert (info.function, info.description, info.max_stores) == (None, None, 15)
    else:
        assert (info.function, info.description, info.max_stores) == ("reply", "An online shop", 20)
        assert acted(shop.import_document(document)) == {
            ("store", "cart"): ("reuse", None),
            ("app", "shop"): ("reuse", None),
        }
        assert shop.info() == info, "nothing was changed, not even when it was"


def test_an_import_keeps_existing_settings_of_the_app(memory: Memory) -> None:
    shop = memory.app("shop")
    shop.configure(description="Mine", function="reply", max_stores=18)
    told = shop.import_document({"function": "reply", "description": "Theirs", "max_stores": 16})
    assert acted(told) == {("app", "shop"): ("reuse", None)}
    assert (shop.info().description, shop.info().max_stores) == ("Mine", 18)


def test_a_workflow_that_answers_stands_in_the_way_of_a_function(memory: Memory) -> None:
    workflow = memory.workflows.create({"name": "w", "steps": [{"step_type": "display_result"}]})
    memory.app("shop").configure(workflow=workflow.id)
    with pytest.raises(Conflict, match="another workflow or function answers"):
        memory.app("shop").import_document({"function": "reply"})
    assert memory.app("shop").info().function is None


def test_a_document_that_says_nothing_of_who_answers_leaves_that_alone(memory: Memory) -> None:
    memory.app("shop").configure(function="reply")
    told = acted(memory.app("shop").import_document({"stores": {"cart": {}}}))
    assert told == {("store", "cart"): ("create", None), ("app", "shop"): ("reuse", None)}
    assert memory.app("shop").info().function == "reply"


# -- a second time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "Prof B"},
        {"name": "Prof B", "slug": "prof_b"},
        {"name": "Prof B", "slug": "prof_b", "schema": {}},
        {"name": "  Prof B "},
        {"name": "Profil éthéré", "scope": "run", "ttl_seconds": 60},
    ],
)
def test_a_definition_written_by_hand_is_known_again(memory: Memory, definition: dict[str, Any]) -> None:
    document = {"definitions": {"p": definition}}
    first = memory.app("shop").import_document(document)
    again = memory.app("shop").import_document(document)
    name = definition["name"].strip()
    assert acted(first)["definition", name] == ("create", None)
    assert acted(again)["definition", name] == ("reuse", None)
    assert first.ids == again.ids
    assert memory.definitions.list().total == 1


def test_the_answer_of_an_export_is_imported_as_it_stands(memory: Memory) -> None:
    memory.app("shop").stores.create("cart")
    answer = {"document": memory.app("shop").export()}
    assert acted(memory.app("copy").import_document(answer))["store", "cart"] == ("create", None)
    others: list[dict[str, Any]] = [{"document": {"document": {}}}, {"document": [1]}, {**answer, "stores": {}}]
    for wrong in others:
        with pytest.raises(Invalid, match="not an exported app"):
            memory.app("wrong").import_document(wrong)


def test_what_was_exported_is_a_copy(memory: Memory) -> None:
    """Whoever edits it changes no store."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    memory.app("shop").stores.create("cart", schema=schema, strict=True, access="application")
    memory.app("shop").export()["stores"]["cart"]["schema"]["properties"]["n"]["type"] = "string"
    assert memory.app("shop").export()["stores"]["cart"]["schema"] == schema
    memory.app("shop").scope().set_content("cart", {"n": 1})


# -- what is wrong -------------------------------------------------------------------------------------------------------


@cases(
    ("document", "part"),
    [
        ({"definitions": {"p": {"name": "Fine"}, "q": {"name": 5}}}, "definitions.q"),
        ({"definitions": {"p": {"name": "Fine"}, "q": {"name": "Q", "slug": "Not A Slug"}}}, "definitions.q"),
        ({"definitions": {"q": {"name": "Q", "schema": {"$ref": "http://example.com/x"}}}}, "definitions.q"),
        ({"definitions": {"q": {"name": "顧客"}}}, "definitions.q"),
        ({"memory_banks": {"b": {"name": "b", "type": "wrong"}}}, "memory_banks.b"),
        ({"memory_banks": {"b": {"name": "b", "type": "general", "max_turns": -1}}}, "memory_banks.b"),
        ({"stores": {"good": {}, "cart": {"schema": {"type": "nonsense"}}}}, "stores.cart"),
        ({"stores": {"good": {}, "cart": {"schema": {"$ref": "http://example.com/x"}}}}, "stores.cart"),
    ],
)
@cases("dry_run", [False, True])
def test_an_error_says_which_part_it_is_about(
    memory: Memory, document: dict[str, Any], part: str, dry_run: bool
) -> None:
    with pytest.raises(Invalid, match=f"`{part}` cannot be ") as refused:
        memory.app("shop").import_document(document, dry_run=dry_run)
    assert refused.value.details["field"] == part
    assert memory.call("apps.list", {}).apps == []


def test_duplicate_definitions_are_reported(memory: Memory) -> None:
    document = {"definitions": {"p": {"name": "Same", "slug": "a"}, "q": {"name": "Same", "slug": "b"}}}
    with pytest.raises(Conflict, match=r"`definitions.q` cannot be created: .* name 'Same'"):
        memory.app("shop").import_document(document)
    told = memory.app("shop").import_document(document, dry_run=True)
    assert [(part.action, "definitions.q" in (part.reason or "")) for part in told.parts[-1:]] == [("conflict", True)]


@pytest.mark.parametrize("document", [[1], 5, None])
def test_a_document_is_a_text_or_an_object(memory: Memory, document: Any) -> None:
    with pytest.raises(Invalid, match="document"):
        memory.call("apps.import", {"app": "shop", "document": document})


# -- what an expression names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "$context.memory.quoted_one.x",
        "$context.memory.`quoted_one`.x",
        "$context . memory . `quoted_one`",
        "$context.memory.'quoted_one'",
        "$lookup($context.memory, 'quoted_one')",
    ],
)
def test_a_definition_that_an_expression_names_comes_along(memory: Memory, expression: str) -> None:
    memory.definitions.create("Quoted One")
    memory.definitions.create("Another")
    workflow = memory.workflows.create(QUOTED.replace("EXPRESSION", expression))
    memory.app("shop").configure(workflow=workflow.id)
    exported = memory.app("shop").export()["definitions"]
    assert [one["slug"] for one in exported.values()] == ["quoted_one"]


# -- an app without a function -------------------------------------------------------------------------------------------


def test_an_empty_name_is_no_function(memory: Memory) -> None:
    shop = memory.app("shop")
    for field in ("function", "workflow"):
        with pytest.raises(Invalid, match="null removes it"):
            memory.call("apps.configure", {"app": "shop", field: ""})
    shop.configure(function="reply")
    memory.call("apps.configure", {"app": "shop", "function": None})
    assert shop.info().function is None


def test_the_bank_of_a_tasks_history_is_a_reference(memory: Memory) -> None:
    """B3.17."""
    history = {"bank": "b1", "key": "=$context.owner"}
    task = {"kind": "task", "action": "ai_generate_reply", "inputs": {"input_mode": "history"}}
    task["settings"] = {"history": history}
    document = {
        "memory_banks": {"b1": {"name": "Chats", "type": "conversation"}},
        "workflow": {"name": "t", "defs": {"a": task}, "flow": [{"do": "a"}]},
    }
    made = memory.app("shop").import_document(document)
    again = memory.app("shop").export()
    assert again["workflow"]["defs"]["a"]["settings"]["history"]["bank"] == made.ids["b1"]
    assert list(again["memory_banks"]) == [made.ids["b1"]]


def test_what_is_spelled_like_a_name_of_the_document_is_no_reference(memory: Memory) -> None:
    """B3.17: ids are remapped where something is referred to. A name, a text and a key that are spelled alike stay."""
    add = {"step_type": "add_memory", "memory_bank_id": "notes", "key": "notes"}
    steps = [{"step_type": "text", "template": "notes", "steps": [add]}]
    document = {"memory_banks": {"notes": {"name": "notes"}}, "workflow": {"name": "notes", "steps": steps}}
    made = memory.app("shop").import_document(document)
    workflow = memory.app("shop").export()["workflow"]
    (text,) = workflow["steps"]
    (added,) = text["steps"]
    assert (workflow["name"], text["template"], added["key"]) == ("notes", "notes", "notes")
    assert added["memory_bank_id"] == made.ids["notes"] != "notes"
