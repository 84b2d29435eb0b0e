"""YAML from untrusted sources: objects, lists and scalars with their places, and no other features.

Anchors, aliases, tags and repeated keys are refused, and so are texts that are too long, too deep or have too many parts. They
are refused while they are read, before they can use much memory. Keys are texts. The caller chooses how plain scalars are read:

- `as_written`: as texts, so `no` is not false and `007` is not seven; only an empty scalar, `~` and `null` are None;
- `core`: as in YAML 1.2, so `true`, `12` and `1.5` are a boolean and numbers, while `yes`, `1:30` and dates are texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias

from ..errors import Invalid, TooLarge

Path: TypeAlias = tuple[str | int, ...]
"""The names and numbers that lead to a part of a value."""
Scalar: TypeAlias = Callable[[str], Any]
"""Reads a scalar without quotes, or raises a ValueError with the reason."""

MOST = 50_000
"""Parts that a text may have, keys included."""
_LONGEST_NUMBER = 400
_NAMED = 100
"""Characters of a name that an error message quotes."""
_NOTHING = ("", "~", "null")
_WORDS = dict.fromkeys((*_NOTHING, "Null", "NULL")) | {
    spelled: word == "true" for word in ("true", "false") for spelled in (word, word.title(), word.upper())
}
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LINE_END = re.compile(r"\r\n|\r|\n")
_BASES = {"0o": 8, "0x": 16}
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class Limits(NamedTuple):
    """The largest number of characters, levels and parts."""

    longest: int
    deepest: int
    most: int = MOST


class Place(NamedTuple):
    """The line and column of a part, from 1 on, and the places of the parts inside. A field stands where its name does."""

    line: int
    column: int
    inside: Mapping[str | int, Place] = {}

    def of(self, path: Path) -> Place:
        """The place of a part, or of the innermost parent that exists."""
        place = self
        for name in path:
            if name not in place.inside:
                break
            place = place.inside[name]
        return place


class Read(NamedTuple):
    """A value, and the places of its parts."""

    value: Any
    place: Place


def parse(text: str, field: str, *, longest: int, deepest: int) -> Any:
    """Read a text with its scalars as they are written, or raise an error that says what to change, and where."""
    return read(text, field, Limits(longest, deepest), as_written).value


def read(text: str, field: str, limits: Limits, scalar: Scalar) -> Read:
    """Read a text, or raise an error with `path`, `line`, `column` and `reason`. JSON is YAML, too."""
    import yaml  # a slow import

    if len(text) > limits.longest:
        raise TooLarge(f"`{field}` has at most {limits.longest} characters: make it shorter.", field=field)
    if found := _FORBIDDEN.search(text):
        lines = _LINE_END.split(text[: found.start()])
        _refuse(field, Place(len(lines), len(lines[-1]) + 1), "it holds a character that YAML does not allow")
    # In JSON, `\ud83d\ude00` is one character; YAML does not support that.
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        text = _PAIR.sub(lambda pair: pair[1] + bytes.fromhex(pair[2] + pair[3]).decode("utf-16-be"), text)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the fast one, if it is installed
    try:
        return _Reader(field, limits, scalar).document(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        _refuse(field, _mark(error.problem_mark or error.context_mark), error.problem or "it cannot be read")
    except (yaml.YAMLError, ValueError):
        _refuse(field, Place(1, 1), "it holds a character that YAML does not allow")


def as_written(text: str) -> str | None:
    return None if text in _NOTHING else text


def core(text: str) -> Any:
    """Read a scalar as in YAML 1.2: null, a boolean, a number or a text."""
    if text in _WORDS:
        return _WORDS[text]
    whole, decimal = _WHOLE.fullmatch(text), _DECIMAL.fullmatch(text)
    if _NO_NUMBER.fullmatch(text) or ((whole or decimal) and len(text) > _LONGEST_NUMBER):
        raise ValueError(f"{text[:_NAMED]!r} is not a number that can be used here")
    if whole:
        base = _BASES.get(text[:2], 10)
        return int(text if base == 10 else text[2:], base)
    return float(text) if decimal else text


def spell_path(path: Path) -> str:
    """A path as people read it, such as `steps[0].key`."""
    parts = (f"[{name}]" if isinstance(name, int) else f".{name[:_NAMED]}" for name in path)
    return "".join(parts).removeprefix(".")


class _Reader:
    """Builds values from the events of a parser, one by one, so that a text that is too large is refused early."""

    def __init__(self, field: str, limits: Limits, scalar: Scalar) -> None:
        self._field, self._limits, self._scalar = field, limits, scalar
        self._parts = 0
        self._path: list[str | int] = []

    def document(self, events: Iterator[Any]) -> Read:
        found, documents = Read(None, Place(1, 1)), 0
        for event in events:
            if _kind(event) == "DocumentStartEvent":
                documents += 1
            elif _kind(event) not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                found = self._value(event, events, self._limits.deepest)
            if documents > 1:
                self._refuse(event, "there are several documents: give one")
        return found

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Read:
        self._check(event)
        place = _mark(event.start_mark)
        if _kind(event) == "ScalarEvent":
            try:
                return Read(event.value if event.style else self._scalar(event.value), place)
            except ValueError as error:
                self._refuse(event, str(error))
        if not depth:
            self._refuse(event, f"it is nested deeper than {self._limits.deepest} levels")
        value, inside = (self._list if _kind(event) == "SequenceStartEvent" else self._object)(events, depth - 1)
        return Read(value, place._replace(inside=inside))

    def _check(self, event: Any) -> None:
        self._parts += 1
        if self._parts > self._limits.most:
            self._refuse(event, f"it has more than {self._limits.most} parts")
        if event.anchor is not None:  # an alias has the anchor that it refers to
            self._refuse(event, "anchors (`&`) and aliases (`*`) cannot be used here: write it out")
        if event.tag is not None:
            self._refuse(event, "tags (`!`) cannot be used here")

    def _list(self, events: Iterator[Any], depth: int) -> tuple[list[Any], dict[str | int, Place]]:
        found: list[Any] = []
        inside: dict[str | int, Place] = {}
        while _kind(event := next(events)) != "SequenceEndEvent":
            self._path.append(len(found))
            value, inside[len(found)] = self._value(event, events, depth)
            found.append(value)
            self._path.pop()
        return found, inside

    def _object(self, events: Iterator[Any], depth: int) -> tuple[dict[str, Any], dict[str | int, Place]]:
        found: dict[str, Any] = {}
        inside: dict[str | int, Place] = {}
        while _kind(event := next(events)) != "MappingEndEvent":
            name = self._name(event)
            self._path.append(name)
            if name in found:
                self._refuse(event, f"the key {name[:_NAMED]!r} comes twice")
            found[name], place = self._value(next(events), events, depth)
            inside[name] = _mark(event.start_mark)._replace(inside=place.inside)
            self._path.pop()
        return found, inside

    def _name(self, event: Any) -> str:
        self._check(event)
        if _kind(event) == "MappingStartEvent":
            self._refuse(event, 'a key must be text: a template that begins a value is put in quotes, `"{{input}}"`')
        if _kind(event) != "ScalarEvent" or (not event.style and event.value in _NOTHING):
            self._refuse(event, "a key must be text")
        name: str = event.value
        return name

    def _refuse(self, event: Any, what: str) -> NoReturn:
        _refuse(self._field, _mark(event.start_mark), what, tuple(self._path))


def _kind(event: Any) -> str:
    return type(event).__name__


def _mark(mark: Any) -> Place:
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)


def _refuse(field: str, place: Place, what: str, path: Path = ()) -> NoReturn:
    line, column, _ = place
    details = {"line": line, "column": column, "path": spell_path(path), "reason": f"{what}."}
    raise Invalid(f"`{field}`, line {line}, column {column}: {what}.", field=field, **details) from None
