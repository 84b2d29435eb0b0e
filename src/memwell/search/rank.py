"""Recipes: how the arms of a search are weighed. Data with names; `docs/decisions/0007-search.md` says where they come from.

Every number is absolute. Nothing is stretched to fit a query's best hit, so a score means the same for every query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..clock import DAY
from ..errors import Invalid
from .columns import View
from .index import NOBODY, Array
from .query import Days


class Recipe(NamedTuple):
    """What each arm contributes, and how it fades."""

    words: float = 0.6
    """The share of the query's words, by rarity, that an entry covers."""
    meaning: float = 0.4
    """How near the entry is in meaning."""
    parts: float = 0.5
    """How much of the meaning is that of the best part; the rest is that of the whole."""
    long: float = 500.0
    """The size in bytes from which on a word counts less: long texts hold words by chance."""
    short: float = 500.0
    """The size in bytes at which an entry's link to its neighbours is half: short turns belong together."""
    lend: float = 0.6
    """What a word that stands in a neighbour counts, times the link."""
    support: float = 0.25
    """What the scores of the neighbours add, times the link, to what is missing to 1."""
    time: float = 0.3
    """What an entry of the time that the query names gains, of what is missing to 1."""
    question: float = 0.25
    """What an entry that only asks loses."""
    speaker: float = 0.4
    """What the turns of others lose when the query names one speaker."""
    assistant: float = 0.3
    """What the assistant's turns lose unless the query asks what it said."""


RECIPES = {
    "default": Recipe(),
    "words": Recipe(words=1.0, meaning=0.0),
    "meaning": Recipe(words=0.0, meaning=1.0, lend=0.0),
}


def require_recipe(name: str) -> Recipe:
    try:
        return RECIPES[name]
    except KeyError:
        raise Invalid(f"There is no recipe {name!r}: the recipes are {', '.join(RECIPES)}.", field="recipe") from None


# -- Ranking: from what the arms found to scores. Arrays in, arrays out; nothing here reads or writes anything.
#
# An entry's own score is the weighted sum of its words and its meaning. Neighbours on its timeline lend it some of theirs, as
# far as both are short; then what it is (a question, another speaker, the assistant) takes some away, and the time that the
# query names adds some. Each step's part is kept, so that they add up to the score.


Scores = NDArray[np.float32]
EPOCH_DAY = 719_163  # 1970-01-01, counted as dates count
WINDOW = 2
TOGETHER = 1_000_000
"""For how many entries what a word is worth is worked out at once, over all words."""

ARMS = ("words", "meaning", "neighbours", "question", "time", "speaker", "assistant")


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the query asks of an entry, beside its words and its meaning."""

    recipe: Recipe
    days: Sequence[Days] = ()
    speaker: int | None = None
    """The one speaker that is named, as the view codes it; -1 if it is somebody who says nothing here."""
    assistant: int | None = None
    """The assistant's role as the view codes it, if its turns count less."""


