"""Retention: the `expire` job frees the bytes of expired data, and deletes old answers, jobs, events and runs.

Reads never see expired data: their SQL compares `expires_at` with the clock. `records/records.py` gives records their lifetime.
"""

from __future__ import annotations

from ..clock import DAY, MINUTE
from ..jobs import queue
from ..jobs.queue import KEEP_FINISHED, JobKind, JobRun, Repeat
from ..search import upkeep
from ..storage.port import Tx, encode_numbers
from .erase import delete_run, forget_answers, forget_record, forget_runs

BATCH = 2000
KEEP_EVENTS = 30 * DAY
KEEP_REMOVALS = 10_000
KEEP_RUNS = 30 * DAY
EXPIRE_AT_MOST_EVERY = MINUTE // 2


def expire(run: JobRun) -> Repeat:
    """Delete expired data in small steps, and repeat when the next data expires."""
    now, deleted = run.clock.now(), 0
    while count := run.write(lambda tx: _delete_expired(tx, now)):
        deleted += count
    run.write(lambda tx: _delete_old(tx, now))
    if deleted:
        run.scrub()

    def find_next(tx: Tx) -> int:
        found = [tx.row("next_expiry"), tx.row("next_address_expiry", now=now), tx.row("next_idempotency_expiry")]
        return min([now + queue.EXPIRE_EVERY, *(int(row[0]) for row in found if row and row[0] is not None)])

    return Repeat(max(run.read(find_next), now + EXPIRE_AT_MOST_EVERY))


def _delete_expired(tx: Tx, now: int) -> int:
    """Delete a batch of expired entries, and the addresses whose entries have all expired."""
    last = tx.row("expiry_after", now=now, skip=BATCH)
    until = last[0] if last else now
    upkeep.remove_entries(tx, tx.rows("expired_docids", until=until), noted=False)
    deleted = tx.run("delete_expired_entries", until=until)
    addresses = tx.rows("expired_addresses", now=now, limit=BATCH)
    for (address_id,) in addresses:
        forget_answers(tx, [address_id])
        forget_runs(tx, [address_id])
        forget_record(tx, address_id)
        tx.send("delete_jobs_of", addresses=encode_numbers([address_id]))
        tx.send("delete_address", id=address_id)
    return deleted + len(addresses)


def _delete_old(tx: Tx, now: int) -> None:
    tx.send("delete_old_idempotency", now=now)
    tx.send("delete_finished_jobs", before=now - KEEP_FINISHED)
    first_kept = tx.row("first_event_after", before=now - KEEP_EVENTS)
    tx.send("delete_removals_below", keep=KEEP_REMOVALS)
    tx.send("interrupt_runs", now=now)
    for (run_id,) in tx.rows("old_runs", before=now - KEEP_RUNS, limit=BATCH):
        delete_run(tx, run_id)
    if first_kept and first_kept[0]:
        tx.send("delete_events_below", seq=first_kept[0])


JOBS = (JobKind("expire", lambda _, run: expire(run)),)
