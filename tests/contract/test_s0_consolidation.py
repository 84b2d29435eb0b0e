"""S0: consolidation of an ended session into facts of the flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from memwell.sdk._sync import Flow
from memwell.testing import FrozenClock

from ..engines import Memory
from ..waiting import wait_until
from .conftest import Cli, engine_of

pytestmark = pytest.mark.every_engine


def tell(flow: Flow, session: str, *said: str, name: str = "Alice") -> None:
    for text in said:
        flow.session(session).history.append(role="user", name=name, content=text)


def end(memory: Memory, flow: Flow, session: str) -> None:
    flow.session(session).end()
    engine_of(memory).worker.run_due("default")


def known(flow: Flow) -> list[str]:
    return [found.content for found in flow.memories()]


def test_ending_a_session_distils_it_into_facts_and_preferences_of_the_flow(memory: Memory) -> None:
    """S0.18, S0.20, S0.33, S0.34: concise statements, by a background process, for the flow and all its sessions."""
    flow = memory.flow("support")
    tell(flow, "s1", "Hi!", "I live in Lisbon.", "I prefer window seats.", "How are you?")
    assert known(flow) == []
    flow.session("s1").end()
    assert known(flow) == []
    engine_of(memory).worker.run_due("default")
    facts = known(flow)
    assert len(facts) == 2
    assert any("Lisbon" in fact for fact in facts)
    assert any("window seats" in fact for fact in facts)
    assert not any("How are you" in fact or "Hi" in fact.split() for fact in facts)
    found = flow.session("another").search("where does Alice live")
    assert "Lisbon" in found[0].content
    assert memory.flow("sales").memories() == []


def test_facts_have_importance_and_confidence(memory: Memory) -> None:
    """S0.19: both from 0 to 1."""
    flow = memory.flow("support")
    tell(flow, "s1", "I am allergic to peanuts.", "Maybe I will visit Rome some day.")
    end(memory, flow, "s1")
    facts = flow.memories()
    assert facts
    assert all(0 <= fact.importance <= 1 and 0 <= fact.confidence <= 1 for fact in facts)


def test_the_same_fact_in_two_sessions_is_one(memory: Memory) -> None:
    """S0.35: it is merged, with the evidence of both, and surer than before."""
    flow = memory.flow("support")
    tell(flow, "s1", "I live in Lisbon.")
    end(memory, flow, "s1")
    (before,) = flow.memories()
    tell(flow, "s2", "I live in Lisbon.")
    end(memory, flow, "s2")
    (after,) = flow.memories()
    assert after.id == before.id
    assert after.confidence > before.confidence
    history = flow.memory_history(after.id)
    assert [one.session for one in history.evidence] == ["s1", "s2"]
    assert [one.words for one in history.evidence] == ["I live in Lisbon."] * 2


def test_history_stays_readable(memory: Memory) -> None:
    """S0.36."""
    flow = memory.flow("support")
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    before = flow.session("s1").history.last(10)
    end(memory, flow, "s1")
    assert flow.session("s1").history.last(10) == before


def test_facts_are_there_within_a_second_of_the_end(tmp_path: Path) -> None:
    """S0.37: a minute is allowed; offline it is a matter of milliseconds, so ten seconds mean that nobody works on it."""
    with Memory(tmp_path / "home") as memory:
        flow = memory.flow("support")
        tell(flow, "s1", "I live in Lisbon.")
        flow.session("s1").end(wait_s=10)
        assert len(known(flow)) == 1


def test_show_lists_what_was_distilled_only_after_the_end(memory: Memory) -> None:
    """S0.38, S0.39: before, only what was written directly."""
    flow = memory.flow("support")
    tell(flow, "s1", "I live in Lisbon.")
    flow.session("s1").write("Speaks Portuguese")
    assert [found.content for found in flow.session("s1").show().memories] == ["Speaks Portuguese"]
    end(memory, flow, "s1")
    shown = [found.content for found in flow.session("s1").show().memories]
    assert shown[0] == "Speaks Portuguese"
    assert "Lisbon" in shown[1]


def test_the_command_line_ends_a_session_and_shows_what_is_known_from_it(tmp_path: Path, cli: Cli) -> None:
    """S0.33, S0.38, S0.52, S0.54: by the other path, too."""
    with Memory(tmp_path / "home", worker=False) as memory:
        tell(memory.flow("support"), "s1", "I live in Lisbon.")
    assert "Alice lives in Lisbon." not in cli("show", "s1").out
    assert cli("end", "s1", "--yes").code == 0
    with Memory(tmp_path / "home", worker=False) as memory:
        engine_of(memory).worker.run_due("default")
    assert "Alice lives in Lisbon." in cli("show", "s1").out


def test_a_second_end_distils_only_what_is_new(memory: Memory) -> None:
    """C13: `end` may be repeated, works on an empty session, and a later turn opens it again."""
    flow = memory.flow("support")
    assert flow.session("empty").end().job is None
    tell(flow, "s1", "I live in Lisbon.")
    end(memory, flow, "s1")
    assert flow.session("s1").end().job is None
    tell(flow, "s1", "I have two cats.")
    end(memory, flow, "s1")
    assert len(known(flow)) == 2
    assert [(plan.first_seq, plan.last_seq) for plan in flow.plans()] == [(2, 2), (1, 1)]


def test_a_sealed_log_is_never_distilled(memory: Memory) -> None:
    """C10."""
    memory.log("abc").append(entry_type="observation", content="I live in Lisbon.")
    memory.log("abc").end()
    engine_of(memory).worker.run_due("default")
    assert [job for job in memory.jobs.list() if job.kind == "consolidate"] == []


def test_a_later_statement_supersedes_an_earlier_one_of_the_same_subject_only(
    memory: Memory, clock: FrozenClock
) -> None:
    """C43: Bob's Porto does not touch Alice's Lisbon, Alice's does; of an unknown speaker nothing is superseded."""
    flow = memory.flow("support")
    tell(flow, "s1", "I live in Lisbon.")
    end(memory, flow, "s1")
    clock.advance(days=1)
    tell(flow, "s2", "I live in Porto.", name="Bob")
    end(memory, flow, "s2")
    assert sorted(known(flow)) == ["Alice lives in Lisbon.", "Bob lives in Porto."]
    clock.advance(days=1)
    tell(flow, "s3", "I moved to Porto.")
    end(memory, flow, "s3")
    assert sorted(known(flow)) == ["Alice moved to Porto.", "Bob lives in Porto."]
    past = [hit for hit in flow.search("Where does Alice live?", include=["past"]) if hit.kind == "past"]
    assert [hit.content for hit in past] == ["Alice lives in Lisbon."]
    for session, said in (("u1", "I live in Faro."), ("u2", "I live in Braga.")):
        flow.session(session).history.append(role="user", content=said)
        end(memory, flow, session)
    assert {"The user lives in Faro.", "The user lives in Braga."} <= set(known(flow))


