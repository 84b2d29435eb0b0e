"""Files of tenants as they were uploaded: bytes by their SHA-256, never shared between tenants.

A blob is durable when `put` returns, and only then may a row refer to it. Orphan blobs, which no row refers to any more, are
found and deleted inside a write transaction: a tenant's writes are serial, so no upload can refer to one meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from ..errors import Corrupted, NotFound, StorageError, StorageFull
from .port import Row, Tx

T = TypeVar("T")

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_DRAFT = ".draft-"
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
PAGE = 1000


class Blobs(Protocol):
    """The files of one tenant."""

    def put(self, content: bytes) -> str:
        """Store bytes and return their digest. Storing the same bytes again renews the time of the blob."""
        ...

    def get(self, digest: str) -> bytes:
        """Return the bytes; raise if they are missing or damaged."""
        ...

    def piece(self, digest: str, at: int, size: int) -> bytes:
        """Return some of the bytes, without checking them."""
        ...

    def has(self, digest: str) -> bool: ...

    def delete(self, digest: str) -> None:
        """Delete a blob, if there is one."""
        ...

    def list(self) -> Iterator[tuple[str, int]]:
        """Every digest and its time, in any order."""
        ...

    def path(self, digest: str) -> Path | None:
        """The path of a blob, if blobs are files."""
        ...

    def tidy(self, before: int) -> bool:
        """Delete the remains of uploads that were interrupted before a time. Return True if newer ones are left."""
        ...

    def within(self, tx: Tx) -> Blobs:
        """The same blobs inside a transaction. Blobs that are files take no part in transactions."""
        ...


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check_digest(digest: str) -> str:
    """Check a digest before it becomes part of a path."""
    if not _DIGEST.match(digest):
        raise NotFound("There is no such file.")
    return digest


def check_content(content: bytes, digest: str) -> bytes:
    """Return the bytes; raise if they do not match the digest."""
    if digest_of(content) != digest:
        raise Corrupted(f"The file {digest[:12]}… is damaged: restore it from a backup. Nothing was changed.")
    return content


def list_damage(tx: Tx, blobs: Blobs) -> list[str]:
    """Read all files of a tenant, and describe those whose bytes are missing or damaged."""
    found, after = [], ""
    while rows := tx.rows("page_file", after=after, limit=PAGE):
        after = rows[-1][0]
        for file_id, digest in ((row[0], row[4]) for row in rows):
            try:
                blobs.get(digest)
            except (NotFound, Corrupted):
                found.append(f"the bytes of the file {file_id} are missing or damaged")
    return found


class FolderBlobs:
    """Blobs as files: `<folder>/<first two letters>/<digest>`."""

    def __init__(self, folder: Path, clock: Callable[[], int], exists: Callable[[], bool]) -> None:
        self._folder = folder
        self._clock = clock
        self._exists = exists

    def put(self, content: bytes) -> str:
        digest = digest_of(content)
        with translate_errors():
            self._require_tenant()
            target = self._target(digest)
            _create_folder(target.parent)
            draft = target.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
            try:
                write_file(draft, content, self._clock())
                os.replace(draft, target)
            except FileNotFoundError:
                self._require_tenant()  # the folder is missing, perhaps because the tenant was removed
                raise
            finally:
                draft.unlink(missing_ok=True)
            sync(target.parent)
            self._require_tenant(target)
        return digest

    def get(self, digest: str) -> bytes:
        with translate_errors():
            try:
                return check_content(self._target(digest).read_bytes(), digest)
            except FileNotFoundError:
                raise NotFound("There is no such file.") from None

    def piece(self, digest: str, at: int, size: int) -> bytes:
        with translate_errors():
            try:
                with open(self._target(digest), "rb") as file:
                    file.seek(at)
                    return file.read(size)
            except FileNotFoundError:
                raise NotFound("There is no such file.") from None

    def has(self, digest: str) -> bool:
        return self._target(digest).is_file()

    def delete(self, digest: str) -> None:
        target = self._target(digest)
        with translate_errors(), suppress(FileNotFoundError):
            target.unlink()
            sync(target.parent)

    def list(self) -> Iterator[tuple[str, int]]:
        for path, stored_at in self._files():
            if _DIGEST.match(path.name):
                yield path.name, stored_at

    def path(self, digest: str) -> Path | None:
        return self._target(digest)

    def tidy(self, before: int) -> bool:
        drafts = [one for one in self._files() if one[0].name.startswith(_DRAFT)]
        old = [path for path, stored_at in drafts if stored_at < before]
        with translate_errors():
            for path in old:
                path.unlink(missing_ok=True)
        clear_dropped(self._folder.parent)
        return len(old) < len(drafts)

    def within(self, tx: Tx) -> FolderBlobs:
        return self

    def drop(self) -> None:
        """Delete all blobs. The folder is renamed first, so that nothing is added to it meanwhile."""
        doomed = self._folder.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
        with translate_errors():
            try:
                os.rename(self._folder, doomed)
            except FileNotFoundError:
                return
            shutil.rmtree(doomed)
            sync(self._folder.parent)

    def _target(self, digest: str) -> Path:
        return self._folder / check_digest(digest)[:2] / digest

    def _files(self) -> Iterator[tuple[Path, int]]:
        for path in self._folder.glob("??/*"):
            with suppress(FileNotFoundError):  # deleted by another process
                yield path, path.stat().st_mtime_ns // 1000

    def _require_tenant(self, written: Path | None = None) -> None:
        """Raise if the tenant was removed. A file that was just written is deleted again."""
        if not self._exists():
            if written is not None:
                written.unlink(missing_ok=True)
            raise NotFound("There is no such tenant.")


def clear_dropped(folder: Path) -> None:
    """Delete the remains of the files of removed tenants."""
    for doomed in folder.glob(f"{_DRAFT}*"):
        shutil.rmtree(doomed, ignore_errors=True)  # another process may be deleting it too


class Run(Protocol):
    """A function that runs work in a transaction."""

    def __call__(self, work: Callable[[Tx], T], /) -> T: ...


class TableBlobs:
    """Blobs as rows, for servers that share a database and no disk."""

    def __init__(self, read: Run, write: Run, clock: Callable[[], int]) -> None:
        self._read, self._write, self._clock = read, write, clock

    def put(self, content: bytes) -> str:
        digest, now = digest_of(content), self._clock()
        self._write(lambda tx: tx.run("put_blob", digest=digest, content=content, stored_at=now))
        return digest

    def get(self, digest: str) -> bytes:
        row = self._row("find_blob", digest)
        if row is None:
            raise NotFound("There is no such file.")
        return check_content(row[0], digest)

    def piece(self, digest: str, at: int, size: int) -> bytes:
        row = self._row("piece_of_blob", digest, first=at + 1, size=size)
        if row is None:
            raise NotFound("There is no such file.")
        return bytes(row[0])

    def has(self, digest: str) -> bool:
        return self._row("has_blob", digest) is not None

    def delete(self, digest: str) -> None:
        self._write(lambda tx: tx.run("delete_blob", digest=check_digest(digest)))

    def list(self) -> Iterator[tuple[str, int]]:
        after = ""
        while rows := self._read(lambda tx: tx.rows("list_blobs", after=after, limit=PAGE)):  # noqa: B023 -- run at once
            yield from rows
            after = rows[-1][0]

    def path(self, digest: str) -> Path | None:
        return None

    def tidy(self, before: int) -> bool:
        return False  # the transaction of an interrupted upload was rolled back

    def within(self, tx: Tx) -> TableBlobs:
        return TableBlobs(lambda work: work(tx), lambda work: work(tx), self._clock)

    def _row(self, query: str, digest: str, **parameters: int) -> Row | None:
        return self._read(lambda tx: tx.row(query, digest=check_digest(digest), **parameters))


# -- files and folders -----------------------------------------------------------------------------------------------------


def write_file(path: Path, content: bytes, time: int | None = None) -> None:
    """Write a new private file and sync it to disk."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        if time is not None:
            os.utime(file.fileno(), ns=(time * 1000, time * 1000))
        os.fsync(file.fileno())


