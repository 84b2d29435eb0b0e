"""Search: the use case. One snapshot is looked at; what needs a model's time is done between snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import numpy as np

from ..clock import Clock, to_datetime
from ..errors import ModelFailed, NotFound
from ..model.collection import Entry
from ..model.filter import Query, Where, matches
from ..storage.port import Row, State, TenantStore, Tx, search_state
from . import query as queries
from . import words
from .columns import View, build_view, list_speakers
from .embeddings import EmbeddingModel, Embeddings, embed_missing, queue_embedding
from .index import Array, Index, IndexCache, IndexKey
from .nearest import find_nearest
from .query import ScopePart, parse_query, resolve_scope
from .score import ARMS, ParsedQuery, Recipe, ScoredView, require_recipe, score_views

if TYPE_CHECKING:
    from ..models.embedder import Embedder, Vectors

T = TypeVar("T")

MAX_ROUNDS = 10
MAX_TRIES = 3
MAX_TEXT = 4096
"""How much of a text is looked for, where it is not a query."""
DIGITS = 6
"""Scores are rounded, so that what is shown is what is compared."""


class Hit(NamedTuple):
    """An entry that was found: where it is, how well it fits, and what each arm contributes to that."""

    entry: Entry
    path: str
    score: float
    arms: dict[str, float]


class SearchResult(NamedTuple):
    """What a search gave, and how."""

    hits: list[Hit]
    method: str
    took_ms: float
    warning: str | None = None


class Gate(NamedTuple):
    """The one condition that kept an entry out of the hits; `found` if none did."""

    gate: str
    detail: str
    rank: int | None = None
    score: float | None = None


class SearchEngine:
    """Search over everything that is stored. It holds the blocks and the embedder of this process."""

    def __init__(self, load: Callable[[], Embedder | None], clock: Clock, memory: int) -> None:
        self.meaning = Embeddings(load, clock)
        self.blocks = IndexCache(memory)
        self.clock = clock

    def search(self, reach: TenantStore, query: Query) -> SearchResult:
        """The entries that fit a query best, the best first."""
        started = time.perf_counter()
        search = _Search(self, reach, query)
        hits = search.run(search.hits)
        return SearchResult(hits, search.method, (time.perf_counter() - started) * 1000, search.warning)

    def why_not(self, reach: TenantStore, query: Query, entry_id: str) -> Gate:
        """Why an entry is not among the hits of a query."""
        search = _Search(self, reach, query)
        return search.run(lambda tx, scene: search.explain(tx, scene, entry_id))

    def alike(
        self, reach: TenantStore, where: Where, texts: Sequence[str], vectors: Vectors | None, limit: int
    ) -> list[list[int]]:
        """For each of many texts the numbers of the entries that are most similar, the best first: by their vectors in one
        snapshot, or, where there are none or those of the entries are not at hand, by a search for each."""
        if vectors is not None and texts:
            search = _Search(self, reach, Query("", (where,), limit, recipe="meaning"))
            found = search.run(lambda tx, scene: search.alike(tx, scene, vectors))
            if found.docids is not None:
                return found.docids
        searches = [_Search(self, reach, Query(text[:MAX_TEXT], (where,), limit)) for text in texts]
        return [search.run(search.docids) for search in searches]

    def forget(self, owner: str) -> None:
        """Drop what this process holds of a tenant in memory, and the words that the model and the analyser remember."""
        self.blocks.forget(owner)
        self.meaning.forget()
        words.clear_caches()
        queries.clear_caches()


class _Snapshot(NamedTuple):
    """What one snapshot holds of a scope, and how the query is understood there."""

    state: State
    spans: list[ScopePart]
    blocks: list[Index]
    model: EmbeddingModel | None
    question: ParsedQuery


class _Search:
    """One search under way: what it has found out so far, between the snapshots that it looks at."""

    def __init__(self, recall: SearchEngine, reach: TenantStore, query: Query) -> None:
        self._recall, self._reach, self._query = recall, reach, query
        self._meaning = recall.meaning
        self._now = recall.clock.now()
        self._recipe: Recipe = require_recipe(query.recipe)
        self._embedder = self._meaning.named_embedder() if self._recipe.meaning else None
        self._vectors: dict[str, Array | None] = {}
        self._made: dict[int, bytes] | None = None
        self._partly = False
        self._tries = 0
        self._by_meaning = False

    @property
    def method(self) -> str:
        names = [("words", self._recipe.words or not self._by_meaning), ("meaning", self._by_meaning)]
        return "+".join(name for name, used in names if used) + (" (partly)" if self._partly else "")

    @property
    def warning(self) -> str | None:
        return self._meaning.trouble if self._recipe.meaning and not self._by_meaning else None

    def run(self, work: Callable[[Tx, _Snapshot], T | None]) -> T:
        """Work on a snapshot, once everything that it needs is there; again if it returns None."""
        for _ in range(MAX_ROUNDS):
            found = self._reach.read(lambda tx: self._attempt(tx, work))
            if isinstance(found, _Preparation):
                found.take()
            elif found is not None:
                return found
        raise AssertionError("a search comes to an end")

    def hits(self, tx: Tx, scene: _Snapshot) -> list[Hit] | None:
        """The best entries; None if something was gone, or not there yet, in this snapshot."""
        chosen = _take_best(_sort_candidates(self._ranked(tx, scene)), self._query)
        listed = "[" + ",".join(str(docid) for docid, _, _ in chosen) + "]"
        found = (
            tx.rows("hits", docids=listed, now=self._now, history=int(self._query.as_of is not None)) if chosen else []
        )
        rows = {row[17]: row for row in found if any(span.holds(row[16], row[18], row[3]) for span in scene.spans)}
        hits = [_to_hit(rows[docid], total, arms) for docid, total, arms in chosen if docid in rows]
        self._tries += 1
        return hits if len(hits) == len(chosen) or self._tries == MAX_TRIES else None

    def alike(self, tx: Tx, scene: _Snapshot, vectors: Array) -> _SimilarEntries:
        """The entries that are most similar to each of some vectors."""
        current = scene.model is not None and scene.model.embedder is self._meaning.embedder()
        if not current or any(block.remote for block in scene.blocks):
            return _SimilarEntries(None)
        found: list[list[int]] = [[] for _ in vectors]
        for view in self._views(tx, scene):
            for docids, vector in zip(found, vectors, strict=True):
                docids += view.docid[find_nearest(view, vector, self._query.limit)].tolist()
        return _SimilarEntries(found)

    def docids(self, tx: Tx, scene: _Snapshot) -> list[int]:
        """The numbers of the best entries."""
        return [docid for docid, _, _ in _take_best(_sort_candidates(self._ranked(tx, scene)), self._query)]

    def explain(self, tx: Tx, scene: _Snapshot, entry_id: str) -> Gate:
        """The gate that keeps an entry out."""
        row = tx.row("entry_anywhere", id=entry_id)
        if row is None:
            raise NotFound("There is no such entry.")
        now = max([self._now, *(block.clock for block in scene.blocks)])
        gate = _find_closed_gate(row, scene.spans, self._query, now)
        if gate is not None:
            return gate
        everything = _sort_candidates(self._ranked(tx, scene, also=row[0]))
        places = np.flatnonzero(everything.docids == row[0])
        place = int(places[0]) + 1 if len(places) else None
        return _explain_rank(self._query, place, None if place is None else float(everything.scores[place - 1]))

    # -- one snapshot ------------------------------------------------------------------------------------------------

    def _attempt(self, tx: Tx, work: Callable[[Tx, _Snapshot], T | None]) -> T | _Preparation | None:
        model: EmbeddingModel | None = None
        if self._embedder is not None:
            model = self._meaning.known(tx, *self._embedder)
            if model is None:
                return _Preparation(self._introduce)
        state, spans = search_state(tx), resolve_scope(tx, self._query.where, self._now)
        blocks = self._blocks(tx, spans, model, state)
        if model is not None and self._made is None and any(block.pending for block in blocks):
            return _Preparation(lambda: self._complete(model, blocks))
        names = dict.fromkeys(name for block in blocks for name in list_speakers(tx, block, self._query.as_of))
        speakers, rest = parse_query(self._query.text, list(names))
        if model is not None and self._query.text and rest not in self._vectors:
            if not getattr(model.embedder, "instant", False):
                return _Preparation(lambda: self._embed(model, rest))
            self._embed(model, rest)
        return work(tx, _Snapshot(state, spans, blocks, model, self._question(speakers, rest)))

    def _blocks(self, tx: Tx, spans: Sequence[ScopePart], model: EmbeddingModel | None, state: State) -> list[Index]:
        number, dimensions = ((model.number, model.name), model.embedder.dimensions) if model else ((0, ""), 0)
        history = self._query.as_of is not None
        keys = [IndexKey(self._reach.key, number, span.collection, span.id, history) for span in spans]
        blocks = [self._recall.blocks.current(tx, key, dimensions, state) for key in keys]
        for block in blocks:
            self._hand_over(block)
        return blocks

    def _hand_over(self, block: Index) -> None:
        """Give a block the vectors that were made for it; it may have been thrown out and loaded again since."""
        if self._made is not None and block.pending:
            with block.lock:
                asked = [docid for docid in self._made if docid in block.pending]
                block.put({docid: value for docid in asked if (value := self._made[docid])})
                block.give_up(asked)

    def _question(self, speakers: tuple[str, ...], rest: str) -> ParsedQuery:
        vector = self._vectors.get(rest)
        self._by_meaning = vector is not None
        chosen = self._recipe if vector is not None else self._recipe._replace(words=1.0, meaning=0.0)
        today = to_datetime(self._now if self._query.as_of is None else self._query.as_of).date()
        return ParsedQuery(self._query.text, rest, speakers, vector, chosen, today, self._query.limit)

    def _ranked(self, tx: Tx, scene: _Snapshot, also: int | None = None) -> list[ScoredView]:
        return score_views(tx, scene.spans, self._views(tx, scene), scene.question, scene.model, also)

    def _views(self, tx: Tx, scene: _Snapshot) -> list[View]:
        return [
            build_view(tx, block, span.kinds, self._query, self._now, scene.state)
            for block, span in zip(scene.blocks, scene.spans, strict=True)
        ]

    # -- between snapshots -------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        """Make the model known to the tenant; on a disk that cannot be written, go on without it."""
        if self._meaning.model(self._reach) is None:
            self._embedder = None
        else:
            queue_embedding(self._reach, self._now)

    def _embed(self, model: EmbeddingModel, rest: str) -> None:
        vector = self._meaning.vector(rest if rest.strip() else self._query.text, model.embedder)
        self._vectors[rest] = vector
        if vector is None and self._meaning.trouble:
            self._embedder = None

    def _complete(self, model: EmbeddingModel, blocks: Sequence[Index]) -> None:
        """Make the missing vectors, as many as can be made while somebody waits, the newest first.

        While a new model has more to do than that, the built-in one goes on serving, if it was there before.
        """
        left = model.embedder.quick
        if sum(len(block.pending) for block in blocks) > left:
            queue_embedding(self._reach, self._now)
            earlier = self._meaning.earlier(self._reach, model)
            if earlier is not None:
                self._embedder = earlier.embedder, earlier.name
                return
        self._made = {}
        try:
            for block in blocks:
                with block.lock:
                    pending = sorted(block.pending, reverse=True)
                asked, self._partly = pending[: max(left, 0)], self._partly or len(pending) > left
                left -= len(asked)
                self._made.update(dict.fromkeys(asked, b""))  # what is not there any more needs no vectors
                self._made.update(embed_missing(self._reach, model, asked, block.exact) if asked else {})
        except ModelFailed as error:
            self._meaning.fail(error)
            self._embedder, self._partly = None, False


class _SimilarEntries(NamedTuple):
    """What is similar to some vectors; None if that cannot be said from what is in memory."""

    docids: list[list[int]] | None


class _Preparation:
    """Something to be done outside any transaction before a snapshot can be looked at."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[], None]) -> None:
        self.take = take


