"""Apps as documents: exported without any data, looked at, and made again elsewhere (S2.39)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memwell import Conflict, Forbidden, Invalid, NotFound, function
from memwell.sdk._sync_apps import App
from memwell.workflows.app_transfer import ImportedApp

from ..cases import cases
from ..engines import Memory, two_tenants
from ..live import live

SCHEMA = {
    "type": "object",
    "required": ["userId"],
    "properties": {"userId": {"type": "string"}, "preferences": {"type": "object", "default": {}}},
}
STORES: dict[str, Any] = {
    "userPrefs": {
        "name": "Preferences",
        "description": "What somebody likes.",
        "schema": SCHEMA,
        "access": "user",
        "retention": "1_month",
        "strict": True,
    },
    "cart": {"access": "session", "retention": "session_only"},
    "featureFlags": {"access": "application", "retention": "2_weeks"},
}
SECRET = "zyxoqwvquill"
EVERYTHING = [
    ("app", "shop"),
    ("definition", "Customer Profile"),
    ("memory_bank", "chats"),
    ("store", "cart"),
    ("store", "featureFlags"),
    ("store", "userPrefs"),
    ("workflow", "answer"),
]

function("reply")(lambda message: message)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "here", worker=False) as memory:
        yield memory


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "there", worker=False) as memory:
        yield memory


@pytest.fixture
def shop(here: Memory) -> App:
    """A shop with stores, a workflow that names a bank by its id and a definition by its slug, and data in all of them."""
    return built(here)


def built(memory: Memory) -> App:
    shop = memory.app("shop")
    shop.stores.define(STORES)
    bank = memory.banks.create("chats", type="general", retention_days=7)
    memory.definitions.create("Customer Profile", schema={"type": "object"}, ttl_seconds=3600)
    shop.configure(description="An online shop", workflow=memory.workflows.create(answer(bank.id)).id)
    filled(memory)
    bank.add(f"said {SECRET}", key="alice")
    return shop


def answer(bank: str) -> dict[str, Any]:
    """Keep what was said in a bank, and answer with what is remembered."""
    said = "{{input}} to {{memory.customer_profile.name}} {{memory.userPrefs.userId}}"
    steps = [
        {"step_type": "text", "template": said},
        {"step_type": "add_memory", "memory_bank_id": bank, "key": "{{metadata.user_id}}"},
    ]
    return {"name": "answer", "steps": steps}


def filled(memory: Memory) -> None:
    scope = memory.app("shop").scope(user_id="alice", session_id="s1")
    scope.set_contents({"userPrefs": {"userId": SECRET}, "cart": {"n": SECRET}, "featureFlags": {"n": SECRET}})
    memory.app("shop").sessions.update("s1", {"word": SECRET}, user_id="alice")
    memory.definitions.bind(owner="alice").update({"customer_profile": {"name": SECRET}})


def acted(made: ImportedApp) -> dict[str, list[tuple[str, str]]]:
    """What was made, used again or refused."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in made.parts:
        found.setdefault(part.action, []).append((part.what, part.name))
    return {action: sorted(parts) for action, parts in found.items()}


def is_empty(memory: Memory) -> bool:
    return (
        memory.call("apps.list", {}).apps == []
        and memory.banks.list().total == 0
        and memory.definitions.list().total == 0
        and memory.workflows.list() == []
    )


# -- out -----------------------------------------------------------------------------------------------------------------


def test_an_app_is_exported_with_its_contracts(shop: App) -> None:
    """S2.39: schemas, access settings and retention policies of its stores, and what else they are."""
    document = shop.export()
    assert list(document["stores"]) == ["cart", "featureFlags", "userPrefs"]
    assert document["stores"]["userPrefs"] == STORES["userPrefs"]
    kept = {name: (one["access"], one["retention"]) for name, one in document["stores"].items()}
    assert kept == {
        "userPrefs": ("user", "1_month"),
        "cart": ("session", "session"),
        "featureFlags": ("application", "2_weeks"),
    }
    assert (document["app"], document["description"], document["max_stores"]) == ("shop", "An online shop", 15)
    assert [one["name"] for one in document["memory_banks"].values()] == ["chats"]
    assert [one["slug"] for one in document["definitions"].values()] == ["customer_profile"]
    assert document["workflow"]["name"] == "answer"


