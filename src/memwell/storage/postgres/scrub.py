"""The last traces of erased rows: rewriting tables, looking at their pages, and what is up to the server.

`VACUUM` lets the server reuse the space of a deleted row but leaves its bytes there, so small tables are rewritten after an
erasure. Rewriting a large table would block all tenants for long: `memwell doctor --erasure` does it when it is asked to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from psycopg import errors as pg

from ..port import Remains, Rewrite
from .connect import SCHEMA
from .migrate import TENANT_TABLES
from .statements import Connection

SMALL = 16 * 1024 * 1024
"""Largest table, with its indexes, that is rewritten after each erasure. Meanwhile, for a fraction of a second, it is locked."""
LOCK_S = 1
SNAPSHOTS_S = 2.0
PAUSE_S = 0.02
PAGE = 8192
PIECE = 128 * PAGE
STATISTICS = "pg_catalog.pg_statistic"
"""The planner's samples of values."""
TABLES = (*(f"{SCHEMA}.{table}" for table in (*TENANT_TABLES, "api_key")), STATISTICS)

FREE_SPACE = "until it is reused, or `memwell doctor --erasure` is run"

_OLDER = """
    SELECT EXISTS (
        SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = CURRENT_DATABASE()
        AND backend_type IN ('client backend', 'walsender')
        AND GREATEST(AGE(backend_xmin), AGE(backend_xid)) > AGE(CAST(%(since)s AS xid))
    ) OR EXISTS (SELECT 1 FROM pg_replication_slots WHERE AGE(xmin) > AGE(CAST(%(since)s AS xid)))
"""
_STORED = """
    SELECT c.oid, pg_relation_filepath(c.oid), pg_relation_size(c.oid) FROM pg_class c
    WHERE c.relkind IN ('r', 't') AND pg_relation_filepath(c.oid) IS NOT NULL
    AND (c.oid = %(table)s::regclass OR c.oid = (SELECT reltoastrelid FROM pg_class WHERE oid = %(table)s::regclass))
"""


def rewrite_tables(db: Connection, rewrite: Rewrite) -> list[str]:
    """Vacuum every table, and rewrite the small ones, or all of them. Return those that were not rewritten: they are large or in
    use, belong to somebody else, or a transaction is open that may read the deleted rows."""
    (since,) = db.execute("SELECT CAST(CAST(pg_current_xact_id() AS xid) AS TEXT)").fetchone() or ("0",)
    if _is_distributed(db) or not _await_snapshots(db, since):
        return [table for table in TABLES if not _vacuum(db, table, "")]
    db.execute(f"SET lock_timeout = '{LOCK_S}s'")  # while it waits for its lock, everybody else waits for it
    left = []
    for table in TABLES:
        if rewrite == "small" and _size(db, table) > SMALL:
            _vacuum(db, table, "")
            left.append(table)
        elif not _vacuum(db, table, "(FULL)" if table == STATISTICS else "(FULL, ANALYZE)"):
            left.append(table)
    return list(TABLES) if _has_older_snapshots(db, since) else left


def _vacuum(db: Connection, table: str, options: str) -> bool:
    """Vacuum a table. Return True if it is in another file now. PostgreSQL only warns of a missing permission."""
    before = _file_of(db, table)
    with suppress(pg.LockNotAvailable):
        db.execute(f"VACUUM {options} {table}".encode())
    return _file_of(db, table) != before


def list_remains(tables: Sequence[str]) -> list[Remains]:
    """List the places where erased bytes stay for some time, and until when: these tables, and what is up to the server."""
    log = "until the server has overwritten its segments (see max_wal_size and wal_keep_size)"
    return [
        *(Remains(f"free space in {table.rpartition('.')[2]}", FREE_SPACE) for table in tables),
        Remains("write-ahead log", log),
        Remains("replicas and archived logs", "until they have caught up, and the archive is deleted"),
        Remains("backups of the server", "until they are deleted"),
    ]


def count_stale_pages(db: Connection) -> tuple[int, int] | None:
    """Look at the pages of all tables. Return how many there are, and how many of them have bytes where no row is. None if this
    user may not read the server's files."""
    with suppress(pg.InsufficientPrivilege):
        db.execute("CHECKPOINT")
    pages = stale = 0
    try:
        for page in _read_pages(db):
            lower, upper = int.from_bytes(page[12:14], "little"), int.from_bytes(page[14:16], "little")
            pages += 1
            stale += any(page[lower:upper]) or _has_dead_rows(page, lower)
    except (pg.InsufficientPrivilege, pg.UndefinedFile):
        return None
    return pages, stale


def _read_pages(db: Connection) -> Iterator[bytes]:
    for table in TABLES:
        for _, path, size in db.execute(_STORED.encode(), {"table": table}).fetchall():
            for at in range(0, size, PIECE):
                row = db.execute("SELECT pg_read_binary_file(%s, %s, %s)", (path, at, PIECE), binary=True).fetchone()
                piece = bytes(row[0]) if row else b""
                yield from (piece[start : start + PAGE] for start in range(0, len(piece), PAGE))


def _has_dead_rows(page: bytes, lower: int) -> bool:
    """Return True if a row of the page was deleted or replaced: its header names the transaction that did so, and does not say
    that it was rolled back or only locked the row."""
    for at in range(24, lower, 4):
        pointer = int.from_bytes(page[at : at + 4], "little")
        offset, state = pointer & 0x7FFF, pointer >> 15 & 3
        deleted_by = int.from_bytes(page[offset + 4 : offset + 8], "little")
        hints = int.from_bytes(page[offset + 20 : offset + 22], "little")
        if state == 1 and deleted_by and not hints & (0x0800 | 0x0080):
            return True
    return False


def _await_snapshots(db: Connection, since: str) -> bool:
    """Wait a little for transactions that may still read the erased rows. A table that is rewritten keeps these rows for them."""
    until = time.monotonic() + SNAPSHOTS_S
    while _has_older_snapshots(db, since):
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE_S)
    return True


def _has_older_snapshots(db: Connection, since: str) -> bool:
    return db.execute(_OLDER.encode(), {"since": since}).fetchone() == (True,)


def _size(db: Connection, table: str) -> int:
    row = db.execute("SELECT pg_total_relation_size(CAST(%s AS regclass))", (table,)).fetchone()
    return int(row[0]) if row else 0


def _file_of(db: Connection, table: str) -> object:
    return db.execute("SELECT pg_relation_filenode(CAST(%s AS regclass))", (table,)).fetchone()


def _is_distributed(db: Connection) -> bool:
    return db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone() is not None
