"""Reconciliation of a candidate with known facts, as a pure function."""

from __future__ import annotations

from datetime import date
from functools import cache

from memwell.facts.datatypes import Candidate, Kind, KnownFact
from memwell.facts.reconcile import Decision, combine_confidence, reconcile
from memwell.facts.wording import parse_statement

from ..cases import cases
from ..facts.dialogue import FOLDER, similarity

DAY, LATER = date(2025, 3, 1), date(2025, 9, 1)


def candidate(text: str, subject: str | None = "Alice", kind: Kind = "statement") -> Candidate:
    return Candidate(text, subject, kind, (), 0.5, 0.8)


def known(text: str, subject: str | None = "Alice", day: date = DAY, near: str = "", name: str = "old") -> KnownFact:
    return KnownFact(name, text, subject, day, similarity(text, near or text))


def decided(old: str, new: str, subject: str | None = "Alice", kind: Kind = "statement") -> Decision:
    return reconcile(candidate(new, subject, kind), [known(old, subject, near=new)], LATER)


# -- keys --------------------------------------------------------------------------------------------------------------


@cases(
    ("one", "two"),
    [
        ("Alice lives in Lisbon.", "Alice lives in Lisbon!"),
        ("Alice goes to the gym every Monday.", "On Mondays Alice goes to the gym."),
        ("Alice has two cats.", "Alice has got 2 cats."),
        ("Alice can't stand olives.", "Alice hates olives."),
        ("Alice speaks French and German.", "Alice can speak German and French."),
        ("Alice was born on 2025-06-03.", "Alice was born on June 3, 2025."),
        ("Alice's number is 555-0199.", "Alice's number is 555 0199."),
        ('Alice said: "I love hiking."', "Alice really loves hiking."),
        ("Alice never drinks alcohol.", "Alice does not drink alcohol."),
        ("The user likes jazz.", "Alice likes jazz."),
        ("Alice prefers tea to coffee.", "Alice likes tea more than coffee."),
        ('Alice corrected: "Sorry, I meant the board meeting is at 11 am."', "The board meeting is at 11 am."),
        ('Asked "How is Lucas?", Alice said: "I broke up with Lucas."', "Alice broke up with Lucas."),
    ],
)
def test_retellings_have_one_key(one: str, two: str) -> None:
    assert parse_statement(one, "Alice").key == parse_statement(two, "Alice").key


@cases(
    ("one", "two"),
    [
        ("Alice drinks alcohol.", "Alice does not drink alcohol."),
        ("Alice has two cats.", "Alice has three cats."),
        ("Alice called Tom.", "Tom called Alice."),
        ("Alice prefers tea to coffee.", "Alice prefers coffee to tea."),
        ("Alice would move to Rome.", "Alice moves to Rome."),
        ("Alice smokes.", "Alice used to smoke."),
        ("Alice visits Rome.", "Alice visited Rome."),
        ("Alice is so happy.", "Alice is so tired."),
    ],
)
def test_what_differs_has_two_keys(one: str, two: str) -> None:
    assert parse_statement(one, "Alice").key != parse_statement(two, "Alice").key


# -- topics ------------------------------------------------------------------------------------------------------------


@cases(
    ("text", "slot", "value", "polarity"),
    [
        ("Alice lives in Lisbon.", "home", {"lisbon"}, "is"),
        ("Alice moved to Porto.", "home", {"porto"}, "is"),
        ("Alice has been living in Lisbon since 2018.", "home", {"lisbon"}, "is"),
        ("Alice used to live in Berlin.", "home", {"berlin"}, "was"),
        ("Alice lived in Berlin.", "home", {"berlin"}, "was"),
        ("Alice does not live in Berlin.", "home", {"berlin"}, "not"),
        ('Alice said: "I live in Lisbon."', "home", {"lisbon"}, "is"),
        ("The user works at Acme.", "employer", {"acm"}, "is"),
        ("Alice no longer works at Acme.", "employer", {"acm"}, "was"),
        ("Alice left Acme.", "home", {"acm"}, "was"),
        ("Alice's sister works at Globex.", "sister/employer", {"globex"}, "is"),
        ("Alice works as a nurse.", "role", {"nurs"}, "is"),
        ("Alice is no longer vegetarian.", "diet", {"vegetarian"}, "was"),
        ("Alice is married to Tom.", "relationship", {"wed", "tom"}, "is"),
        ("Tom is Alice's husband.", "relationship", {"wed", "tom"}, "is"),
        ("Alice turned 40 on 2025-06-17.", "age", {"40"}, "is"),
        ("Alice's daughter Mia is 5.", "daughter/mia/age", {"5"}, "is"),
        ("Alice's phone number is 555-0199.", "phone", {"5550199"}, "is"),
        ("Alice's favorite band is Muse.", "favourite:band", {"muse"}, "is"),
        ("Alice's dentist appointment has been moved to Thursday.", "day:appoint:dentist", {"thursday"}, "is"),
        ("The board meeting is at 11 am.", "hour:board:meet", {"11"}, "is"),
        ("Alice now drives a Volvo.", "car", {"volvo"}, "is"),
        ("Alice quit smoking.", "smoking", {"smoke"}, "was"),
        ("Alice wants replies in German.", "language", {"german"}, "is"),
        ("Alice's time zone is CET.", "thing:zone", {"cet"}, "is"),
    ],
)
def test_topics_and_their_values(text: str, slot: str, value: set[str], polarity: str) -> None:
    found = parse_statement(text, "Alice").topic
    assert found
    assert (found.slot, set(found.value), str(found.polarity)) == (slot, value, polarity)


