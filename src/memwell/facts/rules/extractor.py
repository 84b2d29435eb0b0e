"""Extract candidates from turns by rules. The same turns always give the same result. See README.md for the stages."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ...text.word_sets import word_set
from ..plan import NOT_PEOPLE, Candidate, DroppedSentence, Extraction, Kind, Source, Turn
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
from .keep_or_drop import Context, Drop, Group, select_groups, statement_drop
from .parse import ParsedTurn, Statement, confidence, find_subject, importance, parse_turn, to_dropped
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
        match parsed.turn.role:
            case "tool":
                candidates, reason = list(extract_from_tool(parsed)), Drop.NOT_A_STATEMENT
                yield from candidates
            case "assistant":
                listener = self._people[0] if len(self._people) == 1 else "the user"
                candidates, reason = list(extract_from_assistant(parsed, listener)), Drop.NOT_AN_ACTION
                yield from candidates
                yield from filter(None, [extract_named_items(parsed, self._last if self._alone else None)])
            case _:
                yield from self._extract_from_person(parsed)
                return
        used = {candidate.sources[0].start for candidate in candidates}
        self.dropped += [to_dropped(parsed.turn, one, reason) for one in parsed.statements if one.start not in used]

    def _extract_from_person(self, parsed: ParsedTurn) -> Iterator[Candidate]:
        turn, statements, last = parsed.turn, parsed.statements, self._last
        asking = last if last and last.question and last.turn.speaker != turn.speaker else None
        special = [self._instruction_or_correction(parsed, n) for n in range(len(statements))]
        whole = any(one.kind != "statement" for one in statements)
        whole = whole or any(one and one.kind == "correction" for one in special)
        only = parsed.only
        if asking and only and not whole and is_answer(asking.question, only.text, self._alone):
            text = phrase_answer(asking.question, only.text, self._speaker(turn))
            sources = (Source(turn.id, only.start, only.end), _whole_turn(asking.turn))
            yield _to_candidate(turn, Phrase(text), "statement", sources, text)
            return
        yield from filter(None, special)
        corrections = [one for one in special if one and one.kind == "correction"]
        corrected = {at.start for one in corrections for at in one.sources[1:] if at.id == turn.id}
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
#
# Statements of an assistant are kept if it did, promised or listed something, and statements of a tool if they are plain
# sentences. An assistant's statement about a user never becomes a fact, because it only repeats the user or recalled memory.


MAX_TOOL_STATEMENTS = 16
"""Maximum number of statements of a tool turn. A tool with more only prints a document."""
_ACTS = (
    "book|reserve|schedul|send|order|creat|add|updat|cancel|sav|mov|delet|remov|pay|buy|fil|submit|email|call|fix|deploy|"
    "merg|renam|remind|set up|set|sign|arrang|confirm|contact|post|upload|reschedul|renew|subscrib|unsubscrib|transfer|"
    "chang|not|record|stor|turn|enabl|disabl"
)
_DONE = re.compile(
    rf"(?:I|We)(?:'ve| have)?(?:\s+(?:just|now|also|already|successfully|gone ahead and))*\s+"
    rf"(?:(?:{_ACTS})\w*ed|sent|paid|bought|set|made|put|decided|agreed|chose|chosen|picked|promised)\b",
    re.IGNORECASE,
)
_NEEDS_OBJECT = re.compile(
    r"(?:book|reserv|schedul|sen[dt]|order|creat|add|updat|cancel|sav|mov|delet|remov|b[uo]u?[yg]|fix|renam|reschedul|renew|transfer|"
    r"chang|record|stor|put|made|set|enabl|disabl|upload|submit|fil|arrang|pick)",
    re.IGNORECASE,
)
"""Verbs that need an object."""
_NO_OBJECT = re.compile(
    r"(?:\W*\Z|[^\w\s]|\s+(?:to|for|on|at|in|until|till|from|by|with|and|as|successfully|already|now)\b)", re.IGNORECASE
)
_PROMISE = re.compile(
    rf"(?:I|We)(?:'ll| will|'m going to| am going to)(?:\s+(?:also|then|always|never|not))*\s+"
    rf"(?:{_ACTS}|make sure|avoid|follow up|use|keep|answer|reply)\w*\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,2}[.)]|[-*•])[ \t]+(?=\S)([^\n]{1,400})", re.MULTILINE)
_HEAD = re.compile(r"(?:\*\*|__)?([^:\n]*?)(?:\*\*|__)?(?:\s*[:–—]|\s-\s|[.!?](?:\s|$)|$)")
_STATES = re.compile(r"\b(?:is|are|was|were|has|have|had|will|costs?|opens?|closes?|starts?|ends?|\w+ed)\b")
_DATA = re.compile(r"[{}<>=|\\\[\]]|://|::|\b\w+\(")
_MAX_LENGTH = 240
_SMALL = word_set("a an the of and in on at for to by with de la le du von der des el y")
MIN_ITEMS = 3
MIN_NAME_SHARE = 0.6
"""Minimum share of list items that are names."""
MAX_ITEMS = 12
HEAD_WORDS = 9
ASKED_WORDS = 30


def extract_from_assistant(parsed: ParsedTurn, person: str) -> Iterator[Candidate]:
    """Yield candidates for actions that an assistant has done or promised."""
    for statement in parsed.statements:
        if statement.english and (_is_done(statement.text) or _PROMISE.match(statement.text)):
            dated = resolve_dates(statement.text.strip().rstrip(".!"), parsed.turn.day)
            text = third_person(dated.text, Speaker(parsed.turn.speaker, inside_sentence(person)))
            yield _to_report(parsed, statement, text, 0.3)


def _is_done(text: str) -> bool:
    """Return True if a sentence names an action and its object, unlike "Booked!" and "Moved to Friday"."""
    done = _DONE.match(text)
    if done is None:
        return False
    verb = done[0].split()[-1]
    return _NEEDS_OBJECT.match(verb) is None or _NO_OBJECT.match(text, done.end()) is None


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


def extract_from_tool(parsed: ParsedTurn) -> Iterator[Candidate]:
    """Yield candidates for plain statements of a tool."""
    plain = [one for one in parsed.statements if _is_plain_statement(one)]
    for statement in plain if len(plain) <= MAX_TOOL_STATEMENTS else ():
        yield _to_report(parsed, statement, resolve_dates(statement.text.rstrip("."), parsed.turn.day).text, 0.2)


def _is_plain_statement(statement: Statement) -> bool:
    text = statement.text
    if statement.own or statement.to_other or statement.dangling or len(text) > _MAX_LENGTH:
        return False
    return text[:1].isupper() and text.endswith(".") and _DATA.search(text) is None and _STATES.search(text) is not None


def _to_report(parsed: ParsedTurn, statement: Statement, text: str, importance: float) -> Candidate:
    turn = parsed.turn
    kind: Kind = "decision" if turn.role == "assistant" else "statement"
    source = Source(turn.id, statement.start, statement.end)
    subject = turn.speaker if turn.known and turn.role == "assistant" else None
    return Candidate(
        f"{text[:1].upper()}{text[1:]}.", subject, kind, (source,), importance, confidence(kind, text, turn.role)
    )
