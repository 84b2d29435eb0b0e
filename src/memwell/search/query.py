"""Reading a query: its scope, the speakers and times that it names, and whether it asks what the assistant said."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from ..model.collection import Place, decode_policy
from ..model.filter import Where
from ..storage.port import Row, Tx
from .people import SOMEONE
from .words import ADDRESS, COLLECTION, STOP_WORDS

MAX_TEXT = 4096
"""Dates after so many characters of a query are ignored."""
MAX_DATES = 16
MAX_SPANS = 256
MAX_NAME_TEXT = 2048
"""Names after so many characters of a query are ignored."""
MAX_NAMES = 500
MAX_WORDS = 12
NICKNAME = 3
"""The length of the shortest nickname: a beginning of a first name that has more than four letters."""

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH = "|".join(MONTHS)
_ORDINAL = r"(?:st|nd|rd|th)?"
_BEFORE = r"(?:\b(?:in|on|during|of|since|by|around|before|after)\s+)?"
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}

_DAY_MONTH = re.compile(rf"\b(\d{{1,2}}){_ORDINAL}(?: of)? ({_MONTH})\b,?(?: (\d{{4}})\b)?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_MONTH}) (\d{{1,2}}){_ORDINAL}\b(?:,? (\d{{4}})\b)?", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_IN_MONTH = re.compile(rf"\b({_MONTH})\b,?(?: (?:of )?(\d{{4}})\b)?", re.IGNORECASE)
_MAY = re.compile(r"\b(?:in|of|during|by|since|until|early|late|mid|last|this) may\b", re.IGNORECASE)
_IN_YEAR = re.compile(r"\b(?:in|during|of|since) (\d{4})\b", re.IGNORECASE)
_AGO = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)}) (day|week|month|year)s? ago\b", re.IGNORECASE)
_LAST = re.compile(r"\b(?:last|past|this) (week|month|year)\b", re.IGNORECASE)
_NEAR = re.compile(r"\b(today|yesterday)\b", re.IGNORECASE)
_HINT = re.compile(rf"\d{{4}}|\b(?:{_MONTH}|ago|today|yesterday|last|past|this)\b", re.IGNORECASE)
_STRIP = re.compile(
    _BEFORE + rf"(?:\b\d{{1,2}}{_ORDINAL}(?: of)? (?:{_MONTH})\b,?(?: \d{{4}}\b)?"
    rf"|\b(?:{_MONTH}) \d{{1,2}}{_ORDINAL}\b(?:,? \d{{4}}\b)?|\b(?:{_MONTH}),? (?:of )?\d{{4}}\b|\b(?:{_MONTH})\b"
    r"|\b\d{4}-\d{2}-\d{2}\b|\b\d{4}\b)",
    re.IGNORECASE,
)
_ASSISTANT = re.compile(
    r"\b(you|your|our) (\w+ )?((?!need\b|feed\b)\w+ed|said|told|gave|wrote|made|sent|conversation|chat|discussion"
    r"|previous|earlier|last)\b",
    re.IGNORECASE,
)
_COMMON = frozenset(STOP_WORDS["en"].split())
_WORD = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]+)?")
_GAP = "\x00"
"""Stands for a name while a query is read."""
_GAPS = re.compile(r"\s*\x00(?:\s*\x00)*\s*")


# -- Scope: the stored collections and addresses that a query searches


class ScopePart(NamedTuple):
    """A part of the scope as it is stored: a whole collection, or one address."""

    collection: bool
    id: int
    kinds: tuple[str, ...] | None
    language: str

    @property
    def token(self) -> str:
        """The token in the full-text index."""
        return f"{COLLECTION if self.collection else ADDRESS}{self.id:x}"

    def holds(self, address_id: int, collection_id: int, kind: str) -> bool:
        inside = self.id == (collection_id if self.collection else address_id)
        return inside and (self.kinds is None or kind in self.kinds)


def resolve_scope(tx: Tx, where: Sequence[Where], now: int) -> list[ScopePart]:
    """The parts of a scope that exist. Sealed collections are never searched."""
    collections: dict[Place, Row | None] = {}
    found: list[ScopePart] = []
    for place, path, kinds in where:
        if place.sealed:
            continue
        if place not in collections:
            collections[place] = tx.row("find_collection", dialect=place.dialect, name=place.name, kind=place.kind)
        collection = collections[place]
        if collection is None:
            continue
        language = decode_policy(collection[1]).language
        if path is None:
            found.append(ScopePart(True, collection[0], kinds, language))
            continue
        named = {"dialect": place.dialect, "name": place.name, "kind": place.kind}
        address = tx.row("find_address", path=path, now=now, **named)
        if address is not None:
            found.append(ScopePart(False, address[0], kinds, language))
    return found


# -- Speakers that a query names


def parse_query(text: str, names: Iterable[str], people: Collection[str] = ()) -> tuple[tuple[str, ...], str, str]:
    """Return the speakers that a query names, its text without names and dates, which do not say what it is about, and its
    text with `someone` in the place of names. `people` are further words of names."""
    found: list[str] = []
    text = text.replace(_GAP, " ")
    rest, tail = text[:MAX_NAME_TEXT], text[MAX_NAME_TEXT:]
    for name in islice(names, MAX_NAMES):
        pattern = _build_name_pattern(name)
        if pattern is not None and pattern.search(rest):
            found.append(name)
            rest = pattern.sub(_GAP, rest)
    if people:
        words = "|".join(re.escape(word) for word in sorted(people, key=len, reverse=True))
        rest = re.sub(rf"(?<!\w)(?:{words})(?:['’]s)?(?!\w)", _GAP, rest, flags=re.IGNORECASE)
    rest = remove_dates(rest + tail)
    if _GAP not in rest:
        return tuple(found), rest, rest
    return tuple(found), rest.replace(_GAP, " "), _GAPS.sub(f" {SOMEONE} ", rest)


def list_words(text: str) -> list[str]:
    """The distinct words of a query that may be names, at most `MAX_WORDS`."""
    found = dict.fromkeys(word for word in _WORD.findall(text[:MAX_NAME_TEXT]) if word.lower() not in _COMMON)
    return list(found)[:MAX_WORDS]


def asks_assistant(text: str) -> bool:
    return _ASSISTANT.search(text) is not None


@lru_cache(4096)
def _build_name_pattern(name: str) -> re.Pattern[str] | None:
    """Build a pattern for a name: the whole name or its first word in any case, or a capitalised nickname.

    Common words are left out; None if there is nothing else.
    """
    first = name.split()[0] if name.split() else ""
    nicknames = [first[:length] for length in range(len(first) - 1, NICKNAME - 1, -1)] if len(first) > 4 else []
    whole = [f"(?i:{re.escape(form)})" for form in (name, first) if len(form) > 1 and form.lower() not in _COMMON]
    short = [re.escape(form) for form in nicknames if form[0].isupper() and form.lower() not in _COMMON]
    return re.compile(rf"(?<!\w)(?:{'|'.join([*whole, *short])})(?:['’]s)?(?!\w)") if whole else None


def clear_caches() -> None:
    """Clear the cached patterns of names."""
    _build_name_pattern.cache_clear()
    re.purge()


# -- Times that a query names, as spans of days, such as `8 May 2023`, `in June`, `in 2022`, `two weeks ago`


class Days(NamedTuple):
    """A span of days, with the numbers of days over which it fades: longer afterwards, because people mention events late."""

    first: int
    last: int
    later: int
    earlier: int


def find_days(text: str, years: list[int], today: date) -> list[Days]:
    """The times that a text names. A date without a year may be in any of `years`."""
    text = text[:MAX_TEXT]
    named = list(dict.fromkeys(_find_dates(text)))[:MAX_DATES]
    found = [
        days
        for year, month, day in named
        for each in ([year] if year else years)
        if (days := _to_days(each, month, day))
    ]
    return found[:MAX_SPANS] or _find_relative(text, today)[:MAX_SPANS]


def may_name_time(text: str) -> bool:
    return _HINT.search(text[:MAX_TEXT]) is not None


def remove_dates(text: str) -> str:
    """Remove the dates from a text, because their words do not say what happened."""
    return _STRIP.sub(" ", text) if may_name_time(text) and _find_dates(text[:MAX_TEXT]) else text


def _find_dates(text: str) -> list[tuple[int | None, int | None, int | None]]:
    """Return year, month and day of each date, as far as the text has them. Only the most exact form counts."""
    found: list[tuple[int | None, int | None, int | None]]
    found = [(int(match[1]), int(match[2]), int(match[3])) for match in _ISO.finditer(text)]
    found += [(_parse_year(match[3]), _parse_month(match[2]), int(match[1])) for match in _DAY_MONTH.finditer(text)]
    if not found:
        found = [(_parse_year(match[3]), _parse_month(match[1]), int(match[2])) for match in _MONTH_DAY.finditer(text)]
    if not found:
        months = [match for match in _IN_MONTH.finditer(text) if _is_month(match, text)]
        found = [(_parse_year(match[2]), _parse_month(match[1]), None) for match in months]
    return found or [(int(match[1]), None, None) for match in _IN_YEAR.finditer(text)]


def _is_month(match: re.Match[str], text: str) -> bool:
    """Tell months from verbs: `may` needs a year or a preposition, `march` a capital letter."""
    word = match[1]
    if word.lower() == "may":
        return bool(match[2] or _MAY.search(text))
    return word.lower() != "march" or word[0].isupper()


def _to_days(year: int, month: int | None, day: int | None) -> Days | None:
    try:
        if month is None:
            return Days(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal(), 30, 7)
        if day is None:
            following = date(year + month // 12, month % 12 + 1, 1)
            return Days(date(year, month, 1).toordinal(), following.toordinal() - 1, 14, 7)
        exact = date(year, month, day).toordinal()
    except ValueError:
        return None
    return Days(exact, exact, 7, 3)


def _find_relative(text: str, today: date) -> list[Days]:
    found: list[Days] = []
    for match in _NEAR.finditer(text):
        day = today.toordinal() - (match[1].lower() == "yesterday")
        found.append(Days(day, day, 1, 1))
    for match in _LAST.finditer(text):
        length = _UNITS[match[1].lower()]
        found.append(Days((today - timedelta(length * 2)).toordinal(), today.toordinal(), length, length))
    for match in _AGO.finditer(text):
        unit = _UNITS[match[2].lower()]
        number = int(match[1]) if match[1].isdigit() else _NUMBERS[match[1].lower()]
        day = today.toordinal() - number * unit
        found.append(Days(day - unit // 2, day + unit // 2, unit, unit))
    return found


def _parse_year(text: str | None) -> int | None:
    return int(text) if text else None


def _parse_month(text: str) -> int:
    return MONTHS.index(text.lower()) + 1
