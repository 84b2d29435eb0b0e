"""A sentence that says two things of its speaker, as two: facts that change at different times must not be one.

"I'm vegetarian and I live in Lisbon" is cut before the second "I", "I'm vegetarian and moved to Porto" before a verb that cannot
be anything else.
"""

from __future__ import annotations

import re

from ..word_sets import word_set
from .sentences import MAX_SENTENCE, Sentence

_OWN = re.compile(r"(?:I|I['’]\w+|we|we['’]\w+)\s", re.IGNORECASE)
_JOINT = re.compile(
    r"(?:,|;)?\s+(?:and|but)\s+(?=(?:(?:also|now|recently|just|then)\s+)?([A-Za-z]+)(['’]\w+)?\s)|;\s+(?=(I|my|we)\b)"
)
_SUBJECTS = word_set("i my we")
_CHANGES = word_set(
    "moved live work started joined quit left became bought adopted married divorced graduated switched changed study own"
)
LEAST_WORDS = 2
OWNED_WORDS = 4
"""With fewer, "and my dog" is another thing of the kind, and no statement."""


def apart(sentence: Sentence) -> list[Sentence]:
    """The clauses of a sentence that stand by themselves."""
    text = sentence.text
    if len(text) > MAX_SENTENCE or text.endswith("?") or not _OWN.match(text):
        return [sentence]
    found, start = [], 0
    for joint in _JOINT.finditer(text):
        following = (joint[1] or joint[2] or "").lower()
        rest = len(text[joint.end() :].split())
        whole = len(text[start : joint.start()].split()) >= LEAST_WORDS and (following != "my" or rest >= OWNED_WORDS)
        if whole and (following in _SUBJECTS or following in _CHANGES):
            found.append(Sentence(text[start : joint.start()], sentence.start + start, sentence.start + joint.start()))
            start = joint.end()
    found.append(Sentence(text[start:], sentence.start + start, sentence.end))
    return found
