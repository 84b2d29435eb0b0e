"""Transactions on one tenant's file: named queries, with the tenant bound by the transaction itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import apsw

from ...model.filter import Filter
from .. import filters
from ..port import Row
from ..queries import Query

FILTER = "/*filter*/"
LISTED = "FROM json_each(:addresses)"
ALONE = (("IN (SELECT value " + LISTED + ")", "= :addresses"), (LISTED, "FROM (SELECT 0 AS key, :addresses AS value)"))
"""Where a statement takes a list of addresses apart, and what stands there if it has one."""
OURS = "the tenant is bound by the transaction, not by its caller"


class SqliteTx:
    """A transaction on one tenant's file. It binds the tenant itself. Whatever it runs, it reads to its end, so one cursor is
    enough; to make one takes half as long as a small statement."""

    __slots__ = ("_cursor", "_execute", "_queries", "_tenant", "due_at")

    def __init__(self, cursor: apsw.Cursor, queries: dict[str, Query], tenant: str) -> None:
        self._cursor = cursor
        self._execute: Callable[[str, dict[str, Any]], apsw.Cursor] = cursor.execute
        self._queries = queries
        self._tenant = tenant
        self.due_at: int | None = None

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        if condition is None:
            return self._run(query, parameters)
        sql, bound = filters.to_sqlite(condition)
        given = {**parameters, **bound, "tenant": self._tenant}
        return self._execute(self._queries[query].sql.replace(FILTER, f"AND {sql}"), given).fetchall()

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        if "tenant" in parameters:
            raise TypeError(OURS)
        parameters["tenant"] = self._tenant
        found = self._execute(self._queries[query].sql, parameters).fetchall()
        return found[0] if found else None

    def run(self, query: str, /, **parameters: Any) -> int:
        self._run(query, parameters)
        return self._cursor.connection.changes()

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
        return self._execute(sql, parameters).fetchall()

    def wake(self, at: int) -> None:
        self.due_at = at if self.due_at is None else min(at, self.due_at)


class Another(Exception):
    """A read that was to be one statement takes another one."""


class SoleTx(SqliteTx):
    """A read that is one statement as a rule. That is a snapshot by itself; with another, it must be done again on one."""

    __slots__ = ()

    def __init__(self, cursor: apsw.Cursor, queries: dict[str, Query], tenant: str) -> None:
        self._cursor = cursor
        self._execute = self._first
        self._queries = queries
        self._tenant = tenant
        self.due_at = None

    def _first(self, sql: str, parameters: dict[str, Any]) -> apsw.Cursor:
        self._execute = _another
        return self._cursor.execute(sql, parameters)


def _another(sql: str, parameters: dict[str, Any]) -> apsw.Cursor:
    raise Another


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
