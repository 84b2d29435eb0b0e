"""The fourth wall between tenants: PostgreSQL shows no row to whoever has not said whose rows are meant.

Every table is tried, as the catalog lists them, by the role that transactions run as and by the owner of the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest
from psycopg import errors as pg

from memwell.storage import queries
from memwell.storage.postgres import migrate
from memwell.storage.postgres.connect import ROLE, SCHEMA

from ..cases import cases
from ..engines import TEMPLATE
from . import catalog
from .catalog import INSIDE, Db
from .databases import database, open_once, owner, user


@pytest.fixture
def db() -> Iterator[Db]:
    """A database as it is once it was opened, seen by a superuser."""
    with database(TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        yield connection


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """A database that belongs to a user who is no superuser, with rows of two tenants in every table."""
    with database() as dsn, owner(dsn) as its_owner:
        open_once(its_owner)
        with psycopg.connect(dsn, autocommit=True) as db:
            catalog.fill(db, "a", 101)
            catalog.fill(db, "b", 102)
            for table in reversed(migrate.TENANT_TABLES):
                catalog.fill(db, "b", 103, table)
        yield its_owner


@pytest.fixture(params=[ROLE, None], ids=["app", "owner"])
def somebody(request: pytest.FixtureRequest, shared: str) -> Iterator[Db]:
    """Somebody in a transaction who has not said anything yet: the role that owns nothing, or the owner."""
    with psycopg.connect(shared) as db:
        if request.param:
            db.execute(f"SET LOCAL ROLE {request.param}")
        db.execute(f"SET LOCAL search_path = {SCHEMA}, public")
        yield db
        db.rollback()


# -- every table is protected ----------------------------------------------------------------------------------------


def test_every_table_is_protected(db: Db) -> None:
    assert catalog.unprotected(db) == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("CREATE TABLE planted (tenant TEXT)", "planted: row-level security is off"),
        ("CREATE TABLE planted (tenant TEXT)", "planted: other policies than the one"),
        ("ALTER TABLE entry DISABLE ROW LEVEL SECURITY", "entry: row-level security is off"),
        ("ALTER TABLE job NO FORCE ROW LEVEL SECURITY", "job: its owner is not held to it"),
        ("DROP POLICY its_own ON event", "event: other policies than the one"),
        ("CREATE POLICY wide ON entry USING (TRUE)", "entry: other policies than the one"),
        ("ALTER POLICY its_own ON word WITH CHECK (TRUE)", "word: other policies than the one"),
        ("ALTER POLICY its_own ON api_key USING (TRUE)", "api_key: other policies than the one"),
        ("CREATE VIEW planted AS SELECT * FROM entry", "view planted"),
    ],
)
def test_what_is_not_protected_is_noticed(db: Db, planted: str, found: str) -> None:
    db.execute(planted.encode())
    assert found in catalog.unprotected(db)


def test_a_step_with_a_table_that_nothing_protects_is_refused(db: Db) -> None:
    with pytest.raises(AssertionError, match="stray"), db.transaction():
        migrate._step(db, 99, "stray", "CREATE TABLE stray (tenant TEXT);")
    assert "stray" not in catalog.tables(db)


def test_nobody_else_was_granted_anything(db: Db) -> None:
    granted = [line for line in catalog.schema_text(db).splitlines() if line.startswith("GRANT")]
    assert {line.split(" TO ")[1] for line in granted} == {f"{ROLE};"}
    assert {line.split(" ON ")[0] for line in granted if " TABLE " in line} == {"GRANT DELETE, INSERT, SELECT, UPDATE"}
    dsn = f"{db.info.dsn} password={db.info.password}"
    with user(dsn) as stranger, psycopg.connect(stranger) as other, pytest.raises(pg.InsufficientPrivilege):
        other.execute(f"SELECT 1 FROM {SCHEMA}.entry")


# -- what is shown, and what can be changed --------------------------------------------------------------------------


def test_without_a_tenant_there_is_no_row_to_be_seen_or_changed(somebody: Db) -> None:
    for table in _held(somebody):
        assert _count(somebody, table) == 0, table
        assert _changed(somebody, table) == (0, 0), table
        assert _refused(somebody, partial(catalog.fill, somebody, "a", 200, table)), table


def test_nor_is_there_after_a_transaction_that_had_one(shared: str) -> None:
    with psycopg.connect(shared) as db:
        db.execute(f"SET LOCAL ROLE {ROLE}; SET LOCAL memwell.tenant = 'a'; SET LOCAL memwell.system = 'on'")
        assert _count(db, f"{SCHEMA}.entry") == 1
        db.commit()
        db.execute(f"SET LOCAL ROLE {ROLE}")
        assert {_count(db, f"{SCHEMA}.{table}") for table in catalog.tables(db)} == {0}


def test_within_a_tenant_its_own_rows_are_seen_and_changed_and_no_others(somebody: Db) -> None:
    somebody.execute("SET LOCAL memwell.tenant = 'a'")
    for table in set(_held(somebody)) & INSIDE:
        assert _tenants(somebody, table) == {"a"}, table
        assert _changed(somebody, table) == (1, 1), table
        assert _refused(somebody, partial(catalog.fill, somebody, "b", 200, table)), table
        assert _refused(somebody, partial(somebody.execute, f"UPDATE {table} SET tenant = 'b'".encode())), table


def test_within_a_tenant_nothing_above_is_seen(somebody: Db) -> None:
    somebody.execute("SET LOCAL memwell.tenant = 'a'")
    for table in migrate.SYSTEM_TABLES:
        assert _count(somebody, table) == 0, table
        assert _changed(somebody, table) == (0, 0), table
        assert _refused(somebody, partial(catalog.fill, somebody, "a", 200, table)), table


def test_above_the_tenants_nothing_within_is_seen(somebody: Db) -> None:
    """Except which graphs there are, of which nothing can be changed."""
    somebody.execute("SET LOCAL memwell.system = 'on'")
    for table in set(_held(somebody)) & INSIDE:
        assert _count(somebody, table) == (3 if table == migrate.SHARED else 0), table
        assert _changed(somebody, table) == (0, 0), table
        assert _refused(somebody, partial(catalog.fill, somebody, "a", 200, table)), table


def test_above_the_tenants_everything_there_is_seen_while_it_is_on(somebody: Db) -> None:
    somebody.execute("SET LOCAL memwell.system = 'on'")
    assert [table for table in migrate.SYSTEM_TABLES if _count(somebody, table) < 2] == []
    somebody.execute("SET LOCAL memwell.system = 'off'")
    assert {_count(somebody, table) for table in migrate.SYSTEM_TABLES} == {0}


def test_a_tenant_may_write_its_own_rows(somebody: Db) -> None:
    somebody.execute("SET LOCAL memwell.tenant = 'a'")
    for table in reversed(migrate.TENANT_TABLES):
        catalog.fill(somebody, "a", 200, table)
        assert _count(somebody, f"{table} WHERE tenant = 'a'") == 2


@cases("table", sorted({*INSIDE, *migrate.SYSTEM_TABLES}))
def test_the_role_may_not_empty_a_table(shared: str, table: str) -> None:
    """No rule is asked when a table is emptied."""
    with psycopg.connect(shared) as db:
        db.execute(f"SET LOCAL ROLE {ROLE}")
        with pytest.raises(pg.InsufficientPrivilege):
            db.execute(f"TRUNCATE {SCHEMA}.{table} CASCADE".encode())


def test_words_are_looked_up_within_the_tenant_of_the_transaction_only(somebody: Db) -> None:
    asked = b"SELECT postings(%s, CAST('''b-102'' | ''b-103'' | ''a-101''' AS TSQUERY), 0)"
    found = {}
    for tenant in (None, "", "a", "b"):
        if tenant is not None:
            somebody.execute(f"SET LOCAL memwell.tenant = '{tenant}'".encode())
        answers = {who: somebody.execute(asked, (who,)).fetchone() for who in ("a", "b", "")}
        found[tenant] = {who: _numbers(row[0]) for who, row in answers.items() if row and row[0] is not None}
    assert found == {None: {}, "": {}, "a": {"a": {101}}, "b": {"b": {102, 103}}}


def _numbers(listed: bytes) -> set[int]:
    return {int.from_bytes(listed[at : at + 8]) for at in range(0, len(listed), 8)}


# -- erasure ---------------------------------------------------------------------------------------------------------


def test_every_piece_of_text_is_looked_through_for_what_was_erased(db: Db) -> None:
    """A column that the query does not name would hide what an erasure left."""
    catalog.fill(db, "a", 101)
    kept = _texts(db)
    assert len(kept) > 25
    sought = [f"needle{number}z".encode() for number in range(len(kept) + 1)]
    for (table, name), needle in zip(kept, sought, strict=False):
        db.execute(f"UPDATE {table} SET {name} = %s".encode(), (needle.decode(),))
    found = _residue(db, "a", sought)
    assert sorted(place for place, needle in zip(kept, sought, strict=False) if needle not in found) == []
    assert sought[-1] not in found
    assert _residue(db, "b", sought) == set()


def _texts(db: Db) -> list[tuple[str, str]]:
    """The columns that may hold what somebody said: text, except for words of our own and what was hashed. Files are looked
    for by their digest."""
    ours = {("graph", "state"), *((table, f"{of}_hash") for table in INSIDE for of in ("key", "request"))}
    ours |= {("blob", "content"), ("blob", "digest")}
    return [
        (table, name)
        for table in sorted(INSIDE)
        for name, (kind, _) in catalog.columns(db)[table].items()
        if kind in ("text", "tsvector", "bytea") and name != "tenant" and (table, name) not in ours
    ]


def _residue(db: Db, tenant: str, needles: list[bytes]) -> set[bytes]:
    sql = re.sub(r"(?<!:):(tenant|needles)", r"%(\1)s", queries.load("postgres")["residue"].sql).encode()
    return {bytes(row[0]) for row in db.execute(sql, {"tenant": tenant, "needles": needles})}


# -- looking and changing --------------------------------------------------------------------------------------------


def _held(db: Db) -> list[str]:
    """The tables whose rules bind whoever asks; the words' owner may see them all, for the sake of `postings`."""
    owns = db.execute("SELECT CURRENT_USER <> %s", (ROLE,)).fetchone() == (True,)
    return [table for table in catalog.tables(db) if not (owns and table == migrate.UNFORCED)]


def _count(db: Db, table: str) -> int:
    return int((db.execute(f"SELECT COUNT(*) FROM {table}".encode()).fetchone() or (-1,))[0])


def _tenants(db: Db, table: str) -> set[str]:
    return {row[0] for row in db.execute(f"SELECT tenant FROM {table}".encode())}


def _changed(db: Db, table: str) -> tuple[int, int]:
    """How many rows an update and a deletion of everything reach; both are taken back."""
    column = next(iter(catalog.columns(db)[table]))
    tables = migrate.TENANT_TABLES
    with db.transaction(force_rollback=True):
        updated = db.execute(f"UPDATE {table} SET {column} = {column}".encode()).rowcount
        for referring in tables[: tables.index(table)] if table in tables else ():
            db.execute(f"DELETE FROM {referring}".encode())
        return updated, db.execute(f"DELETE FROM {table}".encode()).rowcount


def _refused(db: Db, work: Callable[[], object]) -> bool:
    try:
        with db.transaction(force_rollback=True):
            work()
    except pg.InsufficientPrivilege:
        return True
    return False
