"""A scope's entries in memory, in columns, in the order of their numbers.

An index is a pure function of the tables. It is loaded when it is first searched, and then updated with the entries that were
added or removed since. It may be dropped at any time, so a crash cannot damage it, and every process can have its own. A large
index keeps vectors as bytes, each with a scale; the exact values stay in the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import typed
from ..storage.port import Row, State, Tx, encode_numbers
from .passages import LongTexts
from .upkeep import STATEMENTS
from .vector_space import Array, Column, VectorSpace
from .words import MAX_WHOLE

MISSING = -1
EVERYTHING = (None, None)
"""A removal that names no entry and no address. It marks everything as changed, so indexes are loaded again."""
POSTINGS_SHARE = 8
MIN_POSTINGS = 10_000
"""An index caches `POSTINGS_SHARE` occurrences of words per entry, but at least `MIN_POSTINGS`."""
MAX_SMALL = 4096
LIST_BATCH = 5000
_NO_ROWS: Any = np.zeros(0, np.int32)
_decode_names = typed.decoder(list[str | None])


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

    def __init__(
        self, collection: bool, scope_id: int, models: Sequence[tuple[int, int]] = (), history: bool = False
    ) -> None:
        """`models` has the number and the dimensions of each model, the best first."""
        self.lock = Lock()
        self.history = history
        """True if the index also holds retired entries. It is then loaded again after every change."""
        self.collection = collection
        self.scope_id = scope_id
        self.spaces = tuple(
            VectorSpace(number, dimensions, patient=place < len(models) - 1)
            for place, (number, dimensions) in enumerate(models)
        )
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
        self.kinds, self.roles, self.names = NameCodes(), NameCodes(), NameCodes()
        self.texts = LongTexts()
        self.metadata: Any = None
        self.validity: Any = None
        self.clock = 0
        self.linked = False
        """True if any entry has neighbours."""
        self._last_of: dict[int, int] = {}
        self._postings: dict[str, tuple[int, Array]] = {}
        self._postings_size = 0
        self._vocabulary: dict[str, list[int]] = {}
        self._read_upto = 0
        self._seen: tuple[int, int] | None = None

    def __len__(self) -> int:
        return self.docid.size

    @property
    def has_statements(self) -> bool:
        """True if any entry is a fact, a note or a summary."""
        return not self.kinds.codes.keys().isdisjoint(STATEMENTS)

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
        more: tuple[Column | VectorSpace, ...] = (
            self.size,
            self.asks,
            self.alive,
            self.before,
            self.after,
            *self.spaces,
        )
        beside: int = 4 * self._postings_size + sum(
            columns.footprint for columns in (self.metadata, self.validity) if columns
        )
        return beside + sum(column.footprint for column in (*entries, *more))

    # -- updates -----------------------------------------------------------------------------------------------------

    def refresh(self, tx: Tx, state: State) -> bool:
        """Update the index to the transaction's snapshot. Return False if it must be loaded again instead."""
        if self._seen is None:
            if self.collection:
                for space in self.spaces:
                    space.remote = tx.row("find_graph", model=space.model, collection=self.scope_id) is not None
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
        for space in self.spaces:
            space.refresh(tx)
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
        self.texts.forget()
        for space in self.spaces:
            space.clear(rows[~here])
        if here.any():
            self.kind.values[rows[here]] = self.kinds.encode([kinds[docid] for docid in docids if docid in kinds])
        return True

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
        added, turns = self.docid.values[first:].tolist(), ~self._has_kind(STATEMENTS, first)
        for space in self.spaces:
            space.add(tx, added, first, turns, self.size.values[first:] > MAX_WHOLE)
        self._link(first, turns)

    def _link(self, first: int, is_turn: Array) -> None:
        """Link new turns to the turns before and after them at their address. Facts, notes and summaries stand for themselves."""
        fresh = len(self) - first
        self.before.extend(np.full(fresh, MISSING, np.int32))
        self.after.extend(np.full(fresh, MISSING, np.int32))
        before, last_of = self.before.values, self._last_of
        turns = np.flatnonzero(is_turn) + first
        for row, address in zip(turns.tolist(), self.address.values[turns].tolist(), strict=True):
            before[row] = last_of.get(address, MISSING)
            last_of[address] = row
        later = turns[before[turns] != MISSING]
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
        found = self._vocabulary.get(token)
        rows: Array = _NO_ROWS if found is None else np.array(found, np.int32)
        return rows

    def _keep(self, token: str, upto: int, rows: Array) -> None:
        _, old = self._postings.pop(token, (0, _NO_ROWS))
        self._postings_size += len(rows) - len(old)
        self._postings[token] = upto, rows
        limit = max(len(self) * POSTINGS_SHARE, MIN_POSTINGS)
        while self._postings_size > limit and len(self._postings) > 1:
            self._postings_size -= len(self._postings.pop(next(iter(self._postings)))[1])


def _parse_numbers(listed: str | int | float | bytes, dtype: Any) -> Array:
    """Parse a list of numbers from a database: text with commas, or eight bytes per number, big-endian."""
    if isinstance(listed, bytes):
        return np.frombuffer(listed, ">i8").astype(dtype)
    numbers: Array = np.fromstring(str(listed), dtype, sep=",")
    return numbers


class IndexKey(NamedTuple):
    """The tenant, the models (number, name and dimensions of each), and the collection or address of an index."""

    owner: str
    models: tuple[tuple[int, str, int], ...]
    collection: bool
    scope_id: int
    history: bool = False


class IndexCache:
    """The most recently used indexes, as many as fit into memory. Others are loaded again when they are needed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._indexes: OrderedDict[IndexKey, Index] = OrderedDict()

    def current(self, tx: Tx, key: IndexKey, state: State) -> Index:
        """Return an index, updated to the transaction's snapshot or a later one."""
        while True:
            with self._lock:
                index = self._indexes.get(key)
                if index is None:
                    models = [(number, dimensions) for number, _, dimensions in key.models]
                    index = Index(key.collection, key.scope_id, models, key.history)
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
