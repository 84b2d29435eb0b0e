"""Split a turn into sentences and clauses with their offsets, and tell questions, greetings and languages apart.

Every pattern looks at a character a bounded number of times, so that a turn of a mebibyte takes linear time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from ...search.words import STOP_WORDS
from ...text.word_sets import word_set

MAX_SENTENCE = 600
"""Characters of a sentence; a longer one is data."""


# The run of marks is entered only at its beginning, so that a long one is not looked at again from each of its characters.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)*_]*+(?=\s|\Z)|[。！？؟।]++[”」』]*+|\n")
_EDGE = re.compile(r"(?:[-*•–#]+>?|\d{1,3}[.)])\s+")
_ABBREVIATIONS = word_set("""mr mrs ms dr prof st vs jr sr e.g i.e approx dept inc ltd fig no vol a.m p.m u.s""")


class Sentence(NamedTuple):
    text: str
    start: int
    end: int
    unsaid: str = ""
    """The subject that is left out, taken from the clause before."""


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a text, with their offsets."""
    found, start = [], 0
    for mark in _END.finditer(text):
        if not _is_abbreviation(text, mark):
            found.append(_trim(text, start, mark.end()))
            start = mark.end()
    found.append(_trim(text, start, len(text)))
    return [one for one in found if one.text]


def _trim(text: str, start: int, end: int) -> Sentence:
    """Strip blanks and a list mark."""
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


# -- clauses
#
# A sentence that says two things of its speaker is split, since they may change at different times: "I'm vegetarian and I live
# in Lisbon". "I used to smoke but quit in 2019" stays whole: the object of "quit" stands before the cut.


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
"""Words on which a base verb may depend: in "I want to live in Rome and work at home", the second half is no fact."""
MIN_WORDS = 2
MIN_OWNED_WORDS = 4
"""With fewer words, "and my dog" is no statement."""


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
    """The subject of a verb after a conjunction, if the clause can stand alone."""
    verb = (joint[1] or "").lower()
    if verb in _NEED_OBJECTS and _NO_OBJECT.match(text, joint.start(1)):
        return ""
    if verb in _BASE and _GOVERNED.search(text[start : joint.start()].replace("’", "'")):
        return ""
    return "We " if text[:2].lower() == "we" else "I "


# -- languages
#
# What is not English is quoted: a wrong rewording would be worse than none.


_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[a-zA-Z\u00c0-\u024f]")
_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE = 2000
_CHAT_WORDS = word_set(
    """hi hey hello thanks thank please yes no okay love like live lives work works name go went got get want need
really great good new day today tomorrow yesterday never always one two three every allergic favorite favourite"""
)
_GREETINGS = re.compile(
    r"""\W*(?:hallo|guten\s+(?:morgen|tag|abend)|servus|danke(?:\s+schön)?|vielen\s+dank|tsch[üu]ss|bis\s+(?:bald|dann|morgen)|bitte
    |bonjour|bonsoir|salut|merci(?:\s+beaucoup)?|au\s+revoir|hola|buen[oa]s\s+\w+|(?:muchas\s+)?gracias|adi[óo]s|ciao|buongiorno|grazie(?:\s+mille)?
    |ol[áa]|(?:bom|boa)\s+\w+|(?:muito\s+)?obrigad[oa]|tchau|hoi|dank\s+je(?:\s+wel)?|привет|здравствуйте|спасибо|пока
    |你好|您好|大家好|早上好|晚上好|早安|晚安|谢谢(?:你|您)?|謝謝(?:你|您)?|再见|再見|こんにちは|おはよう(?:ございます)?|ありがとう(?:ございます)?|안녕하세요|감사합니다
    |مرحبا|مرحباً|أهلا|أهلاً|السلام\s+عليكم|وعليكم\s+السلام|صباح\s+الخير|مساء\s+الخير|شكرا|شكراً|مع\s+السلامة)(?:[\s,،，]+[^\W\d_]+)?\W*\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_QUESTION_END = re.compile(r"[?？؟][\s\"'”»)]*\Z|[吗嗎呢][。]?\Z")
_SELF_WORDS = {
    "de": "wohne lebe arbeite heiße liebe mag möchte gehe esse trinke meinem meinen meiner",
    "fr": "habite travaille aime veux suis ai vais mange",
    "es": "vivo trabajo gusta quiero soy tengo voy encanta",
    "it": "vivo abito lavoro amo voglio ho piace vado",
    "pt": "moro vivo trabalho gosto quero sou tenho vou adoro",
    "nl": "woon werk hou wil ga eet",
}
"""Words that people use about themselves, often the only ones in a sentence."""


def is_question(sentence: str) -> bool:
    return _QUESTION_END.search(sentence) is not None


def is_foreign_greeting(sentence: str) -> bool:
    return _GREETINGS.match(sentence) is not None


def is_english(text: str, otherwise: bool = True) -> bool:
    """Return True for English, by script and small words; `otherwise` if they do not tell."""
    text = text[:_SAMPLE]
    if not text.isascii() and len(_LATIN.findall(text)) * 2 < len(_LETTER.findall(text)):
        return False
    words = {word.lower() for word in _WORD.findall(text)}
    if any(len(words & theirs) > len(words & ours) for theirs, ours in _distinctive_words()):
        return False
    return True if words & _english_words() else otherwise


def may_be_mixed(text: str) -> bool:
    """Return True if parts of a text may be in another language than the rest."""
    if len(text) > _SAMPLE or not text.isascii():
        return True
    return not _foreign_words().isdisjoint(word.lower() for word in _WORD.findall(text))


@cache
def _foreign_words() -> frozenset[str]:
    return frozenset[str]().union(*(theirs for theirs, _ in _distinctive_words()))


@cache
def _english_words() -> frozenset[str]:
    return frozenset(STOP_WORDS["en"].split()) | _CHAT_WORDS


@cache
def _distinctive_words() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """For each other language: the words that only it has, and those that only English has."""
    known = [
        frozenset(f"{words} {_SELF_WORDS.get(language, '')}".split())
        for language, words in STOP_WORDS.items()
        if language != "en"
    ]
    return tuple((words - _english_words(), _english_words() - words) for words in known)
