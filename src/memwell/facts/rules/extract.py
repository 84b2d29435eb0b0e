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
from ..plan import Candidate, Kind, Said, Source
from .assistant import named, of_assistant, of_tool
from .classify import confidence, importance, whom
from .corrections import Corrected, Told, corrected, is_instruction, made_right, takes_back, wanted
from .parse import Heard, heard
from .phrase import Phrase, Scene, phrased, shown
from .select import Context, Group, chosen
from .sentences import Sentence
from .short_answers import answered, is_answer
from .wording import Speaker, plain

REMEMBERED = 24
"""How many statements back a correction may reach."""
_MACHINES = word_set("assistant tool system")


def extract(turns: Sequence[Said]) -> list[Candidate]:
    """The statements of these turns that may become facts, in the order in which they were made."""
    room = _Room(turns)
    return [candidate for turn in turns for candidate in _once(room.listen(turn))]


def _once(candidates: Iterable[Candidate]) -> Iterable[Candidate]:
    """Each statement of a turn once, however often the turn repeats it."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.text, candidate)
    return first.values()


class _Room:
    """Who is there, and what has been said so far."""

    def __init__(self, turns: Sequence[Said]) -> None:
        self._people = list(dict.fromkeys(turn.speaker for turn in turns if turn.role not in _MACHINES))
        self._names = {called for name in self._people for called in _callings(name)}
        self._alone = len(self._people) < 2
        self._seen: set[str] = set()
        self._before: deque[Told] = deque(maxlen=REMEMBERED)
        self._last: Heard | None = None

    def listen(self, said: Said) -> Iterator[Candidate]:
        if said.role == "system":
            return
        turn = heard(said, self._names)
        if said.role == "assistant":
            yield from of_assistant(turn, self._people[0] if len(self._people) == 1 else "the user")
            yield from filter(None, [named(turn, self._last if self._alone else None)])
        elif said.role == "tool":
            yield from of_tool(turn)
        else:
            yield from self._of_person(turn)
        self._seen |= turn.words
        self._before.extendleft(Told(said, statement) for statement in turn.statements[-REMEMBERED:])
        self._last = turn

    def _of_person(self, turn: Heard) -> Iterator[Candidate]:
        asking = self._asking(turn.said)
        whole = any(one.kind != "statement" for one in turn.statements)
        special = [self._special(turn, n) for n in range(len(turn.statements))]
        wrong = set(_taken_back(special, turn.said))
        whole = whole or any(one and one.kind == "correction" for one in special)
        if asking and turn.only and not whole and is_answer(asking.question, turn.only.text, self._alone):
            yield self._answer(asking, turn.said, turn.only)
            return
        yield from (candidate for candidate in special if candidate)
        pairs = zip(turn.statements, special, strict=True)
        rest = tuple(one for one, candidate in pairs if candidate is None and one.start not in wrong)
        fresh = len(turn.words - self._seen)
        for group in chosen(turn._replace(statements=rest), Context(asking is not None, fresh, self._alone)):
            yield self._stated(turn.said, group, asking if group[0] == turn.statements[0] else None)
        if self._alone:
            yield from (self._shown(turn.said, one) for one in turn.shown)

    def _asking(self, said: Said) -> Heard | None:
        last = self._last
        return last if last and last.question and last.said.speaker != said.speaker else None

    def _special(self, turn: Heard, n: int) -> Candidate | None:
        """An instruction, which only somebody gives who is served, or a correction."""
        said, statement = turn.said, turn.statements[n]
        at = Source(said.id, statement.start, statement.end)
        if not statement.english:
            return None
        if self._alone and is_instruction(statement.text):
            return _made(said, Phrase(wanted(statement.text, said.speaker)), "instruction", (at,), statement.text)
        found = made_right(statement.verbatim, said, chain(_newest_first(turn, n), self._before))
        if found is None and not takes_back(statement.verbatim):
            return None
        found = found or corrected(statement.verbatim, self._before)
        if found is None:
            return _made(
                said, Phrase(f'{said.speaker} corrected: "{plain(statement.verbatim)}"'), "correction", (at,), ""
            )
        return self._corrected(said, at, found)

    def _corrected(self, said: Said, at: Source, found: Corrected) -> Candidate:
        earlier = found.earlier
        meant = earlier.statement._replace(text=found.text)
        phrase = phrased((meant,), Scene(self._speaker(earlier.said), said.day, impersonal=True))
        source = Source(earlier.said.id, earlier.statement.start, earlier.statement.end)
        return _made(said, phrase, "correction", (at, source), found.text)

    def _answer(self, asking: Heard, said: Said, only: Sentence) -> Candidate:
        text = answered(asking.question, only.text, self._speaker(said))
        return _made(
            said, Phrase(text), "statement", (Source(said.id, only.start, only.end), _whole(asking.said)), text
        )

    def _stated(self, said: Said, group: Group, asking: Heard | None) -> Candidate:
        scene = Scene(self._speaker(said), said.day, asking.question if asking else "", said.note or group[0].wanted)
        phrase = phrased(group, scene)
        sources = [Source(said.id, group[0].start, group[-1].end)]
        if asking and phrase.answers:
            sources.append(_whole(asking.said))
        return _made(said, phrase, group[0].kind, tuple(sources), " ".join(one.text for one in group))

    def _shown(self, said: Said, what: Sentence) -> Candidate:
        return _made(
            said, Phrase(shown(what.text, self._speaker(said))), "event", (Source(said.id, what.start, what.end),), ""
        )

    def _speaker(self, said: Said) -> Speaker:
        others = [name for name in self._people if name != said.speaker]
        return Speaker(said.speaker, others[0] if len(others) == 1 else None)


def _made(said: Said, phrase: Phrase, kind: Kind, sources: tuple[Source, ...], words: str) -> Candidate:
    subject = whom(words, said.speaker) if said.known else None
    sure = confidence(kind, words, said.role)
    return Candidate(phrase.text, subject, kind, sources, importance(kind, words), sure, phrase.since)


def _newest_first(turn: Heard, n: int) -> Iterator[Told]:
    """What the same turn has stated before."""
    return (Told(turn.said, turn.statements[at]) for at in range(n - 1, -1, -1))


def _taken_back(special: Iterable[Candidate | None], said: Said) -> Iterator[int]:
    """Where those statements of a turn begin that it corrects itself: they were never meant."""
    for candidate in special:
        if candidate and candidate.kind == "correction":
            yield from (source.start for source in candidate.sources[1:] if source.id == said.id)


def _callings(name: str) -> Iterator[str]:
    """How somebody may be called: by name, first name, or the beginning of it."""
    first = (name.lower().split() or [""])[0]
    yield name.lower()
    yield from (first[:length] for length in range(3, len(first) + 1))


def _whole(said: Said) -> Source:
    return Source(said.id, 0, len(said.text))
