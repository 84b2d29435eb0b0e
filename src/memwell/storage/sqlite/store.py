"""The store in a directory: `control.db`, `tenants/<tenant>.db`, `blobs/<tenant>/` for files, `live/` for sockets."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from ...errors import Conflict, Corrupted, NotFound, StorageError, StorageFull
from .. import queries
from ..blobs import Blobs, FolderBlobs, claim, clear_dropped, sweep, sync
from ..copier import Approve, Arrival, copy_blobs, copy_queries, list_digests
from ..port import Remains, Rewrite, Tx, require_absent, tenant_mark
from . import connect
from .control import REMOVED, ControlFile, SocketNotifier
from .file import SPENT, NeedsTransaction, OpenFiles, SqliteFile, SqliteTx, upgrade

T = TypeVar("T")

OPEN_TENANTS = 64
PIECE = 1 << 20
PAGES = 4096
ATTEMPTS = 3
_ARRIVING = "arriving"


class SqliteStore:
    """All data in one directory. Any number of processes may share it."""

    def __init__(
        self,
        home: str | Path,
        *,
        clock: Callable[[], int],
        durability: connect.Durability = "full",
        open_tenants: int = OPEN_TENANTS,
        vfs: str | None = None,
    ) -> None:
        connect.require_sqlite(apsw.sqlite_lib_version())
        self.home = Path(home)
        _prepare_home(self.home)
        self._clock = clock
        self._durability: connect.Durability = durability
        self._vfs = vfs
        self._queries = queries.load("sqlite") | copy_queries()
        self._files = OpenFiles(self._open, open_tenants)
        self.control = ControlFile(self.home, vfs)
        self.notifier = SocketNotifier(self.home)
        self.on_due: Callable[[int], None] = lambda at: None
        self._finish_removals()

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        known = self._queries
        if sole:
            try:
                return self._files.read(tenant, lambda reader: work(SqliteTx(reader, SPENT, known, tenant)), True)
            except NeedsTransaction:
                pass
        return self._files.read(tenant, lambda reader: work(SqliteTx(reader, reader, known, tenant)))

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T:
        result, due_at = self._files.use(tenant, lambda file: file.write(self._perform, tenant, work))
        if due_at is not None:
            with suppress(StorageError):  # the write is durable, and workers find its job even without a hint
                if not self.control.rows("hinted", tenant=tenant, due_at=due_at):
                    self.control.hint("add_hint", tenant=tenant, due_at=due_at)
            self.on_due(due_at)
        return result

    def _perform(self, writer: apsw.Cursor, tenant: str, work: Callable[[Tx], T]) -> tuple[T, int | None]:
        tx = SqliteTx(writer, writer, self._queries, tenant)
        return work(tx), tx.due_at

    def blobs(self, tenant: str) -> FolderBlobs:
        return self._blobs(tenant, lambda: bool(self.control.rows("find_tenant", id=tenant)))

    def create(self, tenant: str) -> bool:
        if self.control.rows("find_tenant", id=tenant):
            return False

        def create(db: apsw.Cursor) -> bool:
            if db.execute(_system("find_tenant"), {"id": tenant}).fetchall():
                return False
            self._remove(tenant)  # the remains of an interrupted creation or removal
            upgrade(self._path(tenant), "sqlite", self._durability, self._vfs)
            db.execute(_system("add_tenant"), {"id": tenant, "now": self._clock()})
            return True

        return self.control.exclusively(create)

    def drop(self, tenant: str) -> bool:
        known = self.control.rows("find_tenant", id=tenant)
        with suppress(OSError):  # go on, even if the disk is full
            self._mark(tenant).touch(mode=0o600)  # if this is interrupted, the next opening of the store finishes it
            sync(self.home / "tenants")
        removed = self.control.write(
            *(("add_dropped", {"id": tenant_mark(*row), "at": self._clock()}) for row in known),
            ("delete_keys_of", {"tenant": tenant}),
            ("forget_hint", {"tenant": tenant}),
            ("delete_tenant", {"id": tenant}),
        )
        self._files.close(tenant)
        self._remove(tenant)
        self.control.scrub()
        return bool(removed)

    def scrub(self, tenant: str, rewrite: Rewrite = "never") -> bool:
        return self._files.use(tenant, lambda file: file.scrub(rewrite))

    def find_remains(self, tenant: str) -> list[Remains]:
        return []  # the file is rewritten, and its log is emptied

    def count_stale_pages(self, tenant: str) -> tuple[int, int] | None:
        """Return the number of pages of the file and its log, and of those that are free or in the log."""

        def count(db: apsw.Cursor) -> tuple[int, int]:
            pages, size, free = (
                int(db.connection.pragma(name)) for name in ("page_count", "page_size", "freelist_count")
            )
            log = _list_files(self._path(tenant))[1]
            logged = -(-log.stat().st_size // size) if log.exists() else 0
            return pages + logged, free + logged

        return self._files.use(tenant, lambda file: file.read(count))

    def residue(self, tenant: str, needles: list[bytes]) -> list[bytes]:
        database, log, _ = _list_files(self._path(tenant))  # the third has page numbers only
        found: set[bytes] = set()
        for file in (database, log):
            for piece in _read_pieces(file, max(map(len, needles), default=0)):
                found.update(needle for needle in needles if needle in piece)
        return [needle for needle in needles if needle in found]

    def tend(self, tenant: str) -> dict[str, int]:
        return {}  # all vectors of a file fit into memory

    def check(self, tenant: str) -> list[str]:
        try:
            return self._files.use(tenant, lambda file: file.read(lambda db: connect.list_damage(db, 20)))
        except Corrupted as error:  # too damaged to be checked
            return [error.message.partition(":")[0]]

    def unlist_missing(self, tenants: Sequence[str]) -> None:
        """Take tenants whose file is missing from the list, so that they can be restored. Their keys stay."""
        gone = [name for name in tenants if not self._path(name).exists()]
        self.control.write(*(("delete_tenant", {"id": name}) for name in gone))

    def number_from(self, tenant: str, number: int) -> None:
        """Make the numbers of later entries higher than this one."""
        self._files.use(tenant, lambda file: file.write(partial(_number_from, number)))

    def describe(self) -> dict[str, Any]:
        return {"engine": "sqlite", "version": apsw.sqlite_lib_version(), "durability": self._durability}

    def close(self) -> None:
        self._files.close()
        self.control.close()
        self.notifier.close()

    def receive(self, tenant: str, created_at: int | None = None) -> SqliteReceiver:
        require_absent(bool(self.control.rows("find_tenant", id=tenant)), tenant)
        if self._mark(tenant).exists():
            self._remove(tenant)
        return SqliteReceiver(self, tenant, self._clock() if created_at is None else created_at)

    @property
    def copier(self) -> SqliteCopier:
        return SqliteCopier(self)

    def _open(self, tenant: str) -> SqliteFile:
        if not self.control.rows("find_tenant", id=tenant):
            raise NotFound("There is no such tenant.")
        try:
            return SqliteFile(self._path(tenant), "sqlite", durability=self._durability, vfs=self._vfs)
        except (NotFound, Corrupted) as error:
            if not self.control.rows(
                "find_tenant", id=tenant
            ):  # it is being removed, or created again: the list is exact
                raise NotFound("There is no such tenant.") from None
            if isinstance(error, NotFound):
                raise connect.damaged(self._path(tenant).name, "is missing") from None
            raise

    def _path(self, tenant: str) -> Path:
        return self.home / "tenants" / f"{tenant}.db"

    def _mark(self, tenant: str) -> Path:
        """The file that marks a tenant as being removed."""
        return self.home / "tenants" / f"{tenant}{REMOVED}"

    def _remove(self, tenant: str) -> None:
        """Delete the files of a tenant that is not in the list of tenants."""
        _delete_files(self._path(tenant))
        self.blobs(tenant).drop()
        self._mark(tenant).unlink(missing_ok=True)

    def _finish_removals(self) -> None:
        """Delete the remains of tenants whose removal was interrupted."""

        def finish(tenant: str, db: apsw.Cursor) -> None:
            if not db.execute(_system("find_tenant"), {"id": tenant}).fetchall():
                self._remove(tenant)

        with suppress(OSError, StorageError):  # on a read-only disk
            for mark in (self.home / "tenants").glob(f"*{REMOVED}"):
                self.control.exclusively(partial(finish, mark.name.removesuffix(REMOVED)))
                self.control.scrub()
            clear_dropped(self.home / "blobs")

    def _blobs(self, tenant: str, exists: Callable[[], bool]) -> FolderBlobs:
        return FolderBlobs(self.home / "blobs" / tenant, self._clock, exists)


def _number_from(number: int, db: apsw.Cursor) -> None:
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'entry'")
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('entry', ?)", (number,))


def _prepare_home(home: Path) -> None:
    if home.exists() and not home.is_dir():
        raise StorageError(f"{home} is not a directory.")
    try:
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            home.mkdir(mode=0o700, exist_ok=True)
        (home / "tenants").mkdir(mode=0o700, exist_ok=True)
        _restrict(_list_files(home / "control.db"))
    except OSError as error:
        if not (home / "tenants").is_dir():
            raise StorageFull(f"The data directory {home} cannot be created: {error.strerror}.") from error
    if (home / _ARRIVING).is_dir():  # a restore is running, or was killed
        with suppress(OSError):
            sweep((home / _ARRIVING).iterdir())


def _restrict(files: list[Path]) -> None:
    """Take files that an earlier version created away from everybody but their owner."""
    for file in files:
        with suppress(FileNotFoundError, PermissionError):
            if stat.S_IMODE(file.stat().st_mode) & ~connect.PRIVATE:
                file.chmod(connect.PRIVATE)


def _list_files(path: Path) -> list[Path]:
    return [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]


def _delete_files(path: Path) -> None:
    for file in _list_files(path):
        file.unlink(missing_ok=True)


def _read_pieces(path: Path, overlap: int) -> Iterator[bytes]:
    """Read a file through SQLite: closing another handle would release every lock of this process on it."""
    if not path.exists():
        return
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        size = file.xFileSize()
        for at in range(0, size, PIECE):
            yield file.xRead(min(PIECE + overlap, size - at), at)
    finally:
        file.xClose()


def _system(name: str) -> str:
    return queries.load_system()[name].sql


# -- copying tenants -------------------------------------------------------------------------------------------------------


class SqliteReceiver:
    """The file of a tenant that is being moved here and is not in the list of tenants yet."""

    def __init__(self, store: SqliteStore, tenant: str, created_at: int) -> None:
        self._store, self._tenant, self._created_at = store, tenant, created_at
        self._file = self._open()
        self.blobs = store._blobs(tenant, lambda: True)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._file.write(lambda db: work(SqliteTx(db, db, self._store._queries, self._tenant)))

    def start_over(self) -> None:
        self._file.close()
        _delete_files(self._store._path(self._tenant))
        self.blobs.drop()
        self._file = self._open()

    def finish(self, number: int) -> None:
        self._file.write(partial(_number_from, number))
        self._file.close()
        self._store.control.write(("add_tenant", {"id": self._tenant, "now": self._created_at}))

    def _open(self) -> SqliteFile:
        store, path = self._store, self._store._path(self._tenant)
        upgrade(path, "sqlite", store._durability, store._vfs)
        return SqliteFile(path, "sqlite", durability=store._durability, vfs=store._vfs)


class SqliteCopier:
    """Copies tenants between directories, each as a whole file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._staging: tuple[Path, int] | None = None

    def copy_out(self, tenant: str, target: SqliteStore) -> list[str]:
        """Copy with VACUUM INTO, which is as fast as copying the file and does not copy deleted bytes. If a blob was erased
        after that, the copy is repeated and no longer refers to it."""
        lost: list[str] = []
        for _ in range(ATTEMPTS):
            self._copy(tenant, target)
            wanted = target.read(tenant, lambda tx: list(list_digests(tx)))
            lost = copy_blobs(self._store.blobs(tenant), target.blobs(tenant), wanted)
            if self._store.read(tenant, lambda tx: all(_is_named(tx, digest) for digest in lost)):  # noqa: B023 -- run at once
                break
        return lost

    def _copy(self, tenant: str, target: SqliteStore) -> None:
        self._store.read(tenant, lambda tx: None)  # raises if it does not exist, and updates its schema
        path = target._path(tenant)
        target._files.close(tenant)
        _delete_files(path)
        source = connect.open_reader(self._store._path(tenant), self._store._vfs)
        try:
            with connect.translate_errors(path):
                source.execute("VACUUM INTO ?", (str(path),))
                connect.write_checksums(path)
        finally:
            source.close()
        rows = self._store.control.rows("find_tenant", id=tenant)
        target.control.write(*(("add_tenant", {"id": row[0], "now": row[1]}) for row in rows))

    def copy_in(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        tenant, store = arrival.tenant, self._store
        require_absent(bool(store.control.rows("find_tenant", id=tenant)), tenant)
        wanted = source.read(tenant, lambda tx: list(list_digests(tx)))
        source._files.close(tenant)
        place = self._open_staging() / f"{tenant}.db"
        _copy_file(source._path(tenant), place)
        copy_blobs(blobs, FolderBlobs(place.with_suffix(""), store._clock, lambda: True), wanted)
        return arrival._replace(place=place)

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        def admit_all(db: apsw.Cursor) -> None:
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

        self._store.control.exclusively(admit_all)

    def _install(self, one: Arrival) -> None:
        """Move a tenant into place, over the remains of an interrupted creation or removal."""
        path, blobs = self._store._path(one.tenant), self._store.home / "blobs" / one.tenant
        self._store._remove(one.tenant)
        if one.place is None:
            raise Conflict(f"The tenant {one.tenant} was not copied to this store.")
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

    def _open_staging(self) -> Path:
        """Return the folder of tenants that are not admitted yet. It is deleted after this process has ended."""
        if self._staging is None:
            folder = self._store.home / _ARRIVING / secrets.token_hex(8)
            folder.mkdir(mode=0o700, parents=True)
            lock = claim(folder)
            if lock is None:
                raise StorageError(f"{folder} was removed by another process: try again.")
            self._staging = folder, lock
        return self._staging[0]

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, approve: Approve) -> bool:
        """Overwrite every page in one transaction, with SQLite's backup. Connections that have the file open see the new
        pages. Blobs are added once the replacement is approved, and orphan blobs are deleted after it."""
        wanted = source.read(tenant, lambda tx: list(list_digests(tx)))
        source._files.close(tenant)
        path, own = source._path(tenant), self._store.blobs(tenant)
        before: set[str] = set()

        def overwrite(db: apsw.Connection) -> bool:
            other = connect.open_reader(path, None)
            try:
                with db.backup("main", other, "main") as copy:
                    copy.step(1)  # locks out other writers
                    if not self._store.read(tenant, approve):
                        return False  # nothing has changed
                    before.update(self._store.read(tenant, lambda tx: list(list_digests(tx))))
                    copy_blobs(blobs, own, wanted)
                    while not copy.done:
                        copy.step(PAGES)
                return True
            finally:
                other.close()

        def delete_unnamed(tx: Tx) -> None:
            for digest in sorted(before):
                if not _is_named(tx, digest):
                    own.delete(digest)

        replaced = self._store._files.use(tenant, lambda file: file.alone(overwrite))
        if replaced:
            self._store.write(tenant, delete_unnamed)
        return replaced


def _is_named(tx: Tx, digest: str) -> bool:
    return tx.row("digest_named", digest=digest) is not None


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file that no process has open, and sync it."""
    log = source.with_name(source.name + "-wal")
    if log.exists() and log.stat().st_size:
        raise StorageError(f"{source.name} is still in use.")
    shutil.copyfile(source, target)
    target.chmod(0o600)
    sync(target)
