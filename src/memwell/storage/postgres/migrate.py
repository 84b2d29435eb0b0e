"""The schema: migrations, row-level security, and the distribution of tables by tenant with the extension Citus.

A migration and its number are committed together, so a process that is killed leaves the version before it, and the next opening
continues from there. Migrations only go forward. Processes that start at once wait for each other.

Every table has row-level security: a role that sets no tenant sees no row and can write none. It applies to the tables'
owner as well, except for the words, which a function looks up on behalf of the tenant (see `postings`).
"""

from __future__ import annotations

from typing import Any

from psycopg import errors as pg
from psycopg import sql

from ...errors import StorageError, Unsupported
from .. import queries
from ..copier import TABLES
from .connect import ROLE, SCHEMA, Place, translate_errors, use_connection
from .statements import Connection

FOLDER = "postgres"
OLDEST_SERVER = 150_000
LOCK = 0x4D656D77  # "Memw"

TENANT_TABLES = ("graph", "vector", "word", "blob", *reversed(TABLES))
"""The tables inside a tenant, except `writer`. A table comes before those that it refers to."""
SYSTEM_TABLES = ("tenant", "api_key", "hint", "rate", "secret", "migration", "dropped")
UNFORCED = "word"
SHARED = "graph"
"""A table that can also be read from above the tenants, to find out if any of them needs a graph."""

_WITHIN = "tenant = CURRENT_SETTING('memwell.tenant', TRUE)"
_ABOVE = "CURRENT_SETTING('memwell.system', TRUE) = 'on'"


def ready(db: Connection, dsn: str) -> Place:
    """Create the tables or bring them up to date. Return the place to use them from."""
    if db.info.server_version < OLDEST_SERVER:
        raise Unsupported(f"PostgreSQL {db.info.server_version // 10_000} is too old: Memwell needs 15 or newer.")
    found = version(db)
    queries.require_supported(found, FOLDER, "This database")
    if found < queries.newest(FOLDER):
        migrate(db)
    return Place(dsn, path(db), _role(db))


def version(db: Connection) -> int:
    """Return the number of the newest migration, or 0."""
    row = db.execute("SELECT TO_REGCLASS(%s)", (f"{SCHEMA}.migration",)).fetchone()
    if row is None or row[0] is None:
        return 0
    with db.transaction():
        db.execute("SET LOCAL memwell.system = 'on'")
        found = db.execute(f"SELECT COALESCE(MAX(number), 0) FROM {SCHEMA}.migration").fetchone()  # noqa: S608
    return int(found[0]) if found else 0


def migrate(db: Connection) -> None:
    """Run the missing migrations, each in a transaction of its own."""
    _prepare(db)
    for number, name, text in queries.migrations(FOLDER):
        with db.transaction():
            take_turns(db)
            if version(db) < number:
                _step(db, number, name, text)


def take_turns(db: Connection) -> None:
    """Lock the schema against changes by other processes until the commit. Wait for the lock without a limit."""
    db.execute("SET LOCAL lock_timeout = 0")
    db.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    db.execute("SET LOCAL lock_timeout = DEFAULT")


def path(db: Connection) -> str:
    """Return the search path: our tables, and the types of pgvector."""
    return ", ".join(f'"{name}"' for name in (SCHEMA, vector_schema(db), "pg_temp") if name)


def vector_schema(db: Connection) -> str | None:
    """Return the schema of the types of pgvector, if it is installed."""
    row = db.execute(
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
    ).fetchone()
    return str(row[0]) if row else None


def _prepare(db: Connection) -> None:
    """Create the extension, the schema and the role. It happens once, and needs more rights than the migrations."""
    with db.transaction():
        take_turns(db)
        if "migration" in _tables(db):
            return
        _extension(db)
        if db.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).fetchone() is None:
            db.execute(f"CREATE SCHEMA {SCHEMA}")
        if db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is None:
            _make_role(db)
        db.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}")
        db.execute(f"SET LOCAL search_path = {path(db)}")
        db.execute("CREATE TABLE migration (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)")
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
    """Create the role of transactions. Roles are shared by the whole server, so another process may have just created it."""
    try:
        with db.transaction():
            db.execute(f"CREATE ROLE {ROLE} NOLOGIN")
            db.execute(f"GRANT {ROLE} TO CURRENT_USER")
    except (pg.DuplicateObject, pg.UniqueViolation):  # the latter if another process created it while this one waited
        pass
    except pg.InsufficientPrivilege as error:
        raise StorageError(
            f"This user may not create the role {ROLE}: have an administrator run `CREATE ROLE {ROLE} NOLOGIN; "
            f"GRANT {ROLE} TO {db.info.user};`."
        ) from error


