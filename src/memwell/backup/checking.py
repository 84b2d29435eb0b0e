"""Verifying a backup: every file is what was written, and every database can be read as a whole."""

from __future__ import annotations

from pathlib import Path

from ..errors import Corrupted, Unsupported
from ..storage.sqlite import connect, migrate
from .manifest import Manifest, read, require_whole


def check(path: str | Path) -> Manifest:
    """Verify a backup and return its manifest; raises what is wrong with it. Nothing is changed."""
    folder = Path(path).expanduser()
    manifest = read(folder)
    require_whole(folder, manifest.files)
    for one in manifest.files:
        if one.path.endswith(".db"):
            require_sound(folder / one.path)
    return manifest


def require_readable(manifest: Manifest, folder: Path) -> None:
    """See to it that this program knows the tables that a backup has."""
    if manifest.schema > migrate.newest("sqlite"):
        raise Unsupported(f"{folder.name} was made by a newer version of Memwell: upgrade this program.")


def require_sound(path: Path) -> None:
    """See to it that a database file that nobody has open is not damaged."""
    with connect.told(path):
        db = connect.open_still(path)
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
