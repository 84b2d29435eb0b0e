"""Restoring a backup: verify it, copy it to a staging folder, apply later erasures to the copy, and copy the rest to the target.
Erased data never reaches the target, not even if the restore is interrupted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from .. import config as configuration
from ..clock import SystemClock
from ..erasure import log
from ..erasure.erase import scrub_later, sweep_later
from ..errors import Conflict, Corrupted, Invalid, NotFound, Unavailable
from ..storage import open_store
from ..storage.blobs import FolderBlobs, claim
from ..storage.copier import Approve, Arrival, CopyableStore
from ..storage.port import Tx, list_tenants, search_state
from ..storage.sqlite import SqliteStore
from .erasures import Key, Knowledge, Reapplied, read_keys, read_neighbours, read_sources, read_store, reapply
from .make import Progress, sweep_folder, translate_os_errors
from .manifest import Manifest, read, require_ours, require_readable, require_whole

ATTEMPTS = 20
AHEAD = 1 << 20
"""Distance between the numbers of a restored tenant and those of the tenant that it replaces, which is still in use."""


class RestoredTenant(NamedTuple):
    """A restored tenant. `erased`: the items that were erased again. `residual`: the traces of them that were found afterwards.
    `keys`: the number of restored keys; None if they could not be restored. `lost`: the files that the backup lacks."""

    tenant: str
    entries: int
    erased: int
    residual: int
    keys: int | None
    replaced: bool
    lost: list[str]


class Restored(NamedTuple):
    """The result of a restore. `dropped`: tenants that were deleted later and are not restored. `told_by`: the sources of
    erasures. `known_until`: the time up to which erasures are known for every restored tenant."""

    tenants: list[RestoredTenant]
    dropped: list[str]
    told_by: list[str]
    known_until: datetime


def restore(
    backup: str | Path,
    home: str | Path | None = None,
    *,
    tenants: Sequence[str] = (),
    replace: bool = False,
    erasures: Sequence[str | Path] = (),
    progress: Progress = lambda step: None,
) -> Restored:
    """Restore a backup, or some of its tenants, into a data directory or a database.

    Data that was erased later stays erased. Erasures are read from the tenant that is replaced, from newer backups in the same
    folder, and from the sources in `erasures`. A tenant becomes visible when it is complete.
    """
    folder = Path(backup).expanduser()
    manifest = read(folder)
    require_readable(manifest, folder)
    if manifest.kind != "whole":
        raise Invalid(f"{folder.name} has only an erasure log: give it with --erasures.")
    chosen = list(dict.fromkeys(tenants)) or manifest.names
    missing = [name for name in chosen if name not in manifest.names]
    if missing:
        raise NotFound(f"There is no tenant {missing[0]} in {folder.name}.")
    with translate_os_errors():
        progress("checking the backup")
        require_whole(folder, manifest.files_of(chosen))
        require_ours(folder, manifest, chosen)
        known = Knowledge(manifest.created_at, list(read_neighbours(folder, manifest, chosen)))
        known.sources += [source for named in erasures for source in read_sources(str(named), chosen)]
        config = configuration.load(home=None if home is None else str(home))
        if not config.on_postgres and config.home_path.resolve().is_relative_to(folder.resolve()):
            raise Invalid("A backup cannot be restored into itself: choose another directory.")
        target = open_store(config, SystemClock().now)
        try:
            if isinstance(target, SqliteStore):
                target.unlist_missing(chosen)
            known.sources.append(read_store(target, config.home_without_password, chosen))
            with _stage(folder, manifest, chosen) as staged:
                work = _Restore(folder, manifest, staged, target, known, progress)
                return work.run(chosen, replace, named=bool(tenants))
        finally:
            target.close()


@contextmanager
def _stage(folder: Path, manifest: Manifest, chosen: Sequence[str]) -> Iterator[SqliteStore]:
    """Copy the needed databases to a folder beside the backup, which exposes no more than the backup does."""
    parent = folder.resolve().parent
    writable = os.access(parent, os.W_OK)
    if writable:
        sweep_folder(parent)
    place = Path(tempfile.mkdtemp(prefix=".memwell-restoring-", dir=parent if writable else None))
    lock = claim(place)
    try:
        (place / "tenants").mkdir(mode=0o700)
        for one in manifest.files_of(chosen):
            if one.path.startswith("tenants/") or "/" not in one.path:
                shutil.copyfile(folder / one.path, place / one.path)
        staged = SqliteStore(place, clock=SystemClock().now, durability="relaxed")
        try:
            yield staged
        finally:
            staged.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if lock is not None:
            os.close(lock)


class _Restore:
    """Restores one backup into one store."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        staged: SqliteStore,
        target: CopyableStore,
        known: Knowledge,
        progress: Progress,
    ) -> None:
        self._folder, self._manifest, self._progress = folder, manifest, progress
        self._staged, self._target, self._known = staged, target, known
        self._copier = target.copier
        self._clock = SystemClock()
        self._made_at = list_tenants(staged)
        self._erased: dict[str, Reapplied] = {}

    def run(self, chosen: Sequence[str], replace: bool, *, named: bool) -> Restored:
        dropped = [name for name in chosen if self._known.is_dropped(name, self._made_at[name])]
        if dropped and named:
            raise Conflict(f"The tenant {dropped[0]} was deleted after this backup was made: it stays deleted.")
        wanted = [name for name in chosen if name not in dropped]
        present = [name for name in wanted if self._target.control.rows("find_tenant", id=name)]
        if present and not replace:
            raise Conflict(
                f"The target has a tenant {present[0]} already: restore to another place, or replace the tenant with --replace, "
                "which loses its changes since the backup."
            )
        for name in wanted:
            self._prepare(name)
        try:
            done = self._add([name for name in wanted if name not in present])
            done += [self._replace(name, present) for name in present]
        finally:
            self._copier.discard()
        newer = [self._known.newer(name, self._made_at[name]) for name in wanted]
        names = dict.fromkeys(source.name for source in self._known.sources if any(source in some for some in newer))
        since = self._manifest.created_at
        until = min((max([since, *(source.until for source in some)]) for some in newer), default=since)
        return Restored(sorted(done), dropped, list(names), until)

    def _prepare(self, tenant: str) -> None:
        """Apply later erasures to the copy, and check the rest for damage."""
        self._progress(f"preparing {tenant}")
        again = reapply(self._staged, tenant, self._known.lines(tenant), self._clock)
        before = self._erased.get(tenant, Reapplied(0, 0))
        self._erased[tenant] = Reapplied(before.found + again.found, before.residual + again.residual)
        damage = self._staged.check(tenant)
        if damage:
            raise Corrupted(
                f"The copy of {tenant} in {self._folder.name} is damaged: {damage[0]}. Nothing was changed."
            )

    def _add(self, tenants: Sequence[str]) -> list[RestoredTenant]:
        """Restore tenants that the target does not have. All of them become visible at once."""
        keys = {tenant: self._keys(tenant) for tenant in tenants}
        results = [self._result(tenant, keys[tenant], replaced=False) for tenant in tenants]
        arrivals: list[Arrival] = []
        for tenant in tenants:
            self._progress(f"restoring {tenant}")
            one = Arrival(tenant, self._made_at[tenant], keys[tenant] or ())
            arrivals.append(self._copier.copy_in(one, self._staged, self._blobs(tenant)))
        if arrivals:
            self._copier.admit(arrivals)
        for tenant in tenants:
            self._target.control.hint("add_hint", tenant=tenant, due_at=self._clock.now())
        return results

    def _replace(self, tenant: str, present: Sequence[str]) -> RestoredTenant:
        """Replace a tenant of the target. If data is erased from it meanwhile, prepare the copy again."""
        self._progress(f"restoring {tenant}")
        for _ in range(ATTEMPTS):
            self._raise_numbers(tenant)
            if self._copier.replace(tenant, self._staged, self._blobs(tenant), self._build_approval(tenant)):
                break
            self._known.sources[-1] = read_store(self._target, self._known.sources[-1].name, present)
            self._prepare(tenant)
        else:
            raise Unavailable(f"Data keeps being erased from {tenant}: try again in a moment.")
        self._target.scrub(tenant)
        keys = self._keys(tenant)
        made = {"id": tenant, "created_at": self._made_at[tenant]}
        changes = [*self._build_revocations(tenant), *(("put_key", key) for key in keys or ())]
        self._target.control.write(("set_tenant_made", made), *changes)
        self._target.control.scrub()
        self._target.control.hint("add_hint", tenant=tenant, due_at=self._clock.now())
        return self._result(tenant, keys, replaced=True)

    def _build_approval(self, tenant: str) -> Approve:
        """Return a function that approves a replacement if all erasures are known and all numbers in use are lower than the new
        ones."""
        known = set(self._known.sources[-1].lines.get(tenant, ()))
        ours = self._staged.read(tenant, _numbers)

        def approve(tx: Tx) -> bool:
            beyond = all(one < other for one, other in zip(_numbers(tx), ours, strict=True))
            return beyond and all(line in known for line in log.list_lines(tx))

        return approve

    def _raise_numbers(self, tenant: str) -> None:
        """Raise the numbers of the copy above those in use, so that no cached index and no watcher mistakes the restored tenant
        for the one that it replaces."""
        both = zip(*(store.read(tenant, _numbers) for store in (self._staged, self._target)), strict=True)
        entry, removal, event = (max(pair) + AHEAD for pair in both)
        self._staged.write(tenant, lambda tx: _announce(tx, removal, event, self._clock.now()))
        self._staged.number_from(tenant, entry)

    def _keys(self, tenant: str) -> list[Key] | None:
        """Return the keys that were not deleted; None if the target has keys that were hashed with another secret."""
        keys = self._known.keys(tenant, self._made_at[tenant], read_keys(self._staged, tenant).values())
        return None if keys and not self._target.control.adopt(self._staged.control.secret) else keys

    def _build_revocations(self, tenant: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield changes that delete or revoke keys of the target that a newer source lacks or has revoked."""
        made_at = self._made_at[tenant]
        others = [
            one.keys.get(tenant, {}) for one in self._known.newer(tenant, made_at) if one != self._known.sources[-1]
        ]
        known = set(read_keys(self._staged, tenant)).union(*others)
        shared = [key for key in read_keys(self._target, tenant).values() if key["id"] in known]
        left = {key["id"]: key for key in self._known.keys(tenant, made_at, shared)}
        for key_id in (key["id"] for key in shared):
            if key_id not in left:
                yield "delete_key", {"tenant": tenant, "id": key_id}
            elif left[key_id]["revoked_at"] is not None:
                yield "revoke_key", {"tenant": tenant, "id": key_id, "now": left[key_id]["revoked_at"]}

    def _blobs(self, tenant: str) -> FolderBlobs:
        return FolderBlobs(self._folder / "blobs" / tenant, self._clock.now, lambda: True)

    def _result(self, tenant: str, keys: list[Key] | None, *, replaced: bool) -> RestoredTenant:
        row = self._staged.read(tenant, lambda tx: tx.row("count_all_entries"))
        lost = next(one.lost for one in self._manifest.tenants if one.tenant == tenant)
        count = None if keys is None else len(keys)
        return RestoredTenant(tenant, row[0] if row else 0, *self._erased[tenant], count, replaced, lost)


def _numbers(tx: Tx) -> tuple[int, int, int]:
    """The highest numbers of an entry, a removal and an event."""
    event = tx.row("last_event")
    return (*search_state(tx), int(event[0]) if event else 0)


def _announce(tx: Tx, removal: int, event: int, now: int) -> None:
    """Make every process reload its index, notify watchers, and schedule the removal of unused bytes and files."""
    tx.send("put_removal", seq=removal, docid=None, address_id=None)
    no_address = {"collection_id": None, "address_id": None, "entries": 0}
    tx.send("put_event", seq=event, at=now, operation="backup.restore", actor="local", **no_address)
    scrub_later(tx, now, {})
    sweep_later(tx, now)
