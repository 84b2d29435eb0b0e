"""Scores. Words and meaning find the candidates, and a recipe adds up the evidence of the arms for each.

Evidence is absolute: it is not scaled to a query's best hit. `calibration` makes estimates of it, so a score means the same for
every query. Words are counted within the searched scope only, so that a user's scores do not depend on the memory of others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np

from ..clock import DAY
from ..errors import Invalid
from ..storage.port import Tx, encode_numbers
from . import query, words
from .calibration import LIGHT_MODEL, SENTENCE_MODEL, Evidence, estimate_turns, find_usual_similarity, weigh_rivals
from .columns import SpaceView, View
from .embeddings import EmbeddingModel, is_sentence_model
from .index import MISSING
from .nearest import LocalSimilarities, RemoteSimilarities, Scores, Similarities, find_best
from .passages import Passage
from .query import Days
from .vector_space import Array

CANDIDATES = 160
EXACT_CANDIDATES = 32
NEAR = 0.5
REST = 0.02
"""The part of the meaning that distinguishes entries above the model's ceiling."""
LARGE_SHARE = 0.25
"""If a scope holds more than this share of all entries, all occurrences of a word are read, and others are dropped."""
MIN_ENTRIES = 100
"""In a smaller scope, the rarity of a word is computed as if there were so many entries."""
EPOCH_DAY = 719_163  # 1970-01-01, counted as dates count
WINDOW = 2
TOGETHER = 1_000_000
"""The number of pairs of a word and an entry that are weighed at once."""

MAX_LONG = 16
"""The number of long statements whose passages are read for a query."""

ARMS = ("words", "meaning", "neighbours", "question", "time", "speaker", "assistant")


class Recipe(NamedTuple):
    """The weights of the arms. `docs/decisions/0007-search.md` explains how they were chosen."""

    words: float = 0.6
    """The weight of the share of the query's words that an entry covers. Rare words count more."""
    meaning: float = 0.4
    """The weight of the similarity in meaning."""
    parts: float = 0.5
    """The weight of the best part within the meaning; the rest is the weight of the whole entry."""
    long: float = 500.0
    """The size in bytes from which on a word counts less, because long texts contain words by chance."""
    short: float = 500.0
    """The size in bytes at which an entry's link to its neighbours is half as strong. Short turns belong together."""
    lend: float = 0.6
    """The weight of a word in a neighbour, times the strength of the link."""
    support: float = 0.25
    """The share of the gap to 1 that the neighbours' scores add, times the strength of the link."""
    time: float = 0.3
    """The share of the gap to 1 that an entry gains if it is from a time that the query names."""
    question: float = 0.25
    """The share of its score that an entry loses if it only asks questions."""
    speaker: float = 0.4
    """The share of their scores that other speakers' entries lose if the query names one speaker."""
    assistant: float = 0.3
    """The share of their scores that the assistant's turns lose, unless the query asks what it said."""


RECIPES = {
    "default": Recipe(),
    "words": Recipe(words=1.0, meaning=0.0),
    "meaning": Recipe(words=0.0, meaning=1.0, lend=0.0),
}


