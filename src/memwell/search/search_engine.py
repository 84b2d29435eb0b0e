"""The search engine. Each attempt reads one snapshot; slow work, such as calling a model, is done between the attempts."""

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
from ..storage.port import Row, State, TenantStore, Tx, encode_numbers, search_state
from . import query as queries
from . import words
from .calibration import CUTOFF
from .columns import View, build_view, list_speakers
from .embeddings import (
    QUICK_CHARACTERS,
    EmbeddingModel,
    Embeddings,
    embed_missing,
    find_model,
    is_sentence_model,
    queue_embedding,
)
from .index import Index, IndexCache, IndexKey
from .nearest import find_nearest
from .passages import Passage
from .query import ScopePart, list_words, parse_query, resolve_scope
from .score import ARMS, ParsedQuery, Recipe, Scoring, find_rows, require_recipe, score_views
from .vector_space import Array

if TYPE_CHECKING:
    from ..models.embedder import Embedder, Vectors

T = TypeVar("T")

MAX_ROUNDS = 10
MAX_TRIES = 3
MAX_TEXT = 4096
"""The number of characters of a text that `SearchEngine.alike` searches for."""
DIGITS = 6
"""Digits of a score. Scores are rounded before they are compared, so that the order agrees with the scores shown."""


class Hit(NamedTuple):
    """An entry that fits a query, with its path, its score, and the contributions of the arms to the score."""

    entry: Entry
    path: str
    score: float
    arms: dict[str, float]
    passage: Passage | None = None
    """The part of a long entry that fits best."""


class SearchResult(NamedTuple):
    """Hits, the best first, with the method and the time that the search took."""

    hits: list[Hit]
    method: str
    took_ms: float
    warning: str | None = None


class Gate(NamedTuple):
    """The first condition that keeps an entry out of the hits; `gate` is `found` if none does."""

    gate: str
    detail: str
    rank: int | None = None
    score: float | None = None


class SearchEngine:
    """Searches all memory, with the indexes and the embedder of this process."""

    def __init__(self, load: Callable[[], Embedder | None], clock: Clock, memory: int) -> None:
        self.meaning = Embeddings(load, clock)
        self.indexes = IndexCache(memory)
        self.clock = clock

    def search(self, reach: TenantStore, query: Query) -> SearchResult:
        """Return the entries that fit a query best, the best first."""
        started = time.perf_counter()
        search = _Search(self, reach, query)
        hits = search.run(search.find_hits)
        return SearchResult(hits, search.method, (time.perf_counter() - started) * 1000, search.warning)

    def why_not(self, reach: TenantStore, query: Query, entry_id: str) -> Gate:
        """Return the reason why an entry is not among the hits of a query."""
        search = _Search(self, reach, query)
        return search.run(lambda tx, snapshot: search.explain(tx, snapshot, entry_id))

    def alike(
        self, reach: TenantStore, where: Where, texts: Sequence[str], vectors: Vectors | None, limit: int
    ) -> list[list[int]]:
        """Return the numbers of the entries that are most similar to each text, the best first.

        The texts are compared by their vectors in one snapshot. Without vectors of the texts, or of the entries in memory,
        there is one search per text.
        """
        if vectors is not None and texts:
            search = _Search(self, reach, Query("", (where,), limit, recipe="meaning"))
            if found := search.run(lambda tx, snapshot: search.find_similar(tx, snapshot, vectors)):
                return found
        searches = [_Search(self, reach, Query(text[:MAX_TEXT], (where,), limit)) for text in texts]
        return [search.run(search.find_docids) for search in searches]

    def forget(self, owner: str) -> None:
        """Drop a tenant's indexes, and clear the caches of words in the model and the analyser."""
        self.indexes.forget(owner)
        self.meaning.forget()
        words.clear_caches()
        queries.clear_caches()


class _Snapshot(NamedTuple):
    """The state of a scope in one transaction, and the parsed query."""

    state: State
    scope: list[ScopePart]
    indexes: list[Index]
    models: list[EmbeddingModel]
    views: list[View]
    question: ParsedQuery


class _Preparation(NamedTuple):
    """Work to do outside of a transaction before the next attempt."""

    run: Callable[[], None]


