"""A sentence transformer in a directory: `model.onnx` and `tokenizer.json`, run by onnxruntime (extra `memwell[onnx]`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelFailed

if TYPE_CHECKING:
    from .embedder import Vectors

BATCH = 32
MAX_PIECES = 256


class Onnx:
    """Mean (or first) of the last layer, normalised, as the directory's pooling says."""

    quick = 64
    floor = 0.1
    ceiling = 0.8

    def __init__(self, folder: Path) -> None:
        model, tokenizer = folder / "model.onnx", folder / "tokenizer.json"
        for file in (model, tokenizer):
            if not file.is_file():
                raise ModelFailed(f"{file} is missing: the directory must hold model.onnx and tokenizer.json.")
        self._session = _open_session(model)
        self._tokenizer = _open_tokenizer(tokenizer)
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._first_piece = _uses_first_piece(folder)
        self.id = f"onnx:{_hash_files(model, tokenizer)}{':first' if self._first_piece else ''}"
        self.dimensions = int(self.embed(["."]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        batches = [self._embed(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
        return np.concatenate(batches) if batches else np.zeros((0, self.dimensions), np.float32)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        try:
            encoded = self._tokenizer.encode_batch(list(texts))
        except Exception as error:  # tokenizers raises nothing more specific
            raise ModelFailed(f"The model's tokenizer could not cut a text: {str(error)[:200]}.") from error
        if not encoded or not encoded[0].ids:
            return np.zeros((len(texts), self.dimensions), np.float32)
        ids = np.array([encoding.ids for encoding in encoded], np.int64)
        mask = np.array([encoding.attention_mask for encoding in encoded], np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            output = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        except Exception as error:  # onnxruntime has errors of its own for everything
            raise ModelFailed(f"The model could not embed a text: {error}.") from error
        if output.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            total = np.maximum(weights.sum(axis=1), 1)
            output = output[:, 0] if self._first_piece else (output * weights).sum(axis=1) / total
        length = np.linalg.norm(output, axis=1, keepdims=True)
        unit: Vectors = (output / np.maximum(length, 1e-12)).astype(np.float32)
        return unit


def _open_session(model: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ModelFailed('onnxruntime is not installed: pip install "memwell[onnx]".') from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # see above
        raise ModelFailed(f"{model} cannot be loaded: {error}.") from error


def _open_tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more specific
        raise ModelFailed(f"{path} cannot be read: {error}.") from error
    tokenizer.enable_truncation(MAX_PIECES)
    tokenizer.enable_padding()
    return tokenizer


def _uses_first_piece(folder: Path) -> bool:
    config = folder / "1_Pooling" / "config.json"
    try:
        return bool(json.loads(config.read_text())["pooling_mode_cls_token"]) if config.is_file() else False
    except (ValueError, KeyError, TypeError):
        return False


def _hash_files(*files: Path) -> str:
    """Vectors belong to these very weights and pieces, wherever the directory lies."""
    digest = hashlib.blake2b(digest_size=12)
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
