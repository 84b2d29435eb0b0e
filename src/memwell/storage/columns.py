"""Metadata as columns beside a block, so that a filter is answered for all its entries at once.

A column holds for each entry which of the distinct values stands at a path. A question is put to each distinct value once,
by the plain evaluator, so there is one meaning of filters; numbers are compared as arrays. Columns are made when a filter
first asks for their path, and grow with the block.
"""

from __future__ import annotations

import operator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..model.filter import And, Filter, Leaf, Not, Or, found, leaf_matches
from .block import Block, Column
from .port import Tx

PIECE = 5000
MAX_PATHS = 32
"""How many paths have their columns; those that were asked for last."""
_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_EXACT = 2**53

Mask = NDArray[np.bool_]


class Path:
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


class Columns:
    """The columns of one block, and the metadata that they are made from."""

    def __init__(self) -> None:
        self._paths: dict[tuple[str, ...], Path] = {}

    @property
    def footprint(self) -> int:
        return sum(
            path.codes.footprint + path.numbers.footprint + 200 * len(path.values) for path in self._paths.values()
        )

    def mask(self, tx: Tx, block: Block, condition: Filter, size: int) -> Mask:
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
                return _answer(condition, self._path(tx, block, path, size), size)

    def _path(self, tx: Tx, block: Block, path: tuple[str, ...], size: int) -> Path:
        column = self._paths.pop(path, None) or Path()
        self._paths[path] = column
        while len(self._paths) > MAX_PATHS:
            del self._paths[next(iter(self._paths))]
        for start in range(column.codes.size, size, PIECE):
            docids = block.docid.values[start : min(start + PIECE, size)]
            rows: dict[int, str | None] = dict(
                tx.rows("metadata_of", docids="[" + ",".join(map(str, docids.tolist())) + "]")
            )
            pairs = [_found(path, rows.get(docid)) for docid in docids.tolist()]
            column.codes.extend(np.array([column.add(*pair) for pair in pairs], np.int32))
            column.numbers.extend(np.array([_number(value) for _, value in pairs], np.float64))
        return column


def _found(path: tuple[str, ...], metadata: str | None) -> tuple[bool, Any]:
    return found(path, msgspec.json.decode(metadata)) if metadata else (False, None)


def _number(value: Any) -> float:
    """A number that a float holds exactly; anything else is answered value by value."""
    plain = isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _EXACT
    )
    return float(value) if plain else np.nan


def _answer(leaf: Leaf, column: Path, size: int) -> Mask:
    limit = _limit(leaf)
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


def _limit(leaf: Leaf) -> float | None:
    """The number that a question of order compares with, if floats can answer it exactly."""
    if leaf.op not in _ORDER:
        return None
    ((kind, value),) = leaf.values
    return float(value) if kind == "number" and (isinstance(value, float) or abs(value) <= _EXACT) else None
