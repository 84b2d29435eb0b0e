"""What is asked of Citus, as far as it can be told without one: which statements, and in which order.

With MEMWELL_TEST_CITUS_DSN every other test runs on a real one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg import sql

from memwell.storage.postgres import migrate
from memwell.storage.postgres.statements import Connection

pytestmark = pytest.mark.engines()

REFERENCES = [
    ("address", "address_collection", "FOREIGN KEY (tenant, collection_id) REFERENCES memwell.collection(tenant, id)"),
    ("api_key", "api_key_tenant_fkey", "FOREIGN KEY (tenant) REFERENCES memwell.tenant(id)"),
]


class Recorded:
    """A connection that answers questions about the catalog and notes everything else."""

    def __init__(self, *done: str, may_log_in: bool = False) -> None:
        self._answers: dict[str, list[Any]] = {
            "citus_tables": [(name,) for name in done],
            "pg_constraint": REFERENCES,
            "rolcanlogin": [(may_log_in,)],
        }
        self.info = SimpleNamespace(dbname="home")
        self.said: list[str] = []

    def execute(self, query: str | sql.Composable, values: tuple[Any, ...] = ()) -> Any:
        text = query if isinstance(query, str) else query.as_string(None)
        for about, rows in self._answers.items():
            if about in text:
                return _Rows(rows)
        self.said.append(text % tuple(f"'{value}'" if isinstance(value, str) else value for value in values))
        return _Rows([])


class _Rows(list[Any]):
    def fetchall(self) -> list[Any]:
        return self

    def fetchone(self) -> Any:
        return self[0] if self else None


def distributed(db: Recorded) -> list[str]:
    return migrate._distribute(cast(Connection, db))


def test_every_table_is_distributed_once_beside_the_first() -> None:
    db = Recorded()
    assert distributed(db) == sorted(["writer", *migrate.TENANT_TABLES, "hint", "rate"])
    spread = [line for line in db.said if "create_distributed_table" in line]
    assert spread[0] == (
        "SELECT create_distributed_table('memwell.writer', 'tenant', colocate_with => 'none', shard_count => 64)"
    )
    assert spread[1:] == [
        f"SELECT create_distributed_table('memwell.{table}', '{column}', colocate_with => 'memwell.writer')"
        for table, column in [*((table, "tenant") for table in (*migrate.TENANT_TABLES, "hint")), ("rate", "id")]
    ]


def test_what_stands_above_the_tenants_and_is_seldom_written_is_on_every_node() -> None:
    db = Recorded()
    distributed(db)
    assert [line for line in db.said if "create_reference_table" in line] == [
        f"SELECT create_reference_table('memwell.{table}')"
        for table in ("tenant", "api_key", "secret", "migration", "dropped")
    ]


def test_references_are_taken_away_first_and_put_back_last() -> None:
    db = Recorded()
    distributed(db)
    assert db.said[:2] == [f'ALTER TABLE "memwell"."{table}" DROP CONSTRAINT "{name}"' for table, name, _ in REFERENCES]
    assert db.said[-2:] == [
        f'ALTER TABLE "memwell"."{table}" ADD CONSTRAINT "{name}" {text}' for table, name, text in REFERENCES
    ]


def test_distributed_tables_are_not_distributed_again() -> None:
    db = Recorded("writer", "entry", "tenant")
    distributed(db)
    made = [line for line in db.said if "create_" in line]
    assert len(made) == len(migrate.TENANT_TABLES) + len(migrate.SYSTEM_TABLES) - 2
    assert not [line for line in made if "'memwell.entry'" in line or "'memwell.tenant'" in line or "'none'" in line]


def test_the_nodes_may_work_for_the_role_and_hear_whose_transaction_it_is() -> None:
    heard = "ALTER DATABASE \"home\" SET citus.propagate_set_commands = 'local'"
    for may_log_in in (False, True):
        db = Recorded(may_log_in=may_log_in)
        migrate._connect_nodes(cast(Connection, db))
        assert db.said == ([heard] if may_log_in else ['ALTER ROLE "memwell_app" LOGIN', heard])
