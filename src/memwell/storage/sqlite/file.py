"""One open database file: a group-committing writer and a pool of readers, both opened when first needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import TypeVar

import apsw

from ...errors import MemwellError, NotFound, StorageError
from ..group_commit import GroupCommit
from ..port import Rewrite
from . import connect
from .tx import Another

T = TypeVar("T")

IDLE_READERS = 16
SMALL = 64 * 1024 * 1024
LATELY_S = 0.001
"""For how long a reader takes it that a file still has its name: to ask takes as long as to read a little. What is written is
acknowledged only if it has."""
SCRUB_BUSY_MS = 200
TRIES = 5
"""How often a file is looked at that has another in its place by then."""
CLOSED = (apsw.ConnectionClosedError, apsw.CursorClosedError)


class Replaced(Exception):
    """The file has lost its name: there is no such tenant any more, or there is one again, in another file."""


class SqliteSession:
    """The writer's connection, as a group of writers shares it."""

    def __init__(self, db: apsw.Connection, guard: Callable[[], None] = lambda: None) -> None:
        self._db = db
        self._guard = guard  # asked once for each transaction whether it may be written at all

    @property
    def is_open(self) -> bool:
        return self._db.in_transaction

    def begin(self) -> None:
        self._guard()
        self._db.execute("BEGIN IMMEDIATE")

    def flush(self) -> None:
        """Every statement was done at once."""

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def roll_back(self) -> None:
        self._db.execute("ROLLBACK")

    def savepoint(self) -> AbstractContextManager[object]:
        return self._db

    def interruption_error(self) -> Exception:
        return apsw.BusyError("the writer that led this commit was interrupted")


