"""Consolidation with a language model behind it: it proposes, the engine decides, and whatever fails is seen on the job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memwell.core.engine import Engine
from memwell.sdk._sync import Flow
from memwell.sdk.transport import LocalTransport

from ..engines import Memory
from ..scripted import Fault, ScriptedServer

PROPOSED = {
    "facts": [
        {
            "text": "Alice lives in Lisbon, by the river.",
            "subject": "Alice",
            "kind": "attribute",
            "importance": 0.8,
            "confidence": 0.9,
            "evidence": [{"turn": "t1", "quote": "I live in Lisbon"}],
        }
    ]
}
SLOW = {Fault.HANG, Fault.DRIP, Fault.DRIP_HEADERS}


@contextmanager
def asking(home: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, options: str = "") -> Iterator[Memory]:
    monkeypatch.setenv("MEMWELL_LLM", f"openai:scripted@{server.url}?timeout_s=1{options}")
    with Memory(home, worker=False) as memory:
        yield memory


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def distilled(memory: Memory, flow: Flow, session: str = "s1") -> dict[str, Any]:
    """What the job for a session says came of it."""
    flow.session(session).history.append(
        role="user", name="Alice", content="I live in Lisbon, by the river. I have two cats."
    )
    job = flow.session(session).end().job
    assert job is not None
    engine_of(memory).worker.run_due("default", without=("embed",))
    found = memory.jobs.show(job)
    assert found.state == "done", found.error
    assert found.result is not None
    return found.result


def spent(memory: Memory) -> tuple[int, ...]:
    row = engine_of(memory).store.read("default", lambda tx: tx.row("spent_since", day=0))
    assert row is not None
    return tuple(int(number) for number in row)


def test_proposals_of_a_model_are_checked_and_become_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([PROPOSED]) as server, asking(tmp_path, server, monkeypatch) as memory:
        flow = memory.flow("support")
        assert distilled(memory, flow)["notes"] == []
        (fact,) = flow.memories()
        assert fact.content == "Alice lives in Lisbon, by the river."
        (evidence,) = flow.memory_history(fact.id).evidence
        assert evidence.words == "I live in Lisbon"
        assert flow.plans()[0].method == "model"
        calls, tokens_in, tokens_out = spent(memory)
        assert calls == 1
        assert tokens_in > 0
        assert tokens_out > 0


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_the_rules_take_over_if_a_model_fails_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, rounds: int
) -> None:
    """G19: a named reason on the job and on the plan, the facts of the rules, nothing lost and nothing twice; with
    `--rounds 200`, twenty jobs of each kind."""
    jobs = 20 if rounds >= 200 else 1
    with ScriptedServer([PROPOSED], fault=fault, drip_s=0.2) as server, asking(tmp_path, server, monkeypatch) as memory:
        flow = memory.flow("support")
        for number in range(jobs):
            reasons = distilled(memory, flow, f"s{number}")["notes"]
            assert (reasons == []) == (fault is Fault.DUPLICATES)
            assert (reasons == ["timeout"]) == (fault in SLOW)
            assert flow.plans()[0].note == (reasons[0] if reasons else None)
        sessions = {f"s{number}" for number in range(jobs)}
        require_each_once(flow, sessions)
        assert spent(memory)[0] == len(server.requests)


def require_each_once(flow: Flow, sessions: set[str]) -> None:
    """Every session was distilled once, by one plan, and each fact is there once, on the words of all of them."""
    assert sorted(plan.session or "" for plan in flow.plans()) == sorted(sessions)
    facts = flow.memories()
    assert facts
    assert len({fact.content for fact in facts}) == len(facts)
    for fact in facts:
        evidence = flow.memory_history(fact.id).evidence
        assert sorted(one.session or "" for one in evidence) == sorted(sessions)


def test_a_budget_holds_whatever_the_model_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """G19: what a failed call may have cost counts, so that the model is asked no more once the budget might be gone."""
    quick = [fault for fault in Fault if fault not in SLOW | {Fault.DEEP}]
    budget = 60_000
    with (
        ScriptedServer([PROPOSED], drip_s=0.2) as server,
        asking(tmp_path, server, monkeypatch, f"&tokens_per_day={budget}") as memory,
    ):
        flow = memory.flow("support")
        for number in range(240 if rounds >= 200 else 32):
            server.fault = quick[number % len(quick)]
            notes = distilled(memory, flow, f"s{number}")["notes"]
            assert sum(spent(memory)[1:]) <= budget
        assert notes == ["budget"]
        asked = len(server.requests)
        assert distilled(memory, flow, "last")["notes"] == ["budget"]
        assert len(server.requests) == asked


def test_a_budget_stops_spending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "&tokens_per_day=7000"
    with ScriptedServer([PROPOSED]) as server, asking(tmp_path, server, monkeypatch, options) as memory:
        flow = memory.flow("support")
        results = [distilled(memory, flow, f"s{number}")["notes"] for number in range(12)]
        assert results[0] == []
        assert results[-1] == ["budget"]
        calls, tokens_in, tokens_out = spent(memory)
        assert tokens_in + tokens_out <= 7000
        assert calls == len(server.requests) < 12


def test_a_model_that_writes_more_than_it_may_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has cost is counted as its server counts, even beyond the budget; it stops there."""
    with (
        ScriptedServer([PROPOSED], fault=Fault.DEEP) as server,
        asking(tmp_path, server, monkeypatch, "&tokens_per_day=20000") as memory,
    ):
        flow = memory.flow("support")
        results = [distilled(memory, flow, f"s{number}")["notes"] for number in range(5)]
        assert len(server.requests) == spent(memory)[0] == 1
        assert results[1:] == [["budget"]] * 4
        assert sum(spent(memory)[1:]) > 20_000


def test_the_key_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-7f3a")
    with (
        ScriptedServer([PROPOSED], fault=Fault.UNAUTHORISED) as server,
        asking(tmp_path, server, monkeypatch) as memory,
    ):
        result = distilled(memory, memory.flow("support"))
        assert result["notes"] == ["unauthorised"]
        assert "canary" not in str(memory.jobs.list()) + caplog.text
