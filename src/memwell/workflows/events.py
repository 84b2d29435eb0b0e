"""A run as it happens: what its steps do and what a model says, for whoever looks on, from the beginning or from later on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Literal

import msgspec

from ..clock import SECOND
from .store import RunRow, StepBody

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

    @property
    def is_last(self) -> bool:
        """Whether nothing comes after it: it says how the run has ended."""
        return self.kind == "run" and self.state != "running"


class Live:
    """What has happened in a run so far."""

    def __init__(self, run_id: str, on_end: Callable[[Live], None] = lambda run_id: None) -> None:
        self.run_id = run_id
        self._on_end = on_end
        self._events: list[RunEvent] = []
        self._changed = Condition()
        self._over = False
        self._wakes: list[Callable[[], None]] = []
        self._hushed = False

    def tell(self, event: RunEvent) -> None:
        with self._changed:
            if self._over:
                return
            event = _silent(event) if self._hushed else event
            if len(self._events) < MAX_EVENTS or event.kind != "text":
                self._events.append(msgspec.structs.replace(event, number=len(self._events) + 1))
            self._over = event.is_last
            self._wake()

    def hush(self) -> None:
        """Forget everything that was said, and tell nothing more of it."""
        with self._changed:
            self._hushed = True
            self._events = [_silent(event) for event in self._events]

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._wake()
        self._on_end(self)

    @property
    def over(self) -> bool:
        return self._over

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have something called, from the run's own threads, whenever something happens. It must not wait, nor fail."""
        with self._changed:
            self._wakes.append(wake)
        try:
            yield
        finally:
            with self._changed:
                self._wakes.remove(wake)

    def after(self, number: int, timeout_s: float) -> tuple[list[RunEvent], bool]:
        """What has happened after an event, as soon as something has; and whether that is all there will be."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while len(self._events) <= number and not self._over and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
            return self._events[number:] or self._last(), self._over

    def _last(self) -> list[RunEvent]:
        """For whoever has seen everything: how it ended, if it has. Read from the database, a run says the same."""
        return [event for event in self._events[-1:] if event.is_last]

    def _wake(self) -> None:
        self._changed.notify_all()
        for wake in self._wakes:
            wake()


def _silent(event: RunEvent) -> RunEvent:
    """An event without what was said."""
    name = event.text if event.kind == "run" and event.state == "running" else None
    return msgspec.structs.replace(event, text=name, error=None)


# -- The events of a run that is over, told from what was written down.


RESULTS = ("streaming_result", "display_result", "send_text_message")


def told(row: RunRow, state: str, steps: Sequence[StepBody]) -> list[RunEvent]:
    """What happened, step by step; without the pieces of what a model said."""
    return [msgspec.structs.replace(event, number=number) for number, event in enumerate(_told(row, state, steps), 1)]


def _told(row: RunRow, state: str, steps: Sequence[StepBody]) -> Iterator[RunEvent]:
    yield RunEvent(kind="run", run=row.id, state="running", text=row.name)
    above: list[str] = []
    for step in steps:
        del above[step.level :]
        known = {
            "step": step.id,
            "step_type": step.step_type,
            "level": step.level,
            "parent": above[-1] if above else None,
        }
        yield RunEvent(kind="step", run=row.id, state="running", **known)  # type: ignore[arg-type]
        took = (step.ended_at - step.started_at) / SECOND
        yield RunEvent(kind="step", run=row.id, state=step.state, error=step.error, seconds=took, **known)  # type: ignore[arg-type]
        if step.step_type in RESULTS and step.state == "done":
            yield RunEvent(kind="result", run=row.id, step=step.id, text=step.output)
        above.append(step.id)
    yield RunEvent(kind="run", run=row.id, state=state, text=row.output, error=row.error)
