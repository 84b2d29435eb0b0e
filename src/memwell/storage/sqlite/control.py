"""Data above the tenants: `control.db` with their list, the keys and the hints, `secret.key`, and sockets for messages."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ...errors import StorageError
from .. import queries
from ..blobs import sync, write_file
from ..notifier import Notifier
from ..port import SECRET_BYTES, Row
from .connect import damaged
from .file import Replaced, SqliteFile, upgrade

T = TypeVar("T")

QUIET_S = 0.5
PATIENCE_S = 1.0
MAX_MESSAGE = 60_000
_LONGEST_PATH = 100


REMOVED = ".removed"
"""The suffix of the mark of a tenant that is being removed."""
_KEY_ADVICE = (
    "restore it from a backup; without one, revoke all keys (`memwell key list`, `memwell key revoke ID`), delete the file if it "
    "exists, and create new keys"
)


def list_tenant_files(home: Path) -> list[Path]:
    """The files of tenants that are not being removed."""
    return [file for file in sorted((home / "tenants").glob("*.db")) if not file.with_suffix(REMOVED).exists()]


class ControlFile:
    def __init__(self, home: Path, vfs: str | None) -> None:
        self._home = home
        self._secret_path = home / "secret.key"
        self._closed = False
        path = home / "control.db"
        is_new = not list_tenant_files(home)
        if not path.exists():
            if not is_new:
                raise damaged(path.name, "is missing")
            upgrade(path, "control", "full", vfs)
        self._queries = queries.load_system()
        self._file = SqliteFile(path, "control", durability="full", vfs=vfs, may_be_empty=is_new)
        self._hints = SqliteFile(path, "control", durability="relaxed", vfs=vfs)

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        sql = self._queries[query].sql
        with self._require_open():
            return self._file.read(lambda db: db.execute(sql, parameters).fetchall(), sole=True)

    def write(self, *calls: tuple[str, dict[str, Any]]) -> int:
        return self.exclusively(lambda db: [0, *(self._run(db, query, given) for query, given in calls)][-1])

    def exclusively(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Run work while no other process changes the list of tenants."""
        with self._require_open():
            return self._file.write(work)

    def hint(self, query: str, /, **parameters: Any) -> int:
        with self._require_open():
            return self._hints.write(lambda db: self._run(db, query, parameters))

    def scrub(self) -> bool:
        return self._file.scrub()

    @cached_property
    def secret(self) -> bytes:
        if not self._secret_path.exists():
            if self.rows("count_valid_keys")[0][0]:
                raise StorageError(f"secret.key is missing, and the API keys need it: {_KEY_ADVICE}.")
            self._create_secret(secrets.token_bytes(SECRET_BYTES))
        secret = self._secret_path.read_bytes()
        if len(secret) != SECRET_BYTES:
            size = f"{len(secret)} bytes instead of {SECRET_BYTES}"
            raise StorageError(f"secret.key is damaged ({size}): {_KEY_ADVICE}.")
        return secret

    def renew(self) -> bool:
        known = self.secret
        self.__dict__.pop("secret", None)  # several threads may do so at once
        return self.secret != known

    def adopt(self, secret: bytes) -> bool:
        def replace(db: apsw.Cursor) -> bool:  # no other process can add a key meanwhile
            if db.execute(self._queries["count_keys"].sql).fetchall()[0][0]:
                return False
            self._create_secret(secret, replace=True)
            self.renew()
            return self.secret == secret

        if not self._secret_path.exists():
            self._create_secret(secret)
        self.renew()
        return self.secret == secret or self.exclusively(replace)

    def close(self) -> None:
        self._closed = True
        self._file.close()
        self._hints.close()

    def _create_secret(self, secret: bytes, *, replace: bool = False) -> None:
        """Write the secret to a temporary file and rename it, because two processes may start at once and one may be killed.
        With `replace` the old secret is never absent; otherwise another process would create one."""
        draft = self._home / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
        write_file(draft, secret)
        try:
            (os.replace if replace else os.link)(draft, self._secret_path)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
        sync(self._home)

    @contextmanager
    def _require_open(self) -> Iterator[None]:
        try:
            yield
        except Replaced:
            cause = (
                "The store is closed"
                if self._closed
                else "The data directory was removed or replaced while it was open"
            )
            raise StorageError(f"{cause}: open it again.") from None

    def _run(self, db: apsw.Cursor, query: str, parameters: dict[str, Any]) -> int:
        db.execute(self._queries[query].sql, parameters).fetchall()
        return db.connection.changes()


class SocketNotifier(Notifier):
    """Messages through Unix datagram sockets: a listener binds one in `live/`. Messages that it does not read in time are
    dropped."""

    look_every_s = 0.2
    longest = MAX_MESSAGE

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._folder = home / "live"
        self._listeners: list[str] = []

    @contextmanager
    def listen(self) -> Iterator[Iterator[bytes | None]]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(4)}.sock"
        with _open_socket() as receiver, _shorten(self._folder) as folder:
            receiver.bind(f"{folder}/{name}")
            receiver.settimeout(QUIET_S)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._looked_at = float("-inf")
            try:
                yield _receive(receiver)
            finally:
                (self._folder / name).unlink(missing_ok=True)

    def _look(self) -> bool:
        try:
            self._listeners = [name for name in os.listdir(self._folder) if name.endswith(".sock")]
        except OSError:
            self._listeners = []
        return bool(self._listeners)

    def _send(self, messages: list[bytes]) -> None:
        with _open_socket() as sender, _shorten(self._folder) as folder:
            sender.settimeout(PATIENCE_S)
            for message in messages:
                for name in self._listeners:
                    try:
                        sender.sendto(message, f"{folder}/{name}")
                    except ConnectionRefusedError:  # its process was killed
                        (self._folder / name).unlink(missing_ok=True)
                    except OSError:  # the listener has ended or is too slow: drop the message
                        self._looked_at = float("-inf")


def _open_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@contextmanager
def _shorten(folder: Path) -> Iterator[str]:
    """Return a name of the folder that is short enough for the address of a socket."""
    if len(os.fsencode(folder)) < _LONGEST_PATH - 24 or sys.platform != "linux":
        yield str(folder)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _receive(receiver: socket.socket) -> Iterator[bytes | None]:
    while True:
        try:
            yield receiver.recv(MAX_MESSAGE + 1)
        except TimeoutError:
            yield None
