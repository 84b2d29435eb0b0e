"""The slots that statements fill, read from `slots.txt`: a table of wordings, which says how it is to be read.

A slot is what can be said about somebody such that two statements can be compared: where they live, how old they are, what
they are allergic to. Patterns are compiled when a statement has one of their cues for the first time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, cast

from .thesaurus import CITIES, COUNTRIES, LANGUAGES, MONTHS, NUMBERS, PROFESSIONS, WEEKDAYS

Fills = Literal["one", "if_changed", "many"]
"""Whether a slot has one value at a time, one where the statement speaks of a change, or any number."""

_LISTS = {
    "PROFESSIONS": PROFESSIONS,
    "LANGUAGES": LANGUAGES,
    "MONTHS": [*MONTHS, *(month[:3] for month in MONTHS)],
    "WEEKDAYS": WEEKDAYS,
    "NUMBERS": list(NUMBERS),
    "COUNTRIES": COUNTRIES,
    "CITIES": CITIES,
}


class Slot(NamedTuple):
    """A way to say something."""

    name: str
    fills: Fills
    pattern: str
    value: str | None
    """The value, where it is not in the words that match."""

    def match(self, plain: str) -> re.Match[str] | None:
        return _compiled(self.pattern).search(plain)


def worth_trying(words: Iterable[str]) -> list[Slot]:
    """The slots that a statement with these words may fill, in the order of the table."""
    slots, by_cue = _table()
    return [slots[n] for n in sorted({n for word in words for n in by_cue.get(word, ())})]


@cache
def _table() -> tuple[list[Slot], dict[str, list[int]]]:
    """All slots, and which of them each cue belongs to."""
    sections = _sections()
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
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_expanded(pattern), re.IGNORECASE)


@cache
def _parts() -> dict[str, str]:
    parts = {name: "|".join(words) for name, words in _LISTS.items()}
    return parts | dict(row.split(" ", 1) for row in _sections()["PARTS"])


def _expanded(pattern: str) -> str:
    """A pattern with its parts written out. The space before END is for the eye."""
    parts = _parts()
    names = "|".join(sorted(parts, key=len, reverse=True))
    found = re.sub(rf" ?\b(?=END)|(?:{names})", lambda match: parts.get(match[0], ""), pattern)
    return found if found == pattern else _expanded(found)


@cache
def _sections() -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for line in _lines():
        if line in ("PARTS", "CUES", "SLOTS"):
            sections[line] = rows = []
        else:
            rows.append(line)
    return sections


def _lines() -> Iterator[str]:
    text = (resources.files(__package__) / "slots.txt").read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))
