"""Days that are told from where the speaker stands, as dates: "yesterday", said on 8 May 2023, is "on 7 May 2023"."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from ...search.query import MONTHS

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = "|".join(_WEEKDAYS)
_NUMBER = r"\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a\ couple\ of|a\ few|several"
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
           "nine": 9, "ten": 10}  # fmt: skip
_STEPS = {"last": -1, "this past": -1, "this": 0, "next": 1, "this coming": 1}
_MONTH = "|".join(MONTHS)
_UNIT = "week(?:end)?|month|year|summer|winter|spring|fall|autumn"
_PREPOSITION = re.compile(
    r"\b(?:from|since|until|till|by|for|of|before|after|than|on|in|during|over)\s+\Z", re.IGNORECASE
)
_AS_A_NOUN = ("'s", " was", " is", " has", " will")
_RELATIVE = re.compile(
    rf"""\b(?P<before_yesterday>the\ day\ before\ yesterday)\b
    |\b(?P<after_tomorrow>the\ day\ after\ tomorrow)\b
    |\b(?P<yesterday>yesterday)(?:\ (?P<part>morning|afternoon|evening|night))?\b
    |\b(?P<tomorrow>tomorrow)(?:\ (?P<tomorrow_part>morning|afternoon|evening|night))?\b
    |\b(?P<last_night>last\ night)\b
    |\b(?P<tonight>tonight)\b
    |\b(?P<today>(?:earlier\ )?today|this\ (?:morning|afternoon|evening))\b
    |\b(?:(?P<day_way>last|this\ past|next|this|on|this\ coming)\ )(?P<weekday>{_WEEKDAY})\b(?!\s+the\b)
    |(?<!\bthe\ )\b(?P<way>last|this\ past|next|this\ coming|this)\ (?P<unit>{_UNIT})\b
    |\b(?P<way_month>last|next|this\ past)\ (?P<month>{_MONTH})\b
    |\b(?P<count>{_NUMBER})\ (?P<ago_unit>day|week|weekend|month|year)s?\ ago\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HINT = re.compile(r"\b(?:yesterday|tomorrow|tonight|today|last|past|next|this|ago|on)\b", re.IGNORECASE)
_SINCE = re.compile(rf"\bsince (?:({_MONTH}),? )?((?:19|20)\d\d)\b", re.IGNORECASE)


class Dated(NamedTuple):
    """A text whose days are dates, and the day since when it is true, if it says so."""

    text: str
    since: date | None


class _Day(NamedTuple):
    words: str
    first: date | None = None


def dated(text: str, today: date) -> Dated:
    """Write dates for the days that a text tells relative to the day it was said on."""
    since = _since(text)
    if _HINT.search(text) is None:
        return Dated(text, since)
    found: list[date] = []

    def written(match: re.Match[str]) -> str:
        day = _day(match, today)
        if day.first and day.first <= today:
            found.append(day.first)
        return _fitted(match, day.words)

    return Dated(_RELATIVE.sub(written, text), since or next(iter(found), None))


def spoken(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1].capitalize()} {day.year}"


def _day(match: re.Match[str], today: date) -> _Day:
    """What a match means. The group that took part says by which rule."""
    for group, rule in _RULES.items():
        if match[group]:
            try:
                return rule(match, today)
            except (OverflowError, ValueError):  # before the first year, or after the last
                break
    return _Day(match[0])


def _on(days: int, part: str = "") -> Callable[[re.Match[str], date], _Day]:
    def rule(match: re.Match[str], today: date) -> _Day:
        day = today + timedelta(days)
        of_day = (match[part] if part in match.groupdict() else part) or ""
        return _Day(f"on the {of_day.lower()} of {spoken(day)}" if of_day else f"on {spoken(day)}", day)

    return rule


def _weekday(match: re.Match[str], today: date) -> _Day:
    wanted, way = _WEEKDAYS.index(match["weekday"].lower()), match["day_way"].lower()
    back = (today.weekday() - wanted) % 7 or 7
    if way == "on":  # may be past or to come: the tense would say
        return _Day(match[0])
    day = today - timedelta(back) if way in ("last", "this past") else today + timedelta(7 - back % 7)
    return _Day(f"on {match['weekday'].capitalize()}, {spoken(day)}", day)


def _span(match: re.Match[str], today: date) -> _Day:
    unit, step = match["unit"].lower(), _STEPS[match["way"].lower()]
    if unit == "year":
        return _Day(f"in {today.year + step}")
    if unit == "month":
        return _Day(_month_of(_months_on(today, step)).words)
    if unit not in ("week", "weekend") and step == 0:
        return _Day(f"in {unit} {today.year}")
    relation = ("before", "of", "after")[step + 1]
    return _Day(f"{'on' if unit == 'weekend' else 'in'} the {unit} {relation} {spoken(today)}")


def _named_month(match: re.Match[str], today: date) -> _Day:
    month, forward = MONTHS.index(match["month"].lower()) + 1, match["way_month"].lower() == "next"
    year = today.year + (month <= today.month if forward else -(month >= today.month))
    return _month_of(date(year, month, 1))


def _ago(match: re.Match[str], today: date) -> _Day:
    number, unit = match["count"].lower(), match["ago_unit"].lower()
    count = int(number) if number.isdigit() else _COUNTS.get(number)
    if count is None or unit == "weekend":
        many = "s" if count != 1 else ""
        return _Day(f"{match['count']} {unit}{many} before {spoken(today)}")
    if unit == "day":
        day = today - timedelta(count)
        return _Day(f"on {spoken(day)}", day)
    if unit == "week":
        return _Day(
            f"{match['count']} week{'s' if count != 1 else ''} before {spoken(today)}", today - timedelta(7 * count)
        )
    return _month_of(_months_on(today, -count)) if unit == "month" else _Day(f"in {today.year - count}")


def _month_of(day: date) -> _Day:
    first = day.replace(day=1)
    return _Day(f"in {MONTHS[first.month - 1].capitalize()} {first.year}", first)


def _months_on(day: date, months: int) -> date:
    number = day.year * 12 + day.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def _since(text: str) -> date | None:
    match = _SINCE.search(text)
    if match is None:
        return None
    return date(int(match[2]), MONTHS.index(match[1].lower()) + 1 if match[1] else 1, 1)


def _fitted(match: re.Match[str], words: str) -> str:
    """As what stands around it demands: "since yesterday" is not "since on 7 May 2023", nor is "yesterday's"."""
    before = match.string[max(0, match.start() - 8) : match.start()]
    if _PREPOSITION.search(before) or match.string.startswith(_AS_A_NOUN, match.end()):
        words = re.sub(r"^(?:on|in) ", "", words)
    return words[:1].upper() + words[1:] if match[0][:1].isupper() else words


_RULES: dict[str, Callable[[re.Match[str], date], _Day]] = {
    "before_yesterday": _on(-2),
    "after_tomorrow": _on(2),
    "yesterday": _on(-1, "part"),
    "tomorrow": _on(1, "tomorrow_part"),
    "last_night": _on(-1, "night"),
    "tonight": _on(0, "evening"),
    "today": _on(0),
    "weekday": _weekday,
    "unit": _span,
    "month": _named_month,
    "count": _ago,
}
