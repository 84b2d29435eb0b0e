"""Cutting a turn into sentences that know where they stand, and setting aside what is not said in it.

Everything here keeps offsets: what must not be read is blanked, never cut out. Every pattern looks at a character a bounded
number of times, so that a turn of a mebibyte costs what its length says, whatever it is made of.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...context.render import PREAMBLE
from ..word_sets import word_set

MAX_SENTENCE = 600
"""What goes on for longer without a full stop is not a statement but data."""

ECHO = re.compile(r"<(/?)memory\b[^<>]*>", re.IGNORECASE)
"""The marks of a fence around recalled memory, whatever their attributes."""

_CODE = re.compile(r"^[ \t]*```", re.MULTILINE)
_ASIDE = re.compile(r"\[([^\[\]]{1,400})\](?!\()")
_SHOWN = re.compile(
    r"(?:(?:shares?|sharing|shared|sends?|sending|sent|shows?|attache[sd]|posts?|posted)\b|(?=(?:an?|the)?\s*(?:photo|image|picture|screenshot)\b))"
    r":?\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)
# The run of marks is entered only at its beginning, so that a long one is not looked at again from each of its characters.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)*_]*+(?=\s|\Z)|[。！？؟।]++[”」』]*+|\n")
_EDGE = re.compile(r"(?:[-*•–#]+>?|\d{1,3}[.)])\s+")
_ABBREVIATIONS = word_set("""mr mrs ms dr prof st vs jr sr e.g i.e approx dept inc ltd fig no vol a.m p.m u.s""")
_STAGE_WORDS = 2


class Sentence(NamedTuple):
    text: str
    start: int
    end: int
    unsaid: str = ""
    """The subject that goes without saying, as the clause before it has it."""


def without_echoes(text: str) -> str:
    """The text with everything blank that stands between marks of recalled memory. An opening that is never closed is
    somebody's own word."""
    text = text.replace(PREAMBLE, " " * len(PREAMBLE))
    depth, opened, blanks = 0, 0, []
    for mark in ECHO.finditer(text):
        if not mark[1]:
            opened = mark.start() if depth == 0 else opened
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                blanks.append((opened, mark.end()))
    return blanked(text, blanks)


def without_code(text: str) -> str:
    """The text with fenced code blank; a fence that stays open runs to the end."""
    if "```" not in text:
        return text
    fences = [mark.start() for mark in _CODE.finditer(text)]
    ends = [line_end(text, at) for at in fences[1::2]]
    if len(fences) % 2:
        ends.append(len(text))
    return blanked(text, list(zip(fences[::2], ends, strict=True)))


def asides(text: str) -> tuple[str, list[Sentence]]:
    """The text without what stands in brackets, and what is described there as shown: `[shares a photo of a dog]`."""
    shown, blanks = [], []
    for match in _ASIDE.finditer(text):
        what = _SHOWN.fullmatch(match[1].strip())
        if what:
            shown.append(Sentence(what[1].strip().rstrip("."), match.start(), match.end()))
        if what or len(match[1].split()) <= _STAGE_WORDS:
            blanks.append(match.span())
    return blanked(text, blanks), shown


def split(text: str) -> list[Sentence]:
    """The sentences of a text, with where they begin and end in it."""
    found, start = [], 0
    for mark in _END.finditer(text):
        if not _abbreviated(text, mark):
            found.append(_trimmed(text, start, mark.end()))
            start = mark.end()
    found.append(_trimmed(text, start, len(text)))
    return [one for one in found if one.text]


def _trimmed(text: str, start: int, end: int) -> Sentence:
    """Without blanks around it and the mark of a list before it."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    edge = _EDGE.match(text, start, end)
    start = edge.end() if edge else start
    said = text[start:end].strip()
    return Sentence(said, start, start + len(said))


def _abbreviated(text: str, mark: re.Match[str]) -> bool:
    if mark[0] != ".":
        return False
    before = (text[max(0, mark.start() - 8) : mark.start()].split() or [""])[-1]
    if before.isdigit() and len(before) <= 3:
        line = mark.start() - len(before)
        return line == 0 or text[line - 1] == "\n"
    if before.lower() not in _ABBREVIATIONS:
        return len(before) == 1 and before.isupper() and before != "I"
    following = text[mark.end() : mark.end() + 2].strip()
    return not (before.lower() in ("a.m", "p.m", "no", "u.s") and following[:1].isupper())


def blanked(text: str, spans: list[tuple[int, int]]) -> str:
    """Blank some parts of a text; lines stay lines."""
    if not spans:
        return text
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
