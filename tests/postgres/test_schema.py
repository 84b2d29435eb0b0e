"""The tables on PostgreSQL, and the way there: every step, cut off anywhere, is taken up again."""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import apsw
import psycopg
import pytest

from memwell.errors import StorageError, Unsupported
from memwell.storage import queries
from memwell.storage.postgres import migrate
from memwell.storage.postgres.connect import ROLE, SCHEMA, use_connection
from memwell.storage.sqlite import connect as sqlite_migrate

from ..conformance.scene import finish, python, run_python
from ..conftest import CHAOS
from ..engines import TEMPLATE
from ..postgres_server import VARIABLE, Proxy, Server, address, rewrite
from ..waiting import wait_until
from . import catalog
from .catalog import INSIDE, Db
from .databases import database, open_once, owner, take_step, user

BASELINE = "c082523a8b41248e"
"""Digest of the statements of the baseline migration."""

# What a column of SQLite is on PostgreSQL.
TYPES = {"INTEGER": "bigint", "TEXT": "text", "REAL": "double precision", "BLOB": "bytea"}
# Tables that each engine has in its own way, and those that only a server needs.
DIFFERENT = {
    "word": "SQLite has a full-text table that knows no tenant, PostgreSQL a column with an index",
    "vector": "SQLite keeps all parts of an entry in one value, PostgreSQL each in a row with what an index needs",
}
ONLY_HERE = {
    "writer": "in a file there is one writer anyway",
    "secret": "beside files it is a file",
    "migration": "a file has a number in its header",
    "graph": "in a file, all vectors fit into memory",
    "blob": "beside files they are files",
}

# One process that forks for each statement of each step: the child dies in front of it. The parent prints what is left.
# Of the statements that are sent without waiting for an answer, it is every tenth.
KILLED_AT_EVERY_STATEMENT = """
import itertools, os, signal, sys
import psycopg
from memwell.storage.postgres import migrate
from memwell.storage.postgres.connect import use_connection
from tests.postgres.test_schema import Left

def die_before(k):
    seen, sent, wait = 0, itertools.count(1), psycopg.Connection.wait
    def counted(connection, *args, **kwargs):
        nonlocal seen
        if connection.pgconn.pipeline_status and next(sent) % 10:
            return wait(connection, *args, **kwargs)
        seen += 1
        if seen == k:
            os.kill(os.getpid(), signal.SIGKILL)
        return wait(connection, *args, **kwargs)
    psycopg.Connection.wait = counted

def opened(dsn, k):
    child = os.fork()
    if child == 0:
        with use_connection(dsn) as db:
            die_before(k)
            migrate.ready(db, dsn)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

dsn, stride, k, killed = sys.argv[1], int(sys.argv[2]), 1, 0
with psycopg.connect(dsn, autocommit=True) as observer:
    left = Left(observer)
    while (code := opened(dsn, k)) == -signal.SIGKILL and killed < 1000:
        k = 1 if left.changed() else k + stride
        killed += 1
    left.changed()  # the last may have come to its end
    print(killed, *left.states, flush=True)
os._exit(code)
"""

OPEN = """
import sys
from memwell.storage.postgres import PostgresStore
PostgresStore(sys.argv[1], clock=lambda: 0).close()
"""

# What a step changes something in.
MARKED = ("pg_class", "pg_attribute", "pg_constraint", "pg_policy", "pg_proc", "pg_namespace", "pg_extension")


