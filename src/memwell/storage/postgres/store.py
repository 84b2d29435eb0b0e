"""The store in a PostgreSQL database: all tenants share the tables, and each sees its own rows."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from ...errors import NotFound, StorageError
from .. import queries
from ..blobs import Blobs, TableBlobs
from ..copier import Approve, Arrival, copy_all, copy_queries, find_creation_time
from ..group_commit import GroupCommit
from ..port import Remains, Rewrite, Tx, require_absent, tenant_mark
from . import connect, graph, migrate
from .connect import Mode, Pool
from .control import ControlTables, PostgresNotifier
from .scrub import count_stale_pages, list_remains, rewrite_tables
from .statements import Connection, find_halfvec_oid
from .tx import Batch, PostgresSession, PostgresTx

if TYPE_CHECKING:
    from ..sqlite import SqliteStore

T = TypeVar("T")

PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0)
"""Pauses before further attempts."""
PATIENCE_S = 5.0
KNOWN_TENANTS = 10_000


class PostgresStore:
    """All data in one database. Any number of processes may share it."""

    def __init__(
        self,
        dsn: str,
        *,
        clock: Callable[[], int],
        connections: int = 16,
    ) -> None:
        self._clock = clock
        self._queries = queries.load("postgres") | copy_queries()
        with connect.use_connection(dsn) as setup, connect.translate_errors(dsn):
            place = migrate.ready(setup, dsn)
            self._halfvec = find_halfvec_oid(setup)
            self._version = setup.info.server_version
        self._pool = Pool(place, connections)
        self._groups: OrderedDict[str, tuple[PostgresSession, GroupCommit]] = OrderedDict()
        self._lock = Lock()
        self._scrubbing = Lock()
        self._scrubbed_from = float("-inf")
        self._unwritten: list[str] = []
        self.control = ControlTables(self.run_above)
        self.notifier = PostgresNotifier(dsn, self.use_pooled)
        self.on_due: Callable[[int], None] = lambda at: None

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        return self._read_snapshot(tenant, work, must_exist=True)

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T:
        session, group = self._group(tenant)

        def run() -> tuple[T, int | None]:
            tx = PostgresTx(session.batch, self._queries, tenant, self._halfvec, session)
            return work(tx), tx.due_at

        result, due_at = self._retry(lambda: group.run(run))
        if due_at is not None:
            with suppress(StorageError):  # the write is durable, and workers find its job even without a hint
                self.control.hint("add_hint", tenant=tenant, due_at=due_at)
            self.on_due(due_at)
        return result

    def blobs(self, tenant: str) -> TableBlobs:
        return TableBlobs(
            lambda work: self.read(tenant, work), lambda work: self._write_blob(tenant, work), self._clock
        )

    def create(self, tenant: str) -> bool:
        def create(db: Connection) -> bool:
            if not self.control.run(db, "add_tenant", {"id": tenant, "now": self._clock()}):
                return False
            self.empty(db, tenant)  # the remains of an abandoned move
            self._add_writer(db, tenant, 0)
            return True

        return not self.control.rows("find_tenant", id=tenant) and self.run_above(create, True)

    def admit(self, db: Connection, tenant: str, number: int, created_at: int) -> bool:
        """Make a tenant visible. `number` is the highest number of its entries. Return False if it existed."""
        created = bool(self.control.run(db, "add_tenant", {"id": tenant, "now": created_at}))
        if created:
            self._add_writer(db, tenant, number)
        return created

    def _add_writer(self, db: Connection, tenant: str, number: int) -> None:
        db.execute(f"SET LOCAL memwell.tenant = {connect.literal(tenant)}")
        db.execute("INSERT INTO writer (tenant, docid) VALUES (%s, %s)", (tenant, number))

    def receive(self, tenant: str, created_at: int | None = None) -> PostgresReceiver:
        require_absent(bool(self.control.rows("find_tenant", id=tenant)), tenant)
        return PostgresReceiver(self, tenant, self._clock() if created_at is None else created_at)

    @property
    def copier(self) -> PostgresCopier:
        return PostgresCopier(self)

    def drop(self, tenant: str) -> bool:
        known = self.control.rows("find_tenant", id=tenant)

        def drop(db: Connection) -> bool:
            for row in known:
                self.control.run(db, "add_dropped", {"id": tenant_mark(*row), "at": self._clock()})
            self.empty(db, tenant)
            self.control.run(db, "delete_keys_of", {"tenant": tenant})
            self.control.run(db, "forget_hint", {"tenant": tenant})
            return bool(self.control.run(db, "delete_tenant", {"id": tenant}))

        with self._lock:
            self._groups.pop(tenant, None)
        return self.run_above(drop, True)

    def scrub(self, tenant: str, rewrite: Rewrite = "never") -> bool:
        """Remove deleted rows from the files of the tables. Callers that wait for each other share one pass."""
        self.read(tenant, lambda tx: None)
        if rewrite == "never":
            return True
        asked_at = time.monotonic()
        with self._scrubbing:
            if rewrite == "always" or self._scrubbed_from < asked_at:
                began_at = time.monotonic()
                with connect.use_connection(self._pool.place.dsn) as db, connect.translate_errors():
                    self._unwritten = rewrite_tables(db, rewrite)
                self._scrubbed_from = began_at
            return rewrite == "small" or not self._unwritten

    def find_remains(self, tenant: str) -> list[Remains]:
        return list_remains(self._unwritten)

    def count_stale_pages(self, tenant: str) -> tuple[int, int] | None:
        with connect.use_connection(self._pool.place.dsn) as db, connect.translate_errors():
            return count_stale_pages(db)

    def residue(self, tenant: str, needles: list[bytes]) -> list[bytes]:
        """Search the rows, because a client cannot read the server's files."""
        rows = self._read_snapshot(tenant, lambda tx: tx.rows("residue", needles=needles)) if needles else []
        found = {bytes(row[0]) for row in rows}
        return [needle for needle in needles if needle in found]

    def tend(self, tenant: str) -> dict[str, int]:
        return graph.tend(self, tenant)

    def check(self, tenant: str) -> list[str]:
        self.read(tenant, lambda tx: tx.rows("job_backlog"))
        return []

    def describe(self) -> dict[str, Any]:
        version = f"{self._version // 10_000}.{self._version % 10_000}"
        return {"engine": "postgresql", "version": version, "durability": "full"}

    def close(self) -> None:
        self.notifier.close()
        self._pool.close()

    def empty(self, db: Connection, tenant: str) -> None:
        """Delete every row of a tenant."""
        db.execute(f"SET LOCAL memwell.tenant = {connect.literal(tenant)}")
        for table in ("writer", *migrate.TENANT_TABLES):  # the first delete waits for a writer
            db.execute(f"DELETE FROM {table} WHERE tenant = %s", (tenant,))  # noqa: S608 -- our own names

    # -- transactions ------------------------------------------------------------------------------------------------

    def _read_snapshot(self, tenant: str, work: Callable[[Tx], T], *, must_exist: bool = False) -> T:
        """Run work on a snapshot of a tenant."""

        def run(connection: Connection) -> T:
            known = f"SELECT 1 FROM writer WHERE tenant = {connect.literal(tenant)}"  # noqa: S608 -- a quoted literal
            if self._pool.enter(connection, "read", tenant, known) is None and must_exist:
                raise NotFound("There is no such tenant.")
            return work(PostgresTx(Batch(connection), self._queries, tenant, self._halfvec))

        return self._retry(lambda: self._transact(run))

    def use_pooled(self, work: Callable[[Connection], bool], wait_s: float | None = None) -> bool:
        """Run work on a connection of the pool, outside a transaction."""
        with connect.translate_errors():
            connection = self._pool.take(wait_s)
            try:
                return work(connection)
            finally:
                self._pool.give_back(connection)

    def run_above(self, work: Callable[[Connection], T], writes: bool) -> T:
        """Run work in a transaction above the tenants."""
        mode: Mode = "write" if writes else "read"

        def run(connection: Connection) -> T:
            self._pool.enter(connection, mode, None)
            return work(connection)

        return self._retry(lambda: self._transact(run, writes))

    def write_unlocked(self, tenant: str, work: Callable[[Tx], T]) -> T:
        """Run a transaction without the lock of the tenant, which need not exist yet."""

        def run(connection: Connection) -> T:
            self._pool.enter(connection, "write", tenant)
            batch = Batch(connection)
            result = work(PostgresTx(batch, self._queries, tenant, self._halfvec))
            batch.flush()
            return result

        return self._retry(lambda: self._transact(run, writes=True))

    def _write_blob(self, tenant: str, work: Callable[[Tx], T]) -> T:
        """Write large data without blocking the tenant's writers. The end of the transaction checks that the tenant still
        exists."""

        def run(tx: Tx) -> T:
            result = work(tx)
            if tx.row("hold_tenant_row") is None:
                raise NotFound("There is no such tenant.")
            return result

        return self.write_unlocked(tenant, run)

    def _transact(self, work: Callable[[Connection], T], writes: bool = False) -> T:
        """Run work in a transaction. A read can be repeated even if its end fails."""
        connection = self._pool.take()
        try:
            result = work(connection)
            if writes:
                connect.commit(connection)
            else:
                connect.end_transaction(connection, "COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                connect.end_transaction(connection, "ROLLBACK")
            raise
        finally:
            self._pool.give_back(connection)
        return result

    def _retry(self, work: Callable[[], T]) -> T:
        """Repeat work if the connection was lost before the commit, because a restarted server is soon available again."""
        until = time.monotonic() + PATIENCE_S
        for pause_s in (*PAUSES_S, None):
            try:
                return work()
            except psycopg.Error as error:
                if pause_s is None or time.monotonic() > until or not connect.is_lost(error):
                    raise connect.to_error(error) from error
            time.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _group(self, tenant: str) -> tuple[PostgresSession, GroupCommit]:
        with self._lock:
            found = self._groups.get(tenant)
            if found is None:
                session = PostgresSession(self._pool, tenant)
                found = self._groups[tenant] = session, GroupCommit(session)
                while len(self._groups) > KNOWN_TENANTS:
                    self._groups.popitem(last=False)
            else:
                self._groups.move_to_end(tenant)
            return found


# -- copying tenants -------------------------------------------------------------------------------------------------------


class PostgresReceiver:
    """The rows of a tenant that is being moved here and is not in the list of tenants yet."""

    def __init__(self, store: PostgresStore, tenant: str, created_at: int) -> None:
        self._store, self._tenant, self._created_at = store, tenant, created_at
        self.blobs = TableBlobs(self.write, self.write, store._clock)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._store.write_unlocked(self._tenant, work)

    def start_over(self) -> None:
        self._store.run_above(lambda db: self._store.empty(db, self._tenant), True)

    def finish(self, number: int) -> None:
        self._store.run_above(lambda db: self._store.admit(db, self._tenant, number, self._created_at), True)


class PostgresCopier:
    """Copies tenants row by row."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def copy_out(self, tenant: str, target: SqliteStore) -> list[str]:
        """Copy rows and files from one snapshot."""
        receiver, blobs = target.receive(tenant, find_creation_time(self._store, tenant)), self._store.blobs(tenant)
        number, lost = self._store.read(tenant, lambda tx: copy_all(tx, blobs.within(tx), receiver))
        receiver.finish(number)
        return lost

    def copy_in(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        receiver = self._store.receive(arrival.tenant)
        number, _ = source.write(arrival.tenant, lambda tx: copy_all(tx, blobs, receiver))
        return arrival._replace(number=number)

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        def admit_all(db: Connection) -> None:
            for one in arrivals:
                require_absent(not self._store.admit(db, one.tenant, one.number, one.created_at), one.tenant)
                for key in one.keys:
                    self._store.control.run(db, "put_key", key)

        self._store.run_above(admit_all, True)

    def discard(self) -> None:
        """Do nothing: the next restore continues with the rows, or creating the tenant removes them."""

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, approve: Approve) -> bool:
        """Replace a tenant in one transaction that locks it. Its writers wait, and its readers see the old rows."""
        store, quoted = self._store, connect.literal(tenant)
        lock = f"SELECT 1 FROM writer WHERE tenant = {quoted} FOR UPDATE"  # noqa: S608 -- a quoted literal

        def replace(connection: Connection) -> bool:
            if store._pool.enter(connection, "write", tenant, lock) is None:
                raise NotFound("There is no such tenant.")
            receiver = _Replacement(store, connection, tenant)
            if not receiver.write(approve):
                return False
            receiver.start_over()
            number, _ = source.write(tenant, lambda tx: copy_all(tx, blobs, receiver))
            receiver.finish(number)
            return True

        with connect.translate_errors():
            return store._transact(replace, writes=True)


class _Replacement:
    """A tenant that is emptied and filled again in one transaction."""

    def __init__(self, store: PostgresStore, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant
        self._batch = Batch(connection)
        self._tx = PostgresTx(self._batch, store._queries, tenant, store._halfvec)
        self.blobs = TableBlobs(self.write, self.write, store._clock)

    def write(self, work: Callable[[Tx], T]) -> T:
        result = work(self._tx)
        self._batch.flush()
        return result

    def start_over(self) -> None:
        for table in migrate.TENANT_TABLES:  # without `writer`, whose row is locked
            self._connection.execute(f"DELETE FROM {table} WHERE tenant = %s", (self._tenant,))  # noqa: S608 -- our own names

    def finish(self, number: int) -> None:
        self._connection.execute("UPDATE writer SET docid = %s WHERE tenant = %s", (number, self._tenant))
