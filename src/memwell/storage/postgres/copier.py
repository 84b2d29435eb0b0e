"""Copying tenants out of a database and into one, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from ...errors import NotFound
from ..blobs import Blobs, TableBlobs
from ..copier import Approve, Arrival, Receiver, copy_blobs, copy_rows, find_creation_time, list_digests
from ..port import Tx, require_absent, search_state
from . import connect, migrate
from .statements import Connection
from .tx import Batch, PostgresTx

if TYPE_CHECKING:
    from ..sqlite import SqliteStore
    from .store import PostgresStore

T = TypeVar("T")


class PostgresCopier:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def copy_out(self, tenant: str, target: SqliteStore) -> list[str]:
        """Rows and files are read from one snapshot."""
        receiver, blobs = target.receive(tenant, find_creation_time(self._store, tenant)), self._store.blobs(tenant)

        def copy(tx: Tx) -> tuple[list[str], int]:
            copy_rows(tx, receiver)
            return copy_blobs(blobs.within(tx), receiver.blobs, list_digests(tx)), search_state(tx)[0]

        lost, number = self._store.read(tenant, copy)
        receiver.finish(number)
        return lost

    def copy_in(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        receiver = self._store.receive(arrival.tenant)
        return arrival._replace(number=source.write(arrival.tenant, lambda tx: _send(tx, blobs, receiver)))

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        def let_in(db: Connection) -> None:
            for one in arrivals:
                require_absent(not self._store.admit(db, one.tenant, one.number, one.created_at), one.tenant)
                for key in one.keys:
                    self._store.control.run(db, "put_key", key)

        self._store._run_above(let_in, True)

    def discard(self) -> None:
        """Do nothing: the next restore continues with the rows, or creating the tenant removes them."""

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, approve: Approve) -> bool:
        """Replace a tenant in one transaction that locks it: its writers wait, and its readers see the old rows."""
        with self._lock_tenant(tenant) as (connection, receiver):
            if not receiver.write(approve):
                return False
            receiver.start_over()
            receiver.finish(source.write(tenant, lambda tx: _send(tx, blobs, receiver)))
            connect.commit(connection)
        return True

    @contextmanager
    def _lock_tenant(self, tenant: str) -> Iterator[tuple[Connection, _Replacement]]:
        pool, quoted = self._store._pool, connect.literal(tenant)
        with connect.translate_errors():
            connection = pool.take()
            try:
                held = f"SELECT 1 FROM writer WHERE tenant = {quoted} FOR UPDATE"  # noqa: S608 -- a quoted literal
                if pool.enter(connection, "write", tenant, held) is None:
                    raise NotFound("There is no such tenant.")
                yield connection, _Replacement(self._store, connection, tenant)
            finally:
                with suppress(psycopg.Error):
                    if connection.pgconn.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                        connect.end_transaction(connection, "ROLLBACK")
                pool.give_back(connection)


def _send(source: Tx, blobs: Blobs, receiver: Receiver) -> int:
    """Copy rows and files, and return the highest number that an entry was ever given."""
    copy_rows(source, receiver)
    copy_blobs(blobs, receiver.blobs, list_digests(source))
    return search_state(source)[0]


class _Replacement:
    """A tenant that is emptied and filled anew in one transaction."""

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
        for table in migrate.TENANT_TABLES:  # without `writer`: others wait for that row
            self._connection.execute(f"DELETE FROM {table} WHERE tenant = %s", (self._tenant,))  # noqa: S608 -- our own names

    def finish(self, number: int) -> None:
        self._connection.execute("UPDATE writer SET docid = %s WHERE tenant = %s", (number, self._tenant))
