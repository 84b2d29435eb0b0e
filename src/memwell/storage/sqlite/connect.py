"""Opening SQLite files, their errors and their schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import apsw

from ...errors import Corrupted, MemwellError, StorageError, StorageFull, Unavailable, Unsupported
from .. import queries

# Older versions lose committed pages when two connections write and checkpoint at once.
OLDEST_SQLITE = (3, 51, 3)
BUSY_MS = 10_000

Durability = Literal["full", "relaxed"]


def require_sqlite(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise Unsupported(f"SQLite {version} can lose committed data; Memwell needs {oldest} or newer: upgrade `apsw`.")


def open_writer(path: Path, durability: Durability, vfs: str | None, *, create: bool) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    with translate_errors(path):
        db = apsw.Connection(str(path), flags=flags, vfs=vfs)
        _prepare(db)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full" if durability == "full" else "normal")
        db.pragma("secure_delete", "on")
        db.pragma("journal_size_limit", 64 * 1024 * 1024)
        db.pragma("foreign_keys", "on")
    return db


def open_reader(path: Path, vfs: str | None) -> apsw.Connection:
    """Open a read-only connection, even if the directory itself cannot be written."""
    with translate_errors(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
        try:
            _prepare(db)
            db.pragma("user_version")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            db.close()
            # A read-only disk has no room for SQLite's shared-memory file; a file that was closed cleanly needs none.
            wal = path.with_name(path.name + "-wal")
            if wal.exists() and wal.stat().st_size:
                raise StorageFull(
                    f"{path.name} was not closed cleanly and lies on a read-only disk: open it once where it is writable."
                ) from None
            db = open_immutable(path, vfs)
    return db


def open_immutable(path: Path, vfs: str | None = None) -> apsw.Connection:
    """Open a read-only connection to a file that no process writes. SQLite creates no other file beside it."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags, vfs=vfs)
    _prepare(db)
    return db


def _prepare(db: apsw.Connection) -> None:
    db.set_busy_timeout(BUSY_MS)
    db.pragma("temp_store", "memory")
    db.pragma("trusted_schema", False)
    # Plans must not depend on bound values, or SQLite would compile a statement again for each value, at ten times its cost.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors."""
    try:
        yield
    except apsw.Error as error:
        raise to_error(error, path) from error


def to_error(error: apsw.Error | UnicodeDecodeError, path: Path) -> MemwellError:
    name = path.name
    match error:
        case apsw.FullError():
            return StorageFull(
                f"The disk that holds {name} is full: free some space. Nothing was lost, and no restart is needed."
            )
        case apsw.ReadOnlyError():
            return StorageFull(f"{name} cannot be written: the disk or the file is read-only. Reads still work.")
        case apsw.CantOpenError():
            return StorageError(
                f"{name} cannot be opened: check that the data directory exists and may be read and written."
            )
        case apsw.SQLError() if "no such" not in str(error):
            return StorageError(f"SQLite could not use {name}: {error}.")
        case apsw.CorruptError() | apsw.NotADBError() | apsw.SQLError() | UnicodeDecodeError():
            return Corrupted(
                f"{name} is damaged: run `memwell doctor`, then restore it from a backup. Nothing was changed."
            )
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f"{name} is being written by another process: try again in a moment.")
        case apsw.IOError():
            return StorageError(f"The disk that holds {name} reported an error: {error}.")
        case _:
            return StorageError(f"SQLite could not use {name}: {error}.")


APPLICATION_ID = 0x4D656D77  # "Memw"


def is_current(db: apsw.Connection, folder: str, file: str) -> bool:
    """Return True if a file has the newest schema. Files that are not ours or cannot be upgraded are refused."""
    version = int(db.pragma("user_version"))
    queries.require_supported(version, folder, file)
    if db.pragma("application_id") != APPLICATION_ID if version else _has_tables(db):
        raise Corrupted(f"{file} is not a Memwell file.")
    return version == queries.newest(folder)


def _has_tables(db: apsw.Connection) -> bool:
    try:
        return bool(db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall())
    except (
        apsw.NotADBError,
        apsw.CorruptError,
    ):  # its creation was interrupted by a power loss: the writer rolls it back
        return False


def list_damage(db: apsw.Connection | apsw.Cursor, limit: int) -> list[str]:
    """Check a whole file, and describe its damage."""
    found = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({limit})")]
    found += [f"broken reference in {row[0]}" for row in db.execute("PRAGMA foreign_key_check").fetchall()[:limit]]
    return [line for line in found if line != "ok"]


def migrate(db: apsw.Connection, folder: str) -> None:
    """Bring a file to the newest schema. A migration and its number are committed together, so a process that is killed
    leaves the version before it, and the next opening continues from there."""
    for number, _, text in queries.migrations(folder):
        db.execute("BEGIN IMMEDIATE")
        try:
            version = int(db.pragma("user_version"))
            queries.require_supported(version, folder, Path(db.filename).name)
            if version < number:
                for statement in queries.statements(text):
                    db.execute(statement)
                db.pragma("application_id", APPLICATION_ID)
                db.pragma("user_version", number)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
