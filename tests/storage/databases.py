"""Databases of a test's own on the server that all tests share, and users who may do this and that in them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from memwell.storage import queries
from memwell.storage.postgres import PostgresStore, migrate
from memwell.storage.postgres.connect import ROLE, SCHEMA, connected

from ..engines import DATABASES
from ..postgres import rewrite
from .catalog import Db

ENTRY = """INSERT INTO entry (tenant, docid, id, version, address_id, seq, kind, content, origin, occurred_at, recorded_at)
VALUES ('default', %s, %s, 1, 2, %s, 'fact', %s, 'system', 0, 0)"""


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


def older_database(dsn: str, contents: list[str]) -> None:
    """A database with the first schema, with one flow of written statements."""
    with connected(dsn) as db:
        migrate._prepare(db)
        take_step(db, queries.migrations("postgres")[0])
        with db.transaction():
            db.execute(f"SET LOCAL search_path = {SCHEMA}; SET LOCAL memwell.tenant = 'default'")
            db.execute("SET LOCAL memwell.system = 'on'")
            db.execute("INSERT INTO tenant VALUES ('default', 0)")
            db.execute("INSERT INTO writer VALUES ('default', %s)", (len(contents),))
            db.execute("INSERT INTO collection VALUES ('default', 1, 'flow', 'support', 'facts', 0, '{}', 0)")
            db.execute(
                "INSERT INTO address (tenant, id, collection_id, path, last_seq, created_at, last_seen_at, ended_seq)"
                " VALUES ('default', 2, 1, '', %s, 0, 0, 0)",
                (len(contents),),
            )
            for seq, content in enumerate(contents, 1):
                db.execute(ENTRY, (seq, f"{seq:026d}", seq, content))
