"""A scope's entries in memory: what search has to know of each, in columns, in the order of their numbers.

A block is a pure function of the tables. It is loaded when it is first searched, brought up to date by what has been
added or removed since, and may be thrown away at any time, so no crash can damage it and any number of processes may
each have their own. Vectors are kept as bytes with a scale each; their exact values stay in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .port import Row, Tx

NEVER = 2**62
NOBODY = -1
ALONE = "fact"
_FIRST = 64

Array = NDArray[Any]


class Column:
    """A growing array. What was read from it stays valid: growing copies, it never moves what others look at."""

    __slots__ = ("_room", "size")

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._room: Array = np.zeros(_FIRST if width is None else (_FIRST, width), dtype)
        self.size = 0

    def extend(self, values: Array) -> None:
        need = self.size + len(values)
        if need > len(self._room):
            room = np.zeros((max(need, len(self._room) * 3 // 2), *self._room.shape[1:]), self._room.dtype)
            room[: self.size] = self._room[: self.size]
            self._room = room
        self._room[self.size : need] = values
        self.size = need

    @property
    def values(self) -> Array:
        return self._room[: self.size]

    @property
    def footprint(self) -> int:
        return int(self._room.nbytes)


@dataclass(slots=True)
class Names:
    """Short numbers for the few names that a column repeats."""

    codes: dict[str, int] = field(default_factory=dict)

    def code(self, name: str | None) -> int:
        return NOBODY if name is None else self.codes.setdefault(name, len(self.codes))


class Block:
    """The live entries of one collection or one address."""

    def __init__(self, collection: bool, scope_id: int, model: int, dimensions: int) -> None:
        self.lock = Lock()
        self.collection = collection
        self.scope_id = scope_id
        self.model = model
        self.dimensions = dimensions
        self.docid = Column(np.int64)
        self.address = Column(np.int64)
        self.seq = Column(np.int64)
        self.kind = Column(np.int16)
        self.role = Column(np.int16)
        self.name = Column(np.int32)
        self.occurred_at = Column(np.int64)
        self.expires_at = Column(np.int64)
        self.size = Column(np.int32)
        self.asks = Column(np.float32)
        self.alive = Column(np.bool_)
        self.before = Column(np.int32)
        self.after = Column(np.int32)
        self.first_part = Column(np.int64)
        self.vectors = Column(np.int8, max(dimensions, 1))
        self.scale = Column(np.float32)
        self.kinds, self.roles, self.names = Names(), Names(), Names()
        self.pending: dict[int, int] = {}
        self.columns: Any = None
        self.bits: Any = None
        self.clock = 0
        self._last_of: dict[int, int] = {}
        self._seen: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self.docid.size

    @property
    def footprint(self) -> int:
        columns = (
            self.docid,
            self.address,
            self.seq,
            self.kind,
            self.role,
            self.name,
            self.occurred_at,
            self.expires_at,
        )
        more = (self.size, self.asks, self.alive, self.before, self.after, self.first_part, self.vectors, self.scale)
        return sum(column.footprint for column in (*columns, *more))

    # -- keeping up --------------------------------------------------------------------------------------------------

    def refresh(self, tx: Tx) -> bool:
        """Bring the block up to the transaction's snapshot; False if that is not possible and it must be loaded anew."""
        state = _state(tx)
        if self._seen is None:
            self._add(_sorted(self._load(tx)))
        elif state[0] < self._seen[0] or state[1] < self._seen[1]:
            return True  # another thread has a later snapshot than this one; what is too new is noticed when it is read
        elif state != self._seen:
            if not self._drop(tx, self._seen[1], state[1]):
                return False
            if state[0] != self._seen[0]:
                self._add(self._load_new(tx, self._seen[0]))
        self._seen = state
        self._fill(tx)
        return True

    def _load(self, tx: Tx) -> list[Row]:
        if self.collection:
            return tx.rows("load_collection", id=self.scope_id, model=self.model)
        return tx.rows("load_address", id=self.scope_id, model=self.model, after=0)

    def _load_new(self, tx: Tx, seen: int) -> list[Row]:
        if self.collection:
            return tx.rows("load_new", id=self.scope_id, model=self.model, after=seen)
        after = int(self.seq.values[-1]) if len(self) else 0
        return tx.rows("load_address", id=self.scope_id, model=self.model, after=after)

    def _drop(self, tx: Tx, seen: int, newest: int) -> bool:
        """Mark what was removed since; False if the log of removals does not reach back that far."""
        if newest == seen:
            return True
        removed = tx.rows("removals_after", after=seen)
        if not removed or removed[0][0] != seen + 1:
            return False
        alive = self.alive.values
        docids = [docid for _, docid, _ in removed if docid is not None]
        if docids:
            alive[self.rows_of(np.array(sorted(docids), np.int64))] = False
        for _, _, address_id in removed:
            if address_id is not None:
                alive[self.address.values == address_id] = False
        return True

    def _fill(self, tx: Tx) -> None:
        """See whether somebody else has made the vectors that were missing."""
        if self.pending:
            docids = "[" + ",".join(map(str, self.pending)) + "]"
            self.put(dict(tx.rows("vectors_of", model=self.model, docids=docids)))

    # -- rows --------------------------------------------------------------------------------------------------------

    def rows_of(self, docids: Array) -> Array:
        """The positions of those of some sorted numbers that are in the block."""
        own = self.docid.values
        at = np.searchsorted(own, docids)
        at[at == len(own)] = 0
        return at[own[at] == docids] if len(own) else at[:0]

    def put(self, values: Mapping[int, bytes]) -> None:
        """The vectors of entries that had none. A row has room for one; where there are more, all are laid out anew."""
        several: dict[int, tuple[Array, Array]] = {}
        for docid, value in values.items():
            row = self.pending.pop(docid, None)
            if row is None:
                continue
            vectors, scale = quantised(np.frombuffer(value, np.float16).reshape(-1, self.dimensions))
            if len(vectors) == 1:
                at = int(self.first_part.values[row])
                self.vectors.values[at] = vectors[0]
                self.scale.values[at] = scale[0]
            else:
                several[row] = vectors, scale
        if values:
            self.bits = None
        if several:
            self._regroup(several)

    def _add(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        first = len(self)
        docid, address, seq, kind, role, name, occurred_at, expires_at, size, asks, values = zip(*rows, strict=True)
        self.docid.extend(np.array(docid, np.int64))
        self.address.extend(np.array(address, np.int64))
        self.seq.extend(np.array(seq, np.int64))
        self.kind.extend(np.array([self.kinds.code(one) for one in kind], np.int16))
        self.role.extend(np.array([self.roles.code(one) for one in role], np.int16))
        self.name.extend(np.array([self.names.code(one) for one in name], np.int32))
        self.occurred_at.extend(np.array(occurred_at, np.int64))
        self.expires_at.extend(np.array([NEVER if one is None else one for one in expires_at], np.int64))
        self.size.extend(np.array(size, np.int32))
        self.asks.extend(np.array(asks, np.float32))
        self.alive.extend(np.ones(len(rows), np.bool_))
        self._add_vectors(first, docid, values)
        self._link(first, address, kind)

    def _add_vectors(self, first: int, docids: Sequence[int], values: Sequence[bytes | None]) -> None:
        """Every row has at least one part; of a row without vectors it is empty, and the row is pending."""
        width = 2 * self.dimensions
        if not width:
            return
        empty = bytes(width)
        for row, docid, value in zip(range(first, first + len(docids)), docids, values, strict=True):
            if value is None:
                self.pending[docid] = row
        counts = np.array([1 if value is None else len(value) // width for value in values], np.int64)
        start = self.vectors.size
        raw = b"".join(empty if value is None else value for value in values)
        vectors, scale = quantised(np.frombuffer(raw, np.float16).reshape(-1, self.dimensions))
        self.vectors.extend(vectors)
        self.scale.extend(scale)
        self.first_part.extend(start + np.cumsum(counts) - counts)

    def _link(self, first: int, addresses: Sequence[int], kinds: Sequence[str]) -> None:
        """What stood before and after an entry at its address. Facts stand alone."""
        before = np.full(len(addresses), NOBODY, np.int32)
        last_of = self._last_of
        links: list[tuple[int, int]] = []
        for row, (address, kind) in enumerate(zip(addresses, kinds, strict=True), first):
            if kind == ALONE:
                continue
            last = last_of.get(address)
            if last is not None:
                before[row - first] = last
                links.append((last, row))
            last_of[address] = row
        self.before.extend(before)
        self.after.extend(np.full(len(addresses), NOBODY, np.int32))
        if links:
            earlier, later = np.array(links, np.int64).T
            self.after.values[earlier] = later

    def _regroup(self, several: Mapping[int, tuple[Array, Array]]) -> None:
        starts = self.first_part.values
        ends = np.append(starts[1:], self.vectors.size)
        vectors, scale = self.vectors.values, self.scale.values
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        groups = [several.get(row) or (vectors[a:b], scale[a:b]) for row, (a, b) in enumerate(spans)]
        counts = np.array([len(group[0]) for group in groups], np.int64)
        self.first_part, self.vectors, self.scale = (
            Column(np.int64),
            Column(np.int8, self.dimensions),
            Column(np.float32),
        )
        self.first_part.extend(np.cumsum(counts) - counts)
        self.vectors.extend(np.concatenate([group[0] for group in groups]))
        self.scale.extend(np.concatenate([group[1] for group in groups]))


def quantised(vectors: Array) -> tuple[Array, Array]:
    """Vectors as bytes, each with the scale that brings it back."""
    wide = vectors.astype(np.float32)
    top = np.abs(wide).max(axis=1, initial=0.0)
    scale = np.where(top > 0, top / 127.0, 1.0).astype(np.float32)
    return np.rint(wide / scale[:, None]).astype(np.int8), scale


def _state(tx: Tx) -> tuple[int, int]:
    highest, removed = tx.row("highest_docid"), tx.row("last_removal")
    return (int(highest[0]) if highest else 0, int(removed[0]) if removed else 0)


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row[0])
