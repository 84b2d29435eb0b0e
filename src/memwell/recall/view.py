"""A block as one search sees it: arrays that stay as they are, whatever is added meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.query import Query
from ..storage.block import Array, Block, Column, State
from ..storage.columns import Columns
from ..storage.lives import Lives
from ..storage.port import Tx


@dataclass(frozen=True, slots=True)
class View:
    """The entries of a block, and which of them may be found."""

    block: Block
    state: State
    layout: Column
    """Which parts belong to which entry, as the block had it laid out."""
    docid: Array
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

    @property
    def exact(self) -> bool:
        """Whether the vectors are the stored ones themselves."""
        return self.block.remote or self.vectors.dtype == np.float32

    def __len__(self) -> int:
        return len(self.docid)


def look(tx: Tx, block: Block, kinds: tuple[str, ...] | None, query: Query, now: int, state: State) -> View:
    """A block under the conditions of a query, as far as the transaction's snapshot reaches.

    Time does not run backwards: what has expired once stays out.
    """
    with block.lock:
        count = block.upto(state)
        block.clock = max(block.clock, now)
        here = block.alive.values[:count] & (block.expires_at.values[:count] > block.clock)
        allowed = here
        if kinds is not None:
            codes = [block.kinds.codes[kind] for kind in kinds if kind in block.kinds.codes]
            allowed = allowed & np.isin(block.kind.values[:count], codes)
        if query.after is not None:
            allowed = allowed & (block.occurred_at.values[:count] >= query.after)
        if query.before is not None:
            allowed = allowed & (block.occurred_at.values[:count] < query.before)
        if query.filter is not None:
            block.columns = block.columns or Columns()
            allowed = allowed & block.columns.mask(tx, block, query.filter, count)
        if query.as_of is not None or query.valid_at is not None or query.min_trust is not None:
            block.lives = block.lives or Lives()
            allowed = allowed & block.lives.mask(tx, block, query, count)
        if query.as_of is not None:
            here = here & block.lives.known(
                tx, block, query.as_of, count
            )  # what came later lends nothing and counts for nothing
        names = ("docid", "kind", "role", "name", "occurred_at", "size", "asks", "before", "after", "first_part")
        arrays: dict[str, Any] = {name: getattr(block, name).values[:count] for name in names}
        whole = count == len(block) or not block.dimensions or block.remote
        parts = block.vectors.size if whole else int(block.first_part.values[count])
        return View(
            block=block,
            state=state,
            here=here,
            allowed=allowed,
            entries=int(np.count_nonzero(here)),
            layout=block.first_part,
            vectors=block.vectors.values[:parts],
            scale=block.scale.values[:parts],
            **arrays,
        )


def names_in(tx: Tx, block: Block, as_of: int | None) -> list[str]:
    """The names of those who have said something in a block, or had at a moment."""
    if as_of is None:
        return block.live_names()
    with block.lock:
        block.lives = block.lives or Lives()
        return block.live_names(block.lives.known(tx, block, as_of, len(block)))
