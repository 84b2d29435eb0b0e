"""Metadata as columns beside a block, so that a filter is answered for all its entries at once.

A column holds for each entry which of the distinct values stands at a path. A question is put to each distinct value once,
by the plain evaluator, so there is one meaning of filters; numbers are compared as arrays. Columns are made when a filter
first asks for their path, and grow with the block.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..model.collection import TRUST
from ..model.filter import NEVER, And, Filter, Leaf, Life, Not, Or, Query, leaf_matches, look_up
from ..storage.port import State, Tx
from .index import Array, Column, Index

PIECE = 5000
MAX_PATHS = 32
"""How many paths have their columns; those that were asked for last."""
_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_EXACT = 2**53

Mask = NDArray[np.bool_]


class MetadataColumn:
    """What stands at one path, for every entry of a block."""

    def __init__(self) -> None:
        self.codes = Column(np.int32)
        self.numbers = Column(np.float64)
        self.values: list[tuple[bool, Any]] = []
        self.plain: list[bool] = []
        self._known: dict[bytes, int] = {}

    def add(self, present: bool, value: Any) -> int:
        key = msgspec.json.encode(value) if present else b""
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = len(self.values)
            self.values.append((present, value))
        return code


class MetadataColumns:
    """The columns of one block, and the metadata that they are made from."""

    def __init__(self) -> None:
        self._paths: dict[tuple[str, ...], MetadataColumn] = {}

    @property
    def footprint(self) -> int:
        return sum(
            path.codes.footprint + path.numbers.footprint + 200 * len(path.values) for path in self._paths.values()
        )

    def mask(self, tx: Tx, block: Index, condition: Filter, size: int) -> Mask:
        """For the first so many entries of a block, whether they fit."""
        match condition:
            case And(parts):
                fits = np.ones(size, np.bool_)
                for part in parts:
                    fits &= self.mask(tx, block, part, size)
                return fits
            case Or(parts):
                fits = np.zeros(size, np.bool_)
                for part in parts:
                    fits |= self.mask(tx, block, part, size)
                return fits
            case Not(part):
                return ~self.mask(tx, block, part, size)
            case Leaf(path):
                return _match_column(condition, self._path(tx, block, path, size), size)

    def _path(self, tx: Tx, block: Index, path: tuple[str, ...], size: int) -> MetadataColumn:
        column = self._paths.pop(path, None) or MetadataColumn()
        self._paths[path] = column
        while len(self._paths) > MAX_PATHS:
            del self._paths[next(iter(self._paths))]
        for start in range(column.codes.size, size, PIECE):
            docids = block.docid.values[start : min(start + PIECE, size)]
            rows: dict[int, str | None] = dict(
                tx.rows("metadata_of", docids="[" + ",".join(map(str, docids.tolist())) + "]")
            )
            pairs = [_find_value(path, rows.get(docid)) for docid in docids.tolist()]
            column.codes.extend(np.array([column.add(*pair) for pair in pairs], np.int32))
            column.numbers.extend(np.array([_to_number(value) for _, value in pairs], np.float64))
        return column


def _find_value(path: tuple[str, ...], metadata: str | None) -> tuple[bool, Any]:
    return look_up(path, msgspec.json.decode(metadata)) if metadata else (False, None)


def _to_number(value: Any) -> float:
    """A number that a float holds exactly; anything else is answered value by value."""
    plain = isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _EXACT
    )
    return float(value) if plain else np.nan


def _match_column(leaf: Leaf, column: MetadataColumn, size: int) -> Mask:
    limit = _find_limit(leaf)
    if limit is None:
        truth = np.array([leaf_matches(leaf, *pair) for pair in column.values], np.bool_)
        return truth[column.codes.values[:size]] if len(truth) else np.zeros(size, np.bool_)
    numbers = column.numbers.values[:size]
    with np.errstate(invalid="ignore"):
        answer: Mask = _ORDER[leaf.op](numbers, limit)
    others = np.flatnonzero(np.isnan(numbers))
    if len(others):
        codes = column.codes.values[others]
        distinct = np.unique(codes)
        truth = np.zeros(len(column.values), np.bool_)
        truth[distinct] = [leaf_matches(leaf, *column.values[code]) for code in distinct.tolist()]
        answer[others] = truth[codes]
    return answer


def _find_limit(leaf: Leaf) -> float | None:
    """The number that a question of order compares with, if floats can answer it exactly."""
    if leaf.op not in _ORDER:
        return None
    ((kind, value),) = leaf.values
    return float(value) if kind == "number" and (isinstance(value, float) or abs(value) <= _EXACT) else None


# -- When the entries of a block were known, when they were true, and who is behind them: asked for only by those who care.
#
# It is loaded when a search first asks, and grows with the block. What it says of a row never changes: whatever changes an
# entry writes a new version, which is another row.


class ValidityColumns:
    """Columns beside those of a block."""

    def __init__(self) -> None:
        self._known_from, self._known_to = Column(np.int64), Column(np.int64)
        self._true_from, self._true_to = Column(np.int64), Column(np.int64)
        self._trust = Column(np.int8)

    @property
    def footprint(self) -> int:
        columns = (self._known_from, self._known_to, self._true_from, self._true_to, self._trust)
        return sum(column.footprint for column in columns)

    def mask(self, tx: Tx, block: Index, query: Query, size: int) -> Mask:
        """For the first so many entries of a block, whether they meet the conditions of a query."""
        self._grow(tx, block, size)
        columns = (self._known_from, self._known_to, self._true_from, self._true_to)
        fits = np.ones(size, np.bool_)
        fits &= Life(*(column.values[:size] for column in columns)).fits(query.as_of, query.valid_at)
        if query.min_trust is not None:
            fits &= self._trust.values[:size] >= TRUST[query.min_trust]
        return fits

    def known(self, tx: Tx, block: Index, as_of: int, size: int) -> Mask:
        """Which of the first so many entries were known at a moment."""
        self._grow(tx, block, size)
        known: Mask = (self._known_from.values[:size] <= as_of) & (self._known_to.values[:size] > as_of)
        return known

    def _grow(self, tx: Tx, block: Index, size: int) -> None:
        for start in range(self._trust.size, size, PIECE):
            docids = block.docid.values[start : min(start + PIECE, size)].tolist()
            listed = "[" + ",".join(map(str, docids)) + "]"
            found = {row[0]: row for row in tx.rows("lives_of", docids=listed)}
            self._add([found.get(docid) for docid in docids])

    def _add(self, rows: list[Any]) -> None:
        """What is not there any more was never known."""
        given = [(*Life.of(*row[1:5]), TRUST.get(row[5], 0)) if row else _NEVER_KNOWN for row in rows]
        columns = (self._known_from, self._known_to, self._true_from, self._true_to, self._trust)
        for column, values in zip(columns, zip(*given, strict=True), strict=True):
            column.extend(np.array(values, np.int64))


_NEVER_KNOWN = (NEVER, 0, NEVER, 0, -1)


# -- A block as one search sees it: arrays that stay as they are, whatever is added meanwhile.


@dataclass(frozen=True, slots=True)
class View:
    """The entries of a block, and which of them may be found."""

    block: Index
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


def build_view(tx: Tx, block: Index, kinds: tuple[str, ...] | None, query: Query, now: int, state: State) -> View:
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
            block.columns = block.columns or MetadataColumns()
            allowed = allowed & block.columns.mask(tx, block, query.filter, count)
        if query.as_of is not None or query.valid_at is not None or query.min_trust is not None:
            block.lives = block.lives or ValidityColumns()
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


def list_speakers(tx: Tx, block: Index, as_of: int | None) -> list[str]:
    """The names of those who have said something in a block, or had at a moment."""
    if as_of is None:
        return block.live_names()
    with block.lock:
        block.lives = block.lives or ValidityColumns()
        return block.live_names(block.lives.known(tx, block, as_of, len(block)))
