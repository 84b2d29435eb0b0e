"""S3: memory definitions, and the records of owners that they validate."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from memwell import Conflict, Forbidden, Invalid, NotFound, Stale
from memwell.sdk._sync_definitions import WorkingMemory
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import AsyncMemory, Memory, remains, two_tenants
from ..live import live
from .conftest import engine_of

PROFILE: dict[str, Any] = {
    "type": "object",
    "title": "Customer Profile",
    "additionalProperties": False,
    "properties": {
        "preferred_name": {"type": "string", "description": "What to call the person."},
        "language": {"type": "string", "description": "In which language to answer."},
        "interests": {"type": "array", "items": {"type": "string"}, "description": "What the person cares about."},
    },
}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}}
ADA = {"preferred_name": "Ada", "language": "en"}


def bound(memory: Memory, slug: str, owner: str = "u1", **where: Any) -> WorkingMemory:
    return memory.definitions.bind([slug], owner=owner, **where)


def keep(memory: Memory, slug: str, value: dict[str, Any], owner: str = "u1", **where: Any) -> WorkingMemory:
    """Write a value, and hand back the view that it was written by."""
    view = bound(memory, slug, owner, **where)
    view.update({slug: value})
    return view


def refused(memory: Memory, slug: str, value: dict[str, Any], owner: str = "u1") -> list[str]:
    """Where a value does not fit."""
    with pytest.raises(Invalid) as error:
        bound(memory, slug, owner).update({slug: value})
    return [one["path"] for one in error.value.details["problems"]]


# -- what a definition is ------------------------------------------------------------------------------------------------


def test_a_definition_is_the_contract_and_its_values_are_records(memory: Memory) -> None:
    """S3.1: name, slug, scope, TTL and schema are there at once; records come when something is written."""
    made = memory.definitions.create("Customer Profile", schema=PROFILE, ttl_seconds=60, scope="workflow")
    assert (made.name, made.slug, made.scope, made.ttl_seconds) == (
        "Customer Profile",
        "customer_profile",
        "workflow",
        60,
    )
    assert (made.schema, str(uuid.UUID(made.id))) == (PROFILE, made.id)
    assert list(memory.definitions.records(made.id)) == []
    keep(memory, made.slug, ADA, workflow="w")
    (record,) = memory.definitions.records(made.id)
    assert (record.owner, record.workflow, record.value) == ("u1", "w", ADA)
    assert memory.definitions.get(made.id) == made, "what is written changes nothing about the contract"


def test_only_the_name_is_needed(memory: Memory) -> None:
    """S3.7: without a TTL records stay for good."""
    made = memory.definitions.create("Customer Profile")
    assert (made.scope, made.ttl_seconds, made.update_mode, made.secrets) == ("global", None, "replace", "warn")
    assert made.schema == {"type": "object"}


def test_the_list_shows_what_each_definition_is(memory: Memory, clock: FrozenClock) -> None:
    """S3.2: name, slug, scope, TTL, when it was made and when it was changed."""
    first = memory.definitions.create("Customer Profile", ttl_seconds=60)
    clock.advance(hours=1)
    memory.definitions.create("Cart", scope="thread")
    clock.advance(hours=1)
    memory.definitions.update("customer_profile", ttl_seconds=90)
    listed = memory.definitions.list()
    shown = [(one.name, one.slug, one.scope, one.ttl_seconds) for one in listed.definitions]
    assert shown == [("Cart", "cart", "thread", None), ("Customer Profile", "customer_profile", "global", 90)]
    _, changed = listed.definitions
    assert changed.created_at == first.created_at
    assert (changed.updated_at - changed.created_at).total_seconds() == 7200
    assert (listed.page, listed.limit, listed.total) == (1, 20, 2)


def test_definitions_are_searched_filtered_sorted_and_paged(memory: Memory, clock: FrozenClock) -> None:
    """S3.2, B3.15."""
    for name, scope in (("Beta", "run"), ("Alpha", "global"), ("Gamma", "run")):
        memory.definitions.create(name, scope=scope, description=f"About {name}'s seat", ttl_seconds=len(name))  # type: ignore[arg-type]
        clock.advance(seconds=1)

    def names(**conditions: Any) -> list[str]:
        return [one.name for one in memory.definitions.list(**conditions).definitions]

    assert names() == ["Gamma", "Alpha", "Beta"], "the newest first"
    assert names(search="GAMM") == ["Gamma"]
    assert names(search="alpha's seat") == ["Alpha"], "also by the description"
    assert names(search="nothing") == []
    assert names(scope="run") == ["Gamma", "Beta"]
    assert (names(slug="beta"), names(name="Beta"), names(ttl_seconds=4)) == (["Beta"], ["Beta"], ["Beta"])
    assert names(sort="name", order="asc", limit=2) == ["Alpha", "Beta"]
    assert names(sort="name", order="asc", limit=2, page=2) == ["Gamma"]
    assert memory.definitions.list(limit=1).total == 3
    for wrong in ({"page": 0}, {"limit": 101}, {"sort": "slug"}, {"scope": "all"}):
        with pytest.raises(Invalid):
            names(**wrong)


def test_roles_decide_who_may_define_and_who_may_remember(tmp_path: Path) -> None:
    """S3.2: definitions are made, changed and deleted by admins; agents write records; readers look."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        keys = {role: memory.keys.create(role, role).secret for role in ("reader", "agent", "admin")}
        with server.memory(keys["admin"]) as admin:
            admin.definitions.create("Customer Profile", schema=PROFILE)
            admin.definitions.update("customer_profile", ttl_seconds=60)
        for role in ("reader", "agent"):
            with server.memory(keys[role]) as user:
                assert user.definitions.list(search="profile").total == 1
                assert user.definitions.get("customer_profile").ttl_seconds == 60
                for call in (
                    lambda: user.definitions.create("Other"),
                    lambda: user.definitions.update("customer_profile", ttl_seconds=1),
                    lambda: user.definitions.delete("customer_profile"),
                    lambda: user.definitions.records("customer_profile"),
                ):
                    with pytest.raises(Forbidden):
                        call()
        with server.memory(keys["agent"]) as agent:
            keep(agent, "customer_profile", ADA)
        with server.memory(keys["reader"]) as reader:
            view = bound(reader, "customer_profile")
            assert view.values == {"customer_profile": ADA}
            with pytest.raises(Forbidden):
                view.update({"customer_profile": {}})
        with server.memory(keys["admin"]) as admin:
            assert [one.owner for one in admin.definitions.records("customer_profile")] == ["u1"]
            assert admin.definitions.delete("customer_profile").records == 1


