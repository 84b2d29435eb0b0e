"""The default: WordLlama's table of word pieces, read straight from the files of its wheel.

A text's vector is the mean of its distinct pieces' vectors. No network, no framework, some microseconds a text.
"""

from __future__ import annotations

import importlib.util
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelFailed
from .pieces import Pieces

if TYPE_CHECKING:
    from .embedder import Vectors

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
