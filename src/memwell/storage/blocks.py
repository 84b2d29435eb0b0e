"""The blocks that are in memory: as many as fit, the ones used last."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from .block import Block, State
from .port import Tx


class Key(NamedTuple):
    """Which block: of which tenant, by which model, of which collection or address."""

    owner: str
    model: tuple[int, str]
    collection: bool
    scope_id: int
    history: bool = False


class Blocks:
    """Blocks by key, bounded by their bytes. One that is thrown out is loaded again when it is needed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._blocks: OrderedDict[Key, Block] = OrderedDict()

    def current(self, tx: Tx, key: Key, dimensions: int, state: State) -> Block:
        """The block as of the transaction's snapshot, or later."""
        while True:
            block = self._get(key, dimensions)
            with block.lock:
                size = len(block)
                if block.refresh(tx, state):
                    break
            self._remove(key, block)
        if len(block) != size:
            self._bound(key)
        return block

    def forget(self, owner: str) -> None:
        """Drop everything of a tenant: after an erasure nothing of it stays in memory."""
        with self._lock:
            for key in [key for key in self._blocks if key.owner == owner]:
                del self._blocks[key]

    @property
    def footprint(self) -> int:
        with self._lock:
            return sum(block.footprint for block in self._blocks.values())

    def _get(self, key: Key, dimensions: int) -> Block:
        with self._lock:
            block = self._blocks.get(key)
            if block is None:
                block = self._blocks[key] = Block(key.collection, key.scope_id, key.model[0], dimensions, key.history)
            self._blocks.move_to_end(key)
            return block

    def _remove(self, key: Key, block: Block) -> None:
        with self._lock:
            if self._blocks.get(key) is block:
                del self._blocks[key]

    def _bound(self, kept: Key) -> None:
        """Throw out what was not used for longest; the one in use stays, however large it is."""
        with self._lock:
            total = sum(block.footprint for block in self._blocks.values())
            for key in list(self._blocks):
                if total <= self._limit:
                    return
                if key != kept:
                    total -= self._blocks.pop(key).footprint
