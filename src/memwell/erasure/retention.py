"""The jobs of erasure and retention: `expire`, `erase` and `sweep`.

Reads never see expired data. The `expire` job frees its bytes, and deletes old answers, jobs, events and runs.
"""

from __future__ import annotations

from typing import Any

from ..clock import DAY, MINUTE
from ..jobs.queue import KEEP_FINISHED, JobKind, JobRun, Repeat
from ..search import upkeep
from ..storage.port import Tx
from .erase import erase, erase_expired_address, sweep

BATCH = 2000
KEEP_EVENTS = 30 * DAY
KEEP_REMOVALS = 10_000
KEEP_RUNS = 30 * DAY
AT_LEAST_EVERY = DAY
AT_MOST_EVERY = MINUTE // 2


def expire(run: JobRun) -> Repeat:
    """Delete expired data in small steps, and repeat when the next data expires."""
    now = run.clock.now()
    deleted = 0
    while count := run.write(lambda tx: _delete_some(tx, now)):
        deleted += count
    run.write(lambda tx: _sweep(tx, now))
    if deleted:
        run.scrub()
    return Repeat(max(run.read(lambda tx: _next(tx, now)), now + AT_MOST_EVERY))


def _delete_some(tx: Tx, now: int) -> int:
    last = tx.row("expiry_after", now=now, skip=BATCH)
    until = last[0] if last else now
    upkeep.remove_entries(tx, tx.rows("expired_docids", until=until), noted=False)
    deleted = tx.run("delete_expired_entries", until=until)
    addresses = tx.rows("expired_addresses", now=now, limit=BATCH)
    for (address_id,) in addresses:
        erase_expired_address(tx, address_id)
    return deleted + len(addresses)


def _sweep(tx: Tx, now: int) -> None:
    tx.send("delete_old_idempotency", now=now)
    tx.send("delete_finished_jobs", before=now - KEEP_FINISHED)
    first_kept = tx.row("first_event_after", before=now - KEEP_EVENTS)
    tx.send("delete_removals_below", keep=KEEP_REMOVALS)
    tx.send("interrupt_runs", now=now)
    for (run_id,) in tx.rows("old_runs", before=now - KEEP_RUNS, limit=BATCH):
        tx.send("delete_run_steps", run_id=run_id)
        tx.send("delete_run_touches", run_id=run_id)
        tx.send("delete_run", id=run_id)
    if first_kept and first_kept[0]:
        tx.send("delete_events_below", seq=first_kept[0])


def _next(tx: Tx, now: int) -> int:
    found = [tx.row("next_expiry"), tx.row("next_address_expiry", now=now), tx.row("next_idempotency_expiry")]
    return min([now + AT_LEAST_EVERY, *(int(row[0]) for row in found if row and row[0] is not None)])


def run_erase(engine: Any, run: JobRun) -> dict[str, Any] | Repeat:
    """Run the `erase` job, and drop the caches of this process."""
    receipt = erase(run)
    engine.drop_caches(run.reach.key)
    return receipt


JOBS = (
    JobKind("expire", lambda _, run: expire(run)),
    JobKind("erase", run_erase),
    JobKind("sweep", lambda _, run: sweep(run)),
)
