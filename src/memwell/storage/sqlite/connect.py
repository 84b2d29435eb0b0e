"""Opening SQLite files, their errors and their schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import apsw
from apsw import sqlite_extra

from ...errors import Corrupted, MemwellError, StorageError, StorageFull, Unavailable, Unsupported
from .. import queries

# Older versions lose committed pages when two connections write and checkpoint at once.
OLDEST_SQLITE = (3, 51, 3)
BUSY_MS = 10_000
CHECKPOINT_PAGES = 1000
PRIVATE = 0o600
"""The mode of a file that only its owner can read."""
OPEN_FILE = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
CHECKSUM_BYTES = 8
"""The space for a checksum at the end of each page. SQLite's extension requires this number."""

Durability = Literal["full", "relaxed"]


def require_sqlite(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise Unsupported(f"SQLite {version} can lose committed data; Memwell needs {oldest} or newer: upgrade `apsw`.")


@cache
def checksum_vfs() -> str:
    """Load SQLite's extension that writes a checksum on each page and verifies it on each read. Return the name of its VFS."""
    usual = apsw.vfs_names()[0]
    db = apsw.Connection(":memory:")
    try:
        sqlite_extra.load(db, "cksumvfs")
    except (apsw.Error, LookupError, OSError, sqlite_extra.NotAvailable) as error:
        raise Unsupported("This `apsw` lacks the extension `cksumvfs`: install `apsw` from PyPI.") from error
    finally:
        db.close()
    apsw.set_default_vfs(usual)  # the extension is for our files only
    return "cksmvfs"


def has_checksums(db: apsw.Connection) -> bool:
    """Return True if checksums are written and verified."""
    return str(db.pragma("checksum_verification")) == "1"


def write_checksums(path: Path) -> None:
    """Write the checksums of a copy that `VACUUM INTO` has just made. SQLite may write a page of it before the first one, which
    says that there are checksums."""
    plain, checked = (apsw.VFSFile(vfs, str(path), [OPEN_FILE, 0]) for vfs in ("", checksum_vfs()))
    try:
        page = int.from_bytes(checked.xRead(100, 0)[16:18], "big")
        page = 65_536 if page == 1 else page
        for at in range(0, plain.xFileSize(), page):
            checked.xWrite(plain.xRead(page, at), at)
    finally:
        checked.xClose()
        plain.xClose()


def open_writer(path: Path, durability: Durability, vfs: str | None, *, create: bool) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    if create:  # SQLite gives its log the mode of the file
        with suppress(OSError):  # it exists, or SQLite reports the error
            path.touch(mode=PRIVATE, exist_ok=False)
    with translate_errors(path):
        db = apsw.Connection(str(path), flags=flags, vfs=vfs or checksum_vfs())
        _prepare(db)
        if create:  # before the first page is written
            db.reserve_bytes(reserve=CHECKSUM_BYTES)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full" if durability == "full" else "normal")
        db.pragma("secure_delete", "on")
        db.pragma("journal_size_limit", 64 * 1024 * 1024)
        db.pragma("foreign_keys", "on")
        db.set_wal_hook(_checkpoint)
    return db


def _checkpoint(db: apsw.Connection, schema: str, pages: int) -> int:
    """Copy a long log into its file. The commit before it is durable, so a failure is left to the next checkpoint."""
    if pages >= CHECKPOINT_PAGES:
        with suppress(apsw.Error):
            db.wal_checkpoint(schema)
    return apsw.SQLITE_OK


def open_reader(path: Path, vfs: str | None) -> apsw.Connection:
    """Open a read-only connection, even if the directory itself cannot be written."""
    with translate_errors(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs or checksum_vfs())
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
    db = apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags, vfs=vfs or checksum_vfs())
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


def damaged(name: str, damage: str = "is damaged") -> Corrupted:
    """Return the error of a damaged file."""
    return Corrupted(f"{name} {damage}: run `memwell doctor`, then restore it from a backup. Nothing was changed.")


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
        case apsw.SQLError() if "no transaction is active" in str(error):
            return damaged(name)  # SQLite could not read its statistics, reported nothing, and ended the transaction
        case apsw.SQLError() if "no such" not in str(error):
            return StorageError(f"SQLite could not use {name}: {error}.")
        case apsw.CorruptError() | apsw.NotADBError() | apsw.SQLError() | UnicodeDecodeError():
            return damaged(name)
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f"{name} is being written by another process: try again in a moment.")
        case apsw.IOError() if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
            return damaged(name, "has a page whose checksum is wrong")
        case apsw.IOError():
            return StorageError(f"The disk that holds {name} reported an error: {error}.")
        case _:
            return StorageError(f"SQLite could not use {name}: {error}.")


APPLICATION_ID = 0x4D656D77  # "Memw"


def is_current(db: apsw.Connection, folder: str, file: str, *, may_be_empty: bool = True) -> bool:
    """Return True if a file has the newest schema. Files that are not ours, have lost their content or cannot be upgraded are
    refused."""
    version = int(db.pragma("user_version"))
    if db.pragma("application_id") != APPLICATION_ID if version else _has_tables(db):
        raise Corrupted(f"{file} is not a Memwell file.")
    if not version and not may_be_empty:
        raise damaged(file, "is empty")
    queries.require_supported(version, folder, file)
    if version >= _first_with_checksums(folder) and not has_checksums(db):
        raise damaged(file)
    return version == queries.newest(folder)


@cache
def _first_with_checksums(folder: str) -> int:
    return next(number for number, name, _ in queries.migrations(folder) if name == "checksums")


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
    checked = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({limit})")]
    found = [line for text in checked for line in text.splitlines() if not line.startswith("***")][:limit]
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
            if db.in_transaction:  # else SQLite has rolled it back, as on a full disk
                db.execute("ROLLBACK")
            raise
