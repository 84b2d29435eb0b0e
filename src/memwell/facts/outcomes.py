"""Outcomes: statements that settle, solve, delay or recount what an earlier statement told.

`find_outcomes` finds the outcomes of a part of a statement by the patterns of `data/outcomes.toml`, and `concludes` compares one
with a known fact. "The florist is still open" is over when "we found a florist", "my knee hurts" when "my knee is fine now", "he
comes on 4 May" when "he can't come before 11 May". The thing must be the same: a cello teacher is no piano teacher.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from ..text.word_sets import load_tables, word_set
from .meaning import is_frequent_word, list_words
from .wording import KIN, MONTHS, NUMBERS, TIMES, WEEKDAYS, ParsedStatement, cue_words, stems

_TABLES = load_tables(__package__, "outcomes")
_CUES = word_set(_TABLES["cues"])
_KINDS = ("settled", "solved", "delayed", "schedule", "level")


class Outcome(NamedTuple):
    """What a part of a statement settles. All words are stems."""

    kind: str
    """`settled`, `solved`, `delayed`, `schedule`, `level`, `count`, `home` or `left`."""
    thing: tuple[str, ...]
    when: str = ""
    value: str = ""
    way: str = ""
    """`down` or `up`, if a measure fell or rose."""
    rest: frozenset[str] = frozenset()
    """The other words of a count."""
    owner: frozenset[str] = frozenset()
    """The relative that it is about."""


@cache
def _load(kind: str) -> list[re.Pattern[str]]:
    parts: dict[str, str] = _TABLES["parts"]
    names = re.compile("|".join(rf"\b{name}\b|{name}(?=\))" for name in parts))
    return [re.compile(names.sub(lambda match: parts[match[0]], source), re.IGNORECASE) for source in _TABLES[kind]]


_GROUP = re.compile(
    r"^@'s (?:team|family|group) (?=[a-z]+(?:ed|s|t|d|e)?\b)(?!(?:lead|leader|name|doctor|car|house|dog|cat)\b)"
)
_LEADS = re.compile(r"^(?:(?:and|but|so|also|now|finally|then|btw)[ ,]+)+", re.IGNORECASE)
_SPELT = re.compile(rf"\b(?:{'|'.join(NUMBERS)})\b", re.IGNORECASE)


def _plain_clause(marked: str) -> str:
    """Return a clause with the person for their team or family, and digits for number words."""
    clause = _GROUP.sub("@ ", _LEADS.sub("", marked))
    return _SPELT.sub(lambda match: NUMBERS[match[0].lower()], clause)


def find_outcomes(part: ParsedStatement, *, changed: bool = False) -> list[Outcome]:
    """Return the outcomes that a part of a statement tells. `changed`: a sign beside it says that it corrects another one."""
    if not changed and _CUES.isdisjoint(cue_words(part.wording.marked)):
        return []
    clause = _plain_clause(part.wording.marked)
    owner = frozenset(stems(part.wording.whose)) & KIN
    found = []
    for kind in _KINDS:
        match = next(filter(None, (pattern.search(clause) for pattern in _load(kind))), None)
        if match is None:
            continue
        groups = {name: text or "" for name, text in match.groupdict().items()}
        thing = tuple(stems(groups.get("thing", "")))
        if thing or kind == "level":
            when, way = groups.get("when", ""), groups.get("way", "")
            value = groups["thing"] if kind == "schedule" else groups.get("value", "")
            found.append(Outcome(kind, thing, when, value, way.lower(), owner=owner - {*thing}))
    if changed or part.wording.changed:
        found += _find_counts(clause, owner)
    return found + _find_places(clause)


def concludes(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    """Return True if a fact, whose whole text is given too, is over because of an outcome."""
    if old.wording.moods - {"will"} or _is_of_other_person(outcome, old):
        return False
    return _COMPARE[outcome.kind](outcome, old, text)


def _is_of_other_person(outcome: Outcome, old: ParsedStatement) -> bool:
    whose = frozenset(stems(old.wording.whose)) & KIN
    return whose != outcome.owner and not whose & {*outcome.thing}


def _is_same_thing(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return True if the last nouns agree, and one thing is not narrower in another way: "oak table" and "table"."""
    return bool(one and other) and one[-1] == other[-1] and (set(one) <= set(other) or set(other) <= set(one))


# -- what was open, or a trouble