def test_no_data_is_exported(shop: App, tmp_path: Path) -> None:
    """S2.39: nothing of what is in stores, sessions, banks and definitions, over the SDK and over REST."""
    assert shop.scope(user_id="alice").get_content("userPrefs") == {"userId": SECRET, "preferences": {}}
    assert SECRET not in msgspec.json.encode(shop.export()).decode()
    with live(tmp_path / "served", worker=False) as server, server.memory() as memory, server.client() as client:
        built(memory)
        exported = client.get("/v1/apps/shop/export")
        assert "userPrefs" in exported.text
        for word in (SECRET, "alice", "s1"):
            assert word not in exported.text


def test_what_the_workflow_does_not_name_is_not_exported(here: Memory, shop: App) -> None:
    here.banks.create("elsewhere")
    here.definitions.create("Elsewhere")
    here.app("bank").stores.create("balances")
    document = shop.export()
    assert (len(document["memory_banks"]), len(document["definitions"])) == (1, 1)
    assert "balances" not in document["stores"]


def test_an_app_that_there_is_not_cannot_be_exported(here: Memory) -> None:
    with pytest.raises(NotFound):
        here.app("nowhere").export()


# -- in ------------------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_made_and_makes_nothing(shop: App, there: Memory) -> None:
    told = there.app("shop").import_document(shop.export(), dry_run=True)
    assert told.dry_run
    assert acted(told) == {"create": EVERYTHING}
    assert is_empty(there)


def test_an_app_is_made_elsewhere(shop: App, there: Memory) -> None:
    """S2.39: every setting of every store is the same, and no content is there."""
    made = there.app("shop").import_document(shop.export())
    assert acted(made) == {"create": EVERYTHING}
    copies = there.app("shop").stores.list()
    for original, copy in zip(shop.stores.list(), copies, strict=True):
        for name in ("technical_name", "name", "description", "schema", "access", "retention", "strict"):
            assert getattr(copy, name) == getattr(original, name)
    scope = there.app("shop").scope(user_id="alice", session_id="s1")
    for store in STORES:
        assert scope.get_content(store) is None
    assert scope.get_content("sessionMeta")["metadata"] == {}
    with pytest.raises(Invalid, match="userId"):
        scope.set_content("userPrefs", {"preferences": {}})
    assert there.app("shop").export()["stores"] == shop.export()["stores"]


def test_what_an_import_has_made_is_settled_as_it_was(shop: App, there: Memory, here: Memory) -> None:
    """B3.17: the bank and the definition that the workflow names come along with their settings, and its ids are the new ones."""
    there.app("shop").import_document(shop.export())
    (bank,) = there.banks.list().memory_banks
    assert (bank.name, bank.type, bank.retention_days) == ("chats", "general", 7)
    copied, original = there.definitions.get("customer_profile"), here.definitions.get("customer_profile")
    for name in ("name", "slug", "scope", "schema", "ttl_seconds", "update_mode", "secrets"):
        assert getattr(copied, name) == getattr(original, name)


def test_ids_in_the_workflow_become_those_of_the_new_place(shop: App, here: Memory, there: Memory) -> None:
    made = there.app("shop").import_document(shop.export())
    (old,), (new,) = here.banks.list().memory_banks, there.banks.list().memory_banks
    definitions = [memory.definitions.get("customer_profile").id for memory in (here, there)]
    assert made.ids == {old.id: new.id, definitions[0]: definitions[1]}
    workflow = there.app("shop").info().workflow
    assert workflow is not None
    assert there.workflows.get(workflow).document == answer(new.id)


def test_an_imported_app_answers(shop: App, there: Memory) -> None:
    """It writes to the bank of its own place, and reads its own stores and definitions."""
    there.app("shop").import_document(shop.export())
    there.definitions.bind(owner="bob").update({"customer_profile": {"name": "Bob"}})
    there.app("shop").scope(user_id="bob").set_content("userPrefs", {"userId": "u2"})
    done = there.app("shop").execute("Hello", "s9", {"user_id": "bob"}, user_id="bob")
    assert (done.status, done.output) == ("done", "Hello to Bob u2")
    (bank,) = there.banks.list().memory_banks
    entries = there.banks.open(bank.id).load("bob").entries or []
    assert [entry.content for entry in entries] == ["Hello to Bob u2"]


