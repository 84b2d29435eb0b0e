"""Putting work in line, inside the transaction that caused it."""

from __future__ import annotations

from typing import Any

import msgspec

from ..ids import new_id
from ..model.job import MAX_ATTEMPTS, StoredJob
from ..storage.port import Tx


def enqueue(
    tx: Tx, kind: str, payload: dict[str, Any], now: int, *, address_id: int | None = None, run_at: int | None = None
) -> str:
    """A new job; it exists exactly if the transaction commits."""
    return _add(tx, kind, payload, now, address_id=address_id, run_at=now if run_at is None else run_at, slot=None)


def ensure_slot(tx: Tx, kind: str, run_at: int, now: int, *, address_id: int | None = None) -> None:
    """See to it that the one job of this kind, or the one for an address, runs at that time or earlier; if it runs now, that
    it does once more."""
    slot = kind if address_id is None else f"{kind}:{address_id:x}"
    found = tx.row("find_slot", slot=slot)
    if found is None:
        _add(tx, kind, {}, now, address_id=address_id, run_at=run_at, slot=slot)
    elif found[2] == "running":
        if found[1] <= now or found[1] > run_at:  # else it has been asked already
            tx.send("ask_job_again", id=found[0], run_at=max(run_at, now + 1))
    elif found[1] > run_at and tx.run("hasten_job", id=found[0], run_at=run_at):
        tx.wake(run_at)


def find(tx: Tx, job_id: str) -> StoredJob | None:
    row = tx.row("find_job", id=job_id)
    return None if row is None else StoredJob(*row)


def _add(
    tx: Tx, kind: str, payload: dict[str, Any], now: int, *, address_id: int | None, run_at: int, slot: str | None
) -> str:
    job_id = new_id()
    tx.send(
        "add_job",
        id=job_id,
        kind=kind,
        slot=slot,
        payload=msgspec.json.encode(payload).decode(),
        max_attempts=MAX_ATTEMPTS,
        run_at=run_at,
        now=now,
        address_id=address_id,
    )
    tx.wake(run_at)
    return job_id
