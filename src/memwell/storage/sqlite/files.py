"""Open tenants: a bounded cache of files."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

import apsw

from ...errors import NotFound
from .file import Replaced, SqliteFile

T = TypeVar("T")


class OpenFiles:
    """The files in use and those used last. One that nobody is using gives way when there are too many."""

    def __init__(self, open_file: Callable[[str], SqliteFile], limit: int) -> None:
        self._open_file = open_file
        self._limit = limit
        self._lock = Lock()
        self._files: dict[str, SqliteFile] = {}
        self._users: dict[str, int] = {}
        self._opening: dict[str, Lock] = {}

    def use(self, tenant: str, work: Callable[[SqliteFile], T]) -> T:
        """Do something with a tenant's file; once more, if that turns out to have been replaced by another."""
        file = self._take(tenant)
        try:
            return work(file)
        except Replaced:
            return self._once_more(tenant, file, work)
        finally:
            self._give_back(tenant)

    def read(self, tenant: str, work: Callable[[apsw.Cursor], T], sole: bool = False) -> T:
        """Read from a tenant's file. Nobody waits for a reader that is not counted: a connection in use is closed by its user."""
        file = self._files.get(tenant)
        if file is not None:
            try:
                return file.read(work, sole)
            except Replaced:
                pass  # or it was closed just now, to make room for another
        return self.use(tenant, lambda file: file.read(work, sole))

    def close(self, tenant: str | None = None) -> None:
        """Close one file, or all."""
        with self._lock:
            names = [tenant] if tenant is not None else list(self._files)
            closing = [self._files.pop(name) for name in names if name in self._files]
        for file in closing:
            file.close()

    def __len__(self) -> int:
        return len(self._files)

    def _take(self, tenant: str) -> SqliteFile:
        with self._lock:
            self._users[tenant] = self._users.get(tenant, 0) + 1
            file = self._files.get(tenant)
            if file is not None:
                return file
        try:
            return self._open_once(tenant)
        except BaseException:
            self._give_back(tenant)
            raise

    def _once_more(self, tenant: str, stale: SqliteFile, work: Callable[[SqliteFile], T]) -> T:
        try:
            return work(self._renew(tenant, stale))
        except Replaced:
            raise NotFound("There is no such tenant.") from None

    def _renew(self, tenant: str, stale: SqliteFile) -> SqliteFile:
        """Another process removed this tenant, and perhaps made it anew."""
        with self._lock:
            if self._files.get(tenant) is stale:
                del self._files[tenant]
        stale.close()
        return self._open_once(tenant)

    def _open_once(self, tenant: str) -> SqliteFile:
        with self._lock:
            gate = self._opening.setdefault(tenant, Lock())
        try:
            with gate:
                return self._files.get(tenant) or self._open(tenant)
        finally:
            self._opening.pop(tenant, None)

    def _open(self, tenant: str) -> SqliteFile:
        file = self._open_file(tenant)
        with self._lock:
            self._files[tenant] = file
            idle = sorted((name for name in self._files if not self._users.get(name)), key=self._last_used)
            closing = [self._files.pop(name) for name in idle[: max(len(self._files) - self._limit, 0)]]
        for other in closing:
            other.close()
        return file

    def _last_used(self, tenant: str) -> float:
        return self._files[tenant].used_at

    def _give_back(self, tenant: str) -> None:
        with self._lock:
            left = self._users[tenant] - 1
            if left:
                self._users[tenant] = left
            else:
                del self._users[tenant]
