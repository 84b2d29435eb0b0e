"""Transactions of a tenant: statements that are sent in batches, and the transaction that a group of writers shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from ...errors import NotFound, Unavailable
from ..filters import to_sql
from ..port import FILTER, TENANT_IS_BOUND, Row
from ..queries import Query
from .connect import Pool, commit, end_transaction, literal, require_whole
from .statements import (
    Connection,
    Halves,
    Result,
    Statement,
    compile_statement,
    run,
    run_all,
    run_text,
    to_little_endian,
)

if TYPE_CHECKING:
    from ...model.filter import Filter

AT_ONCE = 500
"""Largest number of statements to send before their results are read."""


class Batch:
    """Statements of one transaction. Those whose result is not needed are sent together with the next one whose result is."""

    __slots__ = ("_remembered", "_unsent", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._unsent: list[tuple[Statement, dict[str, Any]]] = []
        self._remembered: dict[str, dict[tuple[Any, ...], Row | None]] = {}

    def send(self, statement: Statement, given: dict[str, Any]) -> None:
        self._note(statement)
        self._unsent.append((statement, given))
        if len(self._unsent) >= AT_ONCE:
            self.flush()

    def run(self, statement: Statement, given: dict[str, Any]) -> Result:
        """Run a statement after everything before it, and return its result."""
        self._note(statement)
        if not self._unsent:
            return run(self.connection, statement, given)
        unsent, self._unsent = self._unsent, []
        return run_all(self.connection, [*unsent, (statement, given)])

    def first(self, statement: Statement, given: dict[str, Any], *, table: str | None = None) -> Row | None:
        """Run a statement and return its first row. With a table, the row is remembered until a statement writes to it."""
        if table is None:
            return next(iter(self.run(statement, given).rows(1)), None)
        remembered = self._remembered.setdefault(table, {})
        key = (statement.name, *(given[name] for name in statement.parameters))
        if key not in remembered:
            remembered[key] = self.first(statement, given)
        return remembered[key]

    def alone(self, statement: Statement, given: dict[str, Any], *, before: str = "") -> Result:
        """Run a statement that cannot be sent together with others, and return its result."""
        self.flush()
        if before:
            run_text(self.connection, before)
        return self.run(statement, given)

    def flush(self) -> None:
        """Send the statements that were not sent yet; raise if one fails."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            run_all(self.connection, unsent)

    def forget(self) -> None:
        """Forget everything after a rollback."""
        self._unsent.clear()
        self._remembered.clear()

    def _note(self, statement: Statement) -> None:
        for table in statement.writes:
            self._remembered.pop(table, None)


# -- transactions ----------------------------------------------------------------------------------------------------------


NEXT = "next_docid"
VECTORS_IN = frozenset({"add_vector", "nearest", "nearest_of"})
GRAPH = "nearest"
DIMENSIONS = "/*dimensions*/"
_SEARCH_ON = "SET LOCAL hnsw.iterative_scan = 'relaxed_order'; SET LOCAL hnsw.ef_search = 800"
"""A graph has the vectors of many collections: its search continues until there are enough from the right one."""
REMEMBERED = {"find_collection": "collection", "find_slot": "job"}
"""Queries that every writer runs, with their tables. The result is the same for the whole group until one writes there."""
VECTORS_OUT = frozenset({"vectors_of", "vectors_between"})


