"""What templates name under `memory`: fetched when it is first asked for, and the same throughout one rendering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NAMESPACE = "memory"


class Recalled(dict[str, Any]):
    """Stores and definitions by name, those that were asked for. One without a record is nothing, and what is inside of nothing
    is missing. `warnings`: what is there and is not shown."""

    def __init__(self, fetch: Callable[[str], tuple[Any, str | None]]) -> None:
        super().__init__()
        self._fetch = fetch
        self.warnings: list[str] = []
        self._closed = False

    def __missing__(self, name: str) -> Any:
        if self._closed:
            raise KeyError(name)
        self[name], warning = self._fetch(name)
        self.warnings += [] if warning is None else [warning]
        return self[name]

    def close(self) -> None:
        """From now on nothing is fetched any more."""
        self._closed = True
