"""From what a model answered to candidates, or to the one reason why it is not believed.

A model only proposes. Every statement must cite turns that it was given, in words that stand in them; whatever does not is
no candidate, and neither is anything else of that answer: who makes up one source makes up others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Annotated, NamedTuple

import msgspec

from .. import typed
from ..text.word_sets import word_set
from .model_prompt import KINDS, Piece
from .plan import Candidate, Kind, Source, Turn

MAX_DEPTH = 16
MAX_EVIDENCE = 20
_TOOL = "tool"
_CALENDAR = word_set(
    """january february march april may june july august september october november december monday tuesday wednesday
thursday friday saturday sunday"""
)
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)
_DAY = re.compile(r"\A(\d{4})(?:-(\d\d))?(?:-(\d\d))?(?:T.*)?\Z")
_WORD = re.compile(r"\w+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_OTHER_KINDS: dict[str, Kind] = {
    "fact": "statement",
    "opinion": "preference",
    "like": "preference",
    "dislike": "preference",
    "goal": "plan",
    "intention": "plan",
    "relationship": "relation",
    "person": "relation",
    "rule": "instruction",
    "identity": "attribute",
    "trait": "attribute",
}

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class InvalidAnswer(Exception):
    """The answer is not believed: a word for the job, and a sentence for the model. Neither holds what it wrote."""

    def __init__(self, reason: str, sentence: str) -> None:
        self.reason = reason
        self.sentence = sentence
        super().__init__(f"{sentence} ({reason})")


class AnswerLimits(NamedTuple):
    """Limits of one answer."""

    max_answer: int
    max_facts: int
    max_text: int


class QuoteFinder:
    """A turn in which quotes are looked for, many of them perhaps."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece

    def source(self, quote: str) -> Source | None:
        """The passage of a quote: to the letter, or else word for word."""
        piece = self.piece
        at = piece.text.find(quote)
        start, end = (at, at + len(quote)) if at >= 0 else self._by_words(quote)
        if not quote:
            end = len(piece.text)
        return Source(piece.said.id, piece.start + start, piece.start + end) if start >= 0 else None

    @cached_property
    def _words(self) -> tuple[str, list[tuple[int, int]]]:
        found = list(_WORD.finditer(self.piece.text))
        return _join_words(word[0] for word in found), [word.span() for word in found]

    def _by_words(self, quote: str) -> tuple[int, int]:
        wanted = _WORD.findall(quote)
        line, spans = self._words
        at = line.find(_join_words(wanted)) if wanted else -1
        if at < 0:
            return -1, -1
        first = line.count(" ", 0, at)
        return spans[first][0], spans[first + len(wanted) - 1][1]


class _ToolNames:
    """Names and numbers that only tools have told. A model that was fooled by a tool may cite a person for what it says; but
    what names such a one rests on the tool as well, and is trusted no more than that."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        tools = [piece for piece in pieces if piece.said.role == _TOOL]
        others = [text for piece in pieces if piece.said.role != _TOOL for text in (piece.text, piece.said.speaker)]
        told = {word.casefold() for text in others for word in _WORD.findall(text)} if tools else set()
        self._own = [(piece, _find_names(piece.text) - told) for piece in tools]

    def add_tool_sources(self, candidate: Candidate) -> Candidate:
        names, cited = _find_names(candidate.text), {source.id for source in candidate.sources}
        used = [piece for piece, own in self._own if piece.said.id not in cited and not own.isdisjoint(names)]
        more = (Source(piece.said.id, piece.start, piece.start + len(piece.text)) for piece in used)
        return candidate._replace(sources=(*candidate.sources, *more))


def _find_names(text: str) -> set[str]:
    """The names in a text, and long numbers; not what a sentence begins with, nor what a day is told by."""
    words = _WORD.findall(text)[1:]
    named = (word.casefold() for word in words if word[0].isupper() or (len(word) > 4 and word.isdigit()))
    return {word for word in named if word not in _CALENDAR}


class _Evidence(msgspec.Struct):
    turn: str
    quote: str | None = None


class _Fact(msgspec.Struct):
    text: str
    evidence: Annotated[list[_Evidence], msgspec.Meta(min_length=1, max_length=MAX_EVIDENCE)]
    importance: Share
    confidence: Share
    subject: str | None = None
    kind: str = "statement"
    since: str | None = None


class _Facts(msgspec.Struct):
    facts: list[_Fact]


_decode = typed.decoder(_Facts)


def parse_answer(text: str, pieces: Mapping[str, Piece], allowed: AnswerLimits) -> list[Candidate]:
    """The candidates of an answer, each statement once. Raises `InvalidAnswer`."""
    if len(text) > allowed.max_answer:
        raise InvalidAnswer("too_large", "It was too long.")
    facts = _decode_facts(strip_wrapping(text)).facts
    if len(facts) > allowed.max_facts:
        raise InvalidAnswer("too_many", f"It had more than {allowed.max_facts} facts.")
    turns = {label: QuoteFinder(piece) for label, piece in pieces.items()}
    speakers = {piece.said.speaker.casefold(): piece.said.speaker for piece in pieces.values()}
    tools = _ToolNames(list(pieces.values()))
    found = [tools.add_tool_sources(_to_candidate(fact, turns, speakers, allowed.max_text)) for fact in facts]
    return merge_repeats(found, {piece.said.id: piece.said for piece in pieces.values()})


def strip_wrapping(text: str) -> str:
    """Without what models put around JSON where a server has no JSON mode: thoughts, and a fence of Markdown."""
    text = text.strip()
    if text.startswith("<think>"):
        text = text.partition("</think>")[2].strip()
    fenced = _FENCED.match(text)
    return fenced[1] if fenced else text


def is_too_deep(text: str, limit: int = MAX_DEPTH) -> bool:
    """Return True if brackets are nested deeper than the limit. Linear; stops at the first that is."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        bracket = found[0]
        if bracket in "[{":
            depth += 1
            if depth > limit:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


