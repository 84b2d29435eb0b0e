"""Models of the `fastembed` package, where a user has it. It downloads a model when it is first named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ModelFailed

if TYPE_CHECKING:
    from .embedder import Vectors


class Fastembed:
    """One of fastembed's text models, by its name."""

    quick = 64
    floor = 0.1
    ceiling = 0.8

    def __init__(self, name: str, load: Callable[[str], Any] | None = None) -> None:
        self.id = f"fastembed:{name}"
        try:
            self._model = (load or _load)(name)
            self.dimensions = int(self.embed(["."]).shape[1])
        except ModelFailed:
            raise
        except Exception as error:  # what it raises depends on the model and on the network
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


def _load(name: str) -> Any:
    try:
        from fastembed import TextEmbedding
    except ImportError:
        raise ModelFailed("fastembed is not installed: pip install fastembed.") from None
    return TextEmbedding(name)
