"""Select statements in German, French, Spanish, Portuguese, Italian and Dutch. They are quoted,
because a wrong rewording is worse.

In other languages, greetings and questions are dropped, and all other sentences are quoted.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from ...search.words import STOP_WORDS
from ...text.word_sets import load_sections, word_set
from .passages import Sentence, is_foreign_greeting

LANGUAGES = ("de", "fr", "es", "pt", "it", "nl")
_DATA = load_sections(__package__, "foreign")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_UNREAL = re.compile("|".join(_DATA["unreal"]), re.IGNORECASE)
_IRONY = re.compile("|".join(_DATA["irony"]), re.IGNORECASE)
_LEAD = re.compile(r"([^,;.!?:–—\n]{1,24})[,;!:–—]\s*(?=\S)")
MAX_LEADS = 3
MAX_SAMPLE = 2000
"""Number of characters by which a language is recognised."""
_ASKS_AGAIN = re.compile(r"[,;]\s*(?:¿|(?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*)\s)[^,;?]{1,200}\?\W*\Z")
_TAG = re.compile(
    r"[,;]\s*¿?(?:verdad|no|cierto|oder|nicht wahr|ne|gell|non|n['’]est-ce pas|né|certo|vero|giusto|toch|hè|ok)\s*\?\W*\Z",
    re.IGNORECASE,
)
MIN_STATEMENT_WORDS = 2


class _Words(NamedTuple):
    stop: frozenset[str]
    filler: frozenset[str]
    own: frozenset[str]
    asks: frozenset[str]


@cache
def _words_of(language: str) -> _Words:
    filler, own, asks = (word_set(" ".join(_DATA[f"{name}.{language}"])) for name in ("filler", "own", "asks"))
    return _Words(word_set(STOP_WORDS[language]), filler, own, asks)


def find_language(text: str) -> str | None:
    """Return the code of the language whose common words a text has most; None if it has none."""
    words = {word.lower().replace("’", "'") for word in _WORD.findall(text[:MAX_SAMPLE])}
    counts = {
        code: len(words & one.stop) + len(words & (one.own | one.filler)) / 2
        for code, one in ((code, _words_of(code)) for code in LANGUAGES)
    }
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] else None


def says_nothing(text: str, language: str | None) -> bool:
    """Return True for small talk, thanks, agreement and fragments without content."""
    if is_foreign_greeting(text):
        return True
    if language is None:
        return False
    known = _words_of(language)
    words = [word.lower().replace("’", "'") for word in _WORD.findall(text)]
    content = [word for word in words if word not in known.stop and word not in known.filler and not word.isdigit()]
    if any(word.isdigit() and len(word) > 2 for word in words):
        return False
    if not content:
        return True
    return len(content) < MIN_STATEMENT_WORDS and known.own.isdisjoint(words)


def is_unreal(text: str) -> bool:
    """Return True for a hypothetical: "Wenn ich reich wäre, würde ich reisen"."""
    return _UNREAL.search(text) is not None


def is_ironic(text: str) -> bool:
    return _IRONY.search(text) is not None


def strip_lead(sentence: Sentence, language: str | None) -> Sentence:
    """Remove greetings and words of agreement before a statement: "Ja klar, ich komme" becomes "ich komme"."""
    if language is None:
        return sentence
    known = _words_of(language)
    for _ in range(MAX_LEADS):
        lead = _LEAD.match(sentence.text)
        words = [word.lower().replace("’", "'") for word in _WORD.findall(lead[1])] if lead else []
        if lead is None or not all(word in known.filler for word in words):
            break
        sentence = Sentence(sentence.text[lead.end() :], sentence.start + lead.end(), sentence.end)
    return sentence


def split_question(sentence: Sentence, language: str | None) -> list[Sentence]:
    """Split a sentence that ends with a question: "Soy celíaca, ¿hay menú?" A request to confirm stays a question."""
    if language is None or not sentence.text.endswith("?") or _TAG.search(sentence.text):
        return [sentence]
    asks = _ASKS_AGAIN.search(sentence.text)
    if asks is None:
        return [sentence]
    known = _words_of(language)
    first = _WORD.match(sentence.text.lstrip("¿ "))
    opens_with_question = first is not None and first[0].lower() in known.asks
    if (asks["word"] and asks["word"].lower().replace("’", "'") not in known.asks) or opens_with_question:
        return [sentence]
    middle = sentence.start + asks.start()
    question = asks[0][1:].strip()
    return [
        Sentence(sentence.text[: asks.start()], sentence.start, middle),
        Sentence(question, sentence.end - len(question), sentence.end),
    ]
