"""Recipes: how the arms of a search are weighed. Data with names; `docs/decisions/0007-recall.md` says where they come from.

Every number is absolute. Nothing is stretched to fit a query's best hit, so a score means the same for every query.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import Invalid


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


def recipe(name: str) -> Recipe:
    try:
        return RECIPES[name]
    except KeyError:
        raise Invalid(f"There is no recipe {name!r}: the recipes are {', '.join(RECIPES)}.", field="recipe") from None
