"""Finding the operation for a request. Segments are decoded one by one, so an id may hold a slash."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from ...operation import Operation


class Router:
    """A tree of path segments; None stands for any segment, the value of a field."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root: dict[str | None, object] = {}
        for operation in operations:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                name = None if segment.startswith("{") else segment
                node = node.setdefault(name, {})  # type: ignore[assignment]
            methods: dict[str, Operation] = node.setdefault("", {})  # type: ignore[assignment]
            methods[operation.method] = operation

    def find(self, raw_path: bytes) -> tuple[dict[str, Operation], list[str]] | None:
        """The operations at a path by method, and the values of its fields."""
        node = self._root
        values: list[str] = []
        path = raw_path.decode("ascii", "replace")
        encoded = "%" in path
        for raw in path.partition("?")[0].strip("/").split("/"):
            segment = unquote(raw, errors="strict") if encoded else raw
            following = node.get(segment) if raw else None
            if following is None:
                following = node.get(None) if raw else None
                values.append(segment)
            if following is None:
                return None
            node = following  # type: ignore[assignment]
        methods: dict[str, Operation] | None = node.get("")  # type: ignore[assignment]
        return None if methods is None else (methods, values)
