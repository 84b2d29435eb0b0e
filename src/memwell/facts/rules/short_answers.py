"""Short answers, which say something only together with their question: "How many dogs do you have?" – "Two"."""

from __future__ import annotations

import re

from .wording import (
    IRREGULAR_PAST,
    Speaker,
    inside_sentence,
    possessive,
    strip_quotation_marks,
    third_person,
    third_person_verb,
)

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
_AUXILIARIES = {
    "do": "",
    "did": "did",
    "are": "is",
    "were": "was",
    "have": "has",
    "can": "can",
    "will": "will",
    "would": "would",
}


def is_answer(question: str, said: str, alone: bool) -> bool:
    """Whether what was said is a short answer that tells something. Between people, a mere yes or no tells too little."""
    if not question or len(question.split()) > MAX_QUESTION_WORDS or not 0 < len(said.split()) <= MAX_ANSWER_WORDS:
        return False
    if _NO_LONGER.match(said):
        return True
    if _YES.fullmatch(said) or _NO.fullmatch(said):
        return alone and _YES_NO.search(question) is not None
    return _REACTION.match(said) is None


def phrase_answer(question: str, answer: str, who: Speaker) -> str:
    """A statement made of a question and its short answer; where no rule makes one, both are quoted."""
    asked = question.strip().rstrip("?!. ").replace("’", "'")
    asked = re.sub(r"^(?:so|and|but|well|oh|wow|hey)[,\s]+", "", asked, flags=re.IGNORECASE)
    said = answer.strip().rstrip(".!")
    return (
        _to_statement(asked, said, who)
        or f'Asked "{strip_quotation_marks(asked)}?", {inside_sentence(who.name)} said: "{strip_quotation_marks(said)}."'
    )


def _to_statement(asked: str, said: str, who: Speaker) -> str | None:
    if match := _YES_NO.fullmatch(asked):
        return _phrase_yes_no(match[1].lower(), match[2], said, who)
    if match := _HOW_MANY.fullmatch(asked):
        return _phrase_count(who, match[2].lower(), match[3], f"{_uncapitalize(said)} {match[1]}")
    if (match := _COUNTED.fullmatch(asked)) and "you" not in asked.lower().split():
        return f"{said} {match[1]}."
    if match := _YOUR.fullmatch(asked):
        thing = match[1].partition(" ")[2]
        return (
            f"{possessive(who.name)} {_to_speaker(thing, who)} {'are' if re.search(r' are ', asked) else 'is'} {said}."
        )
    if match := _WHERE.fullmatch(asked):
        return _phrase_place(match, said, who)
    return None


def _phrase_yes_no(auxiliary: str, rest: str, said: str, who: Speaker) -> str | None:
    if _NO_LONGER.fullmatch(said) and auxiliary in ("do", "are", "can"):
        said, rest = "no", f"{rest} anymore"
    yes, no = _YES.fullmatch(said), _NO.fullmatch(said)
    if not (yes or no) or " or " in rest or auxiliary == "would":
        return None
    rest = _to_speaker(re.sub(r"^(?:ever|also|still|already|guys) ", "", rest) if no else rest, who)
    rest = rest.replace("any ", "", 1) if yes else rest
    if no:
        verb = {"do": "does", **{k: v for k, v in _AUXILIARIES.items() if v}}[auxiliary]
        return f"{who.name} {verb} not {rest}." if verb != "can" else f"{who.name} cannot {rest}."
    if auxiliary == "do":
        verb, _, more = rest.partition(" ")
        return f"{who.name} {third_person_verb(verb)} {more}".rstrip() + "."
    return None if auxiliary == "did" else f"{who.name} {_AUXILIARIES[auxiliary]} {rest}."


def _phrase_count(who: Speaker, auxiliary: str, rest: str, what: str) -> str | None:
    """`Caroline has two dogs`, of how many dogs she has."""
    verb, _, more = rest.partition(" ")
    if auxiliary == "do":
        return f"{who.name} {third_person_verb(verb)} {what} {_to_speaker(more, who)}".rstrip() + "."
    if auxiliary in ("are", "will", "can"):
        return f"{who.name} {_AUXILIARIES[auxiliary]} {verb} {what} {_to_speaker(more, who)}".rstrip() + "."
    return None


def _phrase_place(match: re.Match[str], said: str, who: Speaker) -> str | None:
    """`Caroline lives in Lisbon`, of where she lives. "What did you …" needs a verb in the past, which no rule here makes."""
    verb, _, more = match[3].partition(" ")
    if match[2].lower() != "do" or verb in IRREGULAR_PAST or (more and match[1].lower() not in ("where", "when")):
        return None
    if verb == "do" or verb in ("think", "mean", "say"):
        return None
    if match[1].lower() in ("what", "who", "which"):
        place = said
    elif _PLACED.match(said):
        place = _uncapitalize(said)
    elif match[1].lower() == "where":
        place = f"in {said}"
    else:
        return None
    return " ".join(filter(None, (who.name, third_person_verb(verb), _to_speaker(more, who), place))) + "."


def _to_speaker(words: str, who: Speaker) -> str:
    """The words of a question about "you", in an answer about whoever was asked."""
    words = re.sub(r"\b(your|yours)\b", "their", words)
    words = re.sub(r"\byou\b", "they", words)
    return third_person(words, Speaker(who.addressee or "the other", None)) if who.addressee else words


def _uncapitalize(text: str) -> str:
    return text[:1].lower() + text[1:]
