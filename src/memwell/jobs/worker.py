"""The worker: claim a job, run it, settle it.

A claim is a compare-and-set with a lease and a fencing number that rises each time, so any number of workers may share a
store, and a worker whose lease has run out can no longer write. Hints name the tenants that have due jobs. Hints may be
lost, so a slow walk over all tenants adds them again.

Tenants take turns, so that a tenant with many jobs does not block the others. Slow kinds have a thread of their own, so that
an erasure does not wait for the files of another tenant.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from threading import Condition, Event, Thread
from typing import Any

import msgspec

from ..clock import DAY, HOUR, SECOND, Clock
from ..errors import LeaseLost, MemwellError, NotFound
from ..storage.port import Row, Store, Tx
from .queue import LEASE, Handler, JobRun, Repeat, StoredJob, after_failure, ensure_slot

log = logging.getLogger("memwell.worker")

POLL_S = 0.5
MAX_PAUSE_S = 30.0
SWEEP_EVERY = 600 * SECOND
SWEEP_STEP = 20
FAR, FAR_SOON = 2 * DAY, HOUR
"""Longest plausible waits: of jobs that repeat, and of jobs that run once or have a lease. If a job waits longer, the clock was
wrong when it was added."""
CLAIM_STEP = 16
TURN_S = 0.5
"""Length of a tenant's turn in seconds; the current job is finished first."""


