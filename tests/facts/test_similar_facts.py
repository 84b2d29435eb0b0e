"""Facts of one conversation support each other in search, and similar facts are found for many candidates at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memwell.facts.plans import Plan

from ..engines import Memory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
THINGS = [
    "bed",
    "car",
    "desk",
    "fence",
    "guitar",
    "hat",
    "kite",
    "lamp",
    "map",
    "net",
    "oven",
    "piano",
    "rug",
    "sofa",
    "tent",
]
TALK = [
    ("Ann", "I adopted a puppy called Biscuit last week."),
    ("Ben", "I work as a baker in a village near Bern."),
    ("Ann", "I live in Lisbon, close to the river."),
    ("Ben", "I bought a red bicycle for two hundred euros."),
]


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "store", worker=False)


def talked(memory: Memory, flow: str, said: list[tuple[str, str]], at: datetime = NOON) -> Plan:
    turns = [
        {"role": "user", "name": name, "content": text, "occurred_at": at + timedelta(minutes=n)}
        for n, (name, text) in enumerate(said)
    ]
    memory.flow(flow).session(f"{at:%H}").history.extend(turns)
    plan = memory.flow(flow).consolidate(f"{at:%H}")
    assert plan is not None
    return plan


def arms(memory: Memory, flow: str, query: str) -> dict[str, dict[str, float]]:
    return {hit.content: dict(hit.arms or {}) for hit in memory.flow(flow).search(query, 10, explain=True)}


def test_facts_of_one_conversation_lend_each_other_nothing(memory: Memory) -> None:
    talked(memory, "talk", TALK)
    assert not any("neighbours" in one for one in arms(memory, "talk", "puppy Biscuit").values())


def test_facts_of_two_conversations_do_not(memory: Memory) -> None:
    for hour, one in enumerate(TALK[:2]):
        talked(memory, "talks", [one], NOON + timedelta(hours=2 * hour))
    assert not any("neighbours" in one for one in arms(memory, "talks", "puppy Biscuit").values())


def test_facts_that_were_written_one_by_one_stand_alone(memory: Memory) -> None:
    for _, text in TALK:
        memory.flow("notes").write(text)
    assert not any("neighbours" in one for one in arms(memory, "notes", "puppy Biscuit").values())


def test_a_fact_of_somebody_else_counts_less_when_somebody_is_named(memory: Memory) -> None:
    talked(memory, "named", TALK)
    found = arms(memory, "named", "What did Ann buy, a bicycle?")
    assert found["Ben bought a red bicycle for two hundred euros."]["speaker"] < 0


@pytest.mark.parametrize("embedder", ["wordllama", "none"])
def test_statements_repeated_in_another_session_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder: str
) -> None:
    """Among many others, by its meaning, or by its words where there is no model."""
    monkeypatch.setenv("MEMWELL_EMBEDDER", embedder)
    with Memory(tmp_path / "store", worker=False) as memory:
        talked(memory, "long", [("Ann", f"I bought a {thing}.") for thing in THINGS])
        talked(memory, "long", [("Ann", "I love hiking in the mountains.")], NOON + timedelta(hours=2))
        retold = [("Ann", "I really enjoy hiking in the mountains, you know.")]
        (step,) = talked(memory, "long", retold, NOON + timedelta(hours=4)).steps
        assert step.do == "merge"


def test_turns_lend_to_their_neighbours_and_notes_do_not(memory: Memory) -> None:
    flow = memory.flow("beside")
    for _, text in TALK:
        flow.session("s").history.append(role="user", content=text)
    turns = flow.search("puppy Biscuit", 10, include=["turns"], explain=True)
    assert any((hit.arms or {}).get("neighbours", 0.0) > 0 for hit in turns)
    for _, text in TALK:
        memory.flow("alone").write(text)
    assert not any("neighbours" in one for one in arms(memory, "alone", "puppy Biscuit").values())
