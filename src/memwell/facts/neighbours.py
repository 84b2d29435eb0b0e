"""Find the stored facts that may say the same as a candidate, or something else about the same topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from ..clock import to_datetime
from ..model.collection import Place
from ..model.filter import Where
from ..storage.port import Row, TenantStore, Tx
from .plan import Candidate, KnownFact
from .store import FACTS_PATH, StoredFact
from .topics import lookup_keys, parse_statement

if TYPE_CHECKING:
    from ..models.embedder import Vectors
    from ..search.search_engine import SearchEngine

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
