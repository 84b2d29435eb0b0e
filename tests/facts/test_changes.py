"""Later statements end what is over: changes of use, work, possession and number, corrections, and what the application wrote."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from memwell.facts.periods import find_period
from memwell.facts.plans import Plan
from memwell.sdk._sync import Flow

from ..cases import cases
from ..engines import Memory

pytestmark = pytest.mark.engines()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "store", worker=False) as opened:
        yield opened


def tell(flow: Flow, *said: str, session: str = "monday", **who: Any) -> Plan:
    for text in said:
        flow.session(session).history.append(role="user", content=text, **who)
    plan = flow.consolidate(session)
    assert plan is not None
    return plan


def known(flow: Flow) -> list[str]:
    return [fact.content for fact in flow.memories()]


ENDED = """
I use Evernote for my notes. -> I use Joplin for my notes now.
I use Trello. -> I use Asana now.
I use Trello. -> I switched to Asana.
My laptop runs macOS 13. -> I upgraded to macOS 15.
Our code is on GitLab. -> We moved off GitLab to GitHub.
I type on a Qwerty keyboard. -> These days I type on a Dvorak keyboard.
I work for Siemens. -> I'm with Bosch now.
I work at Acme. -> I'm team lead at Globex.
I'm a waiter. -> I got promoted, I'm a manager now.
I work at Acme in the lab. -> I started at Globex on Monday, so I'm done with Acme.
I'm dating Felix. -> Felix and I broke up.
I'm married to Tom. -> Tom and I got divorced.
My grandmother lives in Parma. -> My grandmother died last week.
I own a boat. -> I sold the boat to my brother.
I have a caravan at the lake. -> Sold the caravan, too much work.
I'm flying to Rome in May. -> I cancelled my flight to Rome.
I take violin lessons on Fridays. -> I quit violin lessons.
I live with a dog called Bello. -> I gave Bello away, so I no longer live with a dog.
I have two kids. -> I have three kids now.
I have two kids. -> I have three kids.
I weigh 92 kg. -> I weigh 85 kg.
My Spanish is at level B1. -> My Spanish is at level B2 now.
My German is B1. -> My German is B2.
I'm on the free plan. -> I'm on the pro plan.
I'm on the free plan. -> I upgraded to pro.
I'm on the Basic tariff. -> I've upgraded to the Gold tariff.
I take 20 mg of ramipril. -> My doctor raised it to 30 mg of ramipril.
My rent is 780 euros. -> My rent went up to 840 euros.
We have four hens. -> We've got six hens now.
My exam is on 12 March. -> They pushed my exam to 2 April.
My wife drives a Fiat. -> My wife drives a Seat now.
I use Jenkins for builds. -> We replaced Jenkins with Buildkite.
I want the vegetarian menu. -> Scratch that, I want the fish menu.
My postcode is 8004. -> Typo, my postcode is 8044.
I use Trello. -> Actually, I use Asana.
I'll take the red sofa. -> On second thought I'll take the grey sofa.
My flight lands at 18:20. -> I meant 19:20, my flight lands at 19:20.
I was born in Nantes. -> Wait, no, I was born in Angers, I only grew up in Nantes.
My appointment is on the 14th. -> Wait, my appointment is on the 15th.
My number is 0176 555 0142. -> I've got a new mobile number: 0151 555 0177.
"""

KEPT = """
I play the cello. -> I sold my old cello.
I love sushi. -> Actually, I love pizza.
I use Python at work. -> I use Rust for hobby projects now.
I use Photoshop. -> I use Slack now.
I have a cat. -> I have a rabbit now.
I have a car insurance with Axa. -> I sold my car.
I take 5 mg of ramipril in the morning. -> I take 10 mg of melatonin at night.
My laptop is a Dell. -> My laptop is slow now.
My sister is a nurse. -> My sister is pregnant now.
My sister lives in Rome. -> My cousin moved to Milan.
I drive a Dacia. -> My wife switched to a Tesla.
I work at Ikea. -> My flatmate quit Ikea.
I go running every morning. -> No running this week, I have a cold.
I live in Brno. -> If I moved to Prague, I would sell the car.
I bank with Monzo. -> I'm thinking of switching to Starling.
I have two brothers. -> My cousin has three brothers.
I like red wine. -> I like white wine now.
My meeting with Ann is at 10. -> My meeting with Bob is at 11.
I have asthma and a cat. -> My cat died.
I live in Umeå. -> I worked in Kiruna from 2010 to 2012.
"""

SETTLED = """
The drummer is still missing. -> We hired a drummer, Pat.
I'm looking for a flat in Turin. -> I found a flat in Turin!
We still need a photographer. -> We booked a photographer, Lea Kranz.
I have no babysitter yet. -> I found a babysitter.
The venue is undecided. -> We picked a venue, the Boathouse.
My visa is still pending. -> My visa arrived.
My knee hurts. -> My knee is fine now.
The printer is broken. -> The printer works again.
My wifi keeps dropping. -> The wifi is fixed.
I struggle with fractions. -> Fractions are fine now.
My ankle is sprained. -> My ankle has healed.
The painter starts on 4 May. -> The painter can't come before 11 May.
The sofa arrives on 5 June. -> The sofa is delayed until 19 June.
The opening is on 28 December. -> The opening can't happen before 11 January.
The dress will be ready on 12 May. -> The dress won't be ready until 20 May.
I swim on Tuesdays and Fridays. -> I changed to swimming on Mondays and Fridays.
I go running at 6 am. -> I switched to running at 8 pm.
I weigh 92 kg. -> I'm down to 85 kg.
I run 10 km a week. -> I'm up to 18 km a week.
My cholesterol is 240. -> My cholesterol is down to 190.
We have 400 subscribers. -> We're at 650 subscribers now.
There are 12 students in my class. -> My class has 15 students now.
The team is 8 people. -> We're 11 people now.
We picked a walnut table. -> We dropped the walnut table.
I signed up for the pottery course. -> I dropped out of the pottery course.
I ordered a desk. -> I returned the desk.
We hired a magician for the party. -> The magician is cancelled.
I have a parrot called Pip. -> Pip flew away.
I have a dog called Rex. -> Rex died.
My uncle Piet lives in Delft. -> Uncle Piet died.
I have a tortoise named Karl. -> We had to put Karl down.
My email is vera@fox.example. -> New email: vera@elk.example, the old one doesn't work any more.
My office is room 12. -> New office: room 48.
My mobile is 0151 555 0199. -> my new mobile: 0151 555 0144
i live in narvik -> sorry i should have said, i moved to alta in may
i work at lidl -> i forgot to mention, i left lidl in june
"""

NOT_SETTLED = """
The florist is still open. -> We found a caterer.
I'm looking for a flat in Turin. -> My sister found a flat in Turin.
The bakery is still open on Sundays. -> We found a bakery in Graz.
I'm looking for a cello teacher. -> I found a piano teacher.
I need a car seat. -> I found a car.
My knee hurts. -> My elbow is fine now.
My knee hurts. -> My brother's knee is fine now.
My car is red. -> My car is fine now.
My daughter is diabetic. -> My daughter is fine now.
The painter starts on 4 May. -> The plumber can't come before 11 May.
The painter starts on 14 May. -> The painter can't come before 11 May.
The lease ends on 31 May. -> I can't come before 11 June.
I swim on Tuesdays. -> I changed to cycling on Tuesdays.
I work from home on Fridays. -> I changed to working late on Mondays.
I weigh 92 kg. -> My suitcase is down to 20 kg.
I run 10 km a week. -> I'm up to 18 pages of my thesis.
I lift 60 kg. -> I'm down to 85 kg.
We have 20 guests on Friday. -> We have 30 guests on Saturday now.
The choir has 30 singers. -> We have 4 solo singers now.
My brother has 2 kids. -> I have 3 kids now.
We picked a walnut table. -> We dropped a plate on the walnut table.
I met Tom in Rome. -> I cancelled Rome.
I picked up the parcel. -> I dropped the parcel at the shop.
My uncle Piet lives in Delft. -> Uncle Jan died.
I have a dog called Bruno. -> Bruno's brother died.
My cat is called Minka. -> New cat: Mia!
I rent a flat in Ghent. -> If I bought a house in Bruges, would I lose the rent subsidy?
I'm on the starter plan. -> If I upgrade to the pro plan, do I get exports?
I live in Hull. -> Sure, and I live in Versailles, obviously.
I hate gardening. -> Oh sure, I absolutely love pulling weeds in the rain.
"""

CORRECTED = """
My appointment is on the 14th. -> Wait, it's the 15th. -> Ann's appointment is on the 15th.
The exam is on Tuesday. -> oh wait, Wednesday -> The exam is on Wednesday.
We need 30 plates. -> make it 35 -> Ann said: "We need 35 plates."
The rent is due on the 1st. -> hold on, it's the 3rd -> The rent is due on the 3rd.
Our gate is B12. -> sorry, B21 -> Ann's gate is B21.
My landlord is called Novak. -> sorry, Nowak -> Ann's landlord is called Nowak.
My teacher is called Anna. -> Thanks, Tom -> Ann's teacher is called Anna.
"""


def pairs(text: str) -> list[tuple[str, ...]]:
    return [tuple(line.split(" -> ")) for line in text.strip().splitlines()]


@cases(("first", "then"), pairs(ENDED + SETTLED.lstrip()))
@cases("who", [{"name": "Ann"}, {}])
def test_a_change_ends_what_was_true(memory: Memory, first: str, then: str, who: dict[str, str]) -> None:
    flow = memory.flow(f"ended {first} {then} {len(who)}")
    (old,) = tell(flow, first, **who).steps
    plan = tell(flow, then, **who)
    assert old.id in [ended for step in plan.steps for ended in step.ends or ()], [step.text for step in plan.steps]
    assert old.text not in known(flow)


@cases(("first", "then"), pairs(KEPT + NOT_SETTLED.lstrip()))
def test_what_only_looks_like_a_change_ends_nothing(memory: Memory, first: str, then: str) -> None:
    flow = memory.flow(f"kept {first} {then}")
    (old,) = tell(flow, first, name="Ann").steps
    tell(flow, then, name="Ann")
    assert old.text in known(flow)


@cases(("first", "then", "fact"), pairs(CORRECTED))
def test_a_bare_value_corrects_the_statement_before(memory: Memory, first: str, then: str, fact: str) -> None:
    flow = memory.flow(f"corrected {first} {then}")
    history = flow.session("monday").history
    history.append(role="user", content=first, name="Ann")
    history.append(role="assistant", content="Noted.")
    tell(flow, then, name="Ann")
    assert known(flow) == [fact]


def test_a_fact_ends_among_many_of_its_person(memory: Memory) -> None:
    flow = memory.flow("many")
    others = [f"My {thing} comes from {place}." for thing, place in zip(THINGS, PLACES, strict=True)]
    tell(flow, "We have about 80 guests.", *others, name="Ximena")
    tell(flow, "We have 110 guests now.", name="Ximena")
    assert [fact for fact in known(flow) if "guests" in fact] == ["Ximena's family has 110 guests now."]


THINGS = ["venue", "cake", "band", "dress", "car", "flowers", "wine", "ring", "photographer", "priest"]
PLACES = ["Oaxaca", "Puebla", "Lima", "Quito", "Bogota", "Cusco", "Cali", "Merida", "Tijuana", "Leon"]


def test_a_measure_ends_none_of_several_that_it_may_mean(memory: Memory) -> None:
    flow = memory.flow("several")
    tell(flow, "I work 40 hours a week.", "I sleep 56 hours a week.", name="Ann")
    tell(flow, "I'm down to 32 hours a week.", name="Ann")
    assert len(known(flow)) == 3


def test_a_correction_may_stand_in_a_sentence_of_its_own(memory: Memory) -> None:
    flow = memory.flow("own sentence")
    tell(flow, "I want the vegetarian menu.")
    tell(flow, "Scratch that. I want the fish menu.")
    assert known(flow) == ["The user wants the fish menu."]


# -- whose


def test_the_turns_of_a_session_without_a_name_are_of_one_person(memory: Memory) -> None:
    flow = memory.flow("unnamed")
    tell(flow, "I live in Lisbon.", session="a")
    tell(flow, "I live in Rome.", session="b")
    tell(flow, "I moved to Porto.", session="a")
    assert sorted(known(flow)) == ["The user lives in Rome.", "The user moved to Porto."]
    assert {fact.content: fact.subject for fact in flow.memories()} == {
        "The user lives in Rome.": "The user of b",
        "The user moved to Porto.": "The user of a",
    }


def test_the_application_can_say_who_speaks(memory: Memory) -> None:
    flow = memory.flow("ids")
    for session, text in (("a", "I live in Lisbon."), ("b", "I moved to Porto.")):
        flow.session(session, user="u-204").history.append(role="user", content=text)
        flow.consolidate(session)
    tell(flow, "I live in Oslo.", session="c", user="u-7")
    tell(flow, "I moved to Bergen.", session="d", user="u-7")
    flow.session("e", user="u-7").history.extend([{"role": "user", "content": "I'm a nurse."}])
    flow.consolidate("e")
    facts = [(fact.content, fact.subject) for fact in flow.memories()]
    assert facts == [
        ("The user moved to Porto.", "u-204"),
        ("The user moved to Bergen.", "u-7"),
        ("The user is a nurse.", "u-7"),
    ]


@cases(("user", "text"), [("u-204", "The user"), ("4711", "The user"), ("ana@example.com", "The user"), ("ana", "Ana")])
def test_an_id_is_not_a_name(memory: Memory, user: str, text: str) -> None:
    flow = memory.flow(f"id {user}")
    tell(flow, "I live in Lisbon.", user=user)
    (fact,) = flow.memories()
    assert (fact.content, (fact.subject or "").lower()) == (f"{text} lives in Lisbon.", user)


def test_hits_show_whom_they_are_about(memory: Memory) -> None:
    flow = memory.flow("hits")
    tell(flow, "I live in Lisbon.")
    tell(flow, "I live in Porto.", session="tuesday", name="Bob")
    flow.session("friday").write("The user lives in Braga.")
    subjects = {hit.content: (hit.subject, hit.session) for hit in flow.search("Who lives where?")}
    assert subjects == {
        "The user lives in Lisbon.": ("The user of monday", None),
        "Bob lives in Porto.": ("Bob", None),
        "The user lives in Braga.": ("The user of friday", "friday"),
    }


# -- what the application wrote


@cases(
    ("written", "said", "who", "left"),
    [
        ("Alice lives in Lisbon.", "I live in Lisbon.", {"name": "Alice"}, ["Alice lives in Lisbon."]),
        ("Alice lives in Lisbon.", "I moved to Porto.", {"name": "Alice"}, ["Alice moved to Porto."]),
        ("The user is vegetarian.", "I'm no longer vegetarian.", {}, ["The user is no longer vegetarian."]),
        ("I live in Lisbon.", "I moved to Porto.", {}, ["The user moved to Porto."]),
        (
            "Alice lives in Lisbon.",
            "I moved to Porto.",
            {"name": "Bob"},
            ["Alice lives in Lisbon.", "Bob moved to Porto."],
        ),
        (
            "The user lives in Lisbon.",
            "I moved to Porto.",
            {"name": "Bob"},
            ["The user lives in Lisbon.", "Bob moved to Porto."],
        ),
    ],
)
def test_what_was_written_takes_part(
    memory: Memory, written: str, said: str, who: dict[str, str], left: list[str]
) -> None:
    flow = memory.flow(f"written {written} {said} {who}")
    flow.write(written, confidence=0.6)
    tell(flow, said, **who)
    assert known(flow) == left
    if left == [written]:
        assert flow.memories()[0].confidence > 0.6


def test_a_rule_of_the_application_is_ended_by_nobody(memory: Memory) -> None:
    flow = memory.flow("rule")
    flow.write("Refunds over 500 euros need approval.")
    tell(flow, "Remember that refunds over 500 euros do not need approval.", name="Eve")
    assert "Refunds over 500 euros need approval." in known(flow)


def test_what_was_written_for_a_session_takes_part_there(memory: Memory) -> None:
    flow = memory.flow("session")
    flow.session("a").write("The user lives in Rome.")
    tell(flow, "I moved to Porto.", session="b")
    assert "The user lives in Rome." in known(flow)
    plan = tell(flow, "I moved to Porto.", session="a")
    assert "The user lives in Rome." not in known(flow)
    flow.revert(plan.id)
    assert "The user lives in Rome." in known(flow)


# -- periods


@cases(
    ("text", "since", "until"),
    [
        ("Ann lived in Rome from 2015 to 2018.", date(2015, 1, 1), date(2018, 12, 31)),
        ("Ann worked at Acme from March 2019 until June 2021.", date(2019, 3, 1), date(2021, 6, 30)),
        ("Ann studied law 2010–2014.", date(2010, 1, 1), date(2014, 12, 31)),
        ("Ann lived there between 2015-03-01 and 2016-02-29.", date(2015, 3, 1), date(2016, 2, 29)),
        ("Ann was in Lisbon in March 2024.", date(2024, 3, 1), date(2024, 3, 31)),
        ("Ann lived in Oslo until 2020.", None, date(2020, 12, 31)),
        ("Ann has lived in Oslo since May 2019.", date(2019, 5, 1), None),
        ("Ann moved to Porto in March 2024.", date(2024, 3, 1), None),
        ("Ann met Bob on 9 March 2025.", date(2025, 3, 9), None),
        ("Ann works from 9 to 5.", None, None),
        ("Ann's flight is on 3 June 2025.", None, None),
        ("If Ann had lived in Rome from 2015 to 2018.", None, None),
        ("Ann lived in Rome from 2018 to 2015.", None, None),
        ("Ann was there on 31 February 2024.", None, None),
    ],
)
def test_statements_give_their_period(text: str, since: date | None, until: date | None) -> None:
    assert find_period(text) == (since, until)


def test_a_fact_is_true_in_its_period(memory: Memory) -> None:
    flow = memory.flow("periods")
    tell(flow, "I lived in Rome from 2015 to 2018.", "I worked at Acme until 2020.", name="Ann")
    in_year = {
        year: [fact.content for fact in flow.memories(valid_at=datetime(year, 6, 1, tzinfo=UTC))]
        for year in (2014, 2017, 2019, 2022)
    }
    rome, acme = "Ann lived in Rome from 2015 to 2018.", "Ann worked at Acme until 2020."
    assert in_year == {2014: [acme], 2017: [rome, acme], 2019: [acme], 2022: []}
    assert known(flow) == [rome, acme]
    assert [fact.valid_to and fact.valid_to.year for fact in flow.memories()] == [2018, 2020]
