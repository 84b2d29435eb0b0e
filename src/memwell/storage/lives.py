"""When the entries of a block were known, when they were true, and who is behind them: asked for only by those who care.

It is loaded when a search first asks, and grows with the block. What it says of a row never changes: whatever changes an
entry writes a new version, which is another row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.entry import TRUST
from ..model.life import NEVER, Life
from ..model.query import Query
from .block import Block, Column
from .port import Tx

PIECE = 5000

Mask = NDArray[np.bool_]


class Lives:
    """Columns beside those of a block."""

    def __init__(self) -> None:
        self._known_from, self._known_to = Column(np.int64), Column(np.int64)
        self._true_from, self._true_to = Column(np.int64), Column(np.int64)
        self._trust = Column(np.int8)

    @property
    def footprint(self) -> int:
        columns = (self._known_from, self._known_to, self._true_from, self._true_to, self._trust)
        return sum(column.footprint for column in columns)

    def mask(self, tx: Tx, block: Block, query: Query, size: int) -> Mask:
        """For the first so many entries of a block, whether they meet the conditions of a query."""
        self._grow(tx, block, size)
        columns = (self._known_from, self._known_to, self._true_from, self._true_to)
        fits = np.ones(size, np.bool_)
        fits &= Life(*(column.values[:size] for column in columns)).fits(query.as_of, query.valid_at)
        if query.min_trust is not None:
            fits &= self._trust.values[:size] >= TRUST[query.min_trust]
        return fits

    def known(self, tx: Tx, block: Block, as_of: int, size: int) -> Mask:
        """Which of the first so many entries were known at a moment."""
        self._grow(tx, block, size)
        known: Mask = (self._known_from.values[:size] <= as_of) & (self._known_to.values[:size] > as_of)
        return known

    def _grow(self, tx: Tx, block: Block, size: int) -> None:
        for start in range(self._trust.size, size, PIECE):
            docids = block.docid.values[start : min(start + PIECE, size)].tolist()
            listed = "[" + ",".join(map(str, docids)) + "]"
            found = {row[0]: row for row in tx.rows("lives_of", docids=listed)}
            self._add([found.get(docid) for docid in docids])

    def _add(self, rows: list[Any]) -> None:
        """What is not there any more was never known."""
        given = [(*Life.of(*row[1:5]), TRUST.get(row[5], 0)) if row else _NOTHING for row in rows]
        columns = (self._known_from, self._known_to, self._true_from, self._true_to, self._trust)
        for column, values in zip(columns, zip(*given, strict=True), strict=True):
            column.extend(np.array(values, np.int64))


_NOTHING = (NEVER, 0, NEVER, 0, -1)
