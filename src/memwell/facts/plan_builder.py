"""Build a plan: compare each candidate with stored facts and with the steps before it, and decide what becomes of it.

Text that looks planted but gave no candidate is quoted and quarantined (`quote_planted`), so that people see the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time

from msgspec import structs

from ..clock import to_micros
from ..ids import derive_id
from ..model.collection import TRUST, Entry
from ..screening.screen import find_suspicion, lowest_trust
from ..text.word_sets import word_set
from .neighbours import MAX_SAME_TOPIC, MAX_SIMILAR, Neighbours, NeighbourSearch, Similarities, to_known_fact
from .plan import Candidate, Evidence, Extraction, KnownFact, PlanDraft, Session, Source, Step, Target, Turn
from .reconcile import Decision, StatementParser, combine_confidence, reconcile
from .rules.grammar import quote_speaker
from .rules.passages import blank_code, blank_recalled_memory
from .store import StoredFact
from .wording import subject_person

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


# -- building a plan


Extract = Callable[[Sequence[Turn]], Extraction]


def extract_by_rules(turns: Sequence[Turn]) -> Extraction:
    from .rules.extract import extract_with_reasons

    return extract_with_reasons(turns)


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
