"""A turn, taken apart: what it states, what it asks, what it shows; without greetings, filler and echoes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ...text.word_sets import load_words
from ..plan import Kind, Turn
from .classify import classify, is_lasting
from .languages import is_english, is_foreign_greeting, is_question, may_be_mixed
from .lead_ins import add_subject, is_advice, strip_lead_ins, strip_remember_request
from .quotes import blank_pasted_lines, blank_quotes, drop_sarcasm, is_hypothetical
from .sentences import (
    MAX_SENTENCE,
    Sentence,
    blank_code,
    blank_recalled_memory,
    split_brackets,
    split_clauses,
    split_sentences,
)
from .wording import mentions

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
_OPENS_WITH_PRONOUN = re.compile(
    r"\W*(?:he|she|it|they|this|that|these|those|his|her|their|its|there|here|both|such)(?:'[a-z]+)?\b", re.IGNORECASE
)
_THEN_ASKS = re.compile(
    r"[,;–—-]\s+(?:and |so |but )?"
    r"(?:can|could|do|does|did|is|are|what|what's|how|any|would|should|which|where|who|have|will)\b[^,;]*\?\W*\Z",
    re.IGNORECASE,
)
_OWN_OPENING = re.compile(r"(?:(?:so|and|well|ok|okay|hey|hi),?\s+)?(?:I|I'\w+|my|we|we'\w+)\s", re.IGNORECASE)
_PROPOSAL = re.compile(r"\W*(?:let's|let us|let me|how about|what about|why don't)\b", re.IGNORECASE)
_EMPTY = load_words(__package__, "small_talk")
"""Words of which nothing can be learnt."""
MIN_CONTENT = 2
MAX_SENTENCES = 2000
"""How much of a turn is listened to: what goes on for longer was read out."""
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")


class Statement(NamedTuple):
    """A sentence that states something, in the first person if its speaker is meant."""

    at: int
    """Which of its turn's it is."""
    text: str
    verbatim: str
    start: int
    end: int
    kind: Kind
    content: frozenset[str]
    """The beginnings of the words that say something."""
    own: bool
    """Whether it speaks of its speaker."""
    to_other: bool
    """Whether it speaks of whoever is told."""
    dangling: bool
    """Whether it opens with a word that points to something said before."""
    urging: bool
    """Whether it tells somebody to do something."""
    wanted: bool
    """Whether it was said in order to be remembered."""
    english: bool


class ParsedTurn(NamedTuple):
    said: Turn
    statements: tuple[Statement, ...]
    question: str
    """The last thing that it asks, if it asks something."""
    questions: int
    only: Sentence | None
    """What it says, if that is a single sentence."""
    shown: tuple[Sentence, ...]
    words: frozenset[str]


def parse_turn(said: Turn, names: Collection[str]) -> ParsedTurn:
    """Take a turn apart. Names are those of whoever may be called, in lower case."""
    text = blank_code(blank_recalled_memory(said.text))
    text, shown = split_brackets(text)
    if said.role != "tool":
        text = blank_pasted_lines(blank_quotes(text, said.speaker))
    sentences = [
        clause
        for sentence in drop_sarcasm(split_sentences(text)[:MAX_SENTENCES])
        for part in _split_off_question(sentence)
        for clause in split_clauses(part)
    ]
    english = is_english(text)
    mixed = may_be_mixed(text)
    asking = [is_question(one.text) for one in sentences]
    asked = [one.text for one, asks in zip(sentences, asking, strict=True) if asks]
    plain = [one for one, asks in zip(sentences, asking, strict=True) if not asks]
    statements = tuple(_parse_statements(sentences, asking, names, said.note, english, mixed))
    only = plain[0] if len(plain) == 1 else None
    return ParsedTurn(
        said, statements, asked[-1] if asked else "", len(asked), only, tuple(shown), _content_stems(text)
    )


def _split_off_question(sentence: Sentence) -> list[Sentence]:
    """A sentence that states something before it asks, as two: "I'm off to Japan, any tips?"."""
    if not sentence.text.endswith("?") or len(sentence.text) > MAX_SENTENCE or not _OWN_OPENING.match(sentence.text):
        return [sentence]
    asks = _THEN_ASKS.search(sentence.text)
    if asks is None:
        return [sentence]
    middle = sentence.start + asks.start()
    question = asks[0][1:].strip()
    return [
        Sentence(sentence.text[: asks.start()], sentence.start, middle),
        Sentence(question, sentence.end - len(question), sentence.end),
    ]


def is_filler(statement: Statement) -> bool:
    """Whether nothing can be learnt from it by itself."""
    if statement.wanted or is_lasting(statement.kind):
        return not statement.content
    if not statement.english:
        return statement.text.isascii() and not statement.content
    if _ADDRESS.fullmatch(statement.text):
        return True
    return statement.urging or len(statement.content) < MIN_CONTENT or _PROPOSAL.match(statement.text) is not None


def _parse_statements(
    sentences: Sequence[Sentence],
    asking: Sequence[bool],
    names: Collection[str],
    note: bool,
    english: bool,
    mixed: bool,
) -> Iterator[Statement]:
    for at, sentence in enumerate(sentences):
        if asking[at] or len(sentence.text) > MAX_SENTENCE or is_foreign_greeting(sentence.text):
            continue
        if is_hypothetical(sentence.text) or (_is_heading(sentence) and (not note or at + 1 == len(sentences))):
            continue
        statement = _parse_statement(
            at, sentence, names, note, is_english(sentence.text, english) if mixed else english
        )
        if _WORD.search(statement.text):
            yield statement


def _is_heading(sentence: Sentence) -> bool:
    """Whether it only says what is to follow."""
    return sentence.text.endswith(":")


def _parse_statement(at: int, sentence: Sentence, names: Collection[str], note: bool, english: bool) -> Statement:
    if not english:
        return Statement(
            at, sentence.text, sentence.text, sentence.start, sentence.end, kind="statement",
            content=_content_stems(sentence.text), own=True, to_other=False, dangling=False, urging=False, wanted=note,
            english=False,
        )  # fmt: skip
    bare = sentence.unsaid + strip_lead_ins(sentence.text.replace("’", "'"), names)
    wanted = strip_remember_request(bare)
    text = add_subject(wanted or bare)
    own, to_other = mentions(text)
    return Statement(
        at, text, sentence.text, sentence.start, sentence.end,
        kind=classify(text) if own else "statement", content=_content_stems(text),
        own=own, to_other=to_other, dangling=_OPENS_WITH_PRONOUN.match(text) is not None,
        urging=is_advice(text), wanted=note or wanted is not None, english=True,
    )  # fmt: skip


def _content_stems(text: str) -> frozenset[str]:
    return frozenset(
        word[:6] for word in _WORD.findall(text.lower()) if word not in _EMPTY and (len(word) > 2 or word.isdigit())
    )
