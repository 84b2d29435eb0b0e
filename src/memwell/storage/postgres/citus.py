"""Distributing the tables by tenant, on a database that has the extension Citus.

The schema is the same as on plain PostgreSQL. References are taken away while tables are distributed and put back
afterwards, since one to a table that is not distributed yet would be refused. What is done already is left alone, so it may
be run again after it was cut off, and after a migration has made new tables.

The nodes of a cluster connect to each other as the role that asks, so that role must be able to log in. It has no password:
whether they let each other in is up to them. And they must hear whose transaction it is, or they would show nothing.
"""

from __future__ import annotations

from typing import Any

from psycopg import sql

from ...errors import Unsupported
from . import migrate
from .connect import ROLE, SCHEMA, translate_errors, use_connection
from .statements import Connection

SHARDS = 64
OFTEN_WRITTEN = {"hint": "tenant", "rate": "id"}
"""What stands above the tenants and is written all the time: to be on every node, it would wait for all of them each time."""


def distribute(dsn: str) -> list[str]:
    """Distribute what is not distributed yet; returns the names of all tables that are."""
    with use_connection(dsn) as db, translate_errors(dsn):
        if db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone() is None:
            raise Unsupported(
                "This database does not have the extension Citus: run `CREATE EXTENSION citus` on every node."
            )
        with db.transaction():
            migrate.take_turns(db)
            _connect_nodes(db)
            return _distribute(db)


def _connect_nodes(db: Connection) -> None:
    """Let the nodes work for the role, and tell each other what a transaction has set."""
    if db.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() != (True,):
        _run(db, "ALTER ROLE {} LOGIN", sql.Identifier(ROLE))
    _run(db, "ALTER DATABASE {} SET citus.propagate_set_commands = 'local'", sql.Identifier(db.info.dbname))


def _distribute(db: Connection) -> list[str]:
    done = _list_distributed(db)
    references = _references(db)
    for table, name, _ in references:
        _run(db, "ALTER TABLE {} DROP CONSTRAINT {}", _table(table), sql.Identifier(name))
    for table in migrate.SYSTEM_TABLES:
        if table not in done and table not in OFTEN_WRITTEN:
            db.execute("SELECT create_reference_table(%s)", (f"{SCHEMA}.{table}",))
    for table in ("writer", *migrate.TENANT_TABLES, *OFTEN_WRITTEN):
        if table not in done:
            _spread(db, table, OFTEN_WRITTEN.get(table, "tenant"))
    for table, name, definition in references:
        _run(db, "ALTER TABLE {} ADD CONSTRAINT {} {}", _table(table), sql.Identifier(name), sql.SQL(definition))
    return sorted(["writer", *migrate.TENANT_TABLES, *OFTEN_WRITTEN])


def _spread(db: Connection, table: str, column: str) -> None:
    """Distribute a table. The first says into how many parts, and the others are kept beside it."""
    if table == "writer":
        db.execute(
            "SELECT create_distributed_table(%s, %s, colocate_with => 'none', shard_count => %s)",
            (f"{SCHEMA}.{table}", column, SHARDS),
        )
    else:
        db.execute(
            "SELECT create_distributed_table(%s, %s, colocate_with => %s)",
            (f"{SCHEMA}.{table}", column, f"{SCHEMA}.writer"),
        )


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


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _run(db: Connection, text: str, *parts: sql.Composable) -> None:
    db.execute(sql.SQL(text).format(*parts))
