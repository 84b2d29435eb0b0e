"""Messages between the processes that share a database, through LISTEN and NOTIFY.

Whoever listens has a connection of its own, which the others see by its name; while there is none, nothing is sent. What
cannot be delivered is dropped. Durable events are read from the tables, where they are exact.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread

import psycopg

from ...errors import MemwellError, Unavailable
from .connect import translate_errors, use_connection
from .statements import Connection

CHANNEL = "memwell"
LISTENER = "memwell listener"
LOOK_EVERY_S = 0.5
LOOK_S = 0.1
QUIET_S = 0.5
LONGEST = 7_900
OUTBOX = 10_000
LEAVE_S = 2.0

_LOOK = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND datname = CURRENT_DATABASE())"


class PostgresNotifier:
    """`borrowed` runs something on a connection that is not in a transaction, if one is free within some seconds."""

    def __init__(self, dsn: str, borrowed: Callable[[Callable[[Connection], bool], float], bool]) -> None:
        self._dsn = dsn
        self._use_connection = borrowed
        self._lock = Lock()
        self._outbox: deque[bytes] = deque(maxlen=OUTBOX)
        self._sender: Thread | None = None
        self._looked_at = float("-inf")
        self._watched = False

    @property
    def is_watched(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at > LOOK_EVERY_S:
            self._looked_at = now
            self._watched = self._look()
        return self._watched

    def publish(self, message: bytes) -> None:
        if not self.is_watched or len(message) > LONGEST:
            return
        with self._lock:
            self._outbox.append(message)
            if self._sender is None:
                self._sender = Thread(target=self._deliver, name="memwell-hub", daemon=True)
                self._sender.start()

    @contextmanager
    def listen(self) -> Iterator[Iterator[bytes | None]]:
        with use_connection(self._dsn, application_name=LISTENER) as connection:
            with translate_errors(self._dsn):
                connection.execute(f"LISTEN {CHANNEL}")
            self._looked_at = float("-inf")
            yield _messages(connection)

    def close(self) -> None:
        """Deliver what is left, as far as the server takes it."""
        sender = self._sender
        if sender is not None:
            sender.join(LEAVE_S)

    def _look(self) -> bool:
        """Nobody waits for this: where it cannot be found out at once, it is as it was."""
        try:
            return self._use_connection(
                lambda db: bool((db.execute(_LOOK, (LISTENER,)).fetchone() or (False,))[0]), LOOK_S
            )
        except MemwellError:
            return self._watched

    def _deliver(self) -> None:
        """Send everything in the outbox, in order, and end."""
        while True:
            with self._lock:
                messages = list(self._outbox)
                self._outbox.clear()
                if not messages:
                    self._sender = None
                    return
            with suppress(MemwellError):  # a hint that is lost does no harm
                self._use_connection(lambda db, messages=messages: _send(db, messages), LEAVE_S)  # type: ignore[misc]


def _send(connection: Connection, messages: list[bytes]) -> bool:
    for message in messages:
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, message.decode()))
    return True


def _messages(connection: Connection) -> Iterator[bytes | None]:
    while True:
        try:
            for notice in connection.notifies(timeout=QUIET_S, stop_after=1):
                yield notice.payload.encode()
        except psycopg.Error as error:
            raise Unavailable("The connection that events come over was lost: watch again.") from error
        yield None
