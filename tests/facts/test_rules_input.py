"""Whatever comes in, extraction ends, takes time in proportion, gives the same again, and points to the words it is from."""

from __future__ import annotations

from datetime import date

import pytest

from memwell.facts.datatypes import Turn
from memwell.facts.rules.extractor import extract
from memwell.facts.rules.passages import blank_recalled_memory, split_sentences
from memwell.facts.rules.phrase import resolve_dates

from ..cases import cases
from ..processor_time import processor_time

pytestmark = pytest.mark.engines()

DAY = date(2023, 5, 8)
TALK = (
    "I went to Rome yesterday. It was great!",
    "Hey! How are you?",
    "My sister has two dogs.",
    "😀",
    "How many?",
    "Two",
)


def turns(count: int) -> list[Turn]:
    return [Turn(str(n), "user", ("Ana", "Bob")[n % 2], TALK[n % len(TALK)], DAY) for n in range(count)]


@cases(
    ("text", "written", "since"),
    [
        ("I left yesterday.", "I left on 7 May 2023.", date(2023, 5, 7)),
        ("Yesterday I left", "On 7 May 2023 I left", date(2023, 5, 7)),
        ("It was last Friday", "It was on Friday, 5 May 2023", date(2023, 5, 5)),
        ("last week", "in the week before 8 May 2023", None),
        ("next month", "in June 2023", None),
        ("last year", "in 2022", None),
        ("two weeks ago", "two weeks before 8 May 2023", date(2023, 4, 24)),
        ("three days ago", "on 5 May 2023", date(2023, 5, 5)),
        ("since yesterday", "since 7 May 2023", date(2023, 5, 7)),
        ("I've lived here since 2019", "I've lived here since 2019", date(2019, 1, 1)),
        ("tomorrow", "on 9 May 2023", None),
        ("in the last week", "in the last week", None),
    ],
)
def test_relative_days_become_dates(text: str, written: str, since: date | None) -> None:
    assert resolve_dates(text, DAY) == (written, since)


def test_days_at_the_end_of_time_stay_as_they_are() -> None:
    assert resolve_dates("yesterday", date.min).text == "yesterday"
    assert resolve_dates("tomorrow", date.max).text == "tomorrow"
    assert resolve_dates("next month", date.max).text == "next month"


def test_sentences_know_where_they_stand() -> None:
    text = "Dr. Who came at 3.5 p.m. today!  He left.\n- A point\n1. Another… 他来了。再见"
    found = split_sentences(text)
    assert [one.text for one in found] == [
        "Dr. Who came at 3.5 p.m. today!", "He left.", "A point", "Another…", "他来了。", "再见",
    ]  # fmt: skip
    assert all(text[one.start : one.end] == one.text for one in found)


def test_a_fence_that_is_never_closed_is_somebodys_own_word() -> None:
    text = "a <memory>b</memory> c <memory> d"
    assert blank_recalled_memory(text) == f"a {' ' * 18} c <memory> d"


def test_sources_point_to_the_words() -> None:
    said = turns(600)
    for fact in extract(said):
        source = fact.sources[0]
        assert said[int(source.id)].text[source.start : source.end].strip() != ""
    (fact,) = extract([Turn("a", "user", "Ana", "Hi Bob!  I have a dog. Bye!", DAY)])
    assert (fact.sources[0].start, fact.sources[0].end) == (9, 22)


def test_the_same_turns_give_the_same_facts() -> None:
    assert extract(turns(300)) == extract(turns(300))


@cases(
    "piece",
    [
        "a", ".", "!x", "[", "[a ", "<memory>", '"', "😀", "I have a dog and ", "I have a dog. ", "\n", "我住在上海。", "```\n",
        "oh, ", "I am, do you? ", "not ", "you'd ", "> a\n", "Tom: I am. ", "From: a\n", "a = (\n", "if (", "Dear a,\n", "'a ",
        "I have 2. sorry, 3. ", "fix this a\n", "I have a dog. It is a cat. ", "Ich wohne. sorry, 3. ",
    ],
)  # fmt: skip
def test_a_long_turn_takes_time_in_proportion(piece: str) -> None:
    """A turn has a mebibyte at most; a sixteenth of it shows what grows faster than it should."""

    def seconds(length: int) -> float:
        said = [Turn("a", "user", "Ana", (piece * (length // len(piece) + 1))[:length], DAY)]
        return processor_time(lambda: extract(said))

    small = seconds(1 << 13)
    assert seconds(1 << 16) < 30 * small + 0.2


@pytest.mark.long
def test_fifty_thousand_turns_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        said = turns(count)
        return processor_time(lambda: extract(said))

    small = seconds(5_000)
    assert seconds(50_000) < 30 * small + 0.5
