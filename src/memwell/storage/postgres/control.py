"""What stands above the tenants: their list, the keys, the hints, and the secret that key hashes are keyed with."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from .. import queries
from ..port import Row
from .statements import Connection, Statement, compile_statement, run

T = TypeVar("T")

SECRET_BYTES = 32


class ControlTables:
    def __init__(self, above: Callable[[Callable[[Connection], Any], bool], Any]) -> None:
        self._run_above = above
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
        """Made by whoever comes first, and the same for all."""

        def share(db: Connection) -> bytes:
            fresh = secrets.token_bytes(SECRET_BYTES)
            db.execute("INSERT INTO secret (name, value) VALUES ('keys', %s) ON CONFLICT (name) DO NOTHING", (fresh,))
            row = db.execute("SELECT value FROM secret WHERE name = 'keys'", binary=True).fetchone()
            assert row is not None  # noqa: S101 -- it was just made
            return bytes(row[0])

        found: bytes = self._run_above(share, True)
        return found

    def renew(self) -> bool:
        known = self.secret
        self.__dict__.pop("secret", None)  # several may do so at once
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
