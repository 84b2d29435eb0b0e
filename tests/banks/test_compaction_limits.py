"""Compaction at its edges: very many entries, very long chains of summaries, and words whose time is over."""

from __future__ import annotations

import sys

import pytest

from memwell.banks import compaction
from memwell.model.collection import Entry
from memwell.storage.port import Tx
from memwell.testing import FrozenClock

from ..engines import Memory
from .test_compaction import chat, engine_of, messages, work


@pytest.mark.parametrize(
    ("limits", "most"), [({"max_turns": 60}, 60), ({"max_size_tokens": 400}, 60)], ids=["turns", "tokens"]
)
def test_thresholds_hold_for_more_entries_than_are_looked_at_at_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], most: int
) -> None:
    """B1.5: a threshold above what is read at once is a threshold all the same, and nothing is lost or doubled."""
    monkeypatch.setattr(compaction, "PAGE", 25)
    bank = memory.banks.create("chats")
    chat(bank, 200)
    bank.update(**limits)  # type: ignore[arg-type]
    bank.compact()
    work(memory)
    assert 1 < len(messages(bank)) <= most
    told = [one["content"] for one in messages(bank, include_compacted=True)]
    assert [one for one in told if one.startswith("We")] == [f"We decided on plan number {n}." for n in range(200)]


def test_many_turns_below_a_threshold_are_counted_once(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, a write looks only at what is new."""
    monkeypatch.setattr(compaction, "PAGE", 25)
    bank = memory.banks.create("chats", max_size_tokens=100_000)
    chat(bank, 80)
    looked: list[int] = []
    real = compaction.load_visible

    def load_visible(tx: Tx, address_id: int, now: int) -> compaction.Visible:
        looked.append(address_id)
        return real(tx, address_id, now)

    monkeypatch.setattr(compaction, "load_visible", load_visible)
    chat(bank, 20, first=80)
    assert looked == []


def test_a_long_chain_of_summaries_can_be_deleted(memory: Memory) -> None:
    """C12: each summary is behind the next, deeper than Python could follow by calling itself."""
    bank = memory.banks.create("notes", type="general", retention_days=None)
    first = bank.add("My passport is X1234567.", key="k").id
    last = first
    depth = sys.getrecursionlimit() // 4
    for number in range(depth):
        last = bank.add(f"Summary number {number}.", key="k", compacts=[last]).id
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth)
    try:
        gone = bank.delete_entry(first)
    finally:
        sys.setrecursionlimit(limit)
    assert gone.ids == [first]
    assert list(bank.entries()) == []


def test_words_are_not_handed_on_from_summary_to_summary_for_ever(memory: Memory, clock: FrozenClock) -> None:
    """S1.7: a summary is made of what is still kept, so that words last twice the retention at most."""
    bank = memory.banks.create("chats", retention_days=10, max_turns=4)
    bank.add("I am allergic to penicillin and my passport is X1234567.", key="k", speaker="user")
    for day in range(20):
        clock.advance(days=1)
        bank.add(f"Please book train number {day}.", key="k", speaker="user")
        work(memory)
        if day < 9:
            assert any("X1234567" in one["content"] for one in messages(bank))
    assert not any("X1234567" in one["content"] for one in messages(bank, include_compacted=True))
    told = messages(bank)
    assert told[0]["content"].startswith("[Summary of ")
    assert "train number" in told[0]["content"]
    assert int(told[0]["content"].split()[2]) <= 10, "it counts what it is made of"


def test_a_summary_has_the_metadata_that_all_its_sources_share(memory: Memory) -> None:
    """S1.12, S1.40: a filter that found the sources finds their summary."""
    bank = memory.banks.create("notes", type="general", max_turns=3)
    for number in range(8):
        bank.add(f"We decided on plan {number}.", key="k", metadata={"category": "decision", "number": number})
    work(memory)
    found = bank.search("plan", key="k", filter={"category": "decision"}).matches
    assert len(found) == len(list(bank.entries()))
    (summary,) = (one for one in bank.entries() if one.metadata and "compaction" in one.metadata)
    assert summary.metadata is not None
    assert "number" not in summary.metadata


def test_a_summary_is_trusted_as_little_as_what_it_is_made_of(memory: Memory) -> None:
    """What a model may have made up is not the user's word only because the user was there."""
    bank = memory.banks.create("chats", max_turns=2)
    chat(bank, 6)
    work(memory)
    (summary,) = (one for one in bank.entries() if one.metadata and "compaction" in one.metadata)
    store = engine_of(memory).store
    row = store.read("default", lambda tx: tx.row("entry_anywhere", id=summary.id))
    assert row is not None
    shown = store.read("default", lambda tx: tx.rows("shown_summaries_up", address_id=row[1], now=0, limit=2))
    assert [Entry(*one[2:]).origin for one in shown] == ["assistant"]


def test_entries_behind_a_manual_summary_are_in_no_other_summary(memory: Memory, clock: FrozenClock) -> None:
    """When it is deleted, no summary holds its words."""
    bank = memory.banks.create("notes", type="general", retention_days=30, max_turns=10)
    ids = []
    for number in range(1, 21):
        ids.append(bank.add(f"We decided on plan P{number}Q for the house.", key="k").id)
        clock.advance(days=1)
    by_hand = bank.add("Two plans.", key="k", compacts=[ids[9], ids[19]]).id
    work(memory)
    clock.advance(days=14.5)
    ids += [bank.add(f"We decided on plan P{number}Q for the house.", key="k").id for number in range(21, 28)]
    bank.add("Three plans.", key="k", compacts=[by_hand, ids[-1]])
    work(memory)
    shown = list(bank.entries())
    assert "P10Q" not in repr([one.content for one in shown])
    alive = sum(not one.summary_of for one in bank.entries(include_compacted=True))
    assert sum(one.summary_of or 1 for one in shown) == alive
    bank.delete_entry(ids[9])
    work(memory)
    assert "P10Q" not in repr(list(bank.entries(include_compacted=True)))