def score_words(view: View, found: Sequence[tuple[float, Array]], total: float, recipe: Recipe) -> Scores:
    """How much of the query's words each entry covers, by itself or by its neighbours."""
    got = np.zeros(len(view), np.float32)
    found = [(weight, rows) for weight, rows in found if len(rows)] if total else []
    at_once = max(1, TOGETHER // max(1, len(view)))
    for start in range(0, len(found), at_once):
        some = found[start : start + at_once]
        worth = _weigh_words(view, [rows for _, rows in some], recipe)
        for (weight, _), one in zip(some, worth, strict=True):
            got += np.float32(weight / total) * one
    return got


def _weigh_words(view: View, found: Sequence[Array], recipe: Recipe) -> Scores:
    """What each of some words is worth to every entry: one line for each word."""
    rows = np.concatenate(found)
    starts = np.repeat(np.arange(len(found)) * len(view), [len(one) for one in found])
    worth = (1.0 / np.sqrt(1.0 + view.size[rows] / recipe.long)).astype(np.float32)
    lines = np.zeros(len(found) * len(view), np.float32)
    lines[starts + rows] = worth
    if recipe.lend and view.block.linked:
        for reached, source, link in _list_links(view, rows, recipe):
            lent = (recipe.lend * link * worth[source]).astype(np.float32)
            places = starts[source] + reached  # each once: no two entries have the same neighbour on one side
            lines[places] = np.maximum(lines[places], lent)
    return lines.reshape(len(found), len(view))


def _list_neighbours(view: View, rows: Array) -> Iterator[tuple[Array, Array, int]]:
    """The neighbours of some rows: which rows, of which of the given ones they are, and how far away."""
    for steps in (view.before, view.after):
        at, source = rows, np.arange(len(rows))
        for distance in range(1, WINDOW + 1):
            at = steps[at]
            there = (at != NOBODY) & (at < len(view))
            if not there.all():
                at, source = at[there], source[there]
            if not len(at):
                break
            yield at, source, distance


def _list_links(view: View, rows: Array, recipe: Recipe) -> Iterator[tuple[Array, Array, Array]]:
    """The neighbours of some rows: which rows, of which of the given ones they are, and how strong the link is."""
    tie = _weigh_link(view, rows, recipe)
    for reached, source, distance in _list_neighbours(view, rows):
        yield reached, source, np.sqrt(tie[source] * _weigh_link(view, reached, recipe)) / distance


def link_pairs(view: View, rows: Array, recipe: Recipe) -> tuple[Array, Array]:
    """For some rows the row before each (or itself, if there is none), and how strong the link to it is."""
    before = view.before[rows]
    there = before != NOBODY
    before = np.where(there, before, rows)
    return before, there * np.sqrt(_weigh_link(view, rows, recipe) * _weigh_link(view, before, recipe))


def _weigh_link(view: View, rows: Array, recipe: Recipe) -> Array:
    """How much an entry belongs to what stands around it: the shorter, the more."""
    fade: Array = view.here[rows] / (1.0 + (view.size[rows] / recipe.short) ** 2)
    return fade


def add_neighbours(view: View, rows: Array) -> Array:
    """Some rows and those around them, each once."""
    if not view.block.linked:
        return rows
    meant = np.zeros(len(view), np.bool_)
    meant[rows] = True
    for reached, _, _ in _list_neighbours(view, rows):
        meant[reached] = True
    return np.flatnonzero(meant)


def compute_contributions(
    view: View, rows: Array, words: Scores, meaning: Scores, own: Scores, wanted: Preferences
) -> Array:
    """For some rows what each arm contributes to their score: one line for each of `ARMS`, which add up to it."""
    recipe = wanted.recipe
    parts = np.zeros((len(ARMS), len(rows)))
    parts[0], parts[1] = recipe.words * words[rows], recipe.meaning * meaning[rows]
    score = parts[0] + parts[1]
    for arm, part in _list_adjustments(view, rows, own, wanted):
        parts[arm] = part(score)
        score = score + parts[arm]
    return parts


def _list_adjustments(
    view: View, rows: Array, own: Scores, wanted: Preferences
) -> Iterator[tuple[int, Callable[[Array], Array]]]:
    """What is added or taken away after words and meaning, in order: which arm, and how much given the score so far."""
    recipe = wanted.recipe
    if view.block.linked:
        support = np.zeros(len(rows))
        for reached, source, link in _list_links(view, rows, recipe):
            support[source] += own[reached] * link
        yield 2, lambda score: (1.0 - score) * np.minimum(recipe.support * support, 1.0)
    asks = view.asks[rows]
    if asks.any():
        yield 3, lambda score: -score * recipe.question * asks
    if wanted.days:
        yield 4, lambda score: (1.0 - score) * recipe.time * compute_nearness(view.occurred_at[rows], wanted.days)
    if wanted.speaker is not None:
        others = _find_other_speakers(view, rows, wanted.speaker)
        yield 5, lambda score: -score * recipe.speaker * others
    if wanted.assistant is not None:
        yield 6, lambda score: -score * recipe.assistant * (view.role[rows] == wanted.assistant)


def compute_nearness(occurred_at: Array, days: Sequence[Days]) -> Array:
    """1 within a named time, fading outside it."""
    near = np.zeros(len(occurred_at))
    if not days:
        return near
    day = occurred_at // DAY + EPOCH_DAY
    for span in days:
        late, early = np.maximum(day - span.last, 0) / span.later, np.maximum(span.first - day, 0) / span.earlier
        near = np.maximum(near, np.exp(-late - early))
    return near


def _find_other_speakers(view: View, rows: Array, speaker: int) -> Array:
    """Whose turns are those of somebody else than the one who is named. What nobody said is nobody's."""
    names = view.name[rows]
    others: Array = (names != NOBODY) & (names != speaker)
    return others
