"""The events of a run that is over, told from what was written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..clock import SECOND
from .live import RunEvent
from .stored import RunRow, StepBody

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
