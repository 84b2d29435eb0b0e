"""A limit in real time for work that may block anywhere: in a name server, a handshake, a header that drips."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar, cast

T = TypeVar("T")
THREAD = "memwell-model"


def within(seconds: float, work: Callable[[], T], give_up: Callable[[], None]) -> T:
    """What the work returns or raises; `TimeoutError` when the time is over.

    No timeout of a socket bounds a whole request: each byte that arrives starts it anew. So the work has a thread of its
    own, and whoever waits stops waiting. `give_up` must take away what the work waits for, so that the thread ends too.
    """
    done: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except BaseException as error:  # noqa: BLE001 -- raised again where it is waited for
            done.put((None, error))

    Thread(target=run, name=THREAD, daemon=True).start()
    try:
        result, error = done.get(timeout=max(0.0, seconds))
    except Empty:
        give_up()
        raise TimeoutError from None
    except BaseException:  # whoever waits was interrupted
        give_up()
        raise
    if error is not None:
        raise error
    return cast(T, result)
