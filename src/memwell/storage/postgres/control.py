"""Data above the tenants: their list, the keys, the hints, the secret for hashing keys, and messages between processes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import psycopg

from ...errors import MemwellError, Unavailable
from .. import queries
from ..notifier import LEAVE_S, Notifier
from ..port import SECRET_BYTES, Row
from .connect import translate_errors, use_connection
from .statements import Connection, Statement, compile_statement, run

CHANNEL = "memwell"
LISTENER = "memwell listener"
LOOK_S = 0.1
QUIET_S = 0.5

_LOOK = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND datname = CURRENT_DATABASE())"


class ControlTables:
    """The tables above the tenants. `run_above` runs work in a transaction above the tenants, for reading or for writing."""

    def __init__(self, run_above: Callable[[Callable[[Connection], Any], bool], Any]) -> None:
        self._run_above = run_above
        self._queries = queries.load_system()

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        statement = self._statement(query)
        found: list[Row] = self._run_above(lambda db: run(db, statement, parameters).rows(), False)
        return found

    def write(self, *calls: tuple[str, dict[str, Any]]) -> int:
        def run(db: Connection) -> int:
            return [0, *(self.run(db, query, parameters) for query, parameters in calls)][-1]

        count: int = self._run_above(run, True)
        return count

    def hint(self, query: str, /, **parameters: Any) -> int:
        return self.write((query, parameters))

    def scrub(self) -> bool:
        return True

    @cached_property
    def secret(self) -> bytes:
        """The secret, which the first process creates."""

        def share(db: Connection) -> bytes:
            fresh = secrets.token_bytes(SECRET_BYTES)
            db.execute("INSERT INTO secret (name, value) VALUES ('keys', %s) ON CONFLICT (name) DO NOTHING", (fresh,))
            row = db.execute("SELECT value FROM secret WHERE name = 'keys'", binary=True).fetchone()
            assert row is not None  # noqa: S101 -- it was just added
            return bytes(row[0])

        found: bytes = self._run_above(share, True)
        return found

    def renew(self) -> bool:
        known = self.secret
        self.__dict__.pop("secret", None)  # several threads may do so at once
        return self.secret != known

    def adopt(self, secret: bytes) -> bool:
        self.renew()
        if self.secret != secret and not self.rows("count_keys")[0][0]:
            self._run_above(lambda db: db.execute("UPDATE secret SET value = %s WHERE name = 'keys'", (secret,)), True)
            del self.secret
        return self.secret == secret

    def run(self, db: Connection, query: str, parameters: dict[str, Any]) -> int:
        return run(db, self._statement(query), parameters).count

    def _statement(self, query: str) -> Statement:
        return compile_statement(f"system_{query}", self._queries[query].sql)


class PostgresNotifier(Notifier):
    """Messages through LISTEN and NOTIFY. A listener has a connection of its own, which other processes find by its name.

    `use_pooled` runs work on a connection outside a transaction, if one is free within some seconds.
    """

    look_every_s = 0.5
    longest = 7_900

    def __init__(self, dsn: str, use_pooled: Callable[[Callable[[Connection], bool], float], bool]) -> None:
        super().__init__()
        self._dsn = dsn
        self._use_pooled = use_pooled

    @contextmanager
    def listen(self) -> Iterator[Iterator[bytes | None]]:
        with use_connection(self._dsn, application_name=LISTENER) as connection:
            with translate_errors(self._dsn):
                connection.execute(f"LISTEN {CHANNEL}")
            self._looked_at = float("-inf")
            yield _receive(connection)

    def _look(self) -> bool:
        """Look for listeners without waiting: if no connection is free, return the last answer."""
        try:
            return self._use_pooled(lambda db: db.execute(_LOOK, (LISTENER,)).fetchone() == (True,), LOOK_S)
        except MemwellError:
            return self._watched

    def _send(self, messages: list[bytes]) -> None:
        def notify(db: Connection) -> bool:
            for message in messages:
                db.execute("SELECT pg_notify(%s, %s)", (CHANNEL, message.decode()))
            return True

        self._use_pooled(notify, LEAVE_S)


def _receive(connection: Connection) -> Iterator[bytes | None]:
    while True:
        try:
            for notice in connection.notifies(timeout=QUIET_S, stop_after=1):
                yield notice.payload.encode()
        except psycopg.Error as error:
            raise Unavailable("The connection for events was lost: watch again.") from error
        yield None
