"""Cutting words into the pieces of a byte-pair vocabulary.

The vocabulary's file is read as it is. Words are cut one by one and remembered, since most words of a text were met before;
a general tokenizer does more, and takes longer to load than a search takes.
"""

from __future__ import annotations

import importlib.util
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import typed
from ..errors import ModelFailed

if TYPE_CHECKING:
    from .embedder import Vectors

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


# -- The default: WordLlama's table of word pieces, read straight from the files of its wheel.
#
# A text's vector is the mean of its distinct pieces' vectors. No network, no framework, some microseconds a text.


DIMENSIONS = 256
MAX_CHARACTERS = 20_000
WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
PIECES = 32_000


class WordLlama:
    """A static table of 32,000 word pieces with 256 dimensions."""

    id = "wordllama-l2-supercat-256"
    dimensions = DIMENSIONS
    instant = True
    quick = 20_000
    floor = 0.05
    ceiling = 0.8

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or installed()
        self._pieces = Pieces(folder / TOKENIZER)
        self._table = _table(folder / WEIGHTS)

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            pieces = list(dict.fromkeys(self._pieces.of(text[:MAX_CHARACTERS])))
            if pieces:
                vectors[row] = self._table[pieces].sum(axis=0, dtype=np.float32)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return unit

    def forget(self) -> None:
        """Drop what is remembered of the words of texts."""
        self._pieces.forget()


def installed() -> Path:
    """Where the wheel was installed. The package itself is not imported: it would try to download what it has."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ModelFailed("The package `wordllama`, which holds the default model, is not installed.")
    return Path(spec.submodule_search_locations[0])


def _table(path: Path) -> Any:
    """The table as it lies in the file: one tensor of half-precision numbers behind a small header."""
    import numpy as np

    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length < 1 << 20 else {}
        described = header["embedding.weight"]
        if described["dtype"] != "F16" or described["shape"] != [PIECES, DIMENSIONS]:
            raise ValueError(described)
        start = 8 + length + described["data_offsets"][0]
        return np.asarray(np.memmap(path, np.float16, "r", start, (PIECES, DIMENSIONS)))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, struct.error) as error:
        raise ModelFailed(
            f"The default model's file {path.name} is missing or damaged: reinstall `wordllama`."
        ) from error
