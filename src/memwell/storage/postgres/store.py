"""The store in a PostgreSQL database: all tenants in the same tables, each seeing its own rows."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from ...errors import NotFound, StorageError
from .. import queries
from ..blobs import TableBlobs
from ..group_commit import GroupCommit
from ..port import Rewrite, Tx, require_absent, tenant_mark
from ..tables import copy_queries
from . import connect, migrate
from .connect import Mode, Pool
from .control import ControlTables
from .graph import Gardener
from .notifier import PostgresNotifier
from .statements import Connection, find_halfvec_oid
from .tx import Batch, PostgresSession, PostgresTx

if TYPE_CHECKING:
    from .copier import PostgresCopier

T = TypeVar("T")

PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0)
"""Before each further attempt. Whoever waits longer than this is better told to come back."""
PATIENCE_S = 5.0
KNOWN_TENANTS = 10_000


class PostgresStore:
    """Everything about storage, in one database. Any number of processes may share it."""

    def __init__(
        self,
        dsn: str,
        *,
        clock: Callable[[], int],
        connections: int = 16,
        on_due: Callable[[str, int], None] = lambda tenant, at: None,
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
        self.control = ControlTables(self._run_above)
        self.notifier = PostgresNotifier(dsn, self._use_connection)
        self.on_due = on_due

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        return self._in(tenant, work, must_exist=True)

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T:
        session, group = self._group(tenant)

        def run() -> tuple[T, int | None]:
            tx = PostgresTx(session.batch, self._queries, tenant, self._halfvec, session)
            return work(tx), tx.due_at

        result, due_at = self._retry(lambda: group.run(run))
        if due_at is not None:
            with suppress(StorageError):  # what was written is durable; a sweep finds what the hint stood for
                self.control.hint("add_hint", tenant=tenant, due_at=due_at)
            self.on_due(tenant, due_at)
        return result

    def blobs(self, tenant: str) -> TableBlobs:
        return TableBlobs(
            lambda work: self.read(tenant, work), lambda work: self._write_beside(tenant, work), self._clock
        )

    def create(self, tenant: str) -> bool:
        return not self.control.rows("find_tenant", id=tenant) and self._run_above(self._create(tenant), True)

    def _create(self, tenant: str) -> Callable[[Connection], bool]:
        def create(db: Connection) -> bool:
            if not self.control.run(db, "add_tenant", {"id": tenant, "now": self._clock()}):
                return False
            self.empty(db, tenant)  # what a move left behind when it was given up
            self._add_writer(db, tenant, 0)
            return True

        return create

    def admit_tenant(self, tenant: str, number: int, created_at: int) -> bool:
        """Let a tenant exist whose entries have numbers up to one; False if it was there already."""
        return self._run_above(lambda db: self.admit(db, tenant, number, created_at), True)

    def admit(self, db: Connection, tenant: str, number: int, created_at: int) -> bool:
        """The same, in a transaction that is above all tenants."""
        made = bool(self.control.run(db, "add_tenant", {"id": tenant, "now": created_at}))
        if made:
            self._add_writer(db, tenant, number)
        return made

    def _add_writer(self, db: Connection, tenant: str, number: int) -> None:
        db.execute(f"SET LOCAL memwell.tenant = {connect.literal(tenant)}")
        db.execute("INSERT INTO writer (tenant, docid) VALUES (%s, %s)", (tenant, number))

    def receive(self, tenant: str, created_at: int | None = None) -> PostgresReceiver:
        """A tenant in the making: its rows are there, and nobody can see them."""
        require_absent(bool(self.control.rows("find_tenant", id=tenant)), tenant)
        return PostgresReceiver(self, tenant, self._clock() if created_at is None else created_at)

    @property
    def copier(self) -> PostgresCopier:
        from .copier import PostgresCopier

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
        return self._run_above(drop, True)

    def scrub(self, tenant: str, rewrite: Rewrite = "never") -> bool:
        """Have the server take back the room of deleted rows. What its log and its backups hold is the server's."""
        self.read(tenant, lambda tx: None)

        def vacuum(connection: Connection) -> bool:
            for table in migrate.TENANT_TABLES:
                connection.execute(f"VACUUM {connect.SCHEMA}.{table}")
            return True

        return rewrite == "never" or self._use_connection(vacuum)

    def residue(self, tenant: str, needles: list[bytes]) -> list[bytes]:
        """Which are found in rows. A client cannot look into the server's files."""
        found = self._in(tenant, lambda tx: tx.rows("residue", needles=needles)) if needles else []
        held = {bytes(row[0]) for row in found}
        return [needle for needle in needles if needle in held]

    def tend(self, tenant: str) -> dict[str, int]:
        """See to it that large collections are in a graph, and small ones are not."""
        gardener = Gardener(
            lambda work: self.read(tenant, work),
            lambda work: self.write(tenant, work),
            self._use_connection,
            lambda work: self._run_above(work, False),
        )
        return gardener.tend()

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
        for table in ("writer", *migrate.TENANT_TABLES):  # the first waits for whoever is writing
            db.execute(f"DELETE FROM {table} WHERE tenant = %s", (tenant,))  # noqa: S608 -- our own names

    # -- transactions ------------------------------------------------------------------------------------------------

    def _in(self, tenant: str, work: Callable[[Tx], T], *, must_exist: bool = False) -> T:
        """A snapshot within a tenant."""

        def run(connection: Connection) -> T:
            known = f"SELECT 1 FROM writer WHERE tenant = {connect.literal(tenant)}"  # noqa: S608 -- a quoted literal
            if self._pool.enter(connection, "read", tenant, known) is None and must_exist:
                raise NotFound("There is no such tenant.")
            return work(PostgresTx(Batch(connection), self._queries, tenant, self._halfvec))

        return self._retry(lambda: self._transact(run))

    def _use_connection(self, work: Callable[[Connection], bool], wait_s: float | None = None) -> bool:
        """Run something outside a transaction."""
        with connect.translate_errors():
            connection = self._pool.take(wait_s)
            try:
                return work(connection)
            finally:
                self._pool.give_back(connection)

    def _run_above(self, work: Callable[[Connection], T], writes: bool) -> T:
        """A transaction that is in no tenant."""
        mode: Mode = "write" if writes else "read"

        def run(connection: Connection) -> T:
            self._pool.enter(connection, mode, None)
            return work(connection)

        return self._retry(lambda: self._transact(run, writes))

    def write_unseen(self, tenant: str, work: Callable[[Tx], T]) -> T:
        """A transaction within a tenant that does not exist yet; its statements are sent without waiting for each other."""

        def run(connection: Connection) -> T:
            self._pool.enter(connection, "write", tenant)
            batch = Batch(connection)
            result = work(PostgresTx(batch, self._queries, tenant, self._halfvec))
            batch.flush()
            return result

        return self._retry(lambda: self._transact(run, writes=True))

    def _write_beside(self, tenant: str, work: Callable[[Tx], T]) -> T:
        """A transaction within a tenant that holds up no writer: large things are sent in it. At its end it makes sure that the
        tenant is still there."""

        def run(tx: Tx) -> T:
            result = work(tx)
            if tx.row("hold_tenant_row") is None:
                raise NotFound("There is no such tenant.")
            return result

        return self.write_unseen(tenant, run)

    def _transact(self, work: Callable[[Connection], T], writes: bool = False) -> T:
        """Run something in a transaction. What was only read can be read again, whatever becomes of the end."""
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
        """Do it again if the connection was lost before anything was kept: a server that is restarted is soon back."""
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


class PostgresReceiver:
    """The rows of a tenant that is being moved here."""

    def __init__(self, store: PostgresStore, tenant: str, created_at: int) -> None:
        self._store, self._tenant, self._created_at = store, tenant, created_at
        self.blobs = TableBlobs(self.write, self.write, store._clock)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._store.write_unseen(self._tenant, work)

    def start_over(self) -> None:
        self._store._run_above(lambda db: self._store.empty(db, self._tenant), True)

    def finish(self, number: int) -> None:
        self._store.admit_tenant(self._tenant, number, self._created_at)
