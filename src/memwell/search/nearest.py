"""The similarity of a query to every entry: a scan over bytes, which is fast enough not to need a graph.

Beyond a hundred thousand vectors, single bits choose whom to look at: the sign of each number says roughly where a vector
points. How many must be looked at depends on the data, so it is measured on the block itself; if no number is enough, all
are scanned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import simsimd
from numpy.typing import NDArray

from ..storage.port import Tx
from .columns import View
from .index import NEVER, Array, Index

SCAN_ALL = 100_000
TRIALS = 8
CHECKS = 10
CANDIDATES = (1000, 4000, 16_000)
MIN_RECALL = 0.99
LEAST_LINK = 0.2
_FAR = 60_000

Scores = NDArray[np.float32]


class Similarities:
    """How similar each entry is to a query: as a whole, and by its best part. Of those that bits passed over it is not
    known until it is asked for."""

    def __init__(self, view: View, vector: Array | None) -> None:
        self._view = view
        self.whole: Scores = np.zeros(len(view), np.float32)
        self.best = self.whole
        self._pair: Scores | None = None
        self._known: NDArray[np.bool_] | None = None
        if vector is None or not len(view.vectors):
            return
        self._query, self._scale = (vector, 1.0) if view.exact else _quantise(vector)
        rows = _list_rows_to_scan(view, vector)
        if rows is None:
            cosines = _cosines(self._query, view.vectors, view.scale * self._scale)
            self.whole, self.best = reduce_parts(cosines, view.first_part)
        else:
            self._known = np.zeros(len(view), np.bool_)
            self.best = self.whole.copy()
            self.need(rows)

    @property
    def partial(self) -> bool:
        """Whether some rows were passed over."""
        return self._known is not None

    def need(self, rows: Array) -> None:
        """See to it that the similarity of these rows is known."""
        if self._known is None:
            return
        rows = rows[~self._known[rows]]
        if len(rows):
            self.whole[rows], self.best[rows] = self._similar(rows)
            self._known[rows] = True

    def mixed(self, rows: Array | slice, parts: float) -> Scores:
        """The whole and the best part, weighed."""
        best = self.best[rows] if self._pair is None else np.maximum(self.best[rows], self._pair[rows])
        mixed: Scores = (1.0 - parts) * self.whole[rows] + parts * best
        return mixed

    def exactly(self, rows: Array, cosines: Scores, starts: Array) -> None:
        """The similarity of some rows' stored vectors, in place of that of their bytes."""
        self.whole[rows], self.best[rows] = reduce_parts(cosines, starts)

    def with_pairs(self, rows: Array, before: Array, link: Array) -> None:
        """Let an entry together with the one before it count as a part of it: an answer with its question."""
        at = np.flatnonzero(link > LEAST_LINK)
        if not len(at) or not len(self._view.vectors):
            return
        rows, before, link = rows[at], before[at], link[at]
        self.need(before)
        together = np.sqrt(2.0 + 2.0 * np.clip(self._between(rows, before), -0.99, 1.0))
        pair = link * (self.whole[rows] + self.whole[before]) / together
        self._pair = np.full(len(self._view), -1.0, np.float32)
        self._pair[rows] = pair

    def _between(self, rows: Array, others: Array) -> Array:
        """The similarity of some entries to some others, pair by pair."""
        view = self._view
        one, two = view.first_part[rows], view.first_part[others]
        left, right = (view.vectors[rows].astype(np.float32, copy=False) for rows in (one, two))
        between: Array = np.einsum("ij,ij->i", left, right) * view.scale[one] * view.scale[two]
        return between

    def _similar(self, rows: Array) -> tuple[Scores, Scores]:
        view = self._view
        ends = np.append(view.first_part, len(view.vectors))
        counts = ends[rows + 1] - ends[rows]
        starts = np.cumsum(counts) - counts
        parts = np.repeat(ends[rows] - starts, counts) + np.arange(int(counts.sum()))
        return reduce_parts(_cosines(self._query, view.vectors[parts], view.scale[parts] * self._scale), starts)


def find_nearest(view: View, vector: Array, count: int) -> Array:
    """The rows that are most similar to a vector among those that may be found, the best first."""
    if not vector.any():
        return np.zeros(0, np.int64)
    whole = Similarities(view, vector).whole
    rows = np.flatnonzero(view.allowed)
    if len(rows) > count:
        rows = rows[np.argpartition(-whole[rows], count)[:count]]
    return rows[np.argsort(-whole[rows], kind="stable")]


