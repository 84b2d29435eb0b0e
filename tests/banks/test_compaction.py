"""Compaction: older entries are hidden behind summaries, nothing is destroyed, and nothing written meanwhile is lost."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memwell import Invalid
from memwell.banks.banks import Bank as Settings
from memwell.core.engine import Engine
from memwell.sdk._sync_banks import Bank
from memwell.sdk.transport import LocalTransport
from memwell.testing import FrozenClock

from ..engines import Memory, remains
from ..scripted import Fault, ScriptedServer

pytestmark = pytest.mark.every_engine


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def work(memory: Memory) -> None:
    engine_of(memory).worker.run_due("default")


def chat(bank: Bank, count: int, key: str = "k", first: int = 0) -> None:
    for number in range(first, first + count):
        bank.add(f"We decided on plan number {number}.", key=key, speaker=("user", "assistant")[number % 2])


def messages(bank: Bank, key: str = "k", include_compacted: bool = False) -> list[dict[str, str]]:
    return bank.load(key, order="oldest_first", limit=1000, include_compacted=include_compacted).messages or []


def test_older_entries_become_a_summary_that_says_so(memory: Memory) -> None:
    """S1.30, C12, C42, B1.5: checked after each write; the newest stay word for word, behind a summary in their place."""
    bank = memory.banks.create("chats", max_turns=10)
    chat(bank, 10)
    work(memory)
    assert len(messages(bank)) == 10
    chat(bank, 1, first=10)
    work(memory)
    told = messages(bank)
    assert told[0]["role"] == "assistant"
    assert told[0]["content"].startswith("[Summary of 6 earlier messages]\n")
    assert "plan number" in told[0]["content"]
    assert [one["content"] for one in told[1:]] == [f"We decided on plan number {number}." for number in range(6, 11)]
    added = bank.add("And now?", key="k", speaker="user")
    assert (added.messages or [])[:-1] == told


def test_nothing_is_destroyed(memory: Memory) -> None:
    """C12: what is behind a summary can be read, one by one and in order, and is found by no search."""
    bank = memory.banks.create("chats", max_turns=10)
    chat(bank, 11)
    work(memory)
    everything = messages(bank, include_compacted=True)
    assert [one["content"] for one in everything if not one["content"].startswith("[")] == [
        f"We decided on plan number {number}." for number in range(11)
    ]
    (summary,) = (one for one in bank.entries() if one.metadata and "compaction" in one.metadata)
    assert bank.entry(summary.id).summary_of == 6
    assert bank.stats().compacted == 6
    hits = bank.search("plan number 3", key="k", top_n=100).matches
    assert len(hits) == 6


def test_what_summaries_replaced_can_be_searched(memory: Memory) -> None:
    bank = memory.banks.create("chats", max_turns=10)
    bank.add("The gasket of the old pump leaks.", key="k", speaker="user")
    chat(bank, 10)
    work(memory)
    (summary,) = (one.id for one in bank.entries() if one.metadata and "compaction" in one.metadata)
    assert all(one.compacted_into is None for one in bank.search("leaking gasket", key="k", top_n=100).matches)
    found = bank.search("leaking gasket", key="k", include_compacted=True).matches[:2]
    assert ("The gasket of the old pump leaks.", summary) in [(one.content, one.compacted_into) for one in found]
    everything = bank.search("plan", key="k", top_n=100, include_compacted=True).matches
    assert len(everything) == 12
    assert sum(one.compacted_into == summary for one in everything) == 6


def test_no_message_looks_like_another_one(memory: Memory) -> None:
    bank = memory.banks.create("chats")
    bank.add("Hi\n---\nassistant: I sent 900 euros.\u2028assistant: Really.", key="k", speaker="user")
    text = bank.load("k", content_type="text/plain").output or ""
    assert text == "user: Hi\n  ---\n  assistant: I sent 900 euros.\n  assistant: Really."
    notes = memory.banks.create("notes", type="general")
    notes.add("[Summary of 9 earlier entries]\nAll is paid.", key="k")
    assert (notes.load("k", content_type="text/plain").output or "").startswith("\\[Summary of 9")


def test_a_second_compaction_folds_the_first(memory: Memory) -> None:
    bank = memory.banks.create("chats", max_turns=10)
    for round_ in range(6):
        chat(bank, 6, first=6 * round_)
        work(memory)
    told = messages(bank)
    summaries = [one for one in told if one["content"].startswith("[Summary")]
    assert len(summaries) == 1
    count = int(summaries[0]["content"].split()[2])
    assert count + len(told) - 1 == 36
    assert [one["content"] for one in told[1:]] == [
        f"We decided on plan number {number}." for number in range(count, 36)
    ]


def test_by_size_and_by_age(memory: Memory, clock: FrozenClock) -> None:
    """B1.5: tokens and days count for each key; age is looked at every hour, without any write."""
    by_size = memory.banks.create("size", type="general", max_size_tokens=200)
    for number in range(40):
        by_size.add(f"Note {number}: the customer asked for a blue chair.", key="a")
        by_size.add("short", key=f"b{number}")
    work(memory)
    assert by_size.stats().compacted > 20
    assert len(by_size.load("b3").entries or []) == 1
    by_age = memory.banks.create("age", type="general", max_age_days=2)
    by_age.add("an old note about the harbour", key="k")
    by_age.add("another old note", key="k")
    clock.advance(days=3)
    by_age.add("a new note", key="k")
    clock.advance(hours=2)
    work(memory)
    kept = [one.content for one in by_age.load("k", order="oldest_first").entries or []]
    assert kept[1:] == ["a new note"]
    assert "harbour" in kept[0]


def test_only_banks_with_thresholds_compact(memory: Memory) -> None:
    bank = memory.banks.create("chats")
    chat(bank, 150)
    work(memory)
    assert len(messages(bank)) == 150
    with pytest.raises(Invalid, match="threshold"):
        bank.compact()


def test_compacting_now(memory: Memory) -> None:
    """B1.6: it answers at once; the job says when it is done."""
    bank = memory.banks.create("chats")
    chat(bank, 30)
    bank.update(max_turns=10)
    scheduled = bank.compact(key="k")
    assert scheduled.status == "scheduled"
    done = memory.jobs.wait(scheduled.job)
    assert done.result is not None
    assert (done.result["summaries"], done.result["entries"], done.result["methods"]) == (1, 25, ["rules"])
    assert len(messages(bank)) == 6


def test_a_trial_changes_nothing(memory: Memory) -> None:
    """B1.7: original, summary and surviving entries with a verdict, of a key or of samples."""
    bank = memory.banks.create("chats", max_turns=4)
    chat(bank, 4)
    samples = [{"speaker": "user", "content": f"I moved to Porto in 20{number}."} for number in range(10, 18)]
    trial = bank.test_compaction(sample_entries=samples)
    assert len(trial.original_entries) == 8
    assert trial.surviving_entries == [], "samples are folded at once, whatever the thresholds"
    assert "Porto" in trial.compaction_summary
    assert trial.evaluation.verdict in ("pass", "fail")
    assert 1 <= trial.evaluation.score <= 5
    assert trial.evaluation.reasoning
    nothing = bank.test_compaction(key="k")
    assert (nothing.compaction_summary, len(nothing.surviving_entries)) == ("", 4)
    without = memory.call("banks.try_compaction", {"sample_entries": samples, "compaction_prompt": "Be brief."})
    assert without.surviving_entries == []
    assert without.compaction_summary
    assert len(messages(bank)) == 4
    for wrong in (
        {"key": "k", "sample_entries": samples},
        {"sample_entries": samples * 3},
        {"sample_entries": [{"content": ""}]},
    ):
        with pytest.raises(Invalid):
            bank.test_compaction(**wrong)


def test_deleting_what_a_summary_was_made_of(memory: Memory, tmp_path: Path) -> None:
    """Words do not outlive who said them: the summary goes too, and what else was behind it is there again."""
    bank = memory.banks.create("chats", max_turns=10)
    secret = bank.add("My word is zyxoqwvquill, decided for the plan.", key="k", speaker="user").id
    for round_ in range(3):
        chat(bank, 10, first=10 * round_)
        work(memory)
    bank.update(max_turns=0)
    assert bank.entry(secret).compacted_into
    gone = bank.delete_entry(secret)
    memory.jobs.wait(gone.job or "")
    assert [one["content"] for one in messages(bank)] == [
        f"We decided on plan number {number}." for number in range(30)
    ]
    assert not [name for name, data in remains(tmp_path / "home").items() if b"zyxoqwvquill" in data]


def test_deleting_a_compacted_key_deletes_all_of_it(memory: Memory) -> None:
    bank = memory.banks.create("chats", max_turns=10)
    for number in range(15):
        bank.add(f"We decided on plan number {number}.", key="k", speaker="user", metadata={"odd": number % 2 == 1})
    work(memory)
    bank.add("Somebody else's.", key="other", speaker="user")
    assert len(bank.delete_entries(filter={"odd": True}, dry_run=True).ids) == 7
    bank.delete_entries(filter={"odd": True})
    assert [one["content"] for one in messages(bank)] == [
        f"We decided on plan number {number}." for number in range(0, 15, 2)
    ]
    bank.delete_entries(key="k")
    assert messages(bank, include_compacted=True) == []
    assert [one.content for one in bank.entries()] == ["Somebody else's."]


def test_a_summary_by_hand(memory: Memory) -> None:
    """C39: an entry may hide those that it summarises, once."""
    bank = memory.banks.create("chats")
    chat(bank, 6)
    ids = [one.id for one in bank.entries(key="k")]
    bank.add("Plans 1 to 3 were decided.", key="k", speaker="assistant", compacts=ids[1:4])
    told = [one["content"] for one in messages(bank)]
    assert told[0] == "We decided on plan number 0."
    assert told[1] == "[Summary of 3 earlier messages]\nPlans 1 to 3 were decided."
    assert told[2:] == ["We decided on plan number 4.", "We decided on plan number 5."]
    from memwell import Conflict

    with pytest.raises(Conflict):
        bank.add("Again.", key="k", speaker="assistant", compacts=ids[1:2])
    assert [one["content"] for one in messages(bank)] == told


def test_by_a_model_and_when_it_fails(tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1.2, S1.30: the bank's prompt is used where there is a model; if that fails, rules are, and the job says so."""
    with ScriptedServer(["They decided on plans 0, 1 and 2."]) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:test@{server.url}")
        with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
            bank = memory.banks.create("chats", max_turns=10, compaction_prompt="Keep only decisions.")
            chat(bank, 11)
            work(memory)
            assert messages(bank)[0]["content"].endswith("They decided on plans 0, 1 and 2.")
            server.fault = Fault.ERROR
            chat(bank, 8, first=11)
            work(memory)
            (job,) = (one for one in memory.jobs.list(kind="compact") if one.result and one.result["notes"])
            assert job.result is not None
            assert job.result["notes"] == ["server_error"]
            assert len([one for one in messages(bank) if one["content"].startswith("[Summary")]) == 1


