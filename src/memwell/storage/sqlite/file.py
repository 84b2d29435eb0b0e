"""One tenant's database file: its transactions, a writer with group commit, a pool of readers, and the files that are open."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import apsw
import msgspec

from ...errors import MemwellError, NotFound, StorageError, Unavailable
from ..filters import to_sql
from ..group_commit import GroupCommit
from ..port import FILTER, TENANT_IS_BOUND, Rewrite, Row
from ..queries import Query
from . import connect

if TYPE_CHECKING:
    from ...model.filter import Filter

T = TypeVar("T")
Given = TypeVarTuple("Given")

IDLE_READERS = 16
SMALL = 64 * 1024 * 1024
LATELY_S = 0.001
"""Time in which readers do not repeat the check that the file still has its name, which takes as long as a small read. Writers
always check before they acknowledge a write."""
SCRUB_BUSY_MS = 200
RETRY_S = 0.02
TRIES = 5
"""Number of attempts to open a file if it is replaced by another meanwhile."""
CLOSED = (apsw.ConnectionClosedError, apsw.CursorClosedError)

_LIST = "FROM json_each(:addresses)"
_SINGLE = (("IN (SELECT value " + _LIST + ")", "= :addresses"), (_LIST, "FROM (SELECT 0 AS key, :addresses AS value)"))
"""Replacements in a statement about a list of addresses, if there is only one."""


# -- transactions ----------------------------------------------------------------------------------------------------------


class NeedsTransaction(Exception):
    """Raised when a `sole` read runs a second statement."""


class Spent:
    """Replaces the cursor after a `sole` statement. A second statement needs a transaction to see the same snapshot."""

    def execute(self, sql: str, parameters: dict[str, Any]) -> apsw.Cursor:
        raise NeedsTransaction


SPENT = Spent()


class SqliteTx(msgspec.Struct, eq=False):
    """A transaction on one tenant's file. It binds the tenant itself. Every statement is read to its end, so one cursor is
    enough; creating another takes half as long as a small statement."""

    _cursor: apsw.Cursor | Spent
    """Cursor for the next statement."""
    _following: apsw.Cursor | Spent
    """Cursor for all statements after it."""
    _queries: dict[str, Query]
    _tenant: str
    due_at: int | None = None

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        if condition is None:
            return self._run(query, parameters)
        sql, bound = to_sql(condition, "sqlite")
        cursor, self._cursor = self._cursor, self._following
        text = self._queries[query].sql.replace(FILTER, f"AND {sql}")
        return cursor.execute(text, {**parameters, **bound, "tenant": self._tenant}).fetchall()

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        if "tenant" in parameters:
            raise TypeError(TENANT_IS_BOUND)
        parameters["tenant"] = self._tenant
        cursor, self._cursor = self._cursor, self._following
        found = cursor.execute(self._queries[query].sql, parameters).fetchall()
        return found[0] if found else None

    def run(self, query: str, /, **parameters: Any) -> int:
        cursor = self._cursor
        self._run(query, parameters)
        assert isinstance(cursor, apsw.Cursor)  # noqa: S101 -- or the statement was not run
        return cursor.connection.changes()

    def send(self, query: str, /, **parameters: Any) -> None:
        self._run(query, parameters)

    def number(self, query: str, /, **parameters: Any) -> int:
        return int(self._run(query, parameters)[0][0])

    def _run(self, query: str, parameters: dict[str, Any]) -> list[Row]:
        if "tenant" in parameters:
            raise TypeError(TENANT_IS_BOUND)
        parameters["tenant"] = self._tenant
        sql = self._queries[query].sql
        if "addresses" in parameters and (single := parameters["addresses"][1:-1]).isdecimal():
            parameters["addresses"] = int(single)
            sql = _for_single_address(sql)
        cursor, self._cursor = self._cursor, self._following
        return cursor.execute(sql, parameters).fetchall()

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)


@cache
def _for_single_address(sql: str) -> str:
    """Rewrite a statement about a list of addresses for a single one: parsing the list takes longer than everything else."""
    for several, one in _SINGLE:
        sql = sql.replace(several, one)
    return sql


# -- one file --------------------------------------------------------------------------------------------------------------


class Replaced(Exception):
    """Raised when the file has lost its name: the tenant was removed, and perhaps created again in another file."""


class SqliteSession:
    """The writer's connection for a group commit."""

    def __init__(self, db: apsw.Connection, guard: Callable[[], None] = lambda: None) -> None:
        self._db = db
        self._guard = guard  # called before each transaction; raises if it may not be written

    @property
    def is_open(self) -> bool:
        try:
            return self._db.in_transaction
        except apsw.ConnectionClosedError:
            return False

    def begin(self) -> None:
        self._guard()
        self._db.execute("BEGIN IMMEDIATE")

    def flush(self) -> None:
        """Do nothing: every statement ran at once."""

    def commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except apsw.IOError as error:  # the log may be complete: after a crash, the transaction would be found in it
            raise StorageError(
                f"The disk that holds {Path(self._db.filename).name} reported an error during the commit, so it is not known "
                f"whether this was stored: repeat it with the same Idempotency-Key, or read it back. ({error})"
            ) from error

    def roll_back(self) -> None:
        self._db.execute("ROLLBACK")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._db.execute("SAVEPOINT one")
        try:
            yield
        except Exception:
            if self._db.in_transaction:  # else SQLite has rolled all back, as on a full disk
                self._db.execute("ROLLBACK TO one")
                self._db.execute("RELEASE one")
            raise
        self._db.execute("RELEASE one")

    def interruption_error(self) -> Exception:
        return apsw.BusyError("the writer that led this commit was interrupted")


