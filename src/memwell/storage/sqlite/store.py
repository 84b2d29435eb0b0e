"""The store in a directory: `control.db`, `tenants/<tenant>.db`, `blobs/<tenant>/` for files, `live/` for sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from ...errors import Corrupted, NotFound, StorageError, StorageFull
from .. import queries
from ..blobs import FolderBlobs, clear_dropped, sweep, sync
from ..port import Rewrite, Tx, require_absent, tenant_mark
from ..tables import copy_queries
from . import connect
from .control import ControlFile
from .file import OpenFiles, SqliteFile, upgrade
from .notifier import SocketNotifier
from .tx import SPENT, Another, SqliteTx

if TYPE_CHECKING:
    from .copier import SqliteCopier

T = TypeVar("T")

OPEN_TENANTS = 64
ARRIVING = "arriving"
_REMOVED = ".removed"
PIECE = 1 << 20


class SqliteStore:
    """Everything about storage, in one directory. Any number of processes may share it."""

    def __init__(
        self,
        home: str | Path,
        *,
        clock: Callable[[], int],
        durability: connect.Durability = "full",
        open_tenants: int = OPEN_TENANTS,
        vfs: str | None = None,
        on_due: Callable[[str, int], None] = lambda tenant, at: None,
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
        self.on_due = on_due
        self._finish_removals()

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        known = self._queries
        if sole:
            try:
                return self._files.read(tenant, lambda reader: work(SqliteTx(reader, SPENT, known, tenant)), True)
            except Another:
                pass
        return self._files.read(tenant, lambda reader: work(SqliteTx(reader, reader, known, tenant)))

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T:
        known = self._queries

        def run(writer: apsw.Cursor) -> tuple[T, int | None]:
            tx = SqliteTx(writer, writer, known, tenant)
            return work(tx), tx.due_at

        result, due_at = self._files.use(tenant, lambda file: file.write(run))
        if due_at is not None:
            with suppress(StorageError):  # what was written is durable; a sweep finds what the hint stood for
                if not self.control.rows("hinted", tenant=tenant, due_at=due_at):
                    self.control.hint("add_hint", tenant=tenant, due_at=due_at)
            self.on_due(tenant, due_at)
        return result

    def blobs(self, tenant: str) -> FolderBlobs:
        return self._blobs(tenant, lambda: bool(self.control.rows("find_tenant", id=tenant)))

    def create(self, tenant: str) -> bool:
        if self.control.rows("find_tenant", id=tenant):
            return False

        def create(db: apsw.Cursor) -> bool:
            if db.execute(_system("find_tenant"), {"id": tenant}).fetchall():
                return False
            self._remove(tenant)  # what a creation or a removal left behind when it was killed
            upgrade(self._path(tenant), "sqlite", self._durability, self._vfs)
            db.execute(_system("add_tenant"), {"id": tenant, "now": self._clock()})
            return True

        return self.control.exclusively(create)

    def receive(self, tenant: str, created_at: int | None = None) -> SqliteReceiver:
        """A tenant in the making: its file is there, and nobody knows of it."""
        require_absent(bool(self.control.rows("find_tenant", id=tenant)), tenant)
        if self._mark(tenant).exists():
            self._remove(tenant)
        return SqliteReceiver(self, tenant, self._clock() if created_at is None else created_at)

    @property
    def copier(self) -> SqliteCopier:
        from .copier import SqliteCopier

        return SqliteCopier(self)

    def drop(self, tenant: str) -> bool:
        known = self.control.rows("find_tenant", id=tenant)
        with suppress(
            OSError
        ):  # if this is cut off, whoever opens the store next goes on with it; a full disk is no reason
            self._mark(tenant).touch(mode=0o600)
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

    def residue(self, tenant: str, needles: list[bytes]) -> list[bytes]:
        database, log, _ = _family(self._path(tenant))  # the third holds page numbers only
        found: set[bytes] = set()
        for file in (database, log):
            for piece in _pieces(file, max(map(len, needles), default=0)):
                found.update(needle for needle in needles if needle in piece)
        return [needle for needle in needles if needle in found]

    def tend(self, tenant: str) -> dict[str, int]:
        return {}  # all vectors of a file fit into memory

    def check(self, tenant: str) -> list[str]:
        def integrity(db: apsw.Cursor) -> list[str]:
            found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)")]
            found += [f"broken reference in {row[0]}" for row in db.execute("PRAGMA foreign_key_check").fetchall()[:20]]
            return [line for line in found if line != "ok"]

        try:
            return self._files.use(tenant, lambda file: file.read(integrity))
        except Corrupted as error:  # too damaged even for being looked through
            return [error.message]

    def number_from(self, tenant: str, number: int) -> None:
        """Give entries numbers above one from now on."""
        self._files.use(tenant, lambda file: file.write(partial(_number_from, number)))

    def describe(self) -> dict[str, Any]:
        return {"engine": "sqlite", "version": apsw.sqlite_lib_version(), "durability": self._durability}

    def close(self) -> None:
        self._files.close()
        self.control.close()
        self.notifier.close()

    def _open(self, tenant: str) -> SqliteFile:
        if not self.control.rows("find_tenant", id=tenant):
            raise NotFound("There is no such tenant.")
        return SqliteFile(self._path(tenant), "sqlite", durability=self._durability, vfs=self._vfs)

    def _path(self, tenant: str) -> Path:
        return self.home / "tenants" / f"{tenant}.db"

    def _mark(self, tenant: str) -> Path:
        """What stands beside the file of a tenant while it is being removed."""
        return self.home / "tenants" / f"{tenant}{_REMOVED}"

    def _remove(self, tenant: str) -> None:
        """Remove the files of a tenant that there is not, or not yet."""
        _remove(self._path(tenant))
        self.blobs(tenant).drop()
        self._mark(tenant).unlink(missing_ok=True)

    def _finish_removals(self) -> None:
        """Remove what is left of tenants whose removal was killed."""

        def finish(tenant: str, db: apsw.Cursor) -> None:
            if not db.execute(_system("find_tenant"), {"id": tenant}).fetchall():
                self._remove(tenant)

        with suppress(OSError, StorageError):  # on a disk that can only be read, somebody else will
            for mark in (self.home / "tenants").glob(f"*{_REMOVED}"):
                self.control.exclusively(partial(finish, mark.name.removesuffix(_REMOVED)))
                self.control.scrub()
            clear_dropped(self.home / "blobs")

    def _blobs(self, tenant: str, is_there: Callable[[], bool]) -> FolderBlobs:
        return FolderBlobs(self.home / "blobs" / tenant, self._clock, is_there)


class SqliteReceiver:
    """The file of a tenant that is being moved here."""

    def __init__(self, store: SqliteStore, tenant: str, created_at: int) -> None:
        self._store, self._tenant, self._created_at = store, tenant, created_at
        self._file = self._open()
        self.blobs = store._blobs(tenant, lambda: True)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._file.write(lambda db: work(SqliteTx(db, db, self._store._queries, self._tenant)))

    def start_over(self) -> None:
        self._file.close()
        _remove(self._store._path(self._tenant))
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


def _number_from(number: int, db: apsw.Cursor) -> None:
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'entry'")
    db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('entry', ?)", (number,))


def _prepare_home(home: Path) -> None:
    if home.exists() and not home.is_dir():
        raise StorageError(f"{home} is not a directory.")
    try:
        (home / "tenants").mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if not (home / "tenants").is_dir():
            raise StorageFull(f"The data directory {home} cannot be made: {error.strerror}.") from error
    if (home / ARRIVING).is_dir():  # a restore is under way, or was killed
        with suppress(OSError):
            sweep((home / ARRIVING).iterdir())


def _family(path: Path) -> list[Path]:
    return [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]


def _pieces(path: Path, overlap: int) -> Iterator[bytes]:
    """The bytes of a file, read through SQLite: closing a handle of one's own would drop every lock of this process."""
    if not path.exists():
        return
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        size = file.xFileSize()
        for at in range(0, size, PIECE):
            yield file.xRead(min(PIECE + overlap, size - at), at)
    finally:
        file.xClose()


def _remove(path: Path) -> None:
    for file in _family(path):
        file.unlink(missing_ok=True)


def _system(name: str) -> str:
    return queries.load_system()[name].sql
