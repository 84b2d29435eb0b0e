"""YAML from outside: objects, lists and texts, and nothing that could surprise.

Scalars stay as they are written, so `no` is not false and `007` is not seven; only what is empty, `~` or `null` is
nothing. Anchors, tags and keys that come twice are refused, and so is what is too long or too deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from ..errors import Invalid, TooLarge

_NOTHING = ("", "~", "null")


def parse(text: str, field: str, *, longest: int, deepest: int) -> Any:
    """What a text holds, or an error that says what to change, and where."""
    import yaml  # only who has YAML waits for it

    if len(text) > longest:
        raise TooLarge(f"`{field}` has at most {longest} characters: make it shorter.", field=field)
    try:
        return _Reader(field, deepest).document(yaml.parse(text, Loader=_loader(yaml)))
    except yaml.MarkedYAMLError as error:
        _refuse(field, error.problem_mark, error.problem or "it cannot be read")
    except (yaml.YAMLError, ValueError):
        raise Invalid(f"`{field}` holds a character that YAML does not allow.", field=field) from None


def _loader(yaml: Any) -> Any:
    """The fast one, where there is one."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reader:
    """Makes values of the events of a parser, one by one: what is too deep is refused before it is read."""

    def __init__(self, field: str, deepest: int) -> None:
        self._field = field
        self._deepest = deepest

    def document(self, events: Iterator[Any]) -> Any:
        value, documents = None, 0
        for event in events:
            if _kind(event) == "DocumentStart":
                documents += 1
            elif _kind(event) not in ("StreamStart", "StreamEnd", "DocumentEnd"):
                value = self._value(event, events, self._deepest)
            if documents > 1:
                self._refuse(event, "there are several documents: give one")
        return value

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Any:
        kind = _kind(event)
        if kind == "Alias" or event.anchor is not None:
            self._refuse(event, "anchors (`&`) and aliases (`*`) cannot be used here: write it out")
        if event.tag is not None:
            self._refuse(event, "tags (`!`) cannot be used here")
        if kind == "Scalar":
            return None if not event.style and event.value in _NOTHING else event.value
        if not depth:
            self._refuse(event, f"it is nested deeper than {self._deepest} levels")
        return (self._list if kind == "SequenceStart" else self._object)(events, depth - 1)

    def _list(self, events: Iterator[Any], depth: int) -> list[Any]:
        found = []
        while _kind(event := next(events)) != "SequenceEnd":
            found.append(self._value(event, events, depth))
        return found

    def _object(self, events: Iterator[Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while _kind(event := next(events)) != "MappingEnd":
            key = self._value(event, events, depth)
            if not isinstance(key, str):
                self._refuse(event, "a key must be text")
            if key in found:
                self._refuse(event, f"the key {key[:100]!r} comes twice")
            found[key] = self._value(next(events), events, depth)
        return found

    def _refuse(self, event: Any, what: str) -> NoReturn:
        _refuse(self._field, event.start_mark, what)


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _refuse(field: str, mark: Any, what: str) -> NoReturn:
    line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
    where = f"`{field}`, line {line}, column {column}"
    raise Invalid(f"{where}: {what}.", field=field, line=line, column=column) from None