@cases(
    "text",
    [
        "Alice is visiting Porto.",
        "Alice might move to Porto.",
        "If Alice won the lottery, Alice would live in Hawaii.",
        "Alice is planning to work at Acme.",
        "Alice likes sushi.",
        "Alice wohnt in Lissabon.",
        "爱丽丝住在里斯本。",
        "😀",
        "",
        "Alice lives in " + "a very long story " * 100,
    ],
)
def test_what_has_no_topic(text: str) -> None:
    assert parse_statement(text, "Alice").topic is None


def test_names_of_topics_hold_nothing_of_what_was_said() -> None:
    found = parse_statement("Alice's favourite band is Muse.", "Alice").topic
    assert found
    assert found.name == "favourite"


# -- decisions ---------------------------------------------------------------------------------------------------------


@cases(
    ("old", "new", "do", "reason"),
    [
        ("Alice lives in Lisbon.", "Alice lives in Lisbon.", "merge", "same_words"),
        ("Alice moved to Lisbon.", "Alice lives in Lisbon.", "merge", "same_value_of:home"),
        ("Alice plays the guitar.", "Alice plays guitar in her free time.", "merge", "same_words"),
        ("Alice volunteers at a shelter.", "Alice volunteers at a homeless shelter.", "add", "new"),
        ("Alice has a peanut allergy.", "Alice is allergic to peanuts.", "merge", "same_value_of:allergy"),
        ("Alice lives in Lisbon.", "Alice moved to Porto.", "supersede", "later_statement_about:home"),
        ("Alice is vegetarian.", "Alice is no longer vegetarian.", "supersede", "later_statement_about:diet"),
        ("Alice likes coffee.", "Alice does not like coffee anymore.", "supersede", "later_statement_about:opposite"),
        (
            "Alice has a dog named Bruno.",
            "Alice does not have a dog any more.",
            "supersede",
            "later_statement_about:opposite",
        ),
        (
            "Alice uses an iPhone.",
            "Alice switched from an iPhone to a Pixel.",
            "supersede",
            "later_statement_about:replaced",
        ),
        ("Alice lives in Lisbon.", "Alice does not live in Porto.", "add", "new"),
        ("Alice lives in Lisbon.", "Alice used to live in Porto.", "add", "new"),
        ("Alice lives in Lisbon.", "Alice lives in Portugal.", "add", "new"),
        ("Alice lives in Lisbon.", "Alice moved to Canada.", "supersede", "later_statement_about:home"),
        ("Alice lives in Lisbon.", "Alice lives in a small flat.", "add", "new"),
        ("Alice likes red wine.", "Alice likes white wine.", "add", "new"),
        ("Alice is allergic to nuts.", "Alice's son is allergic to nuts.", "add", "new"),
        ("Alice bought a house in Utrecht.", "Alice sold the house in Utrecht.", "add", "new"),
        ("Alice ran the marathon in 2022.", "Alice ran the marathon in 2023.", "add", "new"),
        ("Alice is a teacher.", "Alice is a writer.", "add", "new"),
        ("Alice is a teacher.", "Alice works as a writer now.", "supersede", "later_statement_about:role"),
        ("Alice's cat is called Luna.", "Alice's cat is called Tom.", "add", "new"),
        ("Alice's birthday is on the 9th of May.", "Alice was born on 9 May.", "merge", "same_value_of:birthday"),
        ("Alice's rent is 900 euros.", "Alice's rent is now 1000 euros.", "supersede", "later_statement_about:amount"),
        ("Alice wohnt in Lissabon.", "Alice wohnt in Porto.", "add", "new"),
        ("Alice wohnt in Lissabon.", "Alice wohnt in Lissabon!", "merge", "same_words"),
    ],
)
def test_decisions(old: str, new: str, do: str, reason: str) -> None:
    decision = decided(old, new)
    assert (decision.do, decision.reason) == (do, reason)
    assert decision.targets == (() if do == "add" else ("old",))


def pairs(name: str) -> list[tuple[str, str]]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    told = [line.split(" -> ") for line in lines if line and not line.startswith("#")]
    return [(old, new) for old, new in told]


@cases(("old", "new"), pairs("apart"))
def test_what_is_no_later_word_about_the_same_ends_nothing(old: str, new: str) -> None:
    assert decided(old, new) == Decision("add", "new")


