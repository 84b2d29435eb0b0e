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
    for paragraph in _PARAGRAPH.split(text):
        yield from _fitting(paragraph.strip())


def _fitting(paragraph: str) -> Iterator[str]:
    """A paragraph, cut where it is too long: between sentences, else between words, else anywhere."""
    rest = ""
    for sentence in _SENTENCE.split(paragraph) if len(paragraph) > LONGEST else [paragraph]:
        if rest and len(rest) + 1 + len(sentence) > LONGEST:
            yield rest
            rest = ""
        rest = f"{rest} {sentence}".strip()
        while len(rest) > LONGEST:
            space = rest.rfind(" ", LONGEST // 2, LONGEST + 1)
            end = LONGEST if space < 0 else space
            yield rest[:end]
            rest = rest[end:].strip()
    if rest:
        yield rest
