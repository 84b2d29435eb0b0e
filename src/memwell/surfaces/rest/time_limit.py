"""How long a request may take, and what is answered when that time is up."""

from __future__ import annotations

import asyncio

from ...errors import Unavailable
from ...operation import Operation

_TIME_IS_UP = "time is up"


class TimeLimit:
    """Cuts the present task off after a while. `answer` says how to go on; whoever knows better may change it."""

    def __init__(self, seconds: float, operation: Operation) -> None:
        self.answer = Unavailable(f"The request took too long{_advice(operation)}")
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def lift(self) -> None:
        self._timer.cancel()

    def has_caused(self, error: asyncio.CancelledError) -> bool:
        """Whether it was this that has cut the task off; then the task goes on, to answer."""
        if self._task is None or _TIME_IS_UP not in error.args:
            return False
        self._task.uncancel()
        return True

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancel(_TIME_IS_UP)


def _advice(operation: Operation) -> str:
    if not operation.writes:
        return ": try again."
    if operation.repeatable:
        return ". It may still be carried out: repeat it with the same Idempotency-Key."
    return ". It may still be carried out: look before you repeat it."
