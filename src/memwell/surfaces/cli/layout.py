"""Values as they fit on a screen: JSON on one line if there is room for it, else one thing below the other; texts broken between
words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.cells import cell_len, chop_cells

STEP = "  "
"""What is inside of something stands so much further to the right."""
LEAST = 20
"""The width of a line, however little room there is."""
_WORD = re.compile(r"\s*\S+")


def one_line(value: Any) -> str:
    """JSON with a little space between its parts."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def fits(line: str, width: int) -> bool:
    return len(line) <= width and cell_len(line) <= width


def laid_out(value: Any, width: int, before: str = "", after: str = "") -> list[str]:
    """JSON in lines of this width. What fits on one stays on it, with its name before it and the comma after it."""
    line = f"{before}{one_line(value)}{after}"
    if fits(line, width):
        return [line]
    if not value or not isinstance(value, dict | list):
        first, *others = wrapped(line, width - len(STEP))
        return [first, *(STEP + other for other in others)]
    inner = [STEP + one for part in _parts(value) for one in laid_out(part[0], width - len(STEP), *part[1:])]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [before + opening, *inner, closing + after]


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[tuple[Any, str, str]]:
    """What is in an object or a list, each with what stands before it and after it."""
    names = [f"{one_line(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    items = value.values() if isinstance(value, dict) else value
    return zip(items, names, [","] * (len(names) - 1) + [""], strict=True)


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of this width. A word that is longer stays whole, since it may be there to be copied; where words have no
    spaces between them, a line ends anywhere."""
    width = max(width, LEAST)
    return [line for whole in text.split("\n") for line in _broken(whole, width)]


def _broken(text: str, width: int) -> list[str]:
    lines = [""]
    for word in _WORD.findall(text):
        if fits(lines[-1] + word, width) or lines == [""]:
            lines[-1] += word
        else:
            lines.append(word.lstrip())
    return [part for line in lines for part in _chopped(line, width)]


def _chopped(line: str, width: int) -> list[str]:
    return [line] if line.isascii() or fits(line, width) else chop_cells(line, width)
