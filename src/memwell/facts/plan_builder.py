"""Build a plan: compare each candidate with stored facts and with earlier steps, and choose its step.

Text that looks like a planted instruction but gave no candidate is quoted and quarantined (`quote_planted`), so that people can
see the attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from ..clock import to_datetime, to_micros
from ..ids import derive_id
from ..model.collection import TRUST, Entry, Place
from ..model.filter import Where
from ..screening.found_secret import FoundSecret
from ..screening.screen import find_suspicion, lowest_trust
from ..screening.secrets import MASK, SHOWN_MASK, list_secrets, mask_secrets, shorten_masks
from ..storage.port import Row, TenantStore, Tx
from ..text.hidden import remove_hidden
from .changes import Cue, find_cue
from .datatypes import (
    NOT_PEOPLE,
    Candidate,
    Evidence,
    KnownFact,
    PlanDraft,
    Session,
    Source,
    Step,
    Target,
    Turn,
    is_unnamed,
    name_unnamed_user,
)
from .fact_rows import FACTS_PATH, StoredFact
from .periods import EARLIEST, find_period
from .reconcile import Decision, Reason, combine_confidence, reconcile
from .rules.passages import blank_code, blank_recalled_memory
from .rules.phrase import quote_speaker
from .wording import lookup_keys, parse_statement, subject_person

if TYPE_CHECKING:
    from ..models.embedder import Vectors
    from ..search.search_engine import SearchEngine

# -- neighbours: stored facts that may have the same meaning or the same topic as a candidate

MAX_SAME_WORDS = 4
MAX_SAME_TOPIC = 8
MAX_SIMILAR = 6
MIN_STRIPPED = 8
PAGE = 5000


class Neighbours(NamedTuple):
    """A candidate, its lookup keys, and the stored facts near it."""

    candidate: Candidate
    same: str
    """Lookup key shared by statements with the same words about the same subject."""
    topic: str | None
    """Lookup key of the subject and the slot, for slots that hold one value at a time."""
    written: tuple[str, str | None] = ("", None)
    """Both keys of the same statement without a subject, as the application may have written it."""
    found: tuple[StoredFact, ...] = ()

    @property
    def is_known(self) -> bool:
        """True if a current fact has the same words, so that no further search is needed."""
        return bool(self.found) and self.found[0].kind == "fact"


class NeighbourSearch:
    """Finds the stored facts of a flow or user near candidates."""

    def __init__(self, reach: TenantStore, recall: SearchEngine, place: Place) -> None:
        self._reach, self._recall, self._place = reach, recall, place
        self.parse = cache(parse_statement)
        self.similar = Similarities(recall.meaning.vectors)

    def find(self, candidates: Sequence[Candidate]) -> list[Neighbours]:
        """Find the neighbours of each candidate: by the same words, by topic, then by similarity."""
        keyed = [self._find_keys(one) for one in candidates]
        by_key = self._reach.read(lambda tx: self._find_by_key(tx, keyed))
        neighbours = [one._replace(found=tuple(stored)) for one, stored in zip(keyed, by_key, strict=True)]
        open_ = [_strip_person(one.candidate) for one in neighbours if not one.is_known]
        alike = self._find_similar(list(dict.fromkeys(open_)))
        for number, one in enumerate(neighbours):
            if not one.is_known:
                rows = (*one.found, *alike.get(_strip_person(one.candidate), ()))
                neighbours[number] = one._replace(found=tuple({row.id: row for row in rows}.values()))
        self.similar.learn(
            [one.candidate.text for one in neighbours] + [stored.content for one in neighbours for stored in one.found]
        )
        return neighbours

    def _find_keys(self, candidate: Candidate) -> Neighbours:
        text, subject = candidate.text, candidate.subject
        parsed = self.parse(text, subject)
        bare = parsed if subject is None or is_unnamed(subject) else self.parse(text, None)
        return Neighbours(candidate, *lookup_keys(parsed, subject), lookup_keys(bare, None))

    def _find_by_key(self, tx: Tx, keyed: Sequence[Neighbours]) -> list[list[StoredFact]]:
        place = self._place
        row = tx.row("find_collection", dialect=place.dialect, name=place.name, kind=place.kind)
        facts: list[list[StoredFact]] = []
        for one in keyed:
            rows: list[Row] = []
            if row is not None:
                same, topic = one.written
                rows += tx.rows("facts_same", collection_id=row[0], same=one.same, written=same, limit=MAX_SAME_WORDS)
                if one.topic is not None:
                    about = {"topic": one.topic, "written": topic or one.topic}
                    rows += tx.rows("facts_about", collection_id=row[0], **about, limit=MAX_SAME_TOPIC)
            facts.append([StoredFact(*columns) for columns in rows])
        return facts

    def _find_similar(self, texts: Sequence[str]) -> dict[str, list[StoredFact]]:
        """Return the most similar facts for each text. The texts are distinct."""
        self.similar.learn(texts)
        facts = Where(self._place, FACTS_PATH, ("fact",))
        near = self._recall.alike(self._reach, facts, texts, self.similar.vectors(texts), MAX_SIMILAR)
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


def _strip_person(candidate: Candidate) -> str:
    """Return a statement without its person, whose name would make all facts about that person similar."""
    text, person = candidate.text, subject_person(candidate.subject) if candidate.subject else ""
    name = "the user" if is_unnamed(person) else person.split()[0] if person else ""
    start = text.lower().find(name) if len(name) > 1 else -1
    if start < 0:
        return text
    before = text[:start].removesuffix("According to ").removesuffix("According to")
    after = text[start + len(name) :].removeprefix("'s").removeprefix("'").lstrip(": ")
    return f"{before}{after}" if len(after) >= MIN_STRIPPED else text


class Similarities:
    """The vectors of texts. Without a model, all similarities are 0."""

    def __init__(self, embed: Callable[[Sequence[str]], Vectors | None]) -> None:
        self._embed = embed
        self._row: dict[str, int] = {}
        self._vectors: Vectors | None = None

    def learn(self, texts: Iterable[str]) -> None:
        """Embed texts that have no vector yet."""
        new = [text for text in dict.fromkeys(texts) if text not in self._row]
        vectors = self._embed(new) if new else None
        if vectors is not None:
            self._row |= {text: len(self._row) + number for number, text in enumerate(new)}
            self._vectors = vectors if self._vectors is None else np.concatenate([self._vectors, vectors])

    def vectors(self, texts: Sequence[str]) -> Vectors | None:
        """Return the vectors of texts that were passed to `learn`; None without a model."""
        rows = [self._row[text] for text in texts if text in self._row]
        return self._vectors[rows] if self._vectors is not None and len(rows) == len(texts) else None

    def between(self, one: str, other: str) -> float:
        """Return the similarity of two texts, from 0 to 1."""
        rows = self._row.get(one), self._row.get(other)
        if self._vectors is None or rows[0] is None or rows[1] is None:
            return 0.0
        return float(max(0.0, min(1.0, self._vectors[rows[0]] @ self._vectors[rows[1]])))

    def row(self, text: str) -> int | None:
        return self._row.get(text)

    def nearest(self, row: int, others: Sequence[int], count: int) -> list[int]:
        """Return the indexes of those `others` that are most similar to a row, best first."""
        if self._vectors is None or len(others) <= count:
            return list(range(len(others)))
        similar = (self._vectors[: max(others) + 1] @ self._vectors[row])[others]
        best = similar.argpartition(-count)[-count:]
        return sorted(best.tolist(), key=lambda place: -float(similar[place]))


# -- building a plan


def build_plan(
    session: Session,
    entries: Sequence[Entry],
    candidates: Sequence[Candidate],
    search: NeighbourSearch,
) -> PlanDraft:
    """Choose a step for each candidate. Nothing is written."""
    by_id = {entry.id: entry for entry in entries}
    screened = _Screen(by_id)
    builder = _PlanBuilder(session, by_id, search, screened)
    for one in search.find([screened.mask(candidate) for candidate in candidates]):
        builder.decide(one)
    return PlanDraft(builder.steps, session.distilled_seq + 1, entries[-1].seq)


class _Screen:
    """Finds the candidates that rest on a secret or look planted, which are quarantined.

    If a model worded a candidate, its text is screened as well as the passage that it cites.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries
        self._secrets = cache(lambda id_: list_secrets(self._entries[id_].content))

    def mask(self, candidate: Candidate) -> Candidate:
        """Hide secrets in a candidate, also one that a question and its answer make together, and remove hidden characters."""
        return candidate._replace(text=remove_hidden(shorten_masks(mask_secrets(candidate.text))))

    def find_reason(self, candidate: Candidate) -> str | None:
        """Return the reason for a quarantine; None if there is none."""
        source = candidate.sources[0]
        statement = self._entries[source.id]
        if SHOWN_MASK in candidate.text or any(map(self._overlaps_secret, candidate.sources)):
            return "secret"
        words = statement.content[source.start : source.end]
        judged = [words, candidate.text] if candidate.decided_by == "model" else [words]
        found = (find_suspicion(text, statement.origin) for text in judged)  # type: ignore[arg-type]
        return next((one.reason for one in found if one is not None), None)

    def _overlaps_secret(self, source: Source) -> bool:
        secrets: list[FoundSecret] = self._secrets(source.id)
        return any(one.start < source.end and source.start < one.end for one in secrets)


