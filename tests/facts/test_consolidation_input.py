"""Consolidation of unusual sessions: enormous, without words, ended twice, deleted meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest

import memwell.facts.consolidation
from memwell.facts.datatypes import PlanDraft

from ..contract.conftest import engine_of
from ..engines import Memory

MEBIBYTE = 1 << 20
SAID = {
    "emoji": ["🎉🎉🎉", "👍", "❤️🔥"],
    "blank": ["   ", "\n\n"],
    "Chinese": ["我住在上海。", "我喜欢吃辣的。"],
    "Arabic": ["أعيش في القاهرة.", "أحب القهوة."],
    "German": ["Ich wohne in Hamburg.", "Ich bin gegen Nüsse allergisch."],
}
KEPT = {"emoji": 0, "blank": 0, "Chinese": 2, "Arabic": 2, "German": 2}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "store", worker=False)


def told(memory: Memory, *texts: str, session: str = "s") -> None:
    turns = [{"role": "user", "name": "Alice", "content": text} for text in texts]
    memory.flow("f").session(session).history.extend(turns)


def work(memory: Memory) -> None:
    engine_of(memory).worker.run_due("default")


def state(memory: Memory, job: str | None) -> str:
    return memory.jobs.show(job or "").state


@pytest.mark.parametrize("kind", SAID)
def test_whatever_is_said_the_job_is_done(memory: Memory, kind: str) -> None:
    told(memory, *SAID[kind])
    job = memory.flow("f").session("s").end().job
    work(memory)
    assert state(memory, job) == "done"
    assert len(memory.flow("f").memories()) == KEPT[kind]
    assert [turn.content for turn in memory.flow("f").session("s").history.last()] == SAID[kind]


@pytest.mark.parametrize("piece", ["I have a dog. ", "x", "我住在上海。"])
def test_a_turn_of_a_mebibyte(memory: Memory, piece: str) -> None:
    told(memory, piece * (MEBIBYTE // len(piece.encode())))
    job = memory.flow("f").session("s").end().job
    work(memory)
    assert state(memory, job) == "done"
    assert len(memory.flow("f").memories()) <= 1


def test_a_session_longer_than_one_plan(memory: Memory, rounds: int) -> None:
    """Each turn is consumed once; fifty plans with `--rounds 200`."""
    count = 50_000 if rounds >= 200 else 1500
    for at in range(0, count, 500):
        told(memory, *(f"I bought lamp number {n}." for n in range(at, at + 500)))
    job = memory.flow("f").session("s").end().job
    work(memory)
    assert state(memory, job) == "done"
    plans = sorted(memory.flow("f").plans(), key=lambda plan: plan.first_seq)
    assert [plan.first_seq for plan in plans] == [1, *(plan.last_seq + 1 for plan in plans[:-1])]
    assert plans[-1].last_seq == count
    assert sum(plan.counts["added"] for plan in plans) == count


def test_ended_twice_at_once(memory: Memory) -> None:
    told(memory, "I live in Lisbon.")
    together = Barrier(4)

    def end() -> None:
        together.wait()
        memory.flow("f").session("s").end()

    threads = [Thread(target=end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(memory)
    assert [found.content for found in memory.flow("f").memories()] == ["Alice lives in Lisbon."]
    assert len(memory.flow("f").plans()) == 1


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something once, after a plan was made and before it is applied."""
    planned, left = memwell.facts.consolidation.build_draft, [do]

    def interrupted(*given: object) -> PlanDraft:
        made = planned(*given)  # type: ignore[arg-type]
        if left:
            left.pop()()
        return made

    monkeypatch.setattr(memwell.facts.consolidation, "build_draft", interrupted)


def test_written_to_while_it_is_distilled(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    told(memory, "I live in Lisbon.")
    job = memory.flow("f").session("s").end().job
    meanwhile(monkeypatch, lambda: told(memory, "I have two cats."))
    work(memory)
    assert state(memory, job) == "done"
    assert [found.content for found in memory.flow("f").memories()] == ["Alice lives in Lisbon."]
    memory.flow("f").session("s").end()
    work(memory)
    assert len(memory.flow("f").memories()) == 2


def test_deleted_while_it_is_distilled(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    told(memory, "I live in Lisbon.")
    told(memory, "I have two cats.", session="other")
    memory.flow("f").session("s").end()
    memory.flow("f").session("other").end()
    meanwhile(monkeypatch, lambda: memory.call("flows.delete_session", {"flow": "f", "session": "s"}))
    for _ in range(3):
        work(memory)
    assert {job.state for job in memory.jobs.list(kind="consolidate")} == {"done"}
    assert [found.content for found in memory.flow("f").memories()] == ["Alice has two cats."]
    assert "Lisbon" not in str(memory.flow("f").plans())


def test_known_by_others_while_it_is_distilled(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session says the same first: there is one fact, with the evidence of both."""
    told(memory, "I live in Lisbon.")
    told(memory, "I live in Lisbon.", session="other")
    memory.flow("f").session("s").end()
    meanwhile(monkeypatch, lambda: memory.flow("f").consolidate("other"))
    work(memory)
    (fact,) = memory.flow("f").memories()
    assert len(memory.flow("f").memory_history(fact.id).evidence) == 2
