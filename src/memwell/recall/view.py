"""A block as one search sees it: arrays that stay as they are, whatever is added meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.query import Query
from ..storage.block import Array, Block
from ..storage.columns import Columns
from ..storage.port import Tx


@dataclass(frozen=True, slots=True)
class View:
    """The entries of a block, and which of them may be found."""

    block: Block
    docid: Array
    seq: Array
    address: Array
    kind: Array
    role: Array
    name: Array
    occurred_at: Array
    size: Array
    asks: Array
    before: Array
    after: Array
    first_part: Array
    vectors: Array
    scale: Array
    here: NDArray[np.bool_]
    """Alive: it may lend support."""
    allowed: NDArray[np.bool_]
    """Alive, and it meets the conditions: it may be found."""

    entries: int
    """How many are alive."""

    def __len__(self) -> int:
        return len(self.docid)


def look(tx: Tx, block: Block, kinds: tuple[str, ...] | None, query: Query, now: int) -> View:
    """A block under the conditions of a query. Time does not run backwards: what has expired once stays out."""
    with block.lock:
        count = len(block)
        block.clock = max(block.clock, now)
        here = block.alive.values & (block.expires_at.values > block.clock)
        allowed = here
        if kinds is not None:
            codes = [block.kinds.codes[kind] for kind in kinds if kind in block.kinds.codes]
            allowed = allowed & np.isin(block.kind.values, codes)
        if query.after is not None:
            allowed = allowed & (block.occurred_at.values >= query.after)
        if query.before is not None:
            allowed = allowed & (block.occurred_at.values < query.before)
        if query.filter is not None:
            block.columns = block.columns or Columns()
            allowed = allowed & block.columns.mask(tx, block, query.filter, count)
        names = ("docid", "seq", "address", "kind", "role", "name", "occurred_at", "size", "asks", "before", "after")
        arrays: dict[str, Any] = {
            name: getattr(block, name).values for name in (*names, "first_part", "vectors", "scale")
        }
        return View(block=block, here=here, allowed=allowed, entries=int(np.count_nonzero(here)), **arrays)