class SqliteFile:
    """Connections to one file, opened when they are first needed. Safe to use from any number of threads."""

    def __init__(
        self,
        path: Path,
        folder: str,
        *,
        durability: connect.Durability,
        vfs: str | None,
        may_be_empty: bool = False,
    ) -> None:
        self.path = path
        self._name = str(path)
        self._folder = folder
        self._durability: connect.Durability = durability
        self._vfs = vfs
        self._may_be_empty = may_be_empty
        self._readers: list[apsw.Cursor] = []
        self._writer: tuple[apsw.Cursor, GroupCommit] | None = None
        self._opening = Lock()
        self._closed = False
        self._inode = self._require_current()
        self._checked_at = self.used_at = time.monotonic()

    def read(self, work: Callable[[apsw.Cursor], T], sole: bool = False) -> T:
        """Run work on a snapshot of the file. A `sole` statement is a snapshot by itself."""
        self.used_at = time.monotonic()
        if self._closed or self.used_at - self._checked_at > LATELY_S:
            self._require_same_file()
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = self._open_reader()
        try:
            if sole:
                result = work(reader)
            else:
                reader.execute("BEGIN")
                result = work(reader)
                reader.execute("COMMIT")
        except (MemwellError, NeedsTransaction):
            if not sole:
                reader.execute("ROLLBACK")
            self._keep(reader)
            raise
        except BaseException as error:  # the connection may be in any state, so it is not used again
            reader.connection.close(True)
            if isinstance(error, apsw.Error | UnicodeDecodeError):
                self._require_same_file()
                raise connect.to_error(error, self.path) from error
            raise
        self._keep(reader)
        return result

    def write(self, work: Callable[[apsw.Cursor, *Given], T], *given: *Given) -> T:
        """Run work in a transaction, and return once it is on disk."""
        writer, group = self._writer or self._open_writer()
        try:
            return group.run(work, writer, *given)
        except CLOSED:
            raise Replaced from None
        except (apsw.Error, UnicodeDecodeError) as error:
            raise connect.to_error(error, self.path) from error

    def alone(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run work on the writer's connection, outside a transaction."""
        writer, group = self._writer or self._open_writer()
        try:
            return group.alone(lambda: work(writer.connection))
        except CLOSED:
            raise Replaced from None
        except apsw.Error as error:
            raise connect.to_error(error, self.path) from error

    def scrub(self, rewrite: Rewrite = "never") -> bool:
        """Empty the write-ahead log: deleted pages are zeroed in the file, but the log still has their old content.

        SQLite zeroes what it deletes, but when it balances a tree, copies of moved rows stay in the gaps of pages. Only
        rewriting the file removes these.
        """

        def checkpoint(db: apsw.Connection) -> bool:
            db.set_busy_timeout(SCRUB_BUSY_MS)  # other writers wait for this, so fail early and try again later
            try:
                small = self.path.stat().st_size <= SMALL
                if rewrite == "always" or (rewrite == "small" and small):
                    db.pragma("temp_store", "memory" if small else "file")
                    db.execute("VACUUM")
                    db.pragma("temp_store", "memory")
                return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
            except apsw.BusyError:
                return False
            finally:
                db.set_busy_timeout(connect.BUSY_MS)

        return self.alone(checkpoint)

    def close(self) -> None:
        """Close the connections. An error is ignored: what was committed is durable, at least in the log."""
        self._closed = True
        self._close_readers()  # before the writer: the last connection to be closed removes the write-ahead log
        with self._opening:
            writer, self._writer = self._writer, None
        if writer:
            cursor, group = writer
            with suppress(apsw.Error):
                group.alone(lambda: cursor.connection.close(True))  # so that no transaction is open

    def _keep(self, reader: apsw.Cursor) -> None:
        if len(self._readers) < IDLE_READERS:
            self._readers.append(reader)
        else:
            reader.connection.close()
        if self._closed:  # the readers have been closed already
            self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):  # other threads take readers from the list
            while True:
                self._readers.pop().connection.close(True)

    def _open_reader(self) -> apsw.Cursor:
        """Connect to this file, and not to one that has replaced it."""
        try:
            db = connect.open_reader(self.path, self._vfs)
        except StorageError:
            self._require_same_file()
            raise
        try:
            self._require_same_file()
        except Replaced:
            db.close()
            raise
        return db.cursor()

    def _open_writer(self) -> tuple[apsw.Cursor, GroupCommit]:
        with self._opening:
            if self._closed:
                raise Replaced
            if self._writer is None:
                db = connect.open_writer(self.path, self._durability, self._vfs, create=False)
                self._writer = db.cursor(), GroupCommit(SqliteSession(db, self._require_same_file))
            return self._writer

    def _require_current(self) -> int:
        """Bring the schema up to date. If it is current, nothing is written. Return the inode number of the file."""
        if not self.path.exists():
            raise NotFound("There is no such tenant.")
        if self.path.with_name(self.path.name + "-journal").exists() and os.access(self.path.parent, os.W_OK):
            self._upgrade()  # its creation was interrupted; a reader cannot repair that
        for _ in range(TRIES):
            try:
                before = os.stat(self._name).st_ino
                db = connect.open_reader(self.path, self._vfs)
                try:
                    with connect.translate_errors(self.path):
                        current = connect.is_current(db, self._folder, self.path.name, may_be_empty=self._may_be_empty)
                    same = os.stat(self._name).st_ino == before  # no other file gets the number of an open file
                finally:
                    db.close()
            except FileNotFoundError:
                break
            if same:
                if not current:
                    self._upgrade()
                return before
        raise NotFound("There is no such tenant.")

    def _upgrade(self) -> None:
        upgrade(self.path, self._folder, self._durability, self._vfs)

    def _require_same_file(self) -> None:
        """Raise Replaced if the file has lost its name: reads from it would be outdated, and writes to it would be lost."""
        try:
            same = not self._closed and os.stat(self._name).st_ino == self._inode
        except FileNotFoundError:
            same = False
        if not same:
            raise Replaced
        self._checked_at = self.used_at = time.monotonic()


