"""Build a plan: compare each candidate with stored facts and with the steps before it, and decide what becomes of it.

Text that looks planted but gave no candidate is quoted and quarantined (`quote_planted`), so that people see the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from ..clock import to_datetime, to_micros
from ..ids import derive_id
from ..model.collection import TRUST, Entry, Place
from ..model.filter import Where
from ..screening.screen import find_suspicion, lowest_trust
from ..storage.port import Row, TenantStore, Tx
from ..text.word_sets import word_set
from .fact_rows import FACTS_PATH, StoredFact
from .plan import Candidate, Evidence, KnownFact, PlanDraft, Session, Source, Step, Target, Turn
from .reconcile import Decision, StatementParser, combine_confidence, reconcile
from .rules.passages import blank_code, blank_recalled_memory
from .rules.phrase import quote_speaker
from .statement import lookup_keys, parse_statement, subject_person

if TYPE_CHECKING:
    from ..models.embedder import Vectors
    from ..search.search_engine import SearchEngine

# -- neighbours: the stored facts that may say the same as a candidate, or something else about the same topic

MAX_SAME_WORDS = 4
MAX_SAME_TOPIC = 8
MAX_SIMILAR = 6
PAGE = 5000


class Neighbours(NamedTuple):
    """A candidate with what was found beside it."""

    candidate: Candidate
    same: str
    """What it has in common with whatever says the same of the same person in nearly the same words."""
    topic: str | None
    """Whom and what it is about, where only one can be true at a time. Of nobody in particular, nothing is."""
    found: tuple[StoredFact, ...] = ()

    @property
    def is_known(self) -> bool:
        """A current fact says the same, so that nothing else need be searched."""
        return bool(self.found) and self.found[0].kind == "fact"

    def beside(self, near: Iterable[StoredFact]) -> Neighbours:
        return self._replace(found=tuple({row.id: row for row in (*self.found, *near)}.values()))


class NeighbourSearch:
    """The facts of one flow or user, to be asked about candidates."""

    def __init__(self, reach: TenantStore, recall: SearchEngine, place: Place) -> None:
        self._reach, self._recall, self._place = reach, recall, place
        self.read = cache(parse_statement)
        """Reads a statement once, however often it is compared."""
        self._similar = Similarities(recall.meaning.vectors)

    def look(self, candidates: Sequence[Candidate]) -> list[Neighbours]:
        """By the same words, by topic, then by similarity."""
        named = [self._named(one) for one in candidates]
        by_name = self._reach.read(lambda tx: self._by_name(tx, named))
        looked = [one._replace(found=tuple(stored)) for one, stored in zip(named, by_name, strict=True)]
        alike = self._alike(list(dict.fromkeys(one.candidate.text for one in looked if not one.is_known)))
        return [one if one.is_known else one.beside(alike.get(one.candidate.text, ())) for one in looked]

    def _named(self, candidate: Candidate) -> Neighbours:
        return Neighbours(candidate, *lookup_keys(self.read(candidate.text, candidate.subject), candidate.subject))

    def similarities(self, looked: Sequence[Neighbours]) -> Similarities:
        """The similarities between candidates and the facts found for any of them."""
        texts = [one.candidate.text for one in looked] + [stored.content for one in looked for stored in one.found]
        self._similar.learn(texts)
        return self._similar

    def _by_name(self, tx: Tx, looked: Sequence[Neighbours]) -> list[list[StoredFact]]:
        row = tx.row("find_collection", dialect=self._place.dialect, name=self._place.name, kind=self._place.kind)
        return (
            [[] for _ in looked] if row is None else [_find_by_keys(tx, row[0], one.same, one.topic) for one in looked]
        )

    def _alike(self, texts: Sequence[str]) -> dict[str, list[StoredFact]]:
        """The facts that are most similar to each of some texts, of which none is there twice."""
        self._similar.learn(texts)
        facts = Where(self._place, FACTS_PATH, ("fact",))
        near = self._recall.alike(self._reach, facts, texts, self._similar.vectors(texts), MAX_SIMILAR)
        listed = sorted({docid for docids in near for docid in docids})
        rows: list[Row] = []
        for at in range(0, len(listed), PAGE):
            docids = msgspec.json.encode(listed[at : at + PAGE]).decode()
            rows += self._reach.read(lambda tx: tx.rows("facts_at", docids=docids))  # noqa: B023 -- run at once
        stored = {row[0]: StoredFact(*row[1:]) for row in rows}
        return {
            text: [stored[docid] for docid in docids if docid in stored]
            for text, docids in zip(texts, near, strict=True)
        }


class Similarities:
    """The meanings of some texts, as vectors; without a model, nothing is similar."""

    def __init__(self, embed: Callable[[Sequence[str]], Vectors | None]) -> None:
        self._embed = embed
        self._row: dict[str, int] = {}
        self._vectors: Vectors | None = None

    def learn(self, texts: Iterable[str]) -> None:
        """Make the vectors of those that are not known yet."""
        new = [text for text in dict.fromkeys(texts) if text not in self._row]
        made = self._embed(new) if new else None
        if made is None:
            return
        self._row |= {text: len(self._row) + number for number, text in enumerate(new)}
        self._vectors = made if self._vectors is None else np.concatenate([self._vectors, made])

    def vectors(self, texts: Sequence[str]) -> Vectors | None:
        """Of texts that were to be learnt; None without a model."""
        rows = [self._row[text] for text in texts if text in self._row]
        return self._vectors[rows] if self._vectors is not None and len(rows) == len(texts) else None

    def between(self, one: str, other: str) -> float:
        """From 0 to 1."""
        rows = self._row.get(one), self._row.get(other)
        if self._vectors is None or rows[0] is None or rows[1] is None:
            return 0.0
        return float(max(0.0, min(1.0, self._vectors[rows[0]] @ self._vectors[rows[1]])))

    def row(self, text: str) -> int | None:
        return None if self._vectors is None else self._row.get(text)

    def nearest(self, row: int, others: Sequence[int], count: int) -> list[int]:
        """The places of those of some other rows that are most similar to one."""
        if self._vectors is None or len(others) <= count:
            return list(range(len(others)))
        similar = (self._vectors[: max(others) + 1] @ self._vectors[row])[others]
        best = similar.argpartition(-count)[-count:]
        return sorted(best.tolist(), key=lambda place: -float(similar[place]))


def to_known_fact(stored: StoredFact, similarity: float) -> KnownFact:
    day = to_datetime(stored.occurred_at).date()
    return KnownFact(stored.id, stored.content, stored.subject, day, similarity)


def _find_by_keys(tx: Tx, collection_id: int, same: str, about: str | None) -> list[StoredFact]:
    rows: list[Row] = tx.rows("facts_same", collection_id=collection_id, same=same, limit=MAX_SAME_WORDS)
    if about is not None:
        rows += tx.rows("facts_about", collection_id=collection_id, topic=about, limit=MAX_SAME_TOPIC)
    return [StoredFact(*row) for row in rows]


# -- building a plan


def build_plan(
    session: Session,
    entries: Sequence[Entry],
    candidates: Sequence[Candidate],
    around: NeighbourSearch,
    *,
    proposed: bool = False,
) -> PlanDraft:
    """Decide what becomes of what some turns say. Nothing is written. `proposed`: a model has worded it, so that its words are
    judged like those that it cites."""
    looked = around.look(candidates)
    making = _PlanBuilder(session, {entry.id: entry for entry in entries}, around.similarities(looked), around.read)
    making.proposed = proposed
    for one in looked:
        making.decide(one)
    return PlanDraft(making.steps, session.distilled_seq + 1, entries[-1].seq)


class _NewFacts:
    """The facts that a plan adds about one person: their step numbers, by lookup keys."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.rows: list[int] = []
        self.same: dict[str, list[int]] = {}
        self.about: dict[str, list[int]] = {}

    def add(self, step: Step, place: int, row: int | None) -> None:
        self.places.append(place)
        self.rows.append(0 if row is None else row)
        self.same.setdefault(step.same, []).append(place)
        if step.topic is not None:
            self.about.setdefault(step.topic, []).append(place)


