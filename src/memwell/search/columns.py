"""Columns beside an index, so that conditions of a query become masks over all entries at once.

A metadata column has for each entry the code of the distinct value at a path. A condition is evaluated once for each distinct
value, by the plain evaluator, so that filters have one meaning; numbers are compared as arrays. Columns are built when a
query first needs them, and grow with the index.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..model.collection import TRUST
from ..model.filter import NEVER, And, Filter, Leaf, Life, Not, Or, Query, leaf_matches, look_up
from ..storage.port import State, Tx, encode_numbers
from .index import MISSING, Index
from .query import ScopePart
from .upkeep import HELD, STATEMENTS
from .vector_space import Array, Column, VectorSpace

PIECE = 5000
MAX_PATHS = 32
"""Only the most recently used paths have columns."""
_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_EXACT = 2**53
_NEVER_KNOWN = (NEVER, 0, NEVER, 0, -1)

Mask = NDArray[np.bool_]


class MetadataColumn:
    """The values at one path, for every entry of an index."""

    def __init__(self) -> None:
        self.codes = Column(np.int32)
        self.numbers = Column(np.float64)
        """The values that are numbers which a float holds exactly; NaN for others, which are compared one by one."""
        self.values: list[tuple[bool, Any]] = []
        self._codes: dict[bytes, int] = {}

    def extend(self, path: tuple[str, ...], documents: list[str | None]) -> None:
        """Add entries by their metadata."""
        codes, numbers = [], []
        for metadata in documents:
            present, value = look_up(path, msgspec.json.decode(metadata)) if metadata else (False, None)
            key = msgspec.json.encode(value) if present else b""
            code = self._codes.get(key)
            if code is None:
                code = self._codes[key] = len(self.values)
                self.values.append((present, value))
            codes.append(code)
            if isinstance(value, bool) or (isinstance(value, int) and abs(value) > _EXACT):
                numbers.append(np.nan)
            else:
                numbers.append(float(value) if isinstance(value, int | float) else np.nan)
        self.codes.extend(np.array(codes, np.int32))
        self.numbers.extend(np.array(numbers, np.float64))

    def mask(self, leaf: Leaf, size: int) -> Mask:
        """A mask of the first `size` entries that meet a condition."""
        limit = _find_limit(leaf)
        if limit is None:
            truth = np.array([leaf_matches(leaf, *value) for value in self.values], np.bool_)
            return truth[self.codes.values[:size]] if len(truth) else np.zeros(size, np.bool_)
        numbers = self.numbers.values[:size]
        with np.errstate(invalid="ignore"):
            answer: Mask = _ORDER[leaf.op](numbers, limit)
        others = np.flatnonzero(np.isnan(numbers))
        if len(others):
            codes = self.codes.values[others]
            distinct = np.unique(codes)
            truth = np.zeros(len(self.values), np.bool_)
            truth[distinct] = [leaf_matches(leaf, *self.values[code]) for code in distinct.tolist()]
            answer[others] = truth[codes]
        return answer


def _find_limit(leaf: Leaf) -> float | None:
    """The number that a condition of order compares with, if floats can do so exactly."""
    if leaf.op not in _ORDER:
        return None
    ((kind, value),) = leaf.values
    return float(value) if kind == "number" and (isinstance(value, float) or abs(value) <= _EXACT) else None


class MetadataColumns:
    """The columns of the metadata of one index."""

    def __init__(self) -> None:
        self._paths: dict[tuple[str, ...], MetadataColumn] = {}

    @property
    def footprint(self) -> int:
        return sum(
            path.codes.footprint + path.numbers.footprint + 200 * len(path.values) for path in self._paths.values()
        )

    def mask(self, tx: Tx, index: Index, condition: Filter, size: int) -> Mask:
        """A mask of the first `size` entries of an index that meet a filter."""
        match condition:
            case And(parts):
                fits = np.ones(size, np.bool_)
                for part in parts:
                    fits &= self.mask(tx, index, part, size)
                return fits
            case Or(parts):
                fits = np.zeros(size, np.bool_)
                for part in parts:
                    fits |= self.mask(tx, index, part, size)
                return fits
            case Not(part):
                return ~self.mask(tx, index, part, size)
            case Leaf(path):
                column = self._paths.pop(path, None) or MetadataColumn()
                self._paths[path] = column
                while len(self._paths) > MAX_PATHS:
                    del self._paths[next(iter(self._paths))]
                for start in range(column.codes.size, size, PIECE):
                    docids = index.docid.values[start : min(start + PIECE, size)].tolist()
                    rows: dict[int, str | None] = dict(tx.rows("metadata_of", docids=encode_numbers(docids)))
                    column.extend(path, [rows.get(docid) for docid in docids])
                return column.mask(condition, size)


class ValidityColumns:
    """The times when the entries of an index were known and true, and their trust. A row never changes, because a change to
    an entry writes a new version, which is another row."""

    def __init__(self) -> None:
        self._known_from, self._known_to = Column(np.int64), Column(np.int64)
        self._true_from, self._true_to = Column(np.int64), Column(np.int64)
        self._trust = Column(np.int8)
        self._columns = (self._known_from, self._known_to, self._true_from, self._true_to, self._trust)

    @property
    def footprint(self) -> int:
        return sum(column.footprint for column in self._columns)

    def mask(self, tx: Tx, index: Index, query: Query, size: int) -> Mask:
        """A mask of the first `size` entries of an index that meet the conditions of a query on times and trust."""
        self._grow(tx, index, size)
        fits = np.ones(size, np.bool_)
        fits &= Life(*(column.values[:size] for column in self._columns[:4])).fits(query.as_of, query.valid_at)
        if query.min_trust is not None:
            fits &= self._trust.values[:size] >= TRUST[query.min_trust]
        return fits

    def mask_known(self, tx: Tx, index: Index, as_of: int, size: int) -> Mask:
        """A mask of the first `size` entries that were known at a moment."""
        self._grow(tx, index, size)
        known: Mask = (self._known_from.values[:size] <= as_of) & (self._known_to.values[:size] > as_of)
        return known

    def _grow(self, tx: Tx, index: Index, size: int) -> None:
        for start in range(self._trust.size, size, PIECE):
            docids = index.docid.values[start : min(start + PIECE, size)].tolist()
            rows = {row[0]: row for row in tx.rows("lives_of", docids=encode_numbers(docids))}
            lives = [
                (*Life.of(*row[1:5]), TRUST.get(row[5], 0)) if (row := rows.get(docid)) else _NEVER_KNOWN
                for docid in docids
            ]
            for column, values in zip(self._columns, zip(*lives, strict=True), strict=True):
                column.extend(np.array(values, np.int64))


@dataclass(frozen=True, slots=True)
class SpaceView:
    """The vectors of one model as one search sees them."""

    space: VectorSpace
    layout: Column
    """The column that assigned the vectors to entries when the view was made."""
    first_part: Array
    vectors: Array
    scale: Array
    present: Mask
    """Mask of the entries that have vectors."""

    @property
    def exact(self) -> bool:
        """True if the vectors are the stored ones, not quantised ones."""
        return self.space.remote or self.vectors.dtype == np.float32


@dataclass(frozen=True, slots=True)
class View:
    """The entries of an index as one search sees them. The arrays do not change when entries are added to the index."""

    index: Index
    part: ScopePart
    state: State
    docid: Array
    kind: Array
    role: Array
    name: Array
    occurred_at: Array
    size: Array
    asks: Array
    before: Array
    after: Array
    spaces: tuple[SpaceView, ...]
    here: Mask
    """Mask of the live entries that are not quarantined. They may lend support to their neighbours, and are counted."""
    allowed: Mask
    """Mask of the live entries that meet the conditions. Only they may become hits."""

    is_statement: Mask
    """Mask of the facts, notes and summaries. The others are turns."""
    entries: int
    """The number of live entries."""

    def __len__(self) -> int:
        return len(self.docid)


def build_view(tx: Tx, index: Index, part: ScopePart, query: Query, now: int, state: State) -> View:
    """Build the view of an index for a query, limited to the transaction's snapshot.

    The clock of an index never runs backwards, so an expired entry stays out.
    """
    with index.lock:
        count = index.count_until(state)
        index.clock = max(index.clock, now)
        here = index.alive.values[:count] & (index.expires_at.values[:count] > index.clock)
        if part.kinds is not None and HELD not in part.kinds:
            here = here & (index.kind.values[:count] != index.kinds.codes.get(HELD, MISSING))
        allowed = here
        if part.kinds is not None:
            allowed = allowed & _find_kinds(index, part.kinds, count)
        if query.after is not None:
            allowed = allowed & (index.occurred_at.values[:count] >= query.after)
        if query.before is not None:
            allowed = allowed & (index.occurred_at.values[:count] < query.before)
        if query.filter is not None:
            index.metadata = index.metadata or MetadataColumns()
            allowed = allowed & index.metadata.mask(tx, index, query.filter, count)
        if query.as_of is not None or query.valid_at is not None or query.min_trust is not None:
            index.validity = index.validity or ValidityColumns()
            allowed = allowed & index.validity.mask(tx, index, query, count)
        if query.as_of is not None:
            # Later entries lend no support and are not counted.
            here = here & index.validity.mask_known(tx, index, query.as_of, count)
        names = ("docid", "kind", "role", "name", "occurred_at", "size", "asks", "before", "after")
        arrays: dict[str, Any] = {name: getattr(index, name).values[:count] for name in names}
        return View(
            index=index,
            part=part,
            state=state,
            here=here,
            allowed=allowed,
            entries=int(np.count_nonzero(here)),
            is_statement=_find_kinds(index, STATEMENTS, count),
            spaces=tuple(_view_space(space, count) for space in index.spaces),
            **arrays,
        )


def _find_kinds(index: Index, kinds: Collection[str], count: int) -> Mask:
    """A mask of the first `count` entries that are of some kinds."""
    wanted = np.zeros(len(index.kinds.codes) + 1, np.bool_)  # the last place is that of entries without a kind
    wanted[[code for kind, code in index.kinds.codes.items() if kind in kinds]] = True
    found: Mask = wanted[index.kind.values[:count]]
    return found


def _view_space(space: VectorSpace, count: int) -> SpaceView:
    """Build the view of the vectors of the first `count` entries."""
    first_part = space.first_part.values
    parts = space.vectors.size if count >= len(first_part) else int(first_part[count])
    return SpaceView(
        space=space,
        layout=space.first_part,
        first_part=first_part[:count],
        vectors=space.vectors.values[:parts],
        scale=space.scale.values[:parts],
        present=space.present.values[:count].copy(),
    )


def list_speakers(tx: Tx, index: Index, as_of: int | None) -> list[str]:
    """The names of the speakers in an index, as of a moment if one is given."""
    if as_of is None:
        return index.list_names()
    with index.lock:
        index.validity = index.validity or ValidityColumns()
        return index.list_names(index.validity.mask_known(tx, index, as_of, len(index)))
