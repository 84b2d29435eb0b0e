"""Connections to PostgreSQL, the beginning and end of transactions, and errors.

A transaction begins as a role that owns nothing and names its tenant, so that row-level security shows it only that
tenant's rows. All of that is one round trip. Nothing outlives the transaction, so any pooler may be used in between.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Semaphore
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from ...errors import Corrupted, Invalid, MemwellError, StorageError, StorageFull, Unavailable, Unsupported
from .statements import Connection, run_text

SCHEMA = "memwell"
ROLE = "memwell_app"
CONNECT_S = 10
WAIT_S = 10.0
IDLE_S = 600.0
OPTIONS = "-c lock_timeout=10s -c idle_in_transaction_session_timeout=60s -c jit=off -c enable_seqscan=off"
"""Options of a connection. They limit how long a writer waits for a tenant, and how long a stopped process blocks one."""
UNANSWERED_MS = 30_000
"""Time after which a server that does not respond counts as lost; by default the system waits a quarter of an hour."""

Mode = Literal["read", "write"]

_BEGIN = {"read": "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "write": "BEGIN"}
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
"""SQLSTATEs of a server that shuts down, has crashed, is starting up, or has closed an idle session or transaction."""
_IN_EACH_OTHERS_WAY = frozenset({"40001", "40P01"})

_ADDRESS = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_SLASH_IN_PASSWORD = re.compile(r"\w+://[^@/]*/[^?]*@")
_BAD_USER = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry"
    r'|role ".*" (does not exist|is not permitted to log in)|permission denied for database'
)
_BAD_DATABASE = re.compile(r'database ".*" does not exist')
_BAD_SETTING = re.compile(r"invalid [\w ]+ value|invalid (port|integer)|configuration parameter|value for|argument for")


class Place(NamedTuple):
    """The address, search path and role for using the tables."""

    dsn: str
    path: str
    role: str | None = None


# -- addresses -----------------------------------------------------------------------------------------------------------


def without_password(dsn: str) -> str:
    """Return an address without its password, for messages."""
    given = _parse_dsn(dsn)
    hosts = given.get("host") or given.get("hostaddr") or "localhost"
    user = f"{given['user']}@" if "user" in given else ""
    port = f":{given['port']}" if "port" in given else ""
    return f"postgresql://{user}{hosts}{port}/{given.get('dbname', '')}"


def connection_settings(dsn: str) -> dict[str, Any]:
    """Return the settings of connections. Settings in the address take precedence."""
    given = _parse_dsn(dsn)
    usual: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "application_name": "memwell",
        "options": OPTIONS,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": UNANSWERED_MS,
    }
    if given.get("options"):
        given["options"] = f"{OPTIONS} {given['options']}"  # the last setting wins
    return {**usual, **given}


def _parse_dsn(dsn: str) -> dict[str, Any]:
    """Parse an address. In an invalid one the password may be anywhere, so errors never repeat it."""
    try:
        given = conninfo_to_dict(dsn)
    except UnicodeError:
        raise Invalid(f"The address of PostgreSQL is not valid Unicode: it is {_ADDRESS}.") from None
    except psycopg.ProgrammingError as error:
        reason = re.sub(r'".*"', "…", _line(error))
        raise Invalid(f"This is not an address of PostgreSQL, which is {_ADDRESS}: {reason}.") from None
    ports = str(given.get("port", "")).split(",")
    if _SLASH_IN_PASSWORD.match(dsn) or not all(port.isdecimal() for port in ports if port):
        raise Invalid(
            f"This is not an address of PostgreSQL, which is {_ADDRESS}: the port is not a number. A slash in a password is "
            "written %2F."
        )
    return given


# -- connections ---------------------------------------------------------------------------------------------------------


def open_connection(dsn: str, **more: Any) -> Connection:
    try:
        # after a rollback psycopg would deallocate all prepared statements, also those that it did not prepare itself
        return psycopg.connect(**{**connection_settings(dsn), **more}, autocommit=True, prepare_threshold=None)
    except UnicodeError:
        raise Invalid(f"The name of the host is not valid: {without_password(dsn)}.") from None


@contextmanager
def use_connection(dsn: str, **more: Any) -> Iterator[Connection]:
    """Open a connection outside the pool, for setting up and for listening."""
    with translate_errors(dsn):
        connection = open_connection(dsn, **more)
    try:
        yield connection
    finally:
        connection.close()


class Pool:
    """The connections of this process to one database.

    If none is idle, the caller opens one itself, so it sees the reason of a failure at once, and the first call after an outage
    succeeds. Connections that the server has closed are not used again.
    """

    def __init__(self, place: Place, size: int) -> None:
        if size < 1:
            raise Invalid(f"{size} connections to PostgreSQL are too few: MEMWELL_CONNECTIONS is at least 1.")
        self.place = place
        self._size = size
        self._room = Semaphore(size)
        self._idle: deque[tuple[float, Connection]] = deque()
        self._lock = Lock()
        self._closed = False

    def take(self, wait_s: float | None = None) -> Connection:
        wait_s = WAIT_S if wait_s is None else wait_s
        if not self._room.acquire(timeout=wait_s):
            raise Unavailable(
                f"All {self._size} connections to PostgreSQL were in use for {wait_s:g} s: try again, or allow more of them "
                "with MEMWELL_CONNECTIONS."
            )
        try:
            return self._idle_one() or open_connection(self.place.dsn)
        except BaseException:
            self._room.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Return a connection to the pool. It is closed if it is broken or has an open transaction."""
        now = time.monotonic()
        usable = connection.pgconn.transaction_status == TransactionStatus.IDLE
        try:
            with self._lock:
                if usable and not self._closed:
                    self._idle.append((now, connection))
                leaving = [] if usable and not self._closed else [connection]
                while self._idle and now - self._idle[0][0] > IDLE_S:
                    leaving.append(self._idle.popleft()[1])
            for one in leaving:
                one.close()
        finally:
            self._room.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            leaving = [connection for _, connection in self._idle]
            self._idle.clear()
        for one in leaving:
            one.close()

    def _idle_one(self) -> Connection | None:
        """Return the connection that was used last, so that the others become idle long enough to be closed."""
        while True:
            with self._lock:
                if self._closed:
                    raise StorageError("The store is closed: open it again.")
                if not self._idle:
                    return None
                connection = self._idle.pop()[1]
            if _is_open(connection):
                return connection
            connection.close()

    def enter(self, connection: Connection, mode: Mode, tenant: str | None, then: str = "") -> tuple[Any, ...] | None:
        """Begin a transaction within a tenant, or above all of them, and run one more statement. Return its first row."""
        scope = "memwell.system = 'on'" if tenant is None else f"memwell.tenant = {literal(tenant)}"
        role = f"SET LOCAL ROLE {self.place.role}; " if self.place.role else ""
        begin = f"{_BEGIN[mode]}; {role}SET LOCAL search_path = {self.place.path}; SET LOCAL {scope}; "
        found = run_text(connection, begin + then)
        return tuple(found.get_value(0, column) for column in range(found.nfields)) if then and found.ntuples else None


