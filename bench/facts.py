"""An extractor for measuring the facts from conversations: the rules alone, session by session.

`factory()` gives an object with `reset()` and `facts(turns)`; turns are (id, speaker, text, date) of one session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

from memwell.facts.datatypes import Turn
from memwell.facts.rules.extractor import extract

RawTurn = tuple[str, str, str, str]
_WORD = re.compile(r"[a-z0-9']+")
_SAME = 0.8


class Extractor:
    """Remembers the words of facts in a conversation, so that no fact is reported twice."""

    def __init__(self) -> None:
        self._known: list[frozenset[str]] = []

    def reset(self) -> None:
        self._known.clear()

    def facts(self, turns: Sequence[RawTurn]) -> list[tuple[str, list[str]]]:
        said = [Turn(id_, "user", speaker, text, _day(when)) for id_, speaker, text, when in turns]
        return [
            (fact.text, [source.id for source in fact.sources]) for fact in extract(said) if self._is_new(fact.text)
        ]

    def _is_new(self, text: str) -> bool:
        words = frozenset(word[:6] for word in _WORD.findall(text.lower()) if len(word) > 2)
        new = all(len(words & other) <= _SAME * max(len(words), len(other)) for other in self._known)
        if new:
            self._known.append(words)
        return new


def factory() -> Extractor:
    return Extractor()


def _day(when: str) -> date:
    """`1:56 pm on 8 May, 2023`"""
    return datetime.strptime(when.partition(" on ")[2], "%d %B, %Y").date()
