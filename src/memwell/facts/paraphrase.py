"""Recognise paraphrases: statements with the same content words, names, numbers, denials and limits, whatever joins them."""

from __future__ import annotations

from ..text.word_sets import load_sections
from .faithfulness import find_marks, list_words
from .rules.passages import is_english
from .wording import parse_wording, stems

_LIGHT = frozenset(stems(" ".join(load_sections(__package__, "marks")["light"])))


def paraphrase_key(text: str, subject: str) -> tuple[object, ...]:
    """Return a key that only paraphrases share. A text in another language than English is its own paraphrase only.

    The order of the content words is a part of it, so that "Ana hired Tom" and "Tom hired Ana" are two statements.
    """
    if not is_english(text):
        return (text.casefold(),)
    wording = parse_wording(text, subject or None)
    form = (wording.polarity, wording.moods, wording.suffered, wording.past, wording.passing, wording.whose == "@")
    order = tuple(stem for stem in stems(wording.plain) if stem not in _LIGHT)
    return (*form, find_marks(list_words(text)), order, wording.tail, wording.instead)
