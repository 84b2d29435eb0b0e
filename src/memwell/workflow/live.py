"""A run as it happens: what its steps do and what a model says, for whoever looks on, from the beginning or from later on."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition
from typing import Literal

import msgspec

MAX_EVENTS = 20_000


class RunEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`run`: the run began or ended; `step`: a step did; `text`: the next piece of the answer; `result`: what is handed out."""

    kind: Literal["run", "step", "text", "result"]
    run: str
    number: int = 0
    step: str | None = None
    step_type: str | None = None
    parent: str | None = None
    level: int = 0
    state: str | None = None
    text: str | None = None
    error: str | None = None
    seconds: float | None = None


class Live:
    """What has happened in a run so far."""

    def __init__(self, run_id: str, on_end: Callable[[str], None] = lambda run_id: None) -> None:
        self.run_id = run_id
        self._on_end = on_end
        self._events: list[RunEvent] = []
        self._changed = Condition()
        self._over = False

    def tell(self, event: RunEvent) -> None:
        with self._changed:
            if len(self._events) < MAX_EVENTS or event.kind != "text":
                self._events.append(msgspec.structs.replace(event, number=len(self._events) + 1))
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._on_end(self.run_id)

    def after(self, number: int, timeout_s: float) -> tuple[list[RunEvent], bool]:
        """What has happened after an event, as soon as something has; and whether that is all there will be."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while len(self._events) <= number and not self._over and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
            return self._events[number:], self._over