def merge_repeats(found: Sequence[Candidate], turns: Mapping[str, Turn]) -> list[Candidate]:
    """Each statement once, with the evidence of all its repetitions. What a tool repeats is kept apart from what a person
    said, which would be trusted less with it."""
    kept: dict[tuple[str, ...], Candidate] = {}
    for candidate in found:
        words = _WORD.findall(candidate.text.casefold()) or [candidate.text]
        key = (turns[candidate.sources[0].id].role, candidate.subject or "", *words)
        kept[key] = _merge_pair(kept[key], candidate) if key in kept else candidate
    return list(kept.values())


def _decode_facts(text: str) -> _Facts:
    if is_too_deep(text):
        raise InvalidAnswer("too_deep", f"It was nested deeper than {MAX_DEPTH} levels.")
    try:
        return _decode(text)
    except msgspec.ValidationError as error:
        raise InvalidAnswer("wrong_schema", f"{_describe_error(error)}.") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidAnswer("invalid_json", "It was not one JSON object.") from None


def _describe_error(error: msgspec.ValidationError) -> str:
    """The message of msgspec: types and a path of our own names, never a value."""
    return _CONTROL.sub(" ", str(error))[:200].rstrip(".")


def _to_candidate(
    fact: _Fact, turns: Mapping[str, QuoteFinder], speakers: Mapping[str, str], max_text: int
) -> Candidate:
    text = " ".join(_CONTROL.sub(" ", fact.text).split())
    if not text or len(text) > max_text:
        raise InvalidAnswer("wrong_schema", f"A text was empty, or longer than {max_text} characters.")
    sources = tuple(dict.fromkeys(_find_source(evidence, turns) for evidence in fact.evidence))
    subject = _check_subject(fact.subject, speakers)
    return Candidate(
        text, subject, _to_kind(fact.kind), sources, fact.importance, fact.confidence, _parse_day(fact.since)
    )


def _find_source(evidence: _Evidence, turns: Mapping[str, QuoteFinder]) -> Source:
    turn = turns.get(evidence.turn)
    if turn is None:
        raise InvalidAnswer("unknown_evidence", 'A "turn" was not the label of a turn.')
    source = turn.source((evidence.quote or "").strip())
    if source is None:
        raise InvalidAnswer("unknown_evidence", 'A "quote" was not copied from its turn.')
    return source


def _check_subject(name: str | None, speakers: Mapping[str, str]) -> str | None:
    if name is None or not name.strip():
        return None
    speaker = speakers.get(name.strip().casefold())
    if speaker is None:
        raise InvalidAnswer("unknown_subject", 'A "subject" was neither the name of a speaker nor null.')
    return speaker


def _to_kind(name: str) -> Kind:
    lowered = name.strip().lower()
    return next((kind for kind in KINDS if kind == lowered), _OTHER_KINDS.get(lowered, "statement"))


def _parse_day(text: str | None) -> date | None:
    """A day; of a month or a year, the first one."""
    if text is None or not text.strip():
        return None
    found = _DAY.match(text.strip())
    try:
        return date(int(found[1]), int(found[2] or 1), int(found[3] or 1)) if found else date.fromisoformat(text)
    except ValueError:
        raise InvalidAnswer("wrong_schema", 'A "since" was neither a day as YYYY-MM-DD nor null.') from None


def _join_words(words: Iterable[str]) -> str:
    """Words in a form in which some of them can be looked for among others."""
    return "".join(f" {word.casefold()}" for word in words) + " "


def _merge_pair(one: Candidate, other: Candidate) -> Candidate:
    return one._replace(
        sources=tuple(dict.fromkeys([*one.sources, *other.sources])),
        importance=max(one.importance, other.importance),
        confidence=max(one.confidence, other.confidence),
        valid_from=one.valid_from or other.valid_from,
    )