class _NewFacts:
    """The facts that a plan adds about one person: the numbers of their steps by lookup key, and their vectors' rows."""

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


CUE_REACH = 40
"""Number of characters before a passage in which a sign of a correction may stand."""
MAX_CUE_TEXT = 1000


class _PlanBuilder:
    """Builds the steps one by one. Each candidate is also compared with earlier steps."""

    def __init__(
        self, session: Session, entries: Mapping[str, Entry], search: NeighbourSearch, screen: _Screen
    ) -> None:
        self.steps: list[Step] = []
        self._session, self._entries, self._screen = session, entries, screen
        self._similar, self._parse = search.similar, search.parse
        self._new: dict[str, int] = {}
        self._of_person: defaultdict[str | None, _NewFacts] = defaultdict(_NewFacts)
        self._ended: set[str] = set()
        self._stated: set[str] = set()
        self._stated_upto = 0

    def decide(self, neighbours: Neighbours) -> None:
        candidate, step = neighbours.candidate, self._draft_step(neighbours)
        if candidate.dropped:
            self.steps.append(structs.replace(step, do="skip", id="", reason=f"{Reason.MODEL}:{candidate.dropped}"))
            return
        repeats = TRUST[step.origin] < TRUST["user"]
        if repeats and self._is_echo(neighbours):
            self.steps.append(structs.replace(step, do="skip", id="", reason=Reason.ECHO))
            return
        known = [] if step.held else [*self._stored_neighbours(neighbours), *self._new_neighbours(neighbours, step)]
        cue = self._find_cue(candidate.sources[0])
        decision = reconcile(candidate, known, _day(step), repeats=repeats, cue=cue, parse=self._parse)
        step = structs.replace(step, reason=decision.reason)
        stored = {one.id: one for one in neighbours.found}
        match decision.do:
            case "skip":
                self.steps.append(structs.replace(step, do="skip", id=""))
            case "merge":
                self._merge(step, decision, stored)
            case _ if step.id in self._new:
                self.steps.append(structs.replace(step, do="skip", id="", reason=Reason.SAME_WORDS))
            case _:
                self._add(step, decision, stored)

    def _find_cue(self, source: Source) -> Cue:
        """Return the sign, in or before a passage, that it corrects an earlier statement: "Scratch that, …"."""
        words = self._entries[source.id].content[max(0, source.start - CUE_REACH) : source.end]
        return find_cue(words[:MAX_CUE_TEXT])

    def _draft_step(self, neighbours: Neighbours) -> Step:
        candidate, entries = neighbours.candidate, self._entries
        evidence = [
            Evidence(id_, start, end, entries[id_].origin, entries[id_].occurred_at)
            for id_, start, end in candidate.sources
        ]
        statement, *others = evidence
        # the question of an assistant does not lower the trust in a short answer
        origins = [one.origin for one in others if one.origin != "assistant"]
        period = find_period(candidate.text)
        since = candidate.valid_from or period.since
        if since is None and period.until and period.until < to_datetime(statement.said_at).date():
            since = EARLIEST
        return Step(
            do="add",
            reason="",
            text=candidate.text,
            kind=candidate.kind,
            evidence=evidence,
            importance=candidate.importance,
            confidence=candidate.confidence,
            own=candidate.confidence,
            origin=lowest_trust([statement.origin, *origins]),
            same=neighbours.same,
            topic=neighbours.topic,
            subject=candidate.subject,
            speaker=entries[statement.entry].name if statement.origin == "user" else None,
            valid_from=_to_micros(since) if since else statement.said_at,
            valid_to=_to_micros(period.until + timedelta(days=1)) - 1 if period.until else None,
            id=derive_id(
                self._session.dialect, self._session.name, statement.entry, str(statement.start), candidate.text
            ),
            held=self._screen.find_reason(candidate),
            decided_by=candidate.decided_by,
        )

    def _is_echo(self, neighbours: Neighbours) -> bool:
        """Return True if an assistant or tool repeats a known statement."""
        words = self._parse(neighbours.candidate.text, None).key
        new = self.steps[self._stated_upto :]
        self._stated.update(self._parse(step.text, None).key for step in new if step.do != "skip")
        self._stated_upto = len(self.steps)
        return words in self._stated or any(self._parse(one.content, None).key == words for one in neighbours.found)

    def _stored_neighbours(self, neighbours: Neighbours) -> list[KnownFact]:
        text = neighbours.candidate.text
        return [
            KnownFact(
                one.id,
                one.content,
                one.subject,
                to_datetime(one.occurred_at).date(),
                self._similar.between(text, one.content),
                one.origin == "system" and one.subject in (None, name_unnamed_user(self._session.path)),
            )
            for one in neighbours.found
            if one.kind == "fact" and one.id not in self._ended
        ]

    def _new_neighbours(self, neighbours: Neighbours, step: Step) -> list[KnownFact]:
        """Return new facts about the same subject with the same words, on the same topic, or with similar text."""
        new = self._of_person[_person(step)]
        text, row = neighbours.candidate.text, self._similar.row(neighbours.candidate.text)
        keyed = [*new.same.get(step.same, ()), *(new.about.get(step.topic, ()) if step.topic else ())]
        near = range(len(new.places)) if row is None else self._similar.nearest(row, new.rows, MAX_SIMILAR)
        chosen = dict.fromkeys([*sorted(keyed)[-MAX_SAME_TOPIC:], *(new.places[place] for place in near)])
        earlier = [self.steps[place] for place in chosen if not self.steps[place].past]
        return [
            KnownFact(one.id, one.text, one.subject, _day(one), self._similar.between(text, one.text))
            for one in earlier
        ]

    def _merge(self, step: Step, decision: Decision, stored: Mapping[str, StoredFact]) -> None:
        into = decision.targets[0]
        if into in self._new:
            return self._merge_new(step, self._new[into], decision.fuller)
        target = _to_target(stored[into])
        raised = combine_confidence(target.confidence, step.confidence)
        self.steps.append(structs.replace(step, do="merge", id=into, targets=[target], confidence=raised))

    def _merge_new(self, step: Step, place: int, fuller: bool) -> None:
        """Merge two statements of one plan. The fact takes the fuller wording, and the other statement confirms it."""
        first = self.steps[place]
        sure = combine_confidence(first.confidence, step.confidence)
        more = structs.replace(step, do="merge", id=first.id, confidence=sure)
        if fuller and TRUST[step.origin] >= TRUST[first.origin]:
            one, two = ({name: getattr(wording, name) for name in _OF_WORDING} for wording in (first, more))
            # the fact is true since the first of the two statements
            first, more = structs.replace(first, **two), structs.replace(more, valid_from=first.valid_from, **one)
        self.steps[place] = structs.replace(first, confidence=sure)
        self.steps.append(more)

    def _add(self, step: Step, decision: Decision, stored: Mapping[str, StoredFact]) -> None:
        superseded = decision.targets if decision.do == "supersede" else ()
        self._ended.update(superseded)
        for fact_id in superseded:
            if fact_id in self._new:
                place = self._new[fact_id]
                over = max(step.valid_from, self.steps[place].valid_from)
                ending = {"past": True, "valid_to": over, "ended_by": step.id}
                self.steps[place] = structs.replace(self.steps[place], **ending)
        targets = [_to_target(stored[fact_id]) for fact_id in superseded if fact_id in stored]
        self._new[step.id] = len(self.steps)
        if not step.held:
            self._of_person[_person(step)].add(step, len(self.steps), self._similar.row(step.text))
        ended = [fact_id for fact_id in superseded if fact_id in self._new and fact_id not in stored]
        until, by = self._next_known(decision.targets, stored) if decision.past else (None, "")
        life = {"past": decision.past, "valid_to": step.valid_to if until is None else until, "ended_by": by}
        do = "supersede" if superseded else "add"
        self.steps.append(structs.replace(step, do=do, targets=targets, ended=ended, **life))

    def _next_known(self, later: Sequence[str], stored: Mapping[str, StoredFact]) -> tuple[int | None, str]:
        """Return the earliest start of validity among later facts, and that fact's id."""
        begun = [(stored[one].valid_from or stored[one].occurred_at, one) for one in later if one in stored]
        begun += [(self.steps[self._new[one]].valid_from, one) for one in later if one in self._new]
        return min(begun, default=(None, ""))


