"""Databases of a test's own on the server that all tests share, and users who may do this and that in them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from memwell.storage.postgres import PostgresStore, migrate
from memwell.storage.postgres.connect import ROLE

from ..engines import DATABASES
from ..postgres_server import rewrite
from .catalog import Db


@contextmanager
def database(template: str | None = None) -> Iterator[str]:
    """An empty database, or one made from a template."""
    server = DATABASES.server
    dsn = server.database(template) if template else server.copy(server.dsn("template1"))
    try:
        yield dsn
    finally:
        server.drop(dsn)


@contextmanager
def user(dsn: str, *grants: str) -> Iterator[str]:
    """Somebody who may connect, and was granted this."""
    name, password = f"memwell_{secrets.token_hex(6)}", secrets.token_hex(8)
    with psycopg.connect(dsn, autocommit=True) as db:
        for statement in (f"CREATE ROLE {name} LOGIN PASSWORD '{password}'", *(f"{grant} {name}" for grant in grants)):
            db.execute(statement.encode())
    try:
        yield rewrite(dsn, user=name, password=password)
    finally:
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name}; DROP ROLE {name}".encode())


@contextmanager
def owner(dsn: str) -> Iterator[str]:
    """Somebody who may make tables in a database and work as the role that owns nothing, and is no superuser."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CREATE EXTENSION vector")
        name = db.info.dbname
    with user(dsn, f"GRANT {ROLE} TO", f"GRANT CREATE ON DATABASE {name} TO") as found:
        yield found


def open_once(dsn: str) -> None:
    """Open a database, which makes its tables, and close it again."""
    PostgresStore(dsn, clock=lambda: 0).close()


def take_step(db: Db, step: tuple[int, str, str]) -> None:
    with db.transaction():
        migrate._step(db, *step)