# -- names and slugs -----------------------------------------------------------------------------------------------------


def test_a_name_is_unique_and_heads_what_a_model_reads(memory: Memory) -> None:
    """S3.3."""
    memory.definitions.create("Customer Profile", schema=NAMED)
    with pytest.raises(Conflict) as error:
        memory.definitions.create("Customer Profile", slug="another")
    assert error.value.details["field"] == "name"
    assert keep(memory, "customer_profile", {"name": "Ada"}).prompt().splitlines()[1] == "## Customer Profile"
    assert memory.definitions.list().total == 1


def test_a_new_name_frees_the_old_one_and_the_slug_stays(memory: Memory) -> None:
    """S3.3, S3.4: the slug is stable."""
    memory.definitions.create("Customer Profile", schema=NAMED)
    view = keep(memory, "customer_profile", {"name": "Ada"})
    other = memory.definitions.create("Cart")
    with pytest.raises(Conflict):
        memory.definitions.update("customer_profile", name="Cart")
    changed = memory.definitions.update("customer_profile", name="Client")
    assert (changed.name, changed.slug) == ("Client", "customer_profile")
    view.refresh()
    assert view.prompt() == "# Working Memory\n## Client\n- Name: Ada"
    assert memory.definitions.update(other.id, name="Customer Profile").slug == "cart"
    assert memory.definitions.update(other.id, name="Customer Profile").name == "Customer Profile", (
        "its own is no clash"
    )


