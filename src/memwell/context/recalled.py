"""What templates name under `memory`: fetched when it is first asked for, and the same throughout one rendering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

NAMESPACE = "memory"


class Recalled(Mapping[str, Any]):
    """Stores and definitions by name. One without a record is nothing, and what is inside of nothing is missing. `warnings`: what
    is there and is not shown."""

    def __init__(self, fetch: Callable[[str], tuple[Any, str | None]]) -> None:
        self._fetch = fetch
        self.warnings: list[str] = []
        self._known: dict[str, Any] = {}
        self._closed = False

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            if self._closed:
                raise KeyError(name)
            self._known[name], warning = self._fetch(name)
            self.warnings += [] if warning is None else [warning]
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """From now on nothing is fetched any more."""
        self._closed = True
