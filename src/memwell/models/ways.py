"""Ways to ask a server: each is as good as the one before it, but for something that not every server accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

from ..errors import ModelFailed
from .completer import reason_of

T = TypeVar("T")


class Way(NamedTuple):
    """What to send: in which shape JSON is asked for, and whether the server is told to count and to be this warm."""

    shape: str = "text"
    counts: bool = False
    temperature: bool = False


def ways(shapes: Sequence[str], temperature: float | None, counts: Sequence[bool] = (False,)) -> tuple[Way, ...]:
    """From the best to the plainest. A temperature is the first thing to go, the shape the last."""
    warm = (False,) if temperature is None else (True, False)
    return tuple(Way(*each) for each in product(shapes, counts, warm))


class Ways:
    """Which ways a server has accepted so far."""

    def __init__(self) -> None:
        self._accepted: dict[tuple[Way, ...], int] = {}

    def ask(self, found: tuple[Way, ...], ask: Callable[[Way], T]) -> T:
        """What the first way that is accepted brings. The next time it is the first to be tried."""
        last = len(found) - 1
        for at in range(self._accepted.get(found, 0), last):
            try:
                answer = ask(found[at])
            except ModelFailed as error:
                if reason_of(error) != "bad_request":
                    raise
            else:
                self._accepted[found] = at
                return answer
        answer = ask(found[last])
        self._accepted[found] = last
        return answer
