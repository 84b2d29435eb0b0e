"""Consolidation with a language model behind it: it reviews what the rules found, and whatever fails is seen on the job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memwell.core.engine import Engine
from memwell.facts.model_extractor import LOCAL_LIMITS
from memwell.sdk._sync import Flow
from memwell.sdk.transport import LocalTransport
from memwell.testing import SmallModel

from ..engines import Memory
from ..scripted import ChatRequest, Fault, ScriptedServer

KEPT = '{"n":1,"do":"keep"}\n{"n":2,"do":"keep"}'
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


def distilled(
    memory: Memory, flow: Flow, session: str = "s1", said: str = "I live in Lisbon, by the river. I have two cats."
) -> dict[str, Any]:
    """What the job for a session says came of it."""
    flow.session(session).history.append(role="user", name="Alice", content=said)
    job = flow.session(session).end().job
    assert job is not None
    engine_of(memory).worker.run_due("default", without=("embed",))
    found = memory.jobs.show(job)
    assert found.state == "done", found.error
    assert found.result is not None
    return found.result


def list_drafts(request: ChatRequest) -> list[dict[str, Any]]:
    """The drafts that the model is shown."""
    lines = [line for line in request.prompt.splitlines() if line.startswith('{"n":') and '"do":' not in line]
    return [json.loads(line) for line in lines]


def answer_by(model: SmallModel, request: ChatRequest) -> str:
    return model.answer(request.contents)


def spent(memory: Memory) -> tuple[int, ...]:
    row = engine_of(memory).store.read("default", lambda tx: tx.row("spent_since", day=0))
    assert row is not None
    return tuple(int(number) for number in row)


def test_a_model_rewords_what_the_rules_found_and_the_plan_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "So, as I said, my landlord Tom raised my rent to 900 euros. I have two cats."

    def answer(request: ChatRequest) -> str:
        """Take the quotation off the draft that has one, and keep the others."""
        drafts = list_drafts(request)
        texts = {
            one["n"]: "Alice's landlord Tom raised her rent to 900 euros." for one in drafts if "900" in one["text"]
        }
        return "\n".join(
            json.dumps(
                {"n": one["n"], "do": "reword", "text": texts[one["n"]]}
                if one["n"] in texts
                else {"n": one["n"], "do": "keep"}
            )
            for one in drafts
        )

    with ScriptedServer(answer) as server, asking(tmp_path, server, monkeypatch) as memory:
        flow = memory.flow("support")
        assert distilled(memory, flow, said=said)["notes"] == []
        (plan,) = flow.plans()
        assert (plan.method, plan.note) == ("model", None)
        assert {step.text: step.decided_by for step in plan.steps} == {
            "Alice's landlord Tom raised her rent to 900 euros.": "model",
            "Alice has two cats.": "rules",
        }
        (fact,) = [one for one in flow.memories() if "rent" in one.content]
        (evidence,) = flow.memory_history(fact.id).evidence
        assert evidence.words is not None
        assert evidence.words in said
        calls, tokens_in, tokens_out = spent(memory)
        assert calls == 1
        assert tokens_in > 0
        assert tokens_out > 0


def test_what_a_model_drops_is_a_step_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "The coffee tasted like mud in the morning. I have two cats. I have two cats named Tic and Tac."

    def answer(request: ChatRequest) -> str:
        drafts = list_drafts(request)
        (short,) = [one["n"] for one in drafts if one["text"] == "Alice has two cats."]
        (full,) = [one["n"] for one in drafts if "Tic" in one["text"]]
        return json.dumps({"n": short, "do": "drop", "why": "repeated", "of": full})

    with ScriptedServer(answer) as server, asking(tmp_path, server, monkeypatch) as memory:
        flow = memory.flow("support")
        distilled(memory, flow, said=said)
        (step,) = [one for one in flow.plans()[0].steps if one.decided_by == "model"]
        assert (step.do, step.reason, step.text, step.id) == ("skip", "model:repeated", "Alice has two cats.", None)
        assert "Alice has two cats." not in [one.content for one in flow.memories()]


@pytest.mark.parametrize("habit", ["mixed", "empty", "glued", "small_talk", "drops", "excuses", "inverted"])
def test_a_small_model_leaves_the_facts_of_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, habit: str
) -> None:
    """Whatever it writes, sessions give the facts that they give without a model."""
    said = [
        "Hey, how's it going? I'm allergic to walnuts and I keep two parrots.",
        "My sister Ines lives in Bergen. I never work on Fridays. Haha, thanks a lot!",
        "I used to live in Oslo. I live in Tromsø now, with my dog Balder.",
    ]
    facts = []
    for home, model in (("with", True), ("without", False)):
        small = SmallModel(habit)
        with ScriptedServer(partial(answer_by, small)) as server:
            if model:
                monkeypatch.setenv("MEMWELL_LLM", f"openai:small@{server.url}?timeout_s=5")
            else:
                monkeypatch.delenv("MEMWELL_LLM")
            with Memory(tmp_path / home, worker=False) as memory:
                flow = memory.flow("support")
                for number, text in enumerate(said):
                    distilled(memory, flow, f"s{number}", text)
                facts.append({(one.content, one.importance, one.confidence) for one in flow.memories()})
                assert bool(server.requests) is model
    assert facts[0] == facts[1]
    assert len(facts[0]) > 4


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_the_rules_take_over_if_a_model_fails_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, rounds: int
) -> None:
    """G19: a named reason on the job and on the plan, the facts of the rules, nothing lost and nothing twice; with
    `--rounds 200`, twenty jobs of each kind."""
    jobs = 20 if rounds >= 200 else 1
    with ScriptedServer([KEPT], fault=fault, drip_s=0.2) as server, asking(tmp_path, server, monkeypatch) as memory:
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
    quick = [fault for fault in Fault if fault not in SLOW]
    budget = 12_000
    with (
        ScriptedServer([KEPT], drip_s=0.2) as server,
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
    options = "&tokens_per_day=3000"
    with ScriptedServer([KEPT]) as server, asking(tmp_path, server, monkeypatch, options) as memory:
        flow = memory.flow("support")
        results = [distilled(memory, flow, f"s{number}")["notes"] for number in range(12)]
        assert results[0] == []
        assert results[-1] == ["budget"]
        calls, tokens_in, tokens_out = spent(memory)
        assert tokens_in + tokens_out <= 3000
        assert calls == len(server.requests) < 12


def test_a_model_that_writes_more_than_it_may_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is charged what it may write, because its server may go on after that."""
    with ScriptedServer([KEPT], fault=Fault.DEEP) as server, asking(tmp_path, server, monkeypatch) as memory:
        flow = memory.flow("support")
        assert distilled(memory, flow)["notes"] == ["unusable"]
        assert len(server.requests) == spent(memory)[0] == 1
        assert spent(memory)[2] == LOCAL_LIMITS.max_tokens


def test_the_key_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-7f3a")
    with (
        ScriptedServer([KEPT], fault=Fault.UNAUTHORISED) as server,
        asking(tmp_path, server, monkeypatch) as memory,
    ):
        result = distilled(memory, memory.flow("support"))
        assert result["notes"] == ["unauthorised"]
        assert "canary" not in str(memory.jobs.list()) + caplog.text
