"""Plans: a dry run changes nothing, applying is all or nothing, and a plan can be reverted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memwell import Conflict, Invalid, NotFound, Stale
from memwell.clock import to_datetime
from memwell.core.engine import Engine
from memwell.sdk._sync import Flow
from memwell.sdk.transport import LocalTransport
from memwell.testing import FrozenClock

from ..engines import Memory

pytestmark = pytest.mark.every_engine

YEARS = (2021, 2023)


@pytest.fixture
def flow(memory: Memory) -> Flow:
    return memory.flow("support")


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


def tell(flow: Flow, session: str, *said: str, name: str = "Alice") -> None:
    for text in said:
        flow.session(session).history.append(role="user", name=name, content=text)


def known(flow: Flow) -> list[str]:
    return sorted(found.content for found in flow.memories())


def test_a_dry_run_says_what_it_would_do_and_does_nothing(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    plan = flow.consolidate("s1", dry_run=True)
    assert plan is not None
    assert plan.state == "proposed"
    assert [step.do for step in plan.steps] == ["add", "add"]
    assert all(step.reason for step in plan.steps)
    assert [(one.start, one.end) for one in plan.steps[0].evidence] == [(0, 17)]
    assert known(flow) == []
    assert flow.plans() == [plan]


def test_the_same_turns_give_the_same_facts_and_ids(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    plans = [flow.consolidate("s1", dry_run=True) for _ in range(2)]
    one, two = ([(step.id, step.text) for step in plan.steps] for plan in plans if plan is not None)
    assert one == two


def test_a_plan_is_applied_once(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    plan = flow.consolidate("s1", dry_run=True)
    assert plan is not None
    assert flow.apply(plan.id).state == "applied"
    assert known(flow) == ["Alice lives in Lisbon."]
    with pytest.raises(Conflict):
        flow.apply(plan.id)
    assert flow.consolidate("s1") is None


def test_a_plan_is_refused_when_what_is_known_has_changed(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    plan = flow.consolidate("s1", dry_run=True)
    assert plan is not None
    flow.write("Ships to the EU only")
    with pytest.raises(Stale):
        flow.apply(plan.id)
    assert known(flow) == ["Ships to the EU only"]


def test_concurrent_consolidations_consume_turns_once(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    first, second = flow.consolidate("s1", dry_run=True), flow.consolidate("s1", dry_run=True)
    assert first is not None
    assert second is not None
    flow.apply(first.id)
    with pytest.raises(Stale):
        flow.apply(second.id)
    assert len(flow.memories()) == 1


def test_what_was_added_is_taken_back(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    plan = flow.consolidate("s1")
    assert plan is not None
    fact = flow.memories()[0]
    assert flow.revert(plan.id).state == "reverted"
    assert known(flow) == []
    assert len(flow.search("Lisbon")) == 0
    assert flow.memory_history(fact.id).versions[0].known_to is not None
    assert len(flow.session("s1").history.last(5)) == 2
    with pytest.raises(Conflict):
        flow.revert(plan.id)


def test_a_superseded_fact_is_current_again_after_a_revert(flow: Flow, clock: FrozenClock) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    flow.consolidate("s1")
    clock.advance(days=1)
    tell(flow, "s2", "I moved to Porto.")
    plan = flow.consolidate("s2")
    assert plan is not None
    assert plan.counts["superseded"] == 1
    assert known(flow) == ["Alice moved to Porto."]
    flow.revert(plan.id)
    assert known(flow) == ["Alice lives in Lisbon."]
    assert [hit.content for hit in flow.search("Lisbon")] == ["Alice lives in Lisbon."]


@pytest.mark.parametrize("later", ["I moved to Dublin.", "I live in Lisbon."])
def test_the_last_of_two_corrections_in_a_session_counts(flow: Flow, clock: FrozenClock, later: str) -> None:
    """What a plan has ended already is not ended again by its next step."""
    tell(flow, "s1", "I live in Lisbon.")
    flow.consolidate("s1")
    clock.advance(days=1)
    tell(flow, "s2", "I moved to Porto.", later)
    flow.consolidate("s2")
    assert known(flow) == [later.replace("I moved", "Alice moved").replace("I live", "Alice lives")]


def test_what_was_confirmed_is_as_sure_as_before(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    flow.consolidate("s1")
    (before,) = flow.memories()
    tell(flow, "s2", "I live in Lisbon.")
    plan = flow.consolidate("s2")
    assert plan is not None
    assert flow.memories()[0].confidence > before.confidence
    flow.revert(plan.id)
    assert flow.memories() == [before]
    assert len(flow.memory_history(before.id).evidence) == 1


def test_a_fact_that_others_confirmed_survives_the_plan_that_made_it(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    plan = flow.consolidate("s1")
    tell(flow, "s2", "I live in Lisbon.")
    flow.consolidate("s2")
    assert plan is not None
    flow.revert(plan.id)
    (left,) = flow.memories()
    assert [one.session for one in flow.memory_history(left.id).evidence] == ["s2"]


def test_a_plan_of_another_flow_is_not_found(memory: Memory, flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    plan = flow.consolidate("s1", dry_run=True)
    assert plan is not None
    for verb in (memory.flow("sales").plan, memory.flow("sales").apply, memory.flow("sales").revert):
        with pytest.raises(NotFound):
            verb(plan.id)


def test_what_was_known_and_what_was_true_at_a_time(flow: Flow, clock: FrozenClock) -> None:
    """`as_of` is about knowing, `valid_at` about truth."""
    start = clock.now()
    tell(flow, "s1", "I live in Lisbon.")
    flow.consolidate("s1")
    clock.advance(days=10)
    tell(flow, "s2", "I moved to Porto.")
    flow.consolidate("s2")
    clock.advance(days=10)

    def day(number: int) -> datetime:
        return datetime.fromtimestamp(start / 1e6 + number * 86_400, UTC)

    def found(**when: datetime) -> list[str]:
        return sorted(hit.content for hit in flow.search("Where does Alice live? Lisbon, Porto", **when))  # type: ignore[arg-type]

    assert found() == ["Alice moved to Porto."]
    assert found(as_of=day(5)) == ["Alice lives in Lisbon."]
    assert found(valid_at=day(5)) == ["Alice lives in Lisbon."]
    assert found(valid_at=day(15)) == ["Alice moved to Porto."]
    assert found(as_of=day(15)) == ["Alice moved to Porto."]
    assert found(as_of=day(-1)) == []


def test_a_deleted_memory_leaves_no_words_in_plans(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    plan = flow.consolidate("s1")
    assert plan is not None
    gone = next(fact for fact in flow.memories() if "Lisbon" in fact.content)
    flow.delete_memory(gone.id)
    assert [step.text for step in flow.plan(plan.id).steps] == [fact.content for fact in flow.memories()]


def test_revoking_a_session_withdraws_what_only_it_says(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    tell(flow, "s2", "I live in Lisbon.")
    flow.consolidate("s1")
    flow.consolidate("s2")
    revoked = flow.revoke(session="s1")
    assert len(revoked.withdrawn) == 1
    assert revoked.weakened == 1
    assert known(flow) == ["Alice lives in Lisbon."]
    (turn,) = flow.session("s2").history.last(1)
    assert len(flow.revoke(turn=turn.id).withdrawn) == 1
    assert known(flow) == []


def test_revoking_brings_back_what_the_revoked_had_ended(flow: Flow, clock: FrozenClock) -> None:
    """Whoever is not believed any more has ended nothing; what others have said since holds."""
    said = [("home", "I live in Lisbon."), ("lie", "I moved to Porto."), ("lie", "I moved to Dublin.")]
    for session, text in said:
        clock.advance(days=1)
        tell(flow, session, text)
        flow.consolidate(session)
    assert known(flow) == ["Alice moved to Dublin."]
    assert len(flow.revoke(session="lie").withdrawn) == 2
    assert known(flow) == ["Alice lives in Lisbon."]


def test_revoking_what_is_over_changes_nothing_else(flow: Flow, clock: FrozenClock) -> None:
    for session, text in [("s1", "I live in Lisbon."), ("s2", "I moved to Porto."), ("s3", "I moved to Dublin.")]:
        clock.advance(days=1)
        tell(flow, session, text)
        flow.consolidate(session)
    assert len(flow.revoke(session="s2").withdrawn) == 1
    assert known(flow) == ["Alice moved to Dublin."]


def test_deleting_a_session_brings_back_what_it_had_ended(flow: Flow, clock: FrozenClock) -> None:
    for session, text in [("s1", "I live in Lisbon."), ("s2", "I moved to Porto.")]:
        clock.advance(days=1)
        tell(flow, session, text)
        flow.consolidate(session)
    flow.session("s2").delete(timeout_s=0)
    assert known(flow) == ["Alice lives in Lisbon."]
    assert "Porto" not in str(flow.plans()) + str(flow.search("Porto", include=["past"]))


def test_reverting_in_the_middle_leaves_one_truth(flow: Flow, clock: FrozenClock) -> None:
    """What the reverted statement had ended was over all the same, once the next one was made."""
    plans = []
    for session, text in [("s1", "I live in Lisbon."), ("s2", "I moved to Porto."), ("s3", "I moved to Braga.")]:
        clock.advance(days=1)
        tell(flow, session, text)
        plans.append(flow.consolidate(session))
    middle = to_datetime(clock.now()) - timedelta(days=0.5)
    assert plans[1] is not None
    flow.revert(plans[1].id)
    assert known(flow) == ["Alice moved to Braga."]
    then = flow.memories(valid_at=middle)
    assert [fact.content for fact in then] == ["Alice lives in Lisbon."]


def test_a_confirmed_fact_stays_when_the_plan_that_found_it_is_taken_back(flow: Flow, clock: FrozenClock) -> None:
    plans = []
    for session, text in [("s1", "I live in Lisbon."), ("s2", "I moved to Porto."), ("s3", "I moved to Porto.")]:
        clock.advance(days=1)
        tell(flow, session, text)
        plans.append(flow.consolidate(session))
    assert plans[1] is not None
    flow.revert(plans[1].id)
    assert known(flow) == ["Alice moved to Porto."]


def test_a_late_statement_about_the_past_ends_where_the_current_fact_begins(flow: Flow) -> None:
    said = [("s1", "I live in Rome.", 2022), ("s2", "I live in Oslo.", 2020)]
    for session, text, year in said:
        at = datetime(year, 5, 1, tzinfo=UTC)
        flow.session(session).history.append(role="user", name="Alice", content=text, occurred_at=at)
        flow.consolidate(session)
    assert known(flow) == ["Alice lives in Rome."]
    then = {year: [fact.content for fact in flow.memories(valid_at=datetime(year, 6, 1, tzinfo=UTC))] for year in YEARS}
    assert then == {2021: ["Alice lives in Oslo."], 2023: ["Alice lives in Rome."]}


def test_a_short_answer_is_as_trusted_as_who_gives_it(flow: Flow) -> None:
    flow.session("s1").history.append(role="assistant", content="Which city do you live in?")
    tell(flow, "s1", "Denver")
    flow.consolidate("s1")
    (hit,) = flow.search("Denver", min_trust="user")
    assert len(flow.memory_history(hit.id).evidence) == 2


def test_a_change_by_hand_makes_nothing_more_trusted(flow: Flow) -> None:
    flow.session("s1").history.append(role="tool", content="The account of Alice is gold.")
    flow.consolidate("s1")
    (fact,) = flow.memories()
    assert flow.update(fact.id, importance=0.9).origin == "tool"
    assert flow.search("gold account", min_trust="user").hits == []
    assert flow.update(fact.id, content="Alice has a gold account.").origin == "system"
    assert flow.update(fact.id, importance=0.9).version == flow.get(fact.id).version == 3
    with pytest.raises(Invalid, match="blank"):
        flow.update(fact.id, content="  ")


def test_revoking_within_one_plan(flow: Flow) -> None:
    """Two turns of one session: the one that stays is believed again."""
    tell(flow, "s1", "I live in Lisbon.", "I moved to Porto.")
    flow.consolidate("s1")
    assert known(flow) == ["Alice moved to Porto."]
    (turn,) = flow.session("s1").history.last(1)
    flow.revoke(turn=turn.id)
    assert known(flow) == ["Alice lives in Lisbon."]


def test_facts_of_tools_have_less_trust(flow: Flow) -> None:
    history = flow.session("s1").history
    history.append(role="user", name="Alice", content="I live in Lisbon.")
    history.append(role="tool", tool_name="crm", content="The customer lives in Faro.")
    flow.consolidate("s1")
    trusted = [hit.content for hit in flow.search("Where does the customer live?", min_trust="user")]
    assert trusted == ["Alice lives in Lisbon."]
    assert all(fact.origin == "user" for fact in flow.memories() if "Lisbon" in fact.content)


def test_a_note_is_a_turn_once_it_is_known_and_a_note_again_when_that_is_taken_back(memory: Memory) -> None:
    me = memory.user("alice")
    session = me.add("I live in Lisbon.").session
    assert [hit.kind for hit in me.search("Lisbon")] == ["note"]
    engine_of(memory).worker.run_due("default", without=("embed",))
    assert [hit.kind for hit in me.search("Lisbon")] == ["fact"]
    assert sorted(hit.kind for hit in me.search("Lisbon", include=["turns"])) == ["fact", "turn"]
    (plan,) = me.plans()
    assert plan.session == session
    me.revert(plan.id)
    assert [hit.kind for hit in me.search("Lisbon")] == ["note"]


def test_an_export_contains_neither_quarantined_nor_past_facts(flow: Flow, clock: FrozenClock) -> None:
    """Whoever imports it would take both for facts."""
    tell(flow, "s1", "I live in Lisbon.", "My password is hunter2xyz!")
    flow.consolidate("s1")
    clock.advance(days=1)
    tell(flow, "s2", "I moved to Porto.")
    flow.consolidate("s2")
    assert len(flow.held()) == 1
    memories = [line.content for line in flow.export() if line.type == "memory"]
    assert memories == ["Alice moved to Porto."]


def test_an_audit_finds_what_cannot_both_be_true(flow: Flow) -> None:
    """Only one home, but several cousins."""
    said = ["Alice lives in Lisbon.", "Alice lives in Porto."] + [
        f"Alice's cousin lives in {city}." for city in ("Rome", "Oslo")
    ]
    flow.import_lines([{"type": "memory", "content": text, "subject": "Alice"} for text in said])
    (finding,) = [one for one in flow.audit().findings if one.problem == "contradiction"]
    assert sorted(flow.get(fact_id).content for fact_id in finding.ids) == said[:2]


# -- passages without a step


def test_a_plan_lists_what_was_skipped_with_its_reason(flow: Flow) -> None:
    tell(flow, "s1", "Hi there! I live in Lisbon. Suppose I moved to Rome. Where should I eat?")
    plan = flow.consolidate("s1", dry_run=True)
    assert plan is not None
    assert [(one.text, one.reason) for one in plan.skipped] == [
        ("Suppose I moved to Rome.", "hypothetical"),
        ("Where should I eat?", "question"),
        ("Hi there!", "small_talk"),
    ]
    assert plan.counts["skipped"] == 3
    assert plan.counts["added"] == 1


def test_a_secret_is_not_in_the_list_of_what_was_skipped(flow: Flow) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    tell(flow, "s1", f"Is {secret} a good token? Thanks!")
    plan = flow.consolidate("s1", dry_run=True)
    assert plan is not None
    assert all(secret not in (one.text or "") for one in plan.skipped)
    assert "Thanks!" in [one.text for one in plan.skipped]


def test_what_was_skipped_has_no_words_once_its_session_is_deleted(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon. Where should I eat?")
    flow.consolidate("s1")
    flow.session("s1").delete()
    assert all(one.text is None for plan in flow.plans() for one in plan.skipped)


# -- plans and sessions again


def test_a_reverted_plan_can_be_applied_again(flow: Flow, clock: FrozenClock) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    flow.consolidate("s1")
    clock.advance(days=1)
    tell(flow, "s2", "I moved to Porto.", "I have two cats.", "I play the cello.")
    plan = flow.consolidate("s2")
    assert plan is not None
    after = {(fact.content, fact.confidence) for fact in flow.memories()}
    for _ in range(2):
        flow.revert(plan.id)
        assert known(flow) == ["Alice has two cats.", "Alice lives in Lisbon."]
        assert flow.apply(plan.id).state == "applied"
        assert {(fact.content, fact.confidence) for fact in flow.memories()} == after
    assert flow.consolidate("s2") is None
    with pytest.raises(Conflict):
        flow.apply(plan.id)


def test_a_reverted_plan_is_refused_when_the_facts_have_changed_since(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.")
    plan = flow.consolidate("s1")
    assert plan is not None
    flow.revert(plan.id)
    flow.write("Ships to the EU only")
    with pytest.raises(Stale):
        flow.apply(plan.id)


def test_a_session_can_be_distilled_again_and_nothing_changes(flow: Flow, clock: FrozenClock) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.", "Actually, I moved to Porto.")
    flow.consolidate("s1")
    clock.advance(days=1)
    tell(flow, "s2", "I have two cats.")
    flow.consolidate("s2")
    before = [(fact.id, fact.content, fact.version, fact.confidence) for fact in flow.memories()]
    for session in ("s1", "s2", "s1"):
        plan = flow.consolidate(session, again=True)
        assert plan is not None
        assert plan.steps == []
        assert "distilled_before" in {one.reason for one in plan.skipped}
    assert [(fact.id, fact.content, fact.version, fact.confidence) for fact in flow.memories()] == before
    assert flow.consolidate("s1") is None


def test_a_session_whose_plan_was_reverted_is_distilled_again(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon.", "I have two cats.")
    plan = flow.consolidate("s1")
    assert plan is not None
    before = known(flow)
    flow.revert(plan.id)
    dry = flow.consolidate("s1", dry_run=True, again=True)
    assert dry is not None
    assert known(flow) == []
    assert flow.apply(dry.id).state == "applied"
    assert known(flow) == before


def test_distilling_a_long_session_again_reads_all_of_it(flow: Flow) -> None:
    said = [{"role": "user", "name": "Alice", "content": f"I own house number {number}."} for number in range(1003)]
    for part in (said[:1000], said[1000:]):
        flow.session("s1").history.extend(part)
    plans = []
    while (plan := flow.consolidate("s1")) is not None:
        plans.append(plan)
    for plan in reversed(plans):
        flow.revert(plan.id)
    again = flow.consolidate("s1", again=True)
    rest = flow.consolidate("s1")
    assert again is not None
    assert rest is not None
    assert (again.first_seq, again.last_seq, rest.first_seq, rest.last_seq) == (1, 1000, 1001, 1003)
    assert flow.consolidate("s1") is None


# -- what became of a session


def test_a_session_says_how_many_statements_were_kept_held_and_skipped(flow: Flow) -> None:
    tell(flow, "s1", "I live in Lisbon. Where should I eat?", "My password is hunter2-Xy!9.")
    before = flow.session("s1").show().distilled
    assert (before.kept, before.held, before.skipped, before.waiting) == (0, 0, 0, 2)
    ended = flow.session("s1").end(wait_s=20)
    shown = flow.session("s1").show().distilled
    assert (shown.kept, shown.held, shown.skipped, shown.waiting) == (1, 1, 1, 0)
    assert ended.distilled == shown
