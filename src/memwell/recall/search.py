"""Search: the use case. First the scope is made ready, outside any transaction; then one snapshot is ranked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from ..clock import Clock, to_datetime
from ..errors import ModelFailed, NotFound
from ..model.entry import Entry
from ..model.filter import matches
from ..model.query import Query
from ..storage.block import Array, Block, search_state
from ..storage.blocks import Blocks, Key
from ..storage.port import Reach, Row, Tx
from . import analyse
from .meaning import Meaning, Model, complete
from .rank import ARMS
from .recipes import recipe
from .scope import Span, resolve
from .score import Question, Ranked, score, understand
from .view import look

if TYPE_CHECKING:
    from ..models.embedder import Embedder

ROUNDS = 4


class Hit(NamedTuple):
    """An entry that was found: where it is, how well it fits, and what each arm contributes to that."""

    entry: Entry
    path: str
    collection_id: int
    score: float
    arms: dict[str, float]


class Found(NamedTuple):
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


class _Ready(NamedTuple):
    """A scope that can be searched: the model to do it with, and how the query is understood."""

    model: Model | None
    question: Question
    partly: bool
    warning: str | None


class Recall:
    """Search over everything that is stored. It holds the blocks and the embedder of this process."""

    def __init__(self, load: Callable[[], Embedder | None], clock: Clock, memory: int) -> None:
        self.meaning = Meaning(load, clock)
        self.blocks = Blocks(memory)
        self._clock = clock

    def search(self, reach: Reach, query: Query) -> Found:
        """The entries that fit a query best, the best first."""
        started = time.perf_counter()
        now = self._clock.now()
        ready = self._prepare(reach, query, now)
        for _ in range(ROUNDS):
            hits, complete_ = reach.read(lambda tx: self._look(tx, reach.key, query, ready, now))
            if complete_:  # else something was gone, or not there yet, in this snapshot
                break
        return Found(hits, _method(ready), (time.perf_counter() - started) * 1000, ready.warning)

    def forget(self, owner: str) -> None:
        """Drop what this process holds of a tenant in memory, and the words that the model and the analyser remember."""
        self.blocks.forget(owner)
        self.meaning.forget()
        analyse.forget()

    def why_not(self, reach: Reach, query: Query, entry_id: str) -> Gate:
        """Why an entry is not among the hits of a query."""
        now = self._clock.now()
        ready = self._prepare(reach, query, now)
        return reach.read(lambda tx: self._explain(tx, reach.key, query, ready, now, entry_id))

    # -- making ready ------------------------------------------------------------------------------------------------

    def _prepare(self, reach: Reach, query: Query, now: int) -> _Ready:
        """Understand the query and see to it that what it searches has vectors."""
        chosen = recipe(query.recipe)
        model = self.meaning.model(reach) if chosen.meaning else None
        model, blocks, partly = self._completed(reach, query, now, model)
        speakers, rest = understand(query.text, [name for block in blocks for name in list(block.names.codes)])
        vector = (
            self.meaning.vector(rest if rest.strip() else query.text, model.embedder) if model is not None else None
        )
        warning = self.meaning.trouble if chosen.meaning and vector is None else None
        if vector is None:
            model, partly, chosen = None, False, chosen._replace(words=1.0, meaning=0.0)
        today = to_datetime(now).date()
        return _Ready(model, Question(query.text, rest, speakers, vector, chosen, today, query.limit), partly, warning)

    def _completed(
        self, reach: Reach, query: Query, now: int, model: Model | None
    ) -> tuple[Model | None, list[Block], bool]:
        """The blocks of a scope with all their vectors, or with as many as can be made while somebody waits.

        While a new model has too much to do, the built-in one goes on serving, if it was there before.
        """

        def current(tx: Tx) -> list[Block]:
            return self._blocks(tx, reach.key, resolve(tx, query.where, now), model)

        blocks = reach.read(current)
        if model is None or not any(block.pending for block in blocks):
            return model, blocks, False
        if sum(len(block.pending) for block in blocks) > model.embedder.quick:
            earlier = self.meaning.earlier(reach, model)
            if earlier is not None:
                return self._completed(reach, query, now, earlier)
        done, partly = self._complete(reach, model, blocks)
        return done, blocks, partly

    def _complete(self, reach: Reach, model: Model, blocks: Sequence[Block]) -> tuple[Model | None, bool]:
        """Make the missing vectors, as many as can be made while somebody waits, the newest first."""
        left = model.embedder.quick
        partly = False
        try:
            for block in blocks:
                with block.lock:
                    pending = sorted(block.pending, reverse=True)
                asked, partly = pending[: max(left, 0)], partly or len(pending) > left
                left -= len(asked)
                values = complete(reach, model, asked) if asked else {}
                with block.lock:
                    block.put(values)
                    block.give_up(asked)
        except ModelFailed as error:
            self.meaning.fail(error)
            return None, False
        return model, partly

    def _blocks(self, tx: Tx, owner: str, spans: Sequence[Span], model: Model | None) -> list[Block]:
        number, dimensions = ((model.number, model.name), model.embedder.dimensions) if model else ((0, ""), 0)
        state = search_state(tx) if spans else (0, 0)
        keys = [Key(owner, number, span.collection, span.id) for span in spans]
        return [self.blocks.current(tx, key, dimensions, state) for key in keys]

    # -- looking -----------------------------------------------------------------------------------------------------

    def _ranked(
        self, tx: Tx, owner: str, query: Query, ready: _Ready, now: int, also: int | None = None
    ) -> list[Ranked]:
        spans = resolve(tx, query.where, now)
        blocks = self._blocks(tx, owner, spans, ready.model)
        views = [look(tx, block, span.kinds, query, now) for block, span in zip(blocks, spans, strict=True)]
        return score(tx, spans, views, ready.question, ready.model, also)

    def _look(self, tx: Tx, owner: str, query: Query, ready: _Ready, now: int) -> tuple[list[Hit], bool]:
        chosen = _chosen(_ordered(self._ranked(tx, owner, query, ready, now)), query)
        listed = "[" + ",".join(str(docid) for docid, _, _ in chosen) + "]"
        found = tx.rows("hits", docids=listed, now=now) if chosen else []
        spans = resolve(tx, query.where, now)
        rows = {row[17]: row for row in found if any(span.holds(row[16], row[18], row[3]) for span in spans)}
        hits = [_hit(rows[docid], total, arms) for docid, total, arms in chosen if docid in rows]
        return hits, len(hits) == len(chosen)

    def _explain(self, tx: Tx, owner: str, query: Query, ready: _Ready, now: int, entry_id: str) -> Gate:
        row = tx.row("entry_anywhere", id=entry_id)
        if row is None:
            raise NotFound("There is no such entry.")
        gate = _closed_gate(row, resolve(tx, query.where, now), query, now)
        if gate is not None:
            return gate
        everything = _ordered(self._ranked(tx, owner, query, ready, now, also=row[0]))
        places = np.flatnonzero(everything.docids == row[0])
        place = int(places[0]) + 1 if len(places) else None
        total = None if place is None else round(float(everything.scores[place - 1]), 6)
        return _rank_gate(query, place, total)


def _method(ready: _Ready) -> str:
    chosen = ready.question.recipe
    names = [name for name, weight in (("words", chosen.words), ("meaning", chosen.meaning)) if weight]
    return "+".join(names) + (" (partly)" if ready.partly else "")


class _Ordered(NamedTuple):
    """The candidates of all views: numbers, scores and what the arms contribute, the best first; of equals, the newer."""

    docids: Array
    scores: Array
    parts: Array


def _ordered(ranked: Sequence[Ranked]) -> _Ordered:
    if not ranked:
        return _Ordered(np.zeros(0, np.int64), np.zeros(0), np.zeros((len(ARMS), 0)))
    docids = np.concatenate([one.view.docid[one.rows] for one in ranked])
    scores = np.concatenate([one.scores for one in ranked])
    times = np.concatenate([one.view.occurred_at[one.rows] for one in ranked])
    parts = np.concatenate([one.parts for one in ranked], axis=1)
    order = np.lexsort((docids, times, scores))[::-1]
    return _Ordered(docids[order], scores[order], parts[:, order])


def _chosen(ordered: _Ordered, query: Query) -> list[tuple[int, float, list[float]]]:
    """The best that are good enough. What has nothing of the query is a hit only if conditions alone were asked for."""
    conditions = query.filter is not None or query.after is not None or query.before is not None
    least = query.min_score if conditions or query.min_score else 1e-9
    count = min(query.limit, int(np.count_nonzero(ordered.scores >= least)))
    best = slice(0, count)
    return list(
        zip(
            ordered.docids[best].tolist(), ordered.scores[best].tolist(), ordered.parts[:, best].T.tolist(), strict=True
        )
    )


def _hit(row: Row, total: float, arms: Sequence[float]) -> Hit:
    named = {name: part for name, part in zip(ARMS, arms, strict=True) if part}
    return Hit(Entry(*row[:15]), row[15], row[18], total, named)


def _closed_gate(row: Row, spans: Sequence[Span], query: Query, now: int) -> Gate | None:
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


def _rank_gate(query: Query, place: int | None, total: float | None) -> Gate:
    if place is not None and total is not None and total < query.min_score:
        return Gate("score", f"Its score {total:.3f} is below the least that was asked for.", place, total)
    if place is None or place > query.limit:
        return Gate("rank", f"Others fit better: it is number {place}, and {query.limit} were asked for.", place, total)
    if not total:
        return Gate("score", "It has nothing in common with the query.", place, total)
    return Gate("found", f"It is hit number {place}.", place, total)