def test_a_definition_that_is_named_by_its_id_becomes_that_of_the_new_place(here: Memory, there: Memory) -> None:
    known = here.definitions.create("Customer Profile")

    def tell(definition: str) -> str:
        return definition

    function(tell)
    called = {"step_type": "function", "function": "tell", "arguments": {"definition": known.id}}
    here.app("shop").configure(workflow=here.workflows.create({"name": "tell", "steps": [called]}).id)
    there.app("shop").import_document(here.app("shop").export())
    done = there.app("shop").execute("Hello", "s1")
    assert done.output == there.definitions.get("customer_profile").id != known.id


def test_an_app_is_made_in_another_tenant(tmp_path: Path) -> None:
    """Ids of one tenant are nothing to the other, and nothing of its data comes along."""
    with two_tenants(tmp_path / "both") as (alpha, beta):
        exported = built(alpha).export()
        made = beta.app("shop").import_document(exported)
        assert acted(made) == {"create": EVERYTHING}
        assert set(made.ids.values()).isdisjoint(made.ids)
        assert beta.app("shop").scope(user_id="alice").get_content("userPrefs") is None
        beta.app("shop").delete()
        assert alpha.app("shop").scope(user_id="alice").get_content("userPrefs")["userId"] == SECRET


def test_the_same_again_makes_nothing_more(shop: App, there: Memory) -> None:
    document = shop.export()
    first = there.app("shop").import_document(document)
    there.app("shop").scope(user_id="bob").set_content("userPrefs", {"userId": "u2"})
    again = there.app("shop").import_document(document)
    assert acted(again) == {"reuse": EVERYTHING}
    assert again.ids == first.ids
    assert (there.banks.list().total, len(there.workflows.list())) == (1, 1)
    assert there.app("shop").scope(user_id="bob").get_content("userPrefs")["userId"] == "u2"


def test_an_app_is_copied_under_another_name(shop: App, here: Memory) -> None:
    """Beside the first one: the bank and the definition are shared, content is not."""
    copied = here.app("outlet")
    made = acted(copied.import_document(shop.export()))
    assert made["reuse"] == [("definition", "Customer Profile"), ("memory_bank", "chats")]
    assert ("app", "outlet") in made["create"]
    assert copied.scope(user_id="alice").get_content("userPrefs") is None
    assert copied.info().workflow != shop.info().workflow


def test_a_document_may_be_yaml(there: Memory) -> None:
    source = "stores:\n  cart: {access: session, retention: session_only}\nmax_stores: 20\n"
    assert acted(there.app("shop").import_document(source)) == {"create": [("app", "shop"), ("store", "cart")]}
    assert there.app("shop").info().max_stores == 20


def test_more_than_fifteen_stores_come_along(here: Memory, there: Memory) -> None:
    """B2.3: the maximum is part of the app."""
    here.app("big").configure(max_stores=18)
    here.app("big").stores.define({f"kept_{number}": {} for number in range(18)})
    there.app("big").import_document(here.app("big").export())
    assert (there.app("big").info().stores, there.app("big").info().max_stores) == (18, 18)


def test_the_function_of_an_app_comes_along_by_its_name(here: Memory, there: Memory) -> None:
    here.app("shop").configure(function="reply")
    there.app("shop").import_document(here.app("shop").export())
    assert there.app("shop").info().function == "reply"


# -- what stands in the way ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "other"),
    [
        ({"access": "user"}, "access"),
        ({"access": "session", "retention": "1_day"}, "retention"),
        ({"access": "session", "retention": "session", "strict": True}, "strict"),
        ({"access": "session", "retention": "session", "schema": {"type": "object"}}, "schema"),
        ({"access": "session", "retention": "session", "name": "Basket"}, "name"),
    ],
)
def test_a_store_that_is_there_in_another_way_is_named(
    shop: App, there: Memory, settings: dict[str, Any], other: str
) -> None:
    """Nothing is changed, and nothing of the rest is made; a dry run says the same."""
    there.app("shop").stores.define({"cart": settings})
    before = there.app("shop").stores.list()
    told = there.app("shop").import_document(shop.export(), dry_run=True)
    assert acted(told)["conflict"] == [("store", "cart")]
    with pytest.raises(Conflict, match="cart") as refused:
        there.app("shop").import_document(shop.export())
    (conflict,) = refused.value.details["conflicts"]
    assert (conflict["what"], conflict["name"]) == ("store", "cart")
    assert other in conflict["reason"]
    assert there.app("shop").stores.list() == before
    assert (there.banks.list().total, there.definitions.list().total, there.workflows.list()) == (0, 0, [])