def _subject_key(subject: str | None) -> str | None:
    return None if subject is None else subject_person(subject)


class _PlanBuilder:
    """A plan in the making: candidates are held against the steps before them, too."""

    def __init__(
        self, session: Session, entries: Mapping[str, Entry], similar: Similarities, read: StatementParser
    ) -> None:
        self.steps: list[Step] = []
        self._session, self._entries, self._similar, self._read = session, entries, similar, read
        self.proposed = False
        self._new: dict[str, int] = {}
        self._of_subject: dict[str | None, _NewFacts] = {}
        self._ended: set[str] = set()
        self._stated: set[str] = set()
        self._stated_upto = 0

    def decide(self, looked: Neighbours) -> None:
        step = self._draft_step(looked)
        if TRUST[step.origin] < TRUST["user"] and self._is_echo(looked):
            self.steps.append(structs.replace(step, do="skip", id="", reason="echo"))
            return
        neighbours = [] if step.held else [*self._stored_neighbours(looked), *self._pending(looked, step)]
        said = datetime.fromtimestamp(step.evidence[0].said_at / 1e6, UTC).date()
        repeats = TRUST[step.origin] < TRUST["user"]
        decision = reconcile(looked.candidate, neighbours, said, repeats=repeats, read=self._read)
        self._settle(step, decision, {one.id: one for one in looked.found})

    def _draft_step(self, looked: Neighbours) -> Step:
        candidate = looked.candidate
        evidence = [self._evidence(source.id, source.start, source.end) for source in candidate.sources]
        said = evidence[0]
        words = self._entries[said.entry].content[said.start : said.end]
        judged = [words, candidate.text] if self.proposed else [words]
        suspicion = next(filter(None, (find_suspicion(text, said.origin) for text in judged)), None)  # type: ignore[arg-type]
        since = candidate.valid_from
        return Step(
            do="add",
            reason="",
            text=candidate.text,
            kind=candidate.kind,
            evidence=evidence,
            importance=candidate.importance,
            confidence=candidate.confidence,
            own=candidate.confidence,
            origin=self._origin(evidence),
            same=looked.same,
            topic=looked.topic,
            subject=candidate.subject,
            speaker=self._entries[said.entry].name if said.origin == "user" else None,
            valid_from=to_micros(datetime.combine(since, time(), UTC)) if since else said.said_at,
            id=derive_id(self._session.dialect, self._session.name, said.entry, str(said.start), candidate.text),
            held=None if suspicion is None else suspicion.reason,
        )

    def _origin(self, evidence: Sequence[Evidence]) -> str:
        """The least trusted origin of the evidence. An assistant's question does not lower the trust in a short answer."""
        said, *asked = evidence
        others = [one.origin for one in asked if self.proposed or one.origin != "assistant"]
        return lowest_trust([said.origin, *others])

    def _is_echo(self, looked: Neighbours) -> bool:
        """Return True if an assistant or tool repeats what is known."""
        words = self._read(looked.candidate.text, None).key
        self._stated.update(
            self._read(step.text, None).key for step in self.steps[self._stated_upto :] if step.do != "skip"
        )
        self._stated_upto = len(self.steps)
        return words in self._stated or any(self._read(one.content, None).key == words for one in looked.found)

    def _evidence(self, entry_id: str, start: int, end: int) -> Evidence:
        entry = self._entries[entry_id]
        return Evidence(entry_id, start, end, entry.origin, entry.occurred_at)

    def _stored_neighbours(self, looked: Neighbours) -> list[KnownFact]:
        text = looked.candidate.text
        found = [one for one in looked.found if one.kind == "fact" and one.id not in self._ended]
        return [to_known_fact(one, self._similar.between(text, one.content)) for one in found]

    def _pending(self, looked: Neighbours, step: Step) -> list[KnownFact]:
        """The facts of earlier steps about the same subject that are the same, on the same topic, or similar."""
        told = self._of_subject.get(_subject_key(step.subject))
        if told is None:
            return []
        text, row = looked.candidate.text, self._similar.row(looked.candidate.text)
        named = [*told.same.get(step.same, ()), *(told.about.get(step.topic, ()) if step.topic else ())]
        near = range(len(told.places)) if row is None else self._similar.nearest(row, told.rows, MAX_SIMILAR)
        chosen = dict.fromkeys([*sorted(named)[-MAX_SAME_TOPIC:], *(told.places[place] for place in near)])
        return [self._known(text, self.steps[place]) for place in chosen if not self.steps[place].past]

    def _known(self, text: str, step: Step) -> KnownFact:
        day = datetime.fromtimestamp(step.evidence[0].said_at / 1e6, UTC).date()
        return KnownFact(step.id, step.text, step.subject, day, self._similar.between(text, step.text))

    # -- what was decided --------------------------------------------------------------------------------------------

    def _settle(self, step: Step, decision: Decision, stored: Mapping[str, StoredFact]) -> None:
        step = structs.replace(step, reason=decision.reason)
        match decision.do:
            case "skip":
                self.steps.append(structs.replace(step, do="skip", id=""))
            case "merge":
                self._merge(step, decision, stored)
            case _ if step.id in self._new:
                self.steps.append(structs.replace(step, do="skip", id="", reason="same_words"))
            case _:
                self._add(step, decision, stored)

    def _merge(self, step: Step, decision: Decision, stored: Mapping[str, StoredFact]) -> None:
        into = decision.targets[0]
        if into in self._new:
            return self._merge_new(step, self._new[into], decision.fuller)
        target = _to_target(stored[into])
        raised = combine_confidence(target.confidence, step.confidence)
        self.steps.append(structs.replace(step, do="merge", id=into, targets=[target], confidence=raised))

    def _merge_new(self, step: Step, place: int, fuller: bool) -> None:
        """Two statements of one plan that say the same: the fact is told by the one that says more, the other confirms it."""
        first = self.steps[place]
        sure = combine_confidence(first.confidence, step.confidence)
        more = structs.replace(step, do="merge", id=first.id, confidence=sure)
        if fuller and TRUST[step.origin] >= TRUST[first.origin]:
            first, more = _swap_wordings(first, more)
        self.steps[place] = structs.replace(first, confidence=sure)
        self.steps.append(more)

    def _add(self, step: Step, decision: Decision, stored: Mapping[str, StoredFact]) -> None:
        superseded = decision.targets if decision.do == "supersede" else ()
        self._ended.update(superseded)
        for fact_id in superseded:
            if fact_id in self._new:
                place = self._new[fact_id]
                over = {"past": True, "valid_to": step.valid_from, "ended_by": step.id}
                self.steps[place] = structs.replace(self.steps[place], **over)
        targets = [_to_target(stored[fact_id]) for fact_id in superseded if fact_id in stored]
        do = "supersede" if superseded else "add"
        self._new[step.id] = len(self.steps)
        if not step.held:
            told = self._of_subject.setdefault(_subject_key(step.subject), _NewFacts())
            told.add(step, len(self.steps), self._similar.row(step.text))
        ended = [fact_id for fact_id in superseded if fact_id in self._new and fact_id not in stored]
        until, by = self._next_known(decision.targets, stored) if decision.past else (None, "")
        life = {"past": decision.past, "valid_to": until, "ended_by": by}
        self.steps.append(structs.replace(step, do=do, targets=targets, ended=ended, **life))

    def _next_known(self, later: Sequence[str], stored: Mapping[str, StoredFact]) -> tuple[int | None, str]:
        """From when on something else is known to be true in place of what was, and what."""
        begun = [(stored[one].valid_from or stored[one].occurred_at, one) for one in later if one in stored]
        begun += [(self.steps[self._new[one]].valid_from, one) for one in later if one in self._new]
        return min(begun, default=(None, ""))


