"""Apply the answer of a language model to the drafts of the rules.

The drafts are the floor: a draft stays as it is unless the model gives a reason that can be checked. A text of the model must
say what its source says (`faithfulness`), a dropped draft must be empty, repeated or refuted by a passage, and an added fact must
rest on a sentence that the rules left out for want of weight, not as a question, a joke or somebody else's words.

An answer that is mostly wrong is refused as a whole, because its other lines may be wrong, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from .. import typed
from .datatypes import NOT_PEOPLE, Candidate, DroppedSentence, Source, Turn
from .faithfulness import covers, find_marks, find_names, list_words, rewords, splits
from .model_prompt import Piece, list_drafts
from .rules.passages import is_english, is_question, split_sentences
from .rules.phrase import quote_speaker, resolve_dates
from .rules.statement import classify, confidence, content_stems, find_subject, importance
from .wording import parse_statement

MAX_TEXT = 500
MAX_PARTS = 4
MAX_ADDED = 3
"""Number of facts that the model may add to a portion. A model that adds more does not choose."""
MIN_CONTENT = 3
"""Content words of a sentence from which the model may add a fact."""
VITAL = 0.6
"""Importance from which a draft cannot be dropped as small talk."""
MAY_ADD = frozenset({"low_score", "not_understood"})
"""Reasons of the rules to leave a sentence out that the model may overrule."""

# -- reading an answer

MAX_OBJECTS = 300
_OBJECT = re.compile(r'\{(?:[^{}"]|"(?:[^"\\]|\\.){0,1000}+"){0,200}+\}')
"""An object without objects in it. Models put prose, lists and Markdown around them. The limits keep the search linear."""
_NUMBER = re.compile(r"\D{0,8}(\d{1,6})")

Problem = Literal["empty", "unusable", "unreliable", "dropped_too_much"]


class RefusedAnswer(Exception):
    """The answer is refused, and the drafts stand."""

    def __init__(self, reason: Problem) -> None:
        self.reason = reason
        super().__init__(reason)


class Decision(msgspec.Struct, frozen=True):
    """A line of an answer."""

    do: str
    n: int | str | None = None
    text: str | None = None
    texts: list[str] | None = None
    why: str | None = None
    of: int | str | None = None
    turn: str | None = None
    quote: str | None = None


_decode = typed.decoder(Decision)


def read_decisions(answer: str) -> tuple[list[Decision], int]:
    """Return the decisions in an answer, each once, and the number of objects that are none."""
    decisions: dict[bytes, Decision] = {}
    wrong = 0
    for count, match in enumerate(_OBJECT.finditer(answer)):
        if count >= MAX_OBJECTS:
            break
        try:
            decision = _decode(match[0])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            wrong += 1
        else:
            decisions.setdefault(msgspec.json.encode(decision), decision)
    return list(decisions.values()), wrong


# -- applying it


class Review(NamedTuple):
    """The drafts of a portion after the review, in their order, and what the model added."""

    candidates: list[Candidate]
    changed: int
    """Number of drafts and facts that the model decided about."""


def review_drafts(answer: str, pieces: Sequence[Piece], dropped: Collection[DroppedSentence]) -> Review:
    """Return the drafts of a portion as an answer changes them, or raise `RefusedAnswer`.

    `dropped`: the sentences that the rules left out.
    """
    drafts = list_drafts(pieces)
    if not answer.strip():
        if drafts:
            raise RefusedAnswer("empty")
        return Review([], 0)
    decisions, wrong = read_decisions(answer)
    if not decisions:
        raise RefusedAnswer("unusable" if wrong or drafts else "empty")
    return _Reviewer(pieces, drafts, dropped).apply(decisions, wrong)


class _Reviewer:
    """Judges the decisions about the drafts of one portion."""

    def __init__(
        self, pieces: Sequence[Piece], drafts: Sequence[Candidate], dropped: Collection[DroppedSentence]
    ) -> None:
        self._pieces = {f"t{number}": piece for number, piece in enumerate(pieces, 1)}
        self._turns = {piece.said.id: piece.said for piece in pieces}
        self._order = [piece.said.id for piece in pieces]
        self._drafts, self._dropped = drafts, dropped
        self._results: dict[int, list[Candidate]] = {}
        self._unexplained = self._wrong = 0

    def apply(self, decisions: Sequence[Decision], wrong: int) -> Review:
        """Apply the decisions in the order of their lines. The first one about a draft counts."""
        self._wrong = wrong
        right, gone = 0, 0
        added: list[Candidate] = []
        adding = [one for one in decisions if one.do == "add"]
        for decision in decisions:
            if decision.do == "add":
                continue
            at = self._find_draft(decision.n)
            if at is None or decision.do not in ("keep", "reword", "split", "drop"):
                self._wrong += 1
            elif at not in self._results:
                right += 1
                self._results[at] = self._decide(decision, self._drafts[at])
                gone += bool(self._results[at][0].dropped)
        for decision in adding if len(adding) <= MAX_ADDED else ():
            candidate = self._add(decision)
            right += candidate is not None
            added += [candidate] if candidate is not None and candidate not in added else []
        if self._wrong > right:
            raise RefusedAnswer("unreliable")
        if self._unexplained > gone or gone > max(1, len(self._drafts) // 2):
            raise RefusedAnswer("dropped_too_much")
        reviewed = [one for at, draft in enumerate(self._drafts) for one in self._results.get(at, [draft])]
        return Review([*reviewed, *added], sum(one.decided_by == "model" for one in [*reviewed, *added]))

    def _find_draft(self, number: int | str | None) -> int | None:
        """Return the index of the draft with a number."""
        match = _NUMBER.fullmatch(str(number)) if number is not None else None
        at = int(match[1]) - 1 if match else -1
        return at if 0 <= at < len(self._drafts) else None

    def _decide(self, decision: Decision, draft: Candidate) -> list[Candidate]:
        """Return what becomes of a draft; the draft itself if the decision does not pass its checks."""
        turn = self._turns[draft.sources[0].id]
        if decision.do == "drop":
            if (reason := self._find_drop(decision, draft, turn)) is None:
                self._unexplained += 1
                return [draft]
            return [draft._replace(dropped=reason, decided_by="model")]
        if turn.role in NOT_PEOPLE or draft.kind == "correction":
            return [draft]  # the rules word the actions of assistants and what ends a fact
        texts = [_clean(text) for text in ([decision.text or ""] if decision.do == "reword" else decision.texts or [])]
        if not all(0 < len(text) <= MAX_TEXT for text in texts) or not _has_room(decision.do, texts):
            return [draft]
        if decision.do == "reword":
            fits = texts[0] != draft.text and rewords(texts[0], draft.text, turn.speaker, self._list_names(turn))
        else:
            fits = len(set(texts)) == len(texts) and splits(texts, draft.text, turn.speaker)
        return [draft._replace(text=text, decided_by="model") for text in texts] if fits else [draft]

    def _list_names(self, turn: Turn) -> Collection[str]:
        """Return the names in a turn and in the turn before, which a pronoun may mean."""
        before = self._order.index(turn.id) - 1
        earlier = [self._turns[self._order[before]]] if before >= 0 else []
        spoken = [one.text for one in [*earlier, turn] if one.role not in ("tool", "system")]
        return {word for text in spoken for word in list_words(text) if word[0].isupper()}

    # -- dropping

    def _find_drop(self, decision: Decision, draft: Candidate, turn: Turn) -> str | None:
        """Return the reason to drop a draft, if it can be checked."""
        why = (decision.why or "").strip().lower().replace(" ", "_")
        if turn.note:
            return None  # somebody asked to remember it
        if why == "small_talk":
            return why if _is_light(draft, turn) else None
        if why == "repeated":
            other = self._find_draft(decision.of)
            if other is None or self._drafts[other] is draft or self._results.get(other, [draft])[0].dropped:
                return None
            kept = self._drafts[other]
            same = kept.subject == draft.subject and kept.kind != "correction" != draft.kind
            return why if same and covers(kept.text, draft.text, turn.speaker) else None
        cues, passage = _REFUTES.get(why), self._find_passage(decision)
        if cues is None or passage is None or not self._is_beside(passage, draft.sources[0], turn):
            return None
        return why if cues.search(self._turns[passage.id].text[passage.start : passage.end]) else None

    def _is_beside(self, passage: Source, own: Source, turn: Turn) -> bool:
        """Return True if a passage is the sentence before or after a draft's own, also across the turns of its speaker.

        A cue further away is about something else.
        """
        sentences = split_sentences(turn.text)
        mine = [at for at, one in enumerate(sentences) if one.start < own.end and own.start < one.end]
        if not mine:
            return False
        if passage.id == turn.id:
            beside = [at for at in (mine[0] - 1, mine[-1] + 1) if 0 <= at < len(sentences)]
            return any(sentences[at].start <= passage.start and passage.end <= sentences[at].end for at in beside)
        after = self._order[self._order.index(turn.id) + 1 :]
        following = next((one for one in after if self._turns[one].speaker == turn.speaker), None)
        if passage.id != following or mine[-1] != len(sentences) - 1:
            return False
        first = split_sentences(self._turns[following].text)[:1]
        return any(one.start <= passage.start and passage.end <= one.end for one in first)

    # -- adding

    def _add(self, decision: Decision) -> Candidate | None:
        """Return the candidate for a sentence that the rules left out; None if it does not pass the checks."""
        text, source = _clean(decision.text or ""), self._find_passage(decision)
        if source is None:
            self._wrong += 1
            return None
        turn = self._turns[source.id]
        if not 0 < len(text) <= MAX_TEXT or turn.role in NOT_PEOPLE or self._pieces[decision.turn or ""].repeated:
            return None
        sentences = [one for one in split_sentences(turn.text) if one.start < source.end and source.start < one.end]
        if len(sentences) != 1 or is_question(sentences[0].text) or _ASKS.match(sentences[0].text):
            return None
        passage = Source(turn.id, sentences[0].start, sentences[0].end)
        if not self._is_free(passage):
            return None
        return _word_addition(text, sentences[0].text, passage, turn)

    def _is_free(self, passage: Source) -> bool:
        """Return True if no draft rests on a passage, and the rules left it out for want of weight only."""
        used = any(_overlap(passage, source) for draft in self._drafts for source in draft.sources[:1])
        reasons = {str(one.reason) for one in self._dropped if _overlap(passage, Source(one.id, one.start, one.end))}
        return not used and bool(reasons) and reasons <= MAY_ADD

    def _find_passage(self, decision: Decision) -> Source | None:
        """Return the passage that a decision quotes: the exact text, or the same words with other punctuation and case."""
        piece, quote = self._pieces.get((decision.turn or "").strip().lower()), (decision.quote or "").strip()
        if piece is None or not quote:
            return None
        at = piece.text.find(quote)
        start, end = (at, at + len(quote)) if at >= 0 else _find_words(quote, piece.text)
        return Source(piece.said.id, piece.start + start, piece.start + end) if start >= 0 else None


def _has_room(do: str, texts: Sequence[str]) -> bool:
    return len(texts) == 1 if do == "reword" else do == "split" and 2 <= len(texts) <= MAX_PARTS


def _word_addition(text: str, sentence: str, passage: Source, turn: Turn) -> Candidate | None:
    """Return a candidate that says what a sentence says. A sentence in another language than English is quoted."""
    if len(content_stems(sentence)) < MIN_CONTENT:
        return None
    if not is_english(sentence):
        text = quote_speaker(sentence, turn.speaker)
    elif not rewords(text, quote_speaker(sentence, turn.speaker), turn.speaker):
        return None
    kind = classify(sentence)
    dated = resolve_dates(text, turn.day)
    subject = find_subject(sentence, turn.speaker) if turn.known else None
    weight, sure = importance(kind, sentence), confidence(kind, sentence, turn.role)
    return Candidate(dated.text, subject, kind, (passage,), weight, sure, dated.since, decided_by="model")


def _is_light(draft: Candidate, turn: Turn) -> bool:
    """Return True if a draft holds nothing that could matter: no lasting kind, slot, number, name or denial."""
    source = draft.sources[0]
    words = turn.text[source.start : source.end]
    denials, _, numbers = find_marks(list_words(words))
    names = find_names(words) | (find_names(draft.text) - {name.lower() for name in list_words(turn.speaker)})
    vital = draft.kind not in ("statement", "event") or draft.importance >= VITAL or not is_english(words)
    return not (vital or denials or numbers or names or parse_statement(draft.text, turn.speaker).topics)


def _overlap(one: Source, two: Source) -> bool:
    return one.id == two.id and one.start < two.end and two.start < one.end


_REFUTES = {
    "joke": re.compile(
        r"\b(?:jok(?:e|es|ing)|kidding|sarcas\w*|ironic\w*|teasing|made (?:that|it) up|not really)\b", re.I
    ),
    "hypothetical": re.compile(
        r"\b(?:suppos\w+|imagin\w+|pretend\w*|hypothetical\w*|what if|let's say|role-?play)\b", re.I
    ),
    "quoted": re.compile(r"\b(?:quot\w+|lyrics|translate|proofread|not mine)\b", re.I),
    "retracted": re.compile(r"\b(?:scratch that|never ?mind|forget (?:that|it)|not true|was wrong)\b", re.I),
}
"""Words in a passage that refute another one, by the reason that the model gives."""
_ASKS = re.compile(
    r"\W*(?:is|are|am|was|were|do|does|did|has|have|had|can|could|would|will|shall|should|may|might|what|who|whose|which|where"
    r"|when|why|how)\b",
    re.I,
)
"""The beginning of a question, perhaps without its mark."""
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_WORDS = re.compile(r"\w+")


def _clean(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def _find_words(quote: str, text: str) -> tuple[int, int]:
    """Return the span of the words of a quote in a text, whatever the punctuation and case."""
    words = [word.casefold() for word in _WORDS.findall(quote)]
    spans = [match.span() for match in _WORDS.finditer(text)]
    line = "".join(f" {text[start:end].casefold()}" for start, end in spans) + " "
    at = line.find(f" {' '.join(words)} ") if words else -1
    if at < 0:
        return -1, -1
    first = line.count(" ", 0, at)
    return spans[first][0], spans[first + len(words) - 1][1]
