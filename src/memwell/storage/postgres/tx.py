"""A transaction on PostgreSQL, and the one that a group of writers shares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from ...errors import NotFound, Unavailable
from ...model.filter import Filter
from ..filters_postgres import to_postgres
from ..port import Row
from ..queries import Query
from .connect import Pool, commit, leave, literal
from .halfvec import Halves, turned
from .statements import Connection, Result, Statement, compiled, run, run_all, say

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
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


class PostgresTx:
    """A transaction inside one tenant. It binds the tenant itself."""

    __slots__ = ("_connection", "_halfvec", "_queries", "_session", "_tenant", "_unsent", "due_at")

    def __init__(
        self,
        connection: Connection,
        queries: dict[str, Query],
        tenant: str,
        halfvec: int,
        session: PostgresSession | None = None,
    ) -> None:
        self._connection = connection
        self._unsent: list[tuple[Statement, dict[str, Any]]] = []
        self._queries = queries
        self._tenant = tenant
        self._halfvec = halfvec
        self._session = session
        self.due_at: int | None = None

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        if condition is not None:
            return self._filtered(query, condition, parameters)
        if query == GRAPH:
            return self._nearest(parameters)
        found = self._run(query, parameters).rows()
        return [(row[0], turned(row[1])) for row in found] if query in VECTORS_OUT else found

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        found = self._run(query, parameters).rows(1)
        return found[0] if found else None

    def run(self, query: str, /, **parameters: Any) -> int:
        return self._run(query, parameters).count

    def send(self, query: str, /, **parameters: Any) -> None:
        """Nobody waits for what this does, so it is sent together with what comes next."""
        self._unsent.append((compiled(query, self._queries[query].sql), self._bound(query, parameters)))
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
            unsent, self._unsent = self._unsent, []
            run_all(self._connection, unsent)

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)

    def _run(self, query: str, parameters: dict[str, Any]) -> Result:
        statement, bound = compiled(query, self._queries[query].sql), self._bound(query, parameters)
        if not self._unsent:
            return run(self._connection, statement, bound)
        unsent, self._unsent = self._unsent, []
        return run_all(self._connection, [*unsent, (statement, bound)])

    def _filtered(self, query: str, condition: Filter, parameters: dict[str, Any]) -> list[Row]:
        """A query with a condition is as long as that is, so it is not prepared."""
        self.flush()
        text, bound = to_postgres(condition)
        sql = self._queries[query].sql.replace(FILTER, "AND " + _PLACEHOLDER.sub(r":\1", text))
        return run(self._connection, compiled("", sql), self._bound(query, {**parameters, **bound})).rows()

    def _nearest(self, parameters: dict[str, Any]) -> list[Row]:
        """A graph is for one number of dimensions, and has a statement of its own."""
        self.flush()
        say(self._connection, _SEARCH_ON)
        dimensions = str(int(parameters["dimensions"]))
        sql = self._queries[GRAPH].sql.replace(DIMENSIONS, dimensions)
        return run(self._connection, compiled(f"{GRAPH}_{dimensions}", sql), self._bound(GRAPH, parameters)).rows()

    def _bound(self, query: str, parameters: dict[str, Any]) -> dict[str, Any]:
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
            self.roll_back()
            raise
        if row is None:
            self.roll_back()
            raise NotFound("There is no such tenant.")
        self._read = self._given = int(row[0])

    def commit(self) -> None:
        if self._given > self._read:
            say(self.connection, f"UPDATE writer SET docid = {self._given} WHERE tenant = {self._quoted}")  # noqa: S608
        commit(self.connection)
        self._let_go()  # not before: whoever is interrupted here must not be told that it was kept

    def roll_back(self) -> None:
        """Give up, and give the connection back. Where it is broken, the server has given up as well."""
        try:
            with suppress(psycopg.Error):
                leave(self.connection, "ROLLBACK")
        finally:
            self._let_go()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """If the connection is lost, nothing of the whole transaction is left, and it is over."""
        connection = self.connection
        try:
            say(connection, "SAVEPOINT one")
            try:
                yield
                say(connection, "RELEASE SAVEPOINT one")
            except Exception:
                say(connection, "ROLLBACK TO SAVEPOINT one")
                raise
        except Exception:
            if connection.closed:
                self._let_go()
            raise

    def interrupted(self) -> Exception:
        return Unavailable(
            "The writer that led this commit was interrupted, so it is not known whether this was kept: repeat it with the "
            "same Idempotency-Key."
        )

    @property
    def _quoted(self) -> str:
        return literal(self._tenant)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)