def described(dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as db:
        return catalog.schema_text(db)


def digest(db: Db) -> str:
    """What a migration has left, in short: the tables, and the number of the last step."""
    return hashlib.blake2b(f"{catalog.schema_text(db)}{migrate.version(db)}".encode(), digest_size=8).hexdigest()


class Left:
    """What migrations leave that are cut off again and again. Whether it is still the same, the catalog's marks tell."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._mark: object = None
        self.states: list[str] = []

    def changed(self) -> bool:
        sql = " UNION ALL ".join(f"SELECT COUNT(*), MAX(xmin::text::bigint) FROM {table}" for table in MARKED)
        before, self._mark = self._mark, self._db.execute(sql.encode()).fetchall()
        if self._mark == before or (state := digest(self._db)) in self.states:
            return False
        self.states.append(state)
        return True


@pytest.fixture
def empty() -> Iterator[str]:
    """A database that nobody has opened yet."""
    with database() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def today() -> Iterator[str]:
    """The schema as an undisturbed opening makes it."""
    with database(TEMPLATE) as dsn:
        yield described(dsn)


@pytest.fixture
def db() -> Iterator[Db]:
    """A database as it is once it was opened, seen by a superuser."""
    with database(TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        yield connection


# -- the schema ------------------------------------------------------------------------------------------------------


def test_the_baseline_is_what_it_was() -> None:
    """It must not change: another schema takes another migration."""
    baseline = "".join(queries.statements(queries.migrations("postgres")[0][2]))
    assert hashlib.blake2b(baseline.encode(), digest_size=8).hexdigest() == BASELINE


def test_both_engines_take_the_same_steps() -> None:
    steps = {folder: [step[:2] for step in queries.migrations(folder)] for folder in ("sqlite", "postgres")}
    assert steps["sqlite"] == steps["postgres"]
    numbers = [number for number, _ in steps["postgres"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_migration_is_split_into_its_statements() -> None:
    for _, _, text in queries.migrations("postgres"):
        statements = queries.statements(text)
        assert "".join(statements).count("CREATE ") == text.count("CREATE ") <= len(statements)
        assert [statement for statement in statements if statement.count("$$") % 2] == []


def test_both_engines_have_the_same_columns(db: Db) -> None:
    here, there = catalog.columns(db), _sqlite_columns()
    assert here.keys() - there.keys() == ONLY_HERE.keys()
    assert there.keys() <= here.keys()
    for table in there.keys() - DIFFERENT.keys():
        assert here[table] == there[table], table
    assert there["vector"].keys() <= here["vector"].keys()
    assert {name for name in here["vector"] if name not in there["vector"]} == {
        "part", "collection_id", "dimensions", "graph",
    }  # fmt: skip


def test_both_engines_have_the_same_indexes(db: Db) -> None:
    here = {name: index for name, index in catalog.indexes(db).items() if not name.endswith(("_pkey", "_hash_key"))}
    assert {here.pop(name)[0] for name in ("word_tokens", "vector_collection")} == {"word", "vector"}
    assert here == _sqlite_indexes()


def test_text_is_ordered_byte_by_byte_wherever_an_index_orders_it(db: Db) -> None:
    collations = catalog.collations(db)
    ordered = {(table, column) for table, _, on, _ in catalog.indexes(db).values() for column in on}
    assert len(ordered & collations.keys()) > 20
    assert [column for column in sorted(ordered & collations.keys()) if collations[column] != "C"] == []


def test_dropping_a_tenant_empties_every_table(db: Db) -> None:
    assert set(catalog.tables(db)) == {*INSIDE, *migrate.SYSTEM_TABLES}


# -- the way there ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stride(rounds: int) -> int:
    """Every statement is for chaos."""
    return 1 if rounds >= CHAOS else 3


def test_a_migration_killed_at_any_statement_is_resumed(empty: str, today: str, stride: int) -> None:
    """G11: what a killed process leaves is the step before, whole; the next opening goes on from there."""
    killed, *left = run_python(KILLED_AT_EVERY_STATEMENT, empty, stride).split()
    assert int(killed) * stride > _statements()
    assert left == _states()
    assert described(empty) == today


def test_a_migration_cut_off_before_any_answer_is_resumed(empty: str, today: str, stride: int) -> None:
    """The server carries out what it was asked, also if that is a commit, and nobody hears of it."""
    with Proxy(*address(empty)) as proxy, psycopg.connect(empty, autocommit=True) as observer:
        left, at, cuts = Left(observer), 1, 0
        while cuts < 1000 and _cut_off(proxy, empty, at):
            at = 1 if left.changed() else at + stride
            cuts += 1
        left.changed()
    assert cuts * stride > _statements()
    assert left.states == _states()
    assert described(empty) == today


def test_processes_that_migrate_at_once_take_turns(empty: str, today: str) -> None:
    with psycopg.connect(empty) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (migrate.LOCK,))
        openers = [python(OPEN, empty) for _ in range(3)]
        wait_until(lambda: _waiting(empty) == len(openers))
    for opener in openers:
        finish(opener)
    assert described(empty) == today


def test_a_migration_that_takes_long_is_waited_for(empty: str) -> None:
    """Other locks are given up on after a while, this one is not."""
    impatient = "-c lock_timeout=50ms"
    with psycopg.connect(empty) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (migrate.LOCK,))
        opener = python(OPEN, rewrite(empty, options=impatient))
        wait_until(lambda: _waiting(empty) == 1)
        time.sleep(0.2)
    finish(opener)
    with use_connection(empty, options=impatient) as db, db.transaction():
        migrate.take_turns(db)
        assert db.execute("SHOW lock_timeout").fetchone() == ("50ms",)


def test_opening_what_is_current_changes_nothing(empty: str) -> None:
    open_once(empty)
    before = _written(empty)
    open_once(empty)
    assert _written(empty) == before


def test_files_older_than_the_baseline_are_refused(empty: str) -> None:
    open_once(empty)
    with psycopg.connect(empty) as db:
        db.execute(f"DELETE FROM {SCHEMA}.migration")
        db.execute(f"INSERT INTO {SCHEMA}.migration (number, name) VALUES (2, 'early')")
    with pytest.raises(Unsupported, match="has schema 2, from a development version"):
        open_once(empty)


def test_files_of_a_newer_version_are_refused(empty: str) -> None:
    open_once(empty)
    with psycopg.connect(empty) as db:
        db.execute(
            f"INSERT INTO {SCHEMA}.migration (number, name) VALUES (%s, 'later')", (queries.newest("postgres") + 1,)
        )
    with pytest.raises(Unsupported, match="newer"):
        open_once(empty)


def test_a_role_that_may_use_the_tables_opens_but_does_not_change_them(empty: str) -> None:
    with owner(empty) as dsn, user(empty, f"GRANT {ROLE} TO") as guest:
        with pytest.raises(StorageError, match="does not allow"):
            open_once(guest)
        with psycopg.connect(empty, autocommit=True) as db:
            assert catalog.tables(db) == []
        open_once(dsn)
        open_once(guest)


def test_the_extension_the_schema_and_the_role_may_be_made_by_somebody_else(empty: str, today: str) -> None:
    """Then the owner of the tables needs no right to make any of them."""
    with user(empty) as owner:
        with psycopg.connect(empty, autocommit=True) as db:
            name = str(psycopg.conninfo.conninfo_to_dict(owner)["user"])
            db.execute("CREATE EXTENSION vector")
            db.execute(f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {name}".encode())
        open_once(owner)
        assert described(empty) == today
        with psycopg.connect(empty, autocommit=True) as db:
            db.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.mark.skipif(VARIABLE in os.environ, reason="needs a server of its own, on which the role is not there yet")
def test_databases_of_one_server_that_make_the_role_at_once_both_succeed(today: str) -> None:
    with Server() as server, psycopg.connect(server.dsn()) as holder:
        dsns = [server.copy(server.dsn("template1")) for _ in range(2)]
        holder.execute(f"CREATE ROLE {ROLE} NOLOGIN")
        openers = [python(OPEN, dsn) for dsn in dsns]
        wait_until(lambda: all(_waiting(dsn) == 1 for dsn in dsns))
        holder.rollback()
        for opener in openers:
            finish(opener)
        for dsn in dsns:
            assert described(dsn) == today


# -- cutting migrations off ------------------------------------------------------------------------------------------


def _states() -> list[str]:
    """What may be left of a migration: nothing, what prepares it, and a whole number of steps."""
    with database() as dsn, use_connection(dsn) as db:
        found = [digest(db)]
        migrate._prepare(db)
        found.append(digest(db))
        for step in queries.migrations("postgres"):
            take_step(db, step)
            found.append(digest(db))
        return found


def _statements() -> int:
    return sum(len(queries.statements(text)) for _, _, text in queries.migrations("postgres"))


def _cut_off(proxy: Proxy, dsn: str, number: int) -> bool:
    """Open a database whose connection is cut when the server would answer; False if it answers fewer times."""
    numbers = itertools.count(1)
    cut = proxy.cut(lambda message: message[:1] in (b"Q", b"S") and next(numbers) == number, after=True)
    try:
        with use_connection(proxy.dsn(dsn)) as db:
            migrate.ready(db, dsn)
    except psycopg.OperationalError:
        assert cut.is_set()
        return True
    proxy.disarm()
    return cut.is_set()


def _waiting(dsn: str) -> int:
    """How many wait for somebody else in a database."""
    with psycopg.connect(dsn, autocommit=True) as db:
        sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = CURRENT_DATABASE()"
        return int((db.execute(sql).fetchone() or (0,))[0])


def _written(dsn: str) -> list[Any]:
    """Which rows of the catalog are there, and by which transaction each was written."""
    with psycopg.connect(dsn) as db:
        tables = ("pg_class", "pg_attribute", "pg_policy", "pg_proc", f"{SCHEMA}.migration")
        return [db.execute(f"SELECT xmin::text, ctid::text FROM {table}".encode()).fetchall() for table in tables]


# -- what SQLite has -------------------------------------------------------------------------------------------------


@contextmanager
def _sqlite_files() -> Iterator[list[apsw.Connection]]:
    with closing(apsw.Connection(":memory:")) as tenants, closing(apsw.Connection(":memory:")) as control:
        for db, folder in ((tenants, "sqlite"), (control, "control")):
            sqlite_migrate.migrate(db, folder)
        yield [tenants, control]


def _sqlite_columns() -> dict[str, dict[str, tuple[str, bool]]]:
    found: dict[str, dict[str, tuple[str, bool]]] = {}
    with _sqlite_files() as files:
        for db in files:
            sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            for table in [str(row[0]) for row in db.execute(sql).fetchall()]:
                if not table.startswith("word_"):
                    rows = db.execute('SELECT name, type, "notnull" OR pk FROM pragma_table_info(?)', (table,))
                    found[table] = {str(name): (TYPES.get(str(kind), ""), bool(filled)) for name, kind, filled in rows}
    return found


def _sqlite_indexes() -> dict[str, tuple[str, bool, list[str], bool]]:
    found: dict[str, tuple[str, bool, list[str], bool]] = {}
    with _sqlite_files() as files:
        for db in files:
            sql = """SELECT m.tbl_name, i.name, i."unique", i.partial FROM sqlite_schema m, pragma_index_list(m.name) i
                WHERE m.type = 'table' AND i.origin = 'c'"""
            for table, name, unique, partial in db.execute(sql).fetchall():
                on = [
                    str(row[0]) for row in db.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (name,))
                ]
                found[str(name)] = (str(table), bool(unique), on, bool(partial))
    return found
