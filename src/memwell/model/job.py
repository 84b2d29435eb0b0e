"""Background work, and the pure decisions about it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..clock import MINUTE, SECOND

State = Literal["ready", "running", "done", "dead", "cancelled"]

MAX_ATTEMPTS = 8
LEASE = 30 * SECOND
KEEP_FINISHED = 7 * 24 * 60 * MINUTE


class StoredJob(msgspec.Struct, frozen=True):
    """A job as it is stored. Columns in the order of `find_job`."""

    id: str
    kind: str
    state: State
    payload: str
    attempts: int
    max_attempts: int
    run_at: int
    lease_until: int | None
    fence: int
    worker: str | None
    error: str | None
    result: str | None
    created_at: int
    finished_at: int | None
    address_id: int | None


def backoff(attempts: int) -> int:
    """How long to wait after so many failures: 1 s, 2 s, 4 s … five minutes at most."""
    return int(min(SECOND * 2 ** max(attempts - 1, 0), 5 * MINUTE))


def after_failure(attempts: int, max_attempts: int, now: int) -> tuple[State, int]:
    """What becomes of a job that failed: tried again later, or dead."""
    if attempts >= max_attempts:
        return "dead", now
    return "ready", now + backoff(attempts)
