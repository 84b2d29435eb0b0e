"""Bringing a database up to the present schema, one numbered step at a time, and making it safe to share.

A step and its number are committed together, so a process killed at any statement leaves the step before it and the next
opening goes on from there. Steps only go forward. Processes that start at once wait for each other.

Every table has row-level security: a role that sets no tenant sees no row and can write none. The tables' owner is held to
it as well, except for the words, which a function looks up on behalf of the tenant (see `postings`).
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors as pg

from ...errors import StorageError, Unsupported
from .. import queries
from ..tables import TABLES
from .connect import ROLE, SCHEMA, Place
from .statements import Connection

FOLDER = "postgres"
OLDEST_SERVER = 150_000
LOCK = 0x4D656D77  # "Memw"

TENANT_TABLES = ("graph", "vector", "word", "blob", *reversed(TABLES))
"""The tables inside a tenant, except `writer`. A table comes before those it refers to."""
SYSTEM_TABLES = ("tenant", "api_key", "hint", "rate", "secret", "migration", "dropped")
UNFORCED = "word"
SHARED = "graph"
"""Whether any tenant needs a graph can be seen from above all of them."""

_WITHIN = "tenant = CURRENT_SETTING('memwell.tenant', TRUE)"
_ABOVE = "CURRENT_SETTING('memwell.system', TRUE) = 'on'"


def ready(db: Connection, dsn: str) -> Place:
    """See to it that the tables are there and up to date; returns where they are and as whom to use them."""
    if db.info.server_version < OLDEST_SERVER:
        raise Unsupported(f"PostgreSQL {db.info.server_version // 10_000} is too old: Memwell needs 15 or newer.")
    found = version(db)
    queries.require_supported(found, FOLDER, "This database")
    if found < queries.newest(FOLDER):
        migrate(db)
    return Place(dsn, path(db), _role(db))


def version(db: Connection) -> int:
    """The number of the newest step that was made; 0 if there is none."""
    row = db.execute("SELECT TO_REGCLASS(%s)", (f"{SCHEMA}.migration",)).fetchone()
    if row is None or row[0] is None:
        return 0
    with db.transaction():
        db.execute("SET LOCAL memwell.system = 'on'")
        found = db.execute(f"SELECT COALESCE(MAX(number), 0) FROM {SCHEMA}.migration").fetchone()  # noqa: S608
    return int(found[0]) if found else 0


def migrate(db: Connection) -> None:
    """Make the steps that are missing, each in a transaction of its own."""
    _prepare(db)
    for number, name, text in queries.migrations(FOLDER):
        with db.transaction():
            take_turns(db)
            if version(db) < number:
                _step(db, number, name, text)


def take_turns(db: Connection) -> None:
    """Wait, however long it takes, until nobody else changes the tables; then nobody else can until the commit."""
    _run(db, "SET LOCAL lock_timeout = 0")
    db.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    _run(db, "SET LOCAL lock_timeout = DEFAULT")


def path(db: Connection) -> str:
    """Where names are looked for: our tables, and the types of pgvector."""
    return ", ".join(f'"{name}"' for name in (SCHEMA, vector_schema(db), "pg_temp") if name)


def vector_schema(db: Connection) -> str | None:
    """Where the types of pgvector are, if they are there."""
    row = db.execute(
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    return str(row[0]) if row else None


def _prepare(db: Connection) -> None:
    """What needs more rights than the steps themselves, once: the extension, the schema and the role."""
    with db.transaction():
        take_turns(db)
        if "migration" in _tables(db):
            return
        _extension(db)
        if db.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).fetchone() is None:
            _run(db, f"CREATE SCHEMA {SCHEMA}")
        if db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is None:
            _make_role(db)
        _run(db, f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}")
        _run(db, f"SET LOCAL search_path = {path(db)}")
        _run(db, "CREATE TABLE migration (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)")
        _protect(db, {"migration"}, set())


def _extension(db: Connection) -> None:
    if db.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
        return
    try:
        db.execute("CREATE EXTENSION vector")
    except (pg.FeatureNotSupported, pg.UndefinedFile) as error:
        raise Unsupported(
            "The extension pgvector (0.7 or newer) is missing: have it installed on the server."
        ) from error
    except pg.InsufficientPrivilege as error:
        raise StorageError(
            "This user may not add the extension pgvector: have an administrator run `CREATE EXTENSION vector` here."
        ) from error


def _make_role(db: Connection) -> None:
    """The role that transactions run as. Roles belong to the whole server, so another database may just have made it."""
    try:
        with db.transaction():
            _run(db, f"CREATE ROLE {ROLE} NOLOGIN")
            _run(db, f"GRANT {ROLE} TO CURRENT_USER")
    except (pg.DuplicateObject, pg.UniqueViolation):  # the latter: it was made while this one waited
        pass
    except pg.InsufficientPrivilege as error:
        raise StorageError(
            f"This user may not make the role {ROLE}: have an administrator run `CREATE ROLE {ROLE} NOLOGIN; "
            f"GRANT {ROLE} TO {db.info.user};`."
        ) from error


def _step(db: Connection, number: int, name: str, text: str) -> None:
    _run(db, f"SET LOCAL search_path = {path(db)}")
    _run(db, "SET LOCAL memwell.system = 'on'")
    there = _tables(db)
    # A step may change the rows of all tenants, and whoever takes it need not be a superuser.
    _run_all(db, [f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" for table in sorted(there)])
    for statement in queries.statements(text):
        _run(db, statement)
    made = _tables(db)
    if stray := made - {"writer", *TENANT_TABLES, *SYSTEM_TABLES}:
        raise AssertionError(f"tables that nothing protects: {sorted(stray)}")
    _protect(db, made - there, made & there)
    db.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (number, name))


def _protect(db: Connection, new: set[str], known: set[str]) -> None:
    """Have new tables show those rows only that their rule allows, and hold the owner to the rules of all."""
    held = [f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in sorted({*new, *known} - {UNFORCED})]
    _run_all(db, [*held, *(statement for table in sorted(new) for statement in _rules(table))])


def _rules(table: str) -> list[str]:
    rule = _ABOVE if table in SYSTEM_TABLES else _WITHIN
    statements = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY its_own ON {table} USING ({rule}) WITH CHECK ({rule})",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}",
    ]
    return (
        [*statements, f"CREATE POLICY known ON {table} FOR SELECT USING ({_ABOVE})"] if table == SHARED else statements
    )


def _tables(db: Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (SCHEMA,))}


def _role(db: Connection) -> str | None:
    """As whom to work: as the role that owns nothing. Whoever connects as it, or as one that is held to the rules, may."""
    row = db.execute(
        "SELECT pg_has_role(CURRENT_USER, %s, 'MEMBER'), rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = CURRENT_USER",
        (ROLE,),
    ).fetchone()
    member, unbound = row or (False, False)
    if member:
        return ROLE
    if unbound:
        raise StorageError(
            f"This user sees every tenant's rows and may not become {ROLE}: have an administrator run "
            f"`GRANT {ROLE} TO {db.info.user}`."
        )
    return None


def _run(db: Connection, statement: str) -> psycopg.Cursor[Any]:
    return db.execute(statement)


def _run_all(db: Connection, statements: list[str]) -> None:
    """Run statements without waiting in between. They are not one text: a node of a cluster would be passed all of it."""
    with db.pipeline():
        for statement in statements:
            db.execute(statement)
