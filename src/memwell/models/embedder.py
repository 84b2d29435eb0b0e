"""What an embedder is: a name, a width, and a way from texts to vectors.

Vectors are stored under the embedder's name, so those of two models never meet. `quick` is how many texts it can embed
while somebody waits for a search; the rest is left to a background job. One that is `instant` takes microseconds, like a
look into a table, and may be asked while a transaction is open. `floor` and `ceiling` say what its similarities
mean: at the floor two texts have nothing to do with each other, at the ceiling they say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

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
