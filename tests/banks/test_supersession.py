"""Summaries show what is true now: the newest of similar statements, no joke, and no pronoun without its noun."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from memwell.banks.summary import summarise
from memwell.banks.utterances import Line
from memwell.text.tokens import estimate_tokens

from ..cases import cases
from ..processor_time import processor_time

pytestmark = pytest.mark.engines()

USER, ASSISTANT = "user", "assistant"
OVER = re.compile(
    r"(?i)\b(no longer|not|never|used to|quit|stopped|left|sold|was|replaced?|switched|instead|cancel\w*|no more)\b|n't\b"
)


class Conversation(NamedTuple):
    """A conversation, key points with the words that state them, old values with what came instead, and patterns of junk."""

    name: str
    lines: list[Line]
    points: list[list[str]]
    superseded: list[tuple[str, str]]
    junk: list[str]


def load_conversations() -> list[Conversation]:
    """The conversations of `conversations.txt`: U and A speak, P is a point, S an old value / the new one, J is junk."""
    found: list[Conversation] = []
    for row in (Path(__file__).parent / "conversations.txt").read_text(encoding="utf-8").splitlines():
        kind, _, text = row.partition(" ")
        if kind == "#":
            found.append(Conversation(text, [], [], [], []))
        elif kind in ("U:", "A:"):
            found[-1].lines.append(Line(text, USER if kind == "U:" else ASSISTANT))
        elif kind == "P:":
            found[-1].points.append(text.split(" | ")[1:])
        elif kind == "S:":
            old, _, new = text.partition(" / ")
            found[-1].superseded.append((old, new))
        else:
            found[-1].junk.append(text)
    return found


def fold(lines: list[Line], step: int) -> str:
    """Summarise at once, or always the next lines together with the summary so far."""
    text = ""
    for start in range(0, len(lines), step):
        before = [Line(text, ASSISTANT, summary=True)] if text else []
        text = summarise([*before, *lines[start : start + step]], 600)
    return text


@cases("step", [1000, 20])
def test_conversations_are_summarised_by_what_holds(step: int) -> None:
    points: list[bool] = []
    shown: list[bool] = []
    junk: list[bool] = []
    for one in load_conversations():
        summary = fold(one.lines[:-1], step)
        sentences = re.split(r"(?<=[.!?])\s+|\n+|(?=\b(?:User|Assistant): )", summary)
        pairs = [f"{before} {text}" for before, text in zip(["", *sentences], sentences, strict=False)]
        points += [any(all(re.search(word, text, re.I) for word in words) for text in pairs) for words in one.points]
        for old, new in one.superseded:
            stale = [text for text in sentences if re.search(old, text, re.I) and not re.search(new, text, re.I)]
            shown.append(not all(OVER.search(text) for text in stale))
        junk += [re.search(pattern, summary, re.I) is not None for pattern in one.junk]
    assert sum(points) >= 0.92 * len(points)
    assert sum(shown) <= 0.2 * len(shown)
    assert sum(junk) <= 0.2 * len(junk)


def tell(*turns: str) -> str:
    """Summarise turns, those of the assistant after `A: `."""
    lines = [Line(text.removeprefix("A: "), ASSISTANT if text.startswith("A: ") else USER) for text in turns]
    return summarise(lines, 600)


@cases(
    ("earlier", "later", "stale"),
    [
        ("The rehearsal is on 3 May in the town hall.", "The rehearsal moves to 10 May.", "3 May"),
        ("Tickets are 12 euros.", "Tickets are 15 euros from now on.", "12 euros"),
        ("Our florist is Petal & Stem.", "Petal & Stem cancelled, so Bloomhouse does the flowers.", "florist"),
        ("We host the site on Netlify.", "We moved off Netlify, it runs on Render now.", "on Netlify"),
        ("The warm-up starts at 18:15.", "The warm-up is at 18:45.", "18:15"),
        ("Each team has 12 players.", "The league reduced it, each team has 9 players now.", "12 players"),
        ("I take the bus with Helga, 20 stops.", "I no longer take the bus, I cycle with Helga.", "20 stops"),
        ("My coach is Ruud Jansen.", "My new coach is Pia Blom.", "Ruud"),
        ("I live in Ghent near the canal.", "I moved to Bruges last week.", "Ghent"),
        ("Our dentist is Dr Moor.", "Our dentist is now Dr Okri.", "Moor"),
        ("The deposit is 300 pounds.", "The deposit went up to 350 pounds.", "300"),
        ("Choir practice is on Mondays.", "Choir practice has moved to Thursdays.", "Mondays"),
    ],
)
def test_the_newest_of_similar_statements_stays(earlier: str, later: str, stale: str) -> None:
    summary = tell(earlier, "A: Noted.", "The cellar must be dry before June.", "A: OK.", later, "A: I've noted it.")
    assert later in summary
    assert stale not in summary.replace(later, "")


@cases(
    ("earlier", "later"),
    [
        ("Room 12 costs 80 euros.", "Room 14 costs 95 euros."),
        ("The flight to Oslo is on 3 May.", "The flight to Rome is on 9 May."),
        ("I spent 40 euros on Monday.", "I spent 55 euros on Tuesday."),
        ("Our licence allows 30 boats.", "Our licence fee is 200 euros now."),
        ("Mila is allergic to latex.", "Mila quit the tennis club."),
        ("My sister lives in Ghent.", "I moved to Bruges last week."),
        ("The train leaves at 9:40.", "The train arrives at 12:10."),
        ("Hugo brings the tent for 6 people.", "Hugo can't do Fridays any more."),
    ],
)
def test_statements_about_other_things_stay(earlier: str, later: str) -> None:
    summary = tell(earlier, "A: Noted.", "The cellar must be dry before June.", "A: OK.", later, "A: I've noted it.")
    assert earlier in summary
    assert later in summary


def test_only_the_outdated_clause_goes() -> None:
    summary = tell(
        "Rex has epilepsy, he gets his tablet at 12, keep the diazepam in the red box.",
        "A: I've added the tablet at 12:00.",
        "Rex's tablet is at 13:00 now.",
        "A: Changed to 13:00.",
    )
    assert "Rex has epilepsy… keep the diazepam in the red box." in summary
    assert "12" not in summary
    assert "Rex's tablet is at 13:00 now." in summary


@cases("planted", ["Actually, the budget is 900 euros, not 500 euros.", "The budget is 900 euros now."])
def test_the_assistant_alone_corrects_nobody(planted: str) -> None:
    summary = tell("My budget is 500 euros.", "A: OK.", "The cellar must be dry before June.", f"A: {planted}")
    assert "My budget is 500 euros." in summary


def test_the_assistant_reports_a_change() -> None:
    summary = tell(
        "My contract is Basic 50 for 19.95 euros.", "A: Right.", "Can I have more?", "A: Basic 100 is 24.95 euros.", "Yes.",
        "A: I've changed your contract to Basic 100 for 24.95 euros.",
    )  # fmt: skip
    assert "19.95" not in summary
    assert "24.95" in summary


@cases(
    "chatter",
    [
        "sorry, my coffee is cold again",
        "one hundred euros per sock lol",
        "I could eat a horse, back in 5",
        "the printer sings like a whale today",
        "a goose walked through the office",
    ],
)
def test_jokes_and_interludes_are_left_out(chatter: str) -> None:
    summary = tell(
        "Our stall is number 14.", "A: Noted.", chatter, "A: Ha, geese.", "We open on 2 May at 9.", "A: Noted."
    )
    assert chatter not in summary
    assert "Our stall is number 14." in summary
    assert "We open on 2 May at 9." in summary


def test_vital_facts_come_before_jokes_with_numbers() -> None:
    jokes = [f"I bet {n} zebras fit into our lift haha" for n in range(30, 60)]
    turns = [turn for joke in jokes for turn in (joke, "A: Haha!")]
    text = summarise(
        [
            Line(t.removeprefix("A: "), ASSISTANT if t[:2] == "A:" else USER)
            for t in (*turns, "My son is allergic to wasps.")
        ],
        14,
    )
    assert text == "User: My son is allergic to wasps."


@cases(
    ("before", "sentence"),
    [
        ("We rent the old boathouse.", "It must be empty by 30 June."),
        ("My brother Anton plays the tuba.", "He needs a lift to Graz on 4 July."),
        ("The projector is broken.", "They want 320 euros for a new lamp, which is too much."),
    ],
)
def test_a_pronoun_keeps_its_noun(before: str, sentence: str) -> None:
    filler = [f"We need {n} chairs for table {n}, booked with Ines for {n} May." for n in range(10, 24)]
    for max_tokens in range(20, 200, 20):
        summary = summarise([Line(text, USER) for text in (f"{before} {sentence}", *filler)], max_tokens)
        assert estimate_tokens(summary) <= max_tokens
        assert before in summary or sentence not in summary


def test_changes_take_linear_time() -> None:
    def spent(count: int) -> float:
        lines = [
            Line(f"The gate {n % 50} opens at {n % 24}:15 now, and not at {n % 23}:30.", USER) for n in range(count)
        ]
        return processor_time(lambda: summarise(lines, 600))

    spent(100)
    assert spent(4000) < 12 * max(spent(1000), 0.05)
