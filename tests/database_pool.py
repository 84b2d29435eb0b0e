"""Databases of PostgreSQL that tests use one after the other.

To empty one takes a tenth of the time of a new one, and what the server knows of its tables is there for whoever connects.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import psycopg

from .postgres_server import Given, Server

USES = 40
"""How many tests use a database: what they deleted makes it slower in time."""
LINES = 8
"""How many databases are kept at once. A test that needs hundreds has new ones: each line is one of the server's connections."""
LEAVING_S = 0.1
"""For how long whoever has hung up may still be seen."""

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'memwell' ORDER BY tablename"
_OTHERS = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_MADE_OF = """
SELECT (SELECT string_agg(concat_ws(' ', relname, relkind, relnatts, relchecks, relrowsecurity, relforcerowsecurity, relacl),
    ',' ORDER BY relname) FROM pg_class WHERE relnamespace = 'memwell'::regnamespace),
  (SELECT max(oid) FROM pg_class), (SELECT max(oid) FROM pg_constraint), (SELECT max(oid) FROM pg_policy),
  (SELECT max(oid) FROM pg_proc), (SELECT max(oid) FROM pg_trigger), (SELECT max(oid) FROM pg_extension),
  (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_policy), (SELECT count(*) FROM pg_db_role_setting)
"""

Line = psycopg.Connection[Any]
Rows = list[tuple[Any, ...]]


class DatabasePool:
    """Databases made from one template. The first of them have lines of their own, by which they are emptied."""

    def __init__(self, server: Server | Given, template: str) -> None:
        self._server = server
        self._template = template
        self._lines: dict[str, Line] = {}
        self._uses: Counter[str] = Counter()
        self._free: list[str] = []
        self._seeded: dict[str, Rows] | None = None
        self._made_of: Rows = []
        self._deletes = ""

    def take(self) -> str:
        """The DSN of a database that is as its template is."""
        dsn = self._free.pop() if self._free else self._new()
        self._uses[dsn] += 1
        return dsn

    def give_back(self, dsn: str) -> None:
        """Empty a database for whoever needs one next. It is dropped if it was used often enough, if somebody else still uses
        it, or if anything but its rows is not as it was."""
        if self._uses[dsn] < USES and self._emptied(dsn):
            self._free.append(dsn)
        else:
            self.hang_up(dsn)
            self._server.drop(dsn)

    def hang_up(self, dsn: str) -> None:
        """Leave a database alone: it is to be copied, say. It is not used again."""
        line = self._lines.pop(dsn, None)
        if line is not None:
            line.close()

    def close(self) -> None:
        for dsn in list(self._lines):
            self.hang_up(dsn)

    def _new(self) -> str:
        dsn = self._server.database(self._template)
        if len(self._lines) >= LINES:
            return dsn
        line = self._lines[dsn] = psycopg.connect(dsn, autocommit=True)
        if self._seeded is None:
            tables = [table for (table,) in _rows(line, _TABLES)]
            found = {table: _rows(line, f"TABLE memwell.{table}") for table in tables}
            self._seeded = {table: rows for table, rows in found.items() if rows}
            self._made_of = _rows(line, _MADE_OF)
            self._deletes = "".join(f"DELETE FROM memwell.{table};" for table in tables if table not in self._seeded)
        return dsn

    def _emptied(self, dsn: str) -> bool:
        line = self._lines.get(dsn)
        if line is None:
            return False
        try:
            if not _alone(line):
                return False
            _rows(line, f"BEGIN; SET LOCAL session_replication_role = replica; {self._deletes} COMMIT")
            seeded = all(_rows(line, f"TABLE memwell.{table}") == rows for table, rows in (self._seeded or {}).items())
            return seeded and _rows(line, _MADE_OF) == self._made_of
        except psycopg.Error:
            return False


def _alone(line: Line) -> bool:
    until = time.monotonic() + LEAVING_S
    while _rows(line, _OTHERS):
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def _rows(line: Line, sql: str) -> Rows:
    cursor = line.execute(sql.encode())
    return cursor.fetchall() if cursor.description else []
