"""Folding what was told before into one short text, without a model: its central and novel sentences, in their order and in
their own words.

A sentence is central if its words are frequent in the whole and if it states something: a fact, a decision, a wish. The most
central is taken first, then whatever is central and says something else, for as long as there is room. Greetings and the like
are left out even where there is room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ...facts.rules.sentences import split_sentences
from ...text.tokens import estimate
from .passages import Passage, is_corrected, is_said, overlap, passages
from .sentences import Line, Told, seems_labelled, told

__all__ = ["Line", "Summary", "summarise"]

LEAST = 0.15
"""What a passage must come to, lest it be left out."""
OVERLAP = 0.7
"""How much it counts against a sentence that its words have been said."""
ROOM = 0.4
"""How much it counts against a passage if it fills the whole summary."""


class Summary(NamedTuple):
    text: str
    lines: tuple[int, ...]
    """The numbers of the lines that it was taken from, counted from 0."""


def summarise(lines: Sequence[Line], max_tokens: int) -> Summary:
    """What matters in the lines, in at most so many tokens."""
    if max_tokens <= 0:
        return Summary("", ())
    pool = _uncorrected(passages(told(lines), max_tokens))
    page = _Page(max_tokens)
    _fill(page, [one for one in pool if one.score >= LEAST])
    if not page.sentences and pool:
        page.add(max(pool, key=lambda one: one.score))
    return Summary(page.text(), tuple(sorted({one.line for one in page.sentences})))


def _uncorrected(pool: Sequence[Passage]) -> list[Passage]:
    """Without what is corrected later. A correction matters as much as what it corrects."""
    found: list[Passage] = []
    for passage in sorted(pool, key=lambda one: one.told[0].at):
        wrong = [one for one in found if is_corrected(one, passage)] if passage.corrects or passage.denies else []
        found = [one for one in found if one not in wrong] if wrong else found
        found.append(passage._replace(score=max(one.score for one in (passage, *wrong))))
    return found


def _fill(page: _Page, pool: list[Passage]) -> None:
    """Take in one after another, always the one that is worth most beside what is there."""
    said = [0.0] * len(pool)
    left = set(range(len(pool)))
    while left:
        best = min(left, key=lambda n: (OVERLAP * said[n] + ROOM * pool[n].part - pool[n].score, n))
        left.remove(best)
        if page.add(pool[best]):
            left = {n for n in left if not is_said(pool[n], pool[best])}
            for n in left:
                said[n] = max(said[n], overlap(pool[n], pool[best]))


class _Page:
    """The sentences that are chosen, in their order, and how much room is left beside them."""

    def __init__(self, max_tokens: int) -> None:
        self.sentences: list[Told] = []
        self._left = max_tokens

    def add(self, passage: Passage) -> bool:
        """Take a passage in, if there is room for it."""
        at = bisect_left(self.sentences, passage.told[0].at, key=lambda one: one.at)
        before, after = self.sentences[max(0, at - 1) : at], self.sentences[at : at + 1]
        cost = _cost([*before, *passage.told, *after]) - _cost([*before, *after])
        if cost > self._left:
            return False
        self.sentences[at:at] = passage.told
        self._left -= cost
        return True

    def text(self) -> str:
        return "".join(_written(before, one) for before, one in pairwise([None, *self.sentences]) if one)


def _cost(sentences: Sequence[Told]) -> int:
    return sum(estimate(_written(before, one)) for before, one in pairwise([None, *sentences]) if one)


def _written(before: Told | None, one: Told) -> str:
    """A sentence as it stands after another: who says it is written where that changes, or could be mistaken."""
    gap = "" if before is None else " " if _ends(before.text) else "\n"
    same = before is not None and before.label == one.label and not seems_labelled(one.text)
    return f"{gap}{one.text}" if same or not one.label else f"{gap}{one.label}: {one.text}"


def _ends(text: str) -> bool:
    """Whether it is plain where a sentence ends, if another follows."""
    return len(split_sentences(f"{text[-40:]} X")) > 1