class _Candidates(NamedTuple):
    """The candidates of all views: numbers, scores and what the arms contribute, the best first; of equals, the newer."""

    docids: Array
    scores: Array
    parts: Array


def _sort_candidates(ranked: Sequence[ScoredView]) -> _Candidates:
    if not ranked:
        return _Candidates(np.zeros(0, np.int64), np.zeros(0), np.zeros((len(ARMS), 0)))
    docids = np.concatenate([one.view.docid[one.rows] for one in ranked])
    scores = np.round(np.concatenate([one.scores for one in ranked]), DIGITS)
    times = np.concatenate([one.view.occurred_at[one.rows] for one in ranked])
    parts = np.concatenate([one.parts for one in ranked], axis=1)
    order = np.lexsort((docids, times, scores))[::-1]
    return _Candidates(docids[order], scores[order], parts[:, order])


def _lowest_score(query: Query) -> float:
    """The least score of a hit. What has nothing of the query is one only if conditions alone were asked for."""
    conditions = query.full or query.filter is not None or query.after is not None or query.before is not None
    return query.min_score if conditions or query.min_score else 10.0**-DIGITS


def _take_best(ordered: _Candidates, query: Query) -> list[tuple[int, float, list[float]]]:
    best = slice(0, min(query.limit, int(np.count_nonzero(ordered.scores >= _lowest_score(query)))))
    return list(
        zip(
            ordered.docids[best].tolist(), ordered.scores[best].tolist(), ordered.parts[:, best].T.tolist(), strict=True
        )
    )


