"""S1: memory banks, their entries, and the three ways to use them."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memwell import Conflict, Forbidden, Invalid, NotFound
from memwell.sdk._sync_banks import Bank
from memwell.sdk.types import BankSettings
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory, query, remains
from ..live import live
from ..scripted import EmbeddingServer
from .conftest import engine_of


@pytest.fixture
def chats(memory: Memory) -> Bank:
    return memory.banks.create("chats")


@pytest.fixture
def notes(memory: Memory) -> Bank:
    return memory.banks.create("notes", type="general")


def chat(bank: Bank, key: str, *texts: str) -> None:
    for number, text in enumerate(texts):
        bank.add(text, key=key, speaker=("user", "assistant")[number % 2])


def work(memory: Memory) -> None:
    engine_of(memory).worker.run_due("default")


def counted(bank: Bank) -> list[tuple[str, int]]:
    """The keys of a bank, and how many entries each has."""
    listed = bank.keys()
    return [(one.value, one.entries) for one in listed]


def noted(bank: Bank, count: int, key: str = "k") -> list[str]:
    return [bank.add(f"note {number}", key=key, metadata={"n": number}).id for number in range(count)]


# -- banks ---------------------------------------------------------------------------------------------------------------


def test_a_bank_is_ready_when_it_is_made(memory: Memory) -> None:
    """S1.1, S1.14, B1.2: only the name is needed, nothing else is set up, and what is written stays."""
    bank = memory.banks.create("chats")
    info = bank.info()
    assert str(uuid.UUID(info.id)) == info.id
    assert (info.name, info.type, info.mode, info.retention_days) == ("chats", "conversation", "fast_and_cheap", 30)
    assert info.source_connection_id
    bank.add("hello", key="k", speaker="user")
    assert memory.banks.open(bank.id).load("k").messages == [{"role": "user", "content": "hello"}]


@pytest.mark.every_engine
def test_each_bank_has_a_source_of_its_own_from_the_start(memory: Memory, tmp_path: Path) -> None:
    """S1.3: it is there before anything is written, and what becomes of one is nothing to the other."""
    one, other = memory.banks.create("one", type="general"), memory.banks.create("other", type="general")
    sources = {one.info().source_connection_id, other.info().source_connection_id}
    stored = query(tmp_path / "home", "SELECT name FROM collection WHERE dialect = 'bank'")
    assert {row[0] for row in stored} == sources == {one.id, other.id}
    for bank in (one, other):
        bank.add(f"of {bank.id}", key="k")
    one.wipe()
    assert one.load("k").entries == []
    assert [entry.content for entry in other.load("k").entries or []] == [f"of {other.id}"]
    one.add("again", key="k")
    assert [entry.content for entry in one.load("k").entries or []] == ["again"]


def test_each_bank_has_its_own_settings(memory: Memory) -> None:
    """S1.2, S1.7: embedding, compaction and retention are the bank's."""
    settings: BankSettings = {
        "mode": "custom",
        "chunk_size": 32,
        "chunk_overlap": 8,
        "compaction_prompt": "Be brief.",
        "max_turns": 9,
        "type": "general",
        "retention_days": None,
    }
    bank = memory.banks.create("notes", **settings)
    info = bank.info()
    assert {name: getattr(info, name) for name in settings} == settings
    assert memory.banks.create("other").info().compaction_prompt is None


@pytest.mark.every_engine
def test_compaction_and_retention_of_one_bank_are_nothing_to_another(memory: Memory, clock: FrozenClock) -> None:
    """S1.2: what one folds and lets go, the other keeps, under the same key."""
    strict = memory.banks.create("strict", max_turns=4, retention_days=1)
    lenient = memory.banks.create("lenient", retention_days=None)
    texts = [f"We decided on plan number {number}." for number in range(6)]
    for bank in (strict, lenient):
        chat(bank, "k", *texts)
    work(memory)
    assert (strict.stats().compacted, len(strict.load("k").messages or [])) == (4, 3)
    assert (lenient.stats().compacted, [one["content"] for one in lenient.messages("k")]) == (0, texts)
    clock.advance(days=2)
    work(memory)
    assert strict.load("k", include_compacted=True).messages == []
    assert [one["content"] for one in lenient.messages("k")] == texts


