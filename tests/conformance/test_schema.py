"""The tables of a tenant's file, and the way there: every step, killed anywhere, is taken up again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import apsw.ext
import pytest

from memwell.errors import StorageError, Unsupported
from memwell.storage import queries
from memwell.storage.copier import load_tables
from memwell.storage.queries import newest
from memwell.storage.sqlite import SqliteStore, connect
from memwell.storage.sqlite.connect import APPLICATION_ID
from memwell.storage.sqlite.file import SqliteFile, upgrade

from .scene import TENANT, FrozenClock, run_python

pytestmark = pytest.mark.engines("sqlite")

FOLDERS = ("sqlite", "control")

# One process that forks for each statement: the child dies in front of it.
KILLED_AT_EVERY_STATEMENT = """
import os, sys
from pathlib import Path
import apsw
from memwell.storage.sqlite.file import upgrade

def die_before(k):
    seen = 0
    def trace(cursor, sql, bindings):
        nonlocal seen
        seen += 1
        if seen == k:
            os._exit(9)
        return True
    apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", trace))

folder, home, k = sys.argv[1], Path(sys.argv[2]), 0
while True:
    k += 1
    child = os.fork()
    if child == 0:
        die_before(k)
        upgrade(home / f"{k}.db", folder, "full", None)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        break
    if code != 9:
        sys.exit(f"the migration failed by itself before statement {k}")
print(k - 1)
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    upgrade(tmp_path / "fresh.db", "sqlite", "full", None)
    connection = apsw.Connection(str(tmp_path / "fresh.db"))
    yield connection
    connection.close()


# -- the third wall: keys --------------------------------------------------------------------------------------------


def test_every_table_names_its_tenant(db: apsw.Connection) -> None:
    for table in _tables(db):
        columns = {column["name"]: column for column in _pragma(db, "table_info", table)}
        assert columns["tenant"]["notnull"] == 1, table


def test_every_primary_key_begins_with_the_tenant(db: apsw.Connection) -> None:
    keys = {}
    for table in _tables(db):
        columns = sorted((column["pk"], column["name"]) for column in _pragma(db, "table_info", table) if column["pk"])
        keys[table] = [name for _, name in columns]
    # A full-text index can only point at an integer that SQLite itself looks after; (tenant, id, version) is the key.
    assert keys.pop("entry") == ["docid"]
    assert "entry_version" in [index["name"] for index in _pragma(db, "index_list", "entry") if index["unique"]]
    assert {table: key for table, key in keys.items() if key[0] != "tenant" or len(key) < 2} == {}


def test_every_index_begins_with_the_tenant(db: apsw.Connection) -> None:
    indexes = [index["name"] for table in _tables(db) for index in _pragma(db, "index_list", table)]
    assert len(indexes) > 10
    assert [name for name in indexes if _columns_of(db, name)[0] != "tenant"] == []


def test_every_reference_begins_with_the_tenant(db: apsw.Connection) -> None:
    references = [
        (table, reference["table"], reference["from"], reference["to"])
        for table in _tables(db)
        for reference in _pragma(db, "foreign_key_list", table)
        if reference["seq"] == 0
    ]
    assert len(references) >= 3
    assert [line for line in references if line[2:] != ("tenant", "tenant")] == []


def test_references_are_enforced_where_it_is_written(sqlite: SqliteStore) -> None:
    enforced = sqlite._files.use(TENANT, lambda file: file.write(lambda db: db.connection.pragma("foreign_keys")))
    assert enforced == 1


def test_every_table_is_copied_with_all_its_columns(db: apsw.Connection) -> None:
    """Vectors are copied with their entries, as words are."""
    tables = load_tables()
    assert set(_tables(db)) == {*tables, "vector"}
    for table in tables.values():
        columns = _pragma(db, "table_info", table.name)
        assert list(table.columns) == [column["name"] for column in columns if column["name"] != "tenant"]
        key = sorted((column["pk"], column["name"]) for column in columns if column["pk"])
        assert list(table.key) == [name for _, name in key if name != "tenant"]