class _Candidates(NamedTuple):
    """The candidates of all views: numbers, scores and contributions of the arms. The best come first, then the newest."""

    docids: Array
    scores: Array
    parts: Array
    scorings: Sequence[Scoring]

    def find_passages(self, docids: Sequence[int]) -> dict[int, Passage]:
        """The best passages of the long entries among some."""
        found: dict[int, Passage] = {}
        for scoring in self.scorings:
            rows = scoring.view.index.find_rows(np.array(sorted(docids), np.int64))
            rows = rows[rows < len(scoring.view)]
            rows = rows[scoring.view.size[rows] > words.MAX_WHOLE]
            known = {row: scoring.passages[row] for row in rows.tolist() if row in scoring.passages}
            rest = np.array([row for row in rows.tolist() if row not in known], np.int64)
            known |= {row: passage for row, (passage, *_) in scoring.find_passages(rest).items()}
            found |= {int(scoring.view.docid[row]): passage for row, passage in known.items()}
        return found


class _Search:
    """One search, with its state between the attempts."""

    def __init__(self, engine: SearchEngine, reach: TenantStore, query: Query) -> None:
        self._engine, self._reach, self._query = engine, reach, query
        self._meaning = engine.meaning
        self._now = engine.clock.now()
        self._recipe: Recipe = require_recipe(query.recipe)
        self._embedders = self._meaning.named_embedders() if self._recipe.meaning else []
        self._vectors: dict[tuple[str, str], Array | None] = {}
        self._computed: dict[int, dict[int, bytes]] | None = None
        """The vectors that this search has computed, by model and entry."""
        self._partly = False
        self._tries = 0
        self._by_meaning = False

    @property
    def _history(self) -> bool:
        """True if retired entries are searched too."""
        return self._query.as_of is not None or self._query.retired

    @property
    def method(self) -> str:
        names = [("words", self._recipe.words or not self._by_meaning), ("meaning", self._by_meaning)]
        return "+".join(name for name, used in names if used) + (" (partly)" if self._partly else "")

    @property
    def warning(self) -> str | None:
        return self._meaning.trouble if self._recipe.meaning and not self._by_meaning else None

    def run(self, work: Callable[[Tx, _Snapshot], T | None]) -> T:
        """Call `work` with a snapshot, after all preparations; call it again if it returns None."""
        for _ in range(MAX_ROUNDS):
            found = self._reach.read(lambda tx: self._attempt(tx, work))
            if isinstance(found, _Preparation):
                found.run()
            elif found is not None:
                return found
        raise AssertionError(f"a search needed more than {MAX_ROUNDS} attempts")

    def find_hits(self, tx: Tx, snapshot: _Snapshot) -> list[Hit] | None:
        """Return the best entries; None if some of them are not in this snapshot, so that the search is repeated."""
        ranked = self._rank(tx, snapshot)
        chosen = self._take_best(ranked)
        passages = ranked.find_passages([docid for docid, _, _ in chosen]) if self._query.text else {}
        rows: dict[int, Row] = {}
        if chosen:
            docids, history = encode_numbers(docid for docid, _, _ in chosen), int(self._history)
            for row in tx.rows("hits", docids=docids, now=self._now, history=history):
                if any(part.holds(row[16], row[18], row[3]) for part in snapshot.scope):
                    rows[row[17]] = row
        hits = []
        for docid, score, parts in chosen:
            if docid in rows:
                row = rows[docid]
                arms = {name: part for name, part in zip(ARMS, parts, strict=True) if part}
                hits.append(Hit(Entry(*row[:15]), row[15], score, arms, passages.get(docid)))
        self._tries += 1
        return hits if len(hits) == len(chosen) or self._tries == MAX_TRIES else None

    def find_docids(self, tx: Tx, snapshot: _Snapshot) -> list[int]:
        """Return the numbers of the best entries."""
        return [docid for docid, _, _ in self._take_best(self._rank(tx, snapshot))]

    def find_similar(self, tx: Tx, snapshot: _Snapshot, vectors: Array) -> list[list[int]]:
        """Return the entries most similar to each vector; an empty list if the vectors are not in memory."""
        current = bool(snapshot.models) and snapshot.models[-1].embedder is self._meaning.light()
        if not current or any(index.spaces[-1].remote for index in snapshot.indexes):
            return []
        found: list[list[int]] = [[] for _ in vectors]
        for view in snapshot.views:
            for docids, vector in zip(found, vectors, strict=True):
                docids += view.docid[find_nearest(view, vector, self._query.limit)].tolist()
        return found

    def explain(self, tx: Tx, snapshot: _Snapshot, entry_id: str) -> Gate:
        """Return the condition that keeps an entry out."""
        row = tx.row("entry_anywhere", id=entry_id)
        if row is None:
            raise NotFound("There is no such entry.")
        now = max([self._now, *(index.clock for index in snapshot.indexes)])
        gate = _find_closed_gate(row, snapshot.scope, self._query, now)
        if gate is not None:
            return gate
        ranked = self._rank(tx, snapshot, also=row[0])
        places = np.flatnonzero(ranked.docids == row[0])
        if not len(places):
            return Gate("rank", "Others fit better.")
        place, score, limit = int(places[0]) + 1, float(ranked.scores[places[0]]), self._query.limit
        if score < _lowest_score(self._query):
            reason = f"Its score {score:.3f} is below the lowest score of the query."
            return Gate("score", reason if score else "It has nothing in common with the query.", place, score)
        if place > limit:
            return Gate("rank", f"Others fit better: it is number {place}, and the limit is {limit}.", place, score)
        return Gate("found", f"It is hit number {place}.", place, score)

    # -- one snapshot ------------------------------------------------------------------------------------------------

    def _attempt(self, tx: Tx, work: Callable[[Tx, _Snapshot], T | None]) -> T | _Preparation | None:
        models: list[EmbeddingModel] = []
        for named in self._embedders:
            model = find_model(tx, *named)
            if model is None:
                return _Preparation(lambda named=named: self._add_model(*named))  # type: ignore[misc]
            models.append(model)
        state, scope = search_state(tx), resolve_scope(tx, self._query.where, self._now)
        indexes = self._open_indexes(tx, scope, models, state)
        if self._computed is None and any(self._list_pending(indexes, at) for at in range(len(models))):
            return _Preparation(lambda: self._embed_pending(models, indexes))
        names = dict.fromkeys(name for index in indexes for name in list_speakers(tx, index, self._query.as_of))
        views = [
            build_view(tx, index, part, self._query, self._now, state)
            for index, part in zip(indexes, scope, strict=True)
        ]
        people = self._find_people(tx, views)
        speakers, rest, anonymous = parse_query(self._query.text, names, people)
        asked = [anonymous if is_sentence_model(model.embedder) else rest for model in models]
        for model, text in zip(models, asked, strict=True):
            if self._query.text and (text, model.name) not in self._vectors:
                if not getattr(model.embedder, "instant", False):
                    return _Preparation(lambda model=model, text=text: self._embed(model, text))  # type: ignore[misc]
                self._embed(model, text)
        vectors = tuple(self._vectors.get((text, model.name)) for model, text in zip(models, asked, strict=True))
        self._by_meaning = any(vector is not None for vector in vectors)
        recipe = self._recipe if self._by_meaning else self._recipe._replace(words=1.0, meaning=0.0)
        today = to_datetime(self._now if self._query.as_of is None else self._query.as_of).date()
        question = ParsedQuery(
            self._query.text, rest, speakers, tuple(people), vectors, recipe, today, self._query.limit
        )
        return work(tx, _Snapshot(state, scope, indexes, models, views, question))

    def _find_people(self, tx: Tx, views: Sequence[View]) -> dict[str, None]:
        """The words of the query that name people whom statements of the scope are about."""
        found: dict[str, None] = {}
        for view in views:
            if not view.index.has_statements:
                continue
            for word in list_words(self._query.text):
                tokens = words.parse_terms(word, view.part.language).tokens
                if any(len(find_rows(tx, view, f"{words.PERSON}{token}")) for token in tokens):
                    found[word] = None
        return found

    def _open_indexes(
        self, tx: Tx, scope: Sequence[ScopePart], models: Sequence[EmbeddingModel], state: State
    ) -> list[Index]:
        """Open the indexes of a scope, and add the vectors that this search computed, in case they were loaded again."""
        named = tuple((model.number, model.name, model.embedder.dimensions) for model in models)
        keys = [IndexKey(self._reach.key, named, part.collection, part.id, self._history) for part in scope]
        indexes = [self._engine.indexes.current(tx, key, state) for key in keys]
        for index in indexes:
            for space, model in zip(index.spaces, models, strict=True):
                if space.waiting:
                    with index.lock:
                        space.catch_up(tx, model.embedded_to)
                computed = (self._computed or {}).get(space.model, {})
                if computed and space.pending:
                    with index.lock:
                        done = [docid for docid in computed if docid in space.pending]
                        space.put({docid: value for docid in done if (value := computed[docid])})
                        space.drop_pending(done)
        return indexes

    def _list_pending(self, indexes: Sequence[Index], at: int) -> list[list[int]]:
        """The entries of each index that need vectors of the model at a place, the newest first; empty if there are none."""
        found = []
        for index in indexes:
            with index.lock:
                found.append(sorted(index.spaces[at].pending, reverse=True))
        return found if any(found) else []

    def _rank(self, tx: Tx, snapshot: _Snapshot, also: int | None = None) -> _Candidates:
        ranked = score_views(tx, snapshot.views, snapshot.question, snapshot.models, also)
        if not ranked:
            return _Candidates(np.zeros(0, np.int64), np.zeros(0), np.zeros((len(ARMS), 0)), ())
        docids = np.concatenate([scored.view.docid[scored.rows] for scored in ranked])
        scores = np.round(np.concatenate([scored.scores for scored in ranked]), DIGITS)
        times = np.concatenate([scored.view.occurred_at[scored.rows] for scored in ranked])
        parts = np.concatenate([scored.parts for scored in ranked], axis=1)
        order = np.lexsort((docids, times, scores))[::-1]
        return _Candidates(docids[order], scores[order], parts[:, order], ranked)

    def _take_best(self, ranked: _Candidates) -> list[tuple[int, float, list[float]]]:
        docids, scores, parts = ranked.docids, ranked.scores, ranked.parts
        count = min(self._query.limit, int(np.count_nonzero(scores >= _lowest_score(self._query))))
        return list(zip(docids[:count].tolist(), scores[:count].tolist(), parts[:, :count].T.tolist(), strict=True))

    # -- between snapshots -------------------------------------------------------------------------------------------

    def _add_model(self, embedder: Embedder, name: str) -> None:
        """Add a model to the tenant; if the disk cannot be written, continue without the model."""
        if self._meaning.model(self._reach, embedder, name) is None:
            self._embedders = [named for named in self._embedders if named[1] != name]
        else:
            queue_embedding(self._reach, self._now)

    def _embed(self, model: EmbeddingModel, rest: str) -> None:
        vector = self._meaning.vector(rest if rest.strip() else self._query.text, model.embedder)
        self._vectors[rest, model.name] = vector
        if vector is None and self._meaning.trouble:
            self._embedders = [named for named in self._embedders if named[1] != model.name]

    def _embed_pending(self, models: Sequence[EmbeddingModel], indexes: Sequence[Index]) -> None:
        """Compute missing vectors, the newest first, up to the number that a model embeds quickly. A job computes the rest.

        If more are missing and there is no light model, the built-in model serves meanwhile, if it has vectors.
        """
        self._computed = {}
        for at, model in enumerate(models):
            pending = self._list_pending(indexes, at)
            left = model.embedder.quick
            if len(models) == 1 and sum(map(len, pending)) > left:
                queue_embedding(self._reach, self._now)
                earlier = self._meaning.earlier(self._reach, model)
                if earlier is not None:
                    self._embedders, self._computed = [(earlier.embedder, earlier.name)], None
                    return
            computed = self._computed.setdefault(model.number, {})
            characters = getattr(model.embedder, "quick_characters", QUICK_CHARACTERS)
            partly = False
            try:
                for index, docids in zip(indexes, pending, strict=False):
                    batch = docids[: max(left, 0)]
                    found, count, characters = embed_missing(
                        self._reach, model, batch, index.spaces[at].exact, characters
                    )
                    # Entries that were deleted meanwhile need no vectors.
                    computed.update(dict.fromkeys(batch[:count], b""))
                    computed.update(found)
                    partly = partly or len(docids) > count
                    left -= count
                if partly:
                    queue_embedding(self._reach, self._now)
                    self._partly = self._partly or at == len(models) - 1
            except ModelFailed as error:
                self._meaning.fail(error)
                self._embedders = [named for named in self._embedders if named[1] != model.name]
                self._partly = False


