"""Words never outlive who said them: what is deleted is in no fact, version, plan, answer or file any more, what is revoked or
reverted is not used any more, and what others have said as well stays, in their words (S0.38, C43)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from memwell import Conflict, Stale
from memwell.sdk._sync import Flow
from memwell.testing import FrozenClock

from ..engines import Memory, remains

TOLD = [
    "I am allergic to nuts.",
    "I am allergic to nuts, so I always carry a {}.",
    "I'm allergic to nuts and keep a {} at home.",
    "I live in Lisbon.",
    "I live in Lisbon, close to the {}.",
    "I moved to Porto.",
    "I moved to Porto, close to the {}.",
    "I moved to Madrid.",
    "I work as a nurse.",
    "I work as a nurse at the {}.",
]
SESSIONS = ("a", "b", "c")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "home", worker=False) as memory:
        yield memory


@pytest.fixture
def flow(memory: Memory) -> Flow:
    return memory.flow("support")


def tell(flow: Flow, session: str, *said: str) -> list[str]:
    """Have Alice say something and distil it; returns the ids of the turns."""
    ids = [flow.session(session).history.append(role="user", name="Alice", content=text).id for text in said]
    flow.consolidate(session)
    return ids


def known(flow: Flow) -> list[str]:
    return sorted(one.content for one in flow.memories())


FULL = "I am allergic to nuts, so I always carry an epipen."
SHORT = "I am allergic to nuts."


@pytest.mark.parametrize("said", [(FULL, SHORT), (SHORT, FULL)])
def test_a_fact_of_two_sessions_takes_the_words_of_the_remaining_one(flow: Flow, said: tuple[str, str]) -> None:
    for session, text in zip("ab", said, strict=True):
        tell(flow, session, text)
    assert len(known(flow)) == 1
    full = "ab"[said.index(FULL)]
    assert flow.revoke(session=full).weakened == 1
    assert known(flow) == ["Alice is allergic to nuts."]
    (fact,) = flow.memories()
    flow.session(full).delete()
    assert [one.content for one in flow.memory_history(fact.id).versions] == ["Alice is allergic to nuts."]


def test_one_of_several_turns_can_be_revoked(flow: Flow) -> None:
    flow.session("a").history.append(role="user", name="Alice", content=SHORT)
    full = flow.session("a").history.append(role="user", name="Alice", content=FULL)
    plan = flow.consolidate("a")
    assert plan is not None
    assert [step.do for step in plan.steps] == ["add", "merge"]
    assert known(flow) == ["Alice is allergic to nuts, so they always carry an epipen."]
    assert flow.revoke(turn=full.id).withdrawn == []
    assert known(flow) == ["Alice is allergic to nuts."]


@pytest.mark.every_engine
def test_reverting_a_plan_leaves_what_others_say_in_their_words(flow: Flow) -> None:
    flow.session("a").history.append(role="user", name="Alice", content=FULL)
    plan = flow.consolidate("a")
    assert plan is not None
    tell(flow, "b", SHORT)
    flow.revert(plan.id)
    assert known(flow) == ["Alice is allergic to nuts."]


@pytest.mark.every_engine
def test_a_remaining_statement_still_ends_the_earlier_fact(flow: Flow) -> None:
    """A and B have both told of the move. Without A it is B that has ended Lisbon; without B, nobody has."""
    tell(flow, "old", "I live in Lisbon.")
    tell(flow, "a", "I moved to Porto, close to the harbour.")
    tell(flow, "b", "I moved to Porto.")
    flow.session("a").delete(timeout_s=0)
    assert known(flow) == ["Alice moved to Porto."]
    (lisbon,) = (one for one in flow.search("Lisbon", include=["past"]) if "Lisbon" in one.content)
    (porto,) = flow.memories()
    assert flow.memory_history(lisbon.id).versions[-1].valid_to == porto.valid_from
    flow.session("b").delete(timeout_s=0)
    assert known(flow) == ["Alice lives in Lisbon."]


@pytest.mark.every_engine
def test_an_answer_goes_with_its_question(flow: Flow) -> None:
    session = flow.session("a")
    asked = session.history.append(role="assistant", content="How many cats do you have?")
    session.history.append(role="user", name="Alice", content="Two.")
    flow.consolidate("a")
    assert len(known(flow)) == 1
    assert len(flow.revoke(turn=asked.id).withdrawn) == 1
    assert known(flow) == []


@pytest.mark.every_engine
def test_an_imported_fact_quotes_a_remaining_source(flow: Flow, memory: Memory) -> None:
    tell(flow, "a", FULL)
    tell(flow, "b", SHORT)
    other = memory.flow("copy")
    other.import_lines(flow.export())
    assert len(known(other)) == 1
    other.session("a").delete()
    assert known(other) == ['Alice said: "I am allergic to nuts."']
    (fact,) = other.memories()
    assert len(other.memory_history(fact.id).versions) == 1
    other.session("b").delete()
    assert known(other) == []


def test_a_correction_by_hand_stays_as_long_as_somebody_tells_the_fact(flow: Flow) -> None:
    tell(flow, "a", FULL)
    tell(flow, "b", SHORT)
    (fact,) = flow.memories()
    flow.update(fact.id, content="Alice is allergic to peanuts.")
    flow.session("a").delete()
    assert known(flow) == ["Alice is allergic to peanuts."]
    assert "epipen" not in str(flow.memory_history(fact.id))
    flow.session("b").delete()
    assert known(flow) == []


def test_a_chain_taken_back_from_its_middle(flow: Flow) -> None:
    """Lisbon, then Porto, then Madrid: without the last two, Lisbon is true again, whichever went first."""
    for session, text in (("old", "I live in Lisbon."), ("a", "I moved to Porto."), ("b", "I moved to Madrid.")):
        tell(flow, session, text)
    flow.session("a").delete(timeout_s=0)
    assert known(flow) == ["Alice moved to Madrid."]
    flow.session("b").delete(timeout_s=0)
    assert known(flow) == ["Alice lives in Lisbon."]


@pytest.mark.every_engine
def test_a_fact_deleted_by_hand_has_ended_nothing(flow: Flow) -> None:
    tell(flow, "old", "I live in Lisbon.")
    tell(flow, "a", "I moved to Porto.")
    (porto,) = flow.memories()
    flow.delete_memory(porto.id)
    assert known(flow) == ["Alice lives in Lisbon."]
    assert "Porto" not in str(flow.plans())


def test_imported_turns_are_not_consolidated_again(flow: Flow, tmp_path: Path) -> None:
    """What was revoked before an export does not come back by another turn, and nothing is there twice."""
    tell(flow, "a", SHORT, "I live in Lisbon.")
    turn = flow.session("a").history.last(2)[0]
    flow.revoke(turn=turn.id)
    with Memory(tmp_path / "other", worker=False) as other:
        copy = other.flow("support")
        copy.import_lines(flow.export())
        tell(copy, "a", "I have a dog.")
        assert known(copy) == ["Alice has a dog.", "Alice lives in Lisbon."]
        tell(copy, "b", "I moved to Porto.")
        copy.session("b").delete(timeout_s=0)
        assert known(copy) == ["Alice has a dog.", "Alice lives in Lisbon."]


@pytest.mark.every_engine
def test_turns_revoked_before_consolidation_are_never_consolidated(memory: Memory, flow: Flow) -> None:
    session = flow.session("a")
    turn = session.history.append(role="user", name="Alice", content=SHORT)
    plan = flow.consolidate("a", dry_run=True)
    assert plan is not None
    with pytest.raises(Conflict):
        flow.revoke(turn=turn.id)
    flow.revoke(session="a")
    with pytest.raises(Stale):
        flow.apply(plan.id)
    assert flow.consolidate("a") is None
    assert known(flow) == []
    tell(flow, "a", "I have a dog.")
    assert known(flow) == ["Alice has a dog."]
    alice = memory.user("alice")
    alice.add("My parrot is called Polly.", session="s")
    alice.revoke(session="s")
    assert [hit.content for hit in alice.search("parrot")] == []


def test_a_correction_outlives_all_but_the_last_who_tell_it(flow: Flow) -> None:
    for session, text in (("a", FULL), ("b", SHORT), ("c", SHORT)):
        tell(flow, session, text)
    (fact,) = flow.memories()
    flow.update(fact.id, content="Alice is allergic to peanuts.")
    for session in ("a", "b"):
        flow.session(session).delete(timeout_s=0)
        assert known(flow) == ["Alice is allergic to peanuts."]
    flow.session("c").delete(timeout_s=0)
    assert known(flow) == []


def test_a_fact_is_as_sure_as_those_who_still_tell_it(flow: Flow) -> None:
    tell(flow, "a", SHORT)
    (alone,) = flow.memories()
    tell(flow, "b", SHORT)
    tell(flow, "c", SHORT)
    flow.session("b").delete(timeout_s=0)
    flow.revoke(session="c")
    (fact,) = flow.memories()
    assert fact.confidence == alone.confidence


CITIES = ["I live in Lisbon.", "I moved to Porto.", "I moved to Porto, close to the harbour.", "I moved to Madrid."]


def test_what_is_left_is_what_would_be_known_without_the_rest(tmp_path: Path, rounds: int) -> None:
    """Whatever is taken back, in any order and way: true now is what is true for a memory that was never told it."""
    clock, chance = FrozenClock(), random.Random(7)
    with Memory(tmp_path / "home", worker=False, clock=clock) as memory:
        for number in range(rounds):
            told = list(enumerate(chance.choice(CITIES) for _ in range(5)))
            gone = chance.sample(range(5), chance.randint(1, 4))
            flow = memory.flow(f"told{number}")
            plans = {session: _told_on(flow, clock, session, text) for session, text in told}
            for session in gone:
                match chance.choice(("delete", "revoke", "revert")):
                    case "delete":
                        flow.session(f"s{session}").delete(timeout_s=0)
                    case "revoke":
                        flow.revoke(session=f"s{session}")
                    case _:
                        flow.revert(plans[session])
            wanted = memory.flow(f"wanted{number}")
            for session, text in told:
                if session not in gone:
                    _told_on(wanted, clock, session, text)
            assert cities(flow) == cities(wanted), (told, gone)


def _told_on(flow: Flow, clock: FrozenClock, day: int, text: str) -> str:
    moment = datetime(2026, 1, 1 + day, tzinfo=UTC)
    flow.session(f"s{day}").history.append(role="user", name="Alice", content=text, occurred_at=moment)
    plan = flow.consolidate(f"s{day}")
    assert plan is not None
    return plan.id


def cities(flow: Flow) -> set[str]:
    return {city for text in known(flow) for city in ("Lisbon", "Porto", "Madrid") if city in text}


# -- any order of telling and taking back --------------------------------------------------------------------------------


class Said(NamedTuple):
    turn: str
    session: str
    word: str


class Life:
    """A flow in which things are told and taken back at random, and what must be known of it."""

    def __init__(self, flow: Flow, seed: int) -> None:
        self.flow, self.random, self.seed = flow, random.Random(seed), seed
        self.count = itertools.count()
        self.said: list[Said] = []
        self.deleted: list[str] = []
        self.unused: set[str] = set()
        self.told: dict[str, set[str]] = {}
        """The turns that tell a fact, by its id."""

    def step(self) -> None:
        does = [
            self._tell,
            self._tell,
            self._tell,
            self._tell,
            self._revoke_turn,
            self._revoke,
            self._revert,
            self._delete,
        ]
        self.random.choice(does)()

    def _tell(self) -> None:
        session = self.random.choice(SESSIONS)
        for _ in range(self.random.choice((1, 1, 2))):
            word = f"quill{_letters(self.seed)}x{_letters(next(self.count))}den"
            text = self.random.choice(TOLD).format(word)
            turn = self.flow.session(session).history.append(role="user", name="Alice", content=text)
            self.said.append(Said(turn.id, session, word))
        plan = self.flow.consolidate(session)
        for step in plan.steps if plan is not None else ():
            if step.id:
                self.told.setdefault(step.id, set()).update(one.turn for one in step.evidence)

    def _revoke_turn(self) -> None:
        for said in self.random.sample(self.said, min(1, len(self.said))):
            self.flow.revoke(turn=said.turn)
            self._unuse([said])

    def _revoke(self) -> None:
        session = self.random.choice(SESSIONS)
        if self._of(session):
            self.flow.revoke(session=session)
            self._unuse(self._of(session))

    def _delete(self) -> None:
        session = self.random.choice(SESSIONS)
        if self._of(session):
            self.flow.session(session).delete(timeout_s=0)
            self._unuse(self._of(session))
            self.deleted += [said.word for said in self._of(session)]
            self.said = [said for said in self.said if said.session != session]

    def _revert(self) -> None:
        plans = self.flow.plans()
        if not plans:
            return
        plan = self.random.choice(plans)
        turns = {one.turn for step in plan.steps for one in step.evidence}
        try:
            self.flow.revert(plan.id)
        except Conflict:
            return
        self._unuse([said for said in self.said if said.turn in turns])

    def _of(self, session: str) -> list[Said]:
        return [said for said in self.said if said.session == session]

    def _unuse(self, said: list[Said]) -> None:
        self.unused.update(one.word for one in said)
        gone = {one.turn for one in said}
        self.told = {fact: turns - gone for fact, turns in self.told.items() if turns - gone}

    # -- what must hold --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        hits = self.flow.search("Alice", limit=100, include=["past"])
        found = [one for one in hits if one.kind in ("fact", "past")]
        used = str([self.flow.memories(), found])
        assert not [word for word in self.unused if word in used]
        assert {one.id for one in found} == set(self.told)
        ever = [self.flow.memory_history(fact_id) for fact_id in self.told]
        seen = str([ever, self.flow.plans(), list(self.flow.export()), self.flow.context("Alice", budget=4000)])
        assert not [word for word in self.deleted if word in seen]
        for history in ever:
            assert {one.turn for one in history.evidence} == self.told[history.id]


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def test_words_never_outlive_who_said_them(tmp_path: Path, rounds: int) -> None:
    gone: list[str] = []
    with Memory(tmp_path / "home", worker=False) as memory:
        for seed in range(rounds):
            life = Life(memory.flow(f"flow{seed}"), seed)
            for _ in range(14):
                life.step()
                life.check()
            gone += life.deleted
        last = memory.flow("last").session("last")
        last.history.append(role="user", content="That is all.")
        last.delete()
    kept = remains(tmp_path / "home")
    assert gone
    assert [f"{word} in {name}" for name, data in kept.items() for word in gone if word.encode() in data] == []
