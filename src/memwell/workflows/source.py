"""Read the source of a document, which is YAML, JSON or an object within limits, and collect its problems.

A problem has a path and, in a text, a line and a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, NoReturn, TypeAlias

import msgspec

from .. import typed
from ..banks.banks import CreateBank
from ..errors import Invalid, TooLarge
from ..text import yaml
from ..text.yaml import MOST, Limits, Path, Place, spell_path

MAX_PROBLEMS = 100
MAX_SIZE = 1024 * 1024
MAX_DEPTH = 100
MAX_NAME = 255
MAX_BANKS = 200
_MAX_IN_MESSAGE = 20
_MAX_REASON = 500
_BITS_64 = range(-(2**63), 2**64)

Trail: TypeAlias = tuple["Trail", str | int] | None
"""The position of a part as a linked list. Only a problem needs the path, which costs more."""


class Problem(NamedTuple):
    path: str
    line: int | None
    column: int | None
    reason: str


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
            self.found.append(Problem(spell_path(path), line, column, reason))

    def extend(self, problems: Iterable[tuple[Path, str]]) -> None:
        for path, reason in problems:
            self.add(path, reason)

    def to_details(self) -> list[dict[str, Any]]:
        """Return all problems by their position in the text; those of an object in the order of the checks."""
        return [one._asdict() for one in sorted(self.found, key=lambda one: (one.line or 0, one.column or 0))]

    def refuse(self, kind: type[Invalid] = Invalid) -> None:
        """Raise an error with all problems if there are any."""
        if self.found:
            found, count = self.to_details(), len(self.found)
            many = f"{count}{' or more' if self.is_full else ''} problem{'' if count == 1 else 's'}"
            reasons = [f"{one['path'] or 'the document'}: {one['reason']}" for one in found[:_MAX_IN_MESSAGE]]
            raise kind(f"The workflow has {many}: {'; '.join(reasons)}", problems=found)


class Source(NamedTuple):
    """The value of a document, its JSON, and the positions of its parts if it is a text."""

    value: Any
    body: str
    place: Place | None


def read_source(given: str | dict[str, Any]) -> Source:
    value, place = _parse(given) if isinstance(given, str) else (given, None)
    problems = Problems(place)
    _check_parts(value, problems)
    problems.refuse()
    body = msgspec.json.encode(value)
    if len(body) > MAX_SIZE:
        _refuse_size(None if place is None else 1)
    return Source(value, body.decode(), place)


def _parse(text: str) -> tuple[Any, Place | None]:
    if len(text.encode(errors="replace")) > MAX_SIZE:
        _refuse_size(1)
    try:
        return yaml.read(text, "document", Limits(MAX_SIZE, MAX_DEPTH), yaml.core)
    except Invalid as error:
        problem = {name: error.details[name] for name in Problem._fields}
        raise type(error)(f"The workflow cannot be read: {error.message}", problems=[problem]) from None


def _refuse_size(position: int | None) -> NoReturn:
    problems = Problems(None if position is None else Place(position, position))
    problems.add((), "it is larger than 1 MiB.")
    problems.refuse(TooLarge)
    raise AssertionError("unreachable")


def _check_parts(value: Any, problems: Problems) -> None:
    """Report the first part that cannot be stored as JSON and read back unchanged."""
    left = MOST
    waiting: list[tuple[Any, Trail, int]] = [(value, None, 0)]
    while waiting:
        part, trail, depth = waiting.pop()
        left -= 2 if trail is not None and isinstance(trail[1], str) else 1  # with its key
        problem = f"it has more than {MOST} parts." if left < 0 else _find_problem(part, depth)
        inside: list[tuple[Any, Trail, int]] = []
        if problem is None and isinstance(part, dict):
            problem = next(filter(None, map(_find_key_problem, part)), None)
            inside = [(one, (trail, name), depth + 1) for name, one in islice(part.items(), left + 1)]
        elif problem is None and isinstance(part, list | tuple):
            inside = [(one, (trail, number), depth + 1) for number, one in islice(enumerate(part), left + 1)]
        if problem is not None:
            problems.add(_to_path(trail), problem)
            return
        waiting += reversed(inside)


def _find_key_problem(name: Any) -> str | None:
    return _find_problem(name, 0) if isinstance(name, str) else f"a key must be text, not {str(name)[:50]!r}."


def _find_problem(value: Any, depth: int) -> str | None:
    match value:
        case None | bool():
            return None
        case dict() | list() | tuple():
            return f"it is nested deeper than {MAX_DEPTH} levels." if depth >= MAX_DEPTH else None
        case str():
            if "\x00" in value:
                return "it contains the NUL character, which cannot be stored: remove it."
            try:
                value.encode()
            except UnicodeEncodeError:
                return "it is not valid Unicode: it contains half of a surrogate pair."
            return None
        case int():
            return None if value in _BITS_64 else "it is an integer that is too large."
        case float():
            return None if math.isfinite(value) else f"JSON cannot express {value}."
    return f"it is a {type(value).__name__}, which JSON cannot express."


def _to_path(trail: Trail) -> Path:
    path: list[str | int] = []
    while trail is not None:
        trail, name = trail
        path.append(name)
    return tuple(reversed(path))


class DocumentReader:
    """Reader of the parts that all documents have: the name, the banks and the values of fields. It collects problems."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._add_problem = problems.add

    def _read_heading(self, value: dict[str, Any]) -> tuple[str, str | None]:
        """Return the name and the description. An invalid name becomes empty, an invalid description None."""
        name, description = value.get("name", "workflow"), value.get("description")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            self._add_problem(("name",), f"it must be a text of 1 to {MAX_NAME} characters.")
            name = ""
        if not isinstance(description, str | None):
            self._add_problem(("description",), "it must be a text.")
            description = None
        return name, description

    def _read_banks(self, value: Any) -> dict[str, dict[str, Any]]:
        """Return the settings of the banks that the first run creates, by name. They are the fields of `banks.create`."""
        if not isinstance(value, dict | None):
            self._add_problem(("memory_banks",), "it must map names of banks to their settings.")
            return {}
        if len(value or {}) > MAX_BANKS:
            self._add_problem(("memory_banks",), f"there are more than {MAX_BANKS} banks.")
            return {}
        found: dict[str, dict[str, Any]] = {}
        types = list_types(CreateBank)
        known = {field: kind for field, kind in types.items() if field != "name"}
        for name, settings in (value or {}).items():
            path = ("memory_banks", name)
            if not isinstance(settings, dict | None):
                self._add_problem(path, "it must be a mapping with the settings of a bank.")
                continue
            found[name] = settings or {}
            self._check_unknown(found[name], known, path)
            self._check_value(name, types["name"], path)
            for field in [field for field in known if field in found[name]]:
                self._check_value(found[name][field], known[field], (*path, field))
        return found

    def _check_fields(
        self,
        given: Mapping[str, Any],
        kind: type[msgspec.Struct],
        path: Path,
        is_literal: Callable[[Any, Path], bool] = lambda value, path: True,
    ) -> bool:
        """Check each field by itself, so that every problem is reported. Values that are not literal are not checked."""
        types = list_types(kind)
        self._check_unknown(given, types, path)
        fits = given.keys() <= types.keys()
        for name, one in types.items():
            if name in given:
                if is_literal(given[name], (*path, name)):
                    fits &= self._check_value(given[name], one, (*path, name))
            elif name in list_required(kind):
                self._add_problem((*path, name), "it is missing.")
                fits = False
        return fits

    def _check_value(self, value: Any, kind: Any, path: Path) -> bool:
        try:
            typed.convert(value, kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            self._add_problem(path, f"{reason[:1].lower()}{reason[1:]}.")
            return False
        return True

    def _check_unknown(self, given: Mapping[str, Any], known: Collection[str], path: Path) -> None:
        for name in given:
            if name not in known and not self._problems.is_full:
                self._add_problem((*path, name), f"there is no such field. The fields are {', '.join(known)}.")


@cache
def list_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@cache
def list_required(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)
