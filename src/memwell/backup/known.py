"""What is known of erasures and keys from elsewhere: from newer backups, and from wherever one is told to look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from .. import config as configuration
from ..clock import MINUTE, SystemClock
from ..config import Config
from ..errors import Corrupted, Invalid, MemwellError, NotFound
from ..lifecycle import ledger
from ..lifecycle.ledger import Line
from ..storage import queries
from ..storage.carrier import Carrying
from ..storage.choose import open_store
from ..storage.move import KEY_COLUMNS
from ..storage.port import Store, tenant_mark
from ..storage.sqlite import connect
from .checking import require_ours
from .manifest import MANIFEST, Manifest, backups_in, name_of, read, read_lines, require_whole

Key = dict[str, Any]
EVERY = 10_000_000
SLACK = MINUTE
"""By how much the clocks of those that share a store may differ, and how long an erasure may take to be written."""
_DROPPED_SINCE = 3
"""From which version on `control.db` knows which tenants were deleted."""


class Source(NamedTuple):
    """One place that knows something: what was erased of each tenant, which tenants are gone, and which keys there are."""

    name: str
    until: datetime
    lines: dict[str, list[Line]]
    dropped: dict[str, int]
    made_at: dict[str, int]
    keys: dict[str, dict[str, Key]]

    def knows(self, tenant: str, made_at: int) -> bool:
        """Whether it tells of this very tenant. Another of the same name was made at another moment."""
        return tenant in self.lines and self.made_at.get(tenant) == made_at


@dataclass(slots=True)
class Known:
    """Everything that is known. What was erased before the backup was made, and is in it, has come back by right: only what was
    erased later counts. Only what is newer than the backup can say what became of its keys."""

    since: datetime
    sources: list[Source] = field(default_factory=list)

    def lines(self, tenant: str) -> list[Line]:
        """Every erasure since, once, in the order of time."""
        every = {
            line for source in self.sources for line in source.lines.get(tenant, ()) if self._is_since(source, line.at)
        }
        return sorted(every, key=lambda line: (line.at, line.kind, line.id))

    def is_dropped(self, tenant: str, made_at: int) -> bool:
        """Whether a tenant was deleted since. Where it is, it has come back."""
        mark = tenant_mark(tenant, made_at)
        told = [one for one in self.sources if mark in one.dropped and one.made_at.get(tenant) != made_at]
        return any(self._is_since(one, one.dropped[mark]) for one in told)

    def keys(self, tenant: str, made_at: int, keys: Iterable[Key]) -> list[Key]:
        """The keys of a tenant that are still there, revoked if they were since."""
        newer = self.speaking(tenant, made_at)
        left = [key for key in keys if not any(_lacks(one, tenant, key) for one in newer)]
        return [key | {"revoked_at": _revoked(key, tenant, newer)} for key in left]

    def speaking(self, tenant: str, made_at: int) -> list[Source]:
        """Those that know what became of a tenant after the backup."""
        return [one for one in self.sources if one.until > self.since and one.knows(tenant, made_at)]

    def _is_since(self, source: Source, at: int) -> bool:
        slack = SLACK if source.until > self.since else 0
        return at >= micros(self.since) - slack


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _lacks(source: Source, tenant: str, key: Key) -> bool:
    """Whether a key is gone. One that was made later cannot be known."""
    return key["id"] not in source.keys.get(tenant, {}) and bool(key["created_at"] <= micros(source.until))


def _revoked(key: Key, tenant: str, newer: Sequence[Source]) -> int | None:
    same = [key, *(one.keys[tenant][key["id"]] for one in newer if key["id"] in one.keys.get(tenant, {}))]
    return min((one["revoked_at"] for one in same if one["revoked_at"] is not None), default=None)


def open_existing(config: Config) -> Carrying:
    """The store that a setting names; it is not made."""
    if not config.on_postgres and not (config.home_path / "control.db").is_file():
        raise NotFound(f"There is no memory at {config.shown_home}.")
    return open_store(config, SystemClock().now)


def of_store(store: Store, name: str, tenants: Iterable[str]) -> Source:
    """What a store that is in use knows."""
    there: dict[str, int] = dict(store.control.rows("list_tenants", after="", limit=EVERY))
    here = [tenant for tenant in tenants if tenant in there]
    lines = {tenant: store.read(tenant, lambda tx: list(ledger.lines(tx))) for tenant in here}
    dropped: dict[str, int] = dict(store.control.rows("list_dropped", after="", limit=EVERY))
    keys = {tenant: _by_id(store.control.rows("page_keys", tenant=tenant)) for tenant in here}
    return Source(name, datetime.now(UTC), lines, dropped, there, keys)


def of_backup(folder: Path, manifest: Manifest, tenants: Iterable[str]) -> Source:
    """What a backup knows. Only the small files of it are read."""
    here = [tenant for tenant in tenants if tenant in manifest.names]
    small = [one for one in manifest.needed_by(here) if one.tenant is None or one.path.startswith("erasures/")]
    require_whole(folder, small)
    require_ours(folder, manifest, ())
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
    return Source(folder.name, manifest.created_at, lines, dict(dropped), made_at, keys)


def beside(folder: Path, manifest: Manifest, tenants: Sequence[str]) -> Iterator[Source]:
    """What the other backups in the same folder know. A newer one that cannot be read might know of an erasure."""
    own = folder.resolve()
    around = dict.fromkeys([own.parent, folder.absolute().parent.resolve()])  # it may be a link to elsewhere
    for path in (path for place in around for path in backups_in(place)):
        if path.resolve() == own:
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
