"""How much a regular expression has to keep in mind: about as many things at once as it has parts, once its repetitions are
written out."""

from __future__ import annotations

import re
from functools import lru_cache

_COUNTED = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
MOST = 1_000_000


@lru_cache(maxsize=4096)
def states(pattern: str) -> int:
    """The parts of a pattern, each as often as it may be repeated by a number."""
    frames: list[list[int]] = [[]]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        counted = _COUNTED.match(pattern, at)
        if letter == "(":
            frames.append([])
        elif letter == ")" and len(frames) > 1:
            inner = sum(frames.pop())
            frames[-1].append(max(inner, 1))
        elif counted and frames[-1]:
            frames[-1][-1] = min(MOST, frames[-1][-1] * max(int(counted[1]), int(counted[3] or 0), 1))
        elif letter not in "*+?|^$)":
            frames[-1].append(1)
        at = _after(pattern, at, counted)
    return min(MOST, sum(map(sum, frames)))


def _after(pattern: str, at: int, counted: re.Match[str] | None) -> int:
    if counted:
        return counted.end()
    if pattern[at] == "\\":
        return at + 2
    found = _CLASS.match(pattern, at) if pattern[at] == "[" else None
    return found.end() if found else at + 1