def _lowest_score(query: Query) -> float:
    """The lowest score of a hit. A query with conditions finds all entries that meet them, unless it says otherwise."""
    if query.min_score is not None:
        return query.min_score
    if query.full or query.filter is not None or query.after is not None or query.before is not None:
        return 0.0
    return CUTOFF if query.recipe == "default" else 10.0**-DIGITS


def _find_closed_gate(row: Row, scope: Sequence[ScopePart], query: Query, now: int) -> Gate | None:
    _, address_id, collection_id, kind, retired_at, expires_at, occurred_at, metadata = row
    if not any(part.holds(address_id, collection_id, kind) for part in scope):
        return Gate("scope", "It is outside of the searched memory.")
    if retired_at is not None:
        return Gate("retired", f"It was replaced or withdrawn on {to_datetime(retired_at):%Y-%m-%d %H:%M} UTC.")
    if expires_at is not None and expires_at <= now:
        return Gate("expired", f"It expired on {to_datetime(expires_at):%Y-%m-%d %H:%M} UTC.")
    if (query.after is not None and occurred_at < query.after) or (
        query.before is not None and occurred_at >= query.before
    ):
        return Gate(
            "time", f"It is of {to_datetime(occurred_at):%Y-%m-%d %H:%M} UTC, outside the time range of the query."
        )
    if query.filter is not None and not matches(query.filter, msgspec.json.decode(metadata) if metadata else None):
        return Gate("filter", "Its metadata does not meet the filter.")
    return None
