"""The bare limit of writing: one thread, one queue, the same statements on the same schema, and nothing else.

A writer puts its rows into the queue and waits on its own lock. The thread takes all queued rows, commits them in one transaction
and releases the locks.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any

import apsw

from memwell.model.collection import TURN_RETENTION
from memwell.search.upkeep import build_entry_tokens
from memwell.storage import queries
from memwell.storage.sqlite import connect
from memwell.storage.sqlite.file import upgrade

from .texts import FLOW, TURN

TENANT = "default"
COLLECTION = 1
WAIT_S = 30.0

_SQL = queries.load("sqlite")
_TOUCH = _SQL["touch_address"].sql
_ENTRY = _SQL["add_entry"].sql
_EVENT = _SQL["add_event"].sql
_WORDS = _SQL["add_words"].sql
_TOKENS = build_entry_tokens(COLLECTION, COLLECTION, "turn", None, TURN, "en")
_ids = itertools.count()


class Item:
    """A turn to write, and the lock that its author waits on."""

    __slots__ = ("address", "entry", "event", "gate")

    def __init__(self, session: str, gate: Lock) -> None:
        now = time.time_ns() // 1000
        self.gate = gate
        self.address: dict[str, Any] = {
            "tenant": TENANT,
            "id": next(_ids),
            "collection_id": COLLECTION,
            "path": session,
            "count": 1,
            "now": now,
            "expires_at": now + TURN_RETENTION,
        }
        self.entry = _entry(now)
        self.event: dict[str, Any] = {
            "tenant": TENANT,
            "at": now,
            "operation": "flows.append",
            "collection_id": COLLECTION,
            "entries": 1,
            "actor": "local",
        }


class BareWriter:
    """One thread that commits the items of its queue."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._queue: Queue[Item | None] = Queue()
        self._thread = Thread(target=self._work, name="bare-writer", daemon=True)
        self._thread.start()

    def append(self, session: str, gate: Lock) -> None:
        """Write a turn and wait until it is on disk. The gate belongs to the caller and is locked."""
        self._queue.put(Item(session, gate))
        if not gate.acquire(timeout=WAIT_S):
            raise RuntimeError("the bare writer has ended")

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, ended = self._drain(first)
            self._commit(batch)
            for item in batch:
                item.gate.release()
            if ended:
                return

    def _drain(self, first: Item) -> tuple[list[Item], bool]:
        batch = [first]
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, False
            if item is None:
                return batch, True
            batch.append(item)

    def _commit(self, batch: list[Item]) -> None:
        execute = self._db.execute
        execute("BEGIN IMMEDIATE")
        for item in batch:
            entry, event = item.entry, item.event
            address_id, seq, _ = execute(_TOUCH, item.address).fetchall()[0]
            entry["address_id"] = event["address_id"] = address_id
            entry["seq"] = seq
            docid = execute(_ENTRY, entry).fetchall()[0][0]
            execute(_WORDS, {"docid": docid, "tokens": _TOKENS})
            execute(_EVENT, event)
        execute("COMMIT")


@contextmanager
def bare_writer(path: Path) -> Iterator[BareWriter]:
    """A bare writer on a new file with our schema and our writer's pragmas."""
    upgrade(path, "sqlite", "full", None)
    db = connect.open_writer(path, "full", None, create=False)
    collection = {"tenant": TENANT, "id": COLLECTION, "dialect": "flow", "name": FLOW, "kind": "timeline"}
    db.execute(_SQL["add_collection"].sql, {**collection, "sealed": 0, "policy": "{}", "now": 0})
    writer = BareWriter(db)
    try:
        yield writer
    finally:
        writer.close()
        db.close()


def locked() -> Lock:
    gate = Lock()
    gate.acquire()
    return gate


def _entry(now: int) -> dict[str, Any]:
    return {
        "tenant": TENANT,
        "id": f"{next(_ids):026d}",
        "version": 1,
        "kind": "turn",
        "role": "user",
        "name": None,
        "content": TURN,
        "metadata": None,
        "tool": None,
        "origin": "user",
        "importance": None,
        "confidence": None,
        "occurred_at": now,
        "recorded_at": now,
        "created_at": None,
        "expires_at": now + TURN_RETENTION,
        "asks": 0.0,
    }
