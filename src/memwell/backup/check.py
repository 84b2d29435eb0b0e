"""Verifying a backup: every file is what was written, every database can be read as a whole, and none holds what is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from ..errors import Corrupted, Unsupported
from ..storage import queries
from ..storage.sqlite import connect
from .manifest import MANIFEST, Manifest, read, read_lines, require_whole

Shape = frozenset[tuple[str, str, str | None]]


def check(path: str | Path) -> Manifest:
    """Verify a backup and return its manifest; raises what is wrong with it. Nothing is changed."""
    folder = Path(path).expanduser()
    manifest = read(folder)
    require_readable(manifest, folder)
    require_whole(folder, manifest.files)
    require_ours(folder, manifest, manifest.names)
    for one in manifest.files:
        if one.path.endswith(".db"):
            require_sound(folder / one.path)
    return manifest


def strangers(path: str | Path, manifest: Manifest) -> list[str]:
    """What lies in the folder of a backup and is no part of it. It is never read."""
    folder, own = Path(path).expanduser(), {MANIFEST, *(one.path for one in manifest.files)}
    inside = (one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_symlink() or not one.is_dir())
    return sorted(name for name in inside if name not in own)


def require_readable(manifest: Manifest, folder: Path) -> None:
    """See to it that this program knows the tables that a backup has."""
    if manifest.schema > queries.newest("sqlite"):
        raise Unsupported(f"{folder.name} was made by a newer version of Memwell: upgrade this program.")


def require_sound(path: Path) -> None:
    """See to it that a database file that nobody has open is not damaged."""
    with connect.translate_errors(path):
        db = connect.open_immutable(path)
        try:
            found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)")]
            found += [
                f"a broken reference in {row[0]}" for row in db.execute("PRAGMA foreign_key_check").fetchall()[:5]
            ]
        finally:
            db.close()
    wrong = [line for line in found if line != "ok"]
    if wrong:
        raise Corrupted(f"{path.name} is damaged: {wrong[0]}. Nothing was changed.")


# -- what is in its databases --------------------------------------------------------------------------------------------


def require_ours(folder: Path, manifest: Manifest, tenants: Iterable[str]) -> None:
    """See to it that files, which are known to be what was written, name whom the manifest names, tell of erasures that can
    be, and have our tables only: a trigger would go on acting after a restore."""
    _examine(folder / "control.db", "control", lambda db: _require_named(db, folder, manifest))
    for tenant in tenants:
        read_lines(folder / "erasures" / f"{tenant}.jsonl")
        if manifest.kind == "whole":
            _examine(folder / "tenants" / f"{tenant}.db", "sqlite", lambda db: None)


def _examine(path: Path, kind: str, look: Any) -> None:
    with connect.translate_errors(path):
        db = connect.open_immutable(path)
        try:
            connect.is_current(db, kind, path.name)
            version = int(db.pragma("user_version"))
            if _shape(db) != _shape_of(kind, version):
                raise Corrupted(f"{path.name} holds what is not of Memwell, or lacks a table. Nothing was changed.")
            look(db)
        finally:
            db.close()


def _require_named(db: apsw.Connection, folder: Path, manifest: Manifest) -> None:
    made = db.execute("SELECT id, created_at FROM tenant ORDER BY id").fetchall()
    keys = db.execute("SELECT tenant, id, created_at, revoked_at FROM api_key").fetchall()
    has_secret = any(one.path == "secret.key" for one in manifest.files)
    sound = (
        [row[0] for row in made] == sorted(manifest.names)
        and all(isinstance(row[1], int) for row in made)
        and all(row[0] in manifest.names and isinstance(row[1], str) and isinstance(row[2], int) for row in keys)
        and all(row[3] is None or isinstance(row[3], int) for row in keys)
        and (has_secret or not keys)
    )
    if not sound:
        raise Corrupted(f"{folder.name} is damaged: control.db and {MANIFEST} do not agree. Nothing was changed.")


@cache
def _shape_of(kind: str, version: int) -> Shape:
    """What a file of ours has in it that was never touched by anybody else."""
    db = apsw.Connection(":memory:")
    try:
        for number, _, text in queries.migrations(kind):
            for statement in queries.statements(text) if number <= version else ():
                db.execute(statement)
        return _shape(db)
    finally:
        db.close()


def _shape(db: apsw.Connection) -> Shape:
    """The tables and indexes, and how they were made. Those that SQLite makes for itself may differ from version to version."""
    rows: list[Any] = db.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    virtual = tuple(f"{row[1]}_" for row in rows if str(row[2]).upper().startswith("CREATE VIRTUAL TABLE"))
    ours = [row for row in rows if row[0] not in ("table", "index") or not str(row[1]).startswith("sqlite_")]
    return frozenset(
        (row[0], row[1], None if str(row[1]).startswith(virtual) or row[2] is None else _plain(row[2])) for row in ours
    )


def _plain(sql: str) -> str:
    return " ".join(sql.replace('"', "").split())
