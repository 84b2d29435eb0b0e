"""The slots that statements fill, from `data/slots.txt`, and the topics and lookup keys of a statement.

A slot is something about a person that two statements can be compared by: home, age, allergy. "Alice lives in Lisbon." and "Alice
moved to Porto." fill the same slot with two values. English only. Patterns are compiled when a cue of theirs is first seen.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Literal, NamedTuple, cast

from ..text.word_sets import load_sections
from .wording import (
    MAX_STATEMENT,
    MONTHS,
    NUMBERS,
    THESAURUS,
    WEEKDAYS,
    Polarity,
    Wording,
    cue_words,
    parse_wording,
    stems,
)

Fills = Literal["one", "if_changed", "many"]
"""Whether a slot has one value at a time, one where the statement speaks of a change, or any number."""

_LISTS = {
    "PROFESSIONS": THESAURUS["professions"],
    "LANGUAGES": THESAURUS["languages"],
    "MONTHS": [*MONTHS, *(month[:3] for month in MONTHS)],
    "WEEKDAYS": WEEKDAYS,
    "NUMBERS": list(NUMBERS),
    "COUNTRIES": THESAURUS["countries"],
    "CITIES": THESAURUS["cities"],
}


class Slot(NamedTuple):
    """A way to say something."""

    name: str
    fills: Fills
    pattern: str
    value: str | None
    """The value, where it is not in the words that match."""

    def match(self, plain: str) -> re.Match[str] | None:
        return _compile(self.pattern).search(plain)


def find_slots(words: Iterable[str]) -> list[Slot]:
    """The slots that a statement with these words may fill, in the order of the table."""
    slots, by_cue = _table()
    return [slots[n] for n in sorted({n for word in words for n in by_cue.get(word, ())})]


@cache
def _table() -> tuple[list[Slot], dict[str, list[int]]]:
    """All slots, and which of them each cue belongs to."""
    sections = load_sections(__package__, "slots")
    slots = [_slot(*row.split(" ", 2)) for row in sections["SLOTS"]]
    by_cue: dict[str, list[int]] = {}
    for row in sections["CUES"]:
        name, *cues = row.split()
        places = [n for n, slot in enumerate(slots) if slot.name == name]
        for cue in cues:
            for word in _LISTS.get(cue, [cue]):
                by_cue.setdefault(word, []).extend(places)
    return slots, by_cue


def _slot(name: str, fills: str, rest: str) -> Slot:
    pattern, _, value = rest.partition(" => ")
    return Slot(name, cast("Fills", fills), pattern, value or None)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(_expand(pattern), re.IGNORECASE)


@cache
def _parts() -> dict[str, str]:
    parts = {name: "|".join(words) for name, words in _LISTS.items()}
    return parts | dict(row.split(" ", 1) for row in load_sections(__package__, "slots")["PARTS"])


def _expand(pattern: str) -> str:
    """A pattern with its parts written out. The space before END is for the eye."""
    parts = _parts()
    names = "|".join(sorted(parts, key=len, reverse=True))
    found = re.sub(rf" ?\b(?=END)|(?:{names})", lambda match: parts.get(match[0], ""), pattern)
    return found if found == pattern else _expand(found)


# -- topics and keys


_COUNTRIES = frozenset(stems(" ".join(THESAURUS["countries"])))
_ONE_EACH = frozenset(stems(" ".join(THESAURUS["one_each"])))
_NAME = re.compile(r"(?<![\w'-])[A-Z]\w+")
_VALUES = ("value", "firm", "known")
"""Groups that hold a value; there are several because a pattern cannot have one twice."""
_CLOCK = re.compile(r"^\d{1,2}(?::\d\d)?\W*(?:[ap]\.?m\.?|o'clock)?\W*$|^noon|^midnight", re.IGNORECASE)


class Topic(NamedTuple):
    """A slot and the value that a statement gives it."""

    name: str
    """Of the slot: "home". It holds nothing of what was said."""
    slot: str
    """The slot in full, with whose and which: "home", "sister/employer", "favourite:band"."""
    whose: frozenset[str]
    """Who it is about, if not the person: the words for "sister Ana"."""
    named: frozenset[str]
    """The names among these words."""
    which: frozenset[str]
    value: frozenset[str]
    polarity: Polarity
    fills: Fills
    span: tuple[int, int]
    """Which characters of the plain statement say it."""

    @property
    def kin(self) -> frozenset[str]:
        """The words for who it is about, without names: "sister", "mother-in-law"."""
        return self.whose - self.named

    @property
    def alone(self) -> bool:
        """The words can mean only one person."""
        return bool(self.named) or self.kin <= _ONE_EACH


class ParsedStatement(NamedTuple):
    """A statement with its topics, and the content words that are outside them."""

    wording: Wording
    key: str
    topics: tuple[Topic, ...]
    rest: frozenset[str]

    @property
    def topic(self) -> Topic | None:
        """The slot that it fills such that nothing else can fill it at the same time."""
        return next((found for found in self.topics if found.fills != "many"), None)


def statement_key(text: str, subject: str | None) -> str:
    """A key shared by statements of the same words: without order, inflection and fillers."""
    return _build_key(parse_wording(text, subject))


def _build_key(wording: Wording) -> str:
    words = sorted(wording.words | wording.tail)
    marks = [wording.polarity, *sorted(wording.moods)] + ["past"] * wording.past + ["to"] * wording.suffered
    return " ".join([*words, *sorted(wording.numbers)]) + "|" + " ".join(marks)


def find_topic(text: str, subject: str | None) -> Topic | None:
    return parse_statement(text, subject).topic


def parse_statement(text: str, subject: str | None) -> ParsedStatement:
    """Everything that comparing a statement takes."""
    wording = parse_wording(text, subject)
    if wording.moods or len(wording.plain) > MAX_STATEMENT:
        return ParsedStatement(wording, _build_key(wording), (), wording.words)
    topics: dict[str, Topic] = {}
    words = cue_words(wording.plain) | ({"#"} if wording.numbers else frozenset())
    for slot in find_slots(words):
        match = slot.match(wording.plain)
        found = _build_topic(slot, match, wording) if match else None
        if found:
            topics.setdefault(found.slot, found)
    return ParsedStatement(
        wording, _build_key(wording), tuple(topics.values()), _words_outside(wording, topics.values())
    )


def lookup_keys(found: ParsedStatement, subject: str | None) -> tuple[str, str | None]:
    """The keys by which a statement is found again: of its words, and of its topic, if it has one."""
    about = None if found.topic is None or subject is None else f"{subject.casefold()}\x1f{found.topic.slot}"
    return f"{(subject or '').casefold()}\x1f{found.key}", about


def _build_topic(slot: Slot, match: re.Match[str], wording: Wording) -> Topic | None:
    groups = match.groupdict()
    said = slot.value or next((groups[name] for name in _VALUES if groups.get(name)), "")
    value = frozenset(stems(f"{said} {groups.get('whom') or ''}"))
    if not value:
        return None
    name, which = _topic_name(slot.name, groups)
    who = (groups.get("who") or "").replace("@'s", " ").replace("@", " ")
    whose = frozenset(stems(who))
    then = groups.get("then") and not re.search(r"\b(?:has|have)\b", match[0])
    over = wording.polarity == "is" and (then or groups.get("ended"))
    return Topic(
        name=name,
        slot="/".join([*sorted(whose), name]) + "".join(f":{word}" for word in sorted(which)),
        whose=whose,
        named=frozenset(stems(" ".join(_NAME.findall(who)))),
        which=which,
        value=value,
        polarity="was" if over else wording.polarity,
        fills="one" if slot.fills == "if_changed" and wording.changed else slot.fills,
        span=(match.start(), match.end() if groups.get("how") is None else match.start("how")),
    )


def _topic_name(name: str, groups: dict[str, str | None]) -> tuple[str, frozenset[str]]:
    """A slot's name and which it is, where that depends on what fills it."""
    which, said = frozenset(stems(groups.get("which") or "")), groups.get("value") or ""
    if name == "when":
        return ("hour" if _CLOCK.match(said) else "day"), which
    return name, which


def _words_outside(wording: Wording, topics: Collection[Topic]) -> frozenset[str]:
    """The content words of what is not part of any topic."""
    if not topics:
        return wording.words
    left, at = [], 0
    for start, end in sorted(found.span for found in topics):
        left.append(wording.plain[at : max(start, at)])
        at = max(at, end)
    return frozenset(stems(" ".join([*left, wording.plain[at:]]))) - wording.numbers


def is_country(value: frozenset[str]) -> bool:
    return bool(value & _COUNTRIES)
