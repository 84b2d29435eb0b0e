"""YAML and JSON texts from outside, within limits: no aliases, no tags, no key twice, and every problem with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Invalid, TooLarge

if TYPE_CHECKING:
    import yaml

MAX_TEXT = 1024 * 1024
MAX_DEPTH = 60
MAX_NODES = 100_000


class Parsed(NamedTuple):
    """The value, and the line of every part of it, by its path."""

    value: Any
    lines: dict[str, int]


def read(text: str) -> Parsed:
    """What a text says. JSON is YAML, too."""
    import yaml  # here, since only documents need it

    if len(text.encode(errors="replace")) > MAX_TEXT:
        raise TooLarge("The document is larger than 1 MiB.")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise Invalid(f"The document is not YAML: {where}{error.problem or error.context}.") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise Invalid("The document is not YAML, or nested too deeply.") from None
    if node is None:
        raise Invalid("The document is empty.")
    reading = _Reading()
    return Parsed(reading.value(node, "", 0), reading.lines)


class _Reading:
    """A tree of nodes becoming a value."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self._seen: set[int] = set()
        import yaml

        self._yaml = yaml
        self._scalars = yaml.SafeLoader("")

    def value(self, node: yaml.Node, path: str, depth: int) -> Any:
        line = node.start_mark.line + 1
        self.lines[path] = line
        if id(node) in self._seen:
            raise Invalid(f"The document uses an alias in line {line}: write it out.")
        if depth > MAX_DEPTH or len(self._seen) >= MAX_NODES:
            raise Invalid(f"The document is too large or nested too deeply, in line {line}.")
        self._seen.add(id(node))
        match node:
            case self._yaml.MappingNode():
                return self._mapping(node, path, depth)
            case self._yaml.SequenceNode():
                return [self.value(one, f"{path}[{n}]", depth + 1) for n, one in enumerate(node.value)]
            case _:
                return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value if isinstance(key_node, self._yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise Invalid(f"A key in line {line} is not a text.")
            if key in found:
                raise Invalid(f"The key {key!r} in line {line} is there twice.")
            found[key] = self.value(value_node, f"{path}.{key}" if path else key, depth + 1)
        return found

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        """A text, a number, a truth or nothing. Times stay as they are written."""
        tag = node.tag.rpartition(":")[2]
        if tag in ("str", "timestamp"):
            return node.value
        if tag not in ("int", "float", "bool", "null"):
            raise Invalid(f"The tag {node.tag!r} in line {line} is not allowed here.")
        try:
            return self._scalars.construct_object(node)
        except (self._yaml.YAMLError, ValueError):
            raise Invalid(f"The value {node.value[:50]!r} in line {line} cannot be read.") from None
