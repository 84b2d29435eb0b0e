"""Embedders turn texts into vectors. The setting `MEMWELL_EMBEDDER` chooses one; `minilm` and `wordllama` work offline.

This module has the interface, and the embedders that need an endpoint, a directory or another package.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from .. import typed
from ..config import Config
from ..errors import Invalid, MemwellError, ModelFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

GROUP = "memwell.embedders"
USAGE = (
    "MEMWELL_EMBEDDER is `minilm`, `wordllama`, `none`, `onnx:DIRECTORY`, `openai:MODEL`, `fastembed:MODEL`, "
    "or the name of an installed plugin."
)


class Embedder(Protocol):
    """Turns texts into unit vectors. A text without any known word becomes zeros.

    Vectors are stored under `id`, so vectors of two models are never compared. `quick` is the number of texts that it can
    embed while a search waits; a background job embeds the rest. An embedder with a true attribute `instant` takes
    microseconds and may be called inside a transaction. One with a true attribute `with_light` reads whole sentences and is
    slow: the vectors of the built-in table serve until its own exist, and a search embeds at most `quick_characters` by it.
    One with an attribute `warning` stands in for another that cannot be used; the warning says why. Two texts with a
    similarity of `floor` are unrelated; with one of `ceiling` they mean the same.
    """

    @property
    def id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def quick(self) -> int: ...

    @property
    def floor(self) -> float: ...

    @property
    def ceiling(self) -> float: ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...


def open_embedder(config: Config) -> Embedder | None:
    """Load the configured embedder, which may take a moment; None if embeddings are switched off."""
    kind, _, name = config.embedder.partition(":")
    if kind in ("", "minilm"):
        return open_minilm()
    if kind == "wordllama":
        from .wordllama import WordLlama

        return WordLlama()
    if kind == "none":
        return None
    if kind == "onnx" and name:
        return Onnx(Path(name).expanduser())
    if kind == "openai" and name:
        return Endpoint(name, config.embedder_url, config.openai_api_key)
    if kind == "fastembed" and name:
        return Fastembed(name)
    from importlib.metadata import entry_points

    for plugin in entry_points(group=GROUP, name=kind):
        try:
            embedder: Embedder = plugin.load()(name)
        except MemwellError:
            raise
        except Exception as error:  # a plugin may raise anything
            raise ModelFailed(f"The plugin {kind!r} cannot be loaded: {str(error)[:200]}.") from error
        return embedder
    raise Invalid(USAGE)


def open_light_embedder(config: Config) -> Embedder | None:
    """Load the instant embedder of what the configured one has not embedded yet; None if embeddings are switched off."""
    from .wordllama import WordLlama

    return None if config.embedder.partition(":")[0] == "none" else WordLlama()


def open_minilm(folder: Path | None = None) -> Embedder:
    """Load the sentence model; WordLlama with a warning if that is not possible."""
    from .minilm import MiniLM
    from .wordllama import WordLlama

    try:
        return MiniLM(folder)
    except ModelFailed as error:
        light = WordLlama()
        light.warning = f"{error} Until then, search uses `wordllama`, which understands less."
        return light


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


class Endpoint:
    """A model behind HTTP: `POST <url>/embeddings`. The first answer fixes the number of dimensions of all answers."""

    BATCH = 128
    TIMEOUT_S = 10.0
    MAX_ANSWER = 64 * 1024 * 1024
    MAX_CHARACTERS = 20_000
    quick = 256
    floor = 0.15
    ceiling = 0.75

    def __init__(self, model: str, url: str, key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        import httpx

        if not key.isascii() or not (key.isprintable() or not key):
            raise Invalid("The key for the embeddings endpoint contains a character that cannot be sent.")
        try:
            host = urlsplit(url).netloc.rpartition("@")[2]  # without a user and password
        except ValueError:
            host = ""
        if not host:
            raise Invalid("MEMWELL_EMBEDDER_URL is not an address such as http://127.0.0.1:8080/v1.")
        self._model = model
        self._url = url.rstrip("/") + "/embeddings"
        self._timeout_s = timeout_s
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers)
        self._dimensions: int | None = None
        self.id = f"openai:{model}@{host}"

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            self.embed(["."])
        assert self._dimensions is not None  # noqa: S101 -- an answer was just checked
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        rows = [row for at in range(0, len(texts), self.BATCH) for row in self._ask(texts[at : at + self.BATCH])]
        vectors = np.array(rows, np.float64)
        with np.errstate(over="ignore"):
            length = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(length).all():
            raise ModelFailed("The embeddings endpoint returned numbers that are not finite.")
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0).astype(np.float32)
        return unit

    def close(self) -> None:
        self._client.close()

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        import httpx

        cut = [text[: self.MAX_CHARACTERS] or " " for text in texts]
        try:
            body = self._post({"model": self._model, "input": cut, "encoding_format": "float"})
            data = typed.decode(body, _Answer).data
        except httpx.HTTPStatusError as error:
            raise ModelFailed(f"The embeddings endpoint answered with {error.response.status_code}.") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise ModelFailed(f"The embeddings endpoint cannot be reached ({type(error).__name__}).") from None
        except (msgspec.MsgspecError, RecursionError):
            raise ModelFailed("The embeddings endpoint did not return one vector for each text.") from None
        rows = [item.embedding for item in sorted(data, key=lambda item: item.index)]
        widths = {len(row) for row in rows}
        if len(rows) != len(texts) or len(widths) != 1 or widths == {0}:
            raise ModelFailed("The embeddings endpoint did not return one vector for each text.")
        (width,) = widths
        if width != (self._dimensions or width):
            raise ModelFailed(f"The embeddings endpoint returned {width} dimensions instead of {self._dimensions}.")
        self._dimensions = width
        return rows

    def _post(self, request: dict[str, object]) -> bytes:
        """Return the whole body of the answer, within the limits of time and size."""
        until = time.monotonic() + self._timeout_s
        parts = bytearray()
        with self._client.stream("POST", self._url, json=request) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                parts += part
                if time.monotonic() > until or len(parts) > self.MAX_ANSWER:
                    raise ModelFailed("The embeddings endpoint takes too long, or its answer is too large.")
        return bytes(parts)


class Onnx:
    """A sentence transformer in a directory: `model.onnx` and `tokenizer.json`, run by onnxruntime (extra `memwell[onnx]`).

    A text's vector is the mean (or the first) of the last layer, as the pooling configuration in the directory says."""

    BATCH = 32
    MAX_PIECES = 256
    with_light = True
    quick = 64
    quick_characters = 6000
    floor = 0.1
    ceiling = 0.8

    def __init__(self, folder: Path) -> None:
        model, tokenizer = folder / "model.onnx", folder / "tokenizer.json"
        for file in (model, tokenizer):
            if not file.is_file():
                raise ModelFailed(f"{file} is missing: the directory must hold model.onnx and tokenizer.json.")
        self._open(model, tokenizer)
        config = folder / "1_Pooling" / "config.json"
        self._first_piece = False
        if config.is_file():
            with suppress(ValueError, KeyError, TypeError):
                self._first_piece = bool(json.loads(config.read_text())["pooling_mode_cls_token"])
        digest = hashlib.blake2b(digest_size=12)  # the id depends on the contents of the files, not on their place
        for path in (model, tokenizer):
            with path.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        self.id = f"onnx:{digest.hexdigest()}{':first' if self._first_piece else ''}"
        self.dimensions = int(self.embed(["."]).shape[1])

    def _open(self, model: Path, tokenizer: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ModelFailed('onnxruntime is not installed: pip install "memwell[onnx]".') from None
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Neither package raises anything more specific than Exception.
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelFailed(f"{model} cannot be loaded: {error}.") from error
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
        except Exception as error:
            raise ModelFailed(f"{tokenizer} cannot be read: {error}.") from error
        self._tokenizer.enable_truncation(self.MAX_PIECES)
        self._tokenizer.enable_padding()
        self._inputs = [node.name for node in self._session.get_inputs()]

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        batches = [self._embed(texts[at : at + self.BATCH]) for at in range(0, len(texts), self.BATCH)]
        return np.concatenate(batches) if batches else np.zeros((0, self.dimensions), np.float32)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        try:
            encoded = self._tokenizer.encode_batch(list(texts))
        except Exception as error:
            raise ModelFailed(f"The model's tokenizer could not cut a text: {str(error)[:200]}.") from error
        if not encoded or not encoded[0].ids:
            return np.zeros((len(texts), self.dimensions), np.float32)
        ids = np.array([encoding.ids for encoding in encoded], np.int64)
        mask = np.array([encoding.attention_mask for encoding in encoded], np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            output = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        except Exception as error:
            raise ModelFailed(f"The model could not embed a text: {error}.") from error
        if output.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            total = np.maximum(weights.sum(axis=1), 1)
            output = output[:, 0] if self._first_piece else (output * weights).sum(axis=1) / total
        length = np.linalg.norm(output, axis=1, keepdims=True)
        unit: Vectors = (output / np.maximum(length, 1e-12)).astype(np.float32)
        return unit


class Fastembed:
    """A model of the package `fastembed`, which downloads it on first use."""

    quick = 64
    floor = 0.1
    ceiling = 0.8

    def __init__(self, name: str, load: Callable[[str], Any] | None = None) -> None:
        self.id = f"fastembed:{name}"
        if load is None:
            try:
                from fastembed import TextEmbedding
            except ImportError:
                raise ModelFailed("fastembed is not installed: pip install fastembed.") from None
            load = TextEmbedding
        try:
            self._model = load(name)
            self.dimensions = int(self.embed(["."]).shape[1])
        except ModelFailed:
            raise
        except Exception as error:  # the type depends on the model and on the network
            raise ModelFailed(f"fastembed cannot load {name}: {str(error)[:200]}.") from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        try:
            vectors = np.array(list(self._model.embed(list(texts))), np.float32)
        except Exception as error:  # see above
            raise ModelFailed(f"fastembed could not embed a text: {str(error)[:200]}.") from error
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return unit
