"""Facts without a model: what turns state, by rules that give the same facts for the same turns.

A turn is taken apart (`heard`) without what its speaker does not state: the words of others (`borrowed`), code and logs
(`pasted`), what is only `supposed`. What is worth keeping is chosen (`choice`, `worth`), and worded so that it stands alone
(`phrase`, `rewording`, `days`, `short_answers`). What has rules of its own: `instructions` and corrections (`amends`), and
what is said by `machines`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ...text.word_sets import word_set
from ..plan import Candidate, Kind, Source, Turn
from .assistant import extract_from_assistant, extract_from_tool, extract_named_items
from .classify import confidence, find_subject, importance
from .corrections import (
    Correction,
    EarlierStatement,
    find_amended,
    find_corrected,
    is_correction,
    is_instruction,
    render_instruction,
)
from .parse import ParsedTurn, parse_turn
from .phrase import Phrase, Scene, phrase_attachment, phrase_group
from .select import Context, Group, select_groups
from .sentences import Sentence
from .short_answers import is_answer, phrase_answer
from .wording import Speaker, strip_quotation_marks

MAX_REMEMBERED = 24
"""How many statements back a correction may reach."""
_NOT_PEOPLE = word_set("assistant tool system")


def extract(turns: Sequence[Turn]) -> list[Candidate]:
    """The statements of these turns that may become facts, in the order in which they were made."""
    room = _Conversation(turns)
    return [candidate for turn in turns for candidate in _drop_duplicates(room.listen(turn))]


def _drop_duplicates(candidates: Iterable[Candidate]) -> Iterable[Candidate]:
    """Each statement of a turn once, however often the turn repeats it."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.text, candidate)
    return first.values()


