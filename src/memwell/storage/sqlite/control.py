"""`control.db`: tenants, keys and hints. Small, and the same for every process that shares the directory."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ...errors import StorageError
from .. import queries
from ..port import Row
from .file import Replaced, SqliteFile, upgrade

T = TypeVar("T")

SECRET_BYTES = 32


class ControlFile:
    def __init__(self, home: Path, vfs: str | None) -> None:
        self._home = home
        self._closed = False
        path = home / "control.db"
        if not path.exists():
            upgrade(path, "control", "full", vfs)
        self._queries = queries.load_system()
        self._file = SqliteFile(path, "control", durability="full", vfs=vfs)
        self._hints = SqliteFile(path, "control", durability="relaxed", vfs=vfs)

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        sql = self._queries[query].sql
        with self._present():
            return self._file.read(lambda db: db.execute(sql, parameters).fetchall(), sole=True)

    def write(self, *calls: tuple[str, dict[str, Any]]) -> int:
        return self.exclusively(lambda db: [0, *(self._run(db, query, given) for query, given in calls)][-1])

    def exclusively(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Run work while no other process changes the list of tenants."""
        with self._present():
            return self._file.write(work)

    def hint(self, query: str, /, **parameters: Any) -> int:
        with self._present():
            return self._hints.write(lambda db: self._run(db, query, parameters))

    def scrub(self) -> bool:
        return self._file.scrub()

    @cached_property
    def secret(self) -> bytes:
        path = self._home / "secret.key"
        if not path.exists():
            _create_secret(path, secrets.token_bytes(SECRET_BYTES))
        secret = path.read_bytes()
        if len(secret) != SECRET_BYTES:
            raise StorageError(
                f"{path.name} is damaged: restore it from a backup, or delete it and create new API keys."
            )
        return secret

    def renew(self) -> bool:
        known = self.secret
        self.__dict__.pop("secret", None)  # several may do so at once
        return self.secret != known

    def adopt(self, secret: bytes) -> bool:
        path = self._home / "secret.key"
        if not path.exists():
            _create_secret(path, secret)
        self.renew()
        return self.secret == secret or self.exclusively(lambda db: self._replace(db, secret))

    def _replace(self, db: apsw.Cursor, secret: bytes) -> bool:
        """While nobody can add a key. There is a secret at any moment, or another process would make one."""
        if db.execute(self._queries["count_keys"].sql).fetchall()[0][0]:
            return False
        _create_secret(self._home / "secret.key", secret, replace=True)
        self.renew()
        return self.secret == secret

    def close(self) -> None:
        self._closed = True
        self._file.close()
        self._hints.close()

    @contextmanager
    def _present(self) -> Iterator[None]:
        try:
            yield
        except Replaced:
            what = "It is closed" if self._closed else "The data directory was removed or replaced while it was open"
            raise StorageError(f"{what}: open it again.") from None

    def _run(self, db: apsw.Cursor, query: str, parameters: dict[str, Any]) -> int:
        db.execute(self._queries[query].sql, parameters).fetchall()
        return db.connection.changes()


def _create_secret(path: Path, secret: bytes, *, replace: bool = False) -> None:
    """Written whole under another name first: two processes may start at once, and one may be killed."""
    draft = path.with_name(f".secret-{os.getpid()}-{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    try:
        (os.replace if replace else os.link)(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
