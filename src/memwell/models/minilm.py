"""The default embedder: all-MiniLM-L6-v2, a sentence model of six layers, run by onnxruntime from files inside this package.

A text's vector is the mean of the last layer over its first 256 pieces. A short text takes one or two milliseconds of one
processor. The files in `data` are put there when the package is built (`hatch_build.py`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..errors import ModelFailed
from .word_pieces import WordPieces
from .wordllama import DATA

if TYPE_CHECKING:
    from .embedder import Vectors

WEIGHTS = "minilm_l6_v2.onnx"
VOCABULARY = "bert_vocabulary.txt"
FILES = {
    WEIGHTS: "6c216b915b1c97c1bf03b80f2b60b7a951d085bca4832bb89b818bd80524b22a",
    VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""The SHA-256 of each file: a damaged model would give vectors without any meaning, and no error."""
DIMENSIONS = 384
MAX_PIECES = 256
MAX_CHARACTERS = 20_000
CACHED_QUERIES = 256
MAX_CACHED_CHARACTERS = 1000


class MiniLM:
    """all-MiniLM-L6-v2 with weights of seven bits.

    Texts are embedded one by one. The numbers inside the model are rounded to the range of what it is given, so in a batch a
    text's vector would depend on its neighbours, and no time would be saved. Each call works on the thread of its caller. A call
    with one text, such as a query, runs at once. Calls with several take turns, so that embedding in the background leaves the
    other processors to requests.
    """

    id = "minilm-l6-v2"
    dimensions = DIMENSIONS
    max_pieces = MAX_PIECES
    with_light = True
    quick = 400
    quick_characters = 32_000
    floor = 0.1
    ceiling = 0.8

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or DATA
        for name, digest in FILES.items():
            _check_file(folder / name, digest)
        self._pieces = WordPieces(folder / VOCABULARY)
        self._session = _open_session(folder / WEIGHTS)
        self._queries = QueryCache(CACHED_QUERIES)
        self._bulk = Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        if len(texts) == 1:
            return self._embed_query(texts[0])
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            with self._bulk:
                vectors[row] = self._run(text)
        return vectors

    def forget(self) -> None:
        """Clear the caches of words and queries, which may come from texts that are erased."""
        self._pieces.forget()
        self._queries.clear()

    def _embed_query(self, text: str) -> Vectors:
        """Embed a single text. Recent ones are cached, because a query is often asked of several collections."""
        vectors = self._queries.find(text)
        if vectors is None:
            vectors = self._run(text)
            if len(text) <= MAX_CACHED_CHARACTERS:
                self._queries.add(text, vectors)
        return vectors.copy()

    def _run(self, text: str) -> Vectors:
        """Return the unit vector of a text as the only row, or zeros if the text has no piece."""
        import numpy as np

        pieces = self._pieces.encode(text[:MAX_CHARACTERS], MAX_PIECES)
        if len(pieces) <= 2:  # the start and the end
            return np.zeros((1, DIMENSIONS), np.float32)
        try:
            vectors: Vectors = self._session.run(None, {"pieces": np.array([pieces], np.int64)})[0]
        except Exception as error:  # onnxruntime raises nothing more specific
            raise ModelFailed(f"The default model could not embed a text: {str(error)[:200]}.") from error
        return vectors


class QueryCache:
    """The vectors of the latest queries, for several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = Lock()

    def find(self, text: str) -> Vectors | None:
        with self._lock:
            if text in self._vectors:
                self._vectors.move_to_end(text)
            return self._vectors.get(text)

    def add(self, text: str, vectors: Vectors) -> None:
        with self._lock:
            self._vectors[text] = vectors
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._vectors.clear()


def _check_file(path: Path, digest: str) -> None:
    try:
        with path.open("rb") as file:
            intact = hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        intact = False
    if not intact:
        raise ModelFailed(f"The default model's file {path.name} is missing or damaged: reinstall memwell.")


def _open_session(path: Path) -> Any:
    try:
        import onnxruntime
    except Exception as error:  # a package for another machine raises more than ImportError
        raise ModelFailed(f"onnxruntime cannot be loaded: {str(error)[:200]}.") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # see above
        raise ModelFailed(f"{path.name} cannot be loaded: {str(error)[:200]}.") from error
