"""Finding the operation for a request. Segments are decoded one by one, so an id may hold a slash."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from ...operation import Operation


class Router:
    """A tree of path segments; `{field}` stands for any segment."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._root: dict[str, object] = {}
        for operation in operations:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                name = "{}" if segment.startswith("{") else segment
                node = node.setdefault(name, {})  # type: ignore[assignment]
            methods: dict[str, Operation] = node.setdefault("", {})  # type: ignore[assignment]
            methods[operation.method] = operation

    def find(self, raw_path: bytes) -> tuple[dict[str, Operation], list[str]] | None:
        """The operations at a path by method, and the values of its fields."""
        node = self._root
        values: list[str] = []
        for raw in raw_path.split(b"?", 1)[0].decode("ascii", "replace").strip("/").split("/"):
            segment = unquote(raw)
            if raw and segment in node:
                node = node[segment]  # type: ignore[assignment]
            elif raw and "{}" in node:
                node = node["{}"]  # type: ignore[assignment]
                values.append(segment)
            else:
                return None
        methods: dict[str, Operation] | None = node.get("")  # type: ignore[assignment]
        return None if methods is None else (methods, values)
