"""Extract candidates from turns by rules. The same turns always give the same result. See README.md for the stages."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from ..datatypes import NOT_PEOPLE, Candidate, DroppedSentence, Extraction, Kind, Source, Turn
from .follow_ups import (
    EarlierStatement,
    find_amended,
    find_corrected,
    is_answer,
    is_correction,
    is_fragment_answer,
    phrase_answer,
)
from .irony import Tone
from .keep_or_drop import (
    MIN_CONTENT,
    Context,
    Group,
    Manner,
    ParsedTurn,
    drop_duplicates,
    parse_turn,
    says_little,
    select_groups,
)
from .phrase import Phrase, Scene, Speaker, phrase_attachment, phrase_group, strip_quotation_marks
from .referents import GroupCounts, resolve_pronoun
from .reports import extract_named_items, phrase_report, select_reports
from .requests import is_request, phrase_request
from .statement import Statement, confidence, find_subject, importance, strip_chat

MAX_REMEMBERED = 24
"""Number of earlier statements that a correction may refer to."""
MAX_ASKED = 2
"""Number of turns of people before a recommendation, in which it may have been asked for."""
MAX_BEFORE = 2
"""Number of earlier statements that a pronoun may refer to."""


def extract(turns: Sequence[Turn]) -> list[Candidate]:
    return extract_with_reasons(turns).candidates


def extract_with_reasons(turns: Sequence[Turn]) -> Extraction:
    """Return the candidates of turns in their order, and the dropped sentences with reasons."""
    conversation = _Conversation(turns)
    candidates = [candidate for turn in turns for candidate in conversation.read(turn)]
    return Extraction(candidates, dropped=conversation.dropped)


class _Conversation:
    """The speakers and the earlier statements of a conversation."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.dropped: list[DroppedSentence] = []
        self._people = list(dict.fromkeys(turn.speaker for turn in turns if turn.role not in NOT_PEOPLE))
        self._names = {form for name in self._people for form in _forms_of_address(name)}
        self._alone = len(self._people) < 2
        self._assisted = any(turn.role == "assistant" for turn in turns)
        self._seen: set[str] = set()
        self._before: deque[EarlierStatement] = deque(maxlen=MAX_REMEMBERED)
        self._last: ParsedTurn | None = None
        self._asked: deque[str] = deque(maxlen=MAX_ASKED)
        self._manner = Manner()
        self._groups = GroupCounts()
        for turn in turns:
            if turn.role not in NOT_PEOPLE:
                self._groups.add(turn.text)

    def read(self, turn: Turn) -> Iterable[Candidate]:
        """Return the candidates of a turn without duplicates."""
        parsed = parse_turn(turn, self._names, self._manner._replace(alone=self._alone))
        if turn.role not in NOT_PEOPLE:
            self._manner = Manner(ironic=self._manner.ironic or parsed.ironic, language=parsed.language)
        self.dropped += parsed.dropped
        if turn.role == "system":
            return ()
        candidates, duplicates = drop_duplicates(self._extract(parsed))
        self.dropped += duplicates
        self._seen |= parsed.words
        self._before.extendleft(EarlierStatement(turn, one) for one in parsed.statements[-MAX_REMEMBERED:])
        self._last = parsed
        if turn.role not in NOT_PEOPLE:
            self._asked.append(turn.text)
        return candidates

    def _extract(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        role = parsed.turn.role
        if role not in ("assistant", "tool"):
            yield from self._extract_from_person(parsed)
            return
        kept, dropped = select_reports(parsed, list(self._asked))
        self.dropped += dropped
        listener = self._people[0] if len(self._people) == 1 else "the user"
        yield from (phrase_report(parsed.turn, report, listener) for report in kept)
        if role == "assistant":
            yield from filter(None, [extract_named_items(parsed, self._last if self._alone else None)])

    def _extract_from_person(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        turn, statements, last = parsed.turn, parsed.statements, self._last
        asking = last if last and last.question and last.turn.speaker != turn.speaker else None
        special = list(filter(None, (self._find_special(parsed, n) for n in range(len(statements)))))
        corrections = [one for one in special if one.kind == "correction"]
        settled = {one.sources[0].start for one in special}
        if asking and not corrections and (answer := self._answer(parsed, asking, settled)):
            candidate, whole = answer
            yield candidate
            if whole:
                return
            settled.add(candidate.sources[0].start)
        yield from special
        corrected = {at.start for one in corrections for at in one.sources[1:] if at.id == turn.id}
        context = Context(asking is not None, len(parsed.words - self._seen), self._alone)
        groups, dropped = select_groups(parsed, settled, corrected, context)
        self.dropped += dropped
        for group in groups:
            for part in _split_group(group) if self._alone else [group]:
                yield self._phrase_statements(parsed, part, asking if part[0] == statements[0] else None)
        if self._alone:
            for one in parsed.attachments:
                phrase = Phrase(phrase_attachment(one.text, self._speaker(turn)))
                yield _to_candidate(turn, phrase, "event", (Source(turn.id, one.start, one.end),), "")

    def _answer(self, parsed: ParsedTurn, asking: ParsedTurn, settled: set[int]) -> tuple[Candidate, bool] | None:
        """Return the candidate for a short answer, and True if it is all that the turn says; None if there is no answer."""
        turn, statements, only = parsed.turn, parsed.statements, parsed.only
        whole = any(one.kind != "statement" for one in statements) or bool(settled)
        first = statements[0] if statements and statements[0].at == 0 else None
        if only and not whole and is_answer(asking.question, only.text, self._alone):
            text, start, end, complete = only.text, only.start, only.end, True
        elif self._alone and first and first.start not in settled and is_fragment_answer(asking.question, first):
            text, start, end, complete = first.text, first.start, first.end, len(statements) == 1
        else:
            return None
        if self._alone and (says_little(text) or says_little(strip_chat(text))):
            return None
        said = phrase_answer(asking.question, text, self._speaker(turn))
        sources = (Source(turn.id, start, end), _whole_turn(asking.turn))
        tone = first.tone if first else Tone.SINCERE
        return _to_candidate(turn, Phrase(said), "statement", sources, text, tone), complete

    def _find_special(self, parsed: ParsedTurn, n: int) -> Candidate | None:
        """Return the candidate for a request or a correction; None if the statement is neither."""
        turn, statement = parsed.turn, parsed.statements[n]
        at = Source(turn.id, statement.start, statement.end)
        if not statement.english or not statement.sincere:
            return None
        if self._alone and is_request(statement.text):  # between people, it is not for the agent
            phrase = Phrase(phrase_request(statement.text, Scene(self._speaker(turn), turn.day)))
            return _to_candidate(turn, phrase, "instruction", (at,), statement.text)
        earlier_in_turn = (EarlierStatement(turn, parsed.statements[m]) for m in range(n - 1, -1, -1))
        correction = find_amended(statement.verbatim, turn, chain(earlier_in_turn, self._before))
        if correction is None and not is_correction(statement.verbatim):
            return None
        correction = correction or find_corrected(statement.verbatim, self._before)
        if correction is None:
            phrase = Phrase(f'{turn.speaker} corrected: "{strip_quotation_marks(statement.verbatim)}"')
            return _to_candidate(turn, phrase, "correction", (at,), "")
        earlier = correction.earlier.statement
        speaker = self._speaker(correction.earlier.turn, correction.text)
        scene = Scene(speaker, turn.day, impersonal=True)
        phrase = phrase_group((earlier._replace(text=correction.text),), scene)
        source = Source(correction.earlier.turn.id, earlier.start, earlier.end)
        return _to_candidate(turn, phrase, "correction", (at, source), correction.text)

    def _phrase_statements(self, parsed: ParsedTurn, group: Group, asking: ParsedTurn | None) -> Candidate:
        turn, first = parsed.turn, group[0]
        sources = [Source(turn.id, first.start, group[-1].end)]
        before = self._find_before(parsed, first) if first.dangling and first.english and self._alone else None
        if before and not asking and (resolved := resolve_pronoun(first.text, [before.statement.text])):
            own = first.own or resolved[:3].lower() in ("my ", "our")
            group = (first._replace(text=resolved, dangling=False, own=own), *group[1:])
        words = " ".join(one.text for one in group)
        scene = Scene(
            self._speaker(turn, words),
            turn.day,
            asking.question if asking else "",
            turn.note or first.wanted,
            attributed=self._alone,
            before=before.statement.text if before and group[0].dangling else "",
        )
        phrase = phrase_group(group, scene)
        if asking and phrase.answers:
            sources.append(_whole_turn(asking.turn))
        elif before:
            sources.append(Source(before.turn.id, before.statement.start, before.statement.end))
        tone = next((one.tone for one in group if one.tone is not Tone.SINCERE), Tone.SINCERE)
        return _to_candidate(turn, phrase, first.kind, tuple(sources), words, tone)

    def _find_before(self, parsed: ParsedTurn, statement: Statement) -> EarlierStatement | None:
        """Return the statement before, in the turn or in the last turns of its speaker."""
        at = bisect_left(parsed.statements, statement.at, key=lambda one: one.at)
        nearest = reversed(parsed.statements[max(0, at - MAX_BEFORE) : at])
        earlier = next((one for one in nearest if one.english and len(one.content) >= MIN_CONTENT), None)
        if earlier:
            return EarlierStatement(parsed.turn, earlier)
        own = [one for one in islice(self._before, MAX_BEFORE) if one.turn.speaker == parsed.turn.speaker]
        return next((one for one in own if one.statement.english and len(one.statement.content) >= MIN_CONTENT), None)

    def _speaker(self, turn: Turn, words: str = "") -> Speaker:
        others = [name for name in self._people if name != turn.speaker]
        group = self._groups.find(words) if words else None
        return Speaker(turn.speaker, others[0] if len(others) == 1 else None, group)


def _split_group(group: Group) -> Iterator[Group]:
    """Split a group before statements whose pronoun is replaced by what it means, because each fact can change on its own."""
    start = 0
    for n in range(1, len(group)):
        one = group[n]
        resolved = resolve_pronoun(one.text, [group[n - 1].text]) if one.english and one.dangling else None
        if resolved:
            yield group[start:n]
            start = n
            own = one.own or resolved[:3].lower() in ("my ", "our")
            group = (*group[:n], one._replace(text=resolved, dangling=False, own=own), *group[n + 1 :])
    yield group[start:]


def _to_candidate(
    turn: Turn, phrase: Phrase, kind: Kind, sources: tuple[Source, ...], words: str, tone: Tone = Tone.SINCERE
) -> Candidate:
    subject = find_subject(words, turn.speaker) if turn.known else None
    sure = confidence(kind, words, turn.role, tone)
    return Candidate(phrase.text, subject, kind, sources, importance(kind, words, tone), sure, phrase.since)


def _forms_of_address(name: str) -> Iterator[str]:
    """Yield the full name, and the beginnings of the first name: "Mel" for Melanie."""
    first = (name.lower().split() or [""])[0]
    yield name.lower()
    yield from (first[:length] for length in range(3, len(first) + 1))


def _whole_turn(turn: Turn) -> Source:
    return Source(turn.id, 0, len(turn.text))
