"""Places for what takes memory or time: so many in all, and for one tenant so few that others find some."""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from ...errors import MemwellError, Unavailable


class Shares:
    def __init__(self, in_all: int, each: int) -> None:
        self._all = Semaphore(in_all)
        self._each = each
        self._own: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, tenant: str, *, wait: bool = True) -> AsyncIterator[None]:
        """Hold a place. Whoever does not wait is told to come back if there is none."""
        own = self._own.setdefault(tenant, Semaphore(self._each))
        if not wait and (own.locked() or self._all.locked()):
            raise Unavailable("Too many files are under way: try again in a moment.", retry_after_s=5)
        async with own, self._all:
            yield


# -- Threads for requests. Leaner than an executor: one queue in, one callback on the event loop out.


T = TypeVar("T")

_Job = tuple[Callable[[], T], "asyncio.Future[T]"]


class Threads(Generic[T]):
    """A bounded number of threads, started when they are needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self.under_way = 0

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """The future result of work, or its error. If nobody waits for it any more, it is finished all the same."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.under_way += 1
        if self.under_way > len(self._threads) and len(self._threads) < self._limit:
            self._start(loop)
        self._jobs.put((work, future))
        return future

    def close(self) -> None:
        """Finish what is queued and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        thread = Thread(target=self._work, args=(loop,), name=self._name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            work, future = job
            try:
                self._tell(loop, future.set_result, future, work())
            except BaseException as error:  # noqa: BLE001 -- it is told to whoever waits, and the thread goes on
                told = error if isinstance(error, Exception) else MemwellError(f"It ended with {type(error).__name__}.")
                self._tell(loop, future.set_exception, future, told)

    def _tell(
        self, loop: asyncio.AbstractEventLoop, settle: Callable[[Any], None], future: asyncio.Future[T], outcome: Any
    ) -> None:
        try:
            loop.call_soon_threadsafe(self._settle, settle, future, outcome)
        except RuntimeError:  # the loop has ended, and with it whoever waited
            return

    def _settle(self, settle: Callable[[Any], None], future: asyncio.Future[T], outcome: Any) -> None:
        self.under_way -= 1
        if not future.done():
            settle(outcome)
