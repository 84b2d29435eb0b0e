"""Read the source of a document, which is YAML, JSON or an object within limits, and collect its problems.

A problem has a path and, in a text, a line and a column.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

from .. import typed
from ..banks.banks import CreateBank
from ..core.operation import reword_error
from ..errors import Invalid, TooLarge
from ..model.field_readers import read_fields
from ..text import yaml
from ..text.yaml import MOST, Limits, Path, Place, spell_path

MAX_PROBLEMS = 100
NO_MODEL = (
    "This workflow needs a language model, but the server has none. Set MEMWELL_LLM, for example to "
    "`openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL`; see the guide to language models."
)
KIND = "workflow"
"""The kind of stored documents that are workflows."""

MAX_SIZE = 1024 * 1024
MAX_DEPTH = 100
MAX_NAME = 255
MAX_BANKS = 200
MAX_PAUSE_S = 60.0
"""Longest pause before a retry that a model's server can ask for."""
_MAX_IN_MESSAGE = 20
_MAX_REASON = 500
_BITS_64 = range(-(2**63), 2**64)

Temperature = Annotated[float, Meta(ge=0, le=2)]
MaxTokens = Annotated[int, Meta(ge=1, le=200_000)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a document."""


class Retries(Strict, frozen=True, kw_only=True):
    """The number of attempts of a step, and the pauses between them (B3.21)."""

    enabled: bool = False
    max_attempts: Annotated[int, Meta(ge=1, le=6)] = 3
    backoff_ms: Annotated[int, Meta(ge=0, le=60_000)] = 25
    max_delay_ms: Annotated[int, Meta(ge=0, le=60_000)] = 10_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0
    multiplier: Annotated[float, Meta(ge=1, le=10)] = 1.0

    @property
    def attempts(self) -> int:
        return self.max_attempts if self.enabled else 1

    def pause_after(self, attempts: int, wanted_s: float = 0.0) -> float:
        """Return seconds: at least those that the server has asked for."""
        wait = min(self.backoff_ms * self.multiplier ** (attempts - 1), self.max_delay_ms) / 1000
        return max(wait * (1 + self.jitter * random.random()), wanted_s)  # noqa: S311 -- not used for security


class WantedModel(NamedTuple):
    """A model that a part of a document names; without names, the one of the server."""

    provider: str | None
    model_id: str | None
    at: Path


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

    def attempt(self, path: Path, work: Callable[[], object]) -> bool:
        """Do some work. If it fails, add its error as a problem and return False."""
        try:
            work()
        except Invalid as error:
            self.add(path, _to_reason(error.message))
            return False
        return True

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
        _refuse_size(place and Place(1, 1))
    return Source(value, body.decode(), place)


def _parse(text: str) -> tuple[Any, Place | None]:
    if len(text.encode(errors="replace")) > MAX_SIZE:
        _refuse_size(Place(1, 1))
    try:
        return yaml.read(text, "document", Limits(MAX_SIZE, MAX_DEPTH), yaml.core)
    except Invalid as error:
        problem = {name: error.details[name] for name in Problem._fields}
        raise type(error)(f"The workflow cannot be read: {error.message}", problems=[problem]) from None


def _refuse_size(place: Place | None) -> None:
    problems = Problems(place)
    problems.add((), "it is larger than 1 MiB.")
    problems.refuse(TooLarge)


def _check_parts(value: Any, problems: Problems) -> None:
    """Report the first part that cannot be stored as JSON and read back unchanged."""
    left = MOST

    def check(part: Any, path: Path) -> None:
        nonlocal left
        left -= 2 if path and isinstance(path[-1], str) else 1  # with its key
        problem = f"it has more than {MOST} parts." if left < 0 else _find_problem(part, len(path))
        if problem is None and isinstance(part, dict):
            problem = next(filter(None, map(_find_key_problem, part)), None)
        if problem is not None:
            problems.add(path, problem)
            return
        for name, one in _list_items(part):
            check(one, (*path, name))
            if problems.found:
                return

    check(value, ())


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


def list_texts(value: Any, path: Path = ()) -> Iterator[tuple[str, Path]]:
    """Return all texts in a part of a document."""
    if isinstance(value, str):
        yield value, path
    for name, one in _list_items(value):
        yield from list_texts(one, (*path, name))


def _list_items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


class DocumentReader:
    """Reader of the parts that all documents have: the name, the banks and the values of fields. It collects problems."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._add_problem, self._attempt = problems.add, problems.attempt

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
        for name, settings in (value or {}).items():
            path = ("memory_banks", name)
            if not isinstance(settings, dict | None):
                self._add_problem(path, "it must be a mapping with the settings of a bank.")
                continue
            found[name] = settings or {}
            self._check_value(name, list_fields(CreateBank)["name"].type, path)
            self._check_fields(found[name], CreateBank, path, omit="name")
        return found

    def _check_fields(
        self,
        given: Mapping[str, Any],
        kind: type[msgspec.Struct],
        path: Path,
        is_literal: Callable[[Any, Path], bool] = lambda value, path: True,
        omit: str = "",
    ) -> None:
        """Check each field by itself, so that every problem is reported. Values that are not literal are not checked."""
        fields = {name: one for name, one in list_fields(kind).items() if name != omit}
        self._check_unknown(given, fields, path)
        for name, one in fields.items():
            if name in given:
                if is_literal(given[name], (*path, name)):
                    self._check_field(given[name], kind, one, (*path, name))
            elif one.required:
                self._add_problem((*path, name), "it is missing.")

    def _check_field(self, value: Any, kind: type[msgspec.Struct], field: FieldInfo, path: Path) -> None:
        try:
            read = read_fields({field.name: value}, kind)[field.name]
        except Invalid as error:
            self._add_problem(path, error.message)
        else:
            self._check_value(read, field.type, path)

    def _check_value(self, value: Any, kind: Any, path: Path) -> None:
        try:
            typed.convert(value, kind)
        except msgspec.ValidationError as error:
            self._add_problem(path, _to_reason(f"{reword_error(kind, str(error))}."))

    def _add_unknown(self, path: Path, given: Any, noun: str, known: Collection[str]) -> None:
        problem = "it is missing." if given is None else f"there is no {noun} {str(given)[:50]!r}."
        self._add_problem(path, f"{problem} Known are {', '.join(known)}.")

    def _check_unknown(self, given: Mapping[str, Any], known: Collection[str], path: Path) -> None:
        for name in given:
            if name not in known and not self._problems.is_full:
                self._add_problem((*path, name), f"there is no such field. The fields are {', '.join(known)}.")


def _to_reason(message: str) -> str:
    return message[:1].lower() + message[1:]


@cache
def list_fields(kind: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(kind)}
