"""A document as it was given: a text in YAML or JSON, or an object, within the same limits of size, depth and parts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..errors import Invalid, TooLarge
from ..model import yaml
from ..model.yaml import MOST, Limits, Path, Place
from .problems import Problem, Problems, refuse

MAX_SIZE = 1024 * 1024
MAX_DEPTH = 100
LIMITS = Limits(MAX_SIZE, MAX_DEPTH)
_BITS_64 = range(-(2**63), 2**64)
_TOO_LARGE = "it is larger than 1 MiB."

Trail: TypeAlias = tuple["Trail", str | int] | None
"""Where a part stands, by the one above it: cheaper than a path as long as nothing is wrong."""


class Source(NamedTuple):
    """What a document says, as it is stored, and where its parts stand if it is a text."""

    value: Any
    body: str
    place: Place | None


def read(given: str | dict[str, Any]) -> Source:
    """What was given, or an error with the problem that it cannot be read for."""
    value, place = _parsed(given) if isinstance(given, str) else (given, None)
    problems = Problems(place)
    _Parts(problems).check(value, None, 0)
    refuse(problems.found)
    body = msgspec.json.encode(value)
    if len(body) > MAX_SIZE:
        refuse([Problem("", _TOO_LARGE, *((None, None) if place is None else (1, 1)))], TooLarge)
    return Source(value, body.decode(), place)


def _parsed(text: str) -> tuple[Any, Place | None]:
    if len(text.encode(errors="replace")) > MAX_SIZE:
        refuse([Problem("", _TOO_LARGE, 1, 1)], TooLarge)
    try:
        return yaml.read(text, "document", LIMITS, yaml.core)
    except Invalid as error:
        told = error.details
        raise type(error)(
            f"The workflow cannot be read: {error.message}",
            problems=[Problem(told["path"], told["reason"], told["line"], told["column"]).told()],
        ) from None


class _Parts:
    """The parts of a value, one by one: the first that cannot be is a problem, and the last that is looked at."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._left = MOST

    def check(self, value: Any, trail: Trail, depth: int) -> None:
        self._left -= 2 if trail is not None and isinstance(trail[1], str) else 1  # with its key
        wrong = f"it has more than {MOST} parts." if self._left < 0 else _wrong(value, depth)
        if wrong is not None:
            self._problems.add(_path(trail), wrong)
        elif isinstance(value, dict):
            self._object(value, trail, depth)
        elif isinstance(value, list | tuple):
            for number, one in enumerate(value):
                self._inside(one, (trail, number), depth)

    def _object(self, value: dict[Any, Any], trail: Trail, depth: int) -> None:
        for name, one in value.items():
            wrong = _wrong(name, depth) if isinstance(name, str) else f"a key must be text, not {str(name)[:50]!r}."
            if wrong is not None:
                self._problems.add(_path(trail), wrong)
                return
            self._inside(one, (trail, name), depth)

    def _inside(self, value: Any, trail: Trail, depth: int) -> None:
        if not self._problems.found:
            self.check(value, trail, depth + 1)


def _wrong(value: Any, depth: int) -> str | None:
    """What keeps a part from being stored as JSON, and from being what it was when it is read again."""
    match value:
        case None | bool():
            return None
        case dict() | list() | tuple():
            return f"it is nested deeper than {MAX_DEPTH} levels." if depth >= MAX_DEPTH else None
        case str():
            return _wrong_text(value)
        case int():
            return None if value in _BITS_64 else "it is a whole number that is too large."
        case float():
            return None if math.isfinite(value) else f"{value} cannot be used here."
    return f"it is a {type(value).__name__}, which JSON cannot express."


def _wrong_text(text: str) -> str | None:
    if "\x00" in text:
        return "it holds the NUL character, which cannot be stored: remove it."
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode: it holds half of a surrogate pair."
    return None


def _path(trail: Trail) -> Path:
    path: list[str | int] = []
    while trail is not None:
        trail, name = trail
        path.append(name)
    return tuple(reversed(path))
