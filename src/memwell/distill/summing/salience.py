"""What speaks for a sentence and against it, whatever the whole is about: facts, decisions, numbers, names, wishes and
corrections on the one hand, greetings, thanks, questions and praise on the other.

The weights were chosen so that hand-written conversations keep what their readers wanted to find, and checked on others.
"""

from __future__ import annotations

import re

from ..extraction.kinds import importance, kind_of
from ..extraction.languages import is_question
from ..extraction.worth import KEPT, worth
from ..extraction.worth import Told as Telling
from .pleasantries import without_pleasantries
from .signs import corrects, denials, praises, sign, unspaced_sign
from .words import content, language_of, spelled

ORDINARY = 0.3
"""How important any statement is, as extraction has it."""
WORTH = 0.9
"""How much it counts that people would mark it as a fact."""
CORRECTION, DENIAL, NUMBER, NAME = 0.3, 0.1, 0.15, 0.1
MOST = 1.0
"""What signs come to, at the most: a long sentence has a bit of everything."""
QUESTION, HEADING, PRAISE = -1.0, -0.5, -0.2
FILLER, SHORT = -1.4, -0.5
FEW_WORDS = 2
"""With fewer, hardly anything is said."""
_DIGIT = re.compile(r"\d")
_NAMED = re.compile(r"(?<=[\w,;] )(?!I\b)[A-Z]\w|\b[A-Z]{2}")
_OWN = re.compile(r"\b(?:I|I'\w+|[Mm]y|[Ww]e|[Ww]e'\w+)\b")
_SUBJECT = re.compile(r"(?:I|we|it|he|she|they|the|my|our|there)\b(?:'\w+)?(?: \S+){2}", re.IGNORECASE)
_OFFERS = re.compile(
    r"(?:can|could|would|will|shall|should|may) (?:you|we|i)\b|do you want|soll(?:en)? (?:ich|wir)", re.IGNORECASE
)


def glance(text: str) -> float:
    """What seems to speak for a sentence, by a look at its words."""
    return sign(spelled(text)) + _number(text)


def merits(text: str, language: str) -> float:
    """What speaks for a sentence."""
    text = text.replace("’", "'")
    strongest = max(sign(spelled(text)), unspaced_sign(text), _importance(text, language))
    name = NAME if language != "de" and _NAMED.search(text) else 0.0
    against = CORRECTION if corrects(text) else DENIAL if denials(text) else 0.0
    return min(MOST, strongest + name + against + _number(text)) + _worth(text)


def demerits(text: str, language: str) -> float:
    """What speaks against a sentence."""
    said = without_pleasantries(text)
    words = len(content(said, language))
    found = QUESTION if is_question(text) else HEADING if text.endswith((":", "：")) else 0.0
    if words < FEW_WORDS or (len(said) < len(text) and words == FEW_WORDS):
        return found + (SHORT if merits(said, language) > 0 else FILLER)
    return found + (PRAISE if praises(spelled(text)) or text.endswith(("!", "！")) else 0.0)


def needs_question(answer: str, question: str) -> bool:
    """Whether a short answer says something, but only together with its question. To agree to an offer says nothing."""
    asked = without_pleasantries(question)
    if not asked or answer.endswith(":") or _SUBJECT.match(answer):
        return False
    return without_pleasantries(answer) != "" or _OFFERS.match(asked) is None


def _importance(text: str, language: str) -> float:
    """How much more it matters than any statement, if it is about its speaker."""
    return importance(kind_of(text), text) - ORDINARY if language == "en" and _OWN.search(text) else 0.0


def _worth(text: str) -> float:
    if language_of(text) != "en":
        return 0.0
    telling = Telling((text,), questions=0, answers=False, shows=False, fresh=len(content(text, "en")))
    return WORTH * (worth(telling) - KEPT)


def _number(text: str) -> float:
    return NUMBER if _DIGIT.search(text) else 0.0
