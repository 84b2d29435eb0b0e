"""Messages between the processes that share a database, through LISTEN and NOTIFY.

Whoever listens has a connection of its own, which the others see by its name; while there is none, nothing is sent. What
cannot be delivered is dropped. Durable events are read from the tables, where they are exact.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread

import psycopg

from ...errors import MemwellError, Unavailable
from .connect import Connection, connected, told

CHANNEL = "memwell"
LISTENER = "memwell listener"
LOOK_EVERY_S = 1.0
QUIET_S = 0.5
LONGEST = 7_900
OUTBOX = 10_000
LEAVE_S = 2.0

_LOOK = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND datname = CURRENT_DATABASE())"


class NotifyHub:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = Lock()
        self._outbox: deque[bytes] = deque(maxlen=OUTBOX)
        self._sender: Thread | None = None
        self._looked_at = float("-inf")
        self._watched = False
        self._listening = 0

    @property
    def watched(self) -> bool:
        """Whether anybody listens, as far as is known. Asking starts a look that the next one profits from."""
        if self._listening:
            return True
        if time.monotonic() - self._looked_at > LOOK_EVERY_S:
            self._looked_at = time.monotonic()
            self._start()
        return self._watched

    def publish(self, message: bytes) -> None:
        if not self.watched or len(message) > LONGEST:
            return
        with self._lock:
            self._outbox.append(message)
        self._start()

    @contextmanager
    def listen(self) -> Iterator[Iterator[bytes | None]]:
        with connected(self._dsn, application_name=LISTENER) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            with self._lock:
                self._listening += 1
            try:
                yield self._messages(connection)
            finally:
                with self._lock:
                    self._listening -= 1

    def close(self) -> None:
        """Deliver what is left, as far as the server takes it."""
        sender = self._sender
        if sender is not None:
            sender.join(LEAVE_S)

    def _messages(self, connection: Connection) -> Iterator[bytes | None]:
        while True:
            try:
                for notice in connection.notifies(timeout=QUIET_S, stop_after=1):
                    yield notice.payload.encode()
            except psycopg.Error as error:
                raise Unavailable("The connection that events come over was lost: watch again.") from error
            yield None

    def _start(self) -> None:
        with self._lock:
            if self._sender is None:
                self._sender = Thread(target=self._work, name="memwell-hub", daemon=True)
                self._sender.start()

    def _work(self) -> None:
        """Look whether anybody listens, and send what there is, until there has been nothing for a while."""
        try:
            with connected(self._dsn) as connection, told(self._dsn):
                until = time.monotonic()
                while time.monotonic() - until < LEAVE_S:
                    if self._send(connection):
                        until = time.monotonic()
                    else:
                        time.sleep(0.01)
        except MemwellError:
            self._outbox.clear()  # a hint that is lost does no harm
        finally:
            with self._lock:
                self._sender = None

    def _send(self, connection: Connection) -> bool:
        row = connection.execute(_LOOK, (LISTENER,)).fetchone()
        self._watched = bool(row and row[0])
        self._looked_at = time.monotonic()
        with self._lock:
            messages = list(self._outbox)
            self._outbox.clear()
        if not self._watched:
            return False
        for message in messages:
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, message.decode()))
        return bool(messages)
