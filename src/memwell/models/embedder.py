"""What an embedder is: a name, a width, and a way from texts to vectors.

Vectors are stored under the embedder's name, so those of two models never meet. `quick` is how many texts it can embed
while somebody waits for a search; the rest is left to a background job. One that is `instant` takes microseconds, like a
look into a table, and may be asked while a transaction is open. `floor` and `ceiling` say what its similarities
mean: at the floor two texts have nothing to do with each other, at the ceiling they say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..config import Config
from ..errors import Invalid, MemwellError, ModelFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors; a text that it knows nothing of becomes zeros."""

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


# -- From the setting `MEMWELL_EMBEDDER` to an embedder.


GROUP = "memwell.embedders"
HOW = (
    "MEMWELL_EMBEDDER is `wordllama`, `none`, `onnx:DIRECTORY`, `openai:MODEL`, `fastembed:MODEL`, "
    "or the name of an installed plugin."
)


def open_embedder(config: Config) -> Embedder | None:
    """The embedder that is configured; None if meaning is switched off. Loading may take a moment, or fail."""
    kind, _, name = config.embedder.partition(":")
    if kind in ("", "wordllama"):
        from .wordllama import WordLlama

        return WordLlama()
    if kind == "none":
        return None
    if kind == "onnx" and name:
        from .onnx import Onnx

        return Onnx(Path(name).expanduser())
    if kind == "openai" and name:
        from .endpoint import Endpoint

        return Endpoint(name, config.embedder_url, config.openai_api_key)
    if kind == "fastembed" and name:
        # dropped import

        return Fastembed(name)
    return _plugin(kind, name)


def _plugin(kind: str, name: str) -> Embedder:
    """A factory that another package has registered; it is given what stands behind the colon."""
    for found in entry_points(group=GROUP, name=kind):
        try:
            embedder: Embedder = found.load()(name)
        except MemwellError:
            raise
        except Exception as error:  # somebody else's code
            raise ModelFailed(f"The plugin {kind!r} cannot be loaded: {str(error)[:200]}.") from error
        return embedder
    raise Invalid(HOW)


# -- Models of the `fastembed` package, where a user has it. It downloads a model when it is first named.


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
