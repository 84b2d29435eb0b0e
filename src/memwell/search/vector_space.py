"""The vectors of one model for the entries of an index.

An index has one space, or two: one of a model that understands, and one of a light model, whose vectors serve until an entry
has a vector of the other. A row has room for one vector or more. A row without stored vectors has one of zeros, and is pending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage.port import Tx, encode_numbers

NEVER = 2**62
MAX_EXACT_PARTS = 4096
CHUNK = 1024
READ_BATCH = 8192
"""Entries whose vectors are read at a time."""
EXPONENT_BIAS = np.float32(2.0 ** (127 - 15))
LIST_BATCH = 5000
SHORT_TURN = 1
SAMPLE = 1000
"""The number of entries whose vectors stand for those of a large scope."""
DENSITY = 4
_FIRST = 64

Array = NDArray[Any]


class Column:
    """A growing array. Growing copies the values, so arrays that were read before stay valid."""

    __slots__ = ("_room", "size")

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._room: Array = np.zeros(_FIRST if width is None else (_FIRST, width), dtype)
        self.size = 0

    def reserve(self, more: int) -> None:
        """Make room for more values."""
        need = self.size + more
        if need > len(self._room):
            room = np.zeros((max(need, len(self._room) * 3 // 2), *self._room.shape[1:]), self._room.dtype)
            room[: self.size] = self._room[: self.size]
            self._room = room

    def extend(self, values: Array) -> None:
        self.reserve(len(values))
        self._room[self.size : self.size + len(values)] = values
        self.size += len(values)

    @property
    def values(self) -> Array:
        return self._room[: self.size]

    @property
    def footprint(self) -> int:
        return int(self._room.nbytes)


class VectorSpace:
    """The vectors of a model, in the order of the entries of an index. The index's lock guards them."""

    def __init__(self, model: int, dimensions: int, patient: bool = False) -> None:
        """The short turns of a `patient` space wait for the job that embeds them. It has no vectors of long turns, because the
        light model reads those as well."""
        self.model = model
        self.dimensions = dimensions
        self.patient = patient
        self.remote = False
        """True if the vectors stay in the database, because they are too many."""
        self.first_part = Column(np.int64)
        self.vectors = Column(np.float32, dimensions)
        self.scale = Column(np.float32)
        self.present = Column(np.bool_)
        """True for the rows that have vectors."""
        self.pending: dict[int, int] = {}
        """The rows of the entries without vectors that a search should embed, by their numbers."""
        self.waiting: dict[int, int] = {}
        """The rows of the turns without vectors, by their numbers, if the space is patient."""
        self._embedded_to = 0
        self._mean: tuple[int, Array] = 0, np.zeros(dimensions, np.float32)
        """The number of entries that had a mean vector, and the vector."""
        self.bits: Any = None
        self.changed_part = NEVER

    @property
    def footprint(self) -> int:
        return sum(column.footprint for column in (self.first_part, self.vectors, self.scale, self.present))

    @property
    def exact(self) -> bool:
        """True if the vectors are kept as floats, as in a small index, and not quantised to bytes."""
        return not self.remote and self.vectors.values.dtype == np.float32

    def add(self, tx: Tx, docids: Sequence[int], first: int, turns: Array, long: Array) -> None:
        """Add the entries whose rows begin at `first`. The masks tell which are turns, and which are long."""
        turns = turns.astype(np.int8) + (turns & long)
        self.present.extend(np.ones(len(docids), np.bool_))
        if self.remote:
            there = set(self._have_vectors(tx, docids))
            self._wait_for([(docid, n) for n, docid in enumerate(docids) if docid not in there], first, turns)
            return
        self._bound_exact(len(docids))
        self.vectors.reserve(len(docids))
        width = 2 * self.dimensions
        empty = bytes(width)
        for at in range(0, len(docids), READ_BATCH):
            batch = docids[at : at + READ_BATCH]
            stored = self._read(tx, batch)
            missing = [(docid, at + n) for n, docid in enumerate(batch) if docid not in stored]
            self._wait_for(missing, first, turns)
            values = [stored.get(docid, empty) for docid in batch]
            counts = np.array([len(value) // width for value in values], np.int64)
            half = np.frombuffer(b"".join(values), np.float16).reshape(-1, self.dimensions)
            start = self.vectors.size
            self._bound_exact(len(half))
            vectors, scale = self._encode(half)
            self.vectors.extend(vectors)
            self.scale.extend(scale)
            self.first_part.extend(start + np.cumsum(counts) - counts)

    def refresh(self, tx: Tx) -> None:
        """Read the vectors of pending entries that were stored since."""
        if self.pending and self.remote:  # another process may have stored the missing vectors
            self.drop_pending(self._have_vectors(tx, sorted(self.pending)), present=True)
        elif self.pending:
            self.put(self._read(tx, sorted(self.pending)))

    def catch_up(self, tx: Tx, embedded_to: int) -> None:
        """Read the vectors of waiting turns that the job has stored. It embeds in order, up to the entry `embedded_to`."""
        if not self.waiting or embedded_to <= self._embedded_to:
            return
        self._embedded_to = embedded_to
        done = [docid for docid in self.waiting if docid <= embedded_to]
        if done:
            self.pending.update((docid, self.waiting.pop(docid)) for docid in done)
            if self.remote:
                self.drop_pending(done, present=True)
            else:
                self.put(self._read(tx, sorted(done)))
                self.drop_pending(done)

    def put(self, values: Mapping[int, bytes]) -> None:
        """Add the vectors of pending entries. If an entry has several, all vectors are laid out again."""
        if self.remote:
            return self.drop_pending(list(values), present=True)
        several: dict[int, tuple[Array, Array]] = {}
        for docid, value in values.items():
            row = self.pending.pop(docid, None)
            if row is None:
                continue
            self.present.values[row] = True
            vectors, scale = self._encode(np.frombuffer(value, np.float16).reshape(-1, self.dimensions))
            if len(vectors) == 1:
                at = int(self.first_part.values[row])
                self.vectors.values[at] = vectors[0]
                self.scale.values[at] = scale[0]
                self.changed_part = min(self.changed_part, at)
            else:
                several[row] = vectors, scale
        if several:
            self._regroup(several)
        return None

    def find_mean(self, tx: Tx, docids: Array) -> Array:
        """Return the mean of the stored vectors of some entries, or of a sample of many. It is computed again as they grow."""
        known, mean = self._mean
        if known <= len(docids) <= known * 1.2 and known:
            return mean
        step = 1 if len(docids) <= MAX_EXACT_PARTS else len(docids) // SAMPLE
        total, count = np.zeros(self.dimensions, np.float32), 0
        stored = tx.rows("vectors_of", model=self.model, docids=encode_numbers(docids[::step].tolist()))
        for _, value in stored:
            total += np.frombuffer(value, np.float16, self.dimensions).astype(np.float32)
            count += 1
        mean = total / max(count, 1)
        self._mean = len(docids), mean
        return mean

    def drop_pending(self, docids: Sequence[int], *, present: bool = False) -> None:
        """Stop waiting for the vectors of some entries."""
        for docid in docids:
            row = self.pending.pop(docid, None)
            if row is not None and present:
                self.present.values[row] = True

    def clear(self, rows: Array) -> None:
        """Empty the first vector of some rows, whose entries are gone."""
        if not self.remote:
            self.vectors.values[self.first_part.values[rows]] = 0

    def _wait_for(self, entries: Sequence[tuple[int, int]], first: int, turns: Array) -> None:
        """Wait for the vectors of some entries, each with its place behind the row `first`."""
        for docid, place in entries:
            self.present.values[first + place] = False
            if not self.patient or not turns[place]:
                self.pending[docid] = first + place
            elif turns[place] == SHORT_TURN:
                self.waiting[docid] = first + place
        if self.waiting:
            self._embedded_to = min(self._embedded_to, next(iter(self.waiting)) - 1)

    def _read(self, tx: Tx, docids: Sequence[int]) -> dict[int, bytes]:
        """The stored vectors of some entries, given by sorted numbers. If these are dense, the whole range is read."""
        first, last = docids[0], docids[-1]
        if len(docids) * DENSITY > last - first:
            return dict(tx.rows("vectors_between", model=self.model, first=first, last=last))
        found: dict[int, bytes] = {}
        for at in range(0, len(docids), LIST_BATCH):
            found.update(tx.rows("vectors_of", model=self.model, docids=encode_numbers(docids[at : at + LIST_BATCH])))
        return found

    def _have_vectors(self, tx: Tx, docids: Sequence[int]) -> list[int]:
        """Those of some entries, given by sorted numbers, that have stored vectors."""
        if not docids:
            return []
        wanted = set(docids)
        rows = tx.rows("embedded_between", model=self.model, first=docids[0], last=docids[-1])
        return [docid for (docid,) in rows if docid in wanted]

    def _regroup(self, several: Mapping[int, tuple[Array, Array]]) -> None:
        starts = self.first_part.values
        ends = np.append(starts[1:], self.vectors.size)
        vectors, scale = self.vectors.values, self.scale.values
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        groups = [several.get(row) or (vectors[a:b], scale[a:b]) for row, (a, b) in enumerate(spans)]
        counts = np.array([len(group[0]) for group in groups], np.int64)
        self.first_part = Column(np.int64)
        self.first_part.extend(np.cumsum(counts) - counts)
        self._replace(np.concatenate([group[0] for group in groups]), np.concatenate([group[1] for group in groups]))
        self._bound_exact(0)

    def _replace(self, vectors: Array, scale: Array) -> None:
        self.vectors, self.scale, self.bits = Column(vectors.dtype, self.dimensions), Column(np.float32), None
        self.vectors.extend(vectors)
        self.scale.extend(scale)

    def _bound_exact(self, more: int) -> None:
        if self.exact and self.vectors.size + more > MAX_EXACT_PARTS:
            self._replace(*quantise(self.vectors.values))

    def _encode(self, half: Array) -> tuple[Array, Array]:
        if self.exact:
            return half.astype(np.float32), np.ones(len(half), np.float32)
        return quantise(half)


def quantise(vectors: Array) -> tuple[Array, Array]:
    """Quantise vectors to bytes, each with a scale. Chunks are small enough to stay in the processor's cache."""
    quantised = np.empty(vectors.shape, np.int8)
    scale = np.ones(len(vectors), np.float32)
    for at in range(0, len(vectors), CHUNK):
        bits = vectors[at : at + CHUNK].astype(np.float16, copy=False).view(np.int16)
        top = (bits & 0x7FFF).max(axis=1, initial=0).view(np.float16).astype(np.float32)
        top[top == 0.0] = 127.0
        # Convert half floats to floats in half the time of `astype`: shift their bits to the places of a float's, then
        # multiply to correct the bias of the exponent.
        moved = np.left_shift(bits, 13, dtype=np.int32)
        moved &= np.int32(-0x70000001)
        wide = moved.view(np.float32)
        wide *= EXPONENT_BIAS
        wide *= (127.0 / top)[:, None]
        quantised[at : at + CHUNK] = np.rint(wide, out=wide)
        scale[at : at + CHUNK] = top / 127.0
    return quantised, scale
