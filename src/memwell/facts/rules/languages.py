"""Whether something is said in English. What is not is quoted: a wrong rewording would be worse than none."""

from __future__ import annotations

import re
from functools import cache

from ...search.words import STOP_WORDS
from ...text.word_sets import word_set

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
"""What people say of themselves, which is often all that there is."""


def is_question(sentence: str) -> bool:
    return _QUESTION_END.search(sentence) is not None


def is_foreign_greeting(sentence: str) -> bool:
    return _GREETINGS.match(sentence) is not None


def is_english(text: str, otherwise: bool = True) -> bool:
    """Whether a text is English, by its script and its small words; where they do not tell, it is what is said otherwise."""
    text = text[:_SAMPLE]
    if not text.isascii() and len(_LATIN.findall(text)) * 2 < len(_LETTER.findall(text)):
        return False
    words = {word.lower() for word in _WORD.findall(text)}
    if any(len(words & theirs) > len(words & ours) for theirs, ours in _distinctive_words()):
        return False
    return True if words & _english_words() else otherwise


def may_be_mixed(text: str) -> bool:
    """Whether some of a text may be in another language than the rest of it."""
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
    """For each other language, the words that only it has, and those that only English has."""
    known = [
        frozenset(f"{words} {_SELF_WORDS.get(language, '')}".split())
        for language, words in STOP_WORDS.items()
        if language != "en"
    ]
    return tuple((words - _english_words(), _english_words() - words) for words in known)
