"""What is known of erasures and keys from elsewhere: from newer backups, and from wherever one is told to look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from .. import config as configuration
from ..errors import Corrupted, Invalid, MemwellError
from ..lifecycle import ledger
from ..lifecycle.ledger import Line
from ..storage import queries
from ..storage.move import KEY_COLUMNS
from ..storage.port import Store
from ..storage.sqlite import connect
from .making import EVERY, backups_in, open_existing
from .manifest import MANIFEST, Manifest, name_of, read, read_lines, require_whole

Key = dict[str, Any]
_DROPPED_SINCE = 3
"""From which version on `control.db` knows which tenants were deleted."""


class Source(NamedTuple):
    """One place that knows something: what was erased of each tenant, which tenants are gone, and which keys there are."""

    name: str
    until: datetime
    lines: dict[str, list[Line]]
    dropped: set[str]
    made_at: dict[str, int]
    keys: dict[str, dict[str, Key]]


@dataclass(slots=True)
class Known:
    """Everything that is known. Only what is newer than the backup can say what became of its keys."""

    since: datetime
    sources: list[Source] = field(default_factory=list)

    def lines(self, tenant: str) -> list[Line]:
        """Every erasure once, in the order of time."""
        every = {line for source in self.sources for line in source.lines.get(tenant, ())}
        return sorted(every, key=lambda line: (line.at, line.kind, line.id))

    @property
    def dropped(self) -> set[str]:
        return {mark for source in self.sources for mark in source.dropped}

    def keys(self, tenant: str, made_at: int, keys: Iterable[Key]) -> list[Key]:
        """The keys of a tenant that are still there, revoked if they were since."""
        newer = [one.keys.get(tenant, {}) for one in self.sources if self._speaks(one, tenant, made_at)]
        left = [key for key in keys if all(key["id"] in known for known in newer)]
        return [key | {"revoked_at": _revoked([key, *(known[key["id"]] for known in newer)])} for key in left]

    def _speaks(self, source: Source, tenant: str, made_at: int) -> bool:
        return source.until > self.since and source.made_at.get(tenant) == made_at


def _revoked(same: Sequence[Key]) -> int | None:
    moments = [key["revoked_at"] for key in same if key["revoked_at"] is not None]
    return min(moments, default=None)


def of_store(store: Store, name: str, tenants: Iterable[str]) -> Source:
    """What a store that is in use knows."""
    there: dict[str, int] = dict(store.control.rows("list_tenants", after="", limit=EVERY))
    here = [tenant for tenant in tenants if tenant in there]
    lines = {tenant: store.read(tenant, lambda tx: list(ledger.lines(tx))) for tenant in here}
    dropped = {row[0] for row in store.control.rows("list_dropped", after="", limit=EVERY)}
    keys = {tenant: _by_id(store.control.rows("page_keys", tenant=tenant)) for tenant in here}
    return Source(name, datetime.now(UTC), lines, dropped, there, keys)


def of_backup(folder: Path, manifest: Manifest, tenants: Iterable[str]) -> Source:
    """What a backup knows. Only the small files of it are read."""
    here = [tenant for tenant in tenants if tenant in manifest.names]
    small = [one for one in manifest.needed_by(here) if one.tenant is None or one.path.startswith("erasures/")]
    if len([one for one in small if one.tenant is not None]) != len(here):
        raise Corrupted(f"{folder.name} is damaged: it does not say what was erased. Nothing was changed.")
    require_whole(folder, small)
    lines = {tenant: read_lines(folder / "erasures" / f"{tenant}.jsonl") for tenant in here}
    db = connect.open_still(folder / "control.db")
    try:
        with connect.told(folder / "control.db"):
            ask = _asking(db)
            dropped = ask("list_dropped", after="", limit=EVERY) if db.pragma("user_version") >= _DROPPED_SINCE else []
            made_at = dict(ask("list_tenants", after="", limit=EVERY))
            keys = {tenant: _by_id(ask("page_keys", tenant=tenant)) for tenant in here}
    finally:
        db.close()
    return Source(folder.name, manifest.created_at, lines, {row[0] for row in dropped}, made_at, keys)


def beside(folder: Path, manifest: Manifest, tenants: Sequence[str]) -> Iterator[Source]:
    """What the other backups in the same folder know. A newer one that cannot be read might know of an erasure."""
    own = folder.resolve()
    for path in backups_in(own.parent):
        if path == own:
            continue
        try:
            yield of_backup(path, read(path), tenants)
        except MemwellError as error:
            if path.name > name_of(manifest.created_at, "whole"):
                raise Corrupted(
                    f"{error.message} It is newer than {folder.name}, so it is not known what was erased since: move it "
                    "away if it cannot be mended."
                ) from error


def told_of(named: str, tenants: Sequence[str]) -> Iterator[Source]:
    """What a backup, a folder of backups, a data directory or a database knows."""
    config = configuration.load(home=named)
    folder = config.home_path
    if not config.on_postgres and (folder / MANIFEST).is_file():
        yield of_backup(folder, read(folder), tenants)
    elif config.on_postgres or (folder / "control.db").is_file():
        store = open_existing(config)
        try:
            yield of_store(store, config.shown_home, tenants)
        finally:
            store.close()
    else:
        found = backups_in(folder) if folder.is_dir() else []
        if not found:
            raise Invalid(f"{named} is neither a backup nor a folder of them, nor a data directory.")
        yield from (of_backup(path, read(path), tenants) for path in found)


def _asking(db: Any) -> Any:
    known = queries.load("system")
    return lambda query, **given: db.execute(known[query].sql, given).fetchall()


def _by_id(rows: Iterable[Sequence[Any]]) -> dict[str, Key]:
    keys = [dict(zip(KEY_COLUMNS, row, strict=True)) for row in rows]
    return {key["id"]: key for key in keys}