def _create_folder(folder: Path) -> None:
    """Create a folder and its parents. Each is synced before anything is put into it."""
    if folder.is_dir():
        return
    _create_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync(folder.parent)


def sync(path: Path) -> None:
    """Sync a file, or the list of names in a folder."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def claim(path: Path) -> int | None:
    """Lock an unfinished file or folder until the returned descriptor is closed or the process ends. Return None if another
    process has locked it, or it does not exist any more.

    Some network disks do not support locks. There every lock counts as taken, and nothing is deleted.
    """
    number = _open(path)
    if number is not None and _lock(number) is False:
        os.close(number)
        return None
    return number


def sweep(paths: Iterable[Path]) -> None:
    """Delete the files and folders that a killed process has left behind."""
    for path in paths:
        number = _open(path)
        if number is None:
            continue
        if _lock(number):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        os.close(number)


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # already deleted, or not ours
        return None


def _lock(number: int) -> bool | None:
    """Return True if this process has the lock now; None if the disk does not support locks."""
    import fcntl  # not on every platform; only backups need it

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def translate_errors() -> Iterator[None]:
    """Convert errors of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(
                f"Files cannot be stored: {error.strerror}. Free some space, or check the rights; nothing was lost."
            ) from error
        raise StorageError(f"The disk that holds the files reported an error: {error.strerror}.") from error
