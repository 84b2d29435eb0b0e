"""The format of a backup, and its verification: a folder `memwell-<time>Z` with a data directory and a manifest of all files.

    manifest.json                   the source, time and version; size and SHA-256 of each file
    control.db, secret.key          the tenants, the hashes of their keys, and the secret of these hashes
    tenants/<tenant>.db             one SQLite file per tenant, also from PostgreSQL
    blobs/<tenant>/<ab>/<digest>    the files of sessions
    erasures/<tenant>.jsonl         the erasure log, whose marks reveal nothing

A folder that ends in `.erasures` has no memory, only the erasure logs. During a backup, the name ends in `.partial`.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from .. import typed
from ..erasure.log import Line, is_sound
from ..errors import Corrupted, Invalid, NotFound, Unsupported
from ..storage import queries
from ..storage.sqlite import connect

FORMAT = 1
MANIFEST = "manifest.json"
PARTIAL = ".partial"
ONLY_ERASURES = ".erasures"
MAX_MANIFEST = 256 * 1024 * 1024
MAX_LEDGER = 8 * 1024 * 1024 * 1024
MAX_LINE = 1024
YEARS = range(2000, 10_000)
_TENANT = r"[a-z0-9][a-z0-9_-]{0,62}"
_FILE = re.compile(
    rf"control\.db|secret\.key|tenants/{_TENANT}\.db|erasures/{_TENANT}\.jsonl|blobs/{_TENANT}/[0-9a-f]{{2}}/[0-9a-f]{{64}}"
)
_OF_TENANT = re.compile(_TENANT)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"memwell-\d{8}T\d{6}\.\d{6}Z(\.erasures)?")

Kind = Literal["whole", "erasures"]


class FileInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a backup."""

    path: str
    size: int
    sha256: str

    @property
    def tenant(self) -> str | None:
        """The tenant of the file; None if it is above the tenants."""
        parts = self.path.split("/")
        return None if len(parts) == 1 else parts[1].partition(".")[0]


class TenantInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant in a backup. `lost`: the digests of files that were missing when it was made."""

    tenant: str
    entries: int
    files: int
    erasures: int
    lost: list[str]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a backup. `chosen`: the tenants in the request; empty for all. `seal`: a hash of all other fields."""

    format: int
    memwell: str
    engine: str
    schema: int
    kind: Kind
    home: str
    created_at: datetime
    chosen: list[str]
    tenants: list[TenantInfo]
    files: list[FileInfo]
    seal: str = ""

    @property
    def names(self) -> list[str]:
        return [one.tenant for one in self.tenants]

    def files_of(self, tenants: Collection[str]) -> list[FileInfo]:
        """The files of some tenants, and those above the tenants."""
        wanted = {None, *tenants}
        return [one for one in self.files if one.tenant in wanted]


def build_name(moment: datetime, kind: Kind) -> str:
    return moment.astimezone(UTC).strftime("memwell-%Y%m%dT%H%M%S.%fZ") + (ONLY_ERASURES if kind == "erasures" else "")


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def list_backups(folder: Path) -> list[Path]:
    """The folders with the name of a backup, the oldest first."""
    return sorted(path for path in folder.iterdir() if is_name(path.name) and path.is_dir())


def seal_manifest(manifest: Manifest) -> Manifest:
    bare = msgspec.json.encode(msgspec.structs.replace(manifest, seal=""))
    return msgspec.structs.replace(manifest, seal=hashlib.sha256(bare).hexdigest())


