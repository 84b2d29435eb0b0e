"""A scope's entries in memory, in columns, in the order of their numbers.

An index is a pure function of the tables. It is loaded when it is first searched, and then updated with the entries that were
added or removed since. It may be dropped at any time, so a crash cannot damage it, and every process can have its own. A large
index keeps vectors as bytes, each with a scale; the exact values stay in the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import typed
from ..storage.port import Row, State, Tx, encode_numbers

NEVER = 2**62
MISSING = -1
FACT_KINDS = ("fact", "past", "held")
UNLINKED_KINDS = ("note", "summary")
"""Kinds of entries without neighbours."""
EVERYTHING = (None, None)
"""A removal that names no entry and no address. It marks everything as changed, so indexes are loaded again."""
POSTINGS_SHARE = 8
MIN_POSTINGS = 10_000
"""An index caches `POSTINGS_SHARE` occurrences of words per entry, but at least `MIN_POSTINGS`."""
MAX_EXACT_PARTS = 4096
MAX_SMALL = 4096
CHUNK = 1024
READ_BATCH = 8192
"""Entries whose vectors are read at a time."""
EXPONENT_BIAS = np.float32(2.0 ** (127 - 15))
LIST_BATCH = 5000
HOUR = 3_600_000_000
DENSITY = 4
_FIRST = 64
_NO_ROWS: Any = np.zeros(0, np.int32)
_decode_names = typed.decoder(list[str | None])

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


@dataclass(slots=True)
class NameCodes:
    """Short numbers for the few names that a column repeats."""

    codes: dict[str, int] = field(default_factory=dict)

    def encode(self, names: Sequence[str | None]) -> Array:
        codes = self.codes
        distinct = dict.fromkeys(names)
        for name in distinct:
            if name is not None:
                codes.setdefault(name, len(codes))
        if len(distinct) == 1:
            (only,) = distinct
            return np.full(len(names), MISSING if only is None else codes[only], np.int32)
        return np.array([MISSING if name is None else codes[name] for name in names], np.int32)


class Index:
    """The live entries of one collection or one address."""

    def __init__(self, collection: bool, scope_id: int, model: int, dimensions: int, history: bool = False) -> None:
        self.lock = Lock()
        self.history = history
        """True if the index also holds retired entries. It is then loaded again after every change."""
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
        self.vectors = Column(np.float32, max(dimensions, 1))
        self.scale = Column(np.float32)
        self.remote = False
        """True if the vectors stay in the database, because they are too many."""
        self.kinds, self.roles, self.names = NameCodes(), NameCodes(), NameCodes()
        self.pending: dict[int, int] = {}
        self.metadata: Any = None
        self.validity: Any = None
        self.bits: Any = None
        self.changed_part = NEVER
        self.clock = 0
        self.linked = False
        """True if any entry has neighbours."""
        self._last_of: dict[int, int] = {}
        self._last_spoken = MISSING
        self._postings: dict[str, tuple[int, Array]] = {}
        self._postings_size = 0
        self._vocabulary: dict[str, list[int]] = {}
        self._read_upto = 0
        self._seen: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self.docid.size

    @property
    def footprint(self) -> int:
        entries = (
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
        beside: int = 4 * self._postings_size + sum(
            columns.footprint for columns in (self.metadata, self.validity) if columns
        )
        return beside + sum(column.footprint for column in (*entries, *more))

    # -- updates -----------------------------------------------------------------------------------------------------

    def refresh(self, tx: Tx, state: State) -> bool:
        """Update the index to the transaction's snapshot. Return False if it must be loaded again instead."""
        if self._seen is None:
            if self.collection:
                graph = {"model": self.model, "collection": self.scope_id}
                self.remote = bool(self.dimensions) and tx.row("find_graph", **graph) is not None
                self._add(tx, tx.row("load_collection", id=self.scope_id, history=int(self.history)))
            else:
                self._add(tx, tx.row("load_address", id=self.scope_id, after=0, history=int(self.history)))
        elif state[0] < self._seen[0] or state[1] < self._seen[1]:
            return True  # another thread has loaded a later snapshot; readers skip the entries that are too new
        elif state != self._seen:
            if self.history or not self._drop(tx, self._seen[1], state[1]):
                return False
            if state[0] != self._seen[0] and self.collection:
                self._add(tx, tx.row("load_new", id=self.scope_id, after=self._seen[0]))
            elif state[0] != self._seen[0]:
                after = int(self.seq.values[-1]) if len(self) else 0
                self._add(tx, tx.row("load_address", id=self.scope_id, after=after, history=0))
        self._seen = state
        if self.pending and self.remote:  # another process may have stored the missing vectors
            self.drop_pending(self._have_vectors(tx, sorted(self.pending)))
        elif self.pending:
            self.put_vectors(self._stored(tx, sorted(self.pending)))
        return True

    def _drop(self, tx: Tx, seen: int, newest: int) -> bool:
        """Drop removed entries, and update the kinds of changed ones. Return False if the index must be loaded again."""
        if newest == seen:
            return True
        removed = tx.rows("removals_after", after=seen)
        if not removed or removed[0][0] != seen + 1 or any(row[1:] == EVERYTHING for row in removed):
            return False  # the log of removals does not reach back that far
        gone = {address_id for _, _, address_id in removed if address_id is not None}
        if gone and np.isin(self.address.values, list(gone)).any():
            return False  # an address was erased: nothing of it may stay in memory
        rows = self.find_rows(np.array(sorted({docid for _, docid, _ in removed if docid is not None}), np.int64))
        if not len(rows):
            return True
        docids = self.docid.values[rows].tolist()
        kinds: dict[int, str] = dict(tx.rows("kinds_of", docids=encode_numbers(docids)))
        here = np.array([docid in kinds for docid in docids], np.bool_)
        self.alive.values[rows[~here]] = False
        if self.dimensions and not self.remote:
            self.vectors.values[self.first_part.values[rows[~here]]] = 0
        if here.any():
            self.kind.values[rows[here]] = self.kinds.encode([kinds[docid] for docid in docids if docid in kinds])
        return True

    def _stored(self, tx: Tx, docids: Sequence[int]) -> dict[int, bytes]:
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
        wanted = set(docids)
        rows = tx.rows("embedded_between", model=self.model, first=docids[0], last=docids[-1])
        return [docid for (docid,) in rows if docid in wanted]

    def list_names(self, among: NDArray[np.bool_] | None = None) -> list[str]:
        """The names of the speakers of live entries, the longest first. `among` is a mask that limits the entries."""
        if not self.names.codes:
            return []
        here = self.alive.values if among is None else self.alive.values & among
        counts = np.bincount(self.name.values[here] + 1, minlength=len(self.names.codes) + 1)
        names = [name for name, code in self.names.codes.items() if counts[code + 1]]
        return sorted(names, key=lambda name: (-len(name), name))

    def count_until(self, state: State) -> int:
        """The number of entries in a snapshot. Another thread may have added later ones."""
        if self._seen is None or state[0] >= self._seen[0]:
            return len(self)
        return int(np.searchsorted(self.docid.values, state[0], side="right"))

    # -- rows --------------------------------------------------------------------------------------------------------

    def find_rows(self, docids: Array) -> Array:
        """The rows of some entries, given by sorted numbers. Entries that are not in the index are skipped."""
        own = self.docid.values
        at = np.searchsorted(own, docids)
        at[at == len(own)] = 0
        return at[own[at] == docids] if len(own) else at[:0]

    def put_vectors(self, values: Mapping[int, bytes]) -> None:
        """Add the vectors of pending entries. A row has room for one; if an entry has more, the vectors are laid out again."""
        if self.remote:
            return self.drop_pending(list(values))
        several: dict[int, tuple[Array, Array]] = {}
        for docid, value in values.items():
            row = self.pending.pop(docid, None)
            if row is None:
                continue
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

    def drop_pending(self, docids: Sequence[int]) -> None:
        """Stop waiting for the vectors of some entries."""
        for docid in docids:
            self.pending.pop(docid, None)

    def _add(self, tx: Tx, lists: Row | None) -> None:
        """Add entries as the load queries return them: one list for each column."""
        if lists is None or lists[0] is None:
            return
        first = len(self)
        docids = _parse_numbers(lists[0], np.int64)
        order = np.argsort(docids, kind="stable")
        self.docid.extend(docids[order])
        columns = (self.address, self.seq, self.occurred_at, self.expires_at, self.size, self.asks)
        for column, text in zip(columns, lists[1:7], strict=True):
            column.extend(_parse_numbers(text, np.float64 if column is self.asks else np.int64)[order])
        for column, names, text in zip(
            (self.kind, self.role, self.name), (self.kinds, self.roles, self.names), lists[7:], strict=True
        ):
            column.extend(names.encode(_decode_names(text))[order])
        self.alive.extend(np.ones(len(docids), np.bool_))
        self._add_vectors(tx, first)
        self._link(first)

    def _add_vectors(self, tx: Tx, first: int) -> None:
        """Add the vectors of the rows from `first` on. A row without stored vectors gets one of zeros, and is pending."""
        if not self.dimensions:
            return
        docids = self.docid.values[first:].tolist()
        if self.remote:
            there = set(self._have_vectors(tx, docids))
            self.pending.update((docid, first + n) for n, docid in enumerate(docids) if docid not in there)
            return
        self._bound_exact(len(docids))
        self.vectors.reserve(len(docids))
        width = 2 * self.dimensions
        empty = bytes(width)
        for at in range(0, len(docids), READ_BATCH):
            batch = docids[at : at + READ_BATCH]
            stored = self._stored(tx, batch)
            self.pending.update((docid, first + at + n) for n, docid in enumerate(batch) if docid not in stored)
            values = [stored.get(docid, empty) for docid in batch]
            counts = np.array([len(value) // width for value in values], np.int64)
            half = np.frombuffer(b"".join(values), np.float16).reshape(-1, self.dimensions)
            start = self.vectors.size
            self._bound_exact(len(half))
            vectors, scale = self._encode(half)
            self.vectors.extend(vectors)
            self.scale.extend(scale)
            self.first_part.extend(start + np.cumsum(counts) - counts)

    def _link(self, first: int) -> None:
        """Link new entries to their neighbours. The neighbours of a turn are the turns before and after it at its address.

        A fact that names a speaker is linked to the one before it, if both are of one address and one hour. Other facts,
        notes and summaries have no neighbours.
        """
        fresh = len(self) - first
        self.before.extend(np.full(fresh, MISSING, np.int32))
        self.after.extend(np.full(fresh, MISSING, np.int32))
        before = self.before.values
        facts, alone = self._has_kind(FACT_KINDS, first), self._has_kind(UNLINKED_KINDS, first)
        turns = np.flatnonzero(~(facts | alone)) + first
        last_of = self._last_of
        for row, address in zip(turns.tolist(), self.address.values[turns].tolist(), strict=True):
            before[row] = last_of.get(address, MISSING)
            last_of[address] = row
        spoken = np.flatnonzero(facts) + first
        spoken = spoken[self.name.values[spoken] != MISSING]
        if len(spoken):
            line = np.concatenate([[self._last_spoken], spoken]) if self._last_spoken != MISSING else spoken
            at, when = self.address.values[line], self.occurred_at.values[line]
            near = (at[1:] == at[:-1]) & (np.abs(when[1:] - when[:-1]) <= HOUR)
            before[line[1:][near]] = line[:-1][near]
            self._last_spoken = int(spoken[-1])
        for rows in (turns, spoken):
            later = rows[before[rows] != MISSING]
            self.after.values[before[later]] = later
            self.linked = self.linked or bool(len(later))

    def _has_kind(self, kinds: Sequence[str], first: int) -> Array:
        """A mask of the rows from `first` on that are of some kinds."""
        found: Array = np.isin(self.kind.values[first:], [self.kinds.codes.get(kind, MISSING) for kind in kinds])
        return found

    # -- words -------------------------------------------------------------------------------------------------------

    def find_occurrences(self, tx: Tx, state: State, place: str, token: str, most: bool) -> Array:
        """The rows that contain a token. They are cached, and later only newer entries are looked up.

        A snapshot may be older than the index, so the cache remembers up to which entry a token was looked up. `place` is the
        token of the collection or address; `most` is True if it holds most of the tenant's entries.
        """
        if len(self) <= MAX_SMALL:
            return self._find_in_small(tx, state, token)
        self._vocabulary.clear()
        upto, rows = self._postings.get(token) or (0, _NO_ROWS)
        if upto < state[0]:
            row = tx.row("postings", place=place, token=token, most=int(most), after=upto)
            if row is not None and row[0] is not None:
                found = self.find_rows(_parse_numbers(row[0], np.int64)).astype(np.int32)
                rows = np.concatenate([rows, found]) if len(rows) else found
            self._keep(token, state[0], rows)
        return rows

    def _find_in_small(self, tx: Tx, state: State, token: str) -> Array:
        """Read all words of a small index at once, which is faster than one query per token."""
        count = self.count_until(state)
        for start in range(self._read_upto, count, LIST_BATCH):
            docids = self.docid.values[start : min(start + LIST_BATCH, count)].tolist()
            row_of = dict(zip(docids, range(start, count), strict=False))
            for docid, tokens in tx.rows("words_of", docids=encode_numbers(docids)):
                row = row_of[docid]
                for word in tokens.split(" "):
                    self._vocabulary.setdefault(word, []).append(row)
        self._read_upto = max(self._read_upto, count)
        rows: Array = np.array(self._vocabulary.get(token, ()), np.int32)
        return rows

    def _keep(self, token: str, upto: int, rows: Array) -> None:
        _, old = self._postings.pop(token, (0, _NO_ROWS))
        self._postings_size += len(rows) - len(old)
        self._postings[token] = upto, rows
        limit = max(len(self) * POSTINGS_SHARE, MIN_POSTINGS)
        while self._postings_size > limit and len(self._postings) > 1:
            self._postings_size -= len(self._postings.pop(next(iter(self._postings)))[1])

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

    @property
    def exact(self) -> bool:
        """True if the vectors are kept as floats, as in a small index, and not quantised to bytes."""
        return not self.remote and self.vectors.values.dtype == np.float32

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


def _parse_numbers(listed: str | int | float | bytes, dtype: Any) -> Array:
    """Parse a list of numbers from a database: text with commas, or eight bytes per number, big-endian."""
    if isinstance(listed, bytes):
        return np.frombuffer(listed, ">i8").astype(dtype)
    numbers: Array = np.fromstring(str(listed), dtype, sep=",")
    return numbers


class IndexKey(NamedTuple):
    """The tenant, the model, and the collection or address of an index."""

    owner: str
    model: tuple[int, str]
    collection: bool
    scope_id: int
    history: bool = False


class IndexCache:
    """The most recently used indexes, as many as fit into memory. Others are loaded again when they are needed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._indexes: OrderedDict[IndexKey, Index] = OrderedDict()

    def current(self, tx: Tx, key: IndexKey, dimensions: int, state: State) -> Index:
        """Return an index, updated to the transaction's snapshot or a later one."""
        while True:
            with self._lock:
                index = self._indexes.get(key)
                if index is None:
                    index = Index(key.collection, key.scope_id, key.model[0], dimensions, key.history)
                    self._indexes[key] = index
                self._indexes.move_to_end(key)
            with index.lock:
                size = len(index)
                if index.refresh(tx, state):
                    break
            with self._lock:
                if self._indexes.get(key) is index:
                    del self._indexes[key]
        if len(index) != size:
            self._bound(key)
        return index

    def forget(self, owner: str) -> None:
        """Drop the indexes of a tenant, so that no erased data stays in memory."""
        with self._lock:
            for key in [key for key in self._indexes if key.owner == owner]:
                del self._indexes[key]

    def _bound(self, current: IndexKey) -> None:
        """Drop the least recently used indexes beyond the limit. The one in use stays, however large it is."""
        with self._lock:
            total = sum(index.footprint for index in self._indexes.values())
            for key in list(self._indexes):
                if total <= self._limit:
                    return
                if key != current:
                    total -= self._indexes.pop(key).footprint
