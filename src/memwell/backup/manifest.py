"""What a backup is: a folder `memwell-<time>Z` that holds a data directory, and a manifest that names every file in it.

    manifest.json                   what, when, of which version; size and SHA-256 of each file
    control.db, secret.key          the tenants, and the hashes of their keys with what these are keyed with
    tenants/<tenant>.db             one SQLite file per tenant, whatever engine it comes from
    blobs/<tenant>/<ab>/<digest>    the files of sessions
    erasures/<tenant>.jsonl         what was ever erased, by marks that tell nothing

A folder that ends in `.erasures` has no memory in it, only what was erased. While it is being made, its name ends in `.partial`.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from .. import typed
from ..erasure.log import Line, is_sound
from ..errors import Corrupted, Invalid, NotFound, Unsupported

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
        """Whose it is; None: it stands above the tenants."""
        parts = self.path.split("/")
        return None if len(parts) == 1 else parts[1].partition(".")[0]


class TenantInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant in a backup. `lost`: the digests of files that were not there when it was made."""

    tenant: str
    entries: int
    files: int
    erasures: int
    lost: list[str]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup holds. `chosen`: the tenants that were asked for; none: all. `seal`: the hash of all the rest."""

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
        """The files that some tenants need, and those that stand above all."""
        wanted = {None, *tenants}
        return [one for one in self.files if one.tenant in wanted]


def build_name(moment: datetime, kind: Kind) -> str:
    return moment.astimezone(UTC).strftime("memwell-%Y%m%dT%H%M%S.%fZ") + (ONLY_ERASURES if kind == "erasures" else "")


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def list_backups(folder: Path) -> list[Path]:
    """What is called as a backup is, the oldest first."""
    return sorted(path for path in folder.iterdir() if is_name(path.name) and path.is_dir())


def seal_manifest(manifest: Manifest) -> Manifest:
    bare = msgspec.json.encode(msgspec.structs.replace(manifest, seal=""))
    return msgspec.structs.replace(manifest, seal=hashlib.sha256(bare).hexdigest())


def render_manifest(manifest: Manifest) -> bytes:
    """A manifest as it is written: people may read it, too."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def read(folder: Path) -> Manifest:
    """The manifest of a backup. One that is not exactly what was written is refused, and so are paths that lead elsewhere."""
    data = _bytes(folder)
    try:
        version = typed.decode(data, _Version).format
        if version > FORMAT:
            raise Unsupported(f"{folder.name} was made by a newer version of Memwell: upgrade this program.")
        manifest = typed.decode(data, Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Corrupted(f"{folder.name} is damaged: its {MANIFEST} cannot be read. Nothing was changed.") from None
    if render_manifest(seal_manifest(manifest)) != data or not _is_coherent(manifest):
        raise Corrupted(f"{folder.name} is damaged: its {MANIFEST} is not what was written. Nothing was changed.")
    return manifest


def _is_coherent(manifest: Manifest) -> bool:
    """Whether a manifest is one that could have been written. A name in it becomes part of a path."""
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
        and _are_all_there(manifest)
    )


def _is_possible(one: FileInfo) -> bool:
    parts = one.path.split("/")
    if not _FILE.fullmatch(one.path) or not _DIGEST.fullmatch(one.sha256) or one.size < 0:
        return False
    return parts[0] != "blobs" or (parts[3] == one.sha256 and parts[3].startswith(parts[2]))


def _are_all_there(manifest: Manifest) -> bool:
    """Whether every tenant has what it needs, once, and nothing is there that is no tenant's."""
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


class _Version(msgspec.Struct):
    format: int


def _bytes(folder: Path) -> bytes:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise NotFound(f"There is no backup at {folder}.")
    if folder.name.endswith(PARTIAL):
        raise Invalid(f"{folder.name} was cut off while it was made: it is no backup.")
    if not path.is_file():
        raise Invalid(_not_one(folder))
    if path.stat().st_size > MAX_MANIFEST:
        raise Corrupted(f"{folder.name} is damaged: its {MANIFEST} is too large. Nothing was changed.")
    return path.read_bytes()


def _not_one(folder: Path) -> str:
    inside = sorted(path.name for path in folder.iterdir() if is_name(path.name))
    if inside:
        return f"{folder} holds {len(inside)} backups: name one. The newest is {folder / inside[-1]}."
    if (folder / "control.db").is_file():
        return f"{folder} is a data directory and no backup: use `memwell move`, or make a backup of it first."
    return f"{folder} is no backup of Memwell: there is no {MANIFEST} in it."


# -- its files -----------------------------------------------------------------------------------------------------------


def digest_of(path: Path) -> tuple[int, str]:
    """The size and the SHA-256 of a file."""
    with open(path, "rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def require_whole(folder: Path, files: list[FileInfo]) -> None:
    """See to it that files are what they were when the backup was made."""
    for one in files:
        path = folder / one.path
        try:
            regular = stat.S_ISREG(path.lstat().st_mode)
        except OSError:
            regular = False
        if not regular:
            raise Corrupted(f"{folder.name} is damaged: {one.path} is missing. Nothing was changed.")
        if digest_of(path) != (one.size, one.sha256):
            raise Corrupted(f"{folder.name} is damaged: {one.path} is not what was written. Nothing was changed.")


def write_lines(path: Path, found: list[Line]) -> None:
    """What was erased, one line each."""
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
        raise Corrupted(f"{path} is damaged: it tells of what cannot be. Nothing was changed.")
    return found
