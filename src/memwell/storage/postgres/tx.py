"""A transaction on PostgreSQL, and the one that a group of writers shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from ...errors import NotFound, Unavailable
from ...model.filter import Filter
from ..filters_postgres import to_postgres
from ..port import Row
from ..queries import Query
from .connect import Connection, Pool, leave, literal
from .halfvec import Halves, turned

FILTER = "/*filter*/"
NEXT = "next_docid"
AT_ONCE = 500
"""How many statements are sent before somebody looks at their results."""
VECTORS_IN = frozenset({"add_vector", "nearest", "nearest_of"})
GRAPH = "nearest"
DIMENSIONS = "/*dimensions*/"
_SEARCH_ON = "SET LOCAL hnsw.iterative_scan = 'relaxed_order'; SET LOCAL hnsw.ef_search = 200"
"""A graph holds the vectors of many collections: it is searched on until there are enough of the one that is asked for."""
VECTORS_OUT = frozenset({"vectors_of", "vectors_between"})


class PostgresTx:
    """A transaction inside one tenant. It binds the tenant itself."""

    __slots__ = ("_connection", "_cursor", "_queries", "_session", "_tenant", "_unsent", "due_at")

    def __init__(
        self, connection: Connection, queries: dict[str, Query], tenant: str, session: PostgresSession | None = None
    ) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._unsent: list[tuple[str, dict[str, Any]]] = []
        self._queries = queries
        self._tenant = tenant
        self._session = session
        self.due_at: int | None = None

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        sql = self._queries[query].sql
        if condition is not None:
            text, bound = to_postgres(condition)
            sql = sql.replace(FILTER, f"AND {text}")
            parameters.update(bound)
        if query == GRAPH:
            sql = sql.replace(DIMENSIONS, str(int(parameters["dimensions"])))
            self._connection.execute(_SEARCH_ON)
        found = self._run(query, sql, parameters).fetchall()
        return [(row[0], turned(row[1])) for row in found] if query in VECTORS_OUT else found

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        return self._run(query, self._queries[query].sql, parameters).fetchone()

    def run(self, query: str, /, **parameters: Any) -> int:
        return self._run(query, self._queries[query].sql, parameters).rowcount

    def send(self, query: str, /, **parameters: Any) -> None:
        """Nobody waits for what this does, so it is sent together with what comes next."""
        self._unsent.append((self._queries[query].sql, self._bound(query, parameters)))
        if len(self._unsent) >= AT_ONCE:
            self.flush()

    def number(self, query: str, /, **parameters: Any) -> int:
        if self._session is None:
            raise TypeError("a number is given to a writer only")
        parameters[NEXT] = given = self._session.number()
        self.send(query, **parameters)
        return given

    def flush(self) -> None:
        """Send what was not sent yet, and see to it that it worked."""
        if self._unsent:
            with self._connection.pipeline():
                self._send_all()

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)

    def _run(self, query: str, sql: str, parameters: dict[str, Any]) -> psycopg.Cursor[Row]:
        bound = self._bound(query, parameters)
        if not self._unsent:
            return self._cursor.execute(sql, bound)
        with self._connection.pipeline():
            self._send_all()
            return self._cursor.execute(sql, bound)

    def _send_all(self) -> None:
        unsent, self._unsent = self._unsent, []
        for sql, parameters in unsent:
            self._connection.execute(sql, parameters)

    def _bound(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if "tenant" in parameters:
            raise TypeError("the tenant is bound by the transaction, not by its caller")
        parameters["tenant"] = self._tenant
        if query in VECTORS_IN:
            parameters["value"] = Halves(parameters["value"], parameters["dimensions"])
        return parameters


class PostgresSession:
    """The transaction of one tenant's writers in this process. It holds the tenant's row, so it is the only one."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant
        self._connection: Connection | None = None
        self._read = self._given = 0

    @property
    def connection(self) -> Connection:
        assert self._connection is not None  # noqa: S101 -- works are run within a transaction only
        return self._connection

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def number(self) -> int:
        """The next number of an entry."""
        self._given += 1
        return self._given

    def begin(self) -> None:
        connection = self._connection = self._pool.take()
        try:
            held = f"SELECT docid FROM writer WHERE tenant = {self._quoted} FOR UPDATE"  # noqa: S608 -- a quoted literal
            row = self._pool.enter(connection, "write", self._tenant, held)
        except psycopg.Error:
            self._let_go()
            raise
        if row is None:
            self.roll_back()
            raise NotFound("There is no such tenant.")
        self._read = self._given = int(row[0])

    def commit(self) -> None:
        if self._given > self._read:
            self.connection.execute(
                f"UPDATE writer SET docid = {self._given} WHERE tenant = {self._quoted}"  # noqa: S608
            )
        try:
            leave(self.connection, "COMMIT")
        except psycopg.OperationalError as error:
            raise Unavailable(
                "The connection was lost during the commit, so it is not known whether this was kept: repeat it with the "
                "same Idempotency-Key."
            ) from error
        finally:
            self._let_go()

    def roll_back(self) -> None:
        try:
            if not self.connection.broken:
                leave(self.connection, "ROLLBACK")
        except psycopg.Error:
            self.connection.close()
        finally:
            self._let_go()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        connection = self.connection
        connection.execute("SAVEPOINT one")
        try:
            yield
        except Exception:
            if connection.broken:
                self._let_go()
            else:
                connection.execute("ROLLBACK TO SAVEPOINT one")
            raise
        connection.execute("RELEASE SAVEPOINT one")

    def interrupted(self) -> Exception:
        return Unavailable("The writer that led this commit was interrupted: try again.")

    @property
    def _quoted(self) -> str:
        return literal(self._tenant)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)