def upgrade(path: Path, folder: str, durability: connect.Durability, vfs: str | None) -> None:
    """Create a file, or bring it to the newest schema."""
    if path.exists():
        with connect.translate_errors(path):
            _add_checksums(path, vfs)
    db = connect.open_writer(path, durability, vfs, create=True)
    try:
        with connect.translate_errors(path):
            connect.migrate(db, folder)
    finally:
        db.close(True)


def _add_checksums(path: Path, vfs: str | None) -> None:
    """Rewrite a file of an earlier version with a checksum on each page. A connection learns of the checksums when it opens the
    file, so no other process may have it open."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or connect.checksum_vfs())
    try:
        if connect.has_checksums(db) or not db.pragma("user_version"):
            return
        _lock_out_others(db, path)
        db.pragma("temp_store", "memory" if path.stat().st_size <= SMALL else "file")
        db.reserve_bytes(reserve=connect.CHECKSUM_BYTES)
        db.execute(
            "VACUUM"
        )  # into the log, from where a checkpoint writes the first page first, and so knows of the checksums
        db.pragma("wal_checkpoint", "truncate")
    finally:
        db.close(True)


def _lock_out_others(db: apsw.Connection, path: Path) -> None:
    """Open the file for this connection alone."""
    until = time.monotonic() + connect.BUSY_MS / 1000
    db.pragma("locking_mode", "exclusive")
    while True:
        try:
            db.pragma("journal_mode", "wal")
            db.execute("BEGIN IMMEDIATE; COMMIT")
            return
        except apsw.BusyError:
            if time.monotonic() > until:
                raise Unavailable(
                    f"{path.name} must be rewritten for this version, but another process has it open: stop the processes of "
                    "the earlier version, and try again."
                ) from None
        time.sleep(RETRY_S)


# -- the open files ----------------------------------------------------------------------------------------------------------


class OpenFiles:
    """The files in use, and those used last. If there are too many, idle ones are closed."""

    def __init__(self, open_file: Callable[[str], SqliteFile], limit: int) -> None:
        self._open_file = open_file
        self._limit = limit
        self._lock = Lock()
        self._files: dict[str, SqliteFile] = {}
        self._users: dict[str, int] = {}
        self._opening: dict[str, Lock] = {}

    def use(self, tenant: str, work: Callable[[SqliteFile], T]) -> T:
        """Run work on a tenant's file, and again if another process has replaced the file."""
        with self._lock:
            self._users[tenant] = self._users.get(tenant, 0) + 1
            file = self._files.get(tenant)
        try:
            file = file or self._open_once(tenant)
            try:
                return work(file)
            except Replaced:
                with self._lock:
                    if self._files.get(tenant) is file:
                        del self._files[tenant]
                file.close()
                return work(self._open_once(tenant))
        except Replaced:
            raise NotFound("There is no such tenant.") from None
        finally:
            with self._lock:
                self._users[tenant] -= 1
                if not self._users[tenant]:
                    del self._users[tenant]
                crowded = len(self._files) > self._limit
            if crowded:
                self._close_idle()

    def read(self, tenant: str, work: Callable[[apsw.Cursor], T], sole: bool = False) -> T:
        """Read from a tenant's file. An open file is not counted as in use: its readers outlive its closing."""
        file = self._files.get(tenant)
        if file is not None:
            try:
                return file.read(work, sole)
            except Replaced:
                pass  # or another thread has just closed it to make room
        return self.use(tenant, lambda file: file.read(work, sole))

    def close(self, tenant: str | None = None) -> None:
        """Close one file, or all."""
        with self._lock:
            names = [tenant] if tenant is not None else list(self._files)
            closing = [self._files.pop(name) for name in names if name in self._files]
        for file in closing:
            file.close()

    def _open_once(self, tenant: str) -> SqliteFile:
        with self._lock:
            gate = self._opening.setdefault(tenant, Lock())
        try:
            with gate:
                file = self._files.get(tenant)
                if file is None:
                    file = self._open_file(tenant)
                    with self._lock:
                        self._files[tenant] = file
        finally:
            self._opening.pop(tenant, None)
        self._close_idle()
        return file

    def _close_idle(self) -> None:
        """If there are too many files, close those that are not in use, the one used longest ago first."""
        with self._lock:
            idle = sorted((name for name in self._files if name not in self._users), key=self._last_used)
            closing = [self._files.pop(name) for name in idle[: max(len(self._files) - self._limit, 0)]]
        for file in closing:
            file.close()

    def _last_used(self, tenant: str) -> float:
        return self._files[tenant].used_at
