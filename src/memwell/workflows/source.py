"""The source of a document: YAML or JSON text, or an object, within limits; and its problems.

A problem has a path and, in a text, a line and a column.
"""

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
from ..text.yaml import MOST, Limits, Path, Place, spell_path

MAX_PROBLEMS = 100
_MAX_IN_MESSAGE = 20
_MAX_REASON = 500


class Problem(NamedTuple):
    path: str
    reason: str
    line: int | None = None
    column: int | None = None

    def to_details(self) -> dict[str, Any]:
        return {"path": self.path, "line": self.line, "column": self.column, "reason": self.reason}


class Problems:
    """The problems of one document, up to a limit."""

    def __init__(self, place: Place | None = None) -> None:
        self.found: list[Problem] = []
        self._place = place

    @property
    def is_full(self) -> bool:
        return len(self.found) >= MAX_PROBLEMS

    def add(self, path: Path, reason: str) -> None:
        if not self.is_full:
            line, column = (None, None) if self._place is None else self._place.of(path)[:2]
            reason = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
            self.found.append(Problem(spell_path(path), reason, line, column))

    def to_details(self) -> list[dict[str, Any]]:
        return [one.to_details() for one in _sort(self.found)]


def refuse(found: Sequence[Problem], kind: type[Invalid] = Invalid) -> None:
    """Raise an error with all problems, if there are any."""
    if found:
        found = _sort(found)
        reasons = "; ".join(f"{one.path or 'the document'}: {one.reason}" for one in found[:_MAX_IN_MESSAGE])
        raise kind(
            f"The workflow has {_count_words(len(found))}: {reasons}", problems=[one.to_details() for one in found]
        )


def _sort(found: Sequence[Problem]) -> list[Problem]:
    """By their position in the text; those of an object as they are."""
    return sorted(found, key=lambda one: (one.line or 0, one.column or 0))


def _count_words(number: int) -> str:
    many = f"{MAX_PROBLEMS} or more" if number >= MAX_PROBLEMS else f"{number}"
    return f"{many} problem{'' if number == 1 else 's'}"


MAX_SIZE = 1024 * 1024
MAX_DEPTH = 100
LIMITS = Limits(MAX_SIZE, MAX_DEPTH)
_BITS_64 = range(-(2**63), 2**64)
_TOO_LARGE = "it is larger than 1 MiB."

Trail: TypeAlias = tuple["Trail", str | int] | None
"""The position of a part, by the one above it: cheaper than a path while there is no problem."""


class Source(NamedTuple):
    """The value of a document, its JSON, and the positions of its parts if it is a text."""

    value: Any
    body: str
    place: Place | None


def read_source(given: str | dict[str, Any]) -> Source:
    value, place = _parse(given) if isinstance(given, str) else (given, None)
    problems = Problems(place)
    _Parts(problems).check(value, None, 0)
    refuse(problems.found)
    body = msgspec.json.encode(value)
    if len(body) > MAX_SIZE:
        refuse([Problem("", _TOO_LARGE, *((None, None) if place is None else (1, 1)))], TooLarge)
    return Source(value, body.decode(), place)


def _parse(text: str) -> tuple[Any, Place | None]:
    if len(text.encode(errors="replace")) > MAX_SIZE:
        refuse([Problem("", _TOO_LARGE, 1, 1)], TooLarge)
    try:
        return yaml.read(text, "document", LIMITS, yaml.core)
    except Invalid as error:
        details = error.details
        raise type(error)(
            f"The workflow cannot be read: {error.message}",
            problems=[Problem(details["path"], details["reason"], details["line"], details["column"]).to_details()],
        ) from None