def render_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def read(folder: Path) -> Manifest:
    """Read the manifest of a backup. Reject a changed one, and paths that lead out of the folder."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise NotFound(f"There is no backup at {folder}.")
    if folder.name.endswith(PARTIAL):
        raise Invalid(f"{folder.name} is the remains of an interrupted backup: choose another one.")
    if not path.is_file():
        raise Invalid(_explain_absence(folder))
    if path.stat().st_size > MAX_MANIFEST:
        raise Corrupted(f"{folder.name} is damaged: its {MANIFEST} is too large. Nothing was changed.")
    data = path.read_bytes()
    try:
        version = typed.decode(data, _Version).format
        if version > FORMAT:
            raise Unsupported(f"{folder.name} was made by a newer version of Memwell: upgrade this program.")
        manifest = typed.decode(data, Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Corrupted(f"{folder.name} is damaged: its {MANIFEST} cannot be read. Nothing was changed.") from None
    if render_manifest(seal_manifest(manifest)) != data or not _is_coherent(manifest):
        raise Corrupted(f"{folder.name} is damaged: its {MANIFEST} was modified. Nothing was changed.")
    return manifest


class _Version(msgspec.Struct):
    format: int


def _explain_absence(folder: Path) -> str:
    inside = sorted(path.name for path in folder.iterdir() if is_name(path.name))
    if inside:
        return f"{folder} is a folder of {len(inside)} backups: choose one. The newest is {folder / inside[-1]}."
    if (folder / "control.db").is_file():
        return f"{folder} is a data directory, not a backup: use `memwell move`, or back it up first."
    return f"{folder} is not a backup of Memwell: it has no {MANIFEST}."


def _is_coherent(manifest: Manifest) -> bool:
    """Return True if all values of a manifest are possible. Names in it become parts of paths."""
    numbers = [n for one in manifest.tenants for n in (one.entries, one.files, one.erasures)]
    moment = manifest.created_at
    return (
        manifest.format >= 1
        and manifest.schema >= 1
        and moment.utcoffset() == timedelta(0)
        and moment.year in YEARS
        and min(numbers, default=0) >= 0
        and all(_OF_TENANT.fullmatch(name) for name in [*manifest.names, *manifest.chosen])
        and all(_DIGEST.fullmatch(digest) for one in manifest.tenants for digest in one.lost)
        and all(_is_possible(one) for one in manifest.files)
        and _is_complete(manifest)
    )


def _is_possible(file: FileInfo) -> bool:
    parts = file.path.split("/")
    if not _FILE.fullmatch(file.path) or not _DIGEST.fullmatch(file.sha256) or file.size < 0:
        return False
    return parts[0] != "blobs" or (parts[3] == file.sha256 and parts[3].startswith(parts[2]))


def _is_complete(manifest: Manifest) -> bool:
    """Return True if the files are exactly those of the tenants, each listed once."""
    whole, names = manifest.kind == "whole", manifest.names
    paths = [one.path for one in manifest.files]
    needed = {"control.db", *(f"erasures/{name}.jsonl" for name in names)}
    needed |= {f"tenants/{name}.db" for name in names} if whole else set()
    others = [one for one in manifest.files if one.path not in needed and one.path != "secret.key"]
    return (
        len(set(names)) == len(names)
        and len(set(paths)) == len(paths)
        and needed.issubset(paths)
        and all(whole and one.path.startswith("blobs/") and one.tenant in names for one in others)
    )


# -- files ---------------------------------------------------------------------------------------------------------------


def digest_of(path: Path) -> tuple[int, str]:
    """The size and the SHA-256 of a file."""
    with open(path, "rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def require_whole(folder: Path, files: list[FileInfo]) -> None:
    """Raise if a file is missing, or has changed since the backup was made."""
    for one in files:
        path = folder / one.path
        try:
            regular = stat.S_ISREG(path.lstat().st_mode)
        except OSError:
            regular = False
        if not regular:
            raise Corrupted(f"{folder.name} is damaged: {one.path} is missing. Nothing was changed.")
        if digest_of(path) != (one.size, one.sha256):
            raise Corrupted(f"{folder.name} is damaged: {one.path} was modified. Nothing was changed.")


def write_lines(path: Path, found: list[Line]) -> None:
    with open(path, "wb") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in found)


def read_lines(path: Path) -> list[Line]:
    if path.stat().st_size > MAX_LEDGER:
        raise Corrupted(f"{path} is too large. Nothing was changed.")
    try:
        with open(path, "rb") as file:
            found = [typed.decode(text, Line) for text in iter(lambda: file.readline(MAX_LINE), b"")]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Corrupted(f"{path} is damaged. Nothing was changed.") from None
    if not all(is_sound(line) for line in found):
        raise Corrupted(f"{path} is damaged: it has impossible erasures. Nothing was changed.")
    return found


# -- verification ------------------------------------------------------------------------------------------------------------


Shape = frozenset[tuple[str, str, str | None]]


def check(path: str | Path) -> Manifest:
    """Verify a backup and return its manifest, or raise. This changes nothing."""
    folder = Path(path).expanduser()
    manifest = read(folder)
    require_readable(manifest, folder)
    require_whole(folder, manifest.files)
    require_ours(folder, manifest, manifest.names)
    for one in manifest.files:
        if one.path.endswith(".db"):
            require_sound(folder / one.path)
    return manifest


def list_strangers(path: str | Path, manifest: Manifest) -> list[str]:
    """List the files in the folder of a backup that are not part of it. They are never read."""
    folder, own = Path(path).expanduser(), {MANIFEST, *(one.path for one in manifest.files)}
    inside = (one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_symlink() or not one.is_dir())
    return sorted(name for name in inside if name not in own)


def require_readable(manifest: Manifest, folder: Path) -> None:
    """Raise if the tables of a backup are newer than this program."""
    if manifest.schema > queries.newest("sqlite"):
        raise Unsupported(f"{folder.name} was made by a newer version of Memwell: upgrade this program.")


def require_sound(path: Path) -> None:
    """Raise if a database file is damaged. No process may have it open."""
    with open_database(path) as db:
        damage = connect.list_damage(db, 5)
    if damage:
        raise Corrupted(f"{path.name} is damaged: {damage[0]}. Nothing was changed.")


def require_ours(folder: Path, manifest: Manifest, tenants: Iterable[str]) -> None:
    """Raise unless the files name the tenants of the manifest, have possible erasures, and only our tables: a trigger would
    still fire after a restore. The caller has compared the files with the manifest."""
    with open_database(folder / "control.db") as db:
        _require_shape(db, folder / "control.db", "control")
        tenants_made = db.execute("SELECT id, created_at FROM tenant ORDER BY id").fetchall()
        keys = db.execute("SELECT tenant, id, created_at, revoked_at FROM api_key").fetchall()
    names = manifest.names
    sound = (
        [row[0] for row in tenants_made] == sorted(names)
        and all(isinstance(row[1], int) for row in tenants_made)
        and all(row[0] in names and isinstance(row[1], str) and isinstance(row[2], int) for row in keys)
        and all(row[3] is None or isinstance(row[3], int) for row in keys)
        and (not keys or any(one.path == "secret.key" for one in manifest.files))
    )
    if not sound:
        raise Corrupted(f"{folder.name} is damaged: control.db and {MANIFEST} do not agree. Nothing was changed.")
    for tenant in tenants:
        read_lines(folder / "erasures" / f"{tenant}.jsonl")
        if manifest.kind == "whole":
            path = folder / "tenants" / f"{tenant}.db"
            with open_database(path) as db:
                _require_shape(db, path, "sqlite")


@contextmanager
def open_database(path: Path) -> Iterator[apsw.Connection]:
    with connect.translate_errors(path):
        db = connect.open_immutable(path)
        try:
            yield db
        finally:
            db.close()


def _require_shape(db: apsw.Connection, path: Path, kind: str) -> None:
    connect.is_current(db, kind, path.name)
    if _shape(db) != _shape_of(kind, int(db.pragma("user_version"))):
        raise Corrupted(f"{path.name} has foreign tables, or lacks one of ours. Nothing was changed.")


@cache
def _shape_of(kind: str, version: int) -> Shape:
    """The tables and indexes that the migrations create."""
    db = apsw.Connection(":memory:")
    try:
        for number, _, text in queries.migrations(kind):
            for statement in queries.statements(text) if number <= version else ():
                db.execute(statement)
        return _shape(db)
    finally:
        db.close()


def _shape(db: apsw.Connection) -> Shape:
    """The tables and indexes of a file, with their SQL. That of SQLite's own tables depends on its version and is left out."""
    rows: list[Any] = db.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    virtual = tuple(f"{row[1]}_" for row in rows if str(row[2]).upper().startswith("CREATE VIRTUAL TABLE"))
    ours = [row for row in rows if row[0] not in ("table", "index") or not str(row[1]).startswith("sqlite_")]
    return frozenset(
        (kind, name, None if str(name).startswith(virtual) or sql is None else " ".join(sql.replace('"', "").split()))
        for kind, name, sql in ours
    )
