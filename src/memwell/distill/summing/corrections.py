"""Which sentences take the place of others: those by which the same speaker corrects them, and those that say the same.

Nobody loses a word by what somebody else asks, doubts or repeats: then both are kept.
"""

from __future__ import annotations

from .passages import Passage
from .signs import denials, opening
from .told import ASSISTANT

SAID = 0.75
"""From which part of its words on a sentence has been said before."""
CORRECTED = 0.6
"""From which part of its words on a sentence is what a later one corrects."""
OPPOSITE = 0.75
"""From which part of all their words on two sentences of which one denies something are about the same."""


def is_corrected(earlier: Passage, later: Passage) -> bool:
    """Whether a later sentence of the same speaker says that it was wrong or has changed."""
    if later.asks or later.label != earlier.label:
        return False
    both = len(later.words & earlier.words)
    flips = later.denies != earlier.denies and both >= OPPOSITE * len(later.words | earlier.words)
    if not both or not (later.corrects or flips):
        return False
    if earlier.grave:
        return _restates(later, earlier)
    return flips or (both >= 2 and both >= CORRECTED * len(earlier.words))


def is_said(passage: Passage, chosen: Passage) -> bool:
    """Whether another one says the same, in as many words and numbers. An assistant repeats what others say; anybody else
    speaks for themselves."""
    if chosen.asks > passage.asks or passage.label not in (chosen.label, ASSISTANT):
        return False
    if passage.grave and passage.label == chosen.label and opening(passage.text) != opening(chosen.text):
        return False  # "my sister is allergic, too"
    same = passage.denies == chosen.denies and passage.marks <= chosen.words
    return same and overlap(passage, chosen) >= SAID


def overlap(passage: Passage, chosen: Passage) -> float:
    """How much of a passage another one says."""
    return len(passage.words & chosen.words) / len(passage.words) if passage.words else 0.0


def _restates(later: Passage, earlier: Passage) -> bool:
    """Whether it is plainly about the same: of the same person or thing, with all its words but for numbers and denials."""
    missing = earlier.words - later.words
    return all(map(_may_change, missing)) and opening(later.text) == opening(earlier.text)


def _may_change(word: str) -> bool:
    return not word.isalpha() or denials(word) > 0