def test_deleting_a_session_takes_its_facts_along_unless_others_say_them_too(memory: Memory) -> None:
    """C43: a fact goes with its only evidence; of one that was said elsewhere, that evidence goes."""
    flow = memory.flow("support")
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    tell(flow, "s2", "I live in Lisbon.")
    end(memory, flow, "s1")
    end(memory, flow, "s2")
    assert len(known(flow)) == 2
    flow.session("s1").delete()
    (left,) = flow.memories()
    assert "Lisbon" in left.content
    assert [one.session for one in flow.memory_history(left.id).evidence] == ["s2"]
    assert [plan.session for plan in flow.plans()] == ["s2"]


def test_evidence_that_has_expired_is_marked_and_the_fact_stays(memory: Memory, clock: FrozenClock) -> None:
    """C43: turns expire by retention, what is known from them does not."""
    flow = memory.flow("support")
    tell(flow, "s1", "I live in Lisbon.")
    end(memory, flow, "s1")
    clock.advance(days=100)
    engine_of(memory).worker.run_due("default")
    assert flow.session("s1").history.last(5) == []
    (fact,) = flow.memories()
    (evidence,) = flow.memory_history(fact.id).evidence
    assert evidence.expired
    assert evidence.words is None


def test_the_front_door_knows_within_a_second_without_an_end(tmp_path: Path) -> None:
    """C36: what `add` was given is searchable as it stands, and as facts as soon as these are there."""
    with Memory(tmp_path / "home") as memory:
        me = memory.user("alice")
        me.add("I'm vegetarian and moved to Porto.")
        assert "Porto" in me.search("Porto")[0].content
        wait_until(me.memories)
        hits = me.search("Where does she live? Porto")
        assert {hit.kind for hit in hits} == {"fact"}
        assert memory.user("bob").memories() == []
