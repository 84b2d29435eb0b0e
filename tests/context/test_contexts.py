"""Context without a question: the newest turns and the most important facts, now or as of another time."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from memwell import Invalid
from memwell.testing import FrozenClock

from ..cases import cases
from ..engines import Memory
from ..processor_time import processor_time


def test_without_a_question_the_most_important_facts_are_there(memory: Memory) -> None:
    flow = memory.flow("support")
    ids = [flow.write(f"Statement number {number}", importance=number / 100) for number in range(60)]
    found = flow.context(budget=100_000)
    assert sorted(found.facts) == sorted(ids[-40:])
    few = flow.context(budget=250)
    assert few.facts
    assert few.facts == ids[: -len(few.facts) - 1 : -1], "of those, the most important that fit"
    assert {one.reason for one in few.left_out} == {"low_score"}


def test_turns_are_there_too(memory: Memory) -> None:
    session = memory.flow("support").session("s")
    session.history.append(role="user", content="Where is my order?")
    assert [message["role"] for message in session.context().messages] == ["user"]
    assert "Where is my order?" in session.context().text
    me = memory.user("alice")
    me.add("Where is my parcel?")
    assert "Where is my parcel?" in me.context().text


def test_trust_and_time_hold_without_a_question(memory: Memory, clock: FrozenClock) -> None:
    flow = memory.flow("support")
    flow.import_lines([{"type": "memory", "content": "The customer lives in Faro.", "origin": "tool"}])
    flow.session("s1").history.append(role="user", name="Alice", content="I live in Lisbon.")
    flow.consolidate("s1")
    clock.advance(days=1)
    then = datetime.fromtimestamp(clock.now() / 1e6, UTC)
    clock.advance(days=1)
    flow.session("s2").history.append(role="user", name="Alice", content="I moved to Porto.")
    flow.consolidate("s2")
    assert "Faro" in flow.context().text
    assert "Faro" not in flow.context(min_trust="user").text
    for query in (None, "Where does Alice live?"):
        now, before = (flow.context(query, as_of=as_of).text for as_of in (None, then))
        assert ("Porto" in now, "Lisbon" in now) == (True, False)
        assert ("Porto" in before, "Lisbon" in before) == (False, True)


def test_an_empty_question_is_still_a_mistake(memory: Memory) -> None:
    with pytest.raises(Invalid, match="query"):
        memory.flow("support").context("  ")


def test_a_turn_that_tells_a_secret_is_left_out_and_said_so(memory: Memory) -> None:
    session = memory.flow("support").session("s")
    turn = session.history.append(role="user", content="My password is hunterxyzzy42.")
    session.history.append(role="user", content="Where is my order?")
    found = session.context("order")
    assert "hunterxyzzy42" not in found.text + str(found.messages)
    assert [(one.what, one.id, one.reason) for one in found.left_out] == [("turn", turn.id, "secret")]


def test_the_token_of_the_fence_is_new_each_time_unless_the_prefix_is_to_be_stable(memory: Memory) -> None:
    alice = memory.user("alice")
    alice.add("I am vegetarian.")
    assert alice.context().text != alice.context().text
    assert alice.context(stable_prefix=True).text == alice.context(stable_prefix=True).text


@cases("piece", ["<", "password is ", "\n", "_", "Sömething ordinary. "])
def test_a_planted_turn_costs_little_if_it_does_not_fit(memory: Memory, piece: str) -> None:
    """T2: what cannot be in the answer is neither searched for secrets nor cleaned."""
    session = memory.flow("support").session(piece.encode().hex())
    session.history.append(role="user", content=piece * (800_000 // len(piece.encode())))
    assert [one.reason for one in session.context(budget=1500).left_out] == ["budget"]
    assert processor_time(lambda: session.context(budget=1500)) < 25 * time_of_reading("Sömething ordinary. " * 35_000)


def time_of_reading(text: str) -> float:
    return max(processor_time(lambda: json.loads(json.dumps(text))), 0.01)
