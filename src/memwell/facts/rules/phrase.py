"""The wording of a fact: in the third person where that is safe, as a quotation where it is not, with dates for "yesterday"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from ...search.query import MONTHS
from ...text.word_sets import word_set
from .grammar import Speaker, inside_sentence, quote_speaker, strip_quotation_marks, third_person
from .parse import Statement

_OPENS_WITH_PRONOUN = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|their|its)(?:'[a-z]+)?\b", re.IGNORECASE
)
MAX_QUESTION_WORDS = 12


class Phrase(NamedTuple):
    text: str
    since: date | None = None
    answers: bool = False
    """It quotes the question that it answers."""


class Scene(NamedTuple):
    """The situation in which something was said."""

    who: Speaker
    today: date
    asked: str = ""
    """The question that it answers, or empty."""
    impersonal: bool = False
    """The speaker does not matter."""


def phrase_group(group: Sequence[Statement], scene: Scene) -> Phrase:
    """Write one sentence for statements that belong together."""
    who, today = scene.who, scene.today
    if not all(one.english for one in group):
        return Phrase(quote_speaker(" ".join(one.text for one in group), who.name))
    dated = [resolve_dates(_strip_end(one.text), today) for one in group]
    since = next((one.since for one in dated if one.since), None)
    said = any(one.own for one in group) or scene.impersonal or _has_relative_date(group, dated)
    if not said or not _is_safe(group, who):
        return Phrase(_quote_group(group, dated, scene), since, bool(_render_question(group, scene)))
    text = third_person("".join([dated[0].text, *(_join_next(one.text) for one in dated[1:])]), who)
    if not any(one.own for one in group) and not scene.impersonal:
        text = f"According to {inside_sentence(who.name)}: {_capitalize(text)}"
    return Phrase(_end_sentence(text), since)


def phrase_attachment(what: str, who: Speaker) -> str:
    """`Caroline shared a photo of a dog.`"""
    return _end_sentence(f"{who.name} shared {what}")


def _is_safe(group: Sequence[Statement], who: Speaker) -> bool:
    """Return True if the third person is safe: the sentence names what it is about, and "you" is a known person."""
    if _OPENS_WITH_PRONOUN.match(group[0].text):
        return False
    if not any(one.to_other for one in group):
        return True
    return who.addressee is not None and all(one.own for one in group if one.to_other)


def _quote_group(group: Sequence[Statement], dated: Sequence[DatedText], scene: Scene) -> str:
    """Quote the words as they were said, with the day if they contain a relative date."""
    name = scene.who.name
    context = [f"on {render_day(scene.today)}"] if _has_relative_date(group, dated) else []
    context += [_render_question(group, scene)] if _render_question(group, scene) else []
    text = " ".join(_capitalize(one.text) for one in group)
    return quote_speaker(text, _capitalize(", ".join([*context, inside_sentence(name)])) if context else name)


def _render_question(group: Sequence[Statement], scene: Scene) -> str:
    """The question that a statement answers, if it takes one to understand what it points to."""
    if not scene.asked or not group[0].dangling or len(scene.asked.split()) > MAX_QUESTION_WORDS:
        return ""
    return f'asked "{strip_quotation_marks(scene.asked)}"'


def _has_relative_date(group: Sequence[Statement], dated: Sequence[DatedText]) -> bool:
    return any(one.text != _strip_end(statement.text) for one, statement in zip(dated, group, strict=True))


def _strip_end(text: str) -> str:
    return text.strip().rstrip(".!… ")


def _join_next(text: str) -> str:
    """Join the next sentence by a semicolon, or by a full stop if it may begin with a name."""
    if text.startswith(("I ", "I'")) or _uncapitalize(text) != text or text[:1].islower():
        return f"; {_uncapitalize(text)}"
    return f". {text}"


def _uncapitalize(text: str) -> str:
    """Lower the first letter if the first word is surely no name."""
    first = re.match(r"[A-Z][a-z']*(?=\s)", text)
    return text[:1].lower() + text[1:] if first and first[0].lower() in _SMALL else text


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _end_sentence(text: str) -> str:
    text = _capitalize(" ".join(text.split()).strip(" ,;-–—"))
    return text if text.endswith((".", "!", "?", '."', '!"', '?"')) else text + "."


_SMALL = word_set(
    """a an the it it's its that that's this these those they they're he she his her their there here when while if as
