"""Messages between the processes that share a directory, through Unix datagram sockets.

Whoever listens binds a socket in `live/`; whoever has something to tell puts it into an outbox, and a thread that lives
only while there is something to send delivers it to every socket there. Nothing is written to disk and no reader waits;
what a listener does not take in time is dropped. Durable events are read from the database, where they are exact.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread

LOOK_EVERY_S = 0.2
QUIET_S = 0.5
PATIENCE_S = 1.0
MAX_MESSAGE = 60_000
OUTBOX = 10_000
_LONGEST_PATH = 100


class SocketNotifier:
    def __init__(self, home: Path) -> None:
        self._folder = home / "live"
        self._listeners: list[str] = []
        self._looked_at = 0.0
        self._outbox: deque[bytes] = deque(maxlen=OUTBOX)
        self._lock = Lock()
        self._sender: Thread | None = None

    @property
    def is_watched(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at > LOOK_EVERY_S:
            self._looked_at = now
            self._listeners = self._look()
        return bool(self._listeners)

    def publish(self, message: bytes) -> None:
        if not self.is_watched or len(message) > MAX_MESSAGE:
            return
        with self._lock:
            self._outbox.append(message)
            if self._sender is None:
                self._sender = Thread(target=self._deliver, name="memwell-hub", daemon=True)
                self._sender.start()

    @contextmanager
    def listen(self) -> Iterator[Iterator[bytes | None]]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        with _socket() as receiver, _reachable(self._folder) as folder:
            receiver.bind(f"{folder}/{name}")
            receiver.settimeout(QUIET_S)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._looked_at = 0.0
            try:
                yield _messages(receiver)
            finally:
                (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Deliver what is left, as far as anybody takes it."""
        sender = self._sender
        if sender is not None:
            sender.join(2 * PATIENCE_S)

    def _look(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if name.endswith(".sock")]
        except OSError:
            return []

    def _deliver(self) -> None:
        """Send everything in the outbox, in order, and end."""
        with _socket() as sender, _reachable(self._folder) as folder:
            sender.settimeout(PATIENCE_S)
            while True:
                with self._lock:
                    if not self._outbox:
                        self._sender = None
                        return
                    message = self._outbox.popleft()
                for name in self._listeners:
                    self._send(sender, folder, name, message)

    def _send(self, sender: socket.socket, folder: str, name: str, message: bytes) -> None:
        try:
            sender.sendto(message, f"{folder}/{name}")
        except ConnectionRefusedError:  # its process was killed
            (self._folder / name).unlink(missing_ok=True)
        except OSError:  # gone, or too slow: the message is dropped
            self._looked_at = 0.0


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@contextmanager
def _reachable(folder: Path) -> Iterator[str]:
    """A name of the folder that is short enough for a socket's address."""
    if len(os.fsencode(folder)) < _LONGEST_PATH - 24 or sys.platform != "linux":
        yield str(folder)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _messages(receiver: socket.socket) -> Iterator[bytes | None]:
    while True:
        try:
            yield receiver.recv(MAX_MESSAGE + 1)
        except TimeoutError:
            yield None
