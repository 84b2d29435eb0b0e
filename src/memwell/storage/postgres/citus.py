"""Distributing the tables by tenant, on a database that has the extension Citus.

The schema is the same as on plain PostgreSQL. References are taken away while tables are distributed and put back
afterwards, since one to a table that is not distributed yet would be refused. What is done already is left alone, so it may
be run again after it was cut off.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from ...errors import Unsupported
from . import migrate
from .connect import SCHEMA, Connection, connected, told

SHARDS = 64


def distribute(dsn: str) -> list[str]:
    """Distribute what is not distributed yet; returns the names of all tables that are."""
    with connected(dsn) as db, told(dsn):
        if db.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone() is None:
            raise Unsupported(
                "This database does not have the extension Citus: run `CREATE EXTENSION citus` on every node."
            )
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (migrate.LOCK,))
            return _distribute(db)


def _distribute(db: Connection) -> list[str]:
    done = {str(row[0]) for row in db.execute("SELECT table_name::text FROM citus_tables")}
    tables = [table for table in ("writer", *migrate.TENANT_TABLES) if f"{SCHEMA}.{table}" not in done]
    above = [table for table in migrate.SYSTEM_TABLES if f"{SCHEMA}.{table}" not in done]
    references = _references(db)
    for table, name, _ in references:
        _run(db, "ALTER TABLE {} DROP CONSTRAINT {}", table, name)
    for table in above:
        db.execute("SELECT create_reference_table(%s)", (f"{SCHEMA}.{table}",))
    for table in tables:
        with_others = "none" if table == "writer" else f"{SCHEMA}.writer"
        db.execute(
            "SELECT create_distributed_table(%s, 'tenant', colocate_with => %s"
            + (", shard_count => %s)" if table == "writer" else ")"),
            (f"{SCHEMA}.{table}", with_others, SHARDS) if table == "writer" else (f"{SCHEMA}.{table}", with_others),
        )
    for table, name, definition in references:
        db.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} ").format(sql.Identifier(SCHEMA, table), sql.Identifier(name))
            + sql.SQL(definition)
        )
    return sorted([*migrate.TENANT_TABLES, "writer"])


def _references(db: Connection) -> list[tuple[Any, ...]]:
    """The references between our tables: table, name and definition."""
    return db.execute(
        "SELECT c.relname, f.conname, pg_get_constraintdef(f.oid) FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE f.contype = 'f' AND n.nspname = %s ORDER BY 1, 2",
        (SCHEMA,),
    ).fetchall()


def _run(db: Connection, text: str, table: str, name: str) -> psycopg.Cursor[Any]:
    return db.execute(sql.SQL(text).format(sql.Identifier(SCHEMA, table), sql.Identifier(name)))
