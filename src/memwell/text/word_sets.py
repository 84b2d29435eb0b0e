"""Sets of words, written as a text: a list of five hundred quoted words is no pleasure to read."""

from __future__ import annotations


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())