# -- migrations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS)
def test_migrations_are_numbered_without_gaps(folder: str) -> None:
    numbers = [number for number, _, _ in queries.migrations(folder)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert newest(folder) == numbers[-1]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_migration_is_split_into_its_statements(folder: str) -> None:
    for _, _, text in queries.migrations(folder):
        statements = queries.statements(text)
        assert all(apsw.complete(f"{statement};") for statement in statements)
        assert "".join(statements).count("CREATE ") == text.count("CREATE ") <= len(statements)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_migration_killed_at_any_statement_is_resumed(tmp_path: Path, folder: str) -> None:
    """G11: what a killed process leaves is the step before, whole; the next opening goes on from there."""
    killed = int(run_python(KILLED_AT_EVERY_STATEMENT, folder, tmp_path))
    assert killed > sum(len(queries.statements(text)) for _, _, text in queries.migrations(folder))
    undisturbed = _schema(_made(tmp_path / "undisturbed.db", folder))
    steps = range(1, len(queries.migrations(folder)))
    between = [_schema(_made_up_to(tmp_path / f"step-{step}.db", folder, step)) for step in steps]
    for k in range(1, killed + 1):
        path = tmp_path / f"{k}.db"
        assert _schema_left(path) in (([], 0), *between, undisturbed), f"half a step was left before statement {k}"
        _reopen(path, folder)
        assert _schema(path) == undisturbed, f"not resumed after a kill before statement {k}"


def test_opening_what_is_current_changes_nothing(tmp_path: Path) -> None:
    path = _made(tmp_path / "made.db", "sqlite")
    before = path.read_bytes()
    SqliteFile(path, "sqlite", durability="full", vfs=None).close()
    upgrade(path, "sqlite", "full", None)
    assert path.read_bytes() == before


# -- files that are refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["control.db", f"tenants/{TENANT}.db"])
def test_a_file_of_a_newer_program_is_refused(tmp_path: Path, clock: FrozenClock, file: str) -> None:
    home = _home(tmp_path, clock)
    _set(home / file, user_version=newest("sqlite") + 1)
    before = (home / file).read_bytes()
    with pytest.raises(Unsupported, match="newer"):
        _look(home, clock)
    assert (home / file).read_bytes() == before


@pytest.mark.parametrize("file", ["control.db", f"tenants/{TENANT}.db"])
def test_a_file_from_before_the_baseline_is_refused(tmp_path: Path, clock: FrozenClock, file: str) -> None:
    home = _home(tmp_path, clock)
    _set(home / file, user_version=2)
    before = (home / file).read_bytes()
    with pytest.raises(Unsupported, match="has schema 2, from a development version"):
        _look(home, clock)
    assert (home / file).read_bytes() == before


@pytest.mark.parametrize("file", ["control.db", f"tenants/{TENANT}.db"])
def test_a_file_of_another_program_is_refused(tmp_path: Path, clock: FrozenClock, file: str) -> None:
    home = _home(tmp_path, clock)
    for version in (2, newest("sqlite"), newest("sqlite") + 1):
        _set(home / file, application_id=APPLICATION_ID + 1, user_version=version)
        before = (home / file).read_bytes()
        with pytest.raises(StorageError, match="not a Memwell file"):
            _look(home, clock)
        assert (home / file).read_bytes() == before


def test_another_programs_file_without_a_version_is_refused_too(tmp_path: Path, clock: FrozenClock) -> None:
    home = _home(tmp_path, clock)
    path = home / "tenants" / f"{TENANT}.db"
    path.unlink()
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE bookmarks (url)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StorageError):
        _look(home, clock)
    assert path.read_bytes() == before


def _tables(db: apsw.Connection) -> list[str]:
    """The tables of ours; the index of words is FTS5's own business, and one file's."""
    found = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    return [str(row[0]) for row in found if row[0] != "word" and not row[0].startswith("word_")]


def _pragma(db: apsw.Connection, pragma: str, subject: str) -> list[dict[str, Any]]:
    query = f"SELECT * FROM pragma_{pragma}(?)"
    names = [column[0] for column in apsw.ext.query_info(db, query).description]
    return [dict(zip(names, row, strict=True)) for row in db.execute(query, (subject,))]


def _columns_of(db: apsw.Connection, index: str) -> list[str]:
    return [str(column["name"]) for column in _pragma(db, "index_info", index)]


def _made_up_to(path: Path, folder: str, step: int) -> Path:
    """A file as an older program made it."""
    db = connect.open_writer(path, "full", None, create=True)
    for number, _, text in queries.migrations(folder)[:step]:
        for statement in queries.statements(text):
            db.execute(statement)
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", number)
    db.close()
    return path


def _made(path: Path, folder: str) -> Path:
    upgrade(path, folder, "full", None)
    return path


def _reopen(path: Path, folder: str) -> None:
    if path.exists():
        SqliteFile(path, folder, durability="full", vfs=None, may_be_empty=True).close()
    else:
        upgrade(path, folder, "full", None)


def _schema(path: Path) -> tuple[list[Any], Any]:
    """Everything that a migration makes: the objects, and the number and mark of the file."""
    db = apsw.Connection(str(path))
    try:
        objects = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
        return objects, db.pragma("user_version")
    finally:
        db.close()


def _schema_left(path: Path) -> tuple[list[Any], Any]:
    """The same without touching the file: a look repairs what a killed process left."""
    copy = path.with_name("copy")
    copy.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copy)
    try:
        return _schema(copy / path.name)
    finally:
        shutil.rmtree(copy)


def _home(tmp_path: Path, clock: FrozenClock) -> Path:
    store = SqliteStore(tmp_path / "home", clock=clock.now)
    store.create(TENANT)
    store.close()
    for path in ("control.db", f"tenants/{TENANT}.db"):
        apsw.Connection(str(tmp_path / "home" / path), vfs=connect.checksum_vfs()).pragma("wal_checkpoint(truncate)")
    return tmp_path / "home"


def _set(path: Path, **pragmas: int) -> None:
    db = apsw.Connection(str(path), vfs=connect.checksum_vfs())
    for name, value in pragmas.items():
        db.pragma(name, value)
    db.close()


def _look(home: Path, clock: FrozenClock) -> None:
    store = SqliteStore(home, clock=clock.now)
    try:
        store.read(TENANT, lambda tx: tx.row("last_event"))
    finally:
        store.close()
