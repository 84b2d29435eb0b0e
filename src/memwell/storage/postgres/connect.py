"""Connections to PostgreSQL, how a transaction is entered, and telling what went wrong.

A transaction begins as a role that owns nothing and names its tenant, so that row-level security shows it that tenant's
rows and no others. All of that is one round trip. Nothing outlives the transaction: any pooler may stand in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper
from psycopg_pool import ConnectionPool, PoolTimeout

from ...errors import Corrupted, Invalid, MemwellError, StorageError, StorageFull, Unavailable, Unsupported

SCHEMA = "memwell"
ROLE = "memwell_app"
CONNECT_S = 10
WAIT_S = 10.0
OPTIONS = "-c lock_timeout=10s -c idle_in_transaction_session_timeout=60s -c jit=off"
"""Nobody waits for a tenant for ever, and a process that was stopped does not hold one for ever."""

Connection = psycopg.Connection[tuple[Any, ...]]
Mode = Literal["read", "write"]

_BEGIN = {"read": "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "write": "BEGIN"}
_LOST = (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow, pg.IdleInTransactionSessionTimeout)
_TRY_AGAIN = (pg.SerializationFailure, pg.DeadlockDetected)


class Place(NamedTuple):
    """Where the tables are, and as whom they are used."""

    dsn: str
    path: str
    role: str | None = None


class Adapters:
    """How Python's values travel. Whole numbers always have 64 bits, so that a statement is prepared once."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_dumper(int, Int8BinaryDumper)


def without_password(dsn: str) -> str:
    """An address that may be shown."""
    parts = urlsplit(dsn)
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.split(':')[0]}{at}{host}", query=""))


def settings(dsn: str) -> dict[str, Any]:
    """How to connect. What the address says wins."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise Invalid(f"{without_password(dsn)} is not an address of PostgreSQL: {_line(error)}.") from None
    usual: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "application_name": "memwell",
        "options": OPTIONS,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    return {**usual, **given}


@contextmanager
def connected(dsn: str, **more: Any) -> Iterator[Connection]:
    """A connection of one's own, for setting up and for listening."""
    with told(dsn):
        connection: Connection = psycopg.connect(**{**settings(dsn), **more}, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


class Pool:
    """The connections of this process to one database."""

    def __init__(self, place: Place, size: int, adapters: Adapters) -> None:
        self.place = place
        self._size = size
        kwargs = {**settings(place.dsn), "autocommit": True, "context": adapters}
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            kwargs=kwargs, min_size=0, max_size=size, timeout=WAIT_S, open=True, name="memwell", num_workers=2
        )

    def take(self) -> Connection:
        try:
            return self._pool.getconn()
        except PoolTimeout:
            pass
        raise Unavailable(
            f"PostgreSQL gave no connection within {WAIT_S:g} s: it cannot be reached, or all {self._size} are in use."
        )

    def give_back(self, connection: Connection) -> None:
        self._pool.putconn(connection)

    def mend(self) -> None:
        """Replace the connections that a restart of the server has broken."""
        self._pool.check()

    def close(self) -> None:
        self._pool.close()

    def enter(self, connection: Connection, mode: Mode, tenant: str | None, then: str = "") -> tuple[Any, ...] | None:
        """Begin a transaction within a tenant, or above all of them, and run one more statement; returns its first row."""
        cursor = connection.execute(self._entry(mode, tenant) + then)
        while cursor.nextset():
            pass
        return cursor.fetchone() if then else None

    def _entry(self, mode: Mode, tenant: str | None) -> str:
        whose = "memwell.system = 'on'" if tenant is None else f"memwell.tenant = {literal(tenant)}"
        role = f"SET LOCAL ROLE {self.place.role}; " if self.place.role else ""
        return f"{_BEGIN[mode]}; {role}SET LOCAL search_path = {self.place.path}; SET LOCAL {whose}; "


def literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


def leave(connection: Connection, word: Literal["COMMIT", "ROLLBACK"]) -> None:
    """End a transaction. A commit after an error that somebody swallowed would be a silent rollback."""
    if connection.execute(word).statusmessage != word:
        raise StorageError("PostgreSQL had given up on this transaction: nothing of it was kept.")


def is_lost(error: BaseException) -> bool:
    """Whether a transaction failed for a reason that the next attempt may not meet, and certainly left nothing behind."""
    if isinstance(error, _LOST + _TRY_AGAIN):
        return True
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


@contextmanager
def told(dsn: str) -> Iterator[None]:
    """Turn PostgreSQL's errors into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, dsn) from error


def translated(error: psycopg.Error, dsn: str) -> MemwellError:
    where = without_password(dsn)
    match error:
        case pg.DiskFull():
            return StorageFull("The disk of PostgreSQL is full: free some space. Nothing was lost.")
        case pg.ReadOnlySqlTransaction():
            return StorageFull(f"{where} can only be read: it is a standby, or set to read only. Reading goes on.")
        case pg.InsufficientPrivilege():
            return StorageError(f"PostgreSQL does not allow it at {where}: {_line(error)}.")
        case pg.UndefinedTable() | pg.UndefinedFunction() | pg.UndefinedColumn():
            return Unsupported(f"The tables at {where} are not those of this version: run `memwell migrate`.")
        case pg.DataCorrupted() | pg.IndexCorrupted():
            return Corrupted(f"PostgreSQL reports damage at {where}: {_line(error)}. Restore it from a backup.")
        case pg.LockNotAvailable():
            return Unavailable("Another process holds this tenant: try again in a moment.")
        case pg.QueryCanceled() | pg.TooManyConnections() | pg.OutOfMemory():
            return Unavailable(f"PostgreSQL is too busy: {_line(error)}. Try again in a moment.")
    if is_lost(error):
        return _unreachable(error, where)
    return StorageError(f"PostgreSQL could not do it: {_line(error)}.")


def _unreachable(error: psycopg.Error, where: str) -> MemwellError:
    text = str(error)
    if "password" in text or "authentication" in text or "role" in text:
        return StorageError(f"PostgreSQL refused the user or the password at {where}: correct the address.")
    if "database" in text and "does not exist" in text:
        return StorageError(f"There is no such database at {where}: make it with `createdb`.")
    return Unavailable(
        f"PostgreSQL cannot be reached at {where}: {_line(error)}. It is tried again with the next request."
    )


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
