"""Cutting a turn into sentences that know where they stand, and setting aside what is not said in it.

Everything here keeps offsets: what must not be read is blanked, never cut out. Every pattern looks at a character a bounded
number of times, so that a turn of a mebibyte costs what its length says, whatever it is made of.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...text.fence import PREAMBLE
from ...text.word_sets import word_set

MAX_SENTENCE = 600
"""What goes on for longer without a full stop is not a statement but data."""

MEMORY_FENCE = re.compile(r"<(/?)memory\b[^<>]*>", re.IGNORECASE)
"""The marks of a fence around recalled memory, whatever their attributes."""

_CODE = re.compile(r"^[ \t]*```", re.MULTILINE)
_BRACKETS = re.compile(r"\[([^\[\]]{1,400})\](?!\()")
_ATTACHMENT = re.compile(
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


def blank_recalled_memory(text: str) -> str:
    """The text with everything blank that stands between marks of recalled memory. An opening that is never closed is
    somebody's own word."""
    text = text.replace(PREAMBLE, " " * len(PREAMBLE))
    depth, opened, blanks = 0, 0, []
    for mark in MEMORY_FENCE.finditer(text):
        if not mark[1]:
            opened = mark.start() if depth == 0 else opened
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                blanks.append((opened, mark.end()))
    return blank(text, blanks)


def blank_code(text: str) -> str:
    """The text with fenced code blank; a fence that stays open runs to the end."""
    if "```" not in text:
        return text
    fences = [mark.start() for mark in _CODE.finditer(text)]
    ends = [line_end(text, at) for at in fences[1::2]]
    if len(fences) % 2:
        ends.append(len(text))
    return blank(text, list(zip(fences[::2], ends, strict=True)))


def split_brackets(text: str) -> tuple[str, list[Sentence]]:
    """The text without what stands in brackets, and what is described there as shown: `[shares a photo of a dog]`."""
    shown, blanks = [], []
    for match in _BRACKETS.finditer(text):
        what = _ATTACHMENT.fullmatch(match[1].strip())
        if what:
            shown.append(Sentence(what[1].strip().rstrip("."), match.start(), match.end()))
        if what or len(match[1].split()) <= _STAGE_WORDS:
            blanks.append(match.span())
    return blank(text, blanks), shown


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a text, with where they begin and end in it."""
    found, start = [], 0
    for mark in _END.finditer(text):
        if not _is_abbreviation(text, mark):
            found.append(_trim(text, start, mark.end()))
            start = mark.end()
    found.append(_trim(text, start, len(text)))
    return [one for one in found if one.text]


def _trim(text: str, start: int, end: int) -> Sentence:
    """Without blanks around it and the mark of a list before it."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    edge = _EDGE.match(text, start, end)
    start = edge.end() if edge else start
    said = text[start:end].strip()
    return Sentence(said, start, start + len(said))


def _is_abbreviation(text: str, mark: re.Match[str]) -> bool:
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


def blank(text: str, spans: list[tuple[int, int]]) -> str:
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


# -- A sentence that says two things of its speaker, as two: facts that change at different times must not be one.
#
# "I'm vegetarian and I live in Lisbon" is cut before the second "I", "I'm vegetarian and moved to Porto" before a verb that
# cannot be anything else. "I used to smoke but quit in 2019" stays whole: what was quit stands before the cut.


_OWN = re.compile(r"(?:I|I['’]\w+|we|we['’]\w+)\s", re.IGNORECASE)
_JOINT = re.compile(
    r"(?:,|;)?\s+(?:and|but)\s+(?=(?:(?:also|now|recently|just|then)\s+)?([A-Za-z]+)(['’]\w+)?\s)|;\s+(?=(I|my|we)\b)"
)
_SUBJECTS = word_set("i my we")
_CHANGES = word_set(
    "moved live work started joined quit left became bought adopted married divorced graduated switched changed study own"
)
_NEED_OBJECTS = word_set("quit left started joined bought adopted own changed")
_NO_OBJECT = re.compile(
    r"\w+\s+(?:in|on|at|after|before|since|during|around|for|last|this|next|when|because|again|early|later|soon|it|them|there|"
    r"two|three|a\s+(?:few|couple|week|month|year)|\d)\b",
    re.IGNORECASE,
)
_BASE = word_set("live work study own")
_GOVERNED = re.compile(
    r"\b(?:to|not|never|no longer|will|would|could|can|cannot|should|might|may|must|let|if|wish|\w+n't)\b|'ll|'d\b",
    re.IGNORECASE,
)
"""What a verb in its base form may depend on: of "I want to live in Rome and work at home", the second half is no fact."""
MIN_WORDS = 2
MIN_OWNED_WORDS = 4
"""With fewer, "and my dog" is another thing of the kind, and no statement."""


def split_clauses(sentence: Sentence) -> list[Sentence]:
    """The clauses of a sentence that stand by themselves."""
    text = sentence.text
    if len(text) > MAX_SENTENCE or text.endswith("?") or not _OWN.match(text):
        return [sentence]
    found, start, unsaid = list[Sentence](), 0, ""
    for joint in _JOINT.finditer(text):
        following = (joint[1] or joint[2] or "").lower()
        rest = len(text[joint.end() :].split())
        subject = "" if following in _SUBJECTS else _implied_subject(text, start, joint)
        whole = len(text[start : joint.start()].split()) >= MIN_WORDS and (following != "my" or rest >= MIN_OWNED_WORDS)
        if whole and (following in _SUBJECTS or (following in _CHANGES and subject)):
            found.append(_clause(sentence, start, joint.start(), unsaid))
            start, unsaid = joint.end(), subject
    found.append(_clause(sentence, start, len(text), unsaid))
    return found


def _clause(sentence: Sentence, start: int, end: int, unsaid: str) -> Sentence:
    return Sentence(sentence.text[start:end], sentence.start + start, sentence.start + end, unsaid)


def _implied_subject(text: str, start: int, joint: re.Match[str]) -> str:
    """The subject of a verb that follows a joint, if the verb can do without the words before the joint."""
    verb = (joint[1] or "").lower()
    if verb in _NEED_OBJECTS and _NO_OBJECT.match(text, joint.start(1)):
        return ""
    if verb in _BASE and _GOVERNED.search(text[start : joint.start()].replace("’", "'")):
        return ""
    return "We " if text[:2].lower() == "we" else "I "
