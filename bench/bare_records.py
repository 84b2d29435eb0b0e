"""The bare limit of records: only the necessary statements, on the same schema, in a thread with a queue."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Lock, Thread
from typing import Any

import apsw
import msgspec

from memwell.storage import queries
from memwell.storage.sqlite import connect
from memwell.storage.sqlite.file import upgrade

from .bare import TENANT, WAIT_S, locked

COLLECTION = 1
USER = "alice"

_SQL = {name: query.sql for name, query in queries.load("sqlite").items()}
_WHERE = {"tenant": TENANT, "dialect": "user", "name": USER}
_OF = {"tenant": TENANT, "collection_id": COLLECTION}
_EVENT = {**_OF, "operation": "users.set_record", "entries": 0, "actor": "local"}
_STORE = {"tenant": TENANT, "kind": "store:shop", "id": "prefs"}
_ids = itertools.count(1)

Work = Callable[[apsw.Connection], None]


class BareRecords:
    """A thread that runs one transaction after the other, and a reader."""

    def __init__(self, db: apsw.Connection, reader: apsw.Connection) -> None:
        self._db, self._reader = db, reader
        self._queue: Queue[tuple[Work, Lock] | None] = Queue()
        self._gate = locked()
        self._thread = Thread(target=self._work, name="bare-records", daemon=True)
        self._thread.start()

    def get(self, path: str) -> Any:
        """Read a value by its name."""
        row = self._reader.execute(_SQL["find_record"], {**_WHERE, "path": path, "now": _now()}).fetchall()[0]
        return msgspec.json.decode(str(row[4]))

    def get_held(self, path: str) -> Any:
        """Read a value and its schema from the same file."""
        held = self._reader.execute(_SQL["find_document"], _STORE).fetchall()[0]
        msgspec.json.decode(str(held[3]))
        return self.get(path)

    def merge_held(self, path: str, data: dict[str, Any]) -> None:
        """Read the schema, then merge into a value."""
        self._do(lambda db: _merge(db, path, data, held=True))

    def merge(self, path: str, data: dict[str, Any]) -> None:
        """Merge into a value: read it, merge, and write it with its version and its event."""
        self._do(lambda db: _merge(db, path, data))

    def delete(self, path: str) -> None:
        """Delete a value with its versions and its address."""
        self._do(lambda db: _delete(db, path))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _do(self, work: Work) -> None:
        self._queue.put((work, self._gate))
        if not self._gate.acquire(timeout=WAIT_S):
            raise RuntimeError("the bare writer has ended")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            work, gate = item
            self._db.execute("BEGIN IMMEDIATE")
            work(self._db)
            self._db.execute("COMMIT")
            gate.release()


@contextmanager
def bare_records(path: Path, store: dict[str, Any]) -> Iterator[BareRecords]:
    """A bare writer and reader on a new file with our schema and our pragmas, and one store."""
    upgrade(path, "sqlite", "full", None)
    db = connect.open_writer(path, "full", None, create=False)
    collection = {"tenant": TENANT, "id": COLLECTION, "dialect": "user", "name": USER, "kind": "record"}
    db.execute(_SQL["add_collection"], {**collection, "sealed": 0, "policy": "{}", "now": 0})
    contract = {"name": "prefs", "version": 1, "body": msgspec.json.encode(store).decode(), "now": 0}
    db.execute(_SQL["add_document"], {**_STORE, **contract})
    reader = connect.open_reader(path, None)
    made = BareRecords(db, reader)
    try:
        yield made
    finally:
        made.close()
        reader.close()
        db.close()


def _merge(db: apsw.Connection, path: str, data: dict[str, Any], *, held: bool = False) -> None:
    now = _now()
    if held:
        msgspec.json.decode(str(db.execute(_SQL["find_document"], _STORE).fetchall()[0][3]))
    found = db.execute(_SQL["find_record"], {**_WHERE, "path": path, "now": now}).fetchall()
    value = {**(msgspec.json.decode(str(found[0][4])) if found else {}), **data}
    placed = {**_OF, "id": next(_ids), "path": path, "now": now, "expires_at": None}
    address_id, version = db.execute(_SQL["place_record"], placed).fetchall()[0]
    kept = {"tenant": TENANT, "address_id": address_id, "version": version, "now": now, "expires_at": None}
    db.execute(_SQL["put_value"], {**kept, "value": msgspec.json.encode(value).decode(), "created_at": now}).fetchall()
    written = {**kept, "mode": "merge", "data": msgspec.json.encode(data).decode(), "actor": "local"}
    db.execute(_SQL["add_record_version"], written).fetchall()
    db.execute(_SQL["add_event"], {**_EVENT, "at": now, "address_id": address_id}).fetchall()


def _delete(db: apsw.Connection, path: str) -> None:
    now = _now()
    address_id = db.execute(_SQL["find_record"], {**_WHERE, "path": path, "now": now}).fetchall()[0][0]
    for query in ("delete_record_versions", "delete_record", "delete_ties"):
        db.execute(_SQL[query], {"tenant": TENANT, "address_id": address_id}).fetchall()
    db.execute(_SQL["delete_address"], {"tenant": TENANT, "id": address_id}).fetchall()
    db.execute(_SQL["add_event"], {**_EVENT, "at": now, "address_id": address_id}).fetchall()


def _now() -> int:
    return time.time_ns() // 1000
