"""Addresses of model servers: checked before anything is sent there, shown without secrets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from .. import typed
from ..errors import Invalid, ModelFailed

if TYPE_CHECKING:
    from .embedder import Vectors

ANTHROPIC = "https://api.anthropic.com"
HOW = "The model's address is not one such as http://127.0.0.1:11434/v1."


def checked_url(url: str) -> str:
    """The address without a slash at its end. One that holds a password is refused: logs of HTTP clients name addresses."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid(HOW) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise Invalid(HOW)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid("The model's address may hold no user, password, `?` or `#`: its key is a setting of its own.")
    return url.rstrip("/")


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


# -- An OpenAI-compatible embeddings endpoint: `POST <url>/embeddings`.


BATCH = 128
TIMEOUT_S = 10.0
MAX_ANSWER = 64 * 1024 * 1024
MAX_CHARACTERS = 20_000


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


class Endpoint:
    """A model behind HTTP. Its width is what its first answer has; an answer of another width is refused."""

    quick = 256
    floor = 0.15
    ceiling = 0.75

    def __init__(self, model: str, url: str, key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        import httpx

        if not key.isascii() or not (key.isprintable() or not key):
            raise Invalid("The key for the embeddings endpoint holds a character that cannot be sent: check it.")
        self._model = model
        self._url = url.rstrip("/") + "/embeddings"
        self._timeout_s = timeout_s
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers)
        self._dimensions: int | None = None
        self.id = f"openai:{model}@{_host(url)}"

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
        rows = [row for at in range(0, len(texts), BATCH) for row in self._ask(texts[at : at + BATCH])]
        vectors = np.array(rows, np.float64)
        with np.errstate(over="ignore"):
            length = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(length).all():
            raise ModelFailed("The embeddings endpoint gave numbers that are none.")
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0).astype(np.float32)
        return unit

    def close(self) -> None:
        self._client.close()

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        import httpx

        given = [text[:MAX_CHARACTERS] or " " for text in texts]
        try:
            body = self._post({"model": self._model, "input": given, "encoding_format": "float"})
            data = typed.decode(body, _Answer).data
        except httpx.HTTPStatusError as error:
            raise ModelFailed(f"The embeddings endpoint answered with {error.response.status_code}.") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise ModelFailed(f"The embeddings endpoint cannot be reached ({type(error).__name__}).") from None
        except (msgspec.MsgspecError, RecursionError):
            raise ModelFailed("The embeddings endpoint gave something that is not one vector for each text.") from None
        return self._checked(data, len(texts))

    def _post(self, request: dict[str, object]) -> bytes:
        """The whole answer, within the time and the size that it may have."""
        until = time.monotonic() + self._timeout_s
        parts = bytearray()
        with self._client.stream("POST", self._url, json=request) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                parts += part
                if time.monotonic() > until or len(parts) > MAX_ANSWER:
                    raise ModelFailed("The embeddings endpoint takes too long, or gives too much.")
        return bytes(parts)

    def _checked(self, data: list[_Item], count: int) -> list[list[float]]:
        rows = [item.embedding for item in sorted(data, key=lambda item: item.index)]
        widths = {len(row) for row in rows}
        if len(rows) != count or len(widths) != 1 or widths == {0}:
            raise ModelFailed("The embeddings endpoint gave something that is not one vector for each text.")
        (width,) = widths
        if width != (self._dimensions or width):
            raise ModelFailed(
                f"The embeddings endpoint gave {width} dimensions where it gave {self._dimensions} before."
            )
        self._dimensions = width
        return rows


def _host(url: str) -> str:
    """Where it is, without whatever secret stands before the host."""
    try:
        host = urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    if not host:
        raise Invalid("MEMWELL_EMBEDDER_URL is not an address such as http://127.0.0.1:8080/v1.")
    return host
