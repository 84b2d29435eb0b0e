"""The meaning of a statement, as strictly as it takes to merge two statements into one.

Two statements have one meaning only if all words that count agree, in the same order. The list of the words that do not count is
closed (`data/meaning.toml`), so a word that no list knows keeps two statements apart: a denial, a quantity, a unit, a name, in
whatever language. Statements in other languages than English are the same only if their words are identical, because inflection
and function words of other languages are not known here.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

from ..search.words import STOP_WORDS, tokenize
from ..text.word_sets import load_sections, load_tables, load_words, word_set

_THESAURUS = load_sections(__package__, "thesaurus")
_TABLES = load_tables(__package__, "meaning")
MAX_KEY = 400
"""Length of the longest key that is stored as it is; of a longer one, the digest is stored."""


class Meaning(NamedTuple):
    """The words of a statement that count."""

    words: tuple[str, ...]
    """Base forms of the words in order; past forms end in `<`. In other languages, the words as they are written."""
    plurals: frozenset[str]
    """Base forms of the nouns that are in the plural."""
    joined: frozenset[tuple[str, str]]
    """Neighbours with "of", "in" or "at" between them: "marathon in Berlin" is "Berlin marathon"."""
    english: bool

    @property
    def key(self) -> str:
        """Equal for statements with the same words, whatever their order."""
        words = " ".join(sorted(self.words) if self.english else self.words)
        if self.english and "@" in self.words[1:]:
            words += " to @"  # "Tom called @" is not "@ called Tom"
        return words if len(words) <= MAX_KEY else hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


def read_meaning(marked: str, text: str) -> Meaning:
    """Return the meaning of a statement. In `marked`, the person is `@`, and phrases such as "she said that" are removed."""
    if not is_english(marked):
        return Meaning(_read_verbatim(text), frozenset(), frozenset(), english=False)
    cues = frozenset(_CUE.findall(marked.lower()))
    for words, pattern, plain in _load_phrases():
        if not words.isdisjoint(cues):
            changed = pattern.sub(plain, marked)
            marked, cues = (marked, cues) if changed == marked else (changed, frozenset(_CUE.findall(changed.lower())))
    return _read_words(_sort_lists(marked))


def is_same(one: Meaning, two: Meaning) -> bool:
    """Return True if two statements differ in nothing that counts."""
    if one.english != two.english or len(one.words) != len(two.words):
        return False
    if one.words != two.words and not (one.english and _is_rearranged(one, two)):
        return False
    return one.plurals == two.plurals


def difference(one: Meaning, two: Meaning) -> list[str]:
    """Return the words of the first statement that the second one lacks, each as often as it is missing."""
    left, missing = [word.removesuffix("'s") for word in two.words], []
    for word in (word.removesuffix("'s") for word in one.words):
        if word in left:
            left.remove(word)
        else:
            missing.append(word)
    return missing


def _is_rearranged(one: Meaning, two: Meaning) -> bool:
    """Return True if the order differs only where a noun stands before another one: "Leeds University"."""
    mine, theirs = list(one.words), list(two.words)
    at = 0
    while at < len(mine):
        if mine[at] == theirs[at]:
            at += 1
            continue
        pair = tuple(mine[at : at + 2])
        if len(pair) < 2 or [*pair][::-1] != theirs[at : at + 2]:
            return False
        if (pair in one.joined) == (pair[::-1] in two.joined):
            return False
        at += 2
    return True


def list_words(text: str) -> tuple[str, ...]:
    """Return the words of an English text that count."""
    return _read_words(text).words


# -- languages

_CUE = re.compile(r"[a-z]+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_ACCENTED = frozenset(
    ["café", "fiancé", "fiancée", "résumé", "naïve", "crème", "brûlée", "décor", "cliché", "sauté", "purée"]
)


def is_frequent_word(word: str) -> bool:
    """Return True for a frequent word of English: not a name in small letters."""
    return word.lower() in _load_vocabulary()[0]


_THIRD_PERSON = re.compile(r"@ [a-z]{2,}s ")
_TELLING = word_set("is a an am was")
"""Words that other languages have too, but that are frequent in English."""


@cache
def _load_vocabulary() -> tuple[frozenset[str], frozenset[str]]:
    """Return frequent words of English, and those of other languages."""
    english = set(STOP_WORDS["en"].split())
    for name in ("synonyms", "fillers", "past", "kin", "professions", "numbers"):
        english.update(" ".join(_THESAURUS[name]).split())
    for name in ("base_verbs", "irregular_past", "participles"):
        english |= load_words(f"{__package__}.rules", name)
    english.update(f"{word}s" for word in tuple(english))
    english.update(_TABLES["english"].split())
    slots = load_sections(__package__, "slots")
    english.update(re.findall(r"[a-z]{3,}", " ".join([*slots["CUES"], *slots["SLOTS"]])))
    others = frozenset(" ".join(words for code, words in STOP_WORDS.items() if code != "en").split())
    return frozenset(english), others


def is_english(text: str) -> bool:
    """Return True if a text is in English, as far as its frequent words tell."""
    if '"' in text:
        text = text.split('"', 2)[1]
    english, others = _load_vocabulary()
    sure = unsure = foreign = 0
    for number, match in enumerate(_WORD.finditer(text.replace("@'s", "@").replace("\u2019", "'"))):
        word = match[0]
        lower = word.lower()
        if lower in english:
            sure += lower not in others
            unsure += lower in _TELLING
        elif lower in others or (not word.isascii() and (number == 0 or word == lower) and lower not in _ACCENTED):
            foreign += 1
    sure += _THIRD_PERSON.match(text) is not None
    return sure + unsure > foreign and (sure > 0 or foreign == 0)


_QUOTED = re.compile(r'^[^"]{0,200}?"(.+)"\W*$', re.DOTALL)
_MARKS = " \t\n.,;:!'\"()[]{}…。，、！；：「」『』“”„«»¡"


def _read_verbatim(text: str) -> tuple[str, ...]:
    """Return the words of a text, or of what it quotes. Only the case of the first letter and punctuation do not count."""
    text = unicodedata.normalize("NFC", text).replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"')
    quoted = _QUOTED.match(text)
    words = [word.strip(_MARKS) for word in (quoted[1] if quoted else text).split()]
    words = [word for word in words if word]
    return (words[0][:1].lower() + words[0][1:], *words[1:]) if words else ()


# -- English words

_PAST_MARK = "<"
_PAST = frozenset(_THESAURUS["past"]) | load_words(f"{__package__}.rules", "participles")
_PAST |= load_words(f"{__package__}.rules", "irregular_past")
_UNMARKED = word_set(
    "need must married retired allergic interested based wed named called put cut let set hit hurt read run come"
)
"""Words that look like past forms, but mean a state, or are the same in the present."""
_VERBS = frozenset(tokenize(" ".join(load_words(f"{__package__}.rules", "base_verbs"))))
_FORMS = {"was": "was", "were": "was", "has": "have", "have": "have", "had": "have<", "did": "did", "an": "a"}
_LISTED = word_set(" ".join(_TABLES["same_words"]))
_INFLECTION = re.compile(r"(?:[b-df-hj-np-tv-z])?(?:ing|ed)|e?s|ies|i?ed|y|e|d|'s|")
_HARMLESS = word_set(_TABLES["harmless"])
_ADVERBS = word_set(_TABLES["adverbs"])
_JOINS = word_set("of in at")
_POSSESSIVES = word_set("@'s their theirs")
_CHUNK = re.compile(r"\S+")
_EDGES = ".,;:!()[]{}\"'…“”‘’"
_LETTERS = re.compile(r"@(?:'s)?|[^\W\d_]+(?:['-][^\W\d_]+)*-?")
_FIGURE = re.compile(r"([$€£¥]?)([+-]?\d+(?:[.,:/]\d+)*)([%€£$°]|[^\W\d_]{1,3})?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_PHONE = re.compile(r"(?<![\w-])\+?\(?\d(?:[\s().-]{0,2}\d){6,}\b")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_DAY_LAST = re.compile(r"\b(MONTHS) (\d{1,2})\b(?!:)".replace("MONTHS", "|".join(_THESAURUS["months"])), re.IGNORECASE)
_DAY_FIRST = re.compile(r"\b(\d{1,2}) of (MONTHS)\b".replace("MONTHS", "|".join(_THESAURUS["months"])), re.IGNORECASE)
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_LIST = re.compile(r"\b([\w-]+)((?:, [\w-]+){0,8}),? and ([\w-]+)\b")


def _read_words(text: str) -> Meaning:
    words: list[str] = []
    plurals: set[str] = set()
    joined: set[tuple[str, str]] = set()
    last, compared = "", False
    raw = [chunk for chunk in map(_trim, _CHUNK.findall(_normalise_figures(text))) if chunk]
    for number, chunk in enumerate(raw):
        following = raw[number + 1] if number + 1 < len(raw) else ""
        for word, plural in _split_chunk(chunk, last, following):
            if plural and not (last == "@" or word in _VERBS):
                plurals.add(word)
            if last in _JOINS and words:
                joined.add((words[-1], word))
            words.append(f">{word}" if compared else word)
        compared = compared or chunk == ">"
        lower = chunk.lower()
        last = "@" if last == "@" and (lower in _ADVERBS or lower in ("is", "are")) else lower
    return Meaning(tuple(words), frozenset(plurals), frozenset(joined), english=True)


def _split_chunk(chunk: str, last: str, following: str) -> list[tuple[str, bool]]:
    """Return the words that count in a chunk of text between blanks, each with True if it is in the plural."""
    lower = chunk.lower()
    if lower == "@":
        return [("@", False)]
    if lower == ">":
        return []
    if lower in _POSSESSIVES:
        return [("@s", False)]
    if lower in ("has", "have", "had") and _is_participle(following.lower()):
        return []
    if lower == "been" and (following.endswith("ing") or following.lower() in ("a", "an", "the")):
        return []
    if lower in _HARMLESS or (lower in _ADVERBS and last != "not"):
        return []
    if lower == "about" and not (following[:1].isdigit() or following.lower() in _NUMBERS):
        return []
    if lower in _NUMBERS:
        return [(_NUMBERS[lower], False)]
    if lower.startswith("a-"):
        return [(lower, False)]
    if _LETTERS.fullmatch(chunk):
        pieces = [piece for piece in lower.replace("@'s", "@s").split("-") if piece]
        return [_base_form(piece) for piece in pieces]
    figure = _FIGURE.fullmatch(_THOUSANDS.sub("", chunk))
    if figure:
        return [(part.lower(), False) for part in (figure[2], figure[1], figure[3]) if part]
    mixed = chunk not in (lower, chunk.upper(), chunk.capitalize())
    return [(chunk if mixed else lower, False)]


def _is_participle(word: str) -> bool:
    return word == "been" or (len(word) > 4 and word.endswith("ed")) or (word in _PAST and word not in ("had", "left"))


@lru_cache(16 * 1024)
def _base_form(word: str) -> tuple[str, bool]:
    """Return the base form of a word, and True if it may be a plural. Derived words such as "hardly" keep their form."""
    if word in _FORMS:
        return _FORMS[word], False
    if word.endswith("'s"):
        base, plural = _base_form(word[:-2])
        return f"{base}'s", plural
    past = word not in _UNMARKED and (word in _PAST or (len(word) > 4 and word.endswith("ed")))
    stem = (tokenize(word) or [word])[0]
    shared = 0
    while shared < min(len(stem), len(word)) and stem[shared] == word[shared]:
        shared += 1
    if word not in _PAST and not _INFLECTION.fullmatch(word[shared:]):
        stem = word
    base = _SYNONYMS.get(stem) or _SYNONYMS.get(word) or stem
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and not past
    return base + _PAST_MARK * past, plural and word not in _LISTED


def _trim(chunk: str) -> str:
    return chunk.strip(_EDGES)


def _normalise_figures(text: str) -> str:
    """Write dates as day, month, year; phone numbers without blanks; ordinal numbers without their ending."""
    if not any(sign.isdigit() for sign in text):
        return text
    text = _ISO_DATE.sub(_spell_date, text)
    text = _ORDINAL.sub("", text)
    text = _DAY_FIRST.sub(r"\1 \2", _DAY_LAST.sub(r"\2 \1", text))
    return _PHONE.sub(lambda match: re.sub(r"\D", "", match[0]), text)


def _spell_date(match: re.Match[str]) -> str:
    month = int(match[2])
    return f"{int(match[3])} {_THESAURUS['months'][month - 1]} {match[1]}" if 0 < month <= 12 else match[0]


def _sort_lists(text: str) -> str:
    """Sort the items of lists of single words: "German and French" becomes "French German"."""

    def sort(match: re.Match[str]) -> str:
        return " ".join(sorted([match[1], *filter(None, match[2].split(", ")), match[3]], key=str.lower))

    return _LIST.sub(sort, text) if " and " in text else text


@cache
def _load_phrases() -> list[tuple[frozenset[str], re.Pattern[str], str]]:
    return [(word_set(cues), re.compile(source, re.IGNORECASE), plain) for cues, source, plain in _TABLES["phrases"]]


_NUMBERS = dict(line.split() for line in _THESAURUS["numbers"])
_SYNONYMS = {
    stem: tokenize(line)[0]
    for line in [*_THESAURUS["synonyms"], *_TABLES["same_words"]]
    for word in line.split()
    for stem in (tokenize(word)[0], word)
} | {word[:3]: tokenize(word)[0] for word in _THESAURUS["months"] if word not in ("march", "may")}