@cases("name", ["", "  ", "x" * 256, "two\nlines", "nul\x00", "bell\x07", "next\x85line"])
def test_names_that_cannot_be(memory: Memory, name: str) -> None:
    with pytest.raises(Invalid):
        memory.definitions.create(name, slug="fine")
    assert memory.definitions.list().total == 0


@cases("slug", ["", "Customer", "a-b", "a b", "größe", "a.b", "a\n", "x" * 256])
def test_a_slug_has_lower_case_letters_digits_and_underscores(memory: Memory, slug: str) -> None:
    """S3.4, C22, B3.4."""
    with pytest.raises(Invalid, match="slug"):
        memory.definitions.create("Customer Profile", slug=slug)
    assert memory.definitions.list().total == 0


def test_a_slug_is_the_key_everywhere_and_unique(memory: Memory) -> None:
    """S3.4: it reads, it writes, it stands in templates; two definitions cannot share it."""
    memory.definitions.create("Customer Profile", slug="who_2", schema=NAMED)
    with pytest.raises(Conflict) as error:
        memory.definitions.create("Another", slug="who_2")
    assert error.value.details["field"] == "slug"
    with pytest.raises(Conflict):
        memory.definitions.create("Who 2")
    assert keep(memory, "who_2", {"name": "Ada"}).values == {"who_2": {"name": "Ada"}}
    source = {"name": "greet", "steps": [{"step_type": "text", "template": "Hello {{memory.who_2.name}}"}]}
    assert memory.workflows.run(source, owner="u1").output == "Hello Ada"
    assert [one.name for one in memory.definitions.list().definitions] == ["Customer Profile"], "a clash leaves nothing"


@cases(
    ("name", "slug"),
    [
        ("Customer Profile", "customer_profile"),
        ("  What's new? (2026) ", "what_s_new_2026"),
        ("__Already_a_slug__", "already_a_slug"),
        ("Profile of 日本", "profile_of"),
        ("x" * 255, "x" * 255),
    ],
)
def test_a_slug_is_made_from_the_name(memory: Memory, name: str, slug: str) -> None:
    """S3.5."""
    assert memory.definitions.create(name).slug == slug


def test_a_name_without_letters_for_a_slug_needs_one(memory: Memory) -> None:
    """S3.5: it may be chosen; what cannot be guessed must be."""
    with pytest.raises(Invalid, match="give `slug`") as error:
        memory.definitions.create("顧客")
    assert error.value.details["field"] == "slug"
    assert memory.definitions.create("顧客", slug="customer").slug == "customer"


def test_the_slug_and_the_scope_cannot_be_changed_later(memory: Memory) -> None:
    """S3.4, S3.5: workflows and records hang on them."""
    memory.definitions.create("Customer Profile")
    for change in ({"slug": "other"}, {"scope": "run"}):
        with pytest.raises(Invalid):
            memory.definitions.update("customer_profile", **change)  # type: ignore[arg-type]
    found = memory.definitions.get("customer_profile")
    assert (found.slug, found.scope, found.version) == ("customer_profile", "global", 1)


@pytest.mark.parametrize("slug", ["data", "temp", "store1", "memory", "info_2"])
def test_a_vague_slug_gets_a_word_of_warning(memory: Memory, slug: str) -> None:
    """C40: it is made all the same."""
    (warning,) = memory.definitions.create("Some name", slug=slug).warnings or []
    assert slug in warning
    assert memory.definitions.get(slug).slug == slug
    assert memory.definitions.create("Customer Profile").warnings is None
    assert memory.definitions.create("Data of travel").warnings is None


