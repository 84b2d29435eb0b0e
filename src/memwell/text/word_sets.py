"""Word lists: written as text in code (`word_set`), or as data files beside the code that uses them.

A data file has one word or pattern per line. `#` begins a comment, and `[name]` begins a section.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def load_words(package: str, name: str) -> frozenset[str]:
    """The lines of `data/NAME.txt` in a package."""
    return frozenset(_read_lines(package, name))


@cache
def load_sections(package: str, name: str) -> dict[str, list[str]]:
    """The lines of each section of `data/NAME.txt` in a package."""
    sections: dict[str, list[str]] = {}
    for line in _read_lines(package, name):
        if line.startswith("[") and line.endswith("]"):
            lines = sections[line[1:-1]] = []
        else:
            lines.append(line)
    return sections


def _read_lines(package: str, name: str) -> Iterator[str]:
    text = (resources.files(package) / "data" / f"{name}.txt").read_text(encoding="utf-8")
    return (line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#"))
