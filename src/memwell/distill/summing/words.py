"""The words of a sentence that say something, in whatever language it is, and whether it is a sentence at all."""

from __future__ import annotations

import re
from functools import cache

from ...recall.analyse import terms, tokens
from ...recall.stop_words import STOP_WORDS
from ..extraction.sentences import MAX_SENTENCE

Words = frozenset[str]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNBROKEN = re.compile(r"[!-~]{40,}")
_ROW = re.compile(r"\W*\||.*\|.*\||[\"'][^\"']{1,60}[\"']\s*:|[{}]|\[\W*[\"'\d]|</?\w+[^<>]*>")
_SIGNS_ONLY = 20
"""Characters, at the most, of a sentence that is made of numbers and signs: "At 9:40!"."""
_SOFT = """really very quite pretty much lot lots actually basically honestly please maybe perhaps probably also still yet anyway
sorry okay ok yes yeah thing things stuff kind sort just even wirklich sehr eigentlich vielleicht bitte ganz mal halt eben
realmente quizás muy vraiment très davvero forse talvez echt misschien"""
"""Words that only stress or soften what others say."""


def spelled(text: str) -> list[str]:
    """All words, as they are written, in lower case."""
    return _WORD.findall(text.lower())


def language_of(text: str) -> str:
    """The language with the most stop words in a text; empty if it has none of any."""
    words = set(spelled(text[:MAX_SENTENCE]))
    found = {language: len(words & stop) for language, stop in _stop_words().items()}
    best = max(found, key=found.__getitem__)
    return best if found[best] else ""


def content(text: str, language: str) -> Words:
    """The stems of the words that say something."""
    found = terms(text[:MAX_SENTENCE], language)
    if found.only_stop_words:
        return frozenset()
    said = frozenset(found.tokens) - _soft(language)
    return said if text.isascii() else frozenset(word for word in said if not _is_small(word))


def marks(text: str, language: str) -> Words:
    """The stems of numbers and of words with a capital, by which sentences differ that otherwise say the same."""
    words = " ".join(word for word in text.split() if word != word.lower() or any(map(str.isdigit, word)))
    return content(words, language)


def is_data(text: str) -> bool:
    """Whether it is a row of a table, a piece of JSON, a checksum or the like rather than a sentence."""
    if len(text) > MAX_SENTENCE or _ROW.match(text):
        return True
    letters = sum(map(len, _LETTERS.findall(text)))
    if letters * 2 < len(text):
        return len(text) > _SIGNS_ONLY or not letters
    unbroken = _UNBROKEN.search(text)
    return unbroken is not None and len(unbroken[0]) * 2 > len(text)


def _is_small(word: str) -> bool:
    """Whether it is as short as a stop word, in an alphabet whose stop words are not known."""
    return len(word) <= 2 and "\x7f" < word[0] < "\u0e00"


@cache
def _soft(language: str) -> Words:
    return frozenset(tokens(_SOFT, language))


@cache
def _stop_words() -> dict[str, Words]:
    return {language: frozenset(words.split()) for language, words in STOP_WORDS.items()}
