"""An OpenAI-compatible embeddings endpoint: `POST <url>/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import ModelFailed

if TYPE_CHECKING:
    from .embedder import Vectors

BATCH = 128
TIMEOUT_S = 10.0
MAX_ANSWER = 64 * 1024 * 1024
MAX_CHARACTERS = 20_000


class Endpoint:
    """A model behind HTTP. Its width is what its first answer has; an answer of another width is refused."""

    quick = 256
    floor = 0.15
    ceiling = 0.75

    def __init__(self, model: str, url: str, key: str, *, timeout_s: float = TIMEOUT_S) -> None:
        import httpx

        self._model = model
        self._url = url.rstrip("/") + "/embeddings"
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout_s, headers=headers)
        self._dimensions: int | None = None
        self.id = f"openai:{model}@{urlsplit(url).netloc}"

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
        vectors = np.array(rows, np.float32)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
        return unit

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        import httpx

        given = [text[:MAX_CHARACTERS] or " " for text in texts]
        try:
            answer = self._client.post(
                self._url, json={"model": self._model, "input": given, "encoding_format": "float"}
            )
            answer.raise_for_status()
            data = answer.json()["data"] if len(answer.content) <= MAX_ANSWER else None
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise ModelFailed(f"The embeddings endpoint did not answer as it should: {_reason(error)}.") from error
        return self._checked(data, len(texts))

    def _checked(self, data: Any, count: int) -> list[list[float]]:
        try:
            rows = [item["embedding"] for item in sorted(data, key=lambda item: item["index"])]
            widths = {len(row) for row in rows}
            numbers = all(isinstance(number, float | int) for row in rows for number in row)
        except (KeyError, TypeError):
            rows, widths, numbers = [], set(), False
        if len(rows) != count or len(widths) != 1 or not numbers:
            raise ModelFailed("The embeddings endpoint gave something that is not one vector for each text.")
        (width,) = widths
        if width != (self._dimensions or width):
            raise ModelFailed(
                f"The embeddings endpoint gave {width} dimensions where it gave {self._dimensions} before."
            )
        self._dimensions = width
        return rows


def _reason(error: Exception) -> str:
    """What went wrong, without what was sent."""
    return str(error).split("\n")[0][:200] or type(error).__name__