class SqliteFile:
    """Connections to one file. Safe to use from any number of threads."""

    def __init__(
        self,
        path: Path,
        folder: str,
        *,
        durability: connect.Durability,
        vfs: str | None,
        max_readers: int = IDLE_READERS,
    ) -> None:
        self.path = path
        self._name = str(path)
        self._folder = folder
        self._durability: connect.Durability = durability
        self._vfs = vfs
        self._max_readers = max_readers
        self._readers: list[apsw.Cursor] = []
        self._writer: tuple[apsw.Cursor, GroupCommit] | None = None
        self._opening = Lock()
        self._closed = False
        self._inode = self._require_current()
        self.used_at = time.monotonic()
        """When somebody last read or wrote, give or take a millisecond."""

    def read(self, work: Callable[[apsw.Cursor], T], sole: bool = False) -> T:
        """Run work on a snapshot of the file; if it is one statement only, that is one."""
        now = time.monotonic()
        if self._closed or now - self.used_at > LATELY_S:
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
        except (MemwellError, Another):
            if not sole:
                reader.execute("ROLLBACK")
            self._keep(reader)
            raise
        except BaseException as error:  # whatever state it is in, nobody else gets this connection
            reader.connection.close(True)
            if isinstance(error, apsw.Error | UnicodeDecodeError):
                self._require_same_file()
                raise connect.to_error(error, self.path) from error
            raise
        self._keep(reader)
        return result

    def write(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Run work in a transaction; when this returns, it is on disk."""
        writer, group = self._writer or self._open_writer()
        try:
            return group.run(lambda: work(writer))
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
        """Empty the write-ahead log: deleted pages are zeroed in the file, but the log still holds what they were.

        SQLite zeroes what it deletes, but when it balances a tree, copies of what was moved stay in the gaps of pages.
        Only writing the file anew removes these.
        """

        def checkpoint(db: apsw.Connection) -> bool:
            db.set_busy_timeout(SCRUB_BUSY_MS)  # writers queue up behind this: better tried again later than waited for
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
        """Readers first: only a writer that is the last to leave takes the write-ahead log with it."""
        self._closed = True
        self._close_readers()
        with self._opening:
            writer, self._writer = self._writer, None
        if writer:
            cursor, group = writer
            group.alone(lambda: cursor.connection.close(True))  # nobody is in the middle of a transaction then

    def _keep(self, reader: apsw.Cursor) -> None:
        if len(self._readers) < self._max_readers:
            self._readers.append(reader)
        else:
            reader.connection.close()
        if self._closed:
            self._close_readers()

    def _close_readers(self) -> None:
        """Whoever closes the file does so, and whoever puts a reader back afterwards."""
        with suppress(IndexError):  # whoever reads takes from the same list
            while True:
                self._readers.pop().connection.close(True)

    def _open_reader(self) -> apsw.Cursor:
        """A connection to this file, and not to another that has its name by now."""
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
        """Bring the schema up to date, without needing to write when it is."""
        if not self.path.exists():
            raise NotFound("There is no such tenant.")
        if self.path.with_name(self.path.name + "-journal").exists() and os.access(self.path.parent, os.W_OK):
            upgrade(
                self.path, self._folder, self._durability, self._vfs
            )  # its making was cut off; a reader cannot heal it
        for _ in range(TRIES):
            try:
                inode, current = self._inspect()
            except FileNotFoundError:
                break
            if inode is not None:
                if not current:
                    upgrade(self.path, self._folder, self._durability, self._vfs)
                return inode
        raise NotFound("There is no such tenant.")

    def _inspect(self) -> tuple[int | None, bool]:
        """Which file it is, if it is still the one of that name after a look at it, and whether its schema is today's."""
        before = os.stat(self._name).st_ino
        db = connect.open_reader(self.path, self._vfs)
        try:
            with connect.translate_errors(self.path):
                current = connect.is_current(db, self._folder, self.path.name)
            same = os.stat(self._name).st_ino == before  # while it is open, no other file gets its number
        finally:
            db.close()
        return (before if same else None), current

    def _require_same_file(self) -> None:
        """Nothing may be read from, or acknowledged into, a file that has lost its name."""
        try:
            same = not self._closed and os.stat(self._name).st_ino == self._inode
        except FileNotFoundError:
            same = False
        if not same:
            raise Replaced
        self.used_at = time.monotonic()


def upgrade(path: Path, folder: str, durability: connect.Durability, vfs: str | None) -> None:
    """Make a file, or bring it to the present schema."""
    db = connect.open_writer(path, durability, vfs, create=True)
    try:
        with connect.translate_errors(path):
            connect.migrate(db, folder)
    finally:
        db.close(True)


# -- Open tenants: a bounded cache of files.


class OpenFiles:
    """The files in use and those used last. One that nobody is using gives way when there are too many."""

    def __init__(self, open_file: Callable[[str], SqliteFile], limit: int) -> None:
        self._open_file = open_file
        self._limit = limit
        self._lock = Lock()
        self._files: dict[str, SqliteFile] = {}
        self._users: dict[str, int] = {}
        self._opening: dict[str, Lock] = {}

    def use(self, tenant: str, work: Callable[[SqliteFile], T]) -> T:
        """Do something with a tenant's file; once more, if that turns out to have been replaced by another."""
        file = self._take(tenant)
        try:
            return work(file)
        except Replaced:
            return self._once_more(tenant, file, work)
        finally:
            self._give_back(tenant)

    def read(self, tenant: str, work: Callable[[apsw.Cursor], T], sole: bool = False) -> T:
        """Read from a tenant's file. Nobody waits for a reader that is not counted: a connection in use is closed by its user."""
        file = self._files.get(tenant)
        if file is not None:
            try:
                return file.read(work, sole)
            except Replaced:
                pass  # or it was closed just now, to make room for another
        return self.use(tenant, lambda file: file.read(work, sole))

    def close(self, tenant: str | None = None) -> None:
        """Close one file, or all."""
        with self._lock:
            names = [tenant] if tenant is not None else list(self._files)
            closing = [self._files.pop(name) for name in names if name in self._files]
        for file in closing:
            file.close()

    def __len__(self) -> int:
        return len(self._files)

    def _take(self, tenant: str) -> SqliteFile:
        with self._lock:
            self._users[tenant] = self._users.get(tenant, 0) + 1
            file = self._files.get(tenant)
            if file is not None:
                return file
        try:
            return self._open_once(tenant)
        except BaseException:
            self._give_back(tenant)
            raise

    def _once_more(self, tenant: str, stale: SqliteFile, work: Callable[[SqliteFile], T]) -> T:
        try:
            return work(self._renew(tenant, stale))
        except Replaced:
            raise NotFound("There is no such tenant.") from None

    def _renew(self, tenant: str, stale: SqliteFile) -> SqliteFile:
        """Another process removed this tenant, and perhaps made it anew."""
        with self._lock:
            if self._files.get(tenant) is stale:
                del self._files[tenant]
        stale.close()
        return self._open_once(tenant)

    def _open_once(self, tenant: str) -> SqliteFile:
        with self._lock:
            gate = self._opening.setdefault(tenant, Lock())
        try:
            with gate:
                return self._files.get(tenant) or self._open(tenant)
        finally:
            self._opening.pop(tenant, None)

    def _open(self, tenant: str) -> SqliteFile:
        file = self._open_file(tenant)
        with self._lock:
            self._files[tenant] = file
            idle = sorted((name for name in self._files if not self._users.get(name)), key=self._last_used)
            closing = [self._files.pop(name) for name in idle[: max(len(self._files) - self._limit, 0)]]
        for other in closing:
            other.close()
        return file

    def _last_used(self, tenant: str) -> float:
        return self._files[tenant].used_at

    def _give_back(self, tenant: str) -> None:
        with self._lock:
            left = self._users[tenant] - 1
            if left:
                self._users[tenant] = left
            else:
                del self._users[tenant]
