"""An audit finds duplicates and contradictions as pairs, and suggests a plan that is applied and reverted like any other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memwell import Conflict, Memory, Stale
from memwell.facts.audit import AuditedFact, FactPair, find_pairs
from memwell.facts.paraphrase import paraphrase_key
from memwell.facts.wording import lookup_keys, parse_statement
from memwell.sdk._sync import Flow
from memwell.surfaces.cli.main import app
from memwell.testing import FrozenClock

from ..cases import cases

DAY = 24 * 3600 * 1_000_000
START = 1_750_000_000_000_000


def fact(number: int, text: str, subject: str | None = "Alice", **changes: Any) -> AuditedFact:
    """A fact that was stated on the day `number`."""
    same, topic = lookup_keys(parse_statement(text, subject), subject)
    at = START + number * DAY
    made = AuditedFact(number, f"f{number}", text, "user", subject, same, topic, None, "p", 1, 1, 1, at, at)
    return made._replace(**changes)


def pairs_of(*texts: str, subject: str | None = "Alice") -> list[FactPair]:
    return find_pairs([fact(number, text, subject) for number, text in enumerate(texts)])


@cases(
    ("earlier", "later"),
    [
        ("Alice lives in Lisbon.", "Alice lives in Porto."),
        ("Alice works at Acme.", "Alice works for Globex as an engineer."),
        ("Alice eats meat.", "Alice does not eat meat."),
        ("Alice is vegetarian.", "Alice is not vegetarian."),
        ("Alice does not snore.", "Alice snores."),
        ("Alice likes olives.", "Alice hates olives."),
        ("Alice is allergic to nuts.", "Alice is not allergic to nuts."),
        ("Alice is married.", "Alice is single."),
        ("Alice's sister Ana lives in Rome.", "Alice's sister Ana lives in Oslo."),
    ],
)
def test_a_contradiction_is_a_pair_of_which_the_later_one_is_kept(earlier: str, later: str) -> None:
    (pair,) = pairs_of(earlier, later)
    assert (pair.problem, pair.kept.content, pair.other.content, pair.is_clear) == (
        "contradiction",
        later,
        earlier,
        True,
    )


@cases(
    "texts",
    [
        ("Alice lives in Lisbon.", "Alice lived in Porto from 2015 to 2018."),
        ("Alice lives in Lisbon.", "Alice's cousin lives in Porto."),
        ("Alice's cousin lives in Rome.", "Alice's cousin lives in Oslo."),
        ("Alice is allergic to nuts.", "Alice is allergic to milk."),
        ("Alice is allergic to nuts.", "Alice's brother is not allergic to nuts."),
        ("Alice eats meat.", "Alice does not eat fish."),
        ("Alice speaks Polish.", "Alice speaks Danish."),
        ("Alice has two cats.", "Alice has a dog."),
        ("Alice is in Rome this week.", "Alice lives in Lisbon."),
        ("Alice might move to Oslo.", "Alice lives in Lisbon."),
        ("Alice rarely drinks wine.", "Alice often drinks beer."),
        ("Alice met Tom in May.", "Alice did not meet Eva in May."),
    ],
)
def test_what_can_both_be_true_is_no_pair(texts: Sequence[str]) -> None:
    assert pairs_of(*texts) == []
    assert pairs_of(*reversed(texts)) == []


def test_facts_about_other_people_or_times_are_no_contradiction() -> None:
    lisbon, porto = "lives in Lisbon.", "lives in Porto."
    assert find_pairs([fact(0, f"Alice {lisbon}"), fact(1, f"Bob {porto}", "Bob")]) == []
    assert find_pairs([fact(0, f"The user {lisbon}", None), fact(1, f"The user {porto}", None)]) == []
    ended = fact(0, f"Alice {lisbon}", valid_to=START + DAY)
    assert find_pairs([ended, fact(2, f"Alice {porto}")]) == []
    assert len(find_pairs([ended, fact(0, f"Alice {porto}", docid=7, id="f7")])) == 1, "on the same day"
    assert len(find_pairs([fact(0, f"Alice {lisbon}", None), fact(1, f"Alice {porto}", None)])) == 1, "both name her"


def test_a_machine_does_not_end_what_a_person_said() -> None:
    (pair,) = find_pairs([fact(0, "Alice lives in Lisbon."), fact(1, "Alice lives in Porto.", origin="tool")])
    assert (pair.problem, pair.is_clear) == ("contradiction", False)


@cases(
    ("one", "two"),
    [
        ("Alice has a dog called Rex.", "Alice owns a dog named Rex."),
        ('Alice said: "I have a dog called Rex."', "Alice has a dog called Rex."),
        ("Alice is really fond of tall ships.", "Alice is very fond of tall ships."),
        ("Alice's flat has a balcony.", "Alice's flat has a balcony!"),
        ("Alice now keeps 3 bee hives.", "Alice keeps three bee hives."),
    ],
)
def test_paraphrases_are_duplicates_and_the_older_is_kept(one: str, two: str) -> None:
    (pair,) = pairs_of(one, two)
    assert (pair.problem, pair.kept.content, pair.is_clear) == ("duplicate", one, True)


@cases(
    ("one", "two"),
    [
        ("Alice has a dog called Rex.", "Alice has a dog called Max."),
        ("Alice has a dog.", "Alice has a dog called Rex."),
        ("Alice rarely drinks wine.", "Alice often drinks wine."),
        ("Alice always works late.", "Alice works late."),
        ("Alice has two cats.", "Alice has three cats."),
        ("Alice takes 20 mg of the drug.", "Alice takes 200 mg of the drug."),
        ("Alice prefers tea to coffee.", "Alice prefers coffee to tea."),
        ("Alice drinks wine.", "Alice drank wine."),
        ("Alice wants to buy a boat.", "Alice bought a boat."),
        ("Alice hired Tom.", "Tom hired Alice."),
        ("Alice's sister Ana hired Tom.", "Alice's sister Tom hired Ana."),
        ("Alice must take the pills.", "Alice may take the pills."),
        ("Alice isst Fleisch mit Soße.", "Alice isst kein Fleisch mit Soße."),
        ("Alice ne mange plus de viande.", "Alice ne mange que de la viande."),
        ("Alice come carne.", "Alice no come carne."),
    ],
)
def test_what_differs_in_what_counts_is_no_duplicate(one: str, two: str) -> None:
    assert [pair for pair in pairs_of(one, two) if pair.problem == "duplicate"] == []
    assert paraphrase_key(one, "Alice") != paraphrase_key(two, "Alice")


def test_each_fact_is_ended_by_the_first_that_contradicts_it_and_the_last_one_stays() -> None:
    texts = ("Alice lives in Lisbon.", "Alice lives in Porto.", "Alice lives in Rome.")
    ended = {pair.other.content: pair.kept.content for pair in pairs_of(*texts)}
    assert ended == {texts[0]: texts[1], texts[1]: texts[2]}


def test_after_a_move_back_nothing_is_held_as_a_duplicate() -> None:
    found = pairs_of("Alice lives in Lisbon.", "Alice lives in Porto.", "Alice lives in Lisbon.")
    assert {pair.problem for pair in found if pair.is_clear} == {"contradiction"}
    assert {pair.other.id for pair in found if pair.is_clear} == {"f0", "f1"}


def test_many_facts_are_compared_in_blocks() -> None:
    """The work grows with the facts, not with their pairs."""
    facts = [fact(number, f"Alice visited place number {number} with Tom.") for number in range(3000)]
    assert find_pairs(facts) == []
    assert len(find_pairs([fact(number, "Alice lives in Lisbon.") for number in range(300)])) < 300


# -- the plan ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FrozenClock) -> Any:
    with Memory(tmp_path, worker=False, clock=clock) as memory:
        yield memory


TEXTS = [
    "Alice lives in Lisbon.",
    "Alice lives in Porto.",
    "Alice has a dog called Rex.",
    "Alice owns a dog named Rex.",
]


@pytest.fixture
def flow(memory: Memory) -> Flow:
    flow = memory.flow("support")
    start = datetime(2026, 4, 1, tzinfo=UTC)
    lines = [
        {"type": "memory", "content": text, "subject": "Alice", "occurred_at": (start + timedelta(days=at)).isoformat()}
        for at, text in enumerate(TEXTS)
    ]
    flow.import_lines(lines)
    return flow


def contents(flow: Flow) -> list[str]:
    return sorted(one.content for one in flow.memories())


def test_a_finding_shows_the_pair_and_what_to_keep(flow: Flow) -> None:
    found = {one.problem: one for one in flow.audit().findings}
    home, dog = found["contradiction"], found["duplicate"]
    assert (list(home.texts), home.suggestion) == ([TEXTS[1], TEXTS[0]], "end")
    assert (list(dog.texts), dog.suggestion) == ([TEXTS[2], TEXTS[3]], "hold")
    for finding in (home, dog):
        assert finding.keep == finding.ids[0]
        assert [flow.get(fact_id).content for fact_id in finding.ids] == list(finding.texts)


def test_a_suggested_plan_changes_nothing_until_it_is_applied_and_can_be_reverted(flow: Flow) -> None:
    plan = flow.suggest_plan()
    assert plan is not None
    assert (plan.method, plan.state, contents(flow)) == ("audit", "proposed", sorted(TEXTS))
    assert [(step.do, step.reason, step.text) for step in plan.steps] == [
        ("end", "contradiction", TEXTS[0]),
        ("hold", "duplicate", TEXTS[3]),
    ]
    flow.apply(plan.id)
    assert contents(flow) == sorted(TEXTS[1:3])
    assert flow.audit().findings == []
    assert flow.suggest_plan() is None
    assert [hit.content for hit in flow.search("Lisbon", include=["past"]) if "Lisbon" in hit.content] == [TEXTS[0]]
    (held,) = flow.held()
    assert (held.content, held.held) == (TEXTS[3], "duplicate")
    reverted = flow.revert(plan.id)
    assert reverted.state == "reverted"
    assert contents(flow) == sorted(TEXTS)
    assert flow.held() == []


def test_a_plan_can_be_of_some_facts_only(flow: Flow) -> None:
    (dog,) = [one for one in flow.audit().findings if one.problem == "duplicate"]
    plan = flow.suggest_plan([dog.ids[1]])
    assert plan is not None
    flow.apply(plan.id)
    assert contents(flow) == sorted(TEXTS[:3])


def test_a_plan_is_not_applied_to_facts_that_changed_since(flow: Flow) -> None:
    plan = flow.suggest_plan()
    assert plan is not None
    (lisbon,) = [one for one in flow.memories() if "Lisbon" in one.content]
    flow.update(lisbon.id, content="Alice has an office in Lisbon.")
    with pytest.raises((Stale, Conflict)):
        flow.apply(plan.id)
    assert len(contents(flow)) == 4


def test_a_duplicate_comes_back_if_the_fact_that_was_kept_goes(flow: Flow) -> None:
    plan = flow.suggest_plan()
    assert plan is not None
    flow.apply(plan.id)
    (kept,) = [one for one in flow.memories() if "Rex" in one.content]
    flow.delete_memory(kept.id)
    assert contents(flow) == sorted([TEXTS[1], TEXTS[3]])


def test_a_duplicate_from_a_session_comes_back_when_the_session_of_the_other_is_deleted(
    memory: Memory, clock: FrozenClock
) -> None:
    flow = memory.flow("dogs")
    flow.write("Bob has a boat.")
    for number, text in enumerate(("I have a dog called Rex, a big one.", "I live in Porto.")):
        flow.session(f"s{number}").history.append(role="user", name="Alice", content=text)
        flow.consolidate(f"s{number}")
        clock.advance(days=1)
    (first,) = [one for one in flow.memories() if "Rex" in one.content]
    double = first.content.replace("called", "named")
    flow.import_lines([{"type": "memory", "content": double, "subject": "Alice", "origin": "user"}])
    plan = flow.suggest_plan()
    assert plan is not None
    assert [step.text for step in plan.steps] == [double]
    flow.apply(plan.id)
    assert [one.content for one in flow.memories() if "Rex" in one.content] == [first.content]
    flow.session("s0").delete()
    assert [one.content for one in flow.memories() if "Rex" in one.content] == [double]


def test_a_plan_of_an_audit_has_no_words_of_facts_that_are_erased(flow: Flow) -> None:
    plan = flow.suggest_plan()
    assert plan is not None
    (double,) = [one for one in flow.memories() if one.content == TEXTS[3]]
    flow.delete_memory(double.id)
    assert [step.text for step in flow.plan(plan.id).steps] == [TEXTS[0], ""]


def test_the_command_line_shows_pairs_and_makes_a_plan(tmp_path: Path) -> None:
    at_home = ["--home", str(tmp_path / "home")]
    with Memory(tmp_path / "home", worker=False) as memory:
        for text in (TEXTS[0], TEXTS[1]):
            memory.flow("support").write(text)
    shown = CliRunner().invoke(app, [*at_home, "audit", "--plan", "--flow", "support"])
    assert shown.exit_code == 1
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["end", *TEXTS[0].split()] in lines
    assert ["keep", *TEXTS[1].split()] in lines
    (command,) = [line for line in (shown.stdout + shown.stderr).splitlines() if "apply-plan" in line]
    applied = CliRunner().invoke(app, [*at_home, *command.partition("memwell ")[2].split()])
    assert applied.exit_code == 0
    with Memory(tmp_path / "home", worker=False) as memory:
        assert contents(memory.flow("support")) == [TEXTS[1]]
        assert [plan.method for plan in memory.flow("support").plans()] == ["audit"]
