"""The Python API. `_async.py` is written by hand; `_sync.py` is generated from it (`make format`) and checked."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .responses import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Import the types of signatures at their first use: their modules take most of the time of `import memwell`."""
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(".responses", __name__), name)
