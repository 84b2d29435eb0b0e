"""The words of a query: which entries hold them, and how much each word counts.

The index says where a word occurs; everything else is counted here, within the scope that is searched, so that nobody's
scores depend on what others have stored. A word counts by how rare it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage.port import Tx
from . import words
from .columns import View
from .scope import ScopePart

Rows = NDArray[np.int64]
LARGE_SHARE = 0.25
"""From which share of all entries on a scope is searched by taking all occurrences of a word and leaving out the others."""


MIN_ENTRIES = 100
"""In a scope with fewer entries than this, a word is as rare as it would be in one with so many."""


class WordMatches(NamedTuple):
    """For each view the words that were found there, each with its weight and its rows; and the weight of all words."""

    found: list[list[tuple[float, Rows]]]
    total: float


def list_terms(text: str, spans: Sequence[ScopePart], otherwise: str) -> list[str]:
    """The tokens to look for; if the text holds but stop words, those of the other text."""
    languages = dict.fromkeys(span.language for span in spans)
    found = [words.parse_terms(text, language) for language in languages]
    if any(one.only_stop_words for one in found) and otherwise != text:
        found = [words.parse_terms(otherwise, language) for language in languages]
    return list(dict.fromkeys(token for one in found for token in one.tokens))[: words.MAX_TERMS]


def find_words(tx: Tx, spans: Sequence[ScopePart], views: Sequence[View], tokens: Sequence[str]) -> WordMatches:
    entries = sum(view.entries for view in views)
    found: list[list[tuple[float, Rows]]] = [[] for _ in views]
    total = 0.0
    for token in tokens:
        places = [_find_rows(tx, view, span, token) for view, span in zip(views, spans, strict=True)]
        count = sum(map(len, places))
        weight = math.log(1.0 + (max(entries, MIN_ENTRIES) - count + 0.5) / (count + 0.5))
        total += weight
        for one, place in zip(found, places, strict=True):
            one.append((weight, place))
    return WordMatches(found, total)


def _find_rows(tx: Tx, view: View, span: ScopePart, token: str) -> Rows:
    """The rows of a view that hold a token and are still there."""
    if not len(view):
        return np.zeros(0, np.int64)
    with view.block.lock:
        most = len(view) > LARGE_SHARE * int(view.docid[-1])
        rows = view.block.occurrences(tx, view.state, span.token, token, most)
    rows = rows[rows < len(view)]
    here: Rows = rows[view.here[rows]]
    return here