class PostgresTx:
    """A transaction inside one tenant. It binds the tenant itself."""

    __slots__ = ("_batch", "_halfvec", "_queries", "_session", "_tenant", "due_at")

    def __init__(
        self,
        batch: Batch,
        queries: dict[str, Query],
        tenant: str,
        halfvec: int,
        session: PostgresSession | None = None,
    ) -> None:
        self._batch = batch
        self._queries = queries
        self._tenant = tenant
        self._halfvec = halfvec
        self._session = session
        self.due_at: int | None = None

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        if condition is not None:  # conditions have many shapes, so a query with one is not prepared
            text, bound = to_sql(condition, "postgres")
            sql = self._queries[query].sql.replace(FILTER, f"AND {text}")
            return self._batch.alone(compile_statement("", sql), self._bind(query, {**parameters, **bound})).rows()
        if query == GRAPH:  # each number of dimensions has its own graph and statement
            dimensions = str(int(parameters["dimensions"]))
            sql = self._queries[query].sql.replace(DIMENSIONS, dimensions)
            statement = compile_statement(f"{GRAPH}_{dimensions}", sql)
            return self._batch.alone(statement, self._bind(query, parameters), before=_SEARCH_ON).rows()
        found = self._batch.run(*self._prepare(query, parameters)).rows()
        return [(row[0], to_little_endian(row[1])) for row in found] if query in VECTORS_OUT else found

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        return self._batch.first(
            *self._prepare(query, parameters), table=REMEMBERED.get(query) if self._session else None
        )

    def run(self, query: str, /, **parameters: Any) -> int:
        return self._batch.run(*self._prepare(query, parameters)).count

    def send(self, query: str, /, **parameters: Any) -> None:
        self._batch.send(*self._prepare(query, parameters))

    def number(self, query: str, /, **parameters: Any) -> int:
        if self._session is None:
            raise TypeError("only a writer gets numbers")
        parameters[NEXT] = given = self._session.number()
        self.send(query, **parameters)
        return given

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)

    def _prepare(self, query: str, parameters: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
        return compile_statement(query, self._queries[query].sql), self._bind(query, parameters)

    def _bind(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if "tenant" in parameters:
            raise TypeError(TENANT_IS_BOUND)
        parameters["tenant"] = self._tenant
        if query in VECTORS_IN:
            parameters["value"] = Halves(parameters["value"], parameters["dimensions"], self._halfvec)
        return parameters


class PostgresSession:
    """The transaction of one tenant's writers in this process. It locks the tenant's row, so it is the only one."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant
        self._quoted = literal(tenant)
        self._batch: Batch | None = None
        self._first_number = self._last_number = 0

    @property
    def batch(self) -> Batch:
        assert self._batch is not None  # noqa: S101 -- works are run within a transaction only
        return self._batch

    @property
    def is_open(self) -> bool:
        return self._batch is not None

    def number(self) -> int:
        """Return the next number of an entry."""
        self._last_number += 1
        return self._last_number

    def begin(self) -> None:
        connection = self._pool.take()
        self._batch = Batch(connection)
        try:
            lock = f"SELECT docid FROM writer WHERE tenant = {self._quoted} FOR UPDATE"  # noqa: S608 -- a quoted literal
            row = self._pool.enter(connection, "write", self._tenant, lock)
        except psycopg.Error:
            self.roll_back()
            raise
        if row is None:
            self.roll_back()
            raise NotFound("There is no such tenant.")
        self._first_number = self._last_number = int(row[0])

    def flush(self) -> None:
        """Send the statements that were not sent yet; raise if one has failed."""
        self.batch.flush()
        require_whole(self.batch.connection)

    def commit(self) -> None:
        moved = f"UPDATE writer SET docid = {self._last_number} WHERE tenant = {self._quoted}; "  # noqa: S608 -- a quoted literal
        commit(self.batch.connection, moved if self._last_number > self._first_number else "")
        self._release()  # not before: an interruption here must not look like a commit

    def roll_back(self) -> None:
        """Roll back and return the connection. If it is broken, the server has rolled back."""
        try:
            with suppress(psycopg.Error):
                end_transaction(self.batch.connection, "ROLLBACK")
        finally:
            self._release()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo one work if it fails. If the connection is lost, the whole transaction is undone."""
        connection = self.batch.connection
        try:
            run_text(connection, "SAVEPOINT one")
            try:
                yield
                run_text(connection, "RELEASE SAVEPOINT one")
            except Exception:
                self.batch.forget()
                run_text(connection, "ROLLBACK TO SAVEPOINT one")
                raise
        except Exception:
            if connection.closed:
                self._release()
            raise

    def interruption_error(self) -> Exception:
        return Unavailable(
            "The writer that led this commit was interrupted, so it is not known whether this was stored: repeat it with the "
            "same Idempotency-Key."
        )

    def _release(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._pool.give_back(batch.connection)
