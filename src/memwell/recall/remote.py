"""The similarity of a query to the entries of a collection that is too large to be held in memory.

The store names the nearest, by a graph over their vectors; of any others it is asked when somebody wants to know. What is
named is a choice of whom to look at, as signs are in memory; the similarity itself is always exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..storage.block import Array
from ..storage.port import Tx
from .nearest import LEAST_LINK, Scores, whole_and_best
from .view import View

NAMED = 200
FEW = 2000
"""Of so few that may be found, all are compared."""


class Remote:
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
            self.whole[rows[there]], self.best[rows[there]] = whole_and_best(cosines, np.cumsum(counts) - counts)

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
        if len(allowed) <= FEW:
            return allowed
        share = len(allowed) / len(self._view)
        if share > 0.1:
            named = self._named("nearest", vector, int(NAMED / share), collection=self._view.block.scope_id)
            named = named[self._view.allowed[named]]
            if len(named) >= NAMED // 2:
                return named
        listed = _listed(self._view.docid[allowed].tolist())
        return self._named("nearest_of", vector, NAMED, docids=listed)

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
            for docid, value in self._tx.rows("vectors_of", model=self._model, docids=_listed(missing)):
                parts = np.frombuffer(value, np.float16).reshape(-1, width)
                self._vectors[docid] = parts.astype(np.float32)
        return self._vectors


def _listed(docids: Sequence[int]) -> str:
    return "[" + ",".join(map(str, docids)) + "]"
