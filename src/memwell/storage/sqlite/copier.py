"""Carrying tenants out of a directory and into one: a tenant is a file, and is copied as one."""

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
from ..copier import Agree, Arrival, carry, digests
from ..port import Tx, require_absent
from . import connect
from .store import ARRIVING, SqliteStore, _remove, _system

PAGES = 4096
ATTEMPTS = 3


class SqliteCarrier:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._arriving: tuple[Path, int] | None = None

    def take(self, tenant: str, target: SqliteStore) -> list[str]:
        """Writing the file anew takes no longer than copying it, and what was deleted in its gaps stays behind. A file that
        was erased after that is missing; the next copy knows nothing of it any more."""
        lost: list[str] = []
        for _ in range(ATTEMPTS):
            self._copy(tenant, target)
            wanted = target.read(tenant, lambda tx: list(digests(tx)))
            lost = carry(self._store.blobs(tenant), target.blobs(tenant), wanted)
            if self._store.read(tenant, lambda tx: _all_named(tx, lost)):  # noqa: B023 -- run at once
                break
        return lost

    def _copy(self, tenant: str, target: SqliteStore) -> None:
        self._store.read(tenant, lambda tx: None)  # it is there, and up to date
        path = target._path(tenant)
        target._files.close(tenant)
        _remove(path)
        source = connect.open_reader(self._store._path(tenant), self._store._vfs)
        try:
            with connect.told(path):
                source.execute("VACUUM INTO ?", (str(path),))
        finally:
            source.close()
        known = self._store.control.rows("find_tenant", id=tenant)
        target.control.write(*(("add_tenant", {"id": row[0], "now": row[1]}) for row in known))

    def bring(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        tenant, store = arrival.tenant, self._store
        require_absent(bool(store.control.rows("find_tenant", id=tenant)), tenant)
        wanted = source.read(tenant, lambda tx: list(digests(tx)))
        source._files.close(tenant)
        place = self._folder() / f"{tenant}.db"
        _copy_file(source._path(tenant), place)
        carry(blobs, FolderBlobs(place.with_suffix(""), store._clock, lambda: True), wanted)
        return arrival._replace(place=place)

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        self._store.control.exclusively(partial(self._let_in, arrivals))

    def _let_in(self, arrivals: Sequence[Arrival], db: apsw.Connection) -> None:
        for one in arrivals:
            found = db.execute(_system("find_tenant"), {"id": one.tenant}).fetchall()
            require_absent(bool(found), one.tenant)
        for one in arrivals:
            self._put(one)
            db.execute(_system("add_tenant"), {"id": one.tenant, "now": one.created_at})
            for key in one.keys:
                db.execute(_system("put_key"), key)
        sync(self._store.home / "tenants")
        sync(self._store.home)

    def _put(self, one: Arrival) -> None:
        """Put a tenant where it belongs, instead of what a creation or a removal left behind when it was killed."""
        path, blobs = self._store._path(one.tenant), self._store.home / "blobs" / one.tenant
        self._store._remove(one.tenant)
        if one.place is None:
            raise Conflict(f"The tenant {one.tenant} was not brought here.")
        if one.place.with_suffix("").is_dir():
            blobs.parent.mkdir(mode=0o700, exist_ok=True)
            os.rename(one.place.with_suffix(""), blobs)
            sync(blobs.parent)
        os.rename(one.place, path)

    def leave(self) -> None:
        if self._arriving is not None:
            folder, held = self._arriving
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)
            self._arriving = None
            with suppress(OSError):  # another restore may be under way
                folder.parent.rmdir()

    def _folder(self) -> Path:
        """Where tenants wait until they are admitted. It is cleared away once this process is gone."""
        if self._arriving is None:
            folder = self._store.home / ARRIVING / secrets.token_hex(8)
            folder.mkdir(mode=0o700, parents=True)
            held = claim(folder)
            if held is None:
                raise StorageError(f"{folder} was taken away: try again.")
            self._arriving = folder, held
        return self._arriving[0]

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, agree: Agree) -> bool:
        """SQLite overwrites every page in one transaction, which whoever has the file open then sees. Files come when it is
        certain that they may, and those go that are named no more."""
        wanted = source.read(tenant, lambda tx: list(digests(tx)))
        source._files.close(tenant)
        path, own = source._path(tenant), self._store.blobs(tenant)
        before: set[str] = set()

        def overwrite(db: apsw.Connection) -> bool:
            other = connect.open_reader(path, None)
            try:
                with db.backup("main", other, "main") as copy:
                    copy.step(1)  # from here on, nobody else can write
                    if not self._store.read(tenant, agree):
                        return False  # and nothing has happened
                    before.update(self._store.read(tenant, lambda tx: list(digests(tx))))
                    carry(blobs, own, wanted)
                    while not copy.done:
                        copy.step(PAGES)
                return True
            finally:
                other.close()

        replaced = self._store._files.use(tenant, lambda file: file.alone(overwrite))
        if replaced:
            self._store.write(tenant, lambda tx: _delete_unnamed(tx, own, sorted(before)))
        return replaced


def _all_named(tx: Tx, lost: Sequence[str]) -> bool:
    """Whether all of some files should be there."""
    return all(tx.row("digest_named", digest=digest) is not None for digest in lost)


def _delete_unnamed(tx: Tx, blobs: Blobs, found: Sequence[str]) -> None:
    for digest in found:
        if not _all_named(tx, [digest]):
            blobs.delete(digest)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file that nobody has open, to the disk itself."""
    log = source.with_name(source.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(f"{source.name} is still in use.")
    with open(source, "rb") as old, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())
