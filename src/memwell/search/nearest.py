"""The similarity of a query to every entry: a scan over bytes, which is fast enough without a graph.

Beyond a hundred thousand vectors, the signs of their numbers select the entries to compare, since they tell roughly where a
vector points. The number of candidates that this needs depends on the data, so it is measured on the index itself; if no number
is enough, all vectors are scanned. If a collection is too large for memory, the database finds the nearest entries by a graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import simsimd
from numpy.typing import NDArray

from ..storage.port import Tx, encode_numbers
from .columns import SpaceView, View
from .vector_space import NEVER, Array

SCAN_ALL = 100_000
TRIALS = 8
CHECKS = 10
CANDIDATES = (1000, 4000, 16_000)
MIN_RECALL = 0.99
MIN_LINK = 0.2
NEAREST = 200
MAX_COMPARE = 2000
"""If no more entries than this are allowed, all of them are compared."""
_FAR = 60_000

Scores = NDArray[np.float32]


class Similarities(ABC):
    """The similarity of each entry to a query: of the whole entry, and of its best part. Rows that were skipped at first are
    compared when their similarity is needed."""

    def __init__(self, view: View, space: SpaceView, vector: Array | None) -> None:
        self._view, self.space, self._vector = view, space, vector
        self.whole: Scores = np.zeros(len(view), np.float32)
        self.best = self.whole
        self._pair: Scores | None = None
        self._compared: NDArray[np.bool_] | None = None
        """The rows that were compared; None if all were."""

    @property
    def partial(self) -> bool:
        """True if some rows were skipped."""
        return self._compared is not None

    def need(self, rows: Array) -> None:
        """Compare these rows, unless that was done before."""
        if self._compared is None or self._vector is None:
            return
        rows = rows[~self._compared[rows]]
        if len(rows):
            self._compared[rows] = True
            self._compare(rows)

    def mix(self, rows: Array | slice, parts: float) -> Scores:
        """Combine the similarities of the whole and of the best part, which has the weight `parts`."""
        best = self.best[rows] if self._pair is None else np.maximum(self.best[rows], self._pair[rows])
        mixed: Scores = (1.0 - parts) * self.whole[rows] + parts * best
        return mixed

    def add_pairs(self, rows: Array, before: Array, link: Array) -> None:
        """Compare an entry together with the one before it, as if both were one part: an answer with its question."""
        at = np.flatnonzero(link > MIN_LINK)
        if not len(at) or self._vector is None:
            return
        rows, before, link = rows[at], before[at], link[at]
        self.need(before)
        together = np.sqrt(2.0 + 2.0 * np.clip(self._between(rows, before), -0.99, 1.0))
        self._pair = np.full(len(self._view), -1.0, np.float32)
        self._pair[rows] = link * (self.whole[rows] + self.whole[before]) / together

    def replace(self, rows: Array, cosines: Scores, starts: Array) -> None:
        """Replace the similarities of some rows by those of their stored vectors."""
        self.whole[rows], self.best[rows] = _reduce_parts(cosines, starts)

    def compare_parts(self, row: int) -> Scores:
        """The similarities of the parts of an entry: of the whole first, then of each passage."""
        found: Scores = np.zeros(0, np.float32) if self._vector is None else self._compare_parts(row)
        return found

    def keep_part(self, row: int, similarity: float) -> None:
        """Let one part stand for its entry."""
        if self.best is self.whole:
            self.best = self.whole.copy()
        self.best[row] = similarity

    @abstractmethod
    def _compare(self, rows: Array) -> None: ...

    @abstractmethod
    def _compare_parts(self, row: int) -> Scores: ...

    @abstractmethod
    def _between(self, rows: Array, others: Array) -> Array:
        """The similarity of some entries to some others, pair by pair."""


class LocalSimilarities(Similarities):
    """Similarities of entries whose vectors are in memory."""

    def __init__(self, view: View, space: SpaceView, vector: Array | None) -> None:
        super().__init__(view, space, vector)
        if vector is None or not len(space.vectors):
            return
        self._query, self._scale = (vector, 1.0) if space.exact else _quantise(vector)
        rows = _list_rows_to_scan(view, space, vector)
        if rows is None:
            cosines = _cosines(self._query, space.vectors, space.scale * self._scale)
            self.whole, self.best = _reduce_parts(cosines, space.first_part)
        else:
            self._compared = np.zeros(len(view), np.bool_)
            self.best = self.whole.copy()
            self.need(rows)

    def _compare(self, rows: Array) -> None:
        space = self.space
        ends = np.append(space.first_part, len(space.vectors))
        counts = ends[rows + 1] - ends[rows]
        starts = np.cumsum(counts) - counts
        parts = np.repeat(ends[rows] - starts, counts) + np.arange(int(counts.sum()))
        cosines = _cosines(self._query, space.vectors[parts], space.scale[parts] * self._scale)
        self.whole[rows], self.best[rows] = _reduce_parts(cosines, starts)

    def _compare_parts(self, row: int) -> Scores:
        space = self.space
        if not len(space.vectors):
            return np.zeros(0, np.float32)
        end = int(space.first_part[row + 1]) if row + 1 < len(space.first_part) else len(space.vectors)
        parts = slice(int(space.first_part[row]), end)
        return _cosines(self._query, space.vectors[parts], space.scale[parts] * self._scale)

    def _between(self, rows: Array, others: Array) -> Array:
        space = self.space
        first, second = space.first_part[rows], space.first_part[others]
        left, right = (space.vectors[parts].astype(np.float32, copy=False) for parts in (first, second))
        between: Array = np.einsum("ij,ij->i", left, right) * space.scale[first] * space.scale[second]
        return between


class RemoteSimilarities(Similarities):
    """Similarities of entries whose vectors stay in the database. Its graph selects the entries; similarities are exact."""

    def __init__(self, tx: Tx, view: View, space: SpaceView, vector: Array | None) -> None:
        super().__init__(view, space, vector)
        self._tx, self._model = tx, space.space.model
        self.best = self.whole.copy()
        self._compared = np.zeros(len(view), np.bool_)
        self._vectors: dict[int, Array] = {}
        if vector is not None:
            self.need(self._find_nearest(vector))

    def replace(self, rows: Array, cosines: Scores, starts: Array) -> None:
        """Do nothing, because the similarities are exact already."""

    def _compare(self, rows: Array) -> None:
        found = self._load(rows)
        there = np.array([docid in found for docid in self._view.docid[rows].tolist()], np.bool_)
        if there.any():
            parts = [found[docid] for docid in self._view.docid[rows[there]].tolist()]
            counts = np.array([len(part) for part in parts])
            cosines = np.concatenate(parts) @ self._vector
            self.whole[rows[there]], self.best[rows[there]] = _reduce_parts(cosines, np.cumsum(counts) - counts)

    def _compare_parts(self, row: int) -> Scores:
        parts = self._load(np.array([row])).get(int(self._view.docid[row]))
        found: Scores = np.zeros(0, np.float32) if parts is None else parts @ self._vector
        return found

    def _between(self, rows: Array, others: Array) -> Array:
        found = self._load(np.concatenate([rows, others]))
        docid, nothing = self._view.docid, np.zeros(self.space.space.dimensions, np.float32)
        left, right = (
            np.stack([found[number][0] if number in found else nothing for number in docid[side].tolist()])
            for side in (rows, others)
        )
        between: Array = np.einsum("ij,ij->i", left, right)
        return between

    def _find_nearest(self, vector: Array) -> Array:
        """The allowed rows that the database finds nearest, or all allowed rows if they are few."""
        allowed = np.flatnonzero(self._view.allowed)
        if len(allowed) <= MAX_COMPARE:
            return allowed
        share = len(allowed) / len(self._view)
        if share > 0.1:
            named = self._query_nearest("nearest", vector, int(NEAREST / share), collection=self._view.index.scope_id)
            named = named[self._view.allowed[named]]
            if len(named) >= NEAREST // 2:
                return named
        listed = encode_numbers(self._view.docid[allowed].tolist())
        return self._query_nearest("nearest_of", vector, NEAREST, docids=listed)

    def _query_nearest(self, query: str, vector: Array, limit: int, **given: object) -> Array:
        half = vector.astype(np.float16).tobytes()
        named = {"model": self._model, "value": half, "dimensions": len(vector), "limit": limit}
        docids = np.array(sorted({row[0] for row in self._tx.rows(query, **named, **given)}), np.int64)
        rows = self._view.index.find_rows(docids)
        return rows[rows < len(self._view)]

    def _load(self, rows: Array) -> dict[int, Array]:
        """Load the vectors of some rows, and return them with those that were loaded before."""
        docids = self._view.docid[rows].tolist()
        missing = sorted({docid for docid in docids if docid not in self._vectors})
        if missing:
            width = self.space.space.dimensions
            for docid, value in self._tx.rows("vectors_of", model=self._model, docids=encode_numbers(missing)):
                parts = np.frombuffer(value, np.float16).reshape(-1, width)
                self._vectors[docid] = parts.astype(np.float32)
        return self._vectors


def find_best(scores: Scores, allowed: Array, limit: int) -> Array:
    """The allowed rows with the highest scores, unordered."""
    rows = np.flatnonzero(allowed)
    if len(rows) <= limit:
        return rows
    return rows[np.argpartition(-scores[rows], limit)[:limit]]


def find_nearest(view: View, vector: Array, count: int) -> Array:
    """The allowed rows that are most similar to a vector of the last space, the best first."""
    if not vector.any():
        return np.zeros(0, np.int64)
    whole = LocalSimilarities(view, view.spaces[-1], vector).whole
    rows = find_best(whole, view.allowed, count)
    return rows[np.argsort(-whole[rows], kind="stable")]


def _reduce_parts(cosines: Scores, starts: Array) -> tuple[Scores, Scores]:
    """Return the similarities of each whole entry and of its best part. An entry's first vector is that of the whole."""
    if len(cosines) == len(starts):
        return cosines, cosines
    return cosines[starts], np.maximum.reduceat(cosines, starts)


