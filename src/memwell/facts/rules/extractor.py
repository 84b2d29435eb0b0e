"""Extract candidates from turns by rules. The same turns always give the same result. See README.md for the stages."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ...text.word_sets import word_set
from ..datatypes import NOT_PEOPLE, Candidate, DroppedSentence, Extraction, Kind, Source, Turn
from .follow_ups import (
    EarlierStatement,
    find_amended,
    find_corrected,
    is_answer,
    is_correction,
    is_instruction,
    phrase_answer,
    render_instruction,
)
from .keep_or_drop import Context, Group, ParsedTurn, drop_duplicates, parse_turn, select_groups, select_reports
from .phrase import (
    Phrase,
    Scene,
    Speaker,
    inside_sentence,
    phrase_attachment,
    phrase_group,
    resolve_dates,
    strip_quotation_marks,
    third_person,
)
from .statement import Statement, confidence, find_subject, importance

MAX_REMEMBERED = 24
"""Number of earlier statements that a correction may refer to."""


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
        self._seen: set[str] = set()
        self._before: deque[EarlierStatement] = deque(maxlen=MAX_REMEMBERED)
        self._last: ParsedTurn | None = None

    def read(self, turn: Turn) -> Iterable[Candidate]:
        """Return the candidates of a turn without duplicates."""
        parsed = parse_turn(turn, self._names)
        self.dropped += parsed.dropped
        if turn.role == "system":
            return ()
        candidates, duplicates = drop_duplicates(self._extract(parsed))
        self.dropped += duplicates
        self._seen |= parsed.words
        self._before.extendleft(EarlierStatement(turn, one) for one in parsed.statements[-MAX_REMEMBERED:])
        self._last = parsed
        return candidates

    def _extract(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        role = parsed.turn.role
        if role not in ("assistant", "tool"):
            yield from self._extract_from_person(parsed)
            return
        kept, dropped = select_reports(parsed)
        self.dropped += dropped
        listener = self._people[0] if len(self._people) == 1 else "the user"
        yield from (phrase_report(parsed.turn, statement, listener) for statement in kept)
        if role == "assistant":
            yield from filter(None, [extract_named_items(parsed, self._last if self._alone else None)])

    def _extract_from_person(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        turn, statements, last = parsed.turn, parsed.statements, self._last
        asking = last if last and last.question and last.turn.speaker != turn.speaker else None
        special = list(filter(None, (self._instruction_or_correction(parsed, n) for n in range(len(statements)))))
        corrections = [one for one in special if one.kind == "correction"]
        whole = bool(corrections) or any(one.kind != "statement" for one in statements)
        only = parsed.only
        if asking and only and not whole and is_answer(asking.question, only.text, self._alone):
            text = phrase_answer(asking.question, only.text, self._speaker(turn))
            sources = (Source(turn.id, only.start, only.end), _whole_turn(asking.turn))
            yield _to_candidate(turn, Phrase(text), "statement", sources, text)
            return
        yield from special
        settled = {one.sources[0].start for one in special}
        corrected = {at.start for one in corrections for at in one.sources[1:] if at.id == turn.id}
        context = Context(asking is not None, len(parsed.words - self._seen), self._alone)
        groups, dropped = select_groups(parsed, settled, corrected, context)
        self.dropped += dropped
        for group in groups:
            yield self._phrase_statements(turn, group, asking if group[0] == statements[0] else None)
        if self._alone:
            for one in parsed.attachments:
                phrase = Phrase(phrase_attachment(one.text, self._speaker(turn)))
                yield _to_candidate(turn, phrase, "event", (Source(turn.id, one.start, one.end),), "")

    def _instruction_or_correction(self, parsed: ParsedTurn, n: int) -> Candidate | None:
        turn, statement = parsed.turn, parsed.statements[n]
        at = Source(turn.id, statement.start, statement.end)
        if not statement.english:
            return None
        if self._alone and is_instruction(statement.text):  # between people, it is not for the agent
            phrase = Phrase(render_instruction(statement.text, turn.speaker))
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
        scene = Scene(self._speaker(correction.earlier.turn), turn.day, impersonal=True)
        phrase = phrase_group((earlier._replace(text=correction.text),), scene)
        source = Source(correction.earlier.turn.id, earlier.start, earlier.end)
        return _to_candidate(turn, phrase, "correction", (at, source), correction.text)

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


def _forms_of_address(name: str) -> Iterator[str]:
    """Yield the full name, and the beginnings of the first name: "Mel" for Melanie."""
    first = (name.lower().split() or [""])[0]
    yield name.lower()
    yield from (first[:length] for length in range(3, len(first) + 1))


def _whole_turn(turn: Turn) -> Source:
    return Source(turn.id, 0, len(turn.text))


# -- assistants and tools


_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,2}[.)]|[-*•])[ \t]+(?=\S)([^\n]{1,400})", re.MULTILINE)
_HEAD = re.compile(r"(?:\*\*|__)?([^:\n]*?)(?:\*\*|__)?(?:\s*[:–—]|\s-\s|[.!?](?:\s|$)|$)")
_SMALL = word_set("a an the of and in on at for to by with de la le du von der des el y")
MIN_ITEMS = 3
MIN_NAME_SHARE = 0.6
"""Minimum share of list items that are names."""
MAX_ITEMS = 12
HEAD_WORDS = 9
ASKED_WORDS = 30


def extract_named_items(parsed: ParsedTurn, previous: ParsedTurn | None) -> Candidate | None:
    """Return a candidate for the names in a list that answers a question.

    People refer to such lists later: "the hostel that you recommended".
    """
    items = list(_ITEM.finditer(parsed.turn.text))
    heads = [head for item in items[:MAX_ITEMS] if _is_name(head := _item_head(item[1]))]
    if (
        previous is None
        or not previous.question
        or len(heads) < max(MIN_ITEMS, MIN_NAME_SHARE * min(len(items), MAX_ITEMS))
    ):
        return None
    question = " ".join(previous.question.split()[-ASKED_WORDS:]).rstrip("?.! ")
    text = (
        f'Asked "{strip_quotation_marks(question)}?", {inside_sentence(parsed.turn.speaker)} named {", ".join(heads)}.'
    )
    source = Source(parsed.turn.id, items[0].start(), items[-1].end())
    return Candidate(text, None, "event", (source,), 0.2, confidence("event", "", parsed.turn.role))


def _item_head(item: str) -> str:
    """Return the part of a list item before its colon or dash, or else its first words."""
    head = _HEAD.match(item)
    return strip_quotation_marks(" ".join((head[1] if head else item).split()[:HEAD_WORDS]).strip(" *_`"))


def _is_name(head: str) -> bool:
    """Return True if all content words are capitalised: `The Bulldog Hostel`, but not `Drink enough water`."""
    first, *rest = head.split() or [""]
    if not first[:1].isupper():
        return False
    fits = all(not word[:1].islower() or word in _SMALL for word in rest)
    return not rest or (fits and any(word[:1].isupper() for word in rest))


def phrase_report(turn: Turn, statement: Statement, listener: str) -> Candidate:
    """Return the candidate for a statement of an assistant or a tool."""
    if turn.role == "assistant":
        text = resolve_dates(statement.text.strip().rstrip(".!"), turn.day).text
        text = third_person(text, Speaker(turn.speaker, inside_sentence(listener)))
        kind: Kind = "decision"
        subject, weight = turn.speaker if turn.known else None, 0.3
    else:
        text, kind, subject, weight = resolve_dates(statement.text.rstrip("."), turn.day).text, "statement", None, 0.2
    source = Source(turn.id, statement.start, statement.end)
    return Candidate(
        f"{text[:1].upper()}{text[1:]}.", subject, kind, (source,), weight, confidence(kind, text, turn.role)
    )