class Worker:
    def __init__(
        self, store: Store, clock: Clock, handlers: dict[str, Handler], lease: int = LEASE, slow: Collection[str] = ()
    ) -> None:
        self._store = store
        self._clock = clock
        self._handlers = handlers
        self._kinds = _encode_kinds(handlers)
        lanes = (handlers.keys() - set(slow), handlers.keys() & set(slow))
        self._lanes = [_encode_kinds(kinds) for kinds in lanes if kinds]
        self._lease = lease
        self._name = f"{os.getpid()}-{secrets.token_hex(3)}"
        self._changed = Condition()
        self._woken: set[int] = set()
        self._stopping = Event()
        self._threads: list[Thread] = []
        self._sweep_after = ""
        self._swept_at = 0

    # -- in the background -------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Work in threads of this process until `stop`."""
        if not self.running:
            self._stopping.clear()
            for lane in range(len(self._lanes)):
                thread = Thread(target=self.work, args=(lane,), name="memwell-worker", daemon=True)
                thread.start()
                self._threads.append(thread)  # not earlier: a signal may interrupt the start, and `stop` joins them all

    def stop(self) -> None:
        """Finish the current jobs and end the threads."""
        self._stopping.set()
        self.wake()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def wake(self) -> None:
        with self._changed:
            self._woken.update(range(len(self._lanes)))
            self._changed.notify_all()

    def work(self, lane: int = 0) -> None:
        """Run due jobs until stopped. A failure does not end this loop: it is logged, and the next pause is longer."""
        pause_s = POLL_S
        while not self._stopping.is_set():
            try:
                done = self.run_hinted(lane)
                if not lane:
                    self._sweep()
                pause_s = POLL_S
                if done:
                    continue  # a tenant may still have due jobs after its turn
            except Exception as error:  # noqa: BLE001 -- a worker that died would leave its work undone
                log.error("worker.failed", extra={"error": type(error).__name__, "reason": str(error)[:200]})
                pause_s = min(pause_s * 2, MAX_PAUSE_S)
            with self._changed:
                if lane not in self._woken:
                    self._changed.wait(pause_s)
                self._woken.discard(lane)

    # -- finding work ------------------------------------------------------------------------------------------------

    def run_hinted(self, lane: int = 0) -> int:
        """Run due jobs of the tenants that have hints, one turn each. Return the number of jobs."""
        done = 0
        for tenant, due_at in self._store.control.rows("due_hints", now=self._clock.now(), limit=100):
            if self._stopping.is_set():
                break
            try:
                ran = self._run_some(tenant, self._lanes[lane], TURN_S)
                if ran or not lane:  # the first lane handles the hints of all lanes
                    self._settle_hint(tenant, due_at)
                done += ran
            except NotFound:
                self._store.control.hint("forget_hint", tenant=tenant)
        return done

    def run_due(self, tenant: str, *, without: Collection[str] = ()) -> int:
        """Run all due jobs of one tenant in this thread, except some kinds."""
        return self._run_some(tenant, _encode_kinds(kind for kind in self._handlers if kind not in without), math.inf)

    def run_some(self, kind: str, tenant: str, seconds: float) -> int:
        """Run due jobs of one kind and tenant in this thread. No job is started after some seconds."""
        return self._run_some(tenant, _encode_kinds([kind]), seconds)

    def _run_some(self, tenant: str, kinds: str, seconds: float) -> int:
        """Run due jobs until there are none, the time is up, or the worker stops."""

        def list_due(tx: Tx) -> list[Row]:
            return tx.rows("due_jobs", now=self._clock.now(), kinds=kinds, limit=CLAIM_STEP)

        done, until = 0, time.monotonic() + seconds
        while True:
            ran = 0
            for (job_id,) in self._store.read(tenant, list_due):
                ran += self._run_one(tenant, job_id)
                if self._stopping.is_set() or time.monotonic() > until:
                    return done + ran
            done += ran
            if not ran:
                return done

    def _settle_hint(self, tenant: str, seen: int) -> None:
        """Set a tenant's hint to its next due job, then look again, because a job that was added in between relied on the old
        hint. An overdue job gets the current time, so that the tenants that already wait come first."""
        hint, now = self._store.control.hint, self._clock.now()
        due_at = self._next_due(tenant, now)
        if due_at is None:
            settled = hint("delete_hint", tenant=tenant, seen=seen)
        else:
            settled = hint("set_hint", tenant=tenant, due_at=due_at, seen=seen)
        latest = self._next_due(tenant, now) if settled else None
        if latest is not None and (due_at is None or latest < due_at):
            hint("add_hint", tenant=tenant, due_at=latest)

    def _next_due(self, tenant: str, now: int) -> int | None:
        row = self._store.read(tenant, lambda tx: tx.row("next_due", kinds=self._kinds))
        return None if row is None or row[0] is None else max(row[0], now)

    def _sweep(self) -> None:
        """Renew the hints of some tenants. A round over all of them starts every ten minutes."""
        now = self._clock.now()
        if not self._sweep_after and 0 <= now - self._swept_at < SWEEP_EVERY:
            return
        self._swept_at = now if not self._sweep_after else self._swept_at
        tenants = self._store.control.rows("list_tenants", after=self._sweep_after, limit=SWEEP_STEP)
        for tenant, _ in tenants:
            try:
                self._look_at(tenant, now)
            except MemwellError as error:
                log.warning("worker.sweep", extra={"code": error.code, "tenant": tenant})
        self._sweep_after = tenants[-1][0] if len(tenants) == SWEEP_STEP else ""

    def _look_at(self, tenant: str, now: int) -> None:
        """Renew a tenant's hint, ensure that it has an `expire` job, and reschedule jobs that a wrong clock has put far ahead."""
        far = {"far": now + FAR, "far_soon": now + FAR_SOON}
        slot, stray = self._store.read(
            tenant, lambda tx: (tx.row("find_slot", slot="expire"), tx.row("far_jobs", **far))
        )
        if slot is None:
            self._store.write(tenant, lambda tx: ensure_slot(tx, "expire", now, now))
        if stray is not None:
            back = {**far, "now": now, "lease_until": now + self._lease}
            self._store.write(tenant, lambda tx: tx.send("bring_back_jobs", **back))
        due_at = self._next_due(tenant, now)
        if due_at is not None:
            self._store.control.hint("add_hint", tenant=tenant, due_at=due_at)

    # -- doing it ----------------------------------------------------------------------------------------------------

    def _run_one(self, tenant: str, job_id: str) -> bool:
        now = self._clock.now()
        claim = {"id": job_id, "now": now, "lease_until": now + self._lease, "worker": self._name}
        row = self._store.write(tenant, lambda tx: tx.row("claim_job", **claim))
        if row is None:
            return False
        job = StoredJob(*row)
        with self._heartbeat(tenant, job):
            outcome = self._attempt(tenant, job)
        if outcome is not None:
            self._store.write(tenant, lambda tx: _settle(tx, job, outcome, self._clock.now()))
        return True

    def _attempt(self, tenant: str, job: StoredJob) -> dict[str, Any] | Repeat | Exception | None:
        try:
            if job.attempts > job.max_attempts:
                raise MemwellError("The worker died at every attempt.")
            return self._handlers[job.kind](JobRun(self._store, tenant, job, self._clock))
        except LeaseLost:
            log.warning("job.lease_lost", extra={"job": job.id, "kind": job.kind})
            return None
        except Exception as error:  # noqa: BLE001 -- every error of a handler is stored on its job
            log.warning("job.failed", extra={"job": job.id, "kind": job.kind, "error": type(error).__name__})
            return error

    @contextmanager
    def _heartbeat(self, tenant: str, job: StoredJob) -> Iterator[None]:
        """Renew the lease of a job while it runs."""
        stopped = Event()

        def beat() -> None:
            while not stopped.wait(self._lease / SECOND / 3):
                until = self._clock.now() + self._lease
                given = {"id": job.id, "fence": job.fence, "lease_until": until}
                try:
                    self._store.write(tenant, lambda tx: tx.run("beat_job", **given))  # noqa: B023 -- run at once
                except MemwellError as error:
                    log.warning("job.heartbeat", extra={"job": job.id, "code": error.code})

        thread = Thread(target=beat, name="memwell-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def _encode_kinds(kinds: Iterable[str]) -> str:
    return msgspec.json.encode(sorted(kinds)).decode()


def _settle(tx: Tx, job: StoredJob, outcome: dict[str, Any] | Repeat | Exception, now: int) -> None:
    """Store the outcome of a job, if it still belongs to this worker."""
    claim = {"id": job.id, "fence": job.fence}
    asked = tx.row("job_asked_again", claimed=job.run_at, **claim)
    if isinstance(outcome, Repeat) or (isinstance(outcome, dict) and asked is not None):
        times = [outcome.at] if isinstance(outcome, Repeat) else []
        at = min([*times, *(asked or ())])
        tx.send("repeat_job", run_at=at, **claim)
        tx.wake(at)
    elif isinstance(outcome, dict):
        result = msgspec.json.encode(outcome).decode()
        tx.send("finish_job", state="done", run_at=now, error=None, result=result, finished_at=now, **claim)
    else:
        state, run_at = after_failure(job.attempts, job.max_attempts, now)
        error = f"{type(outcome).__name__}: {outcome}"[:500]
        finished_at = now if state == "dead" else None
        tx.send("finish_job", state=state, run_at=run_at, error=error, result=None, finished_at=finished_at, **claim)
        if state == "ready":
            tx.wake(run_at)
