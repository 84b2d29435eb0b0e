"""From the setting `MEMWELL_EMBEDDER` to an embedder."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from ..config import Config
from ..errors import Invalid, MemwellError, ModelFailed
from .embedder import Embedder

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
        from .fastembed import Fastembed

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