_OF_WORDING = ("text", "same", "topic", "kind", "evidence", "origin", "speaker", "importance", "own")


def _to_micros(day: date) -> int:
    return to_micros(datetime.combine(day, time(), UTC))


def _day(step: Step) -> date:
    return to_datetime(step.evidence[0].said_at).date()


def _person(step: Step) -> str | None:
    return None if step.subject is None else subject_person(step.subject)


def _to_target(stored: StoredFact) -> Target:
    return Target(stored.id, stored.version, 1.0 if stored.confidence is None else stored.confidence)


# -- planted text

MAX_TYPED = 4000
"""Maximum length of a turn that a person may have typed. Longer turns were pasted; only their candidates are screened."""
MAX_QUOTE = 500


def quote_planted(turns: Sequence[Turn], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates that quote parts of turns that look planted or hold a secret, and gave no other candidate. Secrets are
    masked in them."""
    taken = defaultdict[str, list[Source]](list)
    for one in candidates:
        taken[one.sources[0].id].append(one.sources[0])
    planted = []
    for turn in turns:
        if turn.role in NOT_PEOPLE:
            continue
        memory = blank_recalled_memory(mask_secrets(turn.text))
        text = blank_code(memory)
        if MASK in memory:  # a secret counts in code, too
            text = "".join(one if one == MASK else other for one, other in zip(memory, text, strict=True))
        elif len(turn.text) > MAX_TYPED:
            continue
        for start, end in _unused_spans(text, taken[turn.id]):
            words = text[start:end].strip()
            if MASK in words or (words and len(turn.text) <= MAX_TYPED and find_suspicion(words) is not None):
                excerpt = _cut_quote(words)
                subject, source = turn.speaker if turn.known else None, Source(turn.id, start, end)
                quote = quote_speaker(excerpt, turn.speaker)
                planted.append(Candidate(quote, subject, "instruction", (source,), importance=0.1, confidence=0.5))
    return planted


def _cut_quote(words: str) -> str:
    """Cut a quote to `MAX_QUOTE` characters, around its first secret if it has one."""
    start = max(0, words.find(MASK) - MAX_QUOTE // 2)
    words = shorten_masks(words[start:])
    return words if len(words) <= MAX_QUOTE else f"{words[:MAX_QUOTE]}…"


def _unused_spans(text: str, taken: Sequence[Source]) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text outside all sources."""
    at = 0
    for source in sorted(taken, key=lambda source: source.start):
        if source.start > at:
            yield at, source.start
        at = max(at, source.end)
    if at < len(text):
        yield at, len(text)
