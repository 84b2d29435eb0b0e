"""Copying tenants out of a directory and into one. A tenant is a file, and is copied as one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw

from ...errors import Conflict, StorageError
from ..blobs import Blobs, FolderBlobs, claim, sync
from ..copier import Approve, Arrival, copy_blobs, list_digests
from ..port import Tx, require_absent
from . import connect
from .store import ARRIVING, SqliteStore, _remove, _system

PAGES = 4096
ATTEMPTS = 3


class SqliteCopier:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._staging: tuple[Path, int] | None = None

    def copy_out(self, tenant: str, target: SqliteStore) -> list[str]:
        """Copy with VACUUM INTO: it takes no longer than copying the file and leaves deleted bytes behind. If a blob was
        erased after that, the next attempt no longer refers to it."""
        lost: list[str] = []
        for _ in range(ATTEMPTS):
            self._copy(tenant, target)
            wanted = target.read(tenant, lambda tx: list(list_digests(tx)))
            lost = copy_blobs(self._store.blobs(tenant), target.blobs(tenant), wanted)
            if self._store.read(tenant, lambda tx: _are_named(tx, lost)):  # noqa: B023 -- run at once
                break
        return lost

    def _copy(self, tenant: str, target: SqliteStore) -> None:
        self._store.read(tenant, lambda tx: None)  # it exists, and its schema is current
        path = target._path(tenant)
        target._files.close(tenant)
        _remove(path)
        source = connect.open_reader(self._store._path(tenant), self._store._vfs)
        try:
            with connect.translate_errors(path):
                source.execute("VACUUM INTO ?", (str(path),))
        finally:
            source.close()
        rows = self._store.control.rows("find_tenant", id=tenant)
        target.control.write(*(("add_tenant", {"id": row[0], "now": row[1]}) for row in rows))

    def copy_in(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        tenant, store = arrival.tenant, self._store
        require_absent(bool(store.control.rows("find_tenant", id=tenant)), tenant)
        wanted = source.read(tenant, lambda tx: list(list_digests(tx)))
        source._files.close(tenant)
        place = self._folder() / f"{tenant}.db"
        _copy_file(source._path(tenant), place)
        copy_blobs(blobs, FolderBlobs(place.with_suffix(""), store._clock, lambda: True), wanted)
        return arrival._replace(place=place)

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        self._store.control.exclusively(partial(self._admit, arrivals))

    def _admit(self, arrivals: Sequence[Arrival], db: apsw.Connection) -> None:
        for one in arrivals:
            rows = db.execute(_system("find_tenant"), {"id": one.tenant}).fetchall()
            require_absent(bool(rows), one.tenant)
        for one in arrivals:
            self._install(one)
            db.execute(_system("add_tenant"), {"id": one.tenant, "now": one.created_at})
            for key in one.keys:
                db.execute(_system("put_key"), key)
        sync(self._store.home / "tenants")
        sync(self._store.home)

    def _install(self, one: Arrival) -> None:
        """Move a tenant into place, over anything that an interrupted creation or removal has left."""
        path, blobs = self._store._path(one.tenant), self._store.home / "blobs" / one.tenant
        self._store._remove(one.tenant)
        if one.place is None:
            raise Conflict(f"The tenant {one.tenant} was not copied here.")
        if one.place.with_suffix("").is_dir():
            blobs.parent.mkdir(mode=0o700, exist_ok=True)
            os.rename(one.place.with_suffix(""), blobs)
            sync(blobs.parent)
        os.rename(one.place, path)

    def discard(self) -> None:
        if self._staging is not None:
            folder, lock = self._staging
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            self._staging = None
            with suppress(OSError):  # another restore may be running
                folder.parent.rmdir()

    def _folder(self) -> Path:
        """The folder of tenants that are not admitted yet. It is removed once this process has ended."""
        if self._staging is None:
            folder = self._store.home / ARRIVING / secrets.token_hex(8)
            folder.mkdir(mode=0o700, parents=True)
            lock = claim(folder)
            if lock is None:
                raise StorageError(f"{folder} was taken away: try again.")
            self._staging = folder, lock
        return self._staging[0]

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, approve: Approve) -> bool:
        """Overwrite every page in one transaction, with SQLite's backup. Connections that have the file open see the new
        pages. Blobs are added once the replacement is certain, and those without a row are removed after it."""
        wanted = source.read(tenant, lambda tx: list(list_digests(tx)))
        source._files.close(tenant)
        path, own = source._path(tenant), self._store.blobs(tenant)
        before: set[str] = set()

        def overwrite(db: apsw.Connection) -> bool:
            other = connect.open_reader(path, None)
            try:
                with db.backup("main", other, "main") as copy:
                    copy.step(1)  # nobody else can write from here on
                    if not self._store.read(tenant, approve):
                        return False  # nothing has changed
                    before.update(self._store.read(tenant, lambda tx: list(list_digests(tx))))
                    copy_blobs(blobs, own, wanted)
                    while not copy.done:
                        copy.step(PAGES)
                return True
            finally:
                other.close()

        replaced = self._store._files.use(tenant, lambda file: file.alone(overwrite))
        if replaced:
            self._store.write(tenant, lambda tx: _delete_unnamed(tx, own, sorted(before)))
        return replaced


def _are_named(tx: Tx, lost: Sequence[str]) -> bool:
    """Return True if a row refers to each of these files."""
    return all(tx.row("digest_named", digest=digest) is not None for digest in lost)


def _delete_unnamed(tx: Tx, blobs: Blobs, digests: Sequence[str]) -> None:
    for digest in digests:
        if not _are_named(tx, [digest]):
            blobs.delete(digest)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file that nobody has open, and sync it."""
    log = source.with_name(source.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(f"{source.name} is still in use.")
    with open(source, "rb") as old, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())
