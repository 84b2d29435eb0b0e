"""Templates: text with `{{…}}`, for workflow steps, prompt hooks and prompts.

    {{input}}, {{ user_id }}                       a bare name
    {{metadata.user.id}}, {{metadata.tags[0]}}     a path inside a namespace
    {{attachments[0].name}}                        a path inside a bare name
    {{1 week ago}}, {{2026-04-19T10:00:00Z}}       a time, where a surface allows times

Semantics (C18, B4.7):

- Rendering is one pass. Values are data: a value that contains `{{x}}` is inserted unchanged.
- Text is inserted unchanged, everything else as compact JSON. Null is the same as missing.
- The caller defines the namespaces; any other is an error. A missing value inside a namespace is an error or empty, as
  the caller chooses.
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
from ..text.fence import encode_compact, hide_marks, is_loud, neutralise_tags, quote_lines, remove_invisible

MAX_TEMPLATE = 1024 * 1024
MAX_EXPRESSIONS = 10_000
MAX_EXPRESSION = 500
MAX_REMEMBERED = 16 * 1024
"""Characters of a template whose parsed form is cached."""
MAX_RESULT = 4 * 1024 * 1024
"""Templates and results are measured in bytes of UTF-8, expressions in characters."""

MAX_BEGINNING = 200
"""Characters at the beginning of a line that may still become a heading or a role."""

MAX_TAG = 40
"""Characters at the end of a value that may be part of a tag."""

BARE = ""
"""The namespace of bare names."""

NAMESPACE = "memory"
"""The namespace of stores and definitions."""

Missing: TypeAlias = Literal["error", "empty"]
Lookup: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The decoded JSON values of each namespace. A mapping may fetch its values on demand."""
Times: TypeAlias = Callable[[str], str | None]
"""Function that resolves a time expression. It returns None for other expressions."""

_NAME = re.compile(r"[\w-]+")
_STEP = re.compile(r"([\w-]+)|\[([0-9]+)\]")
_PATH = re.compile(r"[\w-]+(?:\[[0-9]+\])*(?:\.[\w-]+(?:\[[0-9]+\])*)*")
_WORDS = re.compile(r"\w+(?:\s+\w+)+")
_ISO_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt\s][0-9:.,Zz+-]+")
"""A date alone has the form of a name."""


@dataclass(frozen=True, slots=True)
class Expression:
    """The source between `{{` and `}}` and its position."""

    source: str
    line: int
    column: int
    namespace: str
    path: tuple[str | int, ...]
    """Empty if the source is several words or a time, which cannot be names."""


class Words(NamedTuple):
    """Plain text of a template."""

    text: str
    size: int
    has_break: bool
    """True if it contains a line break."""
    ends_in_text: bool
    """True if its last line is not blank."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: plain text and expressions, in order."""

    pieces: tuple[Words | Expression, ...]


class Rendered(NamedTuple):
    """The text of a template with its values."""

    text: str
    missing: tuple[Expression, ...]
    """The expressions that had no value."""


def parse(text: str) -> Template:
    """Parse a template, or raise an error with its line and column. Short templates are cached."""
    return _parse(text) if len(text) <= MAX_REMEMBERED else _parse.__wrapped__(text)


@lru_cache(maxsize=256)
def _parse(text: str) -> Template:
    if _count_bytes(text) > MAX_TEMPLATE:
        raise TooLarge(f"A template has at most {MAX_TEMPLATE >> 20} MiB: make it shorter.")
    return Template(tuple(_Reader(text).pieces()))


def list_expressions(template: Template) -> tuple[Expression, ...]:
    """Return all expressions in order, with repetitions."""
    return tuple(piece for piece in template.pieces if isinstance(piece, Expression))


def render(
    template: Template,
    values: Lookup,
    *,
    missing: Missing,
    times: Times | None = None,
    on_one_line: Container[str] = (),
) -> Rendered:
    """Insert values into a template. A known bare name takes precedence over a time of the same name.

    Values of the namespaces `on_one_line` are untrusted data in a prompt: they are quoted if they span lines or would begin a
    line like a heading (C20).
    """
    result = _Result()
    without_value: list[Expression] = []
    for piece in template.pieces:
        if isinstance(piece, Words):
            result.add(piece)
        elif (value := _resolve(piece, values, times)) is not None:
            untrusted = piece.namespace in on_one_line
            text = _to_text(piece, value, plain=not untrusted)
            result.insert(result.defuse(text) if untrusted else text, len(text))
        elif missing == "error":
            _refuse(piece, f"{reprlib.repr(piece.source)} has no value.")
        else:
            without_value.append(piece)
    return Rendered(result.text(), tuple(without_value))


class _Place(NamedTuple):
    line: int
    column: int


