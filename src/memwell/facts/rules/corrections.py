"""A correction that only says what is right: "I have two kids. – Sorry, three." It replaces what is of its sort in what was
said before: a number a number, a month a month."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ...search.query import MONTHS
from ..plan import Turn
from .parse import Statement
from .wording import strip_quotation_marks

MAX_AMENDMENT = 80
"""Characters of a sentence that says no more than what is right."""
_MARK = r"actually|no|nope|sorry|correction|wait|oops|my mistake|my bad|i meant?(?: to say)?|make (?:that|it)|rather"
_RETRACTION = r"(?:ignore|disregard|scratch|forget) (?:that|this|it|the typo|my (?:last|previous) \w+)"
_AMENDMENT = re.compile(
    rf"\W*(?=(?:it's |it is |that's )?(?:{_MARK}|{_RETRACTION})\b)"
    rf"(?P<lead>(?:(?:{_MARK}|{_RETRACTION}|it's|it is|it was|that's|it should (?:be|say)|i have|the)\b[\s,:.!–-]*){{1,6}})"
    r"(?P<new>[^,;.!?\n]{1,40})[.!]*",
    re.IGNORECASE,
)
_EXPLICIT = re.compile(r"\b(?:meant?|correction|make (?:that|it)|mistake)\b", re.IGNORECASE)
_MONTH = rf"(?:(?i:{'|'.join(month for month in MONTHS if month != 'may')}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|May)"
_NUMBER = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty"
_SORTS = {
    "day": rf"\b(?:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH})\b",
    "month": rf"\b{_MONTH}\b",
    "weekday": r"\b(?i:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    "time": r"\b(?:\d{1,2}(?::\d\d)? ?(?i:[ap]\.?m\b\.?|o'clock)|\d{1,2}:\d\d|noon|midnight)",
    "reference": r"#\w+",
    "year": r"\b(?:19|20)\d\d\b",
    "number": rf"\b(?:\d[\d.,]*\d|\d|(?i:{_NUMBER}))\b",
    "name": r"(?<!^)\b(?!I\b)[A-Z]\w+(?: [A-Z]\w+)*",
}
_PATTERNS = {sort: re.compile(pattern) for sort, pattern in _SORTS.items()}
_SMALL = re.compile(r"\b(?:in|on|at|the|a|an|of|for|by|is|it|to)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def parse_amendment(sentence: str) -> tuple[str, bool] | None:
    """What is right, if a sentence says no more than that something was not, and whether it says so in as many words."""
    amends = _AMENDMENT.fullmatch(sentence.replace("’", "'")) if len(sentence) <= MAX_AMENDMENT else None
    return (amends["new"].strip(), _EXPLICIT.search(amends["lead"]) is not None) if amends else None


def amend(earlier: str, new: str, explicit: bool) -> str | None:
    """An earlier statement with what is right in it; None if it is not clear in the place of what."""
    for sort, pattern in _PATTERNS.items():
        right = pattern.search(f" {new}")
        if right and (explicit or sort != "name"):
            return _replace_value(earlier, pattern, right[0], _words(new.replace(right[0], " ")))
    return None


def _replace_value(earlier: str, pattern: re.Pattern[str], right: str, named: set[str]) -> str | None:
    """Where it names a thing too ("three kids"), it is the number before or after that thing."""
    if not named <= _words(earlier):
        return None
    wrong = [match for match in pattern.finditer(earlier) if not named or named & _words(_words_around(earlier, match))]
    if len(wrong) != 1 or wrong[0][0] == right:
        return None
    return earlier[: wrong[0].start()] + right + earlier[wrong[0].end() :]


def _words_around(text: str, match: re.Match[str]) -> str:
    before, after = text[: match.start()].split()[-1:], text[match.end() :].split()[:1]
    return " ".join([*before, *after])


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_SMALL.sub(" ", text))}


# -- What somebody wants of whoever serves them, and what they take back.


_INSTRUCTION = re.compile(
    r"""(?:please,?\s+|and\s+)?(?:(?:from\s+now\s+on|going\s+forward|in\s+(?:the\s+)?future)\b.+
    |(?:always|never(?!\s+mind))\s+[a-z]+\s.+|(?:whenever|every\s+time|each\s+time)\s+(?:i|you)\b.+
    |(?:call|address)\s+me\s+(?!back|later|when|if|tomorrow|tonight).+
    |(?:answer|reply|respond|speak|talk)\b.{0,30}?\b(?:in|with|like|as|only|briefly|shortly|concisely)\b.*
    |keep\s+(?:your|the|all|it)\b.*\b(?:short|brief|concise|simple|answers?|replies|responses|formal|informal)\b.*
    |(?:don't|do\s+not|stop|avoid)\s+(?:ever\s+)?(?:us(?:e|ing)|call(?:ing)?|add(?:ing)?|ask(?:ing)?|send(?:ing)?|mention(?:ing)?|answer(?:ing)?|suggest(?:ing)?
      |repeat(?:ing)?|writ(?:e|ing)|includ(?:e|ing)|recommend(?:ing)?|apologi[sz](?:e|ing)|say(?:ing)?|tell(?:ing)?)\b.+
    |use\s+(?:only\s+)?(?:metric|imperial|celsius|fahrenheit|british|american|emojis?|markdown|bullet|plain|simple|formal|informal|my)\b.*
    |remember\s+to\s.+|be\s+(?:more\s+|less\s+)?(?:brief|concise|formal|informal|direct|polite|honest|specific)\b.*
    |i(?:\s+want|\s+need|'d\s+like|\s+would\s+like|\s+prefer)\s+you\s+to\s+(?:always|never|only|not|stop|call|answer|use|keep|be|speak|remember)\b.*
    |you\s+(?:should|must|can)\s+(?:always|never|only)\b.+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_CORRECTION_LEAD = re.compile(
    r"\W*(?:actually|no|nope|sorry|correction|wait|oops|my mistake|i meant?|not|ignore|disregard|scratch|forget)\b",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(
    r"(?:it's|it is|it was|that's|that is|i meant?(?: to say)?|he's|she's|they're)?\s*"
    r"(?P<new>[^,;.!?]{1,60}?),?\s+(?:and )?not\s+(?P<old>[^,;.!?]{1,60})[.!]*",
    re.IGNORECASE,
)
_LEAD = re.compile(r"\W*(?:(?:actually|no|nope|sorry|correction|wait|oops|my mistake)\b[\s,:.!–-]*)+", re.IGNORECASE)


MAX_OWN_STATEMENTS = 3
"""How many of their statements back somebody may reach who only says what is right."""
MAX_STATEMENTS = 24


class EarlierStatement(NamedTuple):
    """A statement, and in which turn it was made."""

    said: Turn
    statement: Statement


class Correction(NamedTuple):
    """What is true instead of an earlier statement."""

    earlier: EarlierStatement
    text: str


def is_instruction(text: str) -> bool:
    return _INSTRUCTION.fullmatch(text.strip()) is not None


def render_instruction(text: str, name: str) -> str:
    said = strip_quotation_marks(text)
    return f'{name} wants: "{said[:1].upper()}{said[1:].rstrip("!. ")}."'


def is_correction(sentence: str) -> bool:
    """Whether a sentence says that something was not so."""
    if _CORRECTION_LEAD.match(sentence) is None:
        return False
    return "meant" in sentence or _NOT_BUT.fullmatch(_LEAD.sub("", sentence, count=1)) is not None


def find_amended(sentence: str, said: Turn, before: Iterable[EarlierStatement]) -> Correction | None:
    """The statement of the same speaker that "Sorry, three" is about, made right. Newest first."""
    new = parse_amendment(sentence)
    if new is None:
        return None
    own = (
        told for told in islice(before, MAX_STATEMENTS) if told.said.speaker == said.speaker and told.statement.english
    )
    right = ((told, amend(told.statement.text, *new)) for told in islice(own, MAX_OWN_STATEMENTS))
    return next((Correction(told, text) for told, text in right if text), None)


def find_corrected(sentence: str, before: Iterable[EarlierStatement]) -> Correction | None:
    """The statement that a correction is about, with the right words in the place of the wrong ones. Newest first."""
    match = _NOT_BUT.fullmatch(_LEAD.sub("", sentence.replace("’", "'"), count=1))
    if match is None:
        return None
    wrong = re.compile(rf"\b{re.escape(match['old'].strip())}\b", re.IGNORECASE)
    for told in before:
        text, count = wrong.subn(f"{match['new'].strip()} (not {match['old'].strip()})", told.statement.text, count=1)
        if count:
            return Correction(told, text)
    return None
