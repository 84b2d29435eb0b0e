"""How a sentence begins: what only leads up to it is taken off, and a subject that goes without saying is said."""

from __future__ import annotations

import re
from collections.abc import Collection

from ...text.word_sets import load_words, word_set
from .wording import is_past

_LEAD = re.compile(
    r"""(?:(?:(?:(?:hi|hey|hello|dear)\ \w+(?=[,!])
    |oh|ah|aw+|wow|yeah|yep|yup|yes|ye+s+|sure|okay|ok|hey|hi|hello|hiya|well|so|and|but|plus|also
    |anyway|anyways|btw|by\ the\ way
    |honestly|actually|basically|alright|right|absolutely|definitely|totally|exactly|of\ course
    |for\ sure|haha+|hehe|lol|hmm+|um+|uh+
    |thanks(?:\ (?:so\ much|a\ lot|a\ bunch|again))?|thank\ you(?:\ so\ much)?|congrats|no\ worries|no\ problem|you\ know|i\ mean
    |to\ be\ honest|speaking\ of\ which|on\ another\ note|on\ a\ different\ note|as\ for\ me|in\ fact
    |guess\ what|listen|look|cool|nice|great|awesome
    |no|nope|sorry|wait|oops|correction|scratch\ that|never\ ?mind
    |(?:ignore|disregard|forget)\ (?:that|this|it|(?:my|the)\ (?:last|previous|first)\ (?:message|one|question|part|text)))
    \b[,!:.…\s-]*+)|[^\w"“'(\[$€£#+]++)""",
    re.IGNORECASE | re.VERBOSE,
)
_BEFORE_CLAUSE = re.compile(
    r"(?:I|I'\w+|my|we|we'\w+|our|it|it's|they|they're|he|she|the|there|this|that|that's)\b", re.IGNORECASE
)
_ONLY_BEFORE_COMMA = word_set(
    "so right sure look listen great nice cool awesome well like thanks no nope sorry wait oops correction"
)
"""Words that only lead up to something if a comma or an exclamation mark follows: "So far", "Sure it works", "Great food"."""

_REMEMBER = re.compile(
    r"(?:please\s+)?(?:remember|note|keep\s+in\s+mind|bear\s+in\s+mind|don'?t\s+forget|do\s+not\s+forget|fyi|for\s+the\s+record|for\s+your\s+information"
    r"|please\s+know|just\s+so\s+you\s+know|save\s+this|memori[sz]e(?:\s+this)?)\b(?:\s+that\b|\s*[:,]|(?=\s+(?:i|my|we|our)\b))\s*",
    re.IGNORECASE,
)
_FEELINGS = word_set(
    """excited glad happy sorry proud thrilled stoked grateful thankful busy tired lucky hoping sad nervous sure"""
)
_WISHES = word_set("love loving hope wish miss enjoy hate prefer")
_AFTER_NOUNS = word_set("and or is was of can will has")
_DENIALS = word_set("can't cannot couldn't didn't won't haven't wouldn't")
_NOT_PAST = word_set("agreed could might must would should let set put read need cut hit ground left")
_AFTER_DOING = word_set("on to for about at in forward through up out into with from my some a an")
_NOT_DOING = word_set("according judging depending owing compared considering regarding including")
_FINITE = re.compile(
    r"'s\b|\b(?:is|are|was|were|has|have|had|can|will|would|does|did|made|gave|felt|\w{2,}(?:ngs|kes|lps|oks|els|ves|ans|ets|eps|ows|nds|ems|rns))\b",
    re.IGNORECASE,
)
_FIRST_WORDS = re.compile(
    r"(?P<lead>(?:just|really|also|super|so|still|already|please|always|never|definitely)\s+)?(?P<first>[A-Za-z']+)(?:\s+(?P<second>[A-Za-z']+))?",
    re.IGNORECASE,
)
_ADVICE_VERBS = load_words(__package__, "advice_verbs")
_TAG_PHRASE = re.compile(
    r",? (?:as )?you (?:know|see)(?=[,.!…]|$),?|, (?:right|huh|haha+|lol)(?=[.!…]|$)", re.IGNORECASE
)
MAX_LEADS = 6


def strip_lead_ins(sentence: str, names: Collection[str]) -> str:
    """A sentence without what only leads up to it or keeps up the talk: interjections, thanks, "you know", whom it calls."""
    for _ in range(MAX_LEADS):
        shorter = _strip_name(_strip_interjection(sentence), names)
        if shorter == sentence:
            break
        sentence = shorter
    return _strip_final_name(_TAG_PHRASE.sub("", sentence), names)


def strip_remember_request(sentence: str) -> str | None:
    """What somebody wants to be remembered, if that is how they put it: "Remember that …"."""
    match = _REMEMBER.match(sentence)
    return sentence[match.end() :] if match and match.end() < len(sentence) else None


def add_subject(sentence: str) -> str:
    """A sentence that leaves out "I" or "I am", with it: "Went to Rome" is "I went to Rome"."""
    match = _FIRST_WORDS.match(sentence)
    if match is None:
        return sentence
    first, second = match["first"].lower(), (match["second"] or "").lower()
    rest = sentence[:1].lower() + sentence[1:]
    if first in _FEELINGS or first == "gonna" or (first, second) in (("going", "to"), ("looking", "forward")):
        return f"I am {rest}"
    if first == "been" and second not in ("a", "an", "the", "so", "too"):
        return f"I have {rest}"
    if (first in _WISHES and second not in _AFTER_NOUNS) or first in _DENIALS or _is_own_past(first):
        return f"I {rest}"
    if (
        first.endswith("ing")
        and first not in _NOT_DOING
        and second in _AFTER_DOING
        and _FINITE.search(sentence) is None
    ):
        return f"I am {rest}"
    return sentence


def is_advice(sentence: str) -> bool:
    """Whether it tells somebody to do something: advice, encouragement, a wish for the way."""
    match = _FIRST_WORDS.match(sentence)
    return match is not None and match["first"].lower() in _ADVICE_VERBS


def _is_own_past(verb: str) -> bool:
    return is_past(verb) and verb.isalpha() and verb not in _NOT_PAST


def _strip_interjection(sentence: str) -> str:
    match = _LEAD.match(sentence)
    if match is None or match.end() == len(sentence):
        return sentence
    lead = match[0].rstrip()
    if (
        lead.lower() in _ONLY_BEFORE_COMMA
        and not (lead.lower() in ("so", "no", "nope") and _BEFORE_CLAUSE.match(sentence, match.end()))
    ) or (lead[-1:].isalpha() and match[0][-1:].isalpha()):
        return sentence
    return sentence[match.end() :]


def _strip_name(sentence: str, names: Collection[str]) -> str:
    first, comma, rest = sentence.partition(",")
    if comma and rest.strip() and first.strip().lower() in names:
        return rest.strip()
    word, _, rest = sentence.partition(" ")
    if word[-1:] in "!.," and word[:-1].lower() in names and rest:
        return rest.strip()
    return sentence


def _strip_final_name(sentence: str, names: Collection[str]) -> str:
    """Without the name of whoever is told at the end: "I moved, Mel."."""
    body = sentence.rstrip(".!? ")
    before, comma, last = body.rpartition(",")
    if comma and before and last.strip().lower() in names:
        return before + sentence[len(body) :].strip()
    return sentence