def reduce_parts(cosines: Scores, starts: Array) -> tuple[Scores, Scores]:
    """An entry's first vector is that of its whole; the best of all its vectors is that of its best part."""
    if len(cosines) == len(starts):
        return cosines, cosines
    return cosines[starts], np.maximum.reduceat(cosines, starts)


def _list_rows_to_scan(view: View, vector: Array) -> Array | None:
    """Which rows to look at; None if it is all of them."""
    if len(view) <= SCAN_ALL or view.exact:
        return None
    allowed = np.flatnonzero(view.allowed)
    if len(allowed) <= SCAN_ALL:
        return allowed
    parts = _find_parts(view, vector)
    if parts is None:
        return None
    return np.unique(np.searchsorted(view.first_part, parts, side="right") - 1)


def _quantise(vector: Array) -> tuple[Array, float]:
    top = float(np.abs(vector).max()) or 1.0
    return np.rint(vector * (127.0 / top)).astype(np.int8), top / 127.0


def _cosines(query: Array, vectors: Array, scale: Array) -> Scores:
    dots: Scores = np.asarray(simsimd.cdist(query[None], vectors, metric="dot", out_dtype="f32"), np.float32)[0]
    dots *= scale
    return dots


# -- bits ----------------------------------------------------------------------------------------------------------------


