"""Periods: the days between which a statement was true, if it says so: "lived in Rome from 2015 to 2018", "until May 2020"."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import NamedTuple

from ..text.word_sets import load_sections, load_words, word_set

_THESAURUS = load_sections(__package__, "thesaurus")
_MONTHS = _THESAURUS["months"]
_MONTH = "|".join(_MONTHS)
_TH = "(?:st|nd|rd|th)?"
_DATE = (
    rf"(?:(?:19|20)\d\d-\d\d-\d\d"
    rf"|(?:(?:the )?(?:\d{{1,2}}{_TH} (?:of )?)?(?:{_MONTH})(?: \d{{1,2}}{_TH},?)? ?)?(?:(?:19|20)\d\d)?)"
)
_FROM_TO = re.compile(
    rf"\b(?:from|between) (?P<since>{_DATE}) ?(?:to|until|till|and|through|up to|-|–) ?(?P<until>{_DATE})(?![\d\w:-])",
    re.IGNORECASE,
)
_YEARS = re.compile(r"(?<![\d-])(?P<since>(?:19|20)\d\d) ?[-–] ?(?P<until>(?:19|20)\d\d)(?![\d-])")
_UNTIL = re.compile(rf"\b(?:until|till|up to|through) (?:the end of )?(?P<until>{_DATE})(?![\d\w:-])", re.IGNORECASE)
_SINCE = re.compile(rf"\bsince (?P<since>{_DATE})(?![\d\w:-])", re.IGNORECASE)
_IN = re.compile(rf"\b(?:in|during|on|throughout) (?P<when>{_DATE})(?![\d\w:-])", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d(?!\d)")
_DAY = re.compile(r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?(?!\d)")
_UNREAL = re.compile(r"\b(?:if|unless|would|could|might|maybe|not until|hopes?|wants?|plans?)\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+")
_PAST = load_words(f"{__package__}.rules", "irregular_past") | word_set("was were had")
_LASTING = frozenset(_THESAURUS["lasting"])
EARLIEST = date(1900, 1, 1)
"""The first day of a past state of which only the end is known."""


class Period(NamedTuple):
    """The first and the last day; None if the text does not say it."""

    since: date | None = None
    until: date | None = None


def find_period(text: str) -> Period:
    """Return the period that a statement gives."""
    if not _YEAR.search(text) or _UNREAL.search(text):
        return Period()
    if found := _FROM_TO.search(text) or _YEARS.search(text):
        until = _last_day(found["until"])
        since = _first_day(found["since"], until.year if until else None)
        return Period(since, until) if since and until and since <= until else Period()
    since = _first_day(match["since"]) if (match := _SINCE.search(text)) else None
    if match := _UNTIL.search(text):
        return Period(since, _last_day(match["until"]))
    words = frozenset(_WORD.findall(text.lower()))
    is_past = not _PAST.isdisjoint(words) or any(len(word) > 4 and word.endswith("ed") for word in words)
    if since or not is_past or not (match := _IN.search(text)):
        return Period(since)
    first, last = _first_day(match["when"]), _last_day(match["when"])
    is_long = first != last and _LASTING.isdisjoint(words)
    return Period(first, last if is_long else None)


def _first_day(text: str, year: int | None = None) -> date | None:
    return _to_day(text, year, last=False)


def _last_day(text: str) -> date | None:
    return _to_day(text, None, last=True)


def _to_day(text: str, year: int | None, *, last: bool) -> date | None:
    """Return the first or the last day of a date, which can be a year, a month or a day."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        month, day = int(text[5:7]), int(text[8:])
        return _build_day(int(text[:4]), month, day)
    found = _YEAR.search(text)
    if found:
        year = int(found[0])
    month = next((at for at, name in enumerate(_MONTHS, 1) if name in text.lower()), 0)
    if year is None or not (month or found):
        return None
    number = _DAY.search(_YEAR.sub("", text))
    if month and number:
        return _build_day(year, month, int(number[1]))
    if not month:
        return date(year, 12, 31) if last else date(year, 1, 1)
    return date(year, month, monthrange(year, month)[1] if last else 1)


def _build_day(year: int, month: int, day: int) -> date | None:
    return date(year, month, day) if 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1] else None
