"""The queue of jobs: adding and retrying them, and `JobRun`, which a running job works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from .. import typed
from ..clock import DAY, MINUTE, SECOND, Clock
from ..errors import LeaseLost
from ..ids import new_id
from ..storage.port import Remains, Rewrite, Store, TenantStore, Tx

if TYPE_CHECKING:
    from ..storage.blobs import Blobs

State = Literal["ready", "running", "done", "dead", "cancelled"]

MAX_ATTEMPTS = 8
EXPIRE_EVERY = DAY
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

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "dead", "cancelled")


def backoff(attempts: int) -> int:
    """The delay after some failures: 1 s, 2 s, 4 s … five minutes at most."""
    return int(min(SECOND * 2 ** max(attempts - 1, 0), 5 * MINUTE))


def after_failure(attempts: int, max_attempts: int, now: int) -> tuple[State, int]:
    """The next state of a job that failed, and its time: `ready` later, or `dead`."""
    if attempts >= max_attempts:
        return "dead", now
    return "ready", now + backoff(attempts)


def enqueue(
    tx: Tx,
    kind: str,
    payload: dict[str, Any],
    now: int,
    *,
    address_id: int | None = None,
    run_at: int | None = None,
    slot: str | None = None,
) -> str:
    """Add a job. It exists only if the transaction commits."""
    job_id, run_at = new_id(), now if run_at is None else run_at
    data = msgspec.json.encode(payload).decode()
    job = {"id": job_id, "kind": kind, "slot": slot, "payload": data, "run_at": run_at, "address_id": address_id}
    tx.send("add_job", max_attempts=MAX_ATTEMPTS, now=now, **job)
    tx.wake(run_at)
    return job_id


def ensure_slot(tx: Tx, kind: str, run_at: int, now: int, *, address_id: int | None = None) -> None:
    """Ensure that the single job of this kind, or the one for an address, runs at that time or earlier. A job that is running now
    runs once more."""
    slot = kind if address_id is None else f"{kind}:{address_id:x}"
    found = tx.row("find_slot", slot=slot)
    if found is None:
        enqueue(tx, kind, {}, now, address_id=address_id, run_at=run_at, slot=slot)
    elif found[2] == "running":
        if found[1] <= now or found[1] > run_at:  # otherwise it is scheduled already
            tx.send("ask_job_again", id=found[0], run_at=max(run_at, now + 1))
    elif found[1] > run_at and tx.run("hasten_job", id=found[0], run_at=run_at):
        tx.wake(run_at)


def expire_at(tx: Tx, expires_at: int | None, now: int) -> None:
    """Schedule the `expire` job for a time, if that is soon. The job runs every day, so it finds later expiries by itself."""
    if expires_at is not None and expires_at <= now + EXPIRE_EVERY:
        ensure_slot(tx, "expire", expires_at, now)


def find(tx: Tx, job_id: str) -> StoredJob | None:
    row = tx.row("find_job", id=job_id)
    return None if row is None else StoredJob(*row)


def share(tx: Tx, job_id: str, scope: bytes) -> None:
    """Let keys of a scope see a job, which an answer has named to one of them. The scope is a hash, because it holds a name."""
    job = find(tx, job_id)
    if job is not None:
        payload = {**typed.decode(job.payload, dict[str, Any]), "scope": scope.hex()}
        tx.send("set_payload", id=job_id, payload=msgspec.json.encode(payload).decode())


def is_shared(job: StoredJob, scope: bytes) -> bool:
    return bool(typed.decode(job.payload, dict[str, Any]).get("scope") == scope.hex())


T = TypeVar("T")


class Repeat(NamedTuple):
    """The result of a job that repeats, and the time of its next run."""

    at: int


class JobRun:
    """One attempt at one job: its payload, and transactions that fail once the job belongs to another worker."""

    def __init__(self, store: Store, tenant: str, job: StoredJob, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self.job = job
        self.clock = clock

    @property
    def reach(self) -> TenantStore:
        """The tenant's transactions without the check of the lease, for work that any worker may do at any time."""
        return TenantStore(self._store, self._tenant)

    @property
    def blobs(self) -> Blobs:
        return self._store.blobs(self._tenant)

    @property
    def payload(self) -> dict[str, Any]:
        return typed.decode(self.job.payload, dict[str, Any])

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._store.read(self._tenant, work)

    def write(self, work: Callable[[Tx], T]) -> T:
        """Run a transaction, or raise LeaseLost, so that a stalled worker cannot overwrite the work of its successor."""

        def check_lease_and_work(tx: Tx) -> T:
            if tx.row("hold_job", id=self.job.id, fence=self.job.fence) is None:
                raise LeaseLost
            return work(tx)

        return self._store.write(self._tenant, check_lease_and_work)

    @property
    def progress(self) -> dict[str, Any] | None:
        """The progress that an earlier attempt stored before its worker died."""
        return typed.decode(self.job.result, dict[str, Any]) if self.job.result else None

    def note(self, tx: Tx, progress: dict[str, Any]) -> None:
        """Store the progress of this attempt, in the transaction of its work."""
        text = msgspec.json.encode(progress).decode()
        tx.send("note_job", id=self.job.id, fence=self.job.fence, result=text)

    def scrub(self, rewrite: Rewrite = "never") -> bool:
        return self._store.scrub(self._tenant, rewrite)

    def find_remains(self) -> list[Remains]:
        return self._store.find_remains(self._tenant)

    def residue(self, needles: list[bytes]) -> list[bytes]:
        return self._store.residue(self._tenant, needles)


Handler = Callable[[JobRun], dict[str, Any] | Repeat]


class JobKind(NamedTuple):
    """A kind of job: a room declares it, the registry collects it, the engine runs it.

    `run` gets the engine and the job. A `patient` kind may take long, so `Engine.help_out` skips it. How long a `slow` kind takes
    depends on its input, so the worker has a separate lane for it.
    """

    name: str
    run: Callable[[Any, JobRun], dict[str, Any] | Repeat]
    patient: bool = False
    slow: bool = False
