"""What takes long to make and never changes is made once in a process instead of once in a test.

Only how often it is made differs: the vocabulary of the default model takes 80 ms to read, which every memory does that
embeds something, and the commands take 100 ms to put together, which typer's runner does for each that it runs.
"""

from __future__ import annotations

import copy
from functools import cache, lru_cache
from pathlib import Path

import pytest
import typer.main
import typer.testing

from memwell.models import wordllama
from memwell.models.pieces import REMEMBERED, Pieces


def share(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wordllama, "Pieces", _pieces)
    patch.setattr(typer.testing, "_get_command", cache(typer.main.get_command))


def _pieces(path: Path) -> Pieces:
    """The installed vocabulary with a memory of words of its own; a vocabulary from elsewhere is read as ever."""
    if path != wordllama.installed() / wordllama.TOKENIZER:
        return Pieces(path)
    pieces = copy.copy(_read(path))
    pieces._remembered = lru_cache(REMEMBERED)(pieces._cut)
    return pieces


_read = cache(Pieces)
