"""Measure the processor time of a call, so that a test can say how it grows."""

import gc
import time
from collections.abc import Callable

TRIES = 3


def processor_time(action: Callable[[], object]) -> float:
    """Return the seconds that this process computes for `action`: the least of three, without collections of garbage."""
    return min(_measure(action) for _ in range(TRIES))


def _measure(action: Callable[[], object]) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        started = time.process_time()
        action()
        return time.process_time() - started
    finally:
        if collecting:
            gc.enable()
