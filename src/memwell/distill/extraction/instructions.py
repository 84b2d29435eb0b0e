"""What somebody wants of whoever serves them, and what they take back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ..values import Said
from .amends import amended, instead
from .heard import Statement
from .rewording import plain

_INSTRUCTION = re.compile(
    r"""(?:please,?\s+|and\s+)?(?:(?:from\s+now\s+on|going\s+forward|in\s+(?:the\s+)?future)\b.+
    |(?:always|never(?!\s+mind))\s+[a-z]+\s.+|(?:whenever|every\s+time|each\s+time)\s+(?:i|you)\b.+
    |(?:call|address)\s+me\s+(?!back|later|when|if|tomorrow|tonight).+
    |(?:answer|reply|respond|speak|talk)\b.{0,30}?\b(?:in|with|like|as|only|briefly|shortly|concisely)\b.*
    |keep\s+(?:your|the|all|it)\b.*\b(?:short|brief|concise|simple|answers?|replies|responses|formal|informal)\b.*
    |(?:don't|do\s+not|stop|avoid)\s+(?:ever\s+)?(?:us(?:e|ing)|call(?:ing)?|add(?:ing)?|ask(?:ing)?|send(?:ing)?|mention(?:ing)?|answer(?:ing)?|suggest(?:ing)?
      |repeat(?:ing)?|writ(?:e|ing)|includ(?:e|ing)|recommend(?:ing)?|apologi[sz](?:e|ing)|say(?:ing)?|tell(?:ing)?)\b.+
    |use\s+(?:only\s+)?(?:metric|imperial|celsius|fahrenheit|british|american|emojis?|markdown|bullet|plain|simple|formal|informal|my)\b.*
    |remember\s+to\s.+|be\s+(?:more\s+|less\s+)?(?:brief|concise|formal|informal|direct|polite|honest|specific)\b.*
    |i(?:\s+want|\s+need|'d\s+like|\s+would\s+like|\s+prefer)\s+you\s+to\s+(?:always|never|only|not|stop|call|answer|use|keep|be|speak|remember)\b.*
    |you\s+(?:should|must|can)\s+(?:always|never|only)\b.+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_TAKES_BACK = re.compile(
    r"\W*(?:actually|no|nope|sorry|correction|wait|oops|my mistake|i meant?|not|ignore|disregard|scratch|forget)\b",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(
    r"(?:it's|it is|it was|that's|that is|i meant?(?: to say)?|he's|she's|they're)?\s*"
    r"(?P<new>[^,;.!?]{1,60}?),?\s+(?:and )?not\s+(?P<old>[^,;.!?]{1,60})[.!]*",
    re.IGNORECASE,
)
_LEAD = re.compile(r"\W*(?:(?:actually|no|nope|sorry|correction|wait|oops|my mistake)\b[\s,:.!–-]*)+", re.IGNORECASE)


AMENDED = 3
"""How many of their statements back somebody may reach who only says what is right."""
LOOKED_AT = 24


class Told(NamedTuple):
    """A statement, and in which turn it was made."""

    said: Said
    statement: Statement


class Corrected(NamedTuple):
    """What is true instead of an earlier statement."""

    earlier: Told
    text: str


def is_instruction(text: str) -> bool:
    return _INSTRUCTION.fullmatch(text.strip()) is not None


def wanted(text: str, name: str) -> str:
    said = plain(text)
    return f'{name} wants: "{said[:1].upper()}{said[1:].rstrip("!. ")}."'


def takes_back(sentence: str) -> bool:
    """Whether a sentence says that something was not so."""
    if _TAKES_BACK.match(sentence) is None:
        return False
    return "meant" in sentence or _NOT_BUT.fullmatch(_LEAD.sub("", sentence, count=1)) is not None


def made_right(sentence: str, said: Said, before: Iterable[Told]) -> Corrected | None:
    """The statement of the same speaker that "Sorry, three" is about, made right. Newest first."""
    new = instead(sentence)
    if new is None:
        return None
    own = (told for told in islice(before, LOOKED_AT) if told.said.speaker == said.speaker and told.statement.english)
    right = ((told, amended(told.statement.text, *new)) for told in islice(own, AMENDED))
    return next((Corrected(told, text) for told, text in right if text), None)


def corrected(sentence: str, before: Iterable[Told]) -> Corrected | None:
    """The statement that a correction is about, with the right words in the place of the wrong ones. Newest first."""
    match = _NOT_BUT.fullmatch(_LEAD.sub("", sentence.replace("’", "'"), count=1))
    if match is None:
        return None
    wrong = re.compile(rf"\b{re.escape(match['old'].strip())}\b", re.IGNORECASE)
    for told in before:
        text, count = wrong.subn(f"{match['new'].strip()} (not {match['old'].strip()})", told.statement.text, count=1)
        if count:
            return Corrected(told, text)
    return None
