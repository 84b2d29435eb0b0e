"""A short statement, taken apart for comparison: its content words, numbers and names, and whether it is denied or over.

The person that a fact is about is written `@`, whatever the fact calls them: "Alice lives in Lisbon." with the subject
Alice and `Alice said: "I live in Lisbon."` are both "@ lives in Lisbon". Words of denial are taken out and kept as
polarity, so that "is no longer vegetarian" can be held against "is vegetarian". English only: of another language the words
are compared as they stand.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...recall.analyse import stop_tokens, tokens
from .plain_forms import (
    ADVERBS,
    AT_A_TIME,
    CALLED_OFF,
    CHANGED,
    CHANGES,
    COMPARED,
    CONTRAST,
    MOODS,
    PASSING,
    PAST_TENSE,
    POLARITIES,
    REWRITES,
    SUFFERED,
    TAIL,
    YEARS,
    Mood,
    Polarity,
    seen,
)
from .thesaurus import FILLERS, KIN, MONTHS, NUMBERS, SYNONYMS, WEEKDAYS


class Wording(NamedTuple):
    """What a statement consists of. Two statements are the same only if all but the order of their words agrees."""

    plain: str
    """The statement in the affirmative about `@`, without what is only said by the way."""
    words: frozenset[str]
    """Stems of its content words; what is compared against ("than coffee") is marked."""
    numbers: frozenset[str]
    """Numbers, months and weekdays."""
    names: frozenset[str]
    """Stems of words for particular people and places: what is written as a name, and somebody's relatives."""
    polarity: Polarity
    moods: frozenset[Mood]
    """In which way it is not simply so: hypothetical, possible, intended, only reported, or so without something."""
    past: bool
    """Whether it tells what happened rather than what is."""
    suffered: bool
    """Whether the person is at the receiving end: "Tom called @"."""
    tail: frozenset[str]
    """Stems of what is only added to it: "…, so long shifts are fine". They are not among its words."""
    changed: bool
    """Whether it says itself that something is new: "now", "moved", "switched to"."""
    instead: frozenset[str]
    """Stems of what it says it replaces: "not June 14", "instead of Greece"."""
    called_off: bool = False
    """Whether it ends a plan too: "cancelled"."""
    passing: bool = False
    """Whether it is said to be so besides something else, or for a time: "also", "today", "in the summer"."""
    year: int | None = None
    """The latest year that it tells of. What is so since then is not told of that year."""
    whose: str = ""
    """Who does or is what it says: `@`, or the word for somebody or something of theirs."""


LONG = 1_000
"""From how many characters on a text is not one statement, but something to be compared by all of its words."""


def worded(text: str, subject: str | None) -> Wording:
    """Take a statement apart."""
    if len(text) > LONG:
        return _long(text)
    text = about(text, subject)
    words = seen(text)
    moods = frozenset(mood for mood, rule in MOODS.items() if rule.finds(text, words))
    passing, year = _is_passing(text, words), _year(text, words)
    text, tail = _without_tail(text)
    text, instead = _without_contrast(text, words)
    polarity, text = _affirmative(text, words)
    plain = squeezed(ADVERBS.apply(text, words))
    found = _content(plain, words)
    numbers = frozenset(word for word in found if _is_number(word))
    return Wording(
        plain=plain,
        words=frozenset(found) - numbers,
        numbers=numbers,
        names=frozenset([*_names(plain), *(word for word in found if word in _KIN)]) - numbers,
        polarity=polarity,
        moods=moods,
        past=PAST_TENSE.search(plain) is not None,
        suffered=SUFFERED.search(plain) is not None,
        tail=frozenset(_meanings(tail)) if tail else frozenset(),
        changed=not CHANGED.isdisjoint(words),
        instead=instead,
        called_off=not CALLED_OFF.isdisjoint(words),
        passing=passing,
        year=year,
        whose=match[0] if (match := _WHOSE.search(plain)) else "",
    )


def about(text: str, subject: str | None) -> str:
    """The text with the person written `@`, without contractions, quotation and "she said that"."""
    text = text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"').replace("\n", " ").strip()
    lowered = text.lower()
    for name in _called(subject):
        if name in lowered:
            text = re.sub(rf"(?<![\w@.]){re.escape(name)}(?![\w@])", "@", text, flags=re.IGNORECASE)
    words = seen(text)
    for rule in () if _REWRITTEN.isdisjoint(words) else REWRITES:
        if not rule.cues.isdisjoint(words):
            changed = rule.pattern.sub(rule.plain, text)
            text, words = (text, words) if changed == text else (changed, seen(changed))
    return squeezed(text)


def _long(text: str) -> Wording:
    found = frozenset(_meanings(text))
    none: frozenset[str] = frozenset()
    return Wording(text, found, none, none, "is", frozenset(), False, False, none, False, none)


