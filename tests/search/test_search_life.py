"""A process that has run for long finds the same as a fresh one, and no deleted entries."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from memwell import Hits, Invalid
from memwell.sdk.transport import LocalTransport

from ..engines import Memory, remains


def run_jobs(memory: Memory) -> None:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    transport.engine.worker.run_due("default")


def found(hits: Hits) -> list[tuple[str, float]]:
    return [(hit.content, hit.score) for hit in hits]


def say(memory: Memory, session: str, name: str, *contents: str) -> None:
    turns = [{"role": "user", "name": name, "content": content} for content in contents]
    memory.flow("f").session(session).history.extend(turns)


# -- speakers ----------------------------------------------------------------------------------------------------------


def test_the_order_in_which_speakers_came_does_not_matter(tmp_path: Path) -> None:
    query = "what did Sam Smith say about cake"
    with Memory(tmp_path, worker=False) as memory:
        say(memory, "b", "Sam", "I bake a cake on Sundays")
        memory.flow("f").search(query, include=["turns"])
        say(memory, "a", "Sam Smith", "My cake is of chocolate")
        old = found(memory.flow("f").search(query, include=["turns"]))
        with Memory(tmp_path, worker=False) as fresh:
            assert found(fresh.flow("f").search(query, include=["turns"])) == old
        assert old[0][0] == "My cake is of chocolate"


def test_speakers_that_are_gone_are_no_speakers(tmp_path: Path) -> None:
    query = "what did Carol bake"
    with Memory(tmp_path, worker=False) as memory, Memory(tmp_path, worker=False) as other:
        say(memory, "a", "Bob", "Carol and I bake bread")
        say(memory, "b", "Carol", "I bake a pie")
        memory.flow("f").search(query, include=["turns"])
        other.flow("f").session("b").delete()
        with Memory(tmp_path, worker=False) as fresh:
            expected = found(fresh.flow("f").search(query, include=["turns"]))
        assert found(memory.flow("f").search(query, include=["turns"])) == expected


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_question_about_a_day_finds_it_among_many(tmp_path: Path) -> None:
    first = datetime(2023, 1, 1, 9, tzinfo=UTC)
    with Memory(tmp_path, worker=False) as memory:
        session = memory.flow("f").session("diary")
        for month in range(0, 1200, 300):
            days = [first + timedelta(days=day) for day in range(month, month + 300)]
            session.history.extend(
                [{"role": "user", "content": f"Entry of day {n}", "occurred_at": day} for n, day in enumerate(days)]
            )
        for query in ("What happened on 8 September 2024?", "8 September 2024"):
            hits = memory.flow("f").search(query, include=["turns"])
            assert hits[0].occurred_at.date() == datetime(2024, 9, 8, tzinfo=UTC).date()


# -- languages ---------------------------------------------------------------------------------------------------------


def test_a_language_can_be_set_before_and_after(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("f")
        flow.write("Die Häuser am See")
        assert flow.search("Haus", recipe="words").hits == []
        assert flow.configure(language="de").language == "de"
        assert memory.call("flows.settings", {"flow": "f"}).language == "de"
        run_jobs(memory)
        flow.write("Zwei Häuser im Wald")
        assert len(flow.search("Haus", recipe="words")) == 2
        assert memory.call("users.settings", {"user": "alice"}).language == "en"
        assert memory.user("alice").configure(language="pt").language == "pt"
        with pytest.raises(Invalid, match="is not supported"):
            flow.configure(language="xx")


def test_a_language_set_while_another_is_being_indexed_is_not_lost(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        transport = memory._transport
        assert isinstance(transport, LocalTransport)
        for name in ("f", "g"):
            memory.flow(name).import_lines([{"type": "memory", "content": f"Häuser {n}"} for n in range(700)])
        memory.flow("g").configure(language="de")
        working = Thread(target=run_jobs, args=(memory,))
        working.start()
        memory.flow("f").configure(language="de")
        working.join()
        run_jobs(memory)
        for name in ("f", "g"):
            assert len(memory.flow(name).search("Haus", limit=1000, recipe="words")) == 700


# -- many at once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["words", "default"])
def test_searching_while_others_write(tmp_path: Path, recipe: str) -> None:
    errors: list[Exception] = []
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("f")

        def write() -> None:
            for number in range(60):
                flow.write(f"apple number {number}")

        def search() -> None:
            try:
                for _ in range(60):
                    assert all("apple" in hit.content for hit in flow.search("apple", recipe=recipe))
            except Exception as error:  # noqa: BLE001 -- told by the test
                errors.append(error)

        threads = [Thread(target=work) for work in (write, write, search, search, search, search)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(flow.search("apple", limit=1000, recipe=recipe)) == 120


# -- erasure -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_no_word_of_many_is_left_in_any_file(tmp_path: Path, seed: int) -> None:
    """Trees that were balanced keep copies of what was moved in the gaps of their pages, until the file is written anew."""
    chance = random.Random(seed)

    def text() -> str:
        words = ("".join(chance.choices("bcdfghjklmnpqrstvwxz", k=chance.randint(6, 12))) for _ in range(30))
        return " ".join(words)

    said = set()
    with Memory(tmp_path, worker=False) as memory:
        alice, bob = memory.user("alice"), memory.user("bob")
        for number in range(150):
            mine = text()
            said |= {word for word in mine.split() if len(word) >= 10}
            alice.add(mine)
            bob.add(text())
            if number % 50 == 0:
                alice.search("hello")
        assert alice.forget().residual == 0
    data = b"".join(remains(tmp_path).values())
    assert [word for word in said if word.encode() in data] == []
