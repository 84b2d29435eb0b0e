"""Making a backup. It has a temporary name until it is verified."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from .. import config as configuration
from ..clock import SystemClock
from ..config import Config
from ..erasure import log
from ..errors import Conflict, Invalid, MemwellError, NotFound, StorageError, StorageFull
from ..storage import queries
from ..storage.blobs import NO_ROOM, claim, sweep, sync
from ..storage.copier import CopyableStore, move_keys
from ..storage.port import ALL, list_tenants, tenant_mark
from ..storage.sqlite import SqliteStore, connect
from ..version import __version__
from .erasures import Source, open_existing, read_backup
from .manifest import (
    FORMAT,
    MANIFEST,
    PARTIAL,
    FileInfo,
    Kind,
    Manifest,
    TenantInfo,
    build_name,
    digest_of,
    is_name,
    list_backups,
    read,
    render_manifest,
    require_sound,
    seal_manifest,
    write_lines,
)

Progress = Callable[[str], None]


class Made(NamedTuple):
    """A new backup, and the older ones that were removed for it."""

    path: Path
    manifest: Manifest
    removed: list[str]


def back_up(
    home: str | Path | None = None,
    folder: str | Path | None = None,
    *,
    tenants: Sequence[str] = (),
    erasures_only: bool = False,
    keep: int | None = None,
    progress: Progress = lambda step: None,
) -> Made:
    """Copy a data directory or a database that is in use into a new folder inside `folder`, and verify the copy.

    It has every write that was acknowledged before the call. `erasures_only`: no memory, only the erasure logs. `keep`: the
    number of backups of the same kind to keep, including this one.
    """
    config = configuration.load(home=None if home is None else str(home))
    if keep is not None and keep < 1:
        raise Invalid("Keep at least one backup.", field="keep")
    place = _choose_folder(config, folder)
    wanted = _Wanted(datetime.now(UTC), "erasures" if erasures_only else "whole", config, tenants)
    store = open_existing(config)
    try:
        with translate_os_errors():
            made = _make(store, place, wanted, progress)
            lost = any(one.lost for one in made.manifest.tenants)
            return made._replace(removed=[] if keep is None or lost else prune(made.path, made.manifest, keep))
    finally:
        store.close()


class _Wanted(NamedTuple):
    began: datetime
    kind: Kind
    config: Config
    tenants: Sequence[str]


@contextmanager
def translate_os_errors() -> Iterator[None]:
    """Turn errors of the operating system into errors of Memwell."""
    try:
        yield
    except OSError as error:
        problem = f"{error.filename or 'The disk'} cannot be read or written: {error.strerror}"
        if error.errno in NO_ROOM:
            raise StorageFull(f"{problem}. Free some space, or check the rights; nothing was changed.") from error
        raise StorageError(f"{problem}.") from error


def _choose_folder(config: Config, folder: str | Path | None) -> Path:
    """Return the folder of backups: by default beside the data, and never inside it."""
    if folder is None:
        if config.on_postgres:
            raise Invalid("A backup of a database needs a folder: give one.")
        home = config.home_path.absolute()
        return home.with_name(f"{home.name}-backups")
    place = Path(folder).expanduser().absolute()
    if not config.on_postgres and place.resolve().is_relative_to(config.home_path.resolve()):
        raise Invalid("A backup inside the data directory would be lost with it: choose another folder.")
    if place.exists() and not place.is_dir():
        raise Invalid(f"{place} is not a folder.")
    return place


def _make(store: CopyableStore, folder: Path, wanted: _Wanted, progress: Progress) -> Made:
    known = list_tenants(store)
    missing = [name for name in wanted.tenants if name not in known]
    if missing:
        raise NotFound(f"There is no tenant {missing[0]}.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sweep_folder(folder)
    final = folder / build_name(wanted.began, wanted.kind)
    partial = final.with_name(final.name + PARTIAL)
    os.mkdir(partial, 0o700)
    lock = claim(partial)
    try:
        if lock is None or final.exists():
            raise Conflict("Another backup is being made under the same name: try again.")
        infos = _fill(store, partial, wanted.kind, sorted(wanted.tenants or known), progress)
        engine, schema = str(store.describe()["engine"]), queries.newest("sqlite")
        home, chosen = wanted.config.home_without_password, sorted(wanted.tenants)
        manifest = Manifest(FORMAT, __version__, engine, schema, wanted.kind, home, wanted.began, chosen, infos, [])
        manifest = _seal(partial, manifest, progress)
        os.rename(partial, final)
        sync(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    return Made(final, manifest, [])


def sweep_folder(folder: Path) -> None:
    """Delete the remains of killed backups and restores in a folder."""
    partial = [path for path in folder.glob(f"memwell-*{PARTIAL}") if is_name(path.name.removesuffix(PARTIAL))]
    sweep([*partial, *folder.glob(".memwell-restoring-*")])


# -- contents ----------------------------------------------------------------------------------------------------------


def _fill(
    store: CopyableStore, partial: Path, kind: Kind, tenants: Sequence[str], progress: Progress
) -> list[TenantInfo]:
    (partial / "erasures").mkdir(mode=0o700)
    target = SqliteStore(partial, clock=SystemClock().now, durability="relaxed")
    infos: list[TenantInfo] = []
    try:
        for tenant in tenants:
            progress(f"copying {tenant}")
            info = _copy_tenant(store, target, kind, tenant)
            if info is not None:
                infos.append(info)
                move_keys(store, target, tenant)
        dropped = store.control.rows("list_dropped", after="", limit=ALL)
        target.control.write(*(("add_dropped", {"id": mark, "at": at}) for mark, at in dropped))
    finally:
        target.close()
    return infos


def _copy_tenant(store: CopyableStore, target: SqliteStore, kind: Kind, tenant: str) -> TenantInfo | None:
    """Copy one tenant. Return None if it was deleted meanwhile."""
    log_path = target.home / "erasures" / f"{tenant}.jsonl"
    try:
        entries, files, lost = 0, 0, []
        if kind == "whole":
            lost = store.copier.copy_out(tenant, target)
            row = target.read(tenant, lambda tx: tx.row("count_all_entries"))
            entries, files = row[0] if row else 0, sum(1 for _ in target.blobs(tenant).list())
            erased = target.read(tenant, lambda tx: log.list_lines(tx))
        else:
            erased = store.read(tenant, lambda tx: log.list_lines(tx))
            rows = store.control.rows("find_tenant", id=tenant)
            target.control.write(*(("add_tenant", {"id": row[0], "now": row[1]}) for row in rows))
        write_lines(log_path, erased)
        return TenantInfo(tenant, entries, files, len(erased), lost)
    except MemwellError:
        if store.control.rows("find_tenant", id=tenant):
            raise
        target.drop(tenant)
        log_path.unlink(missing_ok=True)
        return None


# -- manifest ----------------------------------------------------------------------------------------------------------


def _seal(partial: Path, described: Manifest, progress: Progress) -> Manifest:
    """Verify the copy, list its files in the manifest, and sync all of it."""
    files: list[FileInfo] = []
    for path in sorted(path for path in partial.rglob("*") if path.is_file()):
        if path.suffix == ".db":
            progress(f"checking {path.stem}")
            with connect.translate_errors(path):
                db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=connect.checksum_vfs())
                db.pragma("journal_mode", "delete")  # so that it has no log file beside it
                db.close()
            require_sound(path)
    for path in sorted(path for path in partial.rglob("*") if path.is_file()):
        os.chmod(path, 0o600)
        sync(path)
        files.append(FileInfo(path.relative_to(partial).as_posix(), *digest_of(path)))
    manifest = seal_manifest(msgspec.structs.replace(described, files=files))
    (partial / MANIFEST).write_bytes(render_manifest(manifest))
    os.chmod(partial / MANIFEST, 0o600)
    sync(partial / MANIFEST)
    for folder in [partial, *(path for path in partial.rglob("*") if path.is_dir())]:
        os.chmod(folder, 0o700)
        sync(folder)
    return manifest


# -- removing older backups ------------------------------------------------------------------------------------------------


def prune(made: Path, manifest: Manifest, keep: int) -> list[str]:
    """Remove the oldest backups of the same home, kind and tenants. Keep links, unreadable backups, and those with tenants or
    erasures that the new one lacks."""
    newest = read_backup(made, manifest, manifest.names)
    alike = [path for path in list_backups(made.parent) if path == made or _is_superseded(path, manifest, newest)]
    doomed = [path for path in alike[:-keep] if path != made]
    for path in doomed:
        cut = path.with_name(path.name + PARTIAL)
        os.rename(path, cut)  # an interrupted removal must not look like a complete backup
        shutil.rmtree(cut)
    return [path.name for path in doomed]


def _is_superseded(path: Path, other: Manifest, newest: Source) -> bool:
    """Return True if the newest backup can replace this one."""
    if path.is_symlink():
        return False
    try:
        one = read(path)
        alike = (one.home, one.kind, one.chosen) == (other.home, other.kind, other.chosen)
        return alike and _is_known_by(newest, read_backup(path, one, one.names))
    except MemwellError:
        return False


def _is_known_by(newest: Source, older: Source) -> bool:
    """Return True if the newer backup has each tenant of the older one with all its erasures, or its deletion. It has not if the
    home was lost and another was created in its place."""
    for tenant, lines in older.lines.items():
        made_at = older.made_at[tenant]
        if tenant_mark(tenant, made_at) in newest.dropped:
            continue
        if not newest.knows(tenant, made_at) or not set(newest.lines[tenant]).issuperset(lines):
            return False
    return set(newest.dropped).issuperset(older.dropped)
