"""Templates: text with `{{…}}` in it, for workflow steps, prompt hooks and prompts.

    {{input}}, {{ user_id }}                       a bare name
    {{metadata.user.id}}, {{metadata.tags[0]}}     a path inside a namespace
    {{attachments[0].name}}                        a path inside a bare name
    {{1 week ago}}, {{2026-04-19T10:00:00Z}}       a time, where a surface allows times

What it means (C18, B4.7):

- Rendering is one pass. What is inserted is data: a value that holds `{{x}}` stays as it is.
- Text is inserted as it is, everything else as compact JSON. Null is the same as missing.
- A surface says which namespaces there are; another one is always an error. What is missing inside a known one is an
  error or empty, as the surface says.
- Names go into objects, indexes into arrays. There are no patterns such as `a[*]`.
- A single `{`, and a `}}` that closes nothing, are plain text.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from ..errors import Invalid, TooLarge
from ..text.fence import compact, is_loud, quoted, seen, untagged, visible

MAX_TEMPLATE = 1024 * 1024
MAX_EXPRESSIONS = 10_000
MAX_EXPRESSION = 500
MAX_REMEMBERED = 16 * 1024
"""Characters of a template that is kept in memory once it was read."""
MAX_RESULT = 4 * 1024 * 1024
"""A template and a result are measured in bytes of UTF-8, an expression in characters."""

MAX_BEGINNING = 200
"""How many characters at the beginning of a line may still become a heading or a role."""

MAX_TAG = 40
"""How many characters at the end of a value may be a part of a tag."""

BARE = ""
"""The namespace of bare names."""

Path: TypeAlias = tuple[str | int, ...]
Missing: TypeAlias = Literal["error", "empty"]
Lookup: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a surface offers: what is inside each namespace, as JSON decodes it. A mapping may fetch what it is asked for."""
Times: TypeAlias = Callable[[str], str | None]
"""What a time expression stands for; None if it is none."""

_NAME = re.compile(r"[\w-]+")
_STEP = re.compile(r"([\w-]+)|\[([0-9]+)\]")
_PATH = re.compile(r"[\w-]+(?:\[[0-9]+\])*(?:\.[\w-]+(?:\[[0-9]+\])*)*")
_WORDS = re.compile(r"\w+(?:\s+\w+)+")
_WRITTEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt\s][0-9:.,Zz+-]+")
"""The shape of a time in ISO 8601. A date alone has that of a name."""


@dataclass(frozen=True, slots=True)
class Expression:
    """What stands between `{{` and `}}`, and where."""

    source: str
    line: int
    column: int
    namespace: str
    path: Path
    """Empty if the source is several words or a written time, which no name can be."""


class Words(NamedTuple):
    """Plain text of a template: what the author wrote."""

    text: str
    size: int
    breaks: bool
    """Whether a line ends in it."""
    speaks: bool
    """Whether there are words on the line that it leaves."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been read: plain text and expressions, in order."""

    pieces: tuple[Words | Expression, ...]


class Rendered(NamedTuple):
    """What a template became."""

    text: str
    missing: tuple[Expression, ...]
    """The expressions that had no value and were left empty."""


def parse(text: str) -> Template:
    """A template from outside, or an error that says what to change, and where. Short ones are read once."""
    return _parsed_once(text) if len(text) <= MAX_REMEMBERED else _parsed(text)


@lru_cache(maxsize=256)
def _parsed_once(text: str) -> Template:
    return _parsed(text)


def _parsed(text: str) -> Template:
    if _size(text) > MAX_TEMPLATE:
        raise TooLarge(f"A template has at most {_mebibytes(MAX_TEMPLATE)}: make it shorter.")
    return Template(tuple(_Reader(text).pieces()))


def names(template: Template) -> tuple[Expression, ...]:
    """Every expression, as often as it stands there."""
    return tuple(piece for piece in template.pieces if isinstance(piece, Expression))