class _Parts:
    """Checks the parts of a value up to the first problem."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._left = MOST

    def check(self, value: Any, trail: Trail, depth: int) -> None:
        self._left -= 2 if trail is not None and isinstance(trail[1], str) else 1  # with its key
        problem = f"it has more than {MOST} parts." if self._left < 0 else _find_problem(value, depth)
        if problem is not None:
            self._problems.add(_to_path(trail), problem)
        elif isinstance(value, dict):
            self._check_object(value, trail, depth)
        elif isinstance(value, list | tuple):
            for number, one in enumerate(value):
                self._check_inside(one, (trail, number), depth)

    def _check_object(self, value: dict[Any, Any], trail: Trail, depth: int) -> None:
        for name, one in value.items():
            problem = (
                _find_problem(name, depth) if isinstance(name, str) else f"a key must be text, not {str(name)[:50]!r}."
            )
            if problem is not None:
                self._problems.add(_to_path(trail), problem)
                return
            self._check_inside(one, (trail, name), depth)

    def _check_inside(self, value: Any, trail: Trail, depth: int) -> None:
        if not self._problems.found:
            self.check(value, trail, depth + 1)


def _find_problem(value: Any, depth: int) -> str | None:
    """The reason why a part cannot be stored as JSON and read back unchanged."""
    match value:
        case None | bool():
            return None
        case dict() | list() | tuple():
            return f"it is nested deeper than {MAX_DEPTH} levels." if depth >= MAX_DEPTH else None
        case str():
            return _find_text_problem(value)
        case int():
            return None if value in _BITS_64 else "it is an integer that is too large."
        case float():
            return None if math.isfinite(value) else f"{value} cannot be used here."
    return f"it is a {type(value).__name__}, which JSON cannot express."


def _find_text_problem(text: str) -> str | None:
    if "\x00" in text:
        return "it contains the NUL character, which cannot be stored: remove it."
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode: it contains half of a surrogate pair."
    return None


def _to_path(trail: Trail) -> Path:
    path: list[str | int] = []
    while trail is not None:
        trail, name = trail
        path.append(name)
    return tuple(reversed(path))


MAX_NAME = 255
MAX_BANKS = 200


class DocumentReader:
    """Reads the parts that all documents have: the name, the banks, and the values of fields. Collects problems."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def _read_heading(self, value: dict[str, Any]) -> tuple[str, str | None]:
        """The name and the description; empty if the name is invalid."""
        name, description = value.get("name", "workflow"), value.get("description")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            self._add_problem(("name",), f"it must be a text of 1 to {MAX_NAME} characters.")
            name = ""
        if not isinstance(description, str | None):
            self._add_problem(("description",), "it must be a text.")
            description = None
        return name, description

    def _read_banks(self, value: Any) -> dict[str, dict[str, Any]]:
        """The settings of banks that the first run creates, by their names."""
        found: dict[str, dict[str, Any]] = {}
        if not isinstance(value, dict | None):
            self._add_problem(("memory_banks",), "it must map names of banks to their settings.")
            return found
        if len(value or {}) > MAX_BANKS:
            self._add_problem(("memory_banks",), f"there are more than {MAX_BANKS} banks.")
            return found
        for name, settings in (value or {}).items():
            path = ("memory_banks", name)
            if isinstance(settings, dict | None):
                found[name] = settings or {}
                self._check_bank(name, settings or {}, path)
            else:
                self._add_problem(path, "it must be a mapping with the settings of a bank.")
        return found

    def _check_bank(self, name: str, settings: dict[str, Any], path: Path) -> None:
        """The settings are the fields of `banks.create` without the name."""
        known = {field: kind for field, kind in list_types(CreateBank).items() if field != "name"}
        self._check_unknown(settings, tuple(known), path)
        self._check_value(name, list_types(CreateBank)["name"], path)
        for field, kind in known.items():
            if field in settings:
                self._check_value(settings[field], kind, (*path, field))

    def _check_value(self, value: Any, kind: Any, path: Path) -> bool:
        try:
            typed.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            self._add_problem(path, f"{reason[:1].lower()}{reason[1:]}.")
            return False
        return True

    def _check_unknown(self, given: dict[str, Any], known: tuple[str, ...], path: Path) -> None:
        for name in given:
            if name not in known and not self._problems.is_full:
                self._add_problem((*path, name), f"there is no such field. The fields are {', '.join(known)}.")

    def _add_problem(self, path: Path, reason: str) -> None:
        self._problems.add(path, reason)


@cache
def list_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@cache
def list_required(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)