def _is_open(connection: Connection) -> bool:
    """Return True unless the server is known to have closed the connection. It costs no round trip."""
    try:
        for _ in range(2):  # the server's last message comes before the end of the stream
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return True


def literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


# -- the end of a transaction --------------------------------------------------------------------------------------------


def require_whole(connection: Connection) -> None:
    """Raise if a statement of the transaction has failed and the error was ignored."""
    if connection.pgconn.transaction_status == TransactionStatus.INERROR:
        raise StorageError(
            "A statement failed and its error was ignored, so PostgreSQL does not commit this transaction."
        )


def commit(connection: Connection, last: str = "") -> None:
    """Run a last statement and commit. If the connection is lost during the commit, its outcome is unknown."""
    try:
        end_transaction(connection, "COMMIT", last)
    except psycopg.Error as error:
        if not connection.closed:
            raise
        raise Unavailable(
            "The connection was lost during the commit, so it is not known whether this was stored: repeat it with the "
            "same Idempotency-Key, or read it back."
        ) from error


def end_transaction(connection: Connection, word: Literal["COMMIT", "ROLLBACK"], last: str = "") -> None:
    """End a transaction. Without the check, a commit after an ignored error would be a silent rollback."""
    if run_text(connection, last + word).command_status != word.encode():
        raise StorageError("PostgreSQL has rolled this transaction back: nothing was stored.")


