"""Scoring one query over the views of its scope: the arms are asked, the best candidates are ranked exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from ..clock import DAY
from ..storage.port import Tx
from . import lexical, query, rank
from .columns import View
from .embeddings import EmbeddingModel
from .index import NOBODY, Array
from .nearest import RemoteSimilarities, Scores, Similarities
from .rank import Preferences, Recipe
from .scope import ScopePart

CANDIDATES = 160
EXACT_CANDIDATES = 32
NEAR = 0.5
REST = 0.02
"""What is left for telling apart those that are nearer than near."""


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query understood: what is left of it without names and dates, whom and when it means, and its vector."""

    text: str
    rest: str
    speakers: tuple[str, ...]
    vector: Array | None
    recipe: Recipe
    today: date
    limit: int


@dataclass(frozen=True, slots=True)
class ScoredView:
    """The candidates of one view, and what each arm contributes to their scores."""

    view: View
    rows: Array
    parts: Array

    @property
    def scores(self) -> Array:
        total: Array = np.clip(self.parts.sum(axis=0), 0.0, 1.0)
        return total


def parse_query(text: str, names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Whom a query names, and what is left of it: neither names nor dates say what it is about."""
    found = query.find_names(text, names)
    return found.names, query.remove_dates(found.rest)


def score_views(
    tx: Tx,
    spans: Sequence[ScopePart],
    views: Sequence[View],
    question: ParsedQuery,
    model: EmbeddingModel | None,
    also: int | None = None,
) -> list[ScoredView]:
    """The candidates of every view with their scores; `also` names an entry that is ranked in any case."""
    tokens = lexical.list_terms(question.rest, spans, question.text) if question.recipe.words else []
    found = lexical.find_words(tx, spans, views, tokens)
    return [
        _Scoring(tx, view, question, model, rank.score_words(view, one, found.total, question.recipe)).rank(also)
        for view, one in zip(views, found.found, strict=True)
    ]


class _Scoring:
    """One view being scored: what each arm knows so far."""

    def __init__(
        self, tx: Tx, view: View, question: ParsedQuery, model: EmbeddingModel | None, covered: Scores
    ) -> None:
        self.tx, self.view, self.question, self.model, self.covered = tx, view, question, model, covered
        self.wanted = _build_preferences(view, question)
        self.similar = _open_similarities(tx, view, question, model)
        self.meaning: Scores = np.zeros(len(view), np.float32)
        self.own = self.meaning

    def rank(self, also: int | None) -> ScoredView:
        recipe = self.question.recipe
        limit = max(CANDIDATES, 2 * self.question.limit)
        if self.similar.partial:
            self.similar.need(_find_best(self.covered, self.view.allowed, limit))
        self.meaning = self._meaning(slice(None))
        self.own = recipe.words * self.covered + recipe.meaning * self.meaning
        self.own *= self.view.here
        rows = _list_candidates(self.view, self.own, limit, also)
        if self.wanted.days:
            rows = np.union1d(rows, self._of_that_time(limit))
        self.similar.need(rows)
        if self.model is not None and self.view.block.linked:
            self.similar.with_pairs(rows, *rank.link_pairs(self.view, rows, recipe))
        ranked = ScoredView(self.view, rows, self._contributions(rows))
        if not self.view.exact:
            self._exactly(ranked, len(rows) if also is not None else self.question.limit + EXACT_CANDIDATES)
        return ranked

    def _of_that_time(self, limit: int) -> Array:
        """What is of the time that the query names, whatever it says."""
        near = rank.compute_nearness(self.view.occurred_at, self.wanted.days)
        return _find_best(near + self.own, self.view.allowed & (near >= NEAR), limit)

    def _contributions(self, rows: Array) -> Array:
        """What each arm contributes to some rows, by what is known of them now."""
        recipe = self.question.recipe
        if self.view.block.linked or not self.view.exact or self.similar.partial:
            self.meaning[rows] = self._meaning(rows)
            self.own[rows] = recipe.words * self.covered[rows] + recipe.meaning * self.meaning[rows]
        return rank.compute_contributions(self.view, rows, self.covered, self.meaning, self.own, self.wanted)

    def _meaning(self, rows: Array | slice) -> Scores:
        """What a similarity means: 0 for texts that have nothing to do with each other, 1 for the same said twice."""
        if self.model is None:
            return self.meaning[rows]
        floor, ceiling = self.model.embedder.floor, self.model.embedder.ceiling
        cosines = self.similar.mixed(rows, self.question.recipe.parts)
        scaled: Scores = (1.0 - REST) * np.clip((cosines - floor) / (ceiling - floor), 0.0, 1.0)
        scaled += REST * np.clip((cosines - ceiling) / max(1.0 - ceiling, 1e-6), 0.0, 1.0)
        return scaled

    def _exactly(self, ranked: ScoredView, count: int) -> None:
        """Score the best candidates by their stored vectors: bytes are near enough to find them, not to order them."""
        if self.model is None or self.question.vector is None or not len(ranked.rows):
            return
        best = np.sort(_find_best(ranked.scores, np.ones(len(ranked.rows), np.bool_), count))
        rows = ranked.rows[best]
        docids = self.view.docid[rows].tolist()
        listed = "[" + ",".join(map(str, docids)) + "]"
        stored: dict[int, bytes] = dict(self.tx.rows("vectors_of", model=self.model.number, docids=listed))
        there = [place for place, docid in enumerate(docids) if docid in stored]
        if there:
            values = [stored[docids[place]] for place in there]
            vectors = np.frombuffer(b"".join(values), np.float16).reshape(-1, self.model.embedder.dimensions)
            counts = np.array([len(value) for value in values]) // (2 * self.model.embedder.dimensions)
            cosines = vectors.astype(np.float32) @ self.question.vector
            self.similar.exactly(rows[there], cosines, np.cumsum(counts) - counts)
        ranked.parts[:, best] = self._contributions(rows)


def _open_similarities(
    tx: Tx, view: View, question: ParsedQuery, model: EmbeddingModel | None
) -> Similarities | RemoteSimilarities:
    if view.block.remote and model is not None:
        return RemoteSimilarities(tx, view, question.vector, model.number)
    return Similarities(view, question.vector)


def _list_candidates(view: View, own: Scores, limit: int, also: int | None) -> Array:
    rows = rank.add_neighbours(view, _find_best(own, view.allowed, limit))
    rows = rows[view.allowed[rows]]
    if also is None:
        return rows
    return np.unique(np.append(rows, np.flatnonzero(view.docid == also)))


def _find_best(scores: Scores, allowed: Array, limit: int) -> Array:
    """The rows with the highest scores among those that may be found."""
    rows = np.flatnonzero(allowed)
    if len(rows) <= limit:
        return rows
    return rows[np.argpartition(-scores[rows], limit)[:limit]]


def _build_preferences(view: View, question: ParsedQuery) -> Preferences:
    speaker = None
    if len(question.speakers) == 1:
        speaker = view.block.names.codes.get(question.speakers[0], NOBODY - 1)
    assistant = None if query.asks_assistant(question.text) else view.block.roles.codes.get("assistant")
    return Preferences(question.recipe, _find_days(view, question), speaker, assistant)


def _find_days(view: View, question: ParsedQuery) -> list[query.Days]:
    if not query.may_name_time(question.text):
        return []
    moments = view.occurred_at[view.here]
    if not len(moments):
        return []
    first, last = (int(moment) // DAY + rank.EPOCH_DAY for moment in (moments.min(), moments.max()))
    years = list(range(date.fromordinal(first).year, date.fromordinal(last).year + 1))[-100:]
    return query.find_days(question.text, years, question.today)
