"""Chunks of a text: each is embedded by itself, so that a detail in a long text has a vector of its own."""

from __future__ import annotations

import re

WHOLE = 400
PART = 300
MAX_PARTS = 64

_SENTENCE = re.compile(r"(?<=[.!?。！？؟])\s+|\n+")
_QUESTION = ("?", "？", "؟")


def split_chunks(text: str, wanted: int | None = None, overlap: int = 0) -> list[str]:
    """The text itself, and if it is long, also pieces of some sentences each, up to a bounded number. `wanted`: about how
    long they are to be, and by how much one repeats the end of the one before."""
    if len(text) <= (WHOLE if wanted is None else wanted):
        return [text]
    size = max(wanted or PART, len(text) // MAX_PARTS + 1)
    parts: list[str] = []
    piece = ""
    for sentence in _SENTENCE.split(text):
        for cut in (sentence[at : at + 2 * size] for at in range(0, len(sentence), 2 * size)):
            if piece and len(piece) + len(cut) > size:
                parts.append(piece)
                piece = piece[len(piece) - overlap :].partition(" ")[2] if overlap else ""
            piece = f"{piece} {cut}".strip()
    return [text, *parts, piece] if parts else [text]


def measure_questions(text: str) -> float:
    """How much of a text is questions, from 0 to 1."""
    if not any(sign in text for sign in _QUESTION):
        return 0.0
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence]
    asked = sum(len(sentence) for sentence in sentences if sentence.rstrip("\"')").endswith(_QUESTION))
    return asked / (sum(map(len, sentences)) or 1)