def _step(db: Connection, number: int, name: str, text: str) -> None:
    db.execute(f"SET LOCAL search_path = {path(db)}")
    db.execute("SET LOCAL memwell.system = 'on'")
    there = _tables(db)
    # A migration may change the rows of all tenants, and the user need not be a superuser.
    _run_all(db, [f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" for table in sorted(there)])
    for statement in queries.statements(text):
        db.execute(statement)
    made = _tables(db)
    if stray := made - {"writer", *TENANT_TABLES, *SYSTEM_TABLES}:
        raise AssertionError(f"unprotected tables: {sorted(stray)}")
    _protect(db, made - there, made & there)
    db.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (number, name))


def _protect(db: Connection, new: set[str], known: set[str]) -> None:
    """Add row-level security to new tables, and make it apply to the owner of all tables."""
    held = [f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in sorted({*new, *known} - {UNFORCED})]
    _run_all(db, [*held, *(statement for table in sorted(new) for statement in _rules(table))])


def _rules(table: str) -> list[str]:
    rule = _ABOVE if table in SYSTEM_TABLES else _WITHIN
    statements = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY its_own ON {table} USING ({rule}) WITH CHECK ({rule})",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}",
    ]
    if table == SHARED:
        statements.append(f"CREATE POLICY known ON {table} FOR SELECT USING ({_ABOVE})")
    return statements


def _tables(db: Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (SCHEMA,))}


def _role(db: Connection) -> str | None:
    """Return the role of transactions, which owns nothing. None if the user itself is subject to row-level security."""
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


def _run_all(db: Connection, statements: list[str]) -> None:
    """Run statements without waiting in between. They are sent separately, because Citus passes a whole text to each node."""
    with db.pipeline():
        for statement in statements:
            db.execute(statement)


# -- Citus -----------------------------------------------------------------------------------------------------------------

SHARDS = 64
OFTEN_WRITTEN = {"hint": "tenant", "rate": "id"}
"""Tables above the tenants that are written all the time, with the columns to distribute them by. A copy on every node would make
each write wait for all nodes."""


def distribute(dsn: str) -> list[str]:
    """Distribute the tables that are not distributed yet. Return the names of all distributed tables.

    References are removed meanwhile, because Citus rejects a reference to a table that is not distributed yet. The function
    may run again after it was interrupted, and after a migration has created tables. The nodes of a cluster connect to each
    other as the role of the transaction, so that role must be able to log in. It has no password: the nodes must be
    configured to trust each other.
    """
    with use_connection(dsn) as db, translate_errors(dsn):
        if db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone() is None:
            raise Unsupported(
                "This database does not have the extension Citus: run `CREATE EXTENSION citus` on every node."
            )
        with db.transaction():
            take_turns(db)
            _connect_nodes(db)
            return _distribute(db)


def _connect_nodes(db: Connection) -> None:
    """Let the role log in to the nodes, and pass the settings of a transaction, such as its tenant, on to them."""
    if db.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() != (True,):
        _execute(db, "ALTER ROLE {} LOGIN", sql.Identifier(ROLE))
    _execute(db, "ALTER DATABASE {} SET citus.propagate_set_commands = 'local'", sql.Identifier(db.info.dbname))


def _distribute(db: Connection) -> list[str]:
    done = _list_distributed(db)
    references = _references(db)
    for table, name, _ in references:
        _execute(db, "ALTER TABLE {} DROP CONSTRAINT {}", sql.Identifier(SCHEMA, table), sql.Identifier(name))
    for table in SYSTEM_TABLES:
        if table not in done and table not in OFTEN_WRITTEN:
            db.execute("SELECT create_reference_table(%s)", (f"{SCHEMA}.{table}",))
    first = "SELECT create_distributed_table(%s, %s, colocate_with => 'none', shard_count => %s)"
    beside = "SELECT create_distributed_table(%s, %s, colocate_with => %s)"
    spread = ["writer", *TENANT_TABLES, *OFTEN_WRITTEN]
    for table in spread:
        place = (f"{SCHEMA}.{table}", OFTEN_WRITTEN.get(table, "tenant"))
        if table in done:
            continue
        if table == "writer":
            db.execute(first, (*place, SHARDS))
        else:
            db.execute(beside, (*place, f"{SCHEMA}.writer"))
    for table, name, definition in references:
        parts = sql.Identifier(SCHEMA, table), sql.Identifier(name), sql.SQL(definition)
        _execute(db, "ALTER TABLE {} ADD CONSTRAINT {} {}", *parts)
    return sorted(spread)


def _list_distributed(db: Connection) -> set[str]:
    rows = db.execute(
        "SELECT c.relname FROM citus_tables d JOIN pg_class c ON c.oid = d.table_name "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s",
        (SCHEMA,),
    )
    return {str(row[0]) for row in rows}


def _references(db: Connection) -> list[tuple[Any, ...]]:
    """The references between our tables: table, name and definition."""
    return db.execute(
        "SELECT c.relname, f.conname, pg_get_constraintdef(f.oid) FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE f.contype = 'f' AND n.nspname = %s ORDER BY 1, 2",
        (SCHEMA,),
    ).fetchall()


def _execute(db: Connection, text: str, *parts: sql.Composable) -> None:
    db.execute(sql.SQL(text).format(*parts))
