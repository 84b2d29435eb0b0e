"""A connection within one transaction: what was not sent yet, and what was read and still holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from ...errors import NotFound, Unavailable
from ...model.filter import Filter
from ..port import Row
from ..queries import Query
from .connect import Pool, commit, end_transaction, literal, require_whole
from .filters import to_postgres
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

AT_ONCE = 500
"""How many statements are sent before somebody looks at their results."""


class Batch:
    """Whatever nobody waits for is sent together with what somebody does wait for, in the order in which it was said."""

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
        """What a statement gives, after everything before it was done."""
        self._note(statement)
        if not self._unsent:
            return run(self.connection, statement, given)
        unsent, self._unsent = self._unsent, []
        return run_all(self.connection, [*unsent, (statement, given)])

    def first(self, statement: Statement, given: dict[str, Any], *, table: str | None = None) -> Row | None:
        """The first row of what a statement gives. With a table, it is remembered until something is written there."""
        if table is None:
            return next(iter(self.run(statement, given).rows(1)), None)
        remembered = self._remembered.setdefault(table, {})
        key = (statement.name, *(given[name] for name in statement.parameters))
        if key not in remembered:
            remembered[key] = self.first(statement, given)
        return remembered[key]

    def alone(self, statement: Statement, given: dict[str, Any], *, before: str = "") -> Result:
        """What a statement gives that cannot be sent together with others."""
        self.flush()
        if before:
            run_text(self.connection, before)
        return self.run(statement, given)

    def flush(self) -> None:
        """Send what was not sent yet, and see to it that it worked."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            run_all(self.connection, unsent)

    def forget(self) -> None:
        """What was said is undone."""
        self._unsent.clear()
        self._remembered.clear()

    def _note(self, statement: Statement) -> None:
        for table in statement.writes:
            self._remembered.pop(table, None)


# -- A transaction on PostgreSQL, and the one that a group of writers shares.


FILTER = "/*filter*/"
NEXT = "next_docid"
VECTORS_IN = frozenset({"add_vector", "nearest", "nearest_of"})
GRAPH = "nearest"
DIMENSIONS = "/*dimensions*/"
_SEARCH_ON = "SET LOCAL hnsw.iterative_scan = 'relaxed_order'; SET LOCAL hnsw.ef_search = 800"
"""A graph holds the vectors of many collections: it is searched on until there are enough of the one that is asked for."""
REMEMBERED = {"find_collection": "collection", "find_slot": "job"}
"""What every writer asks, and from which table: it holds for the whole group until one of them writes there."""
VECTORS_OUT = frozenset({"vectors_of", "vectors_between"})
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


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
        if condition is not None:
            return self._run_filtered(query, condition, parameters)
        if query == GRAPH:
            return self._nearest(parameters)
        found = self._batch.run(*self._prepare(query, parameters)).rows()
        return [(row[0], to_little_endian(row[1])) for row in found] if query in VECTORS_OUT else found

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        return self._batch.first(
            *self._prepare(query, parameters), table=REMEMBERED.get(query) if self._session else None
        )

    def run(self, query: str, /, **parameters: Any) -> int:
        return self._batch.run(*self._prepare(query, parameters)).count

    def send(self, query: str, /, **parameters: Any) -> None:
        """Nobody waits for what this does, so it is sent together with what comes next."""
        self._batch.send(*self._prepare(query, parameters))

    def number(self, query: str, /, **parameters: Any) -> int:
        if self._session is None:
            raise TypeError("a number is given to a writer only")
        parameters[NEXT] = given = self._session.number()
        self.send(query, **parameters)
        return given

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)

    def _run_filtered(self, query: str, condition: Filter, parameters: dict[str, Any]) -> list[Row]:
        """A query with a condition is as long as that is, so it is not prepared."""
        text, bound = to_postgres(condition)
        sql = self._queries[query].sql.replace(FILTER, "AND " + _PLACEHOLDER.sub(r":\1", text))
        return self._batch.alone(compile_statement("", sql), self._bind(query, {**parameters, **bound})).rows()

    def _nearest(self, parameters: dict[str, Any]) -> list[Row]:
        """A graph is for one number of dimensions, and has a statement of its own."""
        dimensions = str(int(parameters["dimensions"]))
        sql = self._queries[GRAPH].sql.replace(DIMENSIONS, dimensions)
        stated = compile_statement(f"{GRAPH}_{dimensions}", sql), self._bind(GRAPH, parameters)
        return self._batch.alone(*stated, before=_SEARCH_ON).rows()

    def _prepare(self, query: str, parameters: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
        return compile_statement(query, self._queries[query].sql), self._bind(query, parameters)

    def _bind(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if "tenant" in parameters:
            raise TypeError("the tenant is bound by the transaction, not by its caller")
        parameters["tenant"] = self._tenant
        if query in VECTORS_IN:
            parameters["value"] = Halves(parameters["value"], parameters["dimensions"], self._halfvec)
        return parameters


class PostgresSession:
    """The transaction of one tenant's writers in this process. It holds the tenant's row, so it is the only one."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant
        self._batch: Batch | None = None
        self._read = self._given = 0

    @property
    def batch(self) -> Batch:
        assert self._batch is not None  # noqa: S101 -- works are run within a transaction only
        return self._batch

    @property
    def is_open(self) -> bool:
        return self._batch is not None

    def number(self) -> int:
        """The next number of an entry."""
        self._given += 1
        return self._given

    def begin(self) -> None:
        connection = self._pool.take()
        self._batch = Batch(connection)
        try:
            held = f"SELECT docid FROM writer WHERE tenant = {self._tenant_literal} FOR UPDATE"  # noqa: S608 -- a quoted literal
            row = self._pool.enter(connection, "write", self._tenant, held)
        except psycopg.Error:
            self.roll_back()
            raise
        if row is None:
            self.roll_back()
            raise NotFound("There is no such tenant.")
        self._read = self._given = int(row[0])

    def flush(self) -> None:
        """Send what the works left unsent, and see to it that it worked."""
        self.batch.flush()
        require_whole(self.batch.connection)

    def commit(self) -> None:
        moved = f"UPDATE writer SET docid = {self._given} WHERE tenant = {self._tenant_literal}; "  # noqa: S608 -- a quoted literal
        commit(self.batch.connection, moved if self._given > self._read else "")
        self._release()  # not before: whoever is interrupted here must not be told that it was kept

    def roll_back(self) -> None:
        """Give up, and give the connection back. Where it is broken, the server has given up as well."""
        try:
            with suppress(psycopg.Error):
                end_transaction(self.batch.connection, "ROLLBACK")
        finally:
            self._release()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """If the connection is lost, nothing of the whole transaction is left, and it is over."""
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
            "The writer that led this commit was interrupted, so it is not known whether this was kept: repeat it with the "
            "same Idempotency-Key."
        )

    @property
    def _tenant_literal(self) -> str:
        return literal(self._tenant)

    def _release(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._pool.give_back(batch.connection)
