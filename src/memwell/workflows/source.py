"""What is wrong with a document, each problem with where it stands: its path and, in a text, its line and column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from .. import typed
from ..banks.banks import CreateBank
from ..errors import Invalid, TooLarge
from ..text import yaml
from ..text.yaml import MOST, Limits, Path, Place, spelled

MOST_PROBLEMS = 100
_IN_A_SENTENCE = 20
_LONGEST = 500


class Problem(NamedTuple):
    """What is wrong, and where. A document that is no text has no lines."""

    path: str
    reason: str
    line: int | None = None
    column: int | None = None

    def told(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line, "column": self.column, "reason": self.reason}


class Problems:
    """The problems of one document. There is an end to them, so that none answers with more than it was given."""

    def __init__(self, place: Place | None = None) -> None:
        self.found: list[Problem] = []
        self._place = place

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST_PROBLEMS

    def add(self, path: Path, reason: str) -> None:
        if not self.full:
            line, column = (None, None) if self._place is None else self._place.of(path)[:2]
            reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
            self.found.append(Problem(spelled(path), reason, line, column))

    def told(self) -> list[dict[str, Any]]:
        return [one.told() for one in _in_order(self.found)]


def refuse(found: Sequence[Problem], kind: type[Invalid] = Invalid) -> None:
    """Raise an error that names every problem, if there are any."""
    if found:
        found = _in_order(found)
        shown = "; ".join(f"{one.path or 'the document'}: {one.reason}" for one in found[:_IN_A_SENTENCE])
        raise kind(f"The workflow has {_counted(len(found))}: {shown}", problems=[one.told() for one in found])


def _in_order(found: Sequence[Problem]) -> list[Problem]:
    """As they stand in the text; those of an object as they were found."""
    return sorted(found, key=lambda one: (one.line or 0, one.column or 0))


def _counted(number: int) -> str:
    many = f"{MOST_PROBLEMS} or more" if number >= MOST_PROBLEMS else f"{number}"
    return f"{many} problem{'' if number == 1 else 's'}"


# -- A document as it was given: a text in YAML or JSON, or an object, within the same limits of size, depth and parts.


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


# -- What reading every kind of document has in common: its name, its banks, and fields that there are not or that do not fit.


MAX_NAME = 255
MAX_BANKS = 200


class Reading:
    """A document being read, with what is wrong so far."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def _heading(self, value: dict[str, Any]) -> tuple[str, str | None]:
        """The name and the description; a name that cannot be is none."""
        name, description = value.get("name", "workflow"), value.get("description")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            self._wrong(("name",), f"it must be a text of 1 to {MAX_NAME} characters.")
            name = ""
        if not isinstance(description, str | None):
            self._wrong(("description",), "it must be a text.")
            description = None
        return name, description

    def _read_banks(self, value: Any) -> dict[str, dict[str, Any]]:
        """The banks that are made when they are first needed, by their names."""
        found: dict[str, dict[str, Any]] = {}
        if not isinstance(value, dict | None):
            self._wrong(("memory_banks",), "it must give settings by the names of banks.")
            return found
        if len(value or {}) > MAX_BANKS:
            self._wrong(("memory_banks",), f"there are more than {MAX_BANKS} banks.")
            return found
        for name, settings in (value or {}).items():
            path = ("memory_banks", name)
            if isinstance(settings, dict | None):
                found[name] = settings or {}
                self._bank(name, settings or {}, path)
            else:
                self._wrong(path, "it must be settings of a bank.")
        return found

    def _bank(self, name: str, settings: dict[str, Any], path: Path) -> None:
        """The settings are those of `banks.create`; the name is the one that they stand under."""
        known = {field: kind for field, kind in types(CreateBank).items() if field != "name"}
        self._unknown(settings, tuple(known), path)
        self._fits(name, types(CreateBank)["name"], path)
        for field, kind in known.items():
            if field in settings:
                self._fits(settings[field], kind, (*path, field))

    def _fits(self, value: Any, kind: Any, path: Path) -> bool:
        """Whether a value is what it must be; otherwise it is noted."""
        try:
            typed.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            self._wrong(path, f"{reason[:1].lower()}{reason[1:]}.")
            return False
        return True

    def _unknown(self, given: dict[str, Any], known: tuple[str, ...], path: Path) -> None:
        for name in given:
            if name not in known and not self._problems.full:
                self._wrong((*path, name), f"there is no such field. The fields are {', '.join(known)}.")

    def _wrong(self, path: Path, reason: str) -> None:
        self._problems.add(path, reason)


@cache
def types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@cache
def required(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)
