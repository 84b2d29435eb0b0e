"""A correction that only says what is right: "I have two kids. – Sorry, three." It replaces what is of its sort in what was
said before: a number a number, a month a month."""

from __future__ import annotations

import re

from ...recall.dates import MONTHS

LONGEST = 80
"""Characters of a sentence that says no more than what is right."""
_MARK = r"actually|no|nope|sorry|correction|wait|oops|my mistake|my bad|i meant?(?: to say)?|make (?:that|it)|rather"
_TAKEN_BACK = r"(?:ignore|disregard|scratch|forget) (?:that|this|it|the typo|my (?:last|previous) \w+)"
_AMENDS = re.compile(
    rf"\W*(?=(?:it's |it is |that's )?(?:{_MARK}|{_TAKEN_BACK})\b)"
    rf"(?P<lead>(?:(?:{_MARK}|{_TAKEN_BACK}|it's|it is|it was|that's|it should (?:be|say)|i have|the)\b[\s,:.!–-]*){{1,6}})"
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


def instead(sentence: str) -> tuple[str, bool] | None:
    """What is right, if a sentence says no more than that something was not, and whether it says so in as many words."""
    amends = _AMENDS.fullmatch(sentence.replace("’", "'")) if len(sentence) <= LONGEST else None
    return (amends["new"].strip(), _EXPLICIT.search(amends["lead"]) is not None) if amends else None


def amended(earlier: str, new: str, explicit: bool) -> str | None:
    """An earlier statement with what is right in it; None if it is not clear in the place of what."""
    for sort, pattern in _PATTERNS.items():
        right = pattern.search(f" {new}")
        if right and (explicit or sort != "name"):
            return _replaced(earlier, pattern, right[0], _words(new.replace(right[0], " ")))
    return None


def _replaced(earlier: str, pattern: re.Pattern[str], right: str, named: set[str]) -> str | None:
    """Where it names a thing too ("three kids"), it is the number before or after that thing."""
    if not named <= _words(earlier):
        return None
    wrong = [match for match in pattern.finditer(earlier) if not named or named & _words(_around(earlier, match))]
    if len(wrong) != 1 or wrong[0][0] == right:
        return None
    return earlier[: wrong[0].start()] + right + earlier[wrong[0].end() :]


def _around(text: str, match: re.Match[str]) -> str:
    before, after = text[: match.start()].split()[-1:], text[match.end() :].split()[:1]
    return " ".join([*before, *after])


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_SMALL.sub(" ", text))}
