"""What a running job is given: its payload, and transactions that fail once the job belongs to another worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from .. import typed
from ..clock import Clock
from ..errors import LeaseLost
from ..model.job import StoredJob
from ..storage.blobs import Blobs
from ..storage.port import Reach, Rewrite, Store, Tx

T = TypeVar("T")


class Repeat(NamedTuple):
    """What a handler returns when its job is to run again, and when."""

    at: int


class JobRun:
    """One attempt at one job."""

    def __init__(self, store: Store, tenant: str, job: StoredJob, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self.job = job
        self.clock = clock

    @property
    def reach(self) -> Reach:
        """The tenant's transactions, not held to the lease: for what any worker may do at any time."""
        return Reach(self._store, self._tenant)

    @property
    def blobs(self) -> Blobs:
        return self._store.blobs(self._tenant)

    @property
    def payload(self) -> dict[str, Any]:
        return typed.decode(self.job.payload, dict[str, Any])

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._store.read(self._tenant, work)

    def write(self, work: Callable[[Tx], T]) -> T:
        """A transaction that is refused if the lease was lost: a worker that slept cannot undo its successor's work."""

        def fenced(tx: Tx) -> T:
            if tx.row("hold_job", id=self.job.id, fence=self.job.fence) is None:
                raise LeaseLost
            return work(tx)

        return self._store.write(self._tenant, fenced)

    @property
    def progress(self) -> dict[str, Any] | None:
        """What an earlier attempt noted before its worker died."""
        return typed.decode(self.job.result, dict[str, Any]) if self.job.result else None

    def note(self, tx: Tx, progress: dict[str, Any]) -> None:
        """Note how far this attempt came, in the transaction of what it did."""
        text = msgspec.json.encode(progress).decode()
        tx.send("note_job", id=self.job.id, fence=self.job.fence, result=text)

    def scrub(self, rewrite: Rewrite = "never") -> bool:
        return self._store.scrub(self._tenant, rewrite)

    def residue(self, needles: list[bytes]) -> list[bytes]:
        return self._store.residue(self._tenant, needles)


Handler = Callable[[JobRun], dict[str, Any] | Repeat]