class SignBits:
    """The signs of a block's vectors, as columns of 64 bits, and how many candidates they must name."""

    def __init__(self) -> None:
        self._room: Array = np.zeros((0, 0), np.uint64)
        self._size = 0
        self.candidates: int | None = None
        self._checked = 0

    @property
    def words(self) -> Array:
        return self._room[:, : self._size]

    def update(self, vectors: Array, scale: Array, changed: int | None = None) -> None:
        """Take in what was added, and what was changed from some vector on."""
        due = len(vectors) > 1.5 * self._checked
        if not due and self.candidates is None:
            return  # all are scanned anyway
        self._size = min(self._size, len(vectors) if changed is None else changed)
        if self._size < len(vectors):
            self._put(_pack(vectors[self._size :]))
        if due:
            self._checked = len(vectors)
            self.candidates = self._measure(vectors, scale)

    def _put(self, packed: Array) -> None:
        need = self._size + packed.shape[1]
        if need > self._room.shape[1]:
            room = np.zeros((len(packed), need * 3 // 2), np.uint64)
            if self._size:
                room[:, : self._size] = self._room[:, : self._size]
            self._room = room
        self._room[:, self._size : need] = packed
        self._size = need

    def nearest(self, vector: Array, count: int, banned: Array | None = None) -> Array:
        """The parts whose signs differ least from the vector's, at least so many."""
        distance = self._distances(_pack(np.sign(vector)[None].astype(np.int8))[:, 0])
        if banned is not None:
            distance[banned] = _FAR
        within = np.cumsum(np.bincount(distance, minlength=1))
        cut = min(int(np.searchsorted(within, count)), _FAR - 1)
        return np.flatnonzero(distance <= cut)

    def _distances(self, signs: Array) -> Array:
        distance: Array = np.bitwise_count(self.words[0] ^ signs[0]).astype(np.uint16)
        for word, sign in zip(self.words[1:], signs[1:], strict=True):
            distance += np.bitwise_count(word ^ sign)
        return distance

    def _measure(self, vectors: Array, scale: Array) -> int | None:
        """How many candidates hold nearly all of the true nearest, for queries like the entries themselves."""
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
    """Signs as bits, one row of words for every 64 dimensions."""
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def _find_parts(view: View, vector: Array) -> Array | None:
    """The parts to look at; None if all must be."""
    block = view.block
    with block.lock:
        if block.first_part is not view.layout:
            return None  # the parts were laid out anew since this view was taken
        bits, vectors = _get_bits(block), block.vectors.values
        bits.update(vectors, block.scale.values, min(block.changed_part, len(vectors)))
        block.changed_part = NEVER
        if bits.candidates is None:
            return None
        parts = bits.nearest(vector, bits.candidates, _list_excluded_parts(view))
    return parts[parts < len(view.vectors)]


def _list_excluded_parts(view: View) -> Array | None:
    """The parts of what may not be found, if that is much."""
    banned = ~view.allowed
    if np.count_nonzero(banned) * 10 < len(view):
        return None
    counts = np.diff(np.append(view.first_part, len(view.vectors)))
    return np.flatnonzero(np.repeat(banned, counts))


def _get_bits(block: Index) -> SignBits:
    if not isinstance(block.bits, SignBits):
        block.bits = SignBits()
    return block.bits


# -- The similarity of a query to the entries of a collection that is too large to be held in memory.
#
# The store names the nearest, by a graph over their vectors; of any others it is asked when somebody wants to know. What is
# named is a choice of whom to look at, as signs are in memory; the similarity itself is always exact.


NEAREST = 200
MAX_COMPARE = 2000
"""Of so few that may be found, all are compared."""


class RemoteSimilarities:
    """How similar each entry is to a query, as far as it was asked for."""

    partial = True

    def __init__(self, tx: Tx, view: View, vector: Array | None, model: int) -> None:
        self._tx, self._view, self._vector, self._model = tx, view, vector, model
        self.whole: Scores = np.zeros(len(view), np.float32)
        self.best = self.whole.copy()
        self._pair: Scores | None = None
        self._known = np.zeros(len(view), np.bool_)
        self._vectors: dict[int, Array] = {}
        if vector is not None:
            self.need(self._nearest(vector))

    def need(self, rows: Array) -> None:
        """See to it that the similarity of these rows is known."""
        rows = rows[~self._known[rows]]
        if not len(rows) or self._vector is None:
            return
        self._known[rows] = True
        found = self._stored(rows)
        there = np.array([docid in found for docid in self._view.docid[rows].tolist()], np.bool_)
        if there.any():
            parts = [found[docid] for docid in self._view.docid[rows[there]].tolist()]
            counts = np.array([len(part) for part in parts])
            cosines = np.concatenate(parts) @ self._vector
            self.whole[rows[there]], self.best[rows[there]] = reduce_parts(cosines, np.cumsum(counts) - counts)

    def mixed(self, rows: Array | slice, parts: float) -> Scores:
        """The whole and the best part, weighed."""
        best = self.best[rows] if self._pair is None else np.maximum(self.best[rows], self._pair[rows])
        mixed: Scores = (1.0 - parts) * self.whole[rows] + parts * best
        return mixed

    def exactly(self, rows: Array, cosines: Scores, starts: Array) -> None:
        """They are exact already."""

    def with_pairs(self, rows: Array, before: Array, link: Array) -> None:
        """Let an entry together with the one before it count as a part of it: an answer with its question."""
        at = np.flatnonzero(link > LEAST_LINK)
        if not len(at) or self._vector is None:
            return
        rows, before, link = rows[at], before[at], link[at]
        self.need(before)
        found = self._stored(np.concatenate([rows, before]))
        docid, nothing = self._view.docid, np.zeros(len(self._vector), np.float32)
        left, right = (
            np.stack([found[one][0] if one in found else nothing for one in docid[some].tolist()])
            for some in (rows, before)
        )
        between = np.einsum("ij,ij->i", left, right)
        together = np.sqrt(2.0 + 2.0 * np.clip(between, -0.99, 1.0))
        self._pair = np.full(len(self._view), -1.0, np.float32)
        self._pair[rows] = link * (self.whole[rows] + self.whole[before]) / together

    def _nearest(self, vector: Array) -> Array:
        """The rows that the store names among those that may be found; all of them if they are few."""
        allowed = np.flatnonzero(self._view.allowed)
        if len(allowed) <= MAX_COMPARE:
            return allowed
        share = len(allowed) / len(self._view)
        if share > 0.1:
            named = self._named("nearest", vector, int(NEAREST / share), collection=self._view.block.scope_id)
            named = named[self._view.allowed[named]]
            if len(named) >= NEAREST // 2:
                return named
        listed = _encode_numbers(self._view.docid[allowed].tolist())
        return self._named("nearest_of", vector, NEAREST, docids=listed)

    def _named(self, query: str, vector: Array, limit: int, **given: object) -> Array:
        half = vector.astype(np.float16).tobytes()
        named = {"model": self._model, "value": half, "dimensions": len(vector), "limit": limit}
        docids = np.array(sorted({row[0] for row in self._tx.rows(query, **named, **given)}), np.int64)
        rows = self._view.block.rows_of(docids)
        return rows[rows < len(self._view)]

    def _stored(self, rows: Array) -> dict[int, Array]:
        """The vectors of some rows' parts; what was read stays known."""
        docids = self._view.docid[rows].tolist()
        missing = sorted({docid for docid in docids if docid not in self._vectors})
        if missing:
            width = self._view.block.dimensions
            for docid, value in self._tx.rows("vectors_of", model=self._model, docids=_encode_numbers(missing)):
                parts = np.frombuffer(value, np.float16).reshape(-1, width)
                self._vectors[docid] = parts.astype(np.float32)
        return self._vectors


def _encode_numbers(docids: Sequence[int]) -> str:
    return "[" + ",".join(map(str, docids)) + "]"
