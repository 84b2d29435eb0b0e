"""Files and folders that are in the making: whose maker lives, and which were left behind by one that was killed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from ..errors import Corrupted, NotFound, StorageError, StorageFull
from .port import Row, Tx


def claim(path: Path) -> int | None:
    """Hold a file or a folder until what this returns is closed, or the process ends; None if another does, or it is gone.

    Some disks in a network know no such locks. Then everybody is believed to be alive, and nothing is cleared away.
    """
    number = _open_folder(path)
    if number is not None and _lock(number) is False:
        os.close(number)
        return None
    return number


def sweep(paths: Iterable[Path]) -> None:
    """Remove those that certainly nobody holds."""
    for path in paths:
        number = _open_folder(path)
        if number is None:
            continue
        if _lock(number):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        os.close(number)


def sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _open_folder(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # gone, or none of ours
        return None


def _lock(number: int) -> bool | None:
    """Whether it is ours now; None if nobody can tell."""
    import fcntl  # not everywhere; only backups need it

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


# -- Files as they were uploaded: bytes by their SHA-256, one tenant's each, never shared with another.
#
# A blob is durable when `put` returns, and only then may a row name it. Nobody owns a blob: it is deleted once no row names it
# any more, which is found out and done inside a write transaction, since a tenant's come one after the other.


T = TypeVar("T")

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_DRAFT = ".draft-"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
PAGE = 1000


class Blobs(Protocol):
    """The files of one tenant."""

    def put(self, content: bytes) -> str:
        """Keep bytes and return their digest. The same bytes again are the same blob, as if stored just now."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes, or an error; never other bytes."""
        ...

    def piece(self, digest: str, at: int, size: int) -> bytes:
        """Some of the bytes, of what was found to be whole."""
        ...

    def has(self, digest: str) -> bool: ...

    def delete(self, digest: str) -> None:
        """Remove a blob, if there is one."""
        ...

    def list(self) -> Iterator[tuple[str, int]]:
        """Every digest, and when it was stored, in no order."""
        ...

    def path(self, digest: str) -> Path | None:
        """Where a blob lies, if it is a file."""
        ...

    def tidy(self, before: int) -> bool:
        """Remove what was left by uploads that were cut off before a moment; True if there are some that began later."""
        ...

    def within(self, tx: Tx) -> Blobs:
        """The same, seen and changed from within a transaction, as far as blobs take part in it."""
        ...


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def check_digest(digest: str) -> str:
    """A digest, before it becomes part of a path."""
    if not _DIGEST.match(digest):
        raise NotFound("There is no such file.")
    return digest


def check_content(content: bytes, digest: str) -> bytes:
    """Bytes that were read, if they are those that were stored."""
    if digest_of(content) != digest:
        raise Corrupted(f"The file {digest[:12]}… is damaged: restore it from a backup. Nothing was changed.")
    return content


def list_damage(tx: Tx, blobs: Blobs) -> list[str]:
    """Which files of a tenant have lost their bytes, in words; every one is read."""
    found, after = [], ""
    while rows := tx.rows("page_file", after=after, limit=PAGE):
        after = rows[-1][0]
        for file_id, digest in ((row[0], row[4]) for row in rows):
            try:
                blobs.get(digest)
            except (NotFound, Corrupted):
                found.append(f"the bytes of the file {file_id} are gone or damaged")
    return found


class FolderBlobs:
    """Blobs as files: `<folder>/<first two letters>/<digest>`."""

    def __init__(self, folder: Path, clock: Callable[[], int], is_there: Callable[[], bool]) -> None:
        self._folder = folder
        self._clock = clock
        self._is_there = is_there

    def put(self, content: bytes) -> str:
        digest = digest_of(content)
        with _translate_errors():
            self._require()
            target = self._target(digest)
            _make(target.parent)
            draft = target.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
            try:
                _write(draft, content, self._clock())
                os.replace(draft, target)
            except FileNotFoundError:
                self._require()  # its folder is gone, and so may be the tenant
                raise
            finally:
                draft.unlink(missing_ok=True)
            sync(target.parent)
            self._require(target)
        return digest

    def get(self, digest: str) -> bytes:
        with _translate_errors():
            try:
                return check_content(self._target(digest).read_bytes(), digest)
            except FileNotFoundError:
                raise NotFound("There is no such file.") from None

    def piece(self, digest: str, at: int, size: int) -> bytes:
        with _translate_errors():
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
        with _translate_errors(), suppress(FileNotFoundError):
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
        with _translate_errors():
            for path in old:
                path.unlink(missing_ok=True)
        clear_dropped(self._folder.parent)
        return len(old) < len(drafts)

    def within(self, tx: Tx) -> FolderBlobs:
        return self

    def drop(self) -> None:
        """Remove them all. Their folder loses its name first, so that nobody adds one to what is being removed."""
        doomed = self._folder.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
        with _translate_errors():
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
            try:
                stored_at = path.stat().st_mtime_ns // 1000
            except FileNotFoundError:  # somebody deleted it meanwhile
                continue
            yield path, stored_at

    def _require(self, written: Path | None = None) -> None:
        """A tenant that is removed takes its files along: nothing is left behind of one that comes too late."""
        if not self._is_there():
            if written is not None:
                written.unlink(missing_ok=True)
            raise NotFound("There is no such tenant.")


def clear_dropped(folder: Path) -> None:
    """Remove what is left of the files of tenants that were removed."""
    for doomed in folder.glob(f"{_DRAFT}*"):
        shutil.rmtree(doomed, ignore_errors=True)  # another may be removing it right now


class Run(Protocol):
    """How something is done in a transaction."""

    def __call__(self, work: Callable[[Tx], T], /) -> T: ...


class TableBlobs:
    """Blobs as rows, where several servers share a database and no disk."""

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
        given = {"digest": check_digest(digest), "first": at + 1, "size": size}
        row = self._read(lambda tx: tx.row("piece_of_blob", **given))
        if row is None:
            raise NotFound("There is no such file.")
        return bytes(row[0])

    def has(self, digest: str) -> bool:
        return self._row("has_blob", digest) is not None

    def delete(self, digest: str) -> None:
        self._write(lambda tx: tx.run("delete_blob", digest=check_digest(digest)))

    def list(self) -> Iterator[tuple[str, int]]:
        after = ""
        while rows := self._page(after):
            yield from rows
            after = rows[-1][0]

    def path(self, digest: str) -> Path | None:
        return None

    def tidy(self, before: int) -> bool:
        return False  # what was cut off was never kept

    def within(self, tx: Tx) -> TableBlobs:
        return TableBlobs(lambda work: work(tx), lambda work: work(tx), self._clock)

    def _row(self, query: str, digest: str) -> Row | None:
        return self._read(lambda tx: tx.row(query, digest=check_digest(digest)))

    def _page(self, after: str) -> Sequence[Row]:
        return self._read(lambda tx: tx.rows("list_blobs", after=after, limit=PAGE))


def _write(path: Path, content: bytes, now: int) -> None:
    """Write a new file, to the disk itself."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.utime(file.fileno(), ns=(now * 1000, now * 1000))
        os.fsync(file.fileno())


def _make(folder: Path) -> None:
    """Make a folder and those that it is in, each known to the disk before something is put into it."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync(folder.parent)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StorageFull(
                f"Files cannot be stored: {error.strerror}. Free some space, or check the rights; nothing was lost."
            ) from error
        raise StorageError(f"The disk that holds the files reported an error: {error.strerror}.") from error
