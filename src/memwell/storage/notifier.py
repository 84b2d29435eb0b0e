"""Messages between the processes that share a store: hints and read events. Best effort, never stored.

A message goes into an outbox. A thread that lives only while there is something to send delivers it, so callers do not
wait. Without a listener, nothing is sent. Watchers read durable events from the database, where none is lost.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from threading import Lock, Thread

from ..errors import MemwellError

OUTBOX = 10_000
LEAVE_S = 2.0


class Notifier(ABC):
    look_every_s: float
    longest: int

    def __init__(self) -> None:
        self._outbox: deque[bytes] = deque(maxlen=OUTBOX)
        self._lock = Lock()
        self._sender: Thread | None = None
        self._looked_at = float("-inf")
        self._watched = False

    @property
    def is_watched(self) -> bool:
        """True if there was a listener at the last look."""
        now = time.monotonic()
        if now - self._looked_at > self.look_every_s:
            self._looked_at = now
            self._watched = self._look()
        return self._watched

    def publish(self, message: bytes) -> None:
        if not self.is_watched or len(message) > self.longest:
            return
        with self._lock:
            self._outbox.append(message)
            if self._sender is None:
                self._sender = Thread(target=self._deliver, name="memwell-notifier", daemon=True)
                self._sender.start()

    @abstractmethod
    def listen(self) -> AbstractContextManager[Iterator[bytes | None]]:
        """Return an endless stream of messages, with None after some time without one."""

    def close(self) -> None:
        """Wait up to two seconds for the thread to deliver the outbox."""
        sender = self._sender
        if sender is not None:
            sender.join(LEAVE_S)

    @abstractmethod
    def _look(self) -> bool:
        """Return True if there is a listener."""

    @abstractmethod
    def _send(self, messages: list[bytes]) -> None: ...

    def _deliver(self) -> None:
        """Send everything in the outbox, in order."""
        while True:
            with self._lock:
                messages = list(self._outbox)
                self._outbox.clear()
                if not messages:
                    self._sender = None
                    return
            with suppress(MemwellError, OSError):  # losing a message does no harm
                self._send(messages)