# -- errors --------------------------------------------------------------------------------------------------------------


def is_lost(error: psycopg.Error) -> bool:
    """Return True if a transaction left nothing behind and may succeed at the next attempt."""
    state = error.sqlstate
    if state is not None:
        return state in _LOST or state in _IN_EACH_OTHERS_WAY or state.startswith("08")
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and _refusal(error, "") is None


@contextmanager
def translate_errors(dsn: str | None = None) -> Iterator[None]:
    """Convert PostgreSQL's errors."""
    try:
        yield
    except psycopg.Error as error:
        raise to_error(error, dsn) from error


def to_error(error: psycopg.Error, dsn: str | None = None) -> MemwellError:
    """Convert an error of PostgreSQL. Its message names the address only if `dsn` is given, when the database is opened."""
    where = f" at {without_password(dsn)}" if dsn else ""
    match error:
        case pg.DiskFull():
            return StorageFull("The disk of PostgreSQL is full: free some space. Nothing was lost.")
        case pg.ReadOnlySqlTransaction():
            return StorageFull(f"PostgreSQL{where} is read-only: it is a standby, or configured so. Reads still work.")
        case pg.InsufficientPrivilege():
            return StorageError(
                f"PostgreSQL{where} does not allow it: {_line(error)}. Ask its administrator for the permission."
            )
        case pg.UndefinedTable() | pg.UndefinedFunction() | pg.UndefinedColumn():
            return Unsupported(f"The tables{where} do not match this version: run `memwell migrate`.")
        case pg.UndefinedObject() | pg.InvalidParameterValue() if ROLE in str(error):
            return StorageError(f"PostgreSQL{where} has no role {ROLE}: restore it together with the database.")
        case pg.DataCorrupted() | pg.IndexCorrupted():
            return Corrupted(f"PostgreSQL{where} reports damage: {_line(error)}. Restore it from a backup.")
        case pg.LockNotAvailable():
            return Unavailable("Another process has locked this tenant: try again in a moment.")
        case pg.QueryCanceled() | pg.TooManyConnections() | pg.OutOfMemory():
            return Unavailable(f"PostgreSQL is too busy: {_line(error)}. Try again in a moment.")
    if error.sqlstate in _IN_EACH_OTHERS_WAY:
        return Unavailable("Another transaction has changed the same rows: try again in a moment.")
    if is_lost(error):
        return Unavailable(f"PostgreSQL cannot be reached{where}: {_reason(error)}. The next request tries again.")
    return _refusal(error, where) or StorageError(f"PostgreSQL reported an error: {_line(error)}.")


def _refusal(error: psycopg.Error, where: str) -> MemwellError | None:
    """Return the error of a refused connection, if another attempt would not help. Only its text has the reason."""
    text = str(error)
    if error.sqlstate is not None:
        return None
    if _BAD_USER.search(text):
        return StorageError(f"PostgreSQL refused the user or the password{where}: correct the address.")
    if _BAD_DATABASE.search(text):
        return StorageError(f"The database{where} does not exist: create it with `createdb`.")
    if _BAD_SETTING.search(text):
        return Invalid(f"The address of PostgreSQL{where} is not valid: {_reason(error)}.")
    return None


def _reason(error: BaseException) -> str:
    """Return the reason of an error, without the repeated address."""
    line = re.sub(r"^connection (failed|is bad): (connection to server .* failed: )?", "", _line(error))
    return re.sub(r"^failed to resolve host '.*': ", "", line)


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