class _Reader:
    """Parser that reads a template from left to right and counts its lines."""

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
                found.append(_to_words(self._text[self._at : start]))
            expressions += 1
            place = self._go_to(start)
            if expressions > MAX_EXPRESSIONS:
                _refuse(place, f"a template has at most {MAX_EXPRESSIONS} expressions: make it shorter.")
            found.append(_parse_expression(self._inside(place), place))
        return [*found, _to_words(self._text[self._at :])] if self._at < len(self._text) else found

    def _inside(self, place: _Place) -> str:
        """Read the source between these braces, and continue after them."""
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
    """The rendered text, with a limit on its size."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_RESULT
        self._before = ""
        """The end of the values inserted since the author's last words, not counting spaces."""
        self._line: str | None = ""
        """The values on the current line, if there is nothing else and they are short: together they may make up a heading."""

    def add(self, words: Words) -> None:
        """Add text of the author."""
        self._grow(words.text, words.size)
        self._before = "" if words.ends_in_text or words.has_break else self._before + words.text[:MAX_TAG]
        if words.ends_in_text:
            self._line = None
        elif words.has_break:
            self._line = ""

    def insert(self, text: str, length: int) -> None:
        """Add a value. `length` is its length with invisible characters, which took time as well."""
        self._grow(text, max(length, len(text) if text.isascii() else _count_bytes(text)))
        self._before = (self._before + text[-MAX_TAG:])[-MAX_TAG:]
        if self._line is not None or "\n" in text or "\r" in text:
            self._line = self._continue_line(text)

    def defuse(self, text: str) -> str:
        """Return the visible part of a value, quoted if it would look like a heading or a role, or complete a tag."""
        line = hide_marks(text)
        loud = self._line is not None and is_loud(self._line + line)
        together = self._before + line[:MAX_TAG]  # with the values right before it
        completes_tag = self._before != "" and neutralise_tags(together) != together
        return encode_compact(line) if loud or completes_tag else line

    def _continue_line(self, text: str) -> str | None:
        line = _last_line_start(text)
        before = "" if line else self._line
        if before is None:
            return None
        values = remove_invisible(before + text[line:]).replace("\u2800", " ").lstrip()
        return values if len(values) <= MAX_BEGINNING else None

    def _grow(self, text: str, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise TooLarge(f"A rendered template has at most {MAX_RESULT >> 20} MiB: insert less.")
        self._parts.append(text)

    def text(self) -> str:
        return "".join(self._parts)


def _to_words(text: str) -> Words:
    line = _last_line_start(text)
    return Words(text, _count_bytes(text), line > 0, bool(text[line:].strip()))


def _last_line_start(text: str) -> int:
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def _parse_expression(source: str, place: _Place) -> Expression:
    if not source:
        _refuse(place, "there is no name between `{{` and `}}`.")
    if len(source) > MAX_EXPRESSION:
        _refuse(place, f"an expression has at most {MAX_EXPRESSION} characters, not {len(source)}.")
    if _PATH.fullmatch(source):
        namespace, _, rest = source.partition(".")
        if not rest or not _NAME.fullmatch(namespace):  # a bare name, perhaps with an index
            namespace, rest = BARE, source
        path = tuple(name or int(index) for name, index in _STEP.findall(rest))
        return Expression(source, *place, namespace, path)
    if not _WORDS.fullmatch(source) and not _ISO_TIME.fullmatch(source):
        _refuse(place, f"{reprlib.repr(source)} is not a name such as `input`, nor a path such as `metadata.tags[0]`.")
    return Expression(source, *place, BARE, ())


def _resolve(expression: Expression, values: Lookup, times: Times | None) -> Any:
    """Return the value of an expression, or None. Values take precedence over times."""
    present, value = _look_up(expression, values)
    if present:
        return value
    source, namespace = expression.source, expression.namespace
    try:
        time = times(source) if times else None
    except Invalid as error:
        _refuse(expression, error.message)
    if time:
        return time
    if not expression.path:
        _refuse(expression, f"{reprlib.repr(source)} is neither a name nor a time that is allowed here.")
    if namespace in values:
        return None
    if source in values:
        _refuse(expression, f"{reprlib.repr(source)} is a namespace and not a value: add a dot and a name.")
    known = ", ".join(map(_describe_namespace, sorted(values))) or "nothing"
    needs = f"{reprlib.repr(source)} needs {_describe_namespace(namespace)}"
    _refuse(expression, f"{needs}, not known here. Known: {known}.")


def _look_up(expression: Expression, values: Lookup) -> tuple[bool, Any]:
    """Follow a path. Return whether it exists, and its value."""
    value: Any = values.get(expression.namespace)
    try:
        for step in expression.path:
            plain = isinstance(value, dict) and type(step) is str  # the common case, without pattern matching
            value = value[step] if plain else _step_into(value, step)
    except LookupError:
        return False, None
    return bool(expression.path), value


def _step_into(value: Any, step: str | int) -> Any:
    match value, step:
        case Mapping(), str():
            return value[step]
        case list() | tuple(), int() if step < len(value):
            return value[step]
    raise LookupError


def _describe_namespace(namespace: str) -> str:
    return "bare names" if namespace == BARE else f"`{namespace}`"


def _to_text(expression: Expression, value: Any, *, plain: bool) -> str:
    """Convert a value to the text to insert."""
    if plain and isinstance(value, str):
        return value
    try:
        return encode_compact(value) if plain else quote_lines(value)
    except (TypeError, ValueError, RecursionError):
        _refuse(expression, f"{reprlib.repr(expression.source)} has a value that cannot be written as JSON.")


def _refuse(place: _Place | Expression, message: str) -> NoReturn:
    line, column = place.line, place.column
    raise Invalid(f"Template, line {line}, column {column}: {message}", line=line, column=column) from None


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class MemoryValues(dict[str, Any]):
    """The values of the namespace `memory`: stores and definitions by name, fetched on first use, so that they stay the same
    during one rendering. Values inside a missing record are missing. `warnings` has the reasons for withheld values."""

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
        """Stop fetching. Names that were not used are missing from now on."""
        self._closed = True
