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
from ..blobs import Blobs
from ..carrier import Agree, Arrival, carry, digests
from ..claim import claim, sync
from ..port import Tx, require_absent
from . import connect
from .store import ARRIVING, SqliteStore, _remove, _system

PAGES = 4096
ATTEMPTS = 3


class SqliteCarrier:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._held: dict[Path, int] = {}

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
        place = store.home / ARRIVING / f"{tenant}-{secrets.token_hex(4)}"
        place.parent.mkdir(mode=0o700, exist_ok=True)
        self._held[place] = _copy_file(source._path(tenant), place)
        carry(blobs, store._blobs(tenant, lambda: True), wanted)
        return arrival._replace(place=place)

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        self._store.control.exclusively(partial(self._let_in, arrivals))

    def _let_in(self, arrivals: Sequence[Arrival], db: apsw.Connection) -> None:
        for one in arrivals:
            found = db.execute(_system("find_tenant"), {"id": one.tenant}).fetchall()
            require_absent(bool(found), one.tenant)
        for one in arrivals:
            path = self._store._path(one.tenant)
            _remove(path)  # what a creation or a removal left behind when it was killed
            if one.place is None:
                raise Conflict(f"The tenant {one.tenant} was not brought here.")
            os.rename(one.place, path)
            os.close(self._held.pop(one.place))  # before anybody opens it: SQLite's locks would go with it
            db.execute(_system("add_tenant"), {"id": one.tenant, "now": one.created_at})
            for key in one.keys:
                db.execute(_system("put_key"), key)
        sync(self._store.home / "tenants")
        with suppress(OSError):  # another restore may be under way
            (self._store.home / ARRIVING).rmdir()

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, agree: Agree) -> bool:
        """SQLite overwrites every page in one transaction, which whoever has the file open then sees."""
        wanted = source.read(tenant, lambda tx: list(digests(tx)))
        carry(blobs, self._store.blobs(tenant), wanted)
        source._files.close(tenant)
        path = source._path(tenant)

        def overwrite(db: apsw.Connection) -> bool:
            other = connect.open_reader(path, None)
            try:
                with db.backup("main", other, "main") as copy:
                    copy.step(1)  # from here on, nobody else can write
                    if not self._store.read(tenant, agree):
                        return False  # and nothing has happened
                    while not copy.done:
                        copy.step(PAGES)
                return True
            finally:
                other.close()

        return self._store._files.use(tenant, lambda file: file.alone(overwrite))


def _all_named(tx: Tx, lost: Sequence[str]) -> bool:
    """Whether all of some files should be there."""
    return all(tx.row("digest_named", digest=digest) is not None for digest in lost)


def _copy_file(source: Path, target: Path) -> int:
    """Copy a file that nobody has open, to the disk itself, and hold the copy."""
    log = source.with_name(source.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(f"{source.name} is still in use.")
    with open(source, "rb") as old, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
        held = claim(target)
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())
    if held is None:
        raise StorageError(f"{target} was taken away.")
    return held
