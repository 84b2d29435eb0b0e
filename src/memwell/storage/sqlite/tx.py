"""Transactions on one tenant's file: named queries, with the tenant bound by the transaction itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import apsw
import msgspec

from ...model.filter import Filter
from ..port import Row
from ..queries import Query
from . import filters

FILTER = "/*filter*/"
LISTED = "FROM json_each(:addresses)"
ALONE = (("IN (SELECT value " + LISTED + ")", "= :addresses"), (LISTED, "FROM (SELECT 0 AS key, :addresses AS value)"))
"""Where a statement takes a list of addresses apart, and what stands there if it has one."""
OURS = "the tenant is bound by the transaction, not by its caller"


class Another(Exception):
    """A read that was to be one statement takes another one."""


class Spent:
    """Stands for a cursor once the one statement was run: that was a snapshot by itself, and another needs a transaction."""

    def execute(self, sql: str, parameters: dict[str, Any]) -> apsw.Cursor:
        raise Another


SPENT = Spent()


class SqliteTx(msgspec.Struct, eq=False):
    """A transaction on one tenant's file. It binds the tenant itself. Whatever it runs, it reads to its end, so one cursor is
    enough; to make one takes half as long as a small statement."""

    _cursor: apsw.Cursor | Spent
    """What the next statement runs on."""
    _then: apsw.Cursor | Spent
    """What all behind it do."""
    _queries: dict[str, Query]
    _tenant: str
    due_at: int | None = None

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        if condition is None:
            return self._run(query, parameters)
        sql, bound = filters.to_sqlite(condition)
        given = {**parameters, **bound, "tenant": self._tenant}
        cursor, self._cursor = self._cursor, self._then
        return cursor.execute(self._queries[query].sql.replace(FILTER, f"AND {sql}"), given).fetchall()

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        if "tenant" in parameters:
            raise TypeError(OURS)
        parameters["tenant"] = self._tenant
        cursor, self._cursor = self._cursor, self._then
        found = cursor.execute(self._queries[query].sql, parameters).fetchall()
        return found[0] if found else None

    def run(self, query: str, /, **parameters: Any) -> int:
        cursor = self._cursor
        self._run(query, parameters)
        assert isinstance(cursor, apsw.Cursor)  # noqa: S101 -- or the statement was not run
        return cursor.connection.changes()

    def send(self, query: str, /, **parameters: Any) -> None:
        self._run(query, parameters)

    def number(self, query: str, /, **parameters: Any) -> int:
        return int(self._run(query, parameters)[0][0])

    def _run(self, query: str, parameters: dict[str, Any]) -> list[Row]:
        if "tenant" in parameters:
            raise TypeError(OURS)
        parameters["tenant"] = self._tenant
        sql = self._queries[query].sql
        if "addresses" in parameters:
            sql = _of_one(sql, parameters)
        cursor, self._cursor = self._cursor, self._then
        return cursor.execute(sql, parameters).fetchall()

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)


def _of_one(sql: str, parameters: dict[str, Any]) -> str:
    """A statement about a list of addresses, as it is if there is one only: to take the list apart takes longer than the rest."""
    number = parameters["addresses"][1:-1]
    if not number.isdecimal():
        return sql
    parameters["addresses"] = int(number)
    return _alone(sql)


@cache
def _alone(sql: str) -> str:
    for several, one in ALONE:
        sql = sql.replace(several, one)
    return sql