at in on for from to by with and but so some all every each no not yes since after before because most many both
our my your being having getting seeing taking going making"""
)


# -- dates


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


class DatedText(NamedTuple):
    """A text with absolute dates, and the day since which it is true, if it says so."""

    text: str
    since: date | None


class _Day(NamedTuple):
    words: str
    first: date | None = None


def resolve_dates(text: str, today: date) -> DatedText:
    """Replace "yesterday" and the like by dates."""
    since = _find_since(text)
    if _HINT.search(text) is None:
        return DatedText(text, since)
    found: list[date] = []

    def written(match: re.Match[str]) -> str:
        day = _resolve_match(match, today)
        if day.first and day.first <= today:
            found.append(day.first)
        return _fit_preposition(match, day.words)

    return DatedText(_RELATIVE.sub(written, text), since or next(iter(found), None))


def render_day(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1].capitalize()} {day.year}"


def _resolve_match(match: re.Match[str], today: date) -> _Day:
    """Resolve a match by the rule of the group that took part."""
    for group, rule in _RULES.items():
        if match[group]:
            try:
                return rule(match, today)
            except (OverflowError, ValueError):  # before the first year, or after the last
                break
    return _Day(match[0])


def _days_from_today(days: int, part: str = "") -> Callable[[re.Match[str], date], _Day]:
    def rule(match: re.Match[str], today: date) -> _Day:
        day = today + timedelta(days)
        of_day = (match[part] if part in match.groupdict() else part) or ""
        return _Day(f"on the {of_day.lower()} of {render_day(day)}" if of_day else f"on {render_day(day)}", day)

    return rule


def _resolve_weekday(match: re.Match[str], today: date) -> _Day:
    wanted, way = _WEEKDAYS.index(match["weekday"].lower()), match["day_way"].lower()
    back = (today.weekday() - wanted) % 7 or 7
    if way == "on":  # may be past or to come: the tense would say
        return _Day(match[0])
    day = today - timedelta(back) if way in ("last", "this past") else today + timedelta(7 - back % 7)
    return _Day(f"on {match['weekday'].capitalize()}, {render_day(day)}", day)


def _resolve_span(match: re.Match[str], today: date) -> _Day:
    unit, step = match["unit"].lower(), _STEPS[match["way"].lower()]
    if unit == "year":
        return _Day(f"in {today.year + step}")
    if unit == "month":
        return _Day(_to_month(_add_months(today, step)).words)
    if unit not in ("week", "weekend") and step == 0:
        return _Day(f"in {unit} {today.year}")
    relation = ("before", "of", "after")[step + 1]
    return _Day(f"{'on' if unit == 'weekend' else 'in'} the {unit} {relation} {render_day(today)}")


def _resolve_month(match: re.Match[str], today: date) -> _Day:
    month, forward = MONTHS.index(match["month"].lower()) + 1, match["way_month"].lower() == "next"
    year = today.year + (month <= today.month if forward else -(month >= today.month))
    return _to_month(date(year, month, 1))


def _resolve_ago(match: re.Match[str], today: date) -> _Day:
    number, unit = match["count"].lower(), match["ago_unit"].lower()
    count = int(number) if number.isdigit() else _COUNTS.get(number)
    if count is None or unit == "weekend":
        many = "s" if count != 1 else ""
        return _Day(f"{match['count']} {unit}{many} before {render_day(today)}")
    if unit == "day":
        day = today - timedelta(count)
        return _Day(f"on {render_day(day)}", day)
    if unit == "week":
        return _Day(
            f"{match['count']} week{'s' if count != 1 else ''} before {render_day(today)}", today - timedelta(7 * count)
        )
    return _to_month(_add_months(today, -count)) if unit == "month" else _Day(f"in {today.year - count}")


def _to_month(day: date) -> _Day:
    first = day.replace(day=1)
    return _Day(f"in {MONTHS[first.month - 1].capitalize()} {first.year}", first)


def _add_months(day: date, months: int) -> date:
    number = day.year * 12 + day.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def _find_since(text: str) -> date | None:
    match = _SINCE.search(text)
    if match is None:
        return None
    return date(int(match[2]), MONTHS.index(match[1].lower()) + 1 if match[1] else 1, 1)


def _fit_preposition(match: re.Match[str], words: str) -> str:
    """Drop "on" or "in" where the context forbids it: "since yesterday", "yesterday's"."""
    before = match.string[max(0, match.start() - 8) : match.start()]
    if _PREPOSITION.search(before) or match.string.startswith(_AS_A_NOUN, match.end()):
        words = re.sub(r"^(?:on|in) ", "", words)
    return words[:1].upper() + words[1:] if match[0][:1].isupper() else words


_RULES: dict[str, Callable[[re.Match[str], date], _Day]] = {
    "before_yesterday": _days_from_today(-2),
    "after_tomorrow": _days_from_today(2),
    "yesterday": _days_from_today(-1, "part"),
    "tomorrow": _days_from_today(1, "tomorrow_part"),
    "last_night": _days_from_today(-1, "night"),
    "tonight": _days_from_today(0, "evening"),
    "today": _days_from_today(0),
    "weekday": _resolve_weekday,
    "unit": _resolve_span,
    "month": _resolve_month,
    "count": _resolve_ago,
}
