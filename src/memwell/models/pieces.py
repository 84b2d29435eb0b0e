"""Cutting words into the pieces of a byte-pair vocabulary.

The vocabulary's file is read as it is. Words are cut one by one and remembered, since most words of a text were met before;
a general tokenizer does more, and takes longer to load than a search takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from .. import typed
from ..errors import ModelFailed

SPACE = "▁"
LONGEST = 48
"""A longer run without a space is cut: it is no word."""
REMEMBERED = 64 * 1024


class _Rules(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[str]


class _File(msgspec.Struct):
    model: _Rules


class Pieces:
    """The numbers of a word's pieces."""

    def __init__(self, path: Path) -> None:
        try:
            rules = typed.decode(path.read_bytes(), _File).model
        except (OSError, msgspec.MsgspecError) as error:
            raise ModelFailed(f"The model's file {path.name} is missing or damaged: reinstall `wordllama`.") from error
        self._vocabulary = rules.vocab
        self._rank = {pair: rank for rank, pair in enumerate(rules.merges)}
        self._remembered: Any = lru_cache(REMEMBERED)(self._cut)

    def of(self, text: str) -> Iterator[int]:
        """The numbers of the pieces of every word of a text, in order."""
        of_word: Callable[[str], tuple[int, ...]] = self._remembered
        for word in text.split():
            if len(word) <= LONGEST:
                yield from of_word(SPACE + word)
            else:
                for at in range(0, len(word), LONGEST):
                    yield from self._cut(word[at : at + LONGEST] if at else SPACE + word[:LONGEST])

    def forget(self) -> None:
        """Drop what is remembered of words."""
        self._remembered.cache_clear()

    def _cut(self, word: str) -> tuple[int, ...]:
        pieces = self._merged([piece for sign in word for piece in self._signs(sign)])
        return tuple(self._vocabulary[piece] for piece in pieces)

    def _signs(self, sign: str) -> list[str]:
        """A character, or its bytes if the vocabulary does not have it."""
        return [sign] if sign in self._vocabulary else [f"<0x{byte:02X}>" for byte in sign.encode(errors="replace")]

    def _merged(self, pieces: list[str]) -> list[str]:
        """Join the pair that comes first in the rules, until there is none."""
        rank, never = self._rank, len(self._rank)
        while len(pieces) > 1:
            ranks = [rank.get(f"{left} {right}", never) for left, right in pairwise(pieces)]
            best = min(ranks)
            if best == never:
                break
            at = ranks.index(best)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return pieces
