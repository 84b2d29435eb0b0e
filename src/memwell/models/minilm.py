"""The default embedder: all-MiniLM-L6-v2, a sentence model of six layers, run by onnxruntime from files inside this package.

A text's vector is the mean of the last layer over its first 256 pieces. A short text takes some milliseconds of one processor.
The files in `data` are put there when the package is built (`hatch_build.py`).
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

WEIGHTS = "minilm_l6_v2_int8.onnx"
VOCABULARY = "bert_vocabulary.txt"
FILES = {
    WEIGHTS: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""The SHA-256 of each file: a damaged model would give vectors without any meaning, and no error."""
DIMENSIONS = 384
MAX_PIECES = 256
MAX_CHARACTERS = 20_000
BATCH_PIECES = 2048
"""The size of a batch with its padding. It bounds the memory that the model needs while it works."""
MAX_BATCH = 32
CACHED_QUERIES = 256
MAX_CACHED_CHARACTERS = 1000


class MiniLM:
    """all-MiniLM-L6-v2 with weights of eight bits.

    Each call works on the thread of its caller. Calls with one text, such as a query, run at once; those with several take
    turns, so that embedding in the background leaves the other processors to requests.
    """

    id = "minilm-l6-v2"
    dimensions = DIMENSIONS
    max_pieces = MAX_PIECES
    quick = 64
    floor = 0.1
    ceiling = 0.8

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or DATA
        for name, digest in FILES.items():
            _check_file(folder / name, digest)
        self._pieces = WordPieces(folder / VOCABULARY)
        self._session = _open_session(folder / WEIGHTS)
        self._cached: OrderedDict[str, Vectors] = OrderedDict()
        self._cache_lock, self._bulk_lock = Lock(), Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        if len(texts) == 1:
            return self._embed_query(texts[0])
        encoded = [self._encode(text) for text in texts]
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for batch in _split_batches(encoded):
            with self._bulk_lock:
                vectors[batch] = self._run([encoded[row] for row in batch])
        return vectors

    def forget(self) -> None:
        """Clear the caches of words and queries, which may come from texts that are erased."""
        self._pieces.forget()
        with self._cache_lock:
            self._cached.clear()

    def _embed_query(self, text: str) -> Vectors:
        """Embed a single text. Recent ones are cached, because a query is often asked of several collections."""
        with self._cache_lock:
            vectors = self._cached.get(text)
            if vectors is not None:
                self._cached.move_to_end(text)
                return vectors.copy()
        vectors = self._run([self._encode(text)])
        if len(text) <= MAX_CACHED_CHARACTERS:
            with self._cache_lock:
                self._cached[text] = vectors.copy()
                while len(self._cached) > CACHED_QUERIES:
                    self._cached.popitem(last=False)
        return vectors

    def _encode(self, text: str) -> list[int]:
        return self._pieces.encode(text[:MAX_CHARACTERS], MAX_PIECES)

    def _run(self, encoded: Sequence[list[int]]) -> Vectors:
        """Return the unit vectors of some encoded texts. A text without any piece gets zeros."""
        import numpy as np

        ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
        mask = np.zeros_like(ids)
        for row, pieces in enumerate(encoded):
            ids[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            (layer,) = self._session.run(None, given)
        except Exception as error:  # onnxruntime raises nothing more specific
            raise ModelFailed(f"The default model could not embed a text: {str(error)[:200]}.") from error
        vectors: Vectors = (layer * mask[:, :, None].astype(np.float32)).sum(axis=1)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        length[[len(pieces) <= 2 for pieces in encoded]] = np.inf  # only the start and the end
        unit: Vectors = vectors / length
        return unit


def _split_batches(encoded: Sequence[list[int]]) -> list[list[int]]:
    """Group texts of about the same length, the longest first, so that little is padded."""
    batches: list[list[int]] = []
    for row in sorted(range(len(encoded)), key=lambda row: -len(encoded[row])):
        last = batches[-1] if batches else []
        if last and len(last) < MAX_BATCH and (len(last) + 1) * len(encoded[last[0]]) <= BATCH_PIECES:
            last.append(row)
        else:
            batches.append([row])
    return batches


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
