"""Carrying tenants out of a database and into one: row by row, as they are moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from ...errors import NotFound
from ..blobs import Blobs, TableBlobs
from ..copier import Agree, Arrival, Receiver, carry, created_at, digests, fill
from ..port import Tx, require_absent
from . import connect, migrate
from .statements import Connection
from .tx import PostgresTx, Wire

if TYPE_CHECKING:
    from ..sqlite import SqliteStore
    from .store import PostgresStore

T = TypeVar("T")


class PostgresCarrier:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def take(self, tenant: str, target: SqliteStore) -> list[str]:
        """All of it is read from one snapshot, files as well."""
        target_receiver = target.receive(tenant, created_at(self._store, tenant))
        receiver, blobs = _Unfinished(target_receiver), self._store.blobs(tenant)

        def copy(tx: Tx) -> list[str]:
            fill(tx, None, receiver)
            return carry(blobs.within(tx), receiver.blobs, digests(tx))

        lost = self._store.read(tenant, copy)
        target_receiver.finish(receiver.number)
        return lost

    def bring(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        receiver = _Unfinished(self._store.receive(arrival.tenant))

        def send(tx: Tx) -> None:
            fill(tx, None, receiver)
            carry(blobs, receiver.blobs, digests(tx))

        source.write(arrival.tenant, send)
        return arrival._replace(number=receiver.number)

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        def let_in(db: Connection) -> None:
            for one in arrivals:
                require_absent(not self._store.let_in(db, one.tenant, one.number, one.created_at), one.tenant)
                for key in one.keys:
                    self._store.control.run(db, "put_key", key)

        self._store._above(let_in, True)

    def leave(self) -> None:
        """What was brought is taken up by the next restore, or cleared away when the tenant is made."""

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, agree: Agree) -> bool:
        """One transaction that holds the tenant as a writer does: its writers wait, its readers see what was."""
        with self._held(tenant) as (connection, receiver):
            if not receiver.write(agree):
                return False
            receiver.start_over()

            def send(tx: Tx) -> None:
                fill(tx, None, receiver)
                carry(blobs, receiver.blobs, digests(tx))

            source.write(tenant, send)
            connect.commit(connection)
        return True

    @contextmanager
    def _held(self, tenant: str) -> Iterator[tuple[Connection, _Replacement]]:
        pool, quoted = self._store._pool, connect.literal(tenant)
        with connect.told():
            connection = pool.take()
            try:
                held = f"SELECT 1 FROM writer WHERE tenant = {quoted} FOR UPDATE"  # noqa: S608 -- a quoted literal
                if pool.enter(connection, "write", tenant, held) is None:
                    raise NotFound("There is no such tenant.")
                yield connection, _Replacement(self._store, connection, tenant)
            finally:
                with suppress(psycopg.Error):
                    if connection.pgconn.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                        connect.leave(connection, "ROLLBACK")
                pool.give_back(connection)


class _Unfinished:
    """A receiver whose tenant is not let in at the end: that is done for several at once."""

    def __init__(self, receiver: Receiver) -> None:
        self.blobs = receiver.blobs
        self.write = receiver.write
        self.start_over = receiver.start_over
        self.number = 0

    def finish(self, number: int) -> None:
        self.number = number


class _Replacement:
    """A tenant that is emptied and filled anew within one transaction."""

    def __init__(self, store: PostgresStore, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant
        self._wire = Wire(connection)
        self._tx = PostgresTx(self._wire, store._queries, tenant, store._halfvec)
        self.blobs = TableBlobs(self.write, self.write, store._clock)

    def write(self, work: Callable[[Tx], T]) -> T:
        result = work(self._tx)
        self._wire.flush()
        return result

    def start_over(self) -> None:
        for table in migrate.TENANT_TABLES:  # but for its writer: others wait for that row
            self._connection.execute(f"DELETE FROM {table} WHERE tenant = %s", (self._tenant,))  # noqa: S608 -- our own names

    def finish(self, number: int) -> None:
        self._connection.execute("UPDATE writer SET docid = %s WHERE tenant = %s", (number, self._tenant))