def render(
    template: Template,
    values: Lookup,
    *,
    missing: Missing,
    times: Times | None = None,
    on_one_line: Container[str] = (),
) -> Rendered:
    """The text with the values in it. A bare name that the surface knows wins over a time of that name. What namespaces hold
    whose values stay `on_one_line` is somebody's data in a prompt: what spans lines is quoted, and so is what would begin one
    like a heading (C20)."""
    result = _Result()
    absent: list[Expression] = []
    for piece in template.pieces:
        if isinstance(piece, Words):
            result.add(piece)
        elif (value := _value(piece, values, times)) is not None:
            guarded = piece.namespace in on_one_line
            written = _written(piece, value, plain=not guarded)
            result.insert(result.guarded(written) if guarded else written, len(written))
        elif missing == "error":
            _refuse(piece, f"{_shown(piece.source)} has no value.")
        else:
            absent.append(piece)
    return Rendered(result.text(), tuple(absent))


class _Place(NamedTuple):
    line: int
    column: int


class _Reader:
    """Reads one template from left to right, and counts lines on its way."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._line_start = 0

    def pieces(self) -> list[Words | Expression]:
        found: list[Words | Expression] = []
        expressions = 0
        while (start := self._text.find("{{", self._at)) >= 0:
            if start > self._at:
                found.append(_words(self._text[self._at : start]))
            expressions += 1
            place = self._go_to(start)
            if expressions > MAX_EXPRESSIONS:
                _refuse(place, f"a template has at most {MAX_EXPRESSIONS} expressions: make it shorter.")
            found.append(_expression(self._inside(place), place))
        return [*found, _words(self._text[self._at :])] if self._at < len(self._text) else found

    def _inside(self, place: _Place) -> str:
        """What stands between these braces; the reader goes on behind them."""
        start = self._at + 2
        end = self._text.find("}}", start)
        if end < 0:
            _refuse(place, "`{{` is never closed: add `}}`.")
        inner = self._text.find("{{", start, end)
        if inner >= 0:
            outer = f"line {place.line}, column {place.column}"
            _refuse(self._go_to(inner), f"`{{{{` inside another expression: close the one at {outer} first.")
        self._go_to(end + 2)
        return self._text[start:end].strip()

    def _go_to(self, at: int) -> _Place:
        lines = self._text.count("\n", self._at, at)
        if lines:
            self._line += lines
            self._line_start = self._text.rfind("\n", self._at, at) + 1
        self._at = at
        return _Place(self._line, at - self._line_start + 1)


class _Result:
    """The text as it grows: what would make it too large is refused before it is added."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_RESULT
        self._before = ""
        """The end of what was inserted since the author's last words. A space is none."""
        self._line: str | None = ""
        """What was inserted since the line began, if nothing but that stands there, and little enough to be the beginning of
        something loud: several values may make up a heading together."""

    def add(self, words: Words) -> None:
        """Add what the author wrote."""
        self._grow(words.text, words.size)
        self._before = "" if words.speaks or words.breaks else self._before + words.text[:MAX_TAG]
        if words.speaks:
            self._line = None
        elif words.breaks:
            self._line = ""

    def insert(self, text: str, length: int) -> None:
        """Add somebody's value, of so many characters with all that nobody sees of it: that has taken time, too."""
        self._grow(text, max(length, len(text) if text.isascii() else _size(text)))
        self._before = (self._before + text[-MAX_TAG:])[-MAX_TAG:]
        if self._line is not None or "\n" in text or "\r" in text:
            self._line = self._begun(text)

    def guarded(self, text: str) -> str:
        """What is seen of a value; quoted, if it would be taken for the beginning of a line that is loud, or complete a tag."""
        line = visible(text)
        loud = self._line is not None and is_loud(self._line + line)
        return compact(line) if loud or self._opens(line) else line

    def _opens(self, line: str) -> bool:
        """Whether a value makes up a tag of a chat with those right before it."""
        together = self._before + line[:MAX_TAG]
        return self._before != "" and untagged(together) != together

    def _begun(self, text: str) -> str | None:
        line = _last_line(text)
        before = "" if line else self._line
        begun = None if before is None else seen(before + text[line:]).replace("\u2800", " ").lstrip()
        return begun if begun is None or len(begun) <= MAX_BEGINNING else None

    def _grow(self, text: str, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise TooLarge(f"What a template renders to has at most {_mebibytes(MAX_RESULT)}: insert less.")
        self._parts.append(text)

    def text(self) -> str:
        return "".join(self._parts)


def _words(text: str) -> Words:
    line = _last_line(text)
    return Words(text, _size(text), line > 0, bool(text[line:].strip()))


def _last_line(text: str) -> int:
    """Where the last line of a text begins."""
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def _expression(source: str, place: _Place) -> Expression:
    if not source:
        _refuse(place, "there is no name between `{{` and `}}`.")
    if len(source) > MAX_EXPRESSION:
        _refuse(place, f"an expression has at most {MAX_EXPRESSION} characters, not {len(source)}.")
    if _PATH.fullmatch(source):
        return Expression(source, *place, *_address(source))
    if not _WORDS.fullmatch(source) and not _WRITTEN.fullmatch(source):
        _refuse(place, f"{_shown(source)} is not a name such as `input`, nor a path such as `metadata.tags[0]`.")
    return Expression(source, *place, BARE, ())


def _address(source: str) -> tuple[str, Path]:
    """The namespace, which is the name before the first dot, and the path inside it."""
    namespace, _, rest = source.partition(".")
    if rest and _NAME.fullmatch(namespace):
        return namespace, _steps(rest)
    return BARE, _steps(source)


def _steps(source: str) -> Path:
    return tuple(name or int(index) for name, index in _STEP.findall(source))


def _value(expression: Expression, values: Lookup, times: Times | None) -> Any:
    """What stands for an expression; None if nothing does. Only bare words can be a time, so a namespace is asked first."""
    present, value = _found(expression, values)
    if present:
        return value
    if times and (time := _time(expression, times)):
        return time
    _check_known(expression, values)
    return None


def _found(expression: Expression, values: Lookup) -> tuple[bool, Any]:
    """Whether a path is there, and what stands at its end."""
    value: Any = values.get(expression.namespace)
    try:
        for step in expression.path:
            plain = isinstance(value, dict) and type(step) is str  # as most are: nobody need ask what else they may be
            value = value[step] if plain else _inner(value, step)
    except LookupError:
        return False, None
    return bool(expression.path), value


def _inner(value: Any, step: str | int) -> Any:
    match value, step:
        case Mapping(), str():
            return value[step]
        case list() | tuple(), int() if step < len(value):
            return value[step]
    raise LookupError


def _time(expression: Expression, times: Times) -> str | None:
    try:
        return times(expression.source)
    except Invalid as error:
        _refuse(expression, error.message)


def _check_known(expression: Expression, values: Lookup) -> None:
    if not expression.path:
        _refuse(expression, f"{_shown(expression.source)} is not a name, nor a time that is known here.")
    if expression.namespace not in values:
        if expression.source in values:
            _refuse(
                expression, f"{_shown(expression.source)} has no value of its own: name what is in it, behind a dot."
            )
        known = ", ".join(map(_called, sorted(values))) or "nothing"
        asked = f"{_shown(expression.source)} needs {_called(expression.namespace)}"
        _refuse(expression, f"{asked}, not known here. Known: {known}.")


def _called(namespace: str) -> str:
    return "bare names" if namespace == BARE else f"`{namespace}`"


def _written(expression: Expression, value: Any, *, plain: bool) -> str:
    """A value as it is written."""
    if plain and isinstance(value, str):
        return value
    try:
        return compact(value) if plain else quoted(value)
    except (TypeError, ValueError, RecursionError):
        _refuse(expression, f"{_shown(expression.source)} has a value that cannot be written as JSON.")


def _refuse(place: _Place | Expression, message: str) -> NoReturn:
    line, column = place.line, place.column
    raise Invalid(f"Template, line {line}, column {column}: {message}", line=line, column=column) from None


def _shown(text: str) -> str:
    """Somebody else's text inside our sentence: quoted and cut."""
    return reprlib.repr(text)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _mebibytes(size: int) -> str:
    return f"{size // (1024 * 1024)} MiB"


# -- What templates name under `memory`: fetched when it is first asked for, and the same throughout one rendering.


NAMESPACE = "memory"


class Recalled(dict[str, Any]):
    """Stores and definitions by name, those that were asked for. One without a record is nothing, and what is inside of nothing
    is missing. `warnings`: what is there and is not shown."""

    def __init__(self, fetch: Callable[[str], tuple[Any, str | None]]) -> None:
        super().__init__()
        self._fetch = fetch
        self.warnings: list[str] = []
        self._closed = False

    def __missing__(self, name: str) -> Any:
        if self._closed:
            raise KeyError(name)
        self[name], warning = self._fetch(name)
        self.warnings += [] if warning is None else [warning]
        return self[name]

    def close(self) -> None:
        """From now on nothing is fetched any more."""
        self._closed = True
