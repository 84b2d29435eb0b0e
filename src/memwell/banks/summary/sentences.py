"""The words of a sentence that say something, in whatever language it is, and whether it is a sentence at all."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

from ...facts.rules.quotes import blank_pasted_lines
from ...facts.rules.sentences import MAX_SENTENCE, Sentence, blank_code, blank_recalled_memory, split_sentences
from ...search.words import STOP_WORDS, terms, tokens
from ...text.hidden import INVISIBLE
from ...text.tokens import estimate

Words = frozenset[str]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNBROKEN = re.compile(r"[!-~]{40,}")
_ROW = re.compile(r"\W*\||.*\|.*\||[\"'][^\"']{1,60}[\"']\s*:|[{}]|\[\W*[\"'\d]|</?\w+[^<>]*>")
_SIGNS_ONLY = 20
"""Characters, at the most, of a sentence that is made of numbers and signs: "At 9:40!"."""
_SOFT = """really very quite pretty much lot lots actually basically honestly please maybe perhaps probably also still yet anyway
sorry okay ok yes yeah thing things stuff kind sort just even wirklich sehr eigentlich vielleicht bitte ganz mal halt eben
realmente quizás muy vraiment très davvero forse talvez echt misschien"""
"""Words that only stress or soften what others say."""


def spelled(text: str) -> list[str]:
    """All words, as they are written, in lower case."""
    return _WORD.findall(text.lower())


def language_of(text: str) -> str:
    """The language with the most stop words in a text; empty if it has none of any."""
    words = set(spelled(text[:MAX_SENTENCE]))
    found = {language: len(words & stop) for language, stop in _stop_words().items()}
    best = max(found, key=found.__getitem__)
    return best if found[best] else ""


def content(text: str, language: str) -> Words:
    """The stems of the words that say something."""
    found = terms(text[:MAX_SENTENCE], language)
    if found.only_stop_words:
        return frozenset()
    said = frozenset(found.tokens) - _soft(language)
    return said if text.isascii() else frozenset(word for word in said if not _is_small(word))


def marks(text: str, language: str) -> Words:
    """The stems of numbers and of words with a capital, by which sentences differ that otherwise say the same."""
    words = " ".join(word for word in text.split() if word != word.lower() or any(map(str.isdigit, word)))
    return content(words, language)


def is_data(text: str) -> bool:
    """Whether it is a row of a table, a piece of JSON, a checksum or the like rather than a sentence."""
    if len(text) > MAX_SENTENCE or _ROW.match(text):
        return True
    letters = sum(map(len, _LETTERS.findall(text)))
    if letters * 2 < len(text):
        return len(text) > _SIGNS_ONLY or not letters
    unbroken = _UNBROKEN.search(text)
    return unbroken is not None and len(unbroken[0]) * 2 > len(text)


def _is_small(word: str) -> bool:
    """Whether it is as short as a stop word, in an alphabet whose stop words are not known."""
    return len(word) <= 2 and "\x7f" < word[0] < "\u0e00"


@cache
def _soft(language: str) -> Words:
    return frozenset(tokens(_SOFT, language))


@cache
def _stop_words() -> dict[str, Words]:
    return {language: frozenset(words.split()) for language, words in STOP_WORDS.items()}


# -- What is to be summed up, cut into sentences that know who said them.
#
# A summary writes who speaks before what they say: `User: I moved. Assistant: I booked the train.` It is read back here when it
# is summed up again. So that this cannot be misread, a sentence that itself begins like that is never written without its
# speaker: whoever says "Assistant: I agree" is quoted as `User: Assistant: I agree`.


NOTE = "Note"
"""Who speaks where nobody does, beside others who do."""
ASSISTANT = "Assistant"
ROLES = frozenset(("User", ASSISTANT, "System", "Tool", NOTE))
NOTHING = "(Nothing worth telling.)"
"""What stands for a summary that would be empty. It is no sentence of anything."""
MAX_LABEL = 40
MAX_LINE, MAX_SENTENCES, FEWEST = 100_000, 60_000, 4
"""How many characters of a line are looked at, and how many sentences of all lines; but some of each."""
MAX_LENGTH = 4 * MAX_SENTENCE
"""Characters of a sentence that are looked at: what is longer is cut anyway."""
FULL_LINE = 60
"""Characters after which a line may end although its sentence does not."""

_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_UNWRITTEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")
_NOT_IN_LABEL = re.compile(r"\A[\W_]+|[:：。！？؟।]|[.!?…]+(?=\s|\Z)")
_LABEL = re.compile(rf"(?=[^\W_])([^\s:]{{1,{MAX_LABEL}}}(?: [^\s:]{{1,{MAX_LABEL}}}){{0,2}}): (?=\S)")
_SEEMS_LABELLED = re.compile(r"[\W_]*[^\s:：]+(?:\s[^\s:：]+){0,2}\s?[:：]\s?(?!\d)")
_CODE = re.compile(r"(?!```).*[^\W\d_]")
_UNENDED = re.compile(r"(?<!\w)(?:\d{1,2}|ca|bzw|nr|z\. ?b|d\. ?h|evtl|ggf|inkl|tel)\.\Z", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;:،](?=\s)|\s[–—-](?=\s)|[，；、：]")


class Line(NamedTuple):
    """An entry of a conversation or of a bank of notes."""

    text: str
    speaker: str | None = None
    summary: bool = False
    """Whether it sums up what was told before it. Its speakers are those whom it names itself."""


class Spoken(NamedTuple):
    """A sentence and who says it."""

    label: str
    text: str
    data: bool


class Told(NamedTuple):
    """A sentence, on one line."""

    at: int
    """Which of all sentences it is."""
    line: int
    nth: int
    """Which of its line's it is."""
    label: str
    """Who says it; empty if nobody does."""
    text: str
    language: str
    summary: bool
    data: bool
    """Whether it is code, a table or the like rather than a sentence."""