def _to_hit(row: Row, total: float, arms: Sequence[float]) -> Hit:
    named = {name: part for name, part in zip(ARMS, arms, strict=True) if part}
    return Hit(Entry(*row[:15]), row[15], total, named)


def _find_closed_gate(row: Row, spans: Sequence[ScopePart], query: Query, now: int) -> Gate | None:
    _, address_id, collection_id, kind, retired_at, expires_at, occurred_at, metadata = row
    if not any(span.holds(address_id, collection_id, kind) for span in spans):
        return Gate("scope", "It is not where this search looks.")
    if retired_at is not None:
        return Gate("retired", f"It was replaced or withdrawn on {to_datetime(retired_at):%Y-%m-%d %H:%M} UTC.")
    if expires_at is not None and expires_at <= now:
        return Gate("expired", f"It expired on {to_datetime(expires_at):%Y-%m-%d %H:%M} UTC.")
    if (query.after is not None and occurred_at < query.after) or (
        query.before is not None and occurred_at >= query.before
    ):
        return Gate("time", f"It is of {to_datetime(occurred_at):%Y-%m-%d %H:%M} UTC, outside the time asked for.")
    if query.filter is not None and not matches(query.filter, msgspec.json.decode(metadata) if metadata else None):
        return Gate("filter", "Its metadata does not meet the filter.")
    return None


def _explain_rank(query: Query, place: int | None, total: float | None) -> Gate:
    if place is None or total is None:
        return Gate("rank", "Others fit better.")
    if total < _lowest_score(query):
        reason = f"Its score {total:.3f} is below the least that was asked for."
        return Gate("score", reason if total else "It has nothing in common with the query.", place, total)
    if place > query.limit:
        return Gate("rank", f"Others fit better: it is number {place}, and {query.limit} were asked for.", place, total)
    return Gate("found", f"It is hit number {place}.", place, total)
