"""How much a regular expression takes: to match it, about as many things have to be kept in mind at once as it has parts, with
its repetitions written out; to compile it, a class of Unicode's takes as much as hundreds of other parts."""

from __future__ import annotations

import re
from functools import lru_cache

_COUNTED = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:[pPuUx]\{[^}]*\}|[pP].|.?)", re.DOTALL)
_UNICODE = re.compile(r"\\[pP]")
_WORDS = re.compile(r"\\[dDsSwW]")
_FOLDING = re.compile(r"\(\?[a-zA-Z-]*i")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]|\\[uUx]")
MOST = 1_000_000
COMPILED = 250
"""As many parts as a class of Unicode's takes to be compiled, and as it takes to be matched."""
MATCHED = 4
FOLDED = 600
"""As many parts as it takes to compile a class of letters beyond ASCII where their case does not count: each is looked up."""
WORDS = 9
"""What stands for digits, white space or letters is written out by a validator one by one, in the whole pattern each time: as
many of them, squared, take as long as a part."""


def states(pattern: str) -> int:
    """The parts of a pattern, each as often as it may be repeated by a number."""
    return _counted(pattern, MATCHED)


def size(pattern: str) -> int:
    """The same, as it counts when the pattern is compiled."""
    return min(MOST, _counted(pattern, COMPILED) + _once(pattern))


@lru_cache(maxsize=8192)
def _counted(pattern: str, of_unicode: int) -> int:
    frames: list[list[int]] = [[]]
    at = 0
    while at < len(pattern):
        letter, part = pattern[at], _part(pattern, at)
        repeated = _COUNTED.fullmatch(part)
        if letter == "(":
            frames.append([])
        elif letter == ")" and len(frames) > 1:
            inner = sum(frames.pop())
            frames[-1].append(max(inner, 1))
        elif repeated and frames[-1]:
            times = max(int(repeated[1]), int(repeated[3] or 0), 1)
            frames[-1][-1] = min(MOST, frames[-1][-1] * times)
        elif letter not in "*+?|^$)":
            frames[-1].append(max(1, len(_UNICODE.findall(part)) * of_unicode))
        at += len(part)
    return min(MOST, sum(map(sum, frames)))


@lru_cache(maxsize=8192)
def _once(pattern: str) -> int:
    """What it takes to read a pattern, however often its parts are repeated."""
    words = len(_WORDS.findall(pattern)) ** 2 // WORDS
    if not _FOLDING.search(pattern):
        return words
    return words + FOLDED * sum(bool(_BEYOND_ASCII.search(one)) for one in _CLASS.findall(pattern))


def _part(pattern: str, at: int) -> str:
    """What stands at a place in a pattern and is one: a repetition, something escaped, a class, or a letter."""
    for kind in (_COUNTED, _ESCAPED, _CLASS):
        found = kind.match(pattern, at)
        if found:
            return found[0]
    return pattern[at]
