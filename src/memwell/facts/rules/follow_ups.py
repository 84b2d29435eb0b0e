"""Handle sentences that depend on an earlier one: corrections ("Sorry, three.") and short answers ("How many dogs?" - "Two.").

A correction that consists of a value replaces the value of the same sort in an earlier statement: a number replaces a number, a
month a month. This module also recognises instructions to the agent ("Always answer in French").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice
from typing import NamedTuple

from ..datatypes import Turn
from ..wording import MONTHS
from .phrase import (
    IRREGULAR_PAST,
    Speaker,
    inside_sentence,
    possessive,
    strip_quotation_marks,
    third_person,
    third_person_verb,
)
from .statement import Statement, content_stems

MAX_AMENDMENT = 80
"""Maximum length of a correction that consists of a value."""
_MARK = (
    r"actually|no|nope|sorry|correction|wait|hold on|hang on|oops|whoops|my mistake|my bad|typo|i meant?(?: to say)?"
    r"|make (?:that|it)|rather"
)
_RETRACTION = r"(?:ignore|disregard|scratch|forget) (?:that|this|it|the typo|my (?:last|previous) \w+)"
_AMENDMENT = re.compile(
    rf"\W*(?:(?:oh|ah|hmm?|um|uh|ugh|argh|well|ok|okay|and|but|so)\b[\s,.!:–-]*){{0,2}}(?=(?:it's |it is "
    rf"|that's )?(?:{_MARK}|{_RETRACTION})\b)"
    rf"(?P<lead>(?:(?:{_MARK}|{_RETRACTION}|it's|its|it is|it was|that's|it should (?:be|say)|i have|on|at|in"
    rf"|the)\b[\s,:.!–-]*){{1,6}})"
    r"(?P<new>[^,;.!?\n]{1,40})[.!]*",
    re.IGNORECASE,
)
_EXPLICIT = re.compile(r"\b(?:meant?|correction|make (?:that|it)|mistake)\b", re.IGNORECASE)
_MONTH = rf"(?:(?i:{'|'.join(month for month in MONTHS if month != 'may')}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|May)"
_NUMBER = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty"
_SORTS = {
    "day": rf"\b(?:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH})\b",
    "month": rf"\b{_MONTH}\b",
    "weekday": r"\b(?i:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    "time": r"\b(?:\d{1,2}(?::\d\d)? ?(?i:[ap]\.?m\b\.?|o'clock)|\d{1,2}:\d\d|noon|midnight)",
    "ordinal": r"\b\d{1,2}(?:st|nd|rd|th)\b(?! of)",
    "reference": r"#\w+",
    "code": r"\b(?:\d+[A-Z]+|[A-Z]+-?\d+)\w*\b",
    "year": r"\b(?:19|20)\d\d\b",
    "number": rf"\b(?:\d[\d.,]*\d|\d|(?i:{_NUMBER}))\b",
    "name": r"(?<!^)\b(?!I\b)[A-Z]\w+(?: [A-Z]\w+)*",
}
_PATTERNS = {sort: re.compile(pattern) for sort, pattern in _SORTS.items()}
_NUMBERED = re.compile(r"\b\d+[A-Za-z]?\b")
MIN_ALIKE = 0.6
"""Minimum similarity of the spelling of a name and its correction."""
_SMALL = re.compile(r"\b(?:in|on|at|the|a|an|of|for|by|is|it|to)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def amend(earlier: str, new: str, explicit: bool) -> str | None:
    """Return an earlier statement with the corrected value; None if it is unclear which value to replace."""
    for sort, pattern in _PATTERNS.items():
        right = pattern.search(f" {new}")
        if right and (explicit or sort != "name" or right[0] == new):
            text = _replace_value(earlier, pattern, right[0], _words(new.replace(right[0], " ")), alike=not explicit)
            return text if text or sort != "code" else _replace_value(earlier, _NUMBERED, right[0], set())
    return None


def _replace_value(
    earlier: str, pattern: re.Pattern[str], right: str, named: set[str], alike: bool = False
) -> str | None:
    """Replace the only value that matches `pattern`; if `named` has nouns ("three kids"), the value beside a noun.

    `alike`: replace a name only if it is spelt like the new one, because "Sorry, Tom" may address Tom.
    """
    if not named <= _words(earlier):
        return None
    wrong = []
    for match in pattern.finditer(earlier):
        around = [*earlier[: match.start()].split()[-1:], *earlier[match.end() :].split()[:1]]
        if alike and pattern is _PATTERNS["name"] and not _is_spelt_alike(match[0], right):
            continue
        if not named or named & _words(" ".join(around)):
            wrong.append(match)
    if len(wrong) != 1 or wrong[0][0] == right:
        return None
    return earlier[: wrong[0].start()] + right + earlier[wrong[0].end() :]


def _is_spelt_alike(one: str, other: str) -> bool:
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio() >= MIN_ALIKE


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_SMALL.sub(" ", text))}


# -- corrections


_CORRECTION_LEAD = re.compile(
    r"\W*(?:actually|no|nope|sorry|correction|wait|oops|my mistake|i meant?|not|ignore|disregard|scratch|forget)\b",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(
    r"(?:it's|it is|it was|that's|that is|i meant?(?: to say)?|he's|she's|they're)?\s*"
    r"(?P<new>[^,;.!?]{1,60}?),?\s+(?:and )?not\s+(?P<old>[^,;.!?]{1,60})[.!]*",
    re.IGNORECASE,
)
_LEAD = re.compile(r"\W*(?:(?:actually|no|nope|sorry|correction|wait|oops|my mistake)\b[\s,:.!–-]*)+", re.IGNORECASE)


MAX_OWN_STATEMENTS = 3
"""Number of earlier statements of the same speaker that a correction may refer to."""
MAX_STATEMENTS = 24


class EarlierStatement(NamedTuple):
    """A statement and its turn."""

    turn: Turn
    statement: Statement


class Correction(NamedTuple):
    """An earlier statement, and its corrected text."""

    earlier: EarlierStatement
    text: str


def is_correction(sentence: str) -> bool:
    """Return True if a sentence corrects an earlier one."""
    if _CORRECTION_LEAD.match(sentence) is None:
        return False
    return "meant" in sentence or _NOT_BUT.fullmatch(_LEAD.sub("", sentence, count=1)) is not None


def find_amended(sentence: str, turn: Turn, before: Iterable[EarlierStatement]) -> Correction | None:
    """Correct an earlier statement of the same speaker by a value: "Sorry, three". `before`: newest first."""
    amends = _AMENDMENT.fullmatch(sentence.replace("’", "'")) if len(sentence) <= MAX_AMENDMENT else None
    if amends is None:
        return None
    new, explicit = amends["new"].strip(), _EXPLICIT.search(amends["lead"]) is not None
    own = (one for one in islice(before, MAX_STATEMENTS) if one.turn.speaker == turn.speaker and one.statement.english)
    right = ((one, amend(one.statement.text, new, explicit)) for one in islice(own, MAX_OWN_STATEMENTS))
    return next((Correction(one, text) for one, text in right if text), None)


def find_corrected(sentence: str, before: Iterable[EarlierStatement]) -> Correction | None:
    """Correct an earlier statement by "Lisbon, not Porto". `before`: newest first."""
    match = _NOT_BUT.fullmatch(_LEAD.sub("", sentence.replace("’", "'"), count=1))
    if match is None:
        return None
    wrong = re.compile(rf"\b{re.escape(match['old'].strip())}\b", re.IGNORECASE)
    for one in before:
        text, count = wrong.subn(f"{match['new'].strip()} (not {match['old'].strip()})", one.statement.text, count=1)
        if count:
            return Correction(one, text)
    return None


# -- short answers


MAX_ANSWER_WORDS = 5
MAX_QUESTION_WORDS = 18
_YES = re.compile(
    r"(?:yes|yeah|yep|yup|sure|of course|definitely|absolutely|i (?:do|am|did|have|was|will|can))\b[\s,.!]*",
    re.IGNORECASE,
)
_NO = re.compile(
    r"(?:no|nope|nah|not really|never|i (?:don't|didn't|am not|haven't|can't|won't|wasn't)|i'm not)\b[\s,.!]*",
    re.IGNORECASE,
)
_NO_LONGER = re.compile(r"(?:no,?\s+)?(?:not any ?more|no longer)", re.IGNORECASE)
_REACTION = re.compile(
    r"\W*(?:thanks?|wow|cool|nice|great|awesome|hey|hi|hello|bye|good|ok|okay|sounds?|sure|haha|lol|congrat\w*"
    r"|no (?:problem|worries)|absolutely|definitely|totally|exactly|of course"
    r"|you|you're|that's|true|same|me too|i (?:know|see|agree)|maybe|please|not (?:much|yet))\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(r"(do|did|are|were|have|can|will|would) you (?!guys|ever mind)(.+)", re.IGNORECASE)
_HOW_MANY = re.compile(r"how (?:many|much) (.+?) (do|did|have|are|will|can) you (.+)", re.IGNORECASE)
_COUNTED = re.compile(r"how (?:many|much) ((?:\w+ ){1,4}(?:are|will|can|were|would|have|do) .+|\w+)", re.IGNORECASE)
_YOUR = re.compile(r"(?:what|who|where|when|which|how old)(?: one)?(?:'s| is| are| was| were) (your .+)", re.IGNORECASE)
_WHERE = re.compile(r"(where|when|what|who|which) (do|did) you (.+)", re.IGNORECASE)
_PLACED = re.compile(
    r"(?:in|at|on|near|to|from|by|with|since|around|next|last|every|yesterday|today|tomorrow)\b", re.IGNORECASE
)
_PREPOSITIONS = frozenset({"from", "to", "at", "in", "near", "on", "for", "with", "by"})
_AUXILIARIES = {"did": "did", "are": "is", "were": "was", "have": "has", "can": "can", "will": "will"}


def is_answer(question: str, answer: str, alone: bool) -> bool:
    """Return True for a short informative answer. Between people, "yes" or "no" alone is not informative enough."""
    if not question or len(question.split()) > MAX_QUESTION_WORDS or not 0 < len(answer.split()) <= MAX_ANSWER_WORDS:
        return False
    if _NO_LONGER.match(answer):
        return True
    if _YES.fullmatch(answer) or _NO.fullmatch(answer):
        return alone and _YES_NO.search(question) is not None
    return _REACTION.match(answer) is None


_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|isn't|aren't|am|im|do|does|did|can|can't|cannot|will|won't|must|need|needs|want|wants|like|likes|love|hate|prefer|got|go|goes|takes?|works?|runs?|"
    r"lives?|makes?|gives?|wrote|went|called|named)\b|\b(?:I|we|you|he|she|they|it|who)\b|'(?:s|m|re|ve|ll)\b|n't\b|\b\w{3,}(?:ed|ves)\b",
    re.IGNORECASE,
)


def is_fragment_answer(question: str, statement: Statement) -> bool:
    """Return True for words without a verb that answer a question and begin a turn: "Oslo. Not too early, please."."""
    words = statement.text.rstrip(".! ")
    if not question or len(question.split()) > MAX_QUESTION_WORDS or not statement.english or statement.own:
        return False
    if not 0 < len(words.split()) <= MAX_ANSWER_WORDS or _REACTION.match(words) or _REACTION.match(statement.verbatim):
        return False
    if not statement.content:
        return False
    shared = content_stems(question) & statement.content  # "61 sites" stands alone after "How many sites?"
    return _FINITE.search(words) is None and not shared


def phrase_answer(question: str, answer: str, who: Speaker) -> str:
    """Combine a question and its short answer into a statement. If no rule matches, quote both."""
    question = question.strip().rstrip("?!. ").replace("’", "'")
    question = re.sub(r"^(?:so|and|but|well|oh|wow|hey)[,\s]+", "", question, flags=re.IGNORECASE)
    answer = answer.strip().rstrip(".!")
    statement = _to_statement(question, answer, who)
    if statement:
        return statement
    return f'Asked "{strip_quotation_marks(question)}?", {inside_sentence(who.name)} said: "{strip_quotation_marks(answer)}."'


def _to_statement(question: str, answer: str, who: Speaker) -> str | None:
    if match := _YES_NO.fullmatch(question):
        return _phrase_yes_no(match[1].lower(), match[2], answer, who)
    if match := _HOW_MANY.fullmatch(question):
        return _phrase_count(who, match[2].lower(), match[3], f"{_uncapitalize(answer)} {match[1]}")
    if (match := _COUNTED.fullmatch(question)) and "you" not in question.lower().split():
        return f"{answer[:1].upper()}{answer[1:]} {match[1]}."
    if match := _YOUR.fullmatch(question):
        thing, verb = match[1].partition(" ")[2], "are" if " are " in question else "is"
        return f"{possessive(who.name)} {_to_speaker(thing, who)} {verb} {answer}."
    if match := _WHERE.fullmatch(question):
        return _phrase_place(match, answer, who)
    return None


def _phrase_yes_no(auxiliary: str, rest: str, answer: str, who: Speaker) -> str | None:
    if _NO_LONGER.fullmatch(answer) and auxiliary in ("do", "are", "can"):
        answer, rest = "no", f"{rest} anymore"
    yes, no = _YES.fullmatch(answer), _NO.fullmatch(answer)
    if not (yes or no) or " or " in rest or auxiliary == "would":
        return None
    rest = _to_speaker(re.sub(r"^(?:ever|also|still|already|guys) ", "", rest) if no else rest, who)
    rest = rest.replace("any ", "", 1) if yes else rest
    if no:
        verb = "cannot" if auxiliary == "can" else f"{_AUXILIARIES.get(auxiliary, 'does')} not"
        return f"{who.name} {verb} {rest}."
    if auxiliary == "do":
        verb, _, more = rest.partition(" ")
        return f"{who.name} {third_person_verb(verb)} {more}".rstrip() + "."
    return None if auxiliary == "did" else f"{who.name} {_AUXILIARIES[auxiliary]} {rest}."


def _phrase_count(who: Speaker, auxiliary: str, rest: str, amount: str) -> str | None:
    """Return `Caroline has two dogs` for "How many dogs do you have?" and the amount "two dogs"."""
    verb, _, more = rest.partition(" ")
    if auxiliary == "do":
        return f"{who.name} {third_person_verb(verb)} {amount} {_to_speaker(more, who)}".rstrip() + "."
    if auxiliary in ("are", "will", "can"):
        return f"{who.name} {_AUXILIARIES[auxiliary]} {verb} {amount} {_to_speaker(more, who)}".rstrip() + "."
    return None


def _phrase_place(match: re.Match[str], answer: str, who: Speaker) -> str | None:
    """Return `Caroline lives in Lisbon` for "Where do you live?". "Did" is not supported, because it needs a past tense."""
    verb, _, more = match[3].partition(" ")
    if match[2].lower() != "do" or verb in IRREGULAR_PAST or (more and match[1].lower() not in ("where", "when")):
        return None
    if verb == "do" or verb in ("think", "mean", "say"):
        return None
    if match[1].lower() in ("what", "who", "which"):
        place = answer
    elif _PLACED.match(answer):
        place = _uncapitalize(answer)
    elif match[1].lower() == "where":
        place = answer if more.split()[-1:] and more.split()[-1].lower() in _PREPOSITIONS else f"in {answer}"
    else:
        return None
    return " ".join(filter(None, (who.name, third_person_verb(verb), _to_speaker(more, who), place))) + "."


def _to_speaker(words: str, who: Speaker) -> str:
    """Rewrite words of a question to "you" for a statement about the person who answers."""
    words = re.sub(r"\b(your|yours)\b", "their", words)
    words = re.sub(r"\byou\b", "they", words)
    return third_person(words, Speaker(who.addressee or "the other", None)) if who.addressee else words


def _uncapitalize(text: str) -> str:
    return text[:1].lower() + text[1:]
