"""Word lists: written as text in code (`word_set`), or as data files beside the code that uses them.

A data file has one word or pattern per line. `#` begins a comment, and `[name]` begins a section. Tables with more columns are
TOML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any


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


def load_tables(package: str, name: str) -> dict[str, Any]:
    """The tables of `data/NAME.toml` in a package."""
    return tomllib.loads(_read_data(package, f"{name}.toml"))


def _read_lines(package: str, name: str) -> Iterator[str]:
    text = _read_data(package, f"{name}.txt")
    return (line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#"))


def _read_data(package: str, name: str) -> str:
    return (resources.files(package) / "data" / name).read_text(encoding="utf-8")
