"""A sentence that says two things of its speaker, as two: facts that change at different times must not be one.

"I'm vegetarian and I live in Lisbon" is cut before the second "I", "I'm vegetarian and moved to Porto" before a verb that cannot
be anything else. "I used to smoke but quit in 2019" stays whole: what was quit stands before the cut.
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
LEAST_WORDS = 2
OWNED_WORDS = 4
"""With fewer, "and my dog" is another thing of the kind, and no statement."""


def apart(sentence: Sentence) -> list[Sentence]:
    """The clauses of a sentence that stand by themselves."""
    text = sentence.text
    if len(text) > MAX_SENTENCE or text.endswith("?") or not _OWN.match(text):
        return [sentence]
    found, start, unsaid = list[Sentence](), 0, ""
    for joint in _JOINT.finditer(text):
        following = (joint[1] or joint[2] or "").lower()
        rest = len(text[joint.end() :].split())
        subject = "" if following in _SUBJECTS else _unsaid(text, start, joint)
        whole = len(text[start : joint.start()].split()) >= LEAST_WORDS and (following != "my" or rest >= OWNED_WORDS)
        if whole and (following in _SUBJECTS or (following in _CHANGES and subject)):
            found.append(_clause(sentence, start, joint.start(), unsaid))
            start, unsaid = joint.end(), subject
    found.append(_clause(sentence, start, len(text), unsaid))
    return found


def _clause(sentence: Sentence, start: int, end: int, unsaid: str) -> Sentence:
    return Sentence(sentence.text[start:end], sentence.start + start, sentence.start + end, unsaid)


def _unsaid(text: str, start: int, joint: re.Match[str]) -> str:
    """The subject of a verb that follows a joint, if the verb can do without the words before the joint."""
    verb = (joint[1] or "").lower()
    if verb in _NEED_OBJECTS and _NO_OBJECT.match(text, joint.start(1)):
        return ""
    if verb in _BASE and _GOVERNED.search(text[start : joint.start()].replace("’", "'")):
        return ""
    return "We " if text[:2].lower() == "we" else "I "