def require_recipe(name: str) -> Recipe:
    try:
        return RECIPES[name]
    except KeyError:
        raise Invalid(
            f"The recipe {name!r} does not exist. Use one of: {', '.join(RECIPES)}.", field="recipe"
        ) from None


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query with its speakers, its vector for each model, and the text that remains without names and dates."""

    text: str
    rest: str
    speakers: tuple[str, ...]
    people: tuple[str, ...]
    """Words that name people whom statements are about."""
    vectors: tuple[Array | None, ...]
    recipe: Recipe
    today: date
    limit: int


def score_views(
    tx: Tx,
    views: Sequence[View],
    question: ParsedQuery,
    models: Sequence[EmbeddingModel],
    also: int | None = None,
) -> list[Scoring]:
    """Score the candidates of every view. The entry `also` is scored in any case."""
    tokens = _list_terms(question, views) if question.recipe.words else []
    found, total = _find_words(tx, views, tokens)
    weights = {token: weight for token, (weight, _) in zip(tokens, found[0], strict=True)} if found else {}
    scorings = [
        Scoring(
            tx,
            view,
            question,
            models,
            _score_words(view, matches, total, question.recipe),
            _score_opaque(view, tokens, matches),
            QueryWords(weights, total),
        )
        for view, matches in zip(views, found, strict=True)
    ]
    usual = _find_usual_similarities(scorings, len(models))
    for scoring in scorings:
        scoring.rank(usual, also)
    rivals = [scoring.scores[scoring.statements[scoring.rows]] for scoring in scorings]
    factor = weigh_rivals(np.concatenate(rivals)) if rivals else 1.0
    for scoring in scorings:
        scoring.parts[:, scoring.statements[scoring.rows]] *= factor
    return scorings


def _find_usual_similarities(scorings: Sequence[Scoring], models: int) -> list[float]:
    """The mean similarity of the query to all statements, for each model."""
    found = []
    for place in range(models):
        sums = [scoring.add_similarities(place) for scoring in scorings]
        found.append(find_usual_similarity(sum(total for total, _ in sums), sum(count for _, count in sums)))
    return found


# -- Words


class QueryWords(NamedTuple):
    """The words of a query with their weights, and the sum of the weights."""

    weights: Mapping[str, float]
    total: float

    @property
    def opaque(self) -> dict[str, float]:
        return {token: 1.0 for token in self.weights if words.is_opaque(token)}


def _list_terms(question: ParsedQuery, views: Sequence[View]) -> list[str]:
    """The tokens to search for. If only stop words remain besides names and dates, the whole text is used."""
    languages = dict.fromkeys(view.part.language for view in views)
    found = [words.parse_terms(question.rest, language) for language in languages]
    if any(terms.only_stop_words for terms in found) and question.text != question.rest:
        found = [words.parse_terms(question.text, language) for language in languages]
    return list(dict.fromkeys(token for terms in found for token in terms.tokens))[: words.MAX_TERMS]


def _find_words(tx: Tx, views: Sequence[View], tokens: Sequence[str]) -> tuple[list[list[tuple[float, Array]]], float]:
    """Return the weight and rows of each token for each view, and the sum of the weights. Rare words weigh more."""
    entries = max(sum(view.entries for view in views), MIN_ENTRIES)
    found: list[list[tuple[float, Array]]] = [[] for _ in views]
    total = 0.0
    for token in tokens:
        places = [find_rows(tx, view, token) for view in views]
        count = sum(map(len, places))
        weight = math.log(1.0 + (entries - count + 0.5) / (count + 0.5))
        total += weight
        for matches, rows in zip(found, places, strict=True):
            matches.append((weight, rows))
    return found, total


def find_rows(tx: Tx, view: View, token: str) -> Array:
    """The live rows of a view that hold a token."""
    if not len(view):
        return np.zeros(0, np.int64)
    with view.index.lock:
        most = len(view) > LARGE_SHARE * int(view.docid[-1])
        rows = view.index.find_occurrences(tx, view.state, view.part.token, token, most)
    rows = rows[rows < len(view)]
    return rows[view.here[rows]]


def _score_words(view: View, found: Sequence[tuple[float, Array]], total: float, recipe: Recipe) -> Scores:
    """The share of the query's words that each entry covers, by itself or by its neighbours."""
    covered = np.zeros(len(view), np.float32)
    found = [(weight, rows) for weight, rows in found if len(rows)] if total else []
    at_once = max(1, TOGETHER // max(1, len(view)))
    for start in range(0, len(found), at_once):
        some = found[start : start + at_once]
        worth = _weigh_words(view, [rows for _, rows in some], recipe)
        for (weight, _), line in zip(some, worth, strict=True):
            covered += np.float32(weight / total) * line
    return covered


def _score_opaque(view: View, tokens: Sequence[str], found: Sequence[tuple[float, Array]]) -> Scores:
    """The share that each entry contains of the query's words that models read badly."""
    covered = np.zeros(len(view), np.float32)
    opaque = [rows for token, (_, rows) in zip(tokens, found, strict=True) if words.is_opaque(token)]
    for rows in opaque:
        covered[rows] += np.float32(1.0 / len(opaque))
    return covered


def _weigh_words(view: View, found: Sequence[Array], recipe: Recipe) -> Scores:
    """The worth of some words for every entry, as one line per word."""
    rows = np.concatenate(found)
    starts = np.repeat(np.arange(len(found)) * len(view), list(map(len, found)))
    worth = (1.0 / np.sqrt(1.0 + view.size[rows] / recipe.long)).astype(np.float32)
    lines = np.zeros(len(found) * len(view), np.float32)
    lines[starts + rows] = worth
    if recipe.lend and view.index.linked:
        for reached, source, link in _list_links(view, rows, recipe):
            lent = (recipe.lend * link * worth[source]).astype(np.float32)
            places = starts[source] + reached  # without duplicates: two entries never share a neighbour on one side
            lines[places] = np.maximum(lines[places], lent)
    return lines.reshape(len(found), len(view))


# -- Neighbours on a timeline. They lend each other a part of their scores; the shorter both are, the more.


def _list_neighbours(view: View, rows: Array) -> Iterator[tuple[Array, Array, int]]:
    """The neighbours of some rows: their rows, the positions of the given rows that they belong to, and the distance."""
    for steps in (view.before, view.after):
        at, source = rows, np.arange(len(rows))
        for distance in range(1, WINDOW + 1):
            at = steps[at]
            there = (at != MISSING) & (at < len(view))
            if not there.all():
                at, source = at[there], source[there]
            if not len(at):
                break
            yield at, source, distance


def _list_links(view: View, rows: Array, recipe: Recipe) -> Iterator[tuple[Array, Array, Array]]:
    """The neighbours of some rows: their rows, the positions of the given rows, and the strength of the links."""
    tie = _weigh_link(view, rows, recipe)
    for reached, source, distance in _list_neighbours(view, rows):
        yield reached, source, np.sqrt(tie[source] * _weigh_link(view, reached, recipe)) / distance


def _link_pairs(view: View, rows: Array, recipe: Recipe) -> tuple[Array, Array]:
    """For some rows the row before each (or itself, if there is none), and the strength of the link to it."""
    before = view.before[rows]
    there = before != MISSING
    before = np.where(there, before, rows)
    return before, there * np.sqrt(_weigh_link(view, rows, recipe) * _weigh_link(view, before, recipe))


def _weigh_link(view: View, rows: Array, recipe: Recipe) -> Array:
    """The share of an entry that belongs to its neighbours: the shorter, the more."""
    fade: Array = view.here[rows] / (1.0 + (view.size[rows] / recipe.short) ** 2)
    return fade


def _add_neighbours(view: View, rows: Array) -> Array:
    """Some rows and their neighbours, without duplicates."""
    if not view.index.linked:
        return rows
    mask = np.zeros(len(view), np.bool_)
    mask[rows] = True
    for reached, _, _ in _list_neighbours(view, rows):
        mask[reached] = True
    return np.flatnonzero(mask)


# -- Candidates and their scores


class Arm(NamedTuple):
    """A model, and the similarities of a view's entries to the query by it."""

    model: EmbeddingModel
    similar: Similarities


def _compare(tx: Tx, view: View, space: SpaceView, vector: Array) -> Similarities:
    if space.space.remote:
        return RemoteSimilarities(tx, view, space, vector)
    return LocalSimilarities(view, space, vector)


class Scoring:
    """Computes the scores of one view."""

    def __init__(
        self,
        tx: Tx,
        view: View,
        question: ParsedQuery,
        models: Sequence[EmbeddingModel],
        covered: Scores,
        opaque: Scores,
        asked: QueryWords,
    ) -> None:
        self.tx, self.view, self.question, self.covered, self.opaque = tx, view, question, covered, opaque
        self.asked = asked
        self.passages: dict[int, Passage] = {}
        """The passages that stand for long entries, by row."""
        self.days = _find_days(view, question)
        self.speaker: int | None = None
        if len(question.speakers) == 1:
            self.speaker = view.index.names.codes.get(question.speakers[0], MISSING - 1)
        self.assistant: int | None = None
        if not query.asks_assistant(question.text):
            self.assistant = view.index.roles.codes.get("assistant")
        self.arms: list[Arm | None] = [
            None if vector is None else Arm(model, _compare(tx, view, space, vector))
            for model, space, vector in zip(models, view.spaces, question.vectors, strict=True)
        ]
        """The similarities of the entries by each model, the best model first; None for one that does not know the query."""
        self.known = [arm for arm in self.arms if arm is not None]
        self.exact = all(arm.similar.space.exact for arm in self.known)
        self.partial = any(arm.similar.partial for arm in self.known)
        self.rows: Array = np.zeros(0, np.int64)
        self.parts: Array = np.zeros((len(ARMS), 0))
        """The candidates, and the contributions of the arms to their scores."""
        self.meaning: Scores = np.zeros(len(view), np.float32)
        self.own = self.meaning
        self._names_person: Array | None = None
        self.usual: Sequence[float] = ()
        self.statements = view.is_statement
        if question.recipe is not RECIPES["default"]:
            self.statements = np.zeros(len(view), np.bool_)

    def add_similarities(self, place: int) -> tuple[float, int]:
        """Return the sum of the similarities of the statements by the model at a place, and their number. In a large scope, the
        mean vector of a sample stands for them."""
        arm, vector = self.arms[place], self.question.vectors[place]
        if arm is None or vector is None or not self.statements.any():
            return 0.0, 0
        rows = np.flatnonzero(self.statements & self.view.here & arm.similar.space.present)
        if arm.similar.space.exact and not arm.similar.space.space.remote:
            return float(arm.similar.whole[rows].sum()), len(rows)
        with self.view.index.lock:
            mean = arm.similar.space.space.find_mean(self.tx, self.view.docid[rows])
        return float(mean @ vector) * len(rows), len(rows)

    @property
    def scores(self) -> Array:
        total: Array = np.clip(self.parts.sum(axis=0), 0.0, 1.0)
        return total

    def rank(self, usual: Sequence[float], also: int | None) -> None:
        """Choose the candidates, and add up their scores."""
        view, recipe = self.view, self.question.recipe
        self.usual = usual
        limit = max(CANDIDATES, 2 * self.question.limit)
        if self.partial:
            self._need(find_best(self.covered, view.allowed, limit))
        stating = bool(self.statements.any())
        rows = np.zeros(0, np.int64)
        if not stating or not self.statements.all():
            self.meaning = self._score_meaning(slice(None))
            self.own = recipe.words * self.covered + recipe.meaning * self.meaning
            self.own *= view.here
            rows = _add_neighbours(view, find_best(self.own, view.allowed & ~self.statements, limit))
            rows = rows[view.allowed[rows]]
        if stating:
            stated = np.flatnonzero(self.statements & view.allowed)
            if len(stated) > limit:
                stated = stated[np.argpartition(-self._promise(stated), limit)[:limit]]
            rows = np.sort(np.concatenate([rows, stated]))
            self._read_passages(stated)
        if also is not None:
            rows = np.unique(np.append(rows, np.flatnonzero(view.docid == also)))
        if self.days:  # entries from a named time are candidates even if they share no words with the query
            near = _compute_nearness(view.occurred_at, self.days)
            rows = np.union1d(rows, find_best(near + self.own, view.allowed & (near >= NEAR), limit))
        self._need(rows)
        if view.index.linked:
            pairs = _link_pairs(view, rows, recipe)
            for arm in self.known:
                arm.similar.add_pairs(rows, *pairs)
        self.rows, self.parts = rows, self._contribute(rows)
        if not self.exact:
            self._rescore(len(rows) if also is not None else self.question.limit + EXACT_CANDIDATES)

    def _read_passages(self, rows: Array) -> None:
        """Let the best passages of the most promising long statements stand for them."""
        rows = rows[self.view.size[rows] > words.MAX_WHOLE]
        if len(rows) > MAX_LONG:
            promise = (
                self._weigh_statements(rows).sum(axis=0) + np.sqrt(self.view.size[rows] / 500.0) * self.covered[rows]
            )
            rows = rows[np.argpartition(-promise, MAX_LONG)[:MAX_LONG]]
        for row, (passage, covered, opaque, similarities) in self.find_passages(rows).items():
            self.passages[row] = passage
            self.covered[row], self.opaque[row] = covered, opaque
            for arm, similarity in zip(self.known, similarities, strict=True):
                if similarity is not None:
                    arm.similar.keep_part(row, similarity)

    def find_passages(self, rows: Array) -> dict[int, tuple[Passage, float, float, list[float | None]]]:
        """Find the best passage of each long entry, with the shares that it covers of the query's words and of the opaque ones,
        and its similarity by each model."""
        docids = self.view.docid[rows].tolist()
        with self.view.index.lock:
            texts = self.view.index.texts.read(self.tx, docids, self.view.part.language) if docids else {}
        found = {}
        for row, docid in zip(rows.tolist(), docids, strict=True):
            text = texts.get(docid)
            if text is None:
                continue
            covered, opaque = text.cover(*self.asked), text.cover(self.asked.opaque, len(self.asked.opaque))
            parts = [arm.similar.compare_parts(row)[1:] for arm in self.known]
            matching = [part if len(part) == len(covered) else None for part in parts]
            best, weights = np.zeros(len(covered)), LIGHT_MODEL
            for arm, part in zip(reversed(self.known), reversed(matching), strict=True):
                if part is not None and part.any():
                    best, weights = arm.model.normalise(part), _choose_weights(arm.model)
            place = int(np.argmax(best + weights.words * covered + weights.opaque * opaque))
            similarities = [None if part is None else float(part[place]) for part in matching]
            found[row] = text.show(place), float(covered[place]), float(opaque[place]), similarities
        return found

    def _need(self, rows: Array) -> None:
        for arm in self.known:
            arm.similar.need(rows)

    def _score_meaning(self, rows: Array | slice) -> Scores:
        """Scale similarities by the floor and ceiling of their model: 0 for unrelated texts, 1 for the same text. The best model
        that has the vector of an entry counts."""
        meaning = np.zeros_like(self.meaning[rows])
        for model, similar in reversed(self.known):
            floor, ceiling = model.embedder.floor, model.embedder.ceiling
            cosines = similar.mix(rows, self.question.recipe.parts)
            scaled: Scores = (1.0 - REST) * np.clip((cosines - floor) / (ceiling - floor), 0.0, 1.0)
            scaled += REST * np.clip((cosines - ceiling) / max(1.0 - ceiling, 1e-6), 0.0, 1.0)
            meaning = np.where(similar.space.present[rows], scaled, meaning)
        return meaning

    def _contribute(self, rows: Array) -> Array:
        """The contributions of the arms to the scores of some rows: one line for each of `ARMS`. Their sum is the score."""
        are_stated = self.statements[rows]
        if are_stated.all() and len(rows):
            return self._weigh_statements(rows)
        parts = np.zeros((len(ARMS), len(rows)))
        said = self._contribute_turns(rows[~are_stated])
        if self.question.recipe is RECIPES["default"]:
            evidence = said.sum(axis=0)
            said *= estimate_turns(evidence) / np.where(evidence > 0.0, evidence, 1.0)
        parts[:, ~are_stated] = said
        if are_stated.any():
            parts[:, are_stated] = self._weigh_statements(rows[are_stated])
        return parts

    def _promise(self, rows: Array) -> Array:
        """What orders statements as their scores do, in less time."""
        promise = self.covered[rows].astype(np.float64)
        named, others = self._name_person(rows)
        for _, weights, there, meaning in self._list_evidence(rows):
            evidence = meaning + weights.words * self.covered[rows[there]] + weights.opaque * self.opaque[rows[there]]
            evidence += weights.named * named[there] - weights.other * others[there]
            promise[there] = (evidence - weights.middle) / weights.width
        return promise

    def _list_evidence(self, rows: Array) -> Iterator[tuple[Arm, Evidence, Array, Array]]:
        """For each model, the best first: its weights, the places of the rows that it scores, and their similarity in meaning
        beyond the usual."""
        left = np.ones(len(rows), np.bool_)
        for place, arm in enumerate(self.arms):
            if arm is None:
                continue
            there = np.flatnonzero(left & arm.similar.space.present[rows])
            if len(there):
                weights = _choose_weights(arm.model)
                usual = weights.usual * arm.model.normalise(self.usual[place])
                yield arm, weights, there, arm.model.normalise(arm.similar.best[rows[there]].astype(np.float64)) - usual
                left[there] = False

    def _weigh_statements(self, rows: Array) -> Array:
        """The contributions of the arms to the scores of statements, which are estimates (see `calibration`)."""
        parts = np.zeros((len(ARMS), len(rows)))
        covered, opaque = self.covered[rows], self.opaque[rows]
        named, others = self._name_person(rows)
        parts[0] = covered
        for _, weights, there, meaning in self._list_evidence(rows):
            by_meaning = weights.estimate(meaning)
            evidence = meaning + weights.words * covered[there] + weights.opaque * opaque[there]
            by_words = weights.estimate(evidence)
            score = weights.estimate(evidence + weights.named * named[there] - weights.other * others[there])
            parts[0, there], parts[1, there], parts[5, there] = by_words - by_meaning, by_meaning, score - by_words
        if self.days:
            near = _compute_nearness(self.view.occurred_at[rows], self.days)
            parts[4] = (1.0 - parts.sum(axis=0)) * self.question.recipe.time * near
        return parts

    def _name_person(self, rows: Array) -> tuple[Array, Array]:
        """1 for the statements that name the person whom the query asks about, and 1 for those that do not; 0 for all if it
        asks about nobody."""
        question, view = self.question, self.view
        if not question.people and not question.speakers:
            return np.zeros(len(rows)), np.zeros(len(rows))
        if self._names_person is None:
            self._names_person = np.zeros(len(view))
            for word in dict.fromkeys(
                (*question.people, *(part for name in question.speakers for part in name.split()[:1]))
            ):
                for token in words.parse_terms(word, view.part.language).tokens:
                    self._names_person[find_rows(self.tx, view, token)] = 1.0
        named: Array = self._names_person[rows]
        return named, 1.0 - named

    def _contribute_turns(self, rows: Array) -> Array:
        view, recipe = self.view, self.question.recipe
        if view.index.linked or not self.exact or self.partial:
            self.meaning[rows] = self._score_meaning(rows)
            self.own[rows] = recipe.words * self.covered[rows] + recipe.meaning * self.meaning[rows]
        parts = np.zeros((len(ARMS), len(rows)))
        parts[0], parts[1] = recipe.words * self.covered[rows], recipe.meaning * self.meaning[rows]
        score = parts[0] + parts[1]
        if view.index.linked:
            support = np.zeros(len(rows))
            for reached, source, link in _list_links(view, rows, recipe):
                support[source] += self.own[reached] * link
            parts[2] = (1.0 - score) * np.minimum(recipe.support * support, 1.0)
            score += parts[2]
        asks = view.asks[rows]
        if asks.any():
            parts[3] = -score * recipe.question * asks
            score += parts[3]
        if self.days:
            parts[4] = (1.0 - score) * recipe.time * _compute_nearness(view.occurred_at[rows], self.days)
            score += parts[4]
        if self.speaker is not None:
            names = view.name[rows]
            parts[5] = -score * recipe.speaker * ((names != MISSING) & (names != self.speaker))
            score += parts[5]
        if self.assistant is not None:
            parts[6] = -score * recipe.assistant * (view.role[rows] == self.assistant)
        return parts

    def _rescore(self, count: int) -> None:
        """Score the best candidates again by their stored vectors. Quantised ones suffice to find them, not to order them."""
        if not len(self.rows):
            return
        best = np.sort(find_best(self.scores, np.ones(len(self.rows), np.bool_), count))
        rows = self.rows[best]
        docids = self.view.docid[rows].tolist()
        for (model, similar), vector in zip(
            self.known, [vector for vector in self.question.vectors if vector is not None], strict=True
        ):
            if similar.space.exact:
                continue
            stored: dict[int, bytes] = dict(
                self.tx.rows("vectors_of", model=model.number, docids=encode_numbers(docids))
            )
            there = [place for place, docid in enumerate(docids) if docid in stored]
            if there:
                values = [stored[docids[place]] for place in there]
                vectors = np.frombuffer(b"".join(values), np.float16).reshape(-1, model.embedder.dimensions)
                counts = np.array([len(value) for value in values]) // (2 * model.embedder.dimensions)
                cosines = vectors.astype(np.float32) @ vector
                similar.replace(rows[there], cosines, np.cumsum(counts) - counts)
        self.parts[:, best] = self._contribute(rows)


def _choose_weights(model: EmbeddingModel) -> Evidence:
    return SENTENCE_MODEL if is_sentence_model(model.embedder) else LIGHT_MODEL


def _find_days(view: View, question: ParsedQuery) -> list[Days]:
    """The times that a query names. A date without a year may be in any year that has entries."""
    if not query.may_name_time(question.text):
        return []
    moments = view.occurred_at[view.here]
    if not len(moments):
        return []
    first, last = (int(moment) // DAY + EPOCH_DAY for moment in (moments.min(), moments.max()))
    years = list(range(date.fromordinal(first).year, date.fromordinal(last).year + 1))[-100:]
    return query.find_days(question.text, years, question.today)


def _compute_nearness(occurred_at: Array, days: Sequence[Days]) -> Array:
    """The nearness of moments to the named times: 1 within one of them, less outside."""
    near = np.zeros(len(occurred_at))
    day = occurred_at // DAY + EPOCH_DAY
    for span in days:
        late, early = np.maximum(day - span.last, 0) / span.later, np.maximum(span.first - day, 0) / span.earlier
        near = np.maximum(near, np.exp(-late - early))
    return near
