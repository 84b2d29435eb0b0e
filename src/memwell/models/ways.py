"""Ways to ask a server: each is as good as the one before it, but for something that not every server accepts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..errors import ModelFailed
from .completer import reason_of

MOST = 1000
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


def about(schema: Mapping[str, Any] | None) -> bytes:
    """What stands for a schema: a server may refuse one and take another."""
    if schema is None:
        return b""
    return hashlib.blake2b(msgspec.json.encode(schema, order="deterministic"), digest_size=16).digest()


class Ways:
    """Which ways a server has accepted so far, for each schema that it was asked about."""

    def __init__(self) -> None:
        self._accepted: dict[tuple[tuple[Way, ...], bytes], int] = {}

    def ask(self, given: tuple[Way, ...], ask: Callable[[Way], T], about: bytes = b"") -> T:
        """What the first way that is accepted brings. The next time it is the first to be tried."""
        found, last = (given, about), len(given) - 1
        if len(self._accepted) >= MOST:
            self._accepted.clear()
        for at in range(self._accepted.get(found, 0), last):
            try:
                answer = ask(given[at])
            except ModelFailed as error:
                if reason_of(error) != "bad_request":
                    raise
            else:
                self._accepted[found] = at
                return answer
        answer = ask(given[last])
        self._accepted[found] = last
        return answer
