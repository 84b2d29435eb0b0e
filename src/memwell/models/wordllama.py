"""The light embedder: WordLlama's table of 32,000 word pieces, read from files inside this package.

A text's vector is the mean of the vectors of its distinct pieces. This needs no network and no framework, and takes some
microseconds per text. The files in `data` are put there when the package is built (`hatch_build.py`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import typed
from ..errors import ModelFailed

if TYPE_CHECKING:
    from .embedder import Vectors

DATA = Path(__file__).parent / "data"
WEIGHTS = "l2_supercat_256.safetensors"
TOKENIZER = "l2_supercat_tokenizer_config.json"
DIMENSIONS = 256
PIECES = 32_000
MAX_CHARACTERS = 20_000
SPACE = "▁"
MAX_WORD = 48  # a longer run without a space is not a word, and is cut
CACHE_SIZE = 64 * 1024


class WordLlama:
    """A static table of 32,000 word pieces with 256 dimensions."""

    id = "wordllama-l2-supercat-256"
    dimensions = DIMENSIONS
    instant = True
    quick = 20_000
    warning: str | None = None
    floor = 0.05
    ceiling = 0.8

    def __init__(self, folder: Path | None = None, warning: str | None = None) -> None:
        folder = folder or DATA
        self.warning = warning
        self._tokenizer = BytePairTokenizer(folder / TOKENIZER)
        self._table = _load_table(folder / WEIGHTS)

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            pieces = list(dict.fromkeys(self._tokenizer.encode(text[:MAX_CHARACTERS])))
            if pieces:
                vectors[row] = self._table[pieces].sum(axis=0, dtype=np.float32)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return unit

    def forget(self) -> None:
        """Clear the cache of words, which come from texts that may be erased."""
        self._tokenizer.forget()


class _Model(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[str]


class _TokenizerFile(msgspec.Struct):
    model: _Model


class BytePairTokenizer:
    """Cuts words into the pieces of a byte-pair vocabulary.

    Words are cut one by one and cached, because most words of a text occurred before. A general tokenizer would take longer
    to load than a search takes.
    """

    def __init__(self, path: Path) -> None:
        self._vocabulary, self._rank = (
            _read_package_vocabulary() if path == DATA / TOKENIZER else _read_vocabulary(path)
        )
        self._cached_cut: Any = lru_cache(CACHE_SIZE)(self._cut)

    def encode(self, text: str) -> Iterator[int]:
        """The numbers of the pieces of every word of a text, in order."""
        cut: Callable[[str], tuple[int, ...]] = self._cached_cut
        for word in text.split():
            if len(word) <= MAX_WORD:
                yield from cut(SPACE + word)
            else:
                for at in range(0, len(word), MAX_WORD):
                    yield from self._cut(word[at : at + MAX_WORD] if at else SPACE + word[:MAX_WORD])

    def forget(self) -> None:
        self._cached_cut.cache_clear()

    def _cut(self, word: str) -> tuple[int, ...]:
        vocabulary, rank, never = self._vocabulary, self._rank, len(self._rank)
        pieces: list[str] = []
        for sign in word:
            # A character outside of the vocabulary is encoded as its bytes.
            pieces += [sign] if sign in vocabulary else [f"<0x{byte:02X}>" for byte in sign.encode(errors="replace")]
        while len(pieces) > 1:
            ranks = [rank.get(f"{left} {right}", never) for left, right in pairwise(pieces)]
            best = min(ranks)
            if best == never:
                break
            at = ranks.index(best)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return tuple(vocabulary[piece] for piece in pieces)


def _read_vocabulary(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Read the number of each piece, and the rank of each pair of pieces."""
    try:
        model = typed.decode(path.read_bytes(), _TokenizerFile).model
    except (OSError, msgspec.MsgspecError) as error:
        raise _build_file_error(path) from error
    return model.vocab, {pair: rank for rank, pair in enumerate(model.merges)}


@cache
def _read_package_vocabulary() -> tuple[dict[str, int], dict[str, int]]:
    """Read once in a process: all memories share it."""
    return _read_vocabulary(DATA / TOKENIZER)


def _load_table(path: Path) -> Any:
    """Map the table in the file into memory: one tensor of half-precision numbers after a small header."""
    import numpy as np

    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length < 1 << 20 else {}
        tensor = header["embedding.weight"]
        if tensor["dtype"] != "F16" or tensor["shape"] != [PIECES, DIMENSIONS]:
            raise ValueError(tensor)
        start = 8 + length + tensor["data_offsets"][0]
        return np.asarray(np.memmap(path, np.float16, "r", start, (PIECES, DIMENSIONS)))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, struct.error) as error:
        raise _build_file_error(path) from error


def _build_file_error(path: Path) -> ModelFailed:
    return ModelFailed(f"The model's file {path.name} is missing or damaged: reinstall memwell.")