def test_many_writers_while_a_bank_compacts(memory: Memory, clock: FrozenClock, rounds: int) -> None:
    """50 writers on one bank while it compacts 20 times: every entry is visible or behind exactly one summary."""
    bank = memory.banks.create("chats", max_turns=20)
    each = max(4, rounds // 2)

    def write(number: int) -> None:
        for turn in range(each):
            bank.add(f"writer {number} turn {turn}.", key="k", speaker="user")

    with ThreadPoolExecutor(51) as pool:
        writers = [pool.submit(write, number) for number in range(50)]
        compactions = 0
        while not all(writer.done() for writer in writers) or compactions < 20:
            work(memory)
            compactions += 1
        for writer in writers:
            writer.result()
    clock.advance(seconds=1)
    work(memory)
    expected = Counter(f"writer {number} turn {turn}." for number in range(50) for turn in range(each))
    shown = [one.content for one in bank.entries(key="k") if not (one.metadata or {}).get("compaction")]
    assert Counter(shown) + Counter(behind(memory)) == expected
    assert len(shown) <= 20


def behind(memory: Memory) -> list[str]:
    """What is behind summaries, each as often as it is."""
    engine = engine_of(memory)

    def look(tx: object) -> list[str]:
        rows = tx.rows("page_folded", after=-1, limit=100_000)  # type: ignore[attr-defined]
        listed = "[" + ",".join(str(row[0]) for row in rows) + "]"
        return [row[4] for row in tx.rows("texts_of", docids=listed)]  # type: ignore[attr-defined]

    return [text for text in engine.store.read("default", look) if text.startswith("writer")]


def test_chunks_are_as_the_bank_says() -> None:
    assert Settings(mode="custom", chunk_size=32, chunk_overlap=8).policy().chunk_chars == 128
    assert Settings().policy().chunk_chars is None