def test_the_parts_of_one_bank_are_nothing_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.2, S1.4: each text is cut as finely as its own bank says before it is embedded."""
    text = " ".join(f"The {name} stands at the harbour." for name in ("crane", "tower", "chapel", "market", "museum"))
    with EmbeddingServer() as server:
        monkeypatch.setenv("MEMWELL_EMBEDDER", "openai:test")
        monkeypatch.setenv("MEMWELL_EMBEDDER_URL", server.url)
        monkeypatch.setenv("MEMWELL_OPENAI_API_KEY", "sk-test")
        with Memory(tmp_path / "parts", worker=False) as memory:
            coarse = memory.banks.create("coarse", type="general")
            fine = memory.banks.create("fine", type="general", mode="custom", chunk_size=10)
            for bank, marked in ((coarse, "Coarse. "), (fine, "Fine. ")):
                bank.add(marked + text, key="k")
                bank.search("harbour", key="k")
    embedded = [one for one in server.texts if "The" in one]
    assert [one for one in embedded if one.startswith("Coarse")] == [f"Coarse. {text}"]
    assert len(embedded) - 1 > 5, "the whole of the other, and its parts"
    assert max(map(len, sorted(embedded, key=len)[:-2])) <= 50


def test_banks_are_listed_sorted_and_paged(memory: Memory, clock: FrozenClock) -> None:
    """B1.1: page, limit, sort, order, type, total."""
    for name, kind in (("b", "general"), ("a", "conversation"), ("c", "general")):
        memory.banks.create(name, type=kind)  # type: ignore[arg-type]
        clock.advance(seconds=1)
    listed = memory.banks.list()
    assert [one.name for one in listed.memory_banks] == ["c", "a", "b"]
    assert (listed.page, listed.limit, listed.total) == (1, 20, 3)
    by_name = memory.banks.list(sort="name", order="asc", limit=2, page=2)
    assert [one.name for one in by_name.memory_banks] == ["c"]
    assert memory.banks.list(type="general").total == 2
    for wrong in ({"page": 0}, {"limit": 101}, {"sort": "size"}, {"type": "other"}):
        with pytest.raises(Invalid):
            memory.banks.list(**wrong)


def test_only_given_settings_change_and_zero_clears(chats: Bank, clock: FrozenClock) -> None:
    """B1.3, B1.4: a change leaves the rest; type and mode stay."""
    chats.update(max_turns=5, description="for chats")
    clock.advance(seconds=1)
    changed = chats.update(max_age_days=3)
    assert (changed.max_turns, changed.max_age_days, changed.description) == (5, 3, "for chats")
    assert changed.updated_at > changed.created_at
    cleared = chats.update(max_turns=0, description="")
    assert (cleared.max_turns, cleared.description, cleared.max_age_days) == (None, None, 3)
    everything: dict[str, Any] = {
        "description": "for chats",
        "compaction_prompt": "Be brief.",
        "max_age_days": 3,
        "max_turns": 5,
        "max_size_tokens": 500,
        "retention_days": 7,
    }
    assert set(everything.items()) <= set(_settings(chats.update(**everything)).items())
    for name in everything:
        assert getattr(chats.update(**{name: None}), name) is None  # type: ignore[arg-type]
    assert chats.update(cross_key_search=False).retention_days is None
    assert not chats.update(name="other").cross_key_search
    with pytest.raises(Conflict):
        chats.update(mode="balanced")  # type: ignore[call-arg]
    with pytest.raises(Conflict):
        chats.update(type="general")  # type: ignore[call-arg]
    with pytest.raises(Conflict):
        chats.update(name="x", version=1)


def _settings(info: Any) -> dict[str, Any]:
    return {name: getattr(info, name) for name in info.__struct_fields__}


@pytest.mark.every_engine
def test_a_bank_says_what_it_is_over_the_wire(tmp_path: Path) -> None:
    """B1.2, B1.3: version, language and search across keys are always there, and null clears a setting."""
    with live(tmp_path, worker=False) as server, server.client() as client:
        made = client.post("/v1/memory_banks", json={"name": "chats"}).json()
        assert (made["version"], made["language"], made["cross_key_search"]) == (1, "en", True)
        assert made["retention_days"] == 30
        where = f"/v1/memory_banks/{made['id']}"
        assert client.put(where, json={"max_turns": 5}).json()["retention_days"] == 30
        changed = client.put(where, json={"retention_days": None, "max_turns": None}).json()
        assert changed["version"] == 3
        assert (changed["retention_days"], "max_turns" in changed) == (None, False)
        assert {"version", "language", "cross_key_search"} <= client.get(where).json().keys()
        listed = client.get("/v1/memory_banks").json()["memory_banks"]
        assert all({"version", "language", "cross_key_search"} <= one.keys() for one in listed)


def test_retention_holds_for_what_is_stored(chats: Bank, clock: FrozenClock) -> None:
    """S1.2: what is kept longer stays, what is kept shorter goes, exactly then."""
    chats.add("hello", key="k", speaker="user")
    chats.update(retention_days=0)
    clock.advance(days=365)
    assert chats.load("k").messages
    chats.update(retention_days=400)
    assert chats.load("k").messages
    clock.advance(days=35)
    assert chats.load("k").messages == []


def test_a_bank_can_be_wiped_or_deleted(memory: Memory, chats: Bank) -> None:
    """B1.3, B1.9: wiping leaves the bank; deleting leaves nothing."""
    chat(chats, "k", "quixotic words")
    assert chats.wipe().residual == 0
    assert chats.load("k").messages == []
    chat(chats, "k", "once more")
    chats.delete()
    for gone in (chats.info, lambda: chats.load("k"), lambda: chats.add("x", key="k", speaker="user")):
        with pytest.raises(NotFound):
            gone()
    assert memory.banks.list().total == 0


def test_the_bank_of_another_tenant_is_not_found(memory: Memory) -> None:
    """C29: an id says nothing about whose it is."""
    engine = engine_of(memory)
    engine.ensure_tenant("other")
    bank = memory.banks.create("mine")
    from memwell.core.access import Principal
    from memwell.core.dispatch import dispatch
    from memwell.registry import require_operation

    stranger = Principal("other", "admin", "test")
    for name, data in (("banks.get", {}), ("banks.search", {"query": "x"}), ("banks.load", {"key": "k"})):
        with pytest.raises(NotFound):
            dispatch(engine, stranger, require_operation(name), {"bank": bank.id, **data})


@cases(
    "wrong",
    [
        {"name": ""},
        {"name": "  "},
        {"name": "\u200b"},
        {"name": "a\nb"},
        {"name": "a\n"},
        {"name": "\ud800"},
        {"name": "x" * 256},
        {"name": "x", "description": "\ud800"},
        {"name": "x", "type": "other"},
        {"name": "x", "max_turns": -1},
        {"name": "x", "retention_days": -1},
        {"name": "x", "chunk_size": 64},
        {"name": "x", "mode": "custom", "chunk_size": 10, "chunk_overlap": 8},
        {"name": "x", "mode": "custom", "embedding_model": "no-such-model"},
        {"name": "x", "mode": "custom", "dimensions": 7},
        {"name": "x", "language": "xx"},
        {"name": "x", "surprise": 1},
    ],
)
def test_a_bank_that_cannot_be_is_refused(memory: Memory, wrong: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        memory._transport.call("banks.create", wrong)
    assert memory.banks.list().total == 0


@cases("name", ["", " ", "\u2060", "a\x07b", "\ud800", "x" * 256])
def test_an_invalid_name_is_refused_in_a_change_too(chats: Bank, name: str) -> None:
    """B1.3."""
    with pytest.raises(Invalid, match=r"`name`.*1 to 255 characters"):
        chats.update(name=name)
    assert chats.info().name == "chats"


# -- add -----------------------------------------------------------------------------------------------------------------


def test_a_conversation_answers_with_its_messages(chats: Bank) -> None:
    """S1.9, S1.28, S1.29, S1.33: role is the speaker, oldest first, the new one last."""
    chats.add("What's the weather like?", key="u1", speaker="user")
    chats.add("It's sunny.", key="u1", speaker="assistant")
    added = chats.add("Should I bring a jacket?", key="u1", speaker="user")
    assert added.messages == [
        {"role": "user", "content": "What's the weather like?"},
        {"role": "assistant", "content": "It's sunny."},
        {"role": "user", "content": "Should I bring a jacket?"},
    ]
    assert added.content is None


@cases("speaker", [None, "", "system", "tool", "User"])
def test_a_conversation_needs_a_speaker(chats: Bank, speaker: str | None) -> None:
    """S1.9, S1.20, C16: user or assistant, nobody else, and nothing is written."""
    with pytest.raises(Invalid, match="speaker"):
        chats.add("hello", key="k", speaker=speaker)
    assert chats.load("k").messages == []


def test_a_general_bank_knows_no_speakers(notes: Bank) -> None:
    """S1.10, S1.27, C6, C16: the content comes back; a speaker is ignored."""
    added = notes.add("prefers aisle seats", key="k", speaker="anybody")
    assert (added.content, added.messages) == ("prefers aisle seats", None)
    (entry,) = notes.entries()
    assert entry.speaker is None


def test_keys_do_not_mix(chats: Bank, notes: Bank) -> None:
    """S1.5, S1.6, S1.11: one bank, many keys."""
    for bank, speaker in ((chats, "user"), (notes, None)):
        for key in ("a", "b", "a b", "A"):
            bank.add(f"the secret of {key!r}", key=key, speaker=speaker)
        for key in ("a", "b", "a b", "A"):
            assert [one.content for one in bank.search("secret", key=key).matches] == [f"the secret of {key!r}"]
            loaded = bank.load(key)
            assert len(loaded.messages or loaded.entries or []) == 1


def test_key_and_speaker_are_metadata_that_cannot_be_forged(chats: Bank) -> None:
    """S1.12, S1.22, S1.23, S1.24, C41: stamped on each entry, and refused from outside."""
    added = chats.add("hello", key="k", speaker="user", metadata={"type": "fact"})
    assert chats.entry(added.id).metadata == {"type": "fact", "key": "k", "speaker": "user"}
    for name in ("key", "speaker", "agent_id", "run_id"):
        with pytest.raises(Invalid, match=name):
            chats.add("hello", key="k", speaker="user", metadata={name: "forged"})


@pytest.mark.every_engine
@cases("key", ["", "  ", "\u00a0", "\u200b", "\t", ".", "..", "x" * 513, "a\nb", "a\n", "\x00", "\ud800", "a\udfffb"])
def test_an_invalid_key_is_refused_everywhere(notes: Bank, key: str) -> None:
    """S1.5, S1.19, S1.35, S1.49, C17: with the same sentence, that says what a key is."""
    asked = (
        lambda: notes.add("x", key=key),
        lambda: notes.search("x", key=key),
        lambda: notes.load(key),
        lambda: list(notes.entries(key=key)),
        lambda: notes.delete_entries(key=key, dry_run=True),
    )
    told = set()
    for ask in asked:
        with pytest.raises(Invalid, match=r"`key`.*A key has 1 to 512 characters") as refused:
            ask()
        assert refused.value.details["field"] == "key"
        told.add(refused.value.message)
    assert len(told) == 1
    assert notes.keys() == []


@cases("bank_id", ["nothing", "ü", "\ud800", "a\x00b"])
def test_a_bank_that_cannot_be_is_not_found(memory: Memory, notes: Bank, bank_id: str) -> None:
    with pytest.raises(NotFound):
        memory.banks.open(bank_id).info()
    with pytest.raises(Invalid, match="compacts"):
        notes.add("x", key="k", compacts=["\ud800"])


def test_the_prefix_stays_the_same(chats: Bank) -> None:
    """S1.29, S1.32, C7: each answer begins with the one before; past 100 the beginning moves in steps of 50."""
    before: list[dict[str, str]] = []
    starts = []
    for number in range(1, 231):
        added = chats.add(f"message {number}", key="k", speaker=("user", "assistant")[number % 2])
        messages = added.messages or []
        assert messages[-1]["content"] == f"message {number}"
        assert len(messages) == number if number <= 100 else 51 <= len(messages) <= 100
        if messages[0] == (before or messages)[0]:
            assert json.dumps(messages).startswith(json.dumps(before)[:-1])
        else:
            starts.append(messages[0]["content"])
        before = messages
    assert starts == ["message 51", "message 101", "message 151"]


def test_an_answer_is_given_again_and_nothing_is_written_twice(chats: Bank) -> None:
    first = chats.add("hello", key="k", speaker="user", idempotency_key="once")
    again = chats.add("hello", key="k", speaker="user", idempotency_key="once")
    assert first == again
    assert len(chats.load("k").messages or []) == 1


# -- search --------------------------------------------------------------------------------------------------------------


def test_search_finds_the_most_relevant_first(notes: Bank) -> None:
    """S1.4, S1.43, S1.46: by words and meaning, with title, content, address and date."""
    for text in ("The cat is called Tom.", "The flat is in Porto, with a view of the river.", "Prefers aisle seats."):
        notes.add(text, key="alice")
    found = notes.search("Which city is the apartment in?", key="alice", top_n=2)
    assert found.matches[0].content.startswith("The flat is in Porto")
    assert len(found.matches) == 2
    best = found.matches[0]
    assert best.content_title == best.content
    assert best.content_url.endswith(best.id)
    assert best.content_publish_date == notes.entry(best.id).created_at
    assert found.matches[0].score >= found.matches[1].score


def test_a_detail_of_a_long_entry_is_found(memory: Memory) -> None:
    """S1.4: entries are cut into parts, as finely as the bank says, and each is embedded."""
    bank = memory.banks.create("long", type="general", mode="slow_and_thorough")
    filler = " ".join(f"The meeting of week {number} was about the budget and the schedule." for number in range(40))
    wanted = bank.add(f"{filler} By the way, my dog is allergic to chicken. {filler}", key="k").id
    for number in range(20):
        bank.add(f"Week {number}: {filler}", key="k")
    assert bank.search("what can the puppy not eat", key="k", top_n=1).matches[0].id == wanted


def test_search_defaults_and_ranges(notes: Bank) -> None:
    """S1.37, C32: 10 by default, from 1 to 100, and nothing is clamped."""
    for number in range(30):
        notes.add(f"note {number}", key="k")
    assert len(notes.search("note", key="k").matches) == 10
    assert len(notes.search("note", key="k", top_n=25).matches) == 25
    for wrong in (0, 101, -1):
        with pytest.raises(Invalid):
            notes.search("note", key="k", top_n=wrong)


def test_search_across_keys_and_where_that_is_off(memory: Memory, notes: Bank) -> None:
    """S1.35, C17: without a key all are searched, unless the bank forbids it."""
    notes.add("likes tea", key="a")
    notes.add("likes tea, too", key="b")
    assert {one.key for one in notes.search("tea").matches} == {"a", "b"}
    notes.update(cross_key_search=False)
    with pytest.raises(Forbidden):
        notes.search("tea")
    assert len(notes.search("tea", key="a").matches) == 1


def test_a_filter_narrows_and_never_widens(notes: Bank) -> None:
    """S1.40, S1.44, S1.45: k results whenever k match; a filter on `key` cannot leave the key."""
    for number in range(200):
        category = "decision" if number % 20 == 0 else "chat"
        notes.add(f"we talked about the plan {number}", key="a", metadata={"category": category})
    notes.add("the plan of b", key="b", metadata={"category": "decision"})
    found = notes.search("plan", key="a", filter={"category": {"$eq": "decision"}}, top_n=10)
    assert len(found.matches) == 10
    assert {one.metadata["category"] for one in found.matches} == {"decision"}
    for widening in ({"key": "b"}, {"key": {"$ne": "a"}}, {"$or": [{"key": "b"}, {"key": "c"}]}):
        assert notes.search("plan", key="a", filter=widening).matches == []
    everything = notes.search("plan of b", key="a", filter={"$or": [{"key": "b"}, {"category": "decision"}]}, top_n=100)
    assert {one.key for one in everything.matches} == {"a"}
    with pytest.raises(Invalid):
        notes.search("plan", key="a", filter={"category": {"$like": "d%"}})


def test_search_within_a_time(notes: Bank, clock: FrozenClock) -> None:
    """S1.38, S1.39: added after that time, and before it; what was added just then is neither."""
    moments = []
    for text in ("first note", "second note", "third note"):
        moments.append(notes.add(text, key="k").created_at)
        clock.advance(days=1)
    found = notes.search("note", key="k", added_after=moments[1])
    assert {one.content for one in found.matches} == {"third note"}
    found = notes.search("note", key="k", added_after=moments[1] - timedelta(microseconds=1))
    assert {one.content for one in found.matches} == {"second note", "third note"}
    found = notes.search("note", key="k", added_before=moments[1])
    assert {one.content for one in found.matches} == {"first note"}


def test_a_summary_is_searched_by_the_time_that_it_shows(memory: Memory, clock: FrozenClock) -> None:
    """S1.38, S1.39, S1.46: it is dated as the last entry that it is of, not as the night in which it was made."""
    bank = memory.banks.create("notes", type="general", max_turns=2)
    dates = []
    for number in range(4):
        dates.append(bank.add(f"We decided on plan {number}.", key="k").created_at)
        clock.advance(days=1)
    clock.advance(days=5)
    work(memory)
    bound = dates[2] + timedelta(hours=1)
    before = bank.search("plan", key="k", added_before=bound, content_type="text/html")
    assert [(one.summary_of, one.content_publish_date) for one in before.matches] == [(3, dates[2])]
    assert dates[2].isoformat().replace("+00:00", "Z") in (before.output or "")
    after = bank.search("plan", key="k", added_after=bound).matches
    assert [(one.summary_of, one.content_publish_date) for one in after] == [(None, dates[3])]


@pytest.mark.every_engine
def test_nothing_yet_is_no_error(notes: Bank, chats: Bank) -> None:
    """S1.47, S1.56: the first run."""
    for bank in (notes, chats):
        assert bank.search("anything", key="nobody").matches == []
        assert bank.search("anything").matches == []
    assert notes.load("nobody").entries == []
    assert chats.load("nobody").messages == []
    assert chats.load("nobody", content_type="text/plain").output == ""


def test_search_as_text(notes: Bank) -> None:
    """S1.41, S1.42: plain, escaped HTML; XML stays JSON."""
    notes.add("first <b>note</b>", key="k")
    notes.add("second note", key="k")
    plain = notes.search("note", key="k", content_type="text/plain").output or ""
    assert sorted(plain.split("\n---\n")) == ["first <b>note</b>", "second note"]
    page = notes.search("first", key="k", content_type="text/html").output or ""
    assert "&lt;b&gt;note&lt;/b&gt;" in page
    assert "<b>" not in page
    coerced = notes.search("note", key="k", content_type="application/xml")
    assert coerced.output is None
    assert len(coerced.matches) == 2


# -- load ----------------------------------------------------------------------------------------------------------------


def test_load_in_order(notes: Bank) -> None:
    """S1.50, S1.51, S1.53, S1.54, S1.59, C7: newest first by default, the earliest or the latest N."""
    for number in range(120):
        notes.add(f"note {number}", key="k")
    assert [one.content for one in notes.load("k").entries or []] == [f"note {number}" for number in range(119, 19, -1)]
    earliest = notes.load("k", order="oldest_first", limit=3).entries or []
    assert [one.content for one in earliest] == ["note 0", "note 1", "note 2"]
    assert all(one.created_at.tzinfo for one in earliest)
    assert len(notes.load("k", limit=1000).entries or []) == 120
    for wrong in (0, 1001):
        with pytest.raises(Invalid):
            notes.load("k", limit=wrong)
    with pytest.raises(Invalid):
        notes.load("k", order="random")  # type: ignore[arg-type]


def test_load_of_a_conversation_is_messages(chats: Bank) -> None:
    """S1.8, S1.58, S1.59: the type of bank decides, and the order holds for messages."""
    chat(chats, "k", "Hello", "Hi!", "Tell me more")
    oldest = chats.load("k", order="oldest_first").messages
    assert oldest == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "Tell me more"},
    ]
    assert chats.load("k").messages == [*reversed(oldest)]


def test_load_as_text_html_and_xml(notes: Bank, chats: Bank) -> None:
    """S1.52, S1.55, C8: dividers, escaped markup, real XML."""
    notes.add("one & <two>", key="k")
    notes.add("three\x0b", key="k")
    assert notes.load("k", content_type="text/plain", limit=1).output == "three\x0b"
    plain = notes.load("k", order="oldest_first", content_type="text/plain").output
    assert plain == "one & <two>\n---\nthree\x0b"
    assert "&lt;two&gt;" in (notes.load("k", content_type="text/html").output or "")
    tree = ElementTree.fromstring(notes.load("k", order="oldest_first", content_type="application/xml").output or "")  # noqa: S314 -- our own
    assert [entry.text for entry in tree] == ["one & <two>", "three"]
    chat(chats, "k", "Hello", "Hi!")
    assert chats.load("k", order="oldest_first", content_type="text/plain").output == "user: Hello\n---\nassistant: Hi!"


def test_xml_keeps_every_character_that_it_can(notes: Bank) -> None:
    """C8: a reader gets back what was written, line ends included."""
    text = "a\rb\r\nc\x85d\u2028e\x7f]]>&amp;<!-- 'q' \"d\" \t\U0001f600"
    notes.add(text, key="k")
    (entry,) = ElementTree.fromstring(notes.load("k", content_type="application/xml").output or "")  # noqa: S314 -- our own
    assert entry.text == text


def test_a_summary_says_so_in_every_output(chats: Bank, notes: Bank) -> None:
    """C8, C42: among messages, in text, HTML and XML, and as a field of entries and matches."""
    ids = [chats.add(f"turn {number}", key="k", speaker="user").id for number in range(3)]
    chats.add("They took turns.", key="k", speaker="user", compacts=ids)
    told = "[Summary of 3 earlier messages]\nThey took turns."
    assert chats.messages("k") == [{"role": "assistant", "content": told}]
    assert chats.load("k", content_type="text/plain").output == f"assistant: {told}"
    assert f"<p>assistant: {told}</p>" in (chats.load("k", content_type="text/html").output or "")
    (entry,) = ElementTree.fromstring(chats.load("k", content_type="application/xml").output or "")  # noqa: S314 -- our own
    assert (entry.get("role"), entry.get("summary_of"), entry.text) == ("assistant", "3", "They took turns.")
    notes.add("All noted.", key="k", compacts=noted(notes, 2))
    told = "[Summary of 2 earlier entries]\nAll noted."
    assert notes.load("k", content_type="text/plain").output == told
    assert notes.search("noted", key="k", content_type="text/plain").output == told
    assert 'data-summary-of="2"' in (notes.search("noted", key="k", content_type="text/html").output or "")
    assert notes.load("k", shape="array").array == [{"content": told, "title": "All noted."}]
    notes.add("later", key="k")
    assert [one.summary_of for one in notes.search("All noted", key="k").matches] == [2, None]
    assert [one.summary_of for one in notes.entries()] == [2, None]


def test_messages_are_those_of_conversations(notes: Bank) -> None:
    """S1.8, S1.58."""
    notes.add("a note", key="k")
    with pytest.raises(Invalid, match="general bank"):
        notes.messages("k")


def test_load_of_a_general_bank_as_a_bare_array(notes: Bank) -> None:
    """S1.60, C5: title and content, where that is wanted."""
    notes.add("A first line\nand more", key="k")
    notes.add("text", key="k", metadata={"title": "Given"})
    assert notes.load("k", order="oldest_first", shape="array").array == [
        {"content": "A first line\nand more", "title": "A first line"},
        {"content": "text", "title": "Given"},
    ]


# -- single entries, statistics ------------------------------------------------------------------------------------------


def test_entries_one_by_one_and_in_pages(memory: Memory, notes: Bank) -> None:
    """B1.11: what others cannot do."""
    for key in ("a", "b"):
        for number in range(7):
            notes.add(f"{key}{number}", key=key, metadata={"n": number})
    assert [one.content for one in notes.entries(key="b")] == [f"b{number}" for number in range(7)]
    assert len(list(notes.entries())) == 14
    assert [one.content for one in notes.entries(filter={"n": {"$gte": 6}})] == ["a6", "b6"]
    pages = []
    cursor = None
    while True:
        data = {"bank": notes.id, "limit": 4} | ({"cursor": cursor} if cursor else {})
        page = memory.call("banks.entries", data)
        pages.append([one.content for one in page.entries])
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [len(page) for page in pages] == [4, 4, 4, 2]
    assert [one for page in pages for one in page] == [f"{key}{number}" for key in "ab" for number in range(7)]
    with pytest.raises(NotFound):
        notes.entry("no-such-id")


@pytest.mark.every_engine
def test_entries_come_by_key_and_then_as_they_were_written(notes: Bank) -> None:
    """B1.11: whatever key was written to first; and `seq` is the same wherever an entry is shown."""
    ids = [notes.add(f"{key}{number}", key=key).id for number in range(3) for key in ("zoe", "adam")]
    assert [one.content for one in notes.entries()] == ["adam0", "adam1", "adam2", "zoe0", "zoe1", "zoe2"]
    summary = notes.add("zoe's first two", key="zoe", compacts=[ids[0], ids[2]])
    listed = {one.id: one.seq for one in notes.entries(key="zoe", include_compacted=True)}
    assert listed == {ids[0]: 1, ids[2]: 2, ids[4]: 3, summary.id: summary.seq} == {**listed, summary.id: 4}
    for hidden in (False, True):
        loaded = notes.load("zoe", include_compacted=hidden, order="oldest_first").entries or []
        assert {one.id: one.seq for one in loaded} == {one.id: listed[one.id] for one in loaded}
    assert [one.content for one in loaded] == ["zoe0", "zoe1", "zoe's first two", "zoe2"]
    assert {one: notes.entry(one).seq for one in listed} == listed


@pytest.mark.every_engine
def test_entries_behind_summaries_can_be_listed(memory: Memory, notes: Bank) -> None:
    """B1.11, C12: all of it, or exactly what one summary was made of, page by page; each says which it is behind."""
    ids = noted(notes, 5)
    inner = notes.add("0 to 2", key="k", compacts=ids[:3]).id
    outer = notes.add("0 to 3", key="k", compacts=[inner, ids[3]]).id
    notes.add("elsewhere", key="other")
    behind = {ids[0]: inner, ids[1]: inner, ids[2]: inner, ids[3]: outer, ids[4]: None, inner: outer, outer: None}
    made_of = {inner: 3, outer: 4}
    assert [one.id for one in notes.entries(key="k")] == [ids[4], outer]
    for listed in (
        list(notes.entries(key="k", include_compacted=True)),
        notes.load("k", include_compacted=True).entries or [],
        [notes.entry(one) for one in behind],
    ):
        assert {one.id: one.compacted_into for one in listed} == behind
        assert {one.id: one.summary_of for one in listed if one.summary_of} == made_of
    assert len(list(notes.entries(include_compacted=True))) == 8
    assert [one.id for one in notes.entries(include_compacted=True, filter={"n": {"$lt": 2}})] == ids[:2]
    assert [one.id for one in notes.entries(summary=inner)] == ids[:3]
    assert {one.compacted_into for one in notes.entries(summary=inner)} == {inner}
    assert [(one.id, one.summary_of) for one in notes.entries(summary=outer)] == [(ids[3], None), (inner, 3)]
    assert list(notes.entries(summary=ids[4])) == []
    first = memory.call("banks.entries", {"bank": notes.id, "summary": inner, "limit": 2})
    assert [one.id for one in first.entries] == ids[:2]
    rest = memory.call("banks.entries", {"bank": notes.id, "summary": inner, "cursor": first.next_cursor})
    assert ([one.id for one in rest.entries], rest.next_cursor) == ([ids[2]], None)
    with pytest.raises(NotFound):
        list(notes.entries(summary="no-such-id"))
    for wrong in ({"summary": inner, "key": "k"}, {"summary": "\ud800"}, {"summary": inner, "filter": {"n": 1}}):
        with pytest.raises(Invalid, match="summary"):
            list(notes.entries(**wrong))


@pytest.mark.every_engine
def test_listing_what_is_behind_summaries_over_the_wire(tmp_path: Path) -> None:
    """B1.11."""
    with live(tmp_path, worker=False) as server, server.memory() as memory:
        bank = memory.banks.create("notes", type="general")
        ids = noted(bank, 3)
        summary = bank.add("all", key="k", compacts=ids).id
        assert [one.compacted_into for one in bank.entries(include_compacted=True)] == [summary] * 3 + [None]
        assert [one.id for one in bank.entries(summary=summary)] == ids
        assert [one.id for one in bank.entries()] == [summary]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_that_nothing_is_left_of_is_gone_with_its_name(
    memory: Memory, notes: Bank, tmp_path: Path, at_once: bool
) -> None:
    """B1.9: no list names it, no file holds it, and it can be written to again."""
    ids = [notes.add("a secret", key="quokkaberry", idempotency_key=f"once {number}").id for number in range(2)]
    notes.add("stays", key="other")
    if at_once:
        job = notes.delete_entries(key="quokkaberry").job or ""
    else:
        notes.delete_entry(ids[0])
        assert counted(notes) == [("other", 1), ("quokkaberry", 1)]
        job = notes.delete_entry(ids[1]).job or ""
    assert counted(notes) == [("other", 1)]
    assert [one.key for one in notes.entries(include_compacted=True)] == ["other"]
    assert (memory.jobs.wait(job).result or {})["residual"] == 0
    assert not [name for name, data in remains(tmp_path / "home").items() if b"quokkaberry" in data]
    notes.add("again", key="quokkaberry")
    assert [one.content for one in notes.load("quokkaberry").entries or []] == ["again"]
    assert counted(notes) == [("other", 1), ("quokkaberry", 1)]


def test_a_key_stays_while_anything_is_left_of_it(memory: Memory, notes: Bank, clock: FrozenClock) -> None:
    """B1.9: also what is shown again once its summary is gone; not what has expired."""
    ids = noted(notes, 3)
    summary = notes.add("all", key="k", compacts=ids).id
    notes.delete_entry(summary)
    assert counted(notes) == [("k", 3)]
    clock.advance(days=10)
    late = notes.add("late", key="k").id
    clock.advance(days=25)
    assert counted(notes) == [("k", 1)]
    notes.delete_entry(late)
    assert counted(notes) == []
    noted(notes, 2)
    clock.advance(days=10)
    notes.delete_entry(notes.add("late", key="k").id)
    clock.advance(days=25)
    assert counted(notes) == [], "the others have expired, and the key has lasted longer than they"


def test_nothing_that_is_added_is_lost_while_its_key_is_emptied(notes: Bank) -> None:
    """B1.9: whoever comes first, an entry is there until it is deleted itself."""

    def add_and_delete(number: int) -> None:
        for turn in range(8):
            one = notes.add(f"{number}-{turn}", key="k").id
            assert notes.entry(one).content == f"{number}-{turn}"
            if turn % 4 < 3:
                notes.delete_entry(one)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add_and_delete, range(6)))
    wanted = {f"{number}-{turn}" for number in range(6) for turn in (3, 7)}
    assert {one.content for one in notes.entries(key="k")} == wanted
    assert counted(notes) == [("k", 12)]


@pytest.mark.every_engine
def test_deleting_by_filter(notes: Bank) -> None:
    """A dry run says what would go, a maximum refuses, and what is deleted is gone."""
    for number in range(10):
        notes.add(f"note {number}", key="k", metadata={"odd": number % 2 == 1})
    would = notes.delete_entries(filter={"odd": True}, dry_run=True)
    assert (len(would.ids), would.dry_run) == (5, True)
    assert len(list(notes.entries())) == 10
    with pytest.raises(Conflict):
        notes.delete_entries(filter={"odd": True}, maximum=4)
    with pytest.raises(Invalid):
        notes.delete_entries()
    assert sorted(notes.delete_entries(filter={"odd": True}).ids) == sorted(would.ids)
    assert [one.content for one in notes.entries()] == [f"note {number}" for number in range(0, 10, 2)]
    notes.delete_entry(next(iter(notes.entries())).id)
    assert len(notes.search("note", key="k", top_n=100).matches) == 4
    notes.delete_entries(key="k")
    assert list(notes.entries()) == []


def test_statistics(memory: Memory, chats: Bank, clock: FrozenClock) -> None:
    """B1.8: counts, tokens, ages, entries per key, top keys, speakers and tags."""
    for number in range(6):
        chats.add(f"message {number}", key="ab"[number % 3 == 0], speaker=("user", "assistant")[number % 2])
        clock.advance(days=1)
    chats.add("tagged", key="c", speaker="user", metadata={"tags": ["x", "y"]})
    stats = chats.stats()
    assert (stats.entries, stats.keys, stats.summaries, stats.compacted) == (7, 3, 0, 0)
    assert stats.entries_per_key.max == 4
    assert stats.age_days.max == 6
    assert stats.tokens > 7
    assert [(one.value, one.entries) for one in stats.top_keys] == [("a", 4), ("b", 2), ("c", 1)]
    assert [(one.value, one.entries) for one in stats.speakers] == [("user", 4), ("assistant", 3)]
    assert [one.value for one in stats.tags] == ["x", "y"]
    assert chats.stats(days=2).entries == 3
    start = datetime.now(UTC) + timedelta(days=10_000)
    assert chats.stats(start_date=start).entries == 0
    assert counted(chats) == [("a", 4), ("b", 2), ("c", 1)]
    assert memory.call("banks.templates", {})


def test_statistics_of_a_time(memory: Memory, clock: FrozenClock) -> None:
    """B1.8: compacted are entries, not summaries; of the same time as the rest, and not expired."""
    bank = memory.banks.create("notes", type="general", retention_days=40)
    start = bank.info().created_at
    ids = noted(bank, 4)
    clock.advance(days=10)
    ids += noted(bank, 2)
    inner = bank.add("0 to 2", key="k", compacts=ids[:3]).id
    bank.add("0 to 4", key="k", compacts=[inner, *ids[3:5]])
    assert bank.stats().compacted == 5
    assert (bank.stats(days=5).entries, bank.stats(days=5).compacted) == (2, 1)
    early = bank.stats(start_date=start, end_date=start + timedelta(days=1))
    assert (early.entries, early.compacted) == (0, 4)
    clock.advance(days=31)
    assert bank.stats(days=60).compacted == 1
    with pytest.raises(Invalid, match="end_date"):
        bank.stats(start_date=start, end_date=start)


def test_an_end_alone_means_the_days_before_it(notes: Bank, clock: FrozenClock) -> None:
    """B1.8."""
    start = notes.info().created_at
    for number in range(10):
        notes.add(f"note {number}", key="k")
        clock.advance(days=1)
    clock.advance(days=15)
    end = start + timedelta(days=6)
    assert notes.stats(end_date=end, days=2).entries == 2
    assert notes.stats(end_date=end).entries == 6
    assert notes.stats(days=16).entries == 1


@pytest.mark.parametrize(("count", "nearest"), [(1, 1), (2, 2), (19, 19), (20, 19), (21, 20)])
def test_the_95th_of_100_is_by_nearest_rank(memory: Memory, count: int, nearest: int) -> None:
    """B1.8: one of the numbers, which at least 95 of 100 do not pass."""
    bank = memory.banks.create("notes", type="general")
    for number in range(1, count + 1):
        for _ in range(number):
            bank.add("note", key=f"key {number}")
    assert (bank.stats().entries_per_key.p95, bank.stats().entries_per_key.max) == (nearest, count)


def test_the_history_is_the_compacted_one(memory: Memory) -> None:
    """S1.30: older messages come as a summary, by the bank's settings."""
    bank = memory.banks.create("chats", max_turns=4)
    chat(bank, "k", *(f"We decided on plan number {number}." for number in range(6)))
    engine_of(memory).worker.run_due("default")
    told = bank.add("And now?", key="k", speaker="user").messages or []
    assert told[0]["content"].startswith("[Summary of 4 earlier messages]\n")
    assert [one["content"] for one in told[1:]] == [
        "We decided on plan number 4.",
        "We decided on plan number 5.",
        "And now?",
    ]


