"""Disks that misbehave: one that can be full, one that remembers what a power loss would have left of it, and a fast one.

They are SQLite VFSes on top of the one with checksums. A store is put on them by its `vfs` argument; nothing is patched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import apsw

from memwell.storage.sqlite.connect import checksum_vfs

SECTOR = 512


class _File(apsw.VFSFile):
    """A file of the usual VFS."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(checksum_vfs(), name, flags)
        self.name = name.filename() if isinstance(name, apsw.URIFilename) else name or ""

    def xLock(self, level: int) -> None:  # noqa: N802 -- SQLite's name
        """A read-only connection tries, when it closes, to lock what it cannot lock; SQLite expects a refusal."""
        try:
            super().xLock(level)
        except apsw.IOError:
            raise apsw.BusyError("the file is open for reading only") from None


# -- a full disk -----------------------------------------------------------------------------------------------------


class FullDisk(apsw.VFS):
    """A disk that has no room for the files whose names match `full`, but for some writes, and does not sync `broken` ones.
    Both are regular expressions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.full: str | None = None
        self.broken: str | None = None
        self.room = 0
        self.refused = 0
        super().__init__(name, checksum_vfs())

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _FileOnFullDisk(self, name, flags)


class _FileOnFullDisk(_File):
    def __init__(self, disk: FullDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(name, flags)
        self._disk = disk

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        if self._disk.full is not None and re.search(self._disk.full, self.name):
            self._disk.room -= 1
            if self._disk.room < 0:
                self._disk.refused += 1
                raise apsw.FullError("no room left")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.broken is not None and re.search(self._disk.broken, self.name):
            raise apsw.IOError("not synced")
        super().xSync(flags)


# -- a disk without syncs --------------------------------------------------------------------------------------------


class UnsyncedDisk(apsw.VFS):
    """A disk that is never synced: for tests that open and close thousands of files and fear no power loss."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name, checksum_vfs())

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _UnsyncedFile(name, flags)


class _UnsyncedFile(_File):
    def xSync(self, flags: int) -> None:  # noqa: N802
        """Nothing."""


# -- power loss ------------------------------------------------------------------------------------------------------


class Op(NamedTuple):
    """Something that happened to a file, or what a test noted between."""

    kind: str  # write, truncate, sync, sync_with_directory, delete, note
    path: str
    offset: int = 0
    data: Any = b""


class RecordingDisk(apsw.VFS):
    """A disk that writes down everything, so that the power can be cut at any moment of it, any number of times."""

    def __init__(self, name: str) -> None:
        self.ops: list[Op] = []
        self._lock = Lock()
        super().__init__(name, checksum_vfs())

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.record(Op("delete", filename, int(syncdir)))

    def note(self, what: object) -> None:
        """Remember that a test knows something from here on."""
        self.record(Op("note", "", 0, what))

    def record(self, op: Op) -> None:
        with self._lock:
            self.ops.append(op)


class _RecordedFile(_File):
    def __init__(self, disk: RecordingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(name, flags)
        self._disk = disk
        # Like the usual VFS: the first sync of a journal or log also syncs the directory in which it was made.
        self._syncs_directory = bool(flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.record(Op("write", self.name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.record(Op("truncate", self.name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._disk.record(Op("sync_with_directory" if self._syncs_directory else "sync", self.name))
        self._syncs_directory = False


@dataclass
class _Inode:
    """A file's bytes: those that are safe, and what was done to them since they were."""

    safe: bytearray = field(default_factory=bytearray)
    pending: list[Op] = field(default_factory=list)

    def sync(self) -> None:
        for op in self.pending:
            _apply(self.safe, op)
        self.pending.clear()

    def after_power_loss(self, chance: Random) -> bytes:
        """Each sector of each unsynced write has reached the disk or not, in whatever order."""
        kept, torn = chance.choice([0.0, 0.5, 0.9, 1.0]), chance.random() < 0.5
        left = bytearray(self.safe)
        for op in self.pending:
            for part in _sectors(op) if torn else [op]:
                if chance.random() < kept:
                    _apply(left, part)
        return bytes(left)


def cut_power(ops: list[Op], home: Path, target: Path, chance: Random) -> None:
    """Rebuild below `target` what a power loss after these operations leaves of `home`."""
    now: dict[str, _Inode | None] = {}
    safe: dict[str, _Inode | None] = {}
    for op in ops:
        if op.kind == "note":
            continue
        inode = now.get(op.path)
        if op.kind == "delete":
            now[op.path] = None
        elif inode is None:
            inode = now[op.path] = _Inode()
        if inode and op.kind in ("write", "truncate"):
            inode.pending.append(op)
        if inode and op.kind.startswith("sync"):
            inode.sync()
        if op.kind == "sync_with_directory" or (op.kind == "delete" and op.offset):
            folder = os.path.dirname(op.path)
            safe.update({path: known for path, known in now.items() if os.path.dirname(path) == folder})
    for path, known in now.items():
        entry = chance.choice([known, safe.get(path)])  # a name that was not synced may be there or not
        if entry is not None:
            copy = target / Path(path).relative_to(home)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(entry.after_power_loss(chance))


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del content[op.offset :]
        return
    if len(content) < op.offset:
        content.extend(bytes(op.offset - len(content)))
    content[op.offset : op.offset + len(op.data)] = op.data


def _sectors(op: Op) -> Iterator[Op]:
    if op.kind != "write":
        yield op
        return
    start, end = op.offset, op.offset + len(op.data)
    while start < end:
        stop = min(end, start - start % SECTOR + SECTOR)
        yield Op("write", op.path, start, op.data[start - op.offset : stop - op.offset])
        start = stop


@contextmanager
def unsynced_disk() -> Iterator[UnsyncedDisk]:
    disk = UnsyncedDisk("memwell-test-unsynced")
    yield disk
    disk.unregister()


@contextmanager
def full_disk() -> Iterator[FullDisk]:
    disk = FullDisk("memwell-test-full")
    yield disk
    disk.unregister()


@contextmanager
def recording_disk() -> Iterator[RecordingDisk]:
    disk = RecordingDisk("memwell-test-recording")
    yield disk
    disk.unregister()
