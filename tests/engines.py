"""Tests that store something can run on every engine: on PostgreSQL, each directory that they name is a database instead.

A test is written for a directory. On PostgreSQL, `Memory` of this module opens a database of its own instead, made from a
template that holds the tables; `located` says which, for tests that hand it to a command or another process. A test runs on
SQLite, with `--all-engines` on every engine. Those marked `every_engine` always run on every engine, those marked
`engines(...)` on the named ones only, those in `tests/postgres` on PostgreSQL. A test without a directory stores nothing.

With MEMWELL_TEST_CITUS_DSN tests run on Citus as well: the address of a single node with the extension preloaded, in which
every directory becomes a database with distributed tables.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import apsw
import psycopg
import pytest

import memwell
from memwell.storage.postgres.migrate import distribute
from memwell.storage.sqlite.connect import checksum_vfs

from .database_pool import DatabasePool
from .postgres_server import Given, Server, available

CITUS = "MEMWELL_TEST_CITUS_DSN"
ENGINES = ("sqlite", "postgres", *(["citus"] if os.environ.get(CITUS) else []))
TEMPLATE = "memwell"


class Databases:
    """Which database stands for which directory."""

    def __init__(self) -> None:
        self._servers: dict[bool, Server | Given] = {}
        self._pool: DatabasePool | None = None
        self._made: dict[Path, str] = {}
        self._lock = Lock()
        self.engine = "sqlite"

    def located(self, home: str | Path) -> str:
        """What to open in place of a directory."""
        if self.engine == "sqlite" or "://" in str(home):
            return str(home)
        place = Path(home).resolve()
        with self._lock:
            if place not in self._made:
                self._made[place] = _distributed(self.server) if self._on_citus else self.pool.take()
            return self._made[place]

    @property
    def server(self) -> Server | Given:
        """The server, started when it is first needed, with a template that holds the tables."""
        if self._on_citus not in self._servers:
            server = Given(os.environ[CITUS]) if self._on_citus else available()
            server.__enter__()
            if not self._on_citus:
                server.template(TEMPLATE, lambda dsn: memwell.Memory(dsn, worker=False).close())
            self._servers[self._on_citus] = server
        return self._servers[self._on_citus]

    @property
    def pool(self) -> DatabasePool:
        if self._pool is None:
            self._pool = DatabasePool(self.server, TEMPLATE)
        return self._pool

    @property
    def _on_citus(self) -> bool:
        return self.engine == "citus"

    def inside(self, folder: Path) -> list[tuple[Path, str]]:
        """The directories inside a folder that databases stand for."""
        folder = folder.resolve()
        return [(place, dsn) for place, dsn in self._made.items() if place.is_relative_to(folder)]

    def copy(self, home: Path, copy: Path) -> None:
        """A copy of what a directory holds, which nobody has open."""
        if self.engine == "sqlite":
            shutil.copytree(home, copy)
        else:
            dsn = self._made[home.resolve()]
            if not self._on_citus:
                self.pool.hang_up(dsn)
            self._made[copy.resolve()] = self.server.copy(dsn)

    def remove(self, copy: Path) -> None:
        if self.engine == "sqlite":
            shutil.rmtree(copy)
        else:
            self.drop(copy)

    def drop(self, folder: Path) -> None:
        """Drop what stands for the directories inside a folder."""
        for place, dsn in self.inside(folder):
            del self._made[place]
            if self._on_citus:
                self.server.drop(dsn)
            else:
                self.pool.give_back(dsn)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        for server in self._servers.values():
            server.__exit__(None, None, None)


DATABASES = Databases()
located = DATABASES.located


if TYPE_CHECKING:
    from memwell import AsyncMemory as AsyncMemory
    from memwell import Memory as Memory
else:

    class Memory(memwell.Memory):
        """A memory in a directory, or in the database that stands for it."""

        def __init__(self, home=None, **settings):
            super().__init__(None if home is None else located(home), **settings)

    class AsyncMemory(memwell.AsyncMemory):
        """The same, awaited."""

        def __init__(self, home=None, **settings):
            super().__init__(None if home is None else located(home), **settings)


@contextmanager
def two_tenants(home: str | Path) -> Iterator[tuple[Memory, Memory]]:
    """Two memories in one place that share nothing but the disk or the server."""
    with Memory(home, tenant="alpha", worker=False) as alpha, Memory(home, tenant="beta", worker=False) as beta:
        yield alpha, beta


def engines_of(test: pytest.Item, folder: str, directory: bool, everywhere: bool) -> tuple[str, ...]:
    """Return the engines to run a test on; none for a test that stores nothing."""
    chosen = test.get_closest_marker("engines")
    if chosen is not None:
        return tuple(chosen.args)
    if folder == "postgres":
        return ("postgres",)
    if folder == "unit" or not directory:
        return ()
    return ENGINES if everywhere or test.get_closest_marker("every_engine") else ENGINES[:1]


def _distributed(server: Server | Given) -> str:
    """A database of its own on Citus, which stays connected to each of them, so that none can be a template."""
    dsn = server.copy(server.dsn("template1"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION citus")
    memwell.Memory(dsn, worker=False).close()
    distribute(dsn)
    return dsn


def query(home: str | Path, sql: str) -> list[tuple[Any, ...]]:
    """Run SQL behind the engine's back, on the tables of the default tenant."""
    if DATABASES.engine == "sqlite":
        with closing(apsw.Connection(str(Path(home) / "tenants" / "default.db"), vfs=checksum_vfs())) as db:
            return db.execute(sql).fetchall()
    with psycopg.connect(located(home), autocommit=True) as connection:
        connection.execute("SET search_path = memwell, public")
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def listeners(home: Path) -> int:
    """How many listen to what happens in a directory."""
    if DATABASES.engine == "sqlite":
        return len(list((home / "live").glob("*")))
    sql = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'memwell listener' AND datname = CURRENT_DATABASE()"
    return len(query(home, sql))


def remains(folder: Path) -> dict[str, bytes]:
    """Every byte that is kept in a folder: of its files, and of the tables that stand for directories inside it."""
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for place, dsn in DATABASES.inside(folder):
        found.update((f"{place.name}: {table}", data) for table, data in _tables(dsn))
    return found


def _tables(dsn: str) -> Iterator[tuple[str, bytes]]:
    with psycopg.connect(dsn) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'memwell'").fetchall()
        for (name,) in names:
            with connection.cursor().copy(f"COPY memwell.{name} TO STDOUT (FORMAT binary)".encode()) as copy:
                yield name, b"".join(map(bytes, copy))