@cases(("old", "new"), pairs("ended"))
def test_a_later_word_about_the_same_ends_it(old: str, new: str) -> None:
    assert decided(old, new).do == "supersede"


def test_a_year_is_history_for_what_was_said_after_it() -> None:
    new = candidate("Alice moved to Rome in 2024.")
    for year, do in ((2025, "add"), (2024, "supersede"), (2023, "supersede")):
        assert reconcile(new, [known("Alice lives in Lisbon.", day=date(year, 1, 1))], LATER).do == do


def test_what_is_only_reported_corrects_nothing() -> None:
    assert decided("Alice lives in Lisbon.", "Tom thinks Alice lives in Rome.", kind="correction").do == "add"


def test_nothing_is_decided_across_subjects() -> None:
    new = candidate("Bob lives in Porto.", "Bob")
    for text in ("Alice lives in Lisbon.", "Alice lives in Porto."):
        assert reconcile(new, [known(text)], LATER) == Decision("add", "new")
    assert reconcile(candidate("Alice lives in Porto.", None), [known("Alice lives in Porto.")], LATER).do == "add"


def test_without_a_known_subject_equal_statements_merge_and_none_is_superseded() -> None:
    assert decided("The user lives in Lisbon.", "The user lives in Lisbon.", None).do == "merge"
    assert decided("The user lives in Lisbon.", "The user moved to Porto.", None) == Decision("add", "new")
    assert decided("The user smokes.", "The user quit smoking.", None, "correction") == Decision("add", "new")


def test_a_subject_is_the_same_however_it_is_written() -> None:
    assert (
        reconcile(candidate("alice moved to Porto.", "alice"), [known("Alice lives in Rome.")], LATER).do == "supersede"
    )


def test_somebody_of_theirs_is_told_by_the_words_whatever_the_subject_is_called() -> None:
    new, name = candidate("Alice's brother now works for a charity."), "Alice's brother"
    assert reconcile(new, [known("Alice's brother works for a bank.", name)], LATER).do == "supersede"
    assert reconcile(new, [known("Alice works for a bank.")], LATER).do == "add"


def test_an_earlier_statement_is_added_as_past() -> None:
    decision = reconcile(candidate("Alice lives in Lisbon."), [known("Alice moved to Porto.", day=LATER)], DAY)
    assert decision == Decision("add", "older_than_known:home", ("old",), past=True)


def test_on_the_same_day_the_later_statement_holds() -> None:
    assert reconcile(candidate("Alice moved to Porto."), [known("Alice lives in Rome.")], DAY).do == "supersede"


def test_a_correction_supersedes_what_it_corrects() -> None:
    old = [
        known("Alice's brother bought a boat in 2019.", name="boat"),
        known("Alice's grandmother bought the cottage in 1980.", name="cottage"),
    ]
    new = "Alice's grandmother bought the cottage in 1970."
    assert reconcile(candidate(new), old, DAY).do == "add"
    corrected = reconcile(candidate(new, kind="correction"), old, DAY)
    assert corrected == Decision("supersede", "later_statement_about:correction", ("cottage",))
    assert reconcile(candidate("Alice has a parrot.", kind="correction"), old, DAY).do == "add"


def test_all_that_contradicts_is_superseded() -> None:
    old = [known("Alice lives in Rome.", name="a"), known("Alice is living in Milan.", name="b")]
    assert reconcile(candidate("Alice moved to Porto."), old, LATER).targets == ("a", "b")


def test_repeated_memory_is_an_echo() -> None:
    old = [known("Alice lives in Porto.")]
    for text in ("Alice lives in Porto.", "Alice lives in Lisbon."):
        assert reconcile(candidate(text), old, LATER, repeats=True) == Decision("skip", "echo")
    assert reconcile(candidate("Alice likes jazz."), old, LATER, repeats=True) == Decision("add", "new")


def test_turns_without_facts_are_skipped() -> None:
    assert reconcile(candidate("Alice is."), [], DAY) == Decision("skip", "says_nothing")


def test_a_merge_says_whether_the_new_wording_is_fuller() -> None:
    assert decided("Alice works at Acme.", "Alice works at Acme as an engineer.").fuller
    assert not decided("Alice works at Acme as an engineer.", "Alice works at Acme.").fuller


def test_statements_may_be_read_with_a_cache() -> None:
    reading = cache(parse_statement)
    for _ in range(2):
        new, old = candidate("Alice moved to Porto."), [known("Alice lives in Rome.")]
        assert reconcile(new, old, LATER, parse=reading).do == "supersede"
    assert reading.cache_info().hits == 2


def test_confirmation_raises_confidence_less_each_time() -> None:
    once = combine_confidence(0.6, 0.8)
    twice = combine_confidence(once, 0.8)
    assert 0.6 < once < twice < 1
    assert twice - once < once - 0.6
    assert combine_confidence(1.0, 0.9) == 1.0
    assert combine_confidence(0.6, 0.0) == 0.6
