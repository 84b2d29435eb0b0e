"""A limit in real time for work that may block anywhere: in a name server, a handshake, a header that drips."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, NamedTuple, Self, TypeVar

T = TypeVar("T")
THREAD = "memwell-model"
GRACE_S = 0.05
"""How long work that has told all that matters may take to end by itself."""


class _Over(NamedTuple):
    """The work has ended, well or with an error."""

    error: BaseException | None


class Flow(Generic[T]):
    """What some work yields, as it comes; `TimeoutError` when the time is over.

    No timeout of a socket bounds a whole answer: each byte that arrives starts it anew. So the work has a thread of its own,
    and whoever waits stops waiting. `give_up` must take away what the work waits for, so that the thread ends too. What has
    come in time is told whenever it is asked for. The work goes on meanwhile, so it must bound how much it yields itself.
    """

    def __init__(self, seconds: float, work: Callable[[], Iterable[T]], give_up: Callable[[], None]) -> None:
        self._until = time.monotonic() + seconds
        self._give_up = give_up
        self._given_up = False
        self._came: SimpleQueue[T | _Over] = SimpleQueue()
        self._thread = Thread(target=_run, args=(work, self._came), name=THREAD, daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            item = self._came.get(timeout=max(0.0, self._until - time.monotonic()))
        except Empty:
            self._end()
            raise TimeoutError from None
        if not isinstance(item, _Over):
            return item
        raise StopIteration if item.error is None else item.error

    def ended(self) -> bool:
        """Whether the work has ended by itself. What has not is given up."""
        if not self._given_up:
            self._thread.join(GRACE_S)
            if self._thread.is_alive():
                self._end()
        return not self._given_up

    def _end(self) -> None:
        self._given_up = True
        self._give_up()


def _run(work: Callable[[], Iterable[T]], came: SimpleQueue[T | _Over]) -> None:
    try:
        for item in work():
            came.put(item)
    except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
        came.put(_Over(error))
    else:
        came.put(_Over(None))
