"""What is said without being stated: suppositions, texts that are wanted, and what is meant the other way round."""

from __future__ import annotations

import re

from .sentences import Sentence

_POLITE = r"\W*(?:(?:please|ok|okay|so|now|and|hey|hi|can you|could you|just),?\s+){0,4}"
_SUPPOSES = re.compile(
    rf"""{_POLITE}(?:(?:let's|let\ us)\ (?:say|suppose|assume|pretend|imagine)\b
    |(?:imagine|pretend|suppose|supposing|assume|assuming)\b(?!\ (?:my|our)\ surprise)
    |say\ (?:that\ )?(?:i|i'\w+|we|we'\w+|my)\b
    |hypothetically\b|for\ the\ sake\ of\ argument\b|in\ (?:another|a\ parallel)\ (?:life|universe)\b
    |(?:act|talk|behave|speak)\ as\ (?:if|though)\b
    |what\ if\b|role-?\s?play\b
    |(?:write|draft|compose|generate|make\ up|create)\ (?:me\ |us\ )?(?:an?|the|some|my|another|two|three)\b
    |tell\ me\ an?\ (?:story|joke|tale)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_MOCKS = re.compile(r"\W*yeah,?\s+right\b(?=\s*[,.!…;–—-]|\s*\Z)", re.IGNORECASE)
_ONLY_MOCKS = re.compile(r"\W*yeah,?\s+right\W*", re.IGNORECASE)
_GOES_ON = re.compile(r"\W*and\s", re.IGNORECASE)


def is_supposed(sentence: str) -> bool:
    """Whether it asks to take something for granted, or for a text that says it."""
    return _SUPPOSES.match(sentence.replace("’", "'")) is not None


def meant(sentences: list[Sentence]) -> list[Sentence]:
    """Without what is mocked: "Yeah right, and I'm the Queen", also where that is two sentences."""
    if not any(_MOCKS.match(one.text) for one in sentences):
        return sentences
    return [one for n, one in enumerate(sentences) if not _is_mocked(sentences, n)]


def _is_mocked(sentences: list[Sentence], n: int) -> bool:
    if _MOCKS.match(sentences[n].text):
        return True
    return (
        n > 0
        and _GOES_ON.match(sentences[n].text) is not None
        and _ONLY_MOCKS.fullmatch(sentences[n - 1].text) is not None
    )
