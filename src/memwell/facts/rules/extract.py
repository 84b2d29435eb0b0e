"""The extractor: candidates from turns by rules, the same for the same turns. See README.md for the stages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ...text.word_sets import word_set
from ..plan import Candidate, DroppedSentence, Extraction, Kind, Source, Turn
from .assistant import extract_from_assistant, extract_from_tool, extract_named_items
from .classify import confidence, find_subject, importance
from .grammar import Speaker, strip_quotation_marks
from .keep_or_drop import Context, Drop, Group, select_groups, statement_drop
from .parse import ParsedTurn, parse_turn, to_dropped
from .passages import Sentence
from .phrase import Phrase, Scene, phrase_attachment, phrase_group
from .replies import (
    Correction,
    EarlierStatement,
    find_amended,
    find_corrected,
    is_answer,
    is_correction,
    is_instruction,
    phrase_answer,
    render_instruction,
)

MAX_REMEMBERED = 24
"""Statements back that a correction may reach."""
_NOT_PEOPLE = word_set("assistant tool system")


def extract(turns: Sequence[Turn]) -> list[Candidate]:
    return extract_with_reasons(turns).candidates


def extract_with_reasons(turns: Sequence[Turn]) -> Extraction:
    """The candidates of some turns in their order, and the sentences that were dropped, each with its reason."""
    conversation = _Conversation(turns)
    candidates = [candidate for turn in turns for candidate in conversation.read(turn)]
    return Extraction(candidates, dropped=conversation.dropped)


class _Conversation:
    """The speakers, and what has been said so far."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.dropped: list[DroppedSentence] = []
        self._people = list(dict.fromkeys(turn.speaker for turn in turns if turn.role not in _NOT_PEOPLE))
        self._names = {called for name in self._people for called in _forms_of_address(name)}
        self._alone = len(self._people) < 2
        self._seen: set[str] = set()
        self._before: deque[EarlierStatement] = deque(maxlen=MAX_REMEMBERED)
        self._last: ParsedTurn | None = None

    def read(self, turn: Turn) -> Iterable[Candidate]:
        """The candidates of a turn, each text once."""
        if turn.role == "system":
            self.dropped.append(DroppedSentence(turn.id, 0, len(turn.text), Drop.SYSTEM_TURN))
            return ()
        parsed = parse_turn(turn, self._names)
        self.dropped += parsed.dropped
        candidates: dict[str, Candidate] = {}
        for candidate in self._extract(parsed):
            if candidates.setdefault(candidate.text, candidate) is not candidate:
                source = candidate.sources[0]
                self.dropped.append(DroppedSentence(source.id, source.start, source.end, Drop.DUPLICATE))
        self._seen |= parsed.words
        self._before.extendleft(EarlierStatement(turn, one) for one in parsed.statements[-MAX_REMEMBERED:])
        self._last = parsed
        return candidates.values()

    def _extract(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        role = parsed.turn.role
        if role not in ("assistant", "tool"):
            yield from self._extract_from_person(parsed)
            return
        if role == "tool":
            found = list(extract_from_tool(parsed))
        else:
            listener = self._people[0] if len(self._people) == 1 else "the user"
            found = list(extract_from_assistant(parsed, listener))
        yield from found
        if role == "assistant":
            yield from filter(None, [extract_named_items(parsed, self._last if self._alone else None)])
        used = {candidate.sources[0].start for candidate in found}
        reason = Drop.NOT_AN_ACTION if role == "assistant" else Drop.NOT_A_STATEMENT
        self.dropped += [to_dropped(parsed.turn, one, reason) for one in parsed.statements if one.start not in used]

    def _extract_from_person(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        turn, statements, asking = parsed.turn, parsed.statements, self._question_before(parsed.turn)
        special = [self._instruction_or_correction(parsed, n) for n in range(len(statements))]
        whole = any(one.kind != "statement" for one in statements)
        whole = whole or any(one and one.kind == "correction" for one in special)
        if asking and parsed.only and not whole and is_answer(asking.question, parsed.only.text, self._alone):
            yield self._phrase_short_answer(asking, turn, parsed.only)
            return
        yield from filter(None, special)
        corrected = set(_corrected_starts(special, turn))
        self.dropped += [to_dropped(turn, one, Drop.CORRECTED) for one in statements if one.start in corrected]
        pairs = zip(statements, special, strict=True)
        rest = tuple(one for one, candidate in pairs if candidate is None and one.start not in corrected)
        new_words = len(parsed.words - self._seen)
        groups = select_groups(parsed._replace(statements=rest), Context(asking is not None, new_words, self._alone))
        for group in groups:
            yield self._phrase_statements(turn, group, asking if group[0] == statements[0] else None)
        kept = {one.at for group in groups for one in group}
        left = [one for one in rest if one.at not in kept]
        self.dropped += [to_dropped(turn, one, statement_drop(one) or Drop.LOW_SCORE) for one in left]
        if self._alone:
            for one in parsed.attachments:
                phrase = Phrase(phrase_attachment(one.text, self._speaker(turn)))
                yield _to_candidate(turn, phrase, "event", (Source(turn.id, one.start, one.end),), "")

    def _question_before(self, turn: Turn) -> ParsedTurn | None:
        """The turn before, if somebody else asked something in it."""
        last = self._last
        return last if last and last.question and last.turn.speaker != turn.speaker else None

    def _instruction_or_correction(self, parsed: ParsedTurn, n: int) -> Candidate | None:
        turn, statement = parsed.turn, parsed.statements[n]
        at = Source(turn.id, statement.start, statement.end)
        if not statement.english:
            return None
        if self._alone and is_instruction(statement.text):  # between people it is no instruction to the agent
            phrase = Phrase(render_instruction(statement.text, turn.speaker))
            return _to_candidate(turn, phrase, "instruction", (at,), statement.text)
        earlier_in_turn = (EarlierStatement(turn, parsed.statements[m]) for m in range(n - 1, -1, -1))
        found = find_amended(statement.verbatim, turn, chain(earlier_in_turn, self._before))
        if found is None and not is_correction(statement.verbatim):
            return None
        found = found or find_corrected(statement.verbatim, self._before)
        if found is not None:
            return self._phrase_correction(turn, at, found)
        phrase = Phrase(f'{turn.speaker} corrected: "{strip_quotation_marks(statement.verbatim)}"')
        return _to_candidate(turn, phrase, "correction", (at,), "")

    def _phrase_correction(self, turn: Turn, at: Source, found: Correction) -> Candidate:
        earlier = found.earlier
        statement = earlier.statement._replace(text=found.text)
        phrase = phrase_group((statement,), Scene(self._speaker(earlier.turn), turn.day, impersonal=True))
        source = Source(earlier.turn.id, earlier.statement.start, earlier.statement.end)
        return _to_candidate(turn, phrase, "correction", (at, source), found.text)

    def _phrase_short_answer(self, asking: ParsedTurn, turn: Turn, only: Sentence) -> Candidate:
        text = phrase_answer(asking.question, only.text, self._speaker(turn))
        sources = (Source(turn.id, only.start, only.end), _whole_turn(asking.turn))
        return _to_candidate(turn, Phrase(text), "statement", sources, text)

    def _phrase_statements(self, turn: Turn, group: Group, asking: ParsedTurn | None) -> Candidate:
        scene = Scene(self._speaker(turn), turn.day, asking.question if asking else "", turn.note or group[0].wanted)
        phrase = phrase_group(group, scene)
        sources = [Source(turn.id, group[0].start, group[-1].end)]
        if asking and phrase.answers:
            sources.append(_whole_turn(asking.turn))
        return _to_candidate(turn, phrase, group[0].kind, tuple(sources), " ".join(one.text for one in group))

    def _speaker(self, turn: Turn) -> Speaker:
        others = [name for name in self._people if name != turn.speaker]
        return Speaker(turn.speaker, others[0] if len(others) == 1 else None)


def _to_candidate(turn: Turn, phrase: Phrase, kind: Kind, sources: tuple[Source, ...], words: str) -> Candidate:
    subject = find_subject(words, turn.speaker) if turn.known else None
    sure = confidence(kind, words, turn.role)
    return Candidate(phrase.text, subject, kind, sources, importance(kind, words), sure, phrase.since)


def _corrected_starts(special: Iterable[Candidate | None], turn: Turn) -> Iterator[int]:
    """The starts of statements that the same turn corrects."""
    for candidate in special:
        if candidate and candidate.kind == "correction":
            yield from (source.start for source in candidate.sources[1:] if source.id == turn.id)


def _forms_of_address(name: str) -> Iterator[str]:
    """The full name, the first name, and its beginnings."""
    first = (name.lower().split() or [""])[0]
    yield name.lower()
    yield from (first[:length] for length in range(3, len(first) + 1))


def _whole_turn(turn: Turn) -> Source:
    return Source(turn.id, 0, len(turn.text))