# -- scope, lifetime and schema ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["global", "workflow", "thread", "run"])
def test_there_are_four_scopes(memory: Memory, scope: Any) -> None:
    """S3.6."""
    assert memory.definitions.create("Customer Profile", scope=scope).scope == scope


@cases("scope", ["", "Global", "user", "session"])
def test_there_is_no_other_scope(memory: Memory, scope: Any) -> None:
    """S3.6, C9: what others call global or session has other names here."""
    with pytest.raises(Invalid, match="scope"):
        memory.definitions.create("Customer Profile", scope=scope)


@pytest.mark.parametrize("ttl", [-1, 1.5, "soon", True, 10**10])
def test_a_lifetime_is_a_positive_whole_number_of_seconds(memory: Memory, ttl: Any) -> None:
    """S3.7."""
    with pytest.raises(Invalid, match="ttl_seconds"):
        memory.definitions.create("Customer Profile", ttl_seconds=ttl)
    assert memory.definitions.create("Customer Profile", ttl_seconds=1).ttl_seconds == 1


def test_a_lifetime_may_be_left_blank_or_cleared(memory: Memory, clock: FrozenClock) -> None:
    """S3.7: blank is for good."""
    memory.definitions.create("Blank", ttl_seconds=None)
    memory.definitions.create("Cleared", ttl_seconds=5)
    assert memory.definitions.update("cleared", ttl_seconds=None).ttl_seconds is None
    for slug in ("blank", "cleared"):
        keep(memory, slug, {"n": 1})
    clock.advance(days=10_000)
    assert [bound(memory, slug).values for slug in ("blank", "cleared")] == [{"blank": {"n": 1}}, {"cleared": {"n": 1}}]


@cases("schema", [{"type": "array"}, {"type": "string"}, {"type": ["object", "null"]}, [], "text", True])
def test_a_schema_is_one_of_an_object(memory: Memory, schema: Any) -> None:
    """S3.8."""
    with pytest.raises(Invalid, match="schema"):
        memory.definitions.create("Customer Profile", schema=schema)
    assert memory.definitions.list().total == 0


def test_every_value_that_is_saved_is_validated(memory: Memory) -> None:
    """S3.8: types, nested values, required fields; the message names the place and not what was there."""
    schema = {**PROFILE, "required": ["language"]}
    memory.definitions.create("Customer Profile", schema=schema)
    assert refused(memory, "customer_profile", {"language": 7}) == ["language"]
    assert refused(memory, "customer_profile", {"language": "en", "interests": ["a", 1]}) == ["interests[1]"]
    assert refused(memory, "customer_profile", {"preferred_name": "Ada"}) == [""]
    with pytest.raises(Invalid) as error:
        keep(memory, "customer_profile", {"language": ["marmalade-zeppelin"]})
    assert "marmalade" not in str(error.value) + str(error.value.details)
    assert list(memory.definitions.records("customer_profile")) == []


def test_unexpected_properties_are_refused_at_every_depth(memory: Memory) -> None:
    """S3.9, C23: also where the schema does not say so, since nobody expects them."""
    schema = {"type": "object", "properties": {"home": {"type": "object", "properties": {"city": {"type": "string"}}}}}
    memory.definitions.create("Customer Profile", schema=schema)
    assert refused(memory, "customer_profile", {"hme": {}}) == [""]
    assert refused(memory, "customer_profile", {"home": {"city": "Porto", "zip": 1}}) == ["home"]
    assert keep(memory, "customer_profile", {"home": {"city": "Porto"}}).values["customer_profile"]


