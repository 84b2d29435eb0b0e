"""Group commit: many writers, one transaction, one sync to disk.

A durable commit costs a sync, so concurrent writers share one. There is no writer thread: the first writer becomes the
leader, runs its own work and that of the writers in the queue, commits once and wakes them. Writers that queue up during
the commit get the next leader. A single writer therefore never waits for another thread.

The works of a group run in one transaction. If one of them fails, the transaction is rolled back and each is run again in a
savepoint of its own, so that only the failing one is undone. A work must therefore have no effect except on the database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Given = TypeVarTuple("Given")

MAX_BATCH = 256


class Session(Protocol):
    """The connection that a group of writers shares, with one transaction at a time."""

    @property
    def is_open(self) -> bool:
        """True if a transaction is open."""
        ...

    def begin(self) -> None: ...

    def flush(self) -> None:
        """Wait for the statements that were sent so far; raise if one has failed."""
        ...

    def commit(self) -> None: ...

    def roll_back(self) -> None: ...

    def savepoint(self) -> AbstractContextManager[object]:
        """Return a context whose changes are undone if it raises."""
        ...

    def interruption_error(self) -> Exception:
        """Return the error for writers whose leader was interrupted before the commit."""
        ...


class PendingWrite(Generic[T]):
    """One writer's work and its outcome. A solitary work runs outside any transaction, while no other does."""

    __slots__ = ("done", "error", "gate", "given", "leads", "result", "solitary", "work")

    def __init__(self, work: Callable[..., T], given: tuple[Any, ...], solitary: bool) -> None:
        self.work = work
        self.given = given
        self.solitary = solitary
        self.gate = Lock()
        self.done = False
        self.leads = False
        self.result: T | None = None
        self.error: Exception | None = None

    def settle(self, error: Exception | None = None) -> None:
        self.error = error
        self.done = True


class GroupCommit:
    """Runs all writes of this process to one tenant."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._mutex = Lock()
        self._busy = False
        self._committing = False
        self._waiting: deque[PendingWrite[Any]] = deque()

    def run(self, work: Callable[[*Given], T], *given: *Given) -> T:
        """Run work in a transaction and return once it is durable."""
        return self._queue(PendingWrite(work, given, solitary=False))

    def alone(self, work: Callable[[], T]) -> T:
        """Run work outside any transaction while no other writer of this process is active."""
        return self._queue(PendingWrite(work, (), solitary=True))

    def _queue(self, ticket: PendingWrite[T]) -> T:
        with self._mutex:
            leads = not self._busy
            if leads:
                self._busy = True
            else:
                ticket.gate.acquire()
                self._waiting.append(ticket)
        if not leads:
            self._wait(ticket)
        if not ticket.done:
            self._lead(ticket)
        if ticket.error is not None:
            raise ticket.error
        return cast(T, ticket.result)

    def _wait(self, ticket: PendingWrite[Any]) -> None:
        """Sleep until the work is done by a leader, or until it is this writer's turn to lead."""
        try:
            ticket.gate.acquire()
        except BaseException:  # interrupted: leave the queue, or pass the lead on if this writer has got it meanwhile
            with self._mutex:
                queued = ticket in self._waiting
                if queued:
                    self._waiting.remove(ticket)
            if not queued:
                while not (ticket.done or ticket.leads):  # the gate may have opened before the interrupt came
                    ticket.gate.acquire(timeout=0.01)
                if not ticket.done:
                    self._pass_on()
            raise

    def _lead(self, ticket: PendingWrite[Any]) -> None:
        batch = [ticket]
        if not ticket.solitary:
            with self._mutex:
                while self._waiting and not self._waiting[0].solitary and len(batch) < MAX_BATCH:
                    batch.append(self._waiting.popleft())
        try:
            self._perform(batch)
        finally:
            for other in batch[1:]:  # all are done, unless the roll-back has failed: nobody else may lead them
                if not other.done:
                    other.settle(self._session.interruption_error())
            self._pass_on()
            for other in batch[1:]:
                other.gate.release()

    def _pass_on(self) -> None:
        """Let the next writer in the queue lead, if there is one."""
        with self._mutex:
            if self._waiting:
                following = self._waiting.popleft()
                following.leads = True
                following.gate.release()
            else:
                self._busy = False

    def _perform(self, batch: list[PendingWrite[Any]]) -> None:
        self._committing = False
        try:
            if batch[0].solitary:
                batch[0].result = batch[0].work(*batch[0].given)
                batch[0].settle()
                return
            if not self._together(batch):
                self._apart(batch)
        except Exception as error:  # noqa: BLE001 -- it is raised again, to each writer of the batch
            self._roll_back()
            for ticket in batch:
                ticket.settle(error)
        except BaseException:
            committed = self._committing and not self._session.is_open
            self._roll_back()
            lost = None if committed else self._session.interruption_error()
            for ticket in batch:
                ticket.settle(lost or ticket.error)
            raise

    def _together(self, batch: list[PendingWrite[Any]]) -> bool:
        """Run all works in one transaction, which usually succeeds. Return False if one of several failed and all are undone."""
        self._session.begin()
        try:
            for ticket in batch:
                ticket.result = ticket.work(*ticket.given)
            self._session.flush()
        except Exception:
            if len(batch) == 1:
                raise
            self._roll_back()
            return False
        self._commit(batch)
        return True

    def _apart(self, batch: list[PendingWrite[Any]]) -> None:
        """Run each work in a savepoint of its own, so that only the failing ones are undone."""
        self._session.begin()
        for ticket in batch:
            try:
                with self._session.savepoint():
                    ticket.result = ticket.work(*ticket.given)
                    self._session.flush()
            except Exception as error:
                if not self._session.is_open:  # all is rolled back after a full disk or a lost connection
                    raise
                ticket.error = error
        self._commit(batch)

    def _commit(self, batch: list[PendingWrite[Any]]) -> None:
        self._committing = True
        self._session.commit()
        for ticket in batch:
            ticket.settle(ticket.error)

    def _roll_back(self) -> None:
        if self._session.is_open:
            self._session.roll_back()