def _swap_wordings(first: Step, more: Step) -> tuple[Step, Step]:
    """Two steps, each with what the other tells; it is true since the first one told it."""
    told = ("text", "same", "topic", "kind", "evidence", "origin", "speaker", "importance", "own")
    one, two = ({name: getattr(step, name) for name in told} for step in (first, more))
    return structs.replace(first, **two), structs.replace(more, valid_from=first.valid_from, **one)


def _to_target(stored: StoredFact) -> Target:
    return Target(stored.id, stored.version, 1.0 if stored.confidence is None else stored.confidence)


# -- planted text

MAX_TYPED = 4000
"""Characters of a turn that somebody may have typed. A longer one was pasted, and only what it states is judged."""
MAX_QUOTE = 500
IMPORTANCE, CONFIDENCE = 0.1, 0.5
_NOT_PEOPLE = word_set("assistant tool system")


def quote_planted(turns: Sequence[Turn], found: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that quote the parts of turns that look planted and gave no other candidate."""
    taken: dict[str, list[Source]] = {}
    for candidate in found:
        taken.setdefault(candidate.sources[0].id, []).append(candidate.sources[0])
    people = (said for said in turns if said.role not in _NOT_PEOPLE and len(said.text) <= MAX_TYPED)
    return [one for said in people for one in _find_planted(said, taken.get(said.id, ()))]


def _find_planted(said: Turn, taken: Sequence[Source]) -> Iterator[Candidate]:
    text = blank_code(blank_recalled_memory(said.text))
    for start, end in _unused_spans(text, taken):
        words = text[start:end].strip()
        if words and find_suspicion(words) is not None:
            shown = words if len(words) <= MAX_QUOTE else f"{words[:MAX_QUOTE]}…"
            subject, at = said.speaker if said.known else None, Source(said.id, start, end)
            yield Candidate(quote_speaker(shown, said.speaker), subject, "instruction", (at,), IMPORTANCE, CONFIDENCE)


def _unused_spans(text: str, taken: Sequence[Source]) -> Iterator[tuple[int, int]]:
    """From where to where nothing was taken."""
    at = 0
    for source in sorted(taken, key=lambda source: source.start):
        if source.start > at:
            yield at, source.start
        at = max(at, source.end)
    if at < len(text):
        yield at, len(text)