def test_banks_can_be_managed_over_the_api_and_by_tools(memory: Memory) -> None:
    """S1.13: every operation has a route and is a tool of the MCP server."""
    from memwell.registry import OPERATIONS
    from memwell.surfaces.mcp.tools import build_tools

    banks = [one for one in OPERATIONS.values() if one.group == "banks"]
    assert {"create", "list", "get", "update", "delete", "add", "search", "load"} <= {one.verb for one in banks}
    assert all(one.path.startswith("/v1/memory_banks") for one in banks)
    tools = build_tools("all")
    assert {one.name.replace(".", "_") for one in banks} <= tools.keys()


@pytest.mark.every_engine
def test_a_filter_goes_through_arrays_of_objects(memory: Memory) -> None:
    """S1.40, C41: in searches of banks and facts, in lists, and where entries are deleted."""
    orders: list[tuple[str, dict[str, Any]]] = [
        ("Order one.", {"items": [{"name": "pen", "n": 2}, {"name": "ink", "n": 1}]}),
        ("Order two.", {"items": [{"name": "paper", "n": 10}], "to": {"tags": [{"kind": "gift"}]}}),
        ("Order three.", {"items": {"name": "pen", "n": 5}}),
    ]
    bank, flow = memory.banks.create("orders", type="general"), memory.flow("orders")
    for content, metadata in orders:
        bank.add(content, key="k", metadata=metadata)
        flow.write(content, metadata=metadata)
    for conditions, expected in (
        ({"items.name": "pen"}, {"Order one.", "Order three."}),
        ({"items.n": {"$gte": 5}}, {"Order two.", "Order three."}),
        ({"to.tags.kind": "gift"}, {"Order two."}),
        ({"items.name": {"$ne": "pen"}}, {"Order two."}),
    ):
        assert {one.content for one in bank.search("order", filter=conditions).matches} == expected
        assert {one.content for one in flow.search("order", filter=conditions)} == expected
        assert {one.content for one in flow.memories(filter=conditions)} == expected
    assert len(bank.delete_entries(filter={"items.name": "ink"}).ids) == 1
    assert {one.content for one in bank.search("order").matches} == {"Order two.", "Order three."}
