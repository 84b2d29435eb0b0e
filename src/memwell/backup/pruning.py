"""Removing older backups: never the last one that knows something."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import MemwellError
from ..storage.port import tenant_mark
from .known import Source, of_backup
from .manifest import PARTIAL, Manifest, backups_in, read


def prune(made: Path, manifest: Manifest, keep: int) -> list[str]:
    """Remove the oldest backups of the same home, kind and tenants. What cannot be read as one is left alone, and so are links,
    those of tenants that were lost, and those that know of an erasure which the new one does not know of."""
    newest = of_backup(made, manifest, manifest.names)
    alike = [path for path in backups_in(made.parent) if path == made or _is_superseded(path, manifest, newest)]
    doomed = [path for path in alike[:-keep] if path != made]
    for path in doomed:
        cut = path.with_name(path.name + PARTIAL)
        os.rename(path, cut)  # a removal that is cut off leaves nothing that looks whole
        shutil.rmtree(cut)
    return [path.name for path in doomed]


def _is_superseded(path: Path, other: Manifest, newest: Source) -> bool:
    if path.is_symlink():
        return False
    try:
        one = read(path)
        alike = (one.home, one.kind, one.chosen) == (other.home, other.kind, other.chosen)
        return alike and _is_known_by(newest, of_backup(path, one, one.names))
    except MemwellError:
        return False


def _is_known_by(newest: Source, older: Source) -> bool:
    """Whether each of the older one's tenants is in the newer one with all that was erased of it, or was deleted. A home may
    have been lost, and made anew in the same place."""
    for tenant, lines in older.lines.items():
        made_at = older.made_at[tenant]
        if tenant_mark(tenant, made_at) in newest.dropped:
            continue
        if not newest.knows(tenant, made_at) or not set(newest.lines[tenant]).issuperset(lines):
            return False
    return set(newest.dropped).issuperset(older.dropped)