def stems(text: str) -> list[str]:
    """The content words of a part of a plain statement, each by the stem that stands for its meaning."""
    return _meanings(text)


def squeezed(text: str) -> str:
    return _LOOSE.sub(r"\1", _SPACE.sub(" ", text)).strip(" ,;")


def person(subject: str) -> str:
    """Whose fact it is, by whatever name: "Quinn's brother" is somebody of Quinn's, and the fact's own words say who."""
    match = _SOMEBODYS.match(subject) if "'" in subject or "\u2019" in subject else None
    return (match[1] if match else subject).strip().lower()


def _called(subject: str | None) -> list[str]:
    named = person(subject) if subject else ""
    names = {named, named.split()[0]} if named else set()
    return [*sorted((name for name in names if len(name) > 1), key=len, reverse=True), "the user"]


def _is_passing(text: str, words: frozenset[str]) -> bool:
    at_a_time = CHANGES.isdisjoint(words) and AT_A_TIME.finds(text, words)
    return bool(at_a_time or PASSING.finds(text, words))


def _year(text: str, words: frozenset[str]) -> int | None:
    if "since" in words or not _DIGIT.search(text):
        return None
    years = [year for found in YEARS.findall(text) for year in found if year]
    return max(map(int, years), default=None)


def _without_tail(text: str) -> tuple[str, str]:
    """The statement, and what is only added to it. "Lately, she …" adds nothing: the person must have been named."""
    head, _, tail = TAIL.sub("\n", text, count=1).partition("\n")
    return (head, tail) if "@" in head and _meanings(head) else (text, "")


def _without_contrast(text: str, words: frozenset[str]) -> tuple[str, frozenset[str]]:
    match = CONTRAST.finds(text, words)
    if not match:
        return text, frozenset()
    return text[: match.start()] + text[match.end() :], frozenset(_meanings(match["other"] or match["former"]))


def _affirmative(text: str, words: frozenset[str]) -> tuple[Polarity, str]:
    """The polarity of a statement, and the statement without what makes it so."""
    for polarity, rule in POLARITIES:
        changed = rule.apply(text, words)
        if changed != text:
            return polarity, squeezed(changed)
    return "is", text


def _content(plain: str, words: frozenset[str]) -> list[str]:
    if COMPARED.cues.isdisjoint(words):
        return _meanings(plain)
    head, _, tail = COMPARED.pattern.sub(COMPARED.plain, plain, count=1).partition("\n")
    return [*_meanings(head), *(word if _is_number(word) else ">" + word for word in _meanings(tail))]


def _meanings(text: str) -> list[str]:
    text = _MAY.sub(" ", text.replace("@'s", " "))
    if _DIGIT.search(text):
        text = _ORDINAL.sub("", _DATE.sub(_spelt, text))
        text = _PHONE.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    return [_CANON.get(word, word) for word in tokens(text) if word not in _EMPTY]


def _spelt(match: re.Match[str]) -> str:
    """A date by the words that people use: 2025-06-03 is "3 June 2025"."""
    month = int(match[2])
    return f"{int(match[3])} {MONTHS[month - 1].title()} {match[1]}" if 0 < month <= 12 else match[0]


def _names(plain: str) -> list[str]:
    """Capitalised words behind the first one."""
    found = _CAPITALS.findall(plain)
    return _meanings(" ".join(found)) if found else []


def _is_number(word: str) -> bool:
    return word[0].isdigit() or word in _TIMES


def _canon() -> dict[str, str]:
    found = {stem: tokens(line)[0] for line in SYNONYMS for stem in tokens(line)}
    found |= {tokens(word)[0]: digits for word, digits in NUMBERS.items()}
    return found | {word[:3]: tokens(word)[0] for word in MONTHS if word not in ("march", "may")}


_CANON = _canon()
_REWRITTEN = frozenset[str]().union(*(rule.cues for rule in REWRITES))
_TIMES = frozenset(tokens(" ".join([*MONTHS, *WEEKDAYS])))
_EMPTY = stop_tokens("en") - set(tokens("may")) | frozenset(tokens(" ".join(FILLERS)))
_KIN = frozenset(_CANON.get(word, word) for word in tokens(" ".join(KIN)))
_SOMEBODYS = re.compile(r"(.+?)['\u2019]s? ")
_WHOSE = re.compile(r"@(?:'s [\w'-]+)?")
_SPACE = re.compile(r"\s+")
_LOOSE = re.compile(r" ([,.;!?])")
_CAPITALS = re.compile(r"(?<=[\w,@'] )[A-Z][\w'-]*")
_DIGIT = re.compile(r"\d")
_MAY = re.compile(r"(?<!\d )\bmay\b(?! \d)")
"""What may be is not in May."""
_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_PHONE = re.compile(r"(?<![\w-])\+?\(?\d(?:[\s().-]{0,2}\d){6,}\b")