def test_an_author_may_admit_other_properties(memory: Memory) -> None:
    """C23, B3.14."""
    memory.definitions.create("Open", schema={**NAMED, "additionalProperties": True})
    memory.definitions.create("Numbers", schema={**NAMED, "additionalProperties": {"type": "integer"}})
    assert keep(memory, "open", {"name": "Ada", "other": [1]}).values["open"] == {"name": "Ada", "other": [1]}
    assert refused(memory, "numbers", {"name": "Ada", "other": "x"}) == ["other"]
    assert keep(memory, "numbers", {"name": "Ada", "other": 1}).values["numbers"] == {"name": "Ada", "other": 1}


def test_defaults_are_shown_and_not_stored(memory: Memory) -> None:
    """C23: they are filled in on reading, where a field is missing; what is there stays, null included."""
    schema = {"type": "object", "properties": {"name": {}, "language": {"default": "en"}}}
    memory.definitions.create("Customer Profile", schema=schema)
    view = bound(memory, "customer_profile")
    assert view.values == {}, "without a record there is nothing to fill in"
    written = view.update({"customer_profile": {"name": "Ada"}})
    assert view.values == written.memory == {"customer_profile": {"name": "Ada", "language": "en"}}
    assert "- Language: en" in view.prompt().splitlines()
    assert memory.definitions.records("customer_profile")[0].value == {"name": "Ada"}
    memory.definitions.update("customer_profile", schema={"type": "object", "properties": {"name": {}, "language": {}}})
    view.refresh()
    assert view.values == {"customer_profile": {"name": "Ada"}}, "a default that is gone was never written"


# -- changes -------------------------------------------------------------------------------------------------------------


def test_only_given_settings_change(memory: Memory, clock: FrozenClock) -> None:
    made = memory.definitions.create("Customer Profile", schema=PROFILE, ttl_seconds=60, description="Who it is.")
    clock.advance(seconds=1)
    changed = memory.definitions.update(made.id, update_mode="merge")
    assert (changed.update_mode, changed.ttl_seconds, changed.description) == ("merge", 60, "Who it is.")
    assert (changed.schema, changed.version) == (PROFILE, 2)
    assert changed.updated_at > changed.created_at == made.created_at
    assert memory.definitions.update(made.id, description=None).description is None
    assert memory.definitions.get(made.slug).ttl_seconds == 60


def test_a_change_of_what_somebody_else_has_changed_is_refused(memory: Memory) -> None:
    memory.definitions.create("Customer Profile")
    memory.definitions.update("customer_profile", ttl_seconds=5, version=1)
    with pytest.raises(Stale, match="version is 2"):
        memory.definitions.update("customer_profile", ttl_seconds=6, version=1)
    assert memory.definitions.get("customer_profile").ttl_seconds == 5


def test_a_definition_is_found_by_its_id_or_its_slug(memory: Memory) -> None:
    """B3.15."""
    made = memory.definitions.create("Customer Profile")
    assert memory.definitions.get(made.id) == memory.definitions.get("customer_profile") == made
    unknown = str(uuid.uuid4())
    for call in (
        memory.definitions.get,
        memory.definitions.delete,
        memory.definitions.update,
        memory.definitions.records,
    ):
        with pytest.raises(NotFound, match=f"Memory Definition with ID {unknown} not found"):
            call(unknown)


def test_a_retried_create_makes_one_definition(memory: Memory) -> None:
    data = {"name": "Customer Profile"}
    first, again = (memory.call("definitions.create", data, key="k1") for _ in range(2))
    assert first.id == again.id
    assert memory.definitions.list().total == 1


def test_definitions_of_one_tenant_are_nothing_to_another(tmp_path: Path) -> None:
    with two_tenants(tmp_path) as (alpha, beta):
        made = alpha.definitions.create("Customer Profile", schema=NAMED)
        keep(alpha, "customer_profile", {"name": "Ada"})
        for name in (made.id, made.slug):
            with pytest.raises(NotFound):
                beta.definitions.get(name)
        beta.definitions.create("Customer Profile", schema=NAMED)
        assert bound(beta, "customer_profile").values == {}
        beta.definitions.delete("customer_profile")
        assert bound(alpha, "customer_profile").values == {"customer_profile": {"name": "Ada"}}


