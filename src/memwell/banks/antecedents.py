"""Find the sentence with the noun that a pronoun at the beginning of another sentence stands for.

"He" and "she" need a sentence that names a person; "it", "they", "this" and "that" the sentence before, or the question that
they answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .utterances import Utterance, content_words

MAX_DISTANCE = 30
"""The most sentences between a person and "he" or "she"."""
MAX_LINES = 2
"""The most lines between a thing and "it"."""
_OPENERS = (
    r"\W*(?:(?:and|but|so|then|yes|no|oh|also|ok(?:ay)?|well|because|plus|now|und|aber|also|y|pero|et|mais)\b\W*)*"
)
_PERSONAL = re.compile(rf"{_OPENERS}(?:he|she|his|her|him|elle|lui|ella|él|lei)\b(?!\W*(?:or|/))", re.IGNORECASE)
_IMPERSONAL = re.compile(
    rf"{_OPENERS}(?:it|its|they|their|them|those|these|this|that)(?:['’](?:s|re|ll|d|ve))?\b"
    r"(?! (?:means|way|week|month|year|morning|time|afternoon|evening|summer|winter|sprint|\w+ is|looks like|seems"
    r"|turns out|rains?|\w+ (?:must|has to|needs?|will|was|are))\b)",
    re.IGNORECASE,
)
_KIN = re.compile(
    r"\b(?:mother|father|mum|mom|dad|parents?|brother|sister|son|daughter|wife|husband|partner|fianc[ée]e?|friend|aunt|uncle|cousin"
    r"|grand\w+|neighbou?r|boss|doctor|dr|nurse|colleague|teacher|landlord|tenant|man|woman|boy|girl|lady|guy|baby|kid|child"
    r"|builder|driver|customer|client|patient|assistant|manager|dog|cat|mutter|vater|bruder|schwester|sohn|tochter|frau|mann"
    r"|freund\w*|madre|padre|herman[oa]|hij[oa]|espos[oa]|amig[oa]|mère|père|frère|sœur|fils|fille|femme|mari|ami\w*)\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?<=[\w,;:] )(?!I\b|I['’])[A-Z][^\W\d_]{2,}|\A\W*[A-Z][^\W\d_]{2,} (?:is|was|has|had|will|and|works?|lives?|can)\b"
)


class Antecedent(NamedTuple):
    """The number of the sentence with the noun. `person`: any earlier sentence about a person will do as well."""

    number: int
    person: bool


def names_person(text: str) -> bool:
    return _PERSONAL.match(text) is None and (_KIN.search(text) is not None or _NAME.search(text) is not None)


def find_antecedent(sentences: Sequence[Utterance], one: Utterance) -> Antecedent | None:
    """Return the sentence with the noun for a sentence that begins with a pronoun; None if it needs none, or has none."""
    if _PERSONAL.match(one.text):
        for earlier in reversed(sentences[max(0, one.number - MAX_DISTANCE) : one.number]):
            if not earlier.data and names_person(earlier.text):
                return Antecedent(earlier.number, True)
        return None
    if not _IMPERSONAL.match(one.text):
        return None
    for earlier in reversed(sentences[max(0, one.number - MAX_DISTANCE) : one.number]):
        if earlier.line < one.line - MAX_LINES:
            return None
        if earlier.text.endswith(":") or _IMPERSONAL.match(earlier.text):
            continue
        if not earlier.data and len(content_words(earlier.text, earlier.language)) > (
            0 if earlier.line == one.line else 1
        ):
            return Antecedent(earlier.number, False)
    return None