def test_everything_that_stands_in_the_way_is_named_at_once(shop: App, there: Memory) -> None:
    """B3.17: a definition of the same slug that is another one, and whatever else there is."""
    there.app("shop").stores.create("cart")
    there.banks.create("chats", type="general", retention_days=8)
    there.definitions.create("Customer Profile", ttl_seconds=60)
    other = there.workflows.create({"name": "other", "steps": [{"step_type": "display_result"}]}).id
    there.app("shop").configure(workflow=other)
    with pytest.raises(Conflict) as refused:
        there.app("shop").import_document(shop.export())
    named = sorted((one["what"], one["name"]) for one in refused.value.details["conflicts"])
    assert named == [
        ("definition", "Customer Profile"),
        ("memory_bank", "chats"),
        ("store", "cart"),
        ("workflow", "answer"),
    ]
    assert [one.technical_name for one in there.app("shop").stores.list()] == ["cart"]
    assert (there.app("shop").info().workflow, there.app("shop").info().description) == (other, None)
    assert there.banks.list().memory_banks[0].retention_days == 8
    assert there.definitions.get("customer_profile").ttl_seconds == 60


def test_two_banks_of_one_name_stand_in_the_way(shop: App, there: Memory) -> None:
    for _ in range(2):
        there.banks.create("chats", type="general", retention_days=7)
    with pytest.raises(Conflict, match="chats"):
        there.app("shop").import_document(shop.export())
    assert there.app("shop").stores.list() == []


def test_a_name_of_another_definition_stands_in_the_way(shop: App, there: Memory) -> None:
    there.definitions.create("Customer Profile", slug="other")
    with pytest.raises(Conflict, match="Customer Profile"):
        there.app("shop").import_document(shop.export())
    assert there.app("shop").stores.list() == []


def test_something_else_that_answers_stands_in_the_way(shop: App, there: Memory) -> None:
    there.app("shop").configure(function="reply")
    with pytest.raises(Conflict, match="answers"):
        there.app("shop").import_document(shop.export())
    assert (there.app("shop").info().function, there.app("shop").info().stores) == ("reply", 0)


def test_too_many_stores_are_found_by_a_dry_run(there: Memory) -> None:
    """What it does not name would stand in the way all the same."""
    shop = there.app("shop")
    shop.configure(max_stores=2)
    shop.stores.define({"one": {}, "two": {}})
    document = {"max_stores": 2, "stores": {"three": {}}}
    told = shop.import_document(document, dry_run=True)
    with pytest.raises(Conflict):
        shop.import_document(document)
    assert [one.technical_name for one in shop.stores.list()] == ["one", "two"]
    assert "conflict" in acted(told)


@cases(
    "document",
    [
        {"memwell": 2, "stores": {}},
        {"stores": {"cart": {"access": "everyone"}}},
        {"stores": {"sessionMeta": {}}},
        {"stores": {"cart": {"content": {"n": 1}}}},
        {"stores": {"cart": {"schema": {"type": "nonsense"}}}},
        {"stores": {"cart": {"retention": "1_decade"}}},
        {"data": {"cart": {"n": 1}}},
        {"workflow": {"name": "x"}},
        {"memory_banks": {"x": {"name": "x", "type": "wrong"}}},
        {"definitions": {"x": {"slug": "x"}}},
        {"definitions": {"x": {"name": "X", "slug": "Not A Slug"}}},
        {"definitions": {"x": {"name": "X", "schema": {"type": "nonsense"}}}},
        {"function": "f", "workflow": {"name": "x", "steps": [{"step_type": "display_result"}]}},
        "just words",
        "[1, 2]",
        "stores: {a: &x {}, b: *x}",
    ],
)
@cases("dry_run", [False, True])
def test_a_document_that_is_no_app_is_refused(there: Memory, document: Any, dry_run: bool) -> None:
    """Nothing is made, and there is no way to bring data along (S2.39); a dry run finds it, too."""
    with pytest.raises(Invalid):
        there.app("shop").import_document(document, dry_run=dry_run)
    assert is_empty(there)


def test_only_an_administrator_imports(tmp_path: Path) -> None:
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        with server.memory(memory.keys.create("bot", "agent").secret) as bot, pytest.raises(Forbidden):
            bot.app("shop").import_document({"stores": {"cart": {}}})
        assert memory.call("apps.list", {}).apps == []