class _Conversation:
    """Who is there, and what has been said so far."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._people = list(dict.fromkeys(turn.speaker for turn in turns if turn.role not in _NOT_PEOPLE))
        self._names = {called for name in self._people for called in _forms_of_address(name)}
        self._alone = len(self._people) < 2
        self._seen: set[str] = set()
        self._before: deque[EarlierStatement] = deque(maxlen=MAX_REMEMBERED)
        self._last: ParsedTurn | None = None

    def listen(self, said: Turn) -> Iterator[Candidate]:
        if said.role == "system":
            return
        turn = parse_turn(said, self._names)
        if said.role == "assistant":
            yield from extract_from_assistant(turn, self._people[0] if len(self._people) == 1 else "the user")
            yield from filter(None, [extract_named_items(turn, self._last if self._alone else None)])
        elif said.role == "tool":
            yield from extract_from_tool(turn)
        else:
            yield from self._of_person(turn)
        self._seen |= turn.words
        self._before.extendleft(EarlierStatement(said, statement) for statement in turn.statements[-MAX_REMEMBERED:])
        self._last = turn

    def _of_person(self, turn: ParsedTurn) -> Iterator[Candidate]:
        asking = self._asking(turn.said)
        whole = any(one.kind != "statement" for one in turn.statements)
        special = [self._special(turn, n) for n in range(len(turn.statements))]
        wrong = set(_corrected_starts(special, turn.said))
        whole = whole or any(one and one.kind == "correction" for one in special)
        if asking and turn.only and not whole and is_answer(asking.question, turn.only.text, self._alone):
            yield self._answer(asking, turn.said, turn.only)
            return
        yield from (candidate for candidate in special if candidate)
        pairs = zip(turn.statements, special, strict=True)
        rest = tuple(one for one, candidate in pairs if candidate is None and one.start not in wrong)
        fresh = len(turn.words - self._seen)
        for group in select_groups(turn._replace(statements=rest), Context(asking is not None, fresh, self._alone)):
            yield self._stated(turn.said, group, asking if group[0] == turn.statements[0] else None)
        if self._alone:
            yield from (self._shown(turn.said, one) for one in turn.shown)

    def _asking(self, said: Turn) -> ParsedTurn | None:
        last = self._last
        return last if last and last.question and last.said.speaker != said.speaker else None

    def _special(self, turn: ParsedTurn, n: int) -> Candidate | None:
        """An instruction, which only somebody gives who is served, or a correction."""
        said, statement = turn.said, turn.statements[n]
        at = Source(said.id, statement.start, statement.end)
        if not statement.english:
            return None
        if self._alone and is_instruction(statement.text):
            return _to_candidate(
                said, Phrase(render_instruction(statement.text, said.speaker)), "instruction", (at,), statement.text
            )
        found = find_amended(statement.verbatim, said, chain(_earlier_in_turn(turn, n), self._before))
        if found is None and not is_correction(statement.verbatim):
            return None
        found = found or find_corrected(statement.verbatim, self._before)
        if found is None:
            return _to_candidate(
                said,
                Phrase(f'{said.speaker} corrected: "{strip_quotation_marks(statement.verbatim)}"'),
                "correction",
                (at,),
                "",
            )
        return self._corrected(said, at, found)

    def _corrected(self, said: Turn, at: Source, found: Correction) -> Candidate:
        earlier = found.earlier
        meant = earlier.statement._replace(text=found.text)
        phrase = phrase_group((meant,), Scene(self._speaker(earlier.said), said.day, impersonal=True))
        source = Source(earlier.said.id, earlier.statement.start, earlier.statement.end)
        return _to_candidate(said, phrase, "correction", (at, source), found.text)

    def _answer(self, asking: ParsedTurn, said: Turn, only: Sentence) -> Candidate:
        text = phrase_answer(asking.question, only.text, self._speaker(said))
        return _to_candidate(
            said, Phrase(text), "statement", (Source(said.id, only.start, only.end), _whole_turn(asking.said)), text
        )

    def _stated(self, said: Turn, group: Group, asking: ParsedTurn | None) -> Candidate:
        scene = Scene(self._speaker(said), said.day, asking.question if asking else "", said.note or group[0].wanted)
        phrase = phrase_group(group, scene)
        sources = [Source(said.id, group[0].start, group[-1].end)]
        if asking and phrase.answers:
            sources.append(_whole_turn(asking.said))
        return _to_candidate(said, phrase, group[0].kind, tuple(sources), " ".join(one.text for one in group))

    def _shown(self, said: Turn, what: Sentence) -> Candidate:
        return _to_candidate(
            said,
            Phrase(phrase_attachment(what.text, self._speaker(said))),
            "event",
            (Source(said.id, what.start, what.end),),
            "",
        )

    def _speaker(self, said: Turn) -> Speaker:
        others = [name for name in self._people if name != said.speaker]
        return Speaker(said.speaker, others[0] if len(others) == 1 else None)


def _to_candidate(said: Turn, phrase: Phrase, kind: Kind, sources: tuple[Source, ...], words: str) -> Candidate:
    subject = find_subject(words, said.speaker) if said.known else None
    sure = confidence(kind, words, said.role)
    return Candidate(phrase.text, subject, kind, sources, importance(kind, words), sure, phrase.since)


def _earlier_in_turn(turn: ParsedTurn, n: int) -> Iterator[EarlierStatement]:
    """What the same turn has stated before."""
    return (EarlierStatement(turn.said, turn.statements[at]) for at in range(n - 1, -1, -1))


def _corrected_starts(special: Iterable[Candidate | None], said: Turn) -> Iterator[int]:
    """Where those statements of a turn begin that it corrects itself: they were never meant."""
    for candidate in special:
        if candidate and candidate.kind == "correction":
            yield from (source.start for source in candidate.sources[1:] if source.id == said.id)


def _forms_of_address(name: str) -> Iterator[str]:
    """How somebody may be called: by name, first name, or the beginning of it."""
    first = (name.lower().split() or [""])[0]
    yield name.lower()
    yield from (first[:length] for length in range(3, len(first) + 1))


def _whole_turn(said: Turn) -> Source:
    return Source(said.id, 0, len(said.text))