def _settles(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    clause = _plain_clause(old.wording.marked)
    opened = filter(None, (pattern.search(clause) for pattern in _load("open")))
    return any(_is_same_thing(outcome.thing, tuple(stems(match["thing"]))) for match in opened)


_TROUBLE = re.compile(_TABLES["trouble"], re.IGNORECASE)
_ASKED = re.compile(r'^Asked "([^"]*)", [^"]* said: "([^"]*)"', re.IGNORECASE)
_ITEM = re.compile(r",\s*(?:and\s+)?|\s+and\s+")


def _solves(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    if asked := _ASKED.match(text):
        items = [tuple(stems(item)) for item in _ITEM.split(asked[2].rstrip(".! "))]
        return _TROUBLE.search(asked[1]) is not None and any(
            item[: len(outcome.thing)] == outcome.thing for item in items
        )
    marked = old.wording.marked
    if not set(outcome.thing) <= set(stems(marked)):
        return False
    rest = " ".join(
        word
        for word in marked.split()
        if not set(stems(word)) & {*outcome.thing} or _TROUBLE.fullmatch(word.strip(".,!"))
    )
    return _TROUBLE.search(rest) is not None and _is_subject(outcome.thing, marked)


_WITH = re.compile(r"\b(?:with|has|have|from|about|in) (?:a |an |the |@'s |their |some )?(.{1,40})$", re.IGNORECASE)


def _is_subject(thing: tuple[str, ...], marked: str) -> bool:
    """Return True if a statement is about a thing: "@'s knee hurts", "@ has problems with the landlord"."""
    opening = tuple(stems(" ".join(marked.split()[:5])))
    about = _WITH.search(marked.rstrip(".! "))
    return opening[: len(thing)] == thing or (about is not None and tuple(stems(about[1]))[: len(thing)] == thing)


# -- dates and times

_DAY_MONTH = re.compile(
    rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<month>{'|'.join(MONTHS)}|[a-z]{{3}}\b)"
    rf"|\b(?P<month_first>{'|'.join(MONTHS)}|[a-z]{{3}}) (?P<day_last>\d{{1,2}})(?:st|nd|rd|th)?\b",
    re.IGNORECASE,
)
_SHORT_MONTHS = {month[:3]: number for number, month in enumerate(MONTHS, 1)}
_WEEKDAY = re.compile(rf"\b(?:{'|'.join(WEEKDAYS)})s?\b", re.IGNORECASE)
_TIME = re.compile(
    rf"{_WEEKDAY.pattern}|\b\d{{1,2}}(?::\d\d)? ?(?:[ap]m\b|o'clock)|\b\d{{1,2}}:\d\d\b|\b(?:noon|midnight|mornings?"
    rf"|evenings?|afternoons?"
    r"|nights?)\b|\b(?:\d+|once|\w+) (?:times )?a (?:day|week|month)\b",
    re.IGNORECASE,
)
MIN_TURN_OF_YEAR = 6
"""Number of months between two dates from which the earlier one is of the next year."""


def _find_day(text: str) -> tuple[int, int] | None:
    """Return month and day of the first date of a text."""
    for match in _DAY_MONTH.finditer(text):
        month = _SHORT_MONTHS.get((match["month"] or match["month_first"])[:3].lower())
        if month:
            return month, int(match["day"] or match["day_last"])
    return None


def _delays(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    marked = old.wording.marked
    if old.wording.polarity != "is" or not set(outcome.thing) <= set(stems(marked)):
        return False
    if not _is_subject(outcome.thing, marked):
        return False
    later, earlier = _find_day(outcome.when), _find_day(marked)
    if later and earlier:
        return earlier < later if abs(earlier[0] - later[0]) < MIN_TURN_OF_YEAR else later < earlier
    new_days, old_days = ({day.lower().rstrip("s") for day in _WEEKDAY.findall(one)} for one in (outcome.when, marked))
    return bool(new_days and old_days) and not new_days & old_days and not (later or earlier)


def _reschedules(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    marked = old.wording.marked
    times = [{one.lower().rstrip("s") for one in _TIME.findall(text)} for text in (outcome.when, marked)]
    done, known = (
        {(stems(word) or [word])[0] for word in words} for words in (list_words(outcome.value), old.meaning.words)
    )
    return all(times) and times[0] != times[1] and done - TIMES <= known and not old.wording.past


# -- measures and counts

_FIGURE = re.compile(r"(?P<number>\d+(?:[.,/:]\d+)*) ?(?P<unit>[%€$£°]|[a-z][\w-]*)?", re.IGNORECASE)
_BESIDE = word_set(_TABLES["beside_counts"])
_COUNT = re.compile(
    r"(?P<before>(?:[^\d]{0,60}?))\b(?P<number>\d{1,3}(?:[.,]\d{3})*"
    r"|\d+) (?P<noun>(?:[a-z][a-z-]+ ){0,2}?(?:[a-z-]{2,}s|people|children|men|women))"
    r"(?P<after>(?: [^\d]{1,60})?)[.!]*",
    re.IGNORECASE,
)


def _changes_level(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    """Return True if an old measure is of the same thing, or has the same unit, and lies on the right side of the new one."""
    marked = _plain_clause(old.wording.marked)
    new = _FIGURE.match(outcome.value)
    if new is None or old.wording.polarity != "is" or old.wording.past:
        return False
    if outcome.thing:
        if not set(outcome.thing) <= set(stems(marked)) or not _is_subject(outcome.thing, marked):
            return False
    elif not re.match(r"@ |@'s [\w ]{1,30} is (?:about )?\d", marked):
        return False
    unit = stems(new["unit"] or "")
    for figure in _FIGURE.finditer(marked):
        same = unit == stems(figure["unit"] or "") if unit or not outcome.thing else True
        if same and (unit or outcome.thing) and figure["number"] != new["number"]:
            return _is_on_side(_to_number(figure["number"]), _to_number(new["number"]), outcome.way)
    return False


def _is_on_side(old: float, new: float, way: str) -> bool:
    return old > new if way == "down" else old < new if way == "up" else old != new


def _to_number(text: str) -> float:
    plain = re.sub(r"[.,](?=\d{3}\b)", "", text)
    return float(re.sub(r"[,:/].*", "", plain) or 0)


def _find_counts(clause: str, owner: frozenset[str]) -> list[Outcome]:
    match = _COUNT.fullmatch(clause)
    if match is None or (clause.startswith("@'s ") and owner):
        return []
    rest = frozenset(stems(f"{match['before']} {match['after']}")) - _BESIDE
    return [Outcome("count", tuple(stems(match["noun"])), value=match["number"], rest=rest, owner=owner)]


def _recounts(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    match = _COUNT.fullmatch(_plain_clause(old.wording.marked))
    if match is None or old.wording.polarity != "is" or old.wording.past or match["number"] == outcome.value:
        return False
    rest = frozenset(stems(f"{match['before']} {match['after']}")) - _BESIDE
    if tuple(stems(match["noun"])) != outcome.thing or not outcome.thing or not outcome.rest <= rest:
        return False
    return rest == outcome.rest or (not outcome.rest and len(rest) == 1 and rest.isdisjoint(TIMES | KIN))


# -- places in small letters

_MOVED = re.compile(
    r"^@ (?:has |have |just |recently )*moved (?:back |over )?to (?P<place>[a-z]{3,})(?=[.!,;]*$|,? (?:in|on|at|last"
    r"|this|yesterday|two|a)\b)"
)
_LEFT = re.compile(
    r"^@ (?:has |have |just |recently )*(?:left|quit) (?P<place>[a-z]{3,})(?=[.!,;]*$|,? (?:in|on|at|last|this|yesterday)\b)"
)
_AT = re.compile(
    r"^@ (?P<verb>lives|is based|is living|works|is working|studies) (?:in|at|for) (?P<place>[a-z]{3,})(?=[.!,]*$"
    r"| (?:as|in|since|with)\b)"
)


def _find_places(clause: str) -> list[Outcome]:
    """Return where somebody moved, or what they left, if they write names in small letters."""
    found = []
    for kind, pattern in (("home", _MOVED), ("left", _LEFT)):
        match = pattern.match(clause)
        if match and not is_frequent_word(match["place"]):
            found.append(Outcome(kind, (match["place"],)))
    return found


def _leaves_home(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    at = _AT.match(old.wording.marked)
    return at is not None and at["verb"].endswith(("lives", "based", "living")) and at["place"] != outcome.thing[0]


def _leaves_place(outcome: Outcome, old: ParsedStatement, text: str) -> bool:
    at = _AT.match(old.wording.marked)
    return at is not None and at["place"] == outcome.thing[0]


_COMPARE: dict[str, Callable[[Outcome, ParsedStatement, str], bool]] = {
    "settled": _settles,
    "solved": _solves,
    "delayed": _delays,
    "schedule": _reschedules,
    "level": _changes_level,
    "count": _recounts,
    "home": _leaves_home,
    "left": _leaves_place,
}