def test_definitions_awaited(tmp_path: Path, clock: FrozenClock) -> None:
    async def work() -> list[Any]:
        async with AsyncMemory(tmp_path / "home", worker=False, clock=clock) as memory:
            await memory.definitions.create("Customer Profile", schema=PROFILE)
            view = await memory.definitions.bind(["customer_profile"], owner="u1")
            await view.update({"customer_profile": ADA})
            records = await memory.definitions.records("customer_profile")
            breaking = await memory.definitions.check("customer_profile", {**PROFILE, "required": ["interests"]})
            gone = await view.delete("customer_profile")
            return [
                (await memory.definitions.list()).total,
                records[0].value,
                breaking.breaking,
                gone.records,
                view.values,
            ]

    assert asyncio.run(work()) == [1, ADA, 1, 1, {}]


# -- a schema that is tightened ------------------------------------------------------------------------------------------

REQUIRED = {**PROFILE, "required": ["language"]}


@pytest.fixture
def tightened(memory: Memory) -> Memory:
    """Two records, of which one would not fit a schema that requires a language."""
    memory.definitions.create("Customer Profile", schema=PROFILE)
    keep(memory, "customer_profile", {"preferred_name": "Ada", "language": "en"}, owner="fits")
    keep(memory, "customer_profile", {"preferred_name": "Bob"}, owner="breaks")
    return memory


def test_a_tighter_schema_can_be_tried_before_it_is_saved(tightened: Memory) -> None:
    """S3.45, C24: how many records would break, whose, and why; nothing changes by asking."""
    found = tightened.definitions.check("customer_profile", REQUIRED)
    assert (found.records, found.breaking) == (2, 1)
    (broken,) = found.examples
    assert (broken.owner, broken.scope) == ("breaks", "global")
    assert "language" in broken.problems[0]["reason"]
    assert tightened.definitions.check("customer_profile", PROFILE).breaking == 0
    assert tightened.definitions.get("customer_profile").schema == PROFILE


def test_records_of_every_scope_are_looked_at(memory: Memory) -> None:
    """S3.45, C24."""
    memory.definitions.create("Cart", scope="thread", schema=PROFILE)
    keep(memory, "cart", {"preferred_name": "Ada"}, thread="t1")
    (broken,) = memory.definitions.check("cart", REQUIRED).examples
    assert (broken.owner, broken.scope) == ("u1", "thread/t1")


def test_a_schema_that_breaks_records_is_refused(tightened: Memory) -> None:
    """S3.45, C24: and the records are named."""
    with pytest.raises(Conflict, match="1 of 2") as error:
        tightened.definitions.update("customer_profile", schema=REQUIRED)
    assert error.value.details["breaking"] == 1
    assert [one["owner"] for one in error.value.details["examples"]] == ["breaks"]
    assert tightened.definitions.get("customer_profile").schema == PROFILE
    keep(tightened, "customer_profile", {"language": "pt"}, owner="breaks")
    assert tightened.definitions.update("customer_profile", schema=REQUIRED).schema == REQUIRED


def test_a_record_that_broke_is_withheld_with_a_warning(tightened: Memory) -> None:
    """S3.45, C24: on loading; the others are there, and it is back when it is written anew."""
    tightened.definitions.update("customer_profile", schema=REQUIRED, accept_breaking=True)
    view = bound(tightened, "customer_profile", "breaks")
    assert (view.values, view.prompt()) == ({}, "")
    (warning,) = view.bound.warnings
    assert warning.slug == "customer_profile"
    assert "language" in warning.reason
    assert "Bob" not in warning.reason
    assert bound(tightened, "customer_profile", "fits").values["customer_profile"]["language"] == "en"
    view.update({"customer_profile": {"language": "pt"}})
    assert (view.values, view.bound.warnings) == ({"customer_profile": {"language": "pt"}}, [])


