"""The result of a search for secrets: where one is, and of which kind. And how a long text is searched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_PIECE = 1 << 15
"""Characters that are searched at once. One search of a whole text would hold up the other threads."""
_REACH = 1 << 12
"""Characters that a match and what must follow it never exceed."""


class FoundSecret(NamedTuple):
    """A secret in a text. The description never repeats it."""

    kind: str
    start: int
    end: int


def iterate_matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern as `finditer` does, but search the text in pieces."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        for match in pattern.finditer(text, start, end + _REACH):
            if match.start() >= end:
                break
            yield match
            end = max(end, match.end())
        start = end
