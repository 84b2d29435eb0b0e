"""Limits of requests: their time, the size of their bodies, the threads that work on them, and each tenant's share of files."""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from starlette.types import Receive

from ...core.operation import Operation
from ...errors import Invalid, MemwellError, TooLarge, Unavailable

_TIME_IS_UP = "time is up"


class TimeLimit:
    """Cancels the current task when its time is up. The client then gets `answer`, which the task may replace by a better one."""

    def __init__(self, seconds: float, operation: Operation) -> None:
        advice = ". It may still be done: check before you repeat it."
        if not operation.writes:
            advice = ": try again."
        elif operation.repeatable:
            advice = ". It may still be done: repeat it with the same Idempotency-Key."
        self.answer = Unavailable(f"The request took too long{advice}")
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cancel)

    def lift(self) -> None:
        self._timer.cancel()

    def has_caused(self, error: asyncio.CancelledError) -> bool:
        """Return True if this limit cancelled the task, which can then go on to answer."""
        if self._task is None or _TIME_IS_UP not in error.args:
            return False
        self._task.uncancel()
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel(_TIME_IS_UP)


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """Read the body up to the limit. Count the bytes, because the header may be wrong."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > limit:
        raise TooLarge(f"The request is larger than {limit} bytes.", limit=limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request was cut off.")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            # not kept in a variable: the error, its traceback and this frame would hold `parts` until the next collection
            raise TooLarge(f"The request is larger than {limit} bytes.", limit=limit)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


class TenantQuota:
    """A limited number of slots. Each tenant can hold only a few of them."""

    def __init__(self, total: int, per_tenant: int) -> None:
        self._all = Semaphore(total)
        self._per_tenant = per_tenant
        self._tenants: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, tenant: str, *, wait: bool = True) -> AsyncIterator[None]:
        """Hold a slot. Without `wait`, raise Unavailable if there is none."""
        own = self._tenants.setdefault(tenant, Semaphore(self._per_tenant))
        if not wait and (own.locked() or self._all.locked()):
            raise Unavailable("Too many files are being transferred: try again in a moment.", retry_after_s=5)
        async with own, self._all:
            yield


T = TypeVar("T")

_Job = tuple[Callable[[], T], "asyncio.Future[T]"]


class ThreadPool(Generic[T]):
    """A bounded number of threads, started on demand. Leaner than an executor: one queue in, one callback on the
    event loop out."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self.pending = 0

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start work and return its future result. A cancelled future does not stop the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.pending += 1
        if self.pending > len(self._threads) and len(self._threads) < self._limit:
            thread = Thread(target=self._work, args=(loop,), name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((work, future))
        return future

    def close(self) -> None:
        """Finish the queued work and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            work, future = job
            try:
                self._report(loop, future.set_result, future, work())
            except BaseException as error:  # noqa: BLE001 -- the caller gets it, and the thread goes on
                if not isinstance(error, Exception):
                    error = MemwellError(f"The request ended with {type(error).__name__}.")
                self._report(loop, future.set_exception, future, error)

    def _report(
        self, loop: asyncio.AbstractEventLoop, finish: Callable[[Any], None], future: asyncio.Future[T], outcome: Any
    ) -> None:
        try:
            loop.call_soon_threadsafe(self._finish, finish, future, outcome)
        except RuntimeError:  # the event loop has ended
            return

    def _finish(self, finish: Callable[[Any], None], future: asyncio.Future[T], outcome: Any) -> None:
        self.pending -= 1
        if not future.done():
            finish(outcome)