def told(lines: Sequence[Line]) -> list[Told]:
    """All sentences, in their order."""
    texts = [_clean(line.text) for line in lines]
    guesses = [language_of(text) for text in texts]
    usual = Counter(filter(None, guesses)).most_common(1)
    named = any(label_of(line.speaker) for line in lines if not line.summary)
    most = max(FEWEST, MAX_SENTENCES // max(1, len(lines)))
    found: list[Told] = []
    for number, (line, text, guess) in enumerate(zip(lines, texts, guesses, strict=True)):
        language = guess or (usual[0][0] if usual else "en")
        spoken = _of_summary(text, language, named) if line.summary else _of_speaker(text, language, line.speaker)
        something = (one for one in spoken if one.text != NOTHING)
        for nth, (label, sentence, data) in enumerate(islice(_one_piece_of_data(something), most)):
            found.append(Told(len(found), number, nth, label, sentence, language, line.summary, data))
    return found


def label_of(speaker: str | None) -> str:
    """How a speaker is called before what they say: `User`; empty if that is nobody."""
    words = _NOT_IN_LABEL.sub("", speaker or "").split()[:3]
    label = " ".join(words)[:MAX_LABEL].rstrip()
    return label[:1].upper() + label[1:]


def labelled(text: str) -> tuple[str, str]:
    """Who speaks and what they say, of a sentence that begins with who speaks: `User: I moved.`"""
    match = _LABEL.match(text)
    return (match[1], text[match.end() :]) if match and not text[0].islower() else ("", text)


def seems_labelled(text: str) -> bool:
    """Whether somebody could take its beginning for who speaks, however it is dressed up."""
    return _SEEMS_LABELLED.match(text if text.isascii() else INVISIBLE.sub("", text)) is not None


def cut(text: str, max_tokens: int) -> str:
    """As much of a text as may be, to the end of a clause or of a word; empty if that is nothing."""
    if estimate(text) <= max_tokens:
        return text
    most = min(len(text), 6 * max(max_tokens, 0))  # a token is five letters and a blank at the most
    end = bisect_right(range(most), max_tokens, key=lambda length: estimate(f"{text[:length]}…")) - 1
    piece = text[: max(end, 0)]
    borders = [match.start() for match in _CLAUSE_END.finditer(piece)]
    if borders and borders[-1] * 2 > end:
        piece = piece[: borders[-1]]
    elif " " in piece and text[end] != " ":
        piece = piece[: piece.rindex(" ")]
    piece = piece.rstrip(" ,;:.…–—-")
    return f"{piece}…" if piece else ""


def _clean(text: str) -> str:
    """Without what cannot be written, with one kind of line end, and not longer than it is read."""
    read = text if len(text) <= MAX_LINE else _beginning(text)
    return _UNWRITTEN.sub("", _LINE_END.sub("\n", read))


def _beginning(text: str) -> str:
    """As much as is read, to the end of a sentence: half of one may hide what the whole would give away."""
    read = text[:MAX_LINE]
    end = max(read.rfind(mark, -MAX_LENGTH) for mark in (". ", "! ", "? ", "\n", "。"))
    return read[: end + 1] if end >= 0 or read.isspace() else f"{read}…"


def _of_speaker(text: str, language: str, speaker: str | None) -> Iterator[Spoken]:
    """What somebody says. If that is nothing but code, the first line of it stands for all."""
    label, found, text = label_of(speaker), False, blank_recalled_memory(text)
    for sentence in _sentences(blank_pasted_lines(blank_code(text)), language):
        found = True
        yield Spoken(label, sentence, is_data(sentence))
    if not found:
        pasted = list(_sentences(text, language))
        yield from (Spoken(label, sentence, True) for sentence in [*filter(_CODE.match, pasted), *pasted][:1])


def _of_summary(text: str, language: str, named: bool) -> Iterator[Spoken]:
    """The sentences of a summary, whose speakers stand in it, if it names any."""
    current, names = "", None
    for sentence in _sentences(text, language):
        label, said = labelled(sentence)
        names = label != "" and (named or label in ROLES) if names is None else names
        if names and label:
            current = "" if label == NOTE else label
        said = said if names else sentence
        yield Spoken(current, said, is_data(said))


def _one_piece_of_data(spoken: Iterable[Spoken]) -> Iterator[Spoken]:
    """Of the rows of a table or the lines of a listing, the first stands for all."""
    seen = False
    for one in spoken:
        if not (one.data and seen):
            yield one
        seen = seen or one.data


def _sentences(text: str, language: str) -> Iterator[str]:
    for sentence in _whole(text, split_sentences(text), language):
        written = " ".join(sentence.text.split())[:MAX_LENGTH]
        if written.isascii() or INVISIBLE.sub("", written).strip():
            yield written


def _whole(text: str, sentences: Sequence[Sentence], language: str) -> Iterator[Sentence]:
    """Sentences that were cut after "am 3." or "ca.", or where a line was full, are one."""
    before: Sentence | None = None
    for sentence in sentences:
        if before and _goes_on(before, sentence, text[before.end : sentence.start], language):
            before = Sentence(text[before.start : sentence.end], before.start, sentence.end)
            continue
        if before:
            yield before
        before = sentence
    if before:
        yield before


def _goes_on(before: Sentence, after: Sentence, gap: str, language: str) -> bool:
    if "\n" in gap:
        full = len(before.text) - before.text.rfind("\n") > FULL_LINE and before.text[-1].isalnum()
        return full and gap.strip(" \t") == "\n" and after.text[0].islower()
    if seems_labelled(after.text):
        return False
    return (language == "de" or after.text[0].islower()) and _UNENDED.search(before.text[-8:]) is not None
