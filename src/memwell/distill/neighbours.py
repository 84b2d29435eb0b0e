"""What is known already and may say the same as a candidate, or something else about the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..clock import to_datetime
from ..errors import ModelFailed
from ..model.collection import Place
from ..model.query import Query, Where
from ..storage.port import Reach, Row, Tx
from .reconciliation.topics import key, topic
from .stored import SHARED, Stored
from .values import Candidate, Known

if TYPE_CHECKING:
    from ..models.embedder import Vectors
    from ..recall.search import Recall

SAME = 4
ABOUT = 8
SIMILAR = 6


class Looked(NamedTuple):
    """A candidate with what was found beside it."""

    candidate: Candidate
    same: str
    topic: str | None
    found: tuple[Stored, ...]


def same_key(candidate: Candidate) -> str:
    """What statements have in common that say the same of the same person in nearly the same words."""
    return same(candidate.text, candidate.subject)


def same(text: str, subject: str | None) -> str:
    return f"{(subject or '').casefold()}\x1f{key(text, subject)}"


def topic_key(candidate: Candidate) -> str | None:
    """Whom and what a statement is about, where only one can be true at a time. Of nobody in particular, nothing is."""
    found = topic(candidate.text, candidate.subject)
    return None if found is None or candidate.subject is None else slot(candidate.subject, found.slot)


def slot(subject: str, name: str) -> str:
    return f"{subject.casefold()}\x1f{name}"


class Neighbourhood:
    """The facts of one flow or user, to be asked about candidates."""

    def __init__(self, reach: Reach, recall: Recall, place: Place) -> None:
        self._reach, self._recall, self._place = reach, recall, place

    def look(self, candidates: Sequence[Candidate]) -> list[Looked]:
        """By the same words, by topic, then by similarity."""
        named = [(one, same_key(one), topic_key(one)) for one in candidates]
        by_name = self._reach.read(lambda tx: self._by_name(tx, [(same, about) for _, same, about in named]))
        found = []
        for (one, same, about), stored in zip(named, by_name, strict=True):
            near = stored if any(row.kind == "fact" for row in stored[:1]) else [*stored, *self._similar(one)]
            found.append(Looked(one, same, about, tuple({row.id: row for row in near}.values())))
        return found

    def similarities(self, looked: Sequence[Looked]) -> Similar:
        """How similar texts are in meaning: candidates, and what was found for any of them."""
        texts = [one.candidate.text for one in looked] + [stored.content for one in looked for stored in one.found]
        distinct = list(dict.fromkeys(texts))
        embedder = self._recall.meaning.embedder()
        if embedder is None or not distinct:
            return Similar([], None)
        try:
            return Similar(distinct, embedder.embed(distinct))
        except ModelFailed as error:
            self._recall.meaning.fail(error)
            return Similar([], None)

    def _by_name(self, tx: Tx, names: Sequence[tuple[str, str | None]]) -> list[list[Stored]]:
        row = tx.row("find_collection", dialect=self._place.dialect, name=self._place.name, kind=self._place.kind)
        return [[] for _ in names] if row is None else [_named(tx, row[0], *name) for name in names]

    def _similar(self, candidate: Candidate) -> list[Stored]:
        query = Query(candidate.text[:4096], (Where(self._place, SHARED, ("fact",)),), limit=SIMILAR)
        hits = self._recall.search(self._reach, query).hits
        ids = msgspec.json.encode([hit.entry.id for hit in hits]).decode()
        rows = self._reach.read(lambda tx: tx.rows("facts_of", ids=ids)) if hits else []
        return [Stored(*row) for row in rows]


class Similar:
    """The meanings of some texts, as vectors; without a model, nothing is similar."""

    def __init__(self, texts: Sequence[str], vectors: Vectors | None) -> None:
        self._row = {text: number for number, text in enumerate(texts)}
        self._vectors = vectors

    def between(self, one: str, other: str) -> float:
        """From 0 to 1."""
        rows = self._row.get(one), self._row.get(other)
        if self._vectors is None or rows[0] is None or rows[1] is None:
            return 0.0
        return float(max(0.0, min(1.0, self._vectors[rows[0]] @ self._vectors[rows[1]])))

    def nearest(self, text: str, others: Sequence[str], count: int) -> list[int]:
        """The places of those of some others that are most similar."""
        row = self._row.get(text)
        if self._vectors is None or row is None or len(others) <= count:
            return list(range(len(others)))
        rows = [self._row.get(other, row) for other in others]
        similar = self._vectors[rows] @ self._vectors[row]
        return sorted(range(len(others)), key=lambda place: -float(similar[place]))[:count]


def known(stored: Stored, similarity: float) -> Known:
    day = to_datetime(stored.occurred_at).date()
    return Known(stored.id, stored.content, stored.subject, day, similarity)


def _named(tx: Tx, collection_id: int, same: str, about: str | None) -> list[Stored]:
    rows: list[Row] = tx.rows("facts_same", collection_id=collection_id, same=same, limit=SAME)
    if about is not None:
        rows += tx.rows("facts_about", collection_id=collection_id, topic=about, limit=ABOUT)
    return [Stored(*row) for row in rows]