def test_a_record_that_broke_fails_where_that_was_asked_for(tightened: Memory) -> None:
    """S3.45, C24, B3.7: strict loading is an error."""
    tightened.definitions.update("customer_profile", schema=REQUIRED, accept_breaking=True)
    with pytest.raises(Invalid, match="customer_profile"):
        bound(tightened, "customer_profile", "breaks", strict=True)
    assert bound(tightened, "customer_profile", "fits", strict=True).values


def test_an_update_of_a_record_that_broke_must_mend_it(tightened: Memory) -> None:
    """S3.45, C3: what comes of a merge must fit; what is missing can be merged in."""
    tightened.definitions.update("customer_profile", schema=REQUIRED, accept_breaking=True, update_mode="merge")
    view = bound(tightened, "customer_profile", "breaks")
    with pytest.raises(Invalid, match="language"):
        view.update({"customer_profile": {"interests": ["tea"]}})
    view.update({"customer_profile": {"language": "pt"}})
    assert view.values["customer_profile"] == {"preferred_name": "Bob", "language": "pt"}


def test_a_record_that_was_there_before_its_definition_counts(memory: Memory) -> None:
    """C24, B3.8: it is shown as one of the definition's, so it breaks and goes with it."""
    memory.user("u1").records["customer_profile"] = {"preferred_name": "Bob"}
    memory.definitions.create("Customer Profile", schema=PROFILE)
    assert bound(memory, "customer_profile").values == {"customer_profile": {"preferred_name": "Bob"}}
    assert memory.definitions.check("customer_profile", REQUIRED).breaking == 1
    assert [one.owner for one in memory.definitions.records("customer_profile")] == ["u1"]
    assert memory.definitions.delete("customer_profile").records == 1
    assert "customer_profile" not in memory.user("u1").records


# -- deleting ------------------------------------------------------------------------------------------------------------


def test_deleting_a_definition_erases_its_records(memory: Memory, tmp_path: Path) -> None:
    """B3.8: of every owner, with their history, down to the bytes."""
    memory.definitions.create("Customer Profile", schema=PROFILE)
    memory.definitions.create("Other", schema=PROFILE)
    for owner in ("u1", "u2"):
        keep(memory, "customer_profile", {"preferred_name": "zyxoqwvquill"}, owner)
        keep(memory, "customer_profile", {"preferred_name": "Ada"}, owner)
        keep(memory, "other", ADA, owner)
    gone = memory.definitions.delete("customer_profile")
    assert (gone.slug, gone.records) == ("customer_profile", 2)
    engine_of(memory).worker.run_due("default")
    assert gone.job is not None
    assert (memory.jobs.show(gone.job).result or {})["residual"] == 0
    assert [name for name, data in remains(tmp_path).items() if b"zyxoqwvquill" in data] == []
    assert {one.owner for one in memory.definitions.records("other")} == {"u1", "u2"}
    with pytest.raises(NotFound):
        memory.definitions.get("customer_profile")


def test_a_definition_that_is_made_again_begins_empty(memory: Memory) -> None:
    """B3.5, B3.8: name and slug are free again, and what was kept under them is not."""
    first = memory.definitions.create("Customer Profile", schema=PROFILE)
    keep(memory, "customer_profile", ADA)
    memory.definitions.delete(first.id)
    again = memory.definitions.create("Customer Profile", schema=PROFILE)
    assert again.id != first.id
    assert bound(memory, "customer_profile").values == {}


def test_all_records_are_listed_however_many(memory: Memory) -> None:
    memory.definitions.create("Customer Profile", schema=PROFILE)
    owners = [f"u{number:03}" for number in range(120)]
    for owner in owners:
        memory.call("definitions.update_memory", {"owner": owner, "memory": {"customer_profile": ADA}})
    assert sorted(one.owner for one in memory.definitions.records("customer_profile")) == owners