def _quantise(vector: Array) -> tuple[Array, float]:
    top = float(np.abs(vector).max()) or 1.0
    return np.rint(vector * (127.0 / top)).astype(np.int8), top / 127.0


def _cosines(query: Array, vectors: Array, scale: Array) -> Scores:
    dots: Scores = np.asarray(simsimd.cdist(query[None], vectors, metric="dot", out_dtype="f32"), np.float32)[0]
    dots *= scale
    return dots


# -- Sign bits, which select the entries to compare in a large index


class SignBits:
    """The signs of an index's vectors, as columns of 64 bits, and the number of candidates to select by them."""

    def __init__(self) -> None:
        self._room: Array = np.zeros((0, 0), np.uint64)
        self._size = 0
        self.candidates: int | None = None
        self._checked = 0

    @property
    def words(self) -> Array:
        return self._room[:, : self._size]

    def update(self, vectors: Array, scale: Array, changed: int | None = None) -> None:
        """Add the signs of new vectors, and update those from the first changed vector on."""
        due = len(vectors) > 1.5 * self._checked
        if not due and self.candidates is None:
            return  # all are scanned anyway
        self._size = min(self._size, len(vectors) if changed is None else changed)
        if self._size < len(vectors):
            packed = _pack(vectors[self._size :])
            if len(vectors) > self._room.shape[1]:
                room = np.zeros((len(packed), len(vectors) * 3 // 2), np.uint64)
                if self._size:
                    room[:, : self._size] = self._room[:, : self._size]
                self._room = room
            self._room[:, self._size : len(vectors)] = packed
            self._size = len(vectors)
        if due:
            self._checked = len(vectors)
            self.candidates = self._measure(vectors, scale)

    def nearest(self, vector: Array, count: int, banned: Array | None = None) -> Array:
        """Return at least `count` parts, those whose signs differ least from the vector's."""
        signs = _pack(np.sign(vector)[None].astype(np.int8))[:, 0]
        distance: Array = np.bitwise_count(self.words[0] ^ signs[0]).astype(np.uint16)
        for word, sign in zip(self.words[1:], signs[1:], strict=True):
            distance += np.bitwise_count(word ^ sign)
        if banned is not None:
            distance[banned] = _FAR
        within = np.cumsum(np.bincount(distance, minlength=1))
        cut = min(int(np.searchsorted(within, count)), _FAR - 1)
        return np.flatnonzero(distance <= cut)

    def _measure(self, vectors: Array, scale: Array) -> int | None:
        """Return the number of candidates that includes nearly all true neighbours of sample queries; None if none does.

        The sample queries are entries with some noise.
        """
        noise = np.random.default_rng(len(vectors))
        picked = noise.choice(len(vectors), TRIALS, replace=False)
        for count in CANDIDATES:
            if np.mean([self._recall(vectors, scale, int(row), noise, count) for row in picked]) >= MIN_RECALL:
                return count
        return None

    def _recall(self, vectors: Array, scale: Array, row: int, noise: Any, count: int) -> float:
        near = vectors[row] * scale[row]
        query = near + noise.normal(0, float(np.abs(near).mean()) or 1.0, len(near)).astype(np.float32)
        dots = _cosines(_quantise(query)[0], vectors, scale)
        best = np.argpartition(-dots, CHECKS)[:CHECKS]
        return float(np.isin(best, self.nearest(query, count)).mean())


def _pack(vectors: Array) -> Array:
    """Pack signs into bits: one row of 64-bit words for every 64 dimensions."""
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _list_rows_to_scan(view: View, space: SpaceView, vector: Array) -> Array | None:
    """The rows to compare; None for all of them."""
    if len(view) <= SCAN_ALL or space.exact:
        return None
    allowed = np.flatnonzero(view.allowed)
    if len(allowed) <= SCAN_ALL:
        return allowed
    index = view.index
    with index.lock:
        kept = space.space
        if kept.first_part is not space.layout:
            return None  # the vectors were laid out again after this view was built
        kept.bits = bits = kept.bits or SignBits()
        vectors = kept.vectors.values
        bits.update(vectors, kept.scale.values, min(kept.changed_part, len(vectors)))
        kept.changed_part = NEVER
        if bits.candidates is None:
            return None
        banned: Array | None = None
        if np.count_nonzero(~view.allowed) * 10 >= len(view):
            counts = np.diff(np.append(space.first_part, len(space.vectors)))
            banned = np.flatnonzero(np.repeat(~view.allowed, counts))
        parts = bits.nearest(vector, bits.candidates, banned)
    parts = parts[parts < len(space.vectors)]
    return np.unique(np.searchsorted(space.first_part, parts, side="right") - 1)
