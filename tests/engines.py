"""Tests that store something can run on every engine: on PostgreSQL, each directory that they name is a database instead.

A test is written for a directory. On PostgreSQL, `Memory` of this module opens a database of its own instead, made from a
template that holds the tables; `located` says which, for tests that hand it to a command or another process. Tests of
SQLite's own files are marked `sqlite`, modules that store nothing are listed below, and a test without a directory stores
nothing.

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

import memwell
from memwell.storage.postgres.citus import distribute

from .postgres import Given, Server, available
from .recycled import Recycled

CITUS = "MEMWELL_TEST_CITUS_DSN"
ENGINES = ("sqlite", "postgres", *(["citus"] if os.environ.get(CITUS) else []))
KEEPS_NOTHING = frozenset(
    {
        "test_architecture",
        "test_architecture_guide",
        "test_assemble",
        "test_citus",
        "test_completer",
        "test_dialogues",
        "test_docs",
        "test_extract",
        "test_extract_input",
        "test_fence",
        "test_filters",
        "test_filters_postgres",
        "test_models",
        "test_moments",
        "test_move",
        "test_propose",
        "test_reconcile",
        "test_scripted_server",
        "test_summary",
        "test_suspicion",
        "test_template",
        "test_trust",
        "test_agreement",
        "test_workflow_documents",
        "test_anthropic",
        "test_streaming",
    }
)
SQLITE_ITSELF = frozenset(
    {"test_faults", "test_group_commit", "test_planner", "test_power_loss", "test_schema", "test_upgrade"}
)
POSTGRES_ITSELF = frozenset(
    {
        "test_graph",
        "test_postgres_faults",
        "test_postgres_planner",
        "test_postgres_restarts",
        "test_postgres_schema",
        "test_postgres_walls",
        "test_rules",
    }
)
EVERY_ENGINE = frozenset(
    {
        "test_backup",
        "test_compaction",
        "test_conformance",
        "test_erasure",
        "test_files",
        "test_jobs",
        "test_plans",
        "test_s0_consolidation",
        "test_s0_search",
        "test_s0_sessions",
        "test_s0_store",
        "test_s1_banks",
        "test_s1_steps",
        "test_s2_sessions",
        "test_s2_stores",
        "test_s3_memory",
        "test_s3_workflows",
        "test_s4_agent_log",
        "test_s4_hooks",
        "test_tenancy",
        "test_transfer",
        "test_unsay",
        "test_user_records",
        "test_users",
    }
)
"""Every area of the contract once: these run on every engine always, all others with `--all-engines`."""
TEMPLATE = "memwell"


class Databases:
    """Which database stands for which directory."""

    def __init__(self) -> None:
        self._servers: dict[bool, Server | Given] = {}
        self._recycled: Recycled | None = None
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
                self._made[place] = _distributed(self.server) if self._on_citus else self.recycled.take()
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
    def recycled(self) -> Recycled:
        if self._recycled is None:
            self._recycled = Recycled(self.server, TEMPLATE)
        return self._recycled

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
                self.recycled.hang_up(dsn)
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
                self.recycled.give_back(dsn)

    def close(self) -> None:
        if self._recycled is not None:
            self._recycled.close()
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


def engines_of(module: str, marked: bool, directory: bool, everywhere: bool) -> tuple[str, ...]:
    """On which engines a test runs; none: it keeps nothing, as it has no directory to keep it in."""
    if module in KEEPS_NOTHING:
        return ()
    if module in POSTGRES_ITSELF:
        return ENGINES[1:2]
    if marked or module in SQLITE_ITSELF:
        return ENGINES[:1]
    if not directory:
        return ()
    return ENGINES if everywhere or module in EVERY_ENGINE else ENGINES[:1]


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
        with closing(apsw.Connection(str(Path(home) / "tenants" / "default.db"))) as db:
            return db.execute(sql).fetchall()
    with psycopg.connect(located(home), autocommit=True) as connection:
        connection.execute("SET search_path = memwell, public")
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def listeners(home: Path) -> int:
    """How many listen to what happens in a directory."""
    if DATABASES.engine == "sqlite":
        return len(list((home / "live").iterdir()))
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
