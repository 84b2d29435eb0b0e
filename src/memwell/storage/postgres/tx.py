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
VECTORS_IN = "add_vector"
VECTORS_OUT = frozenset({"vectors_of", "vectors_between"})


class PostgresTx:
    """A transaction inside one tenant. It binds the tenant itself."""

    __slots__ = ("_cursor", "_queries", "_session", "_tenant", "due_at")

    def __init__(
        self, connection: Connection, queries: dict[str, Query], tenant: str, session: PostgresSession | None = None
    ) -> None:
        self._cursor = connection.cursor(binary=True)
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
        found = self._run(query, sql, parameters).fetchall()
        return [(row[0], turned(row[1])) for row in found] if query in VECTORS_OUT else found

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        return self._run(query, self._queries[query].sql, parameters).fetchone()

    def run(self, query: str, /, **parameters: Any) -> int:
        return self._run(query, self._queries[query].sql, parameters).rowcount

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)

    def _run(self, query: str, sql: str, parameters: dict[str, Any]) -> psycopg.Cursor[Row]:
        if "tenant" in parameters:
            raise TypeError("the tenant is bound by the transaction, not by its caller")
        parameters["tenant"] = self._tenant
        if query == VECTORS_IN:
            parameters["value"] = Halves(parameters["value"], parameters["dimensions"])
        if NEXT in self._queries[query].parameters:
            if self._session is None:
                raise TypeError("a number is given to a writer only")
            parameters[NEXT] = self._session.number()
        return self._cursor.execute(sql, parameters)


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
