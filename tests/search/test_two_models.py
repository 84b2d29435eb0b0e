"""A sentence model beside the light one: facts at once, short turns in the background, long turns by the light model."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from memwell.testing import FrozenClock

from ..engines import Memory

pytestmark = pytest.mark.engines("sqlite")

SHORT = "I take the night train to Vienna."
LONG = " ".join(f"Item {number} of the list is about the weather in the mountains." for number in range(20))


def open_memory(home: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, embedder: str = "minilm") -> Memory:
    monkeypatch.setenv("MEMWELL_EMBEDDER", embedder)
    return Memory(home, worker=False, clock=clock)


def run_jobs(memory: Memory) -> None:
    memory._transport.engine.worker.run_due("default")  # type: ignore[attr-defined]


def count_vectors(home: Path) -> Counter[str]:
    """The number of entries with vectors, by model."""
    (file,) = (home / "tenants").rglob("*.db")
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        rows = database.execute(
            "SELECT m.name, COUNT(DISTINCT v.docid) FROM vector v JOIN model m ON m.id = v.model GROUP BY m.name"
        )
        return Counter(dict(rows))


def test_turns_are_searched_by_the_light_model_until_the_job_has_embedded_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    with open_memory(tmp_path, clock, monkeypatch) as memory:
        flow = memory.flow("f")
        for text in (SHORT, LONG):
            flow.session("s").history.append(role="user", content=text)
        flow.write("The customer is lactose intolerant.")
        query = "rail travel to Austria"
        early = flow.search(query, include=["turns"], explain=True)
        assert early.method == "words+meaning"
        assert early.warning is None
        assert flow.search("can she drink milk")[0].score > 0.1, "a search embeds new facts itself"
        clock.advance(seconds=10)
        run_jobs(memory)
        late = flow.search(query, include=["turns"], explain=True)
        assert late[0].content == early[0].content == SHORT
        assert late[0].score > early[0].score
    counted = count_vectors(tmp_path)
    light, sentence = (
        next(number for name, number in counted.items() if word in name) for word in ("wordllama", "minilm")
    )
    assert (light, sentence) == (3, 2), "the long turn has a light vector only"


def test_a_store_of_the_light_model_is_embedded_again_and_searched_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    with open_memory(tmp_path, clock, monkeypatch, "wordllama") as memory:
        session = memory.flow("f").session("s")
        session.history.extend([{"role": "user", "content": f"Parcel {number} is late."} for number in range(40)])
        session.history.append(role="user", content=SHORT)
        assert memory.flow("f").search("Vienna", include=["turns"])[0].content == SHORT
    with open_memory(tmp_path, clock, monkeypatch) as memory:
        flow = memory.flow("f")
        assert flow.search("Vienna", include=["turns"])[0].content == SHORT
        clock.advance(seconds=10)
        run_jobs(memory)
        assert flow.search("rail travel to Austria", include=["turns"])[0].content == SHORT
    counted = count_vectors(tmp_path)
    assert sorted(counted.values()) == [41, 41]


def test_a_sentence_that_is_deleted_leaves_no_vector_of_either_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    with open_memory(tmp_path, clock, monkeypatch) as memory:
        me = memory.user("alice")
        me.add("I keep bees on the roof.")
        assert me.search("does she have bees").hits
        assert set(count_vectors(tmp_path).values()) == {1}
        me.forget()
        clock.advance(seconds=60)
    assert not count_vectors(tmp_path)
