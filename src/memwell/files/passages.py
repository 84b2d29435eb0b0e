"""A long text as passages: what a search finds of a file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 1200
"""Characters. What is found is to be read, and to fit into a prompt several times."""

_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE = re.compile(r"(?<=[.!?。！？؟])\s+|\n")


def passages(text: str) -> list[str]:
    """The text in pieces of whole paragraphs, or of whole sentences, where they are not too long for that."""
    found: list[str] = []
    for piece in _pieces(text):
        joined = f"{found[-1]}\n\n{piece}" if found else piece
        if found and len(joined) <= LONGEST:
            found[-1] = joined
        else:
            found.append(piece)
    return found


def _pieces(text: str) -> Iterator[str]:
    for paragraph in _split(_PARAGRAPH, text):
        yield from _fitting(paragraph.strip())


def _split(between: re.Pattern[str], text: str) -> Iterator[str]:
    """Step by step, so that nobody waits until the whole of a long text is cut."""
    at = 0
    for found in between.finditer(text):
        yield text[at : found.start()]
        at = found.end()
    yield text[at:]


def _fitting(paragraph: str) -> Iterator[str]:
    """A paragraph, cut where it is too long: between sentences, else between words, else anywhere."""
    rest = ""
    for sentence in _split(_SENTENCE, paragraph) if len(paragraph) > LONGEST else [paragraph]:
        if rest and len(rest) + 1 + len(sentence) > LONGEST:
            yield rest
            rest = ""
        *whole, last = _cut(sentence.strip())
        if whole and rest:
            yield rest
            rest = ""
        yield from filter(None, whole)
        rest = f"{rest} {last}".strip()
    if rest:
        yield rest


def _cut(sentence: str) -> Iterator[str]:
    """A sentence in pieces; all but the last are as long as may be."""
    at = 0
    while len(sentence) - at > LONGEST:
        space = sentence.rfind(" ", at + LONGEST // 2, at + LONGEST + 1)
        end = at + LONGEST if space < 0 else space
        yield sentence[at:end].strip()
        at = end
    yield sentence[at:].strip()
