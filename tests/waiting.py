"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], failure: str = "it did not happen", within_s: float = 120.0) -> T:
    """Return the first true value of a condition. The deadline only ends a test that would wait forever."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, failure
        time.sleep(0.005)
    return value
