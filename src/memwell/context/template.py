"""Templates: text with `{{…}}`, for workflow steps, prompt hooks and prompts.

    {{input}}, {{ user_id }}                       a bare name
    {{metadata.user.id}}, {{metadata.tags[0]}}     a path inside a namespace
    {{attachments[0].name}}                        a path inside a bare name
    {{1 week ago}}, {{2026-04-19T10:00:00Z}}       a time, where a surface allows times

`memory_namespace.py` provides the values of `{{memory.…}}`.

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
from collections.abc import Callable, Container, Iterator, Mapping
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

ARTIFACTS = "artifacts"
"""The name of the list of a session's files, and the namespace of their text."""

STORED = (NAMESPACE, ARTIFACTS)
"""Names of stored values, which are untrusted in a prompt."""

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
    return Template(tuple(_read_pieces(text)))


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

    Values of the namespaces and bare names `on_one_line` are untrusted data in a prompt: they are quoted if they span lines or
    would begin a line like a heading (C20).
    """
    result = _Result()
    lines: dict[str, tuple[str, int]] = {}
    without_value: list[Expression] = []
    for piece in template.pieces:
        if isinstance(piece, Words):
            result.add(piece)
        elif (value := _resolve(piece, values, times)) is not None:
            untrusted = piece.namespace in on_one_line or (piece.namespace == BARE and _get_name(piece) in on_one_line)
            if untrusted and piece.source not in lines:  # a value is cleaned only once
                text = _to_text(piece, value, plain=False)
                lines[piece.source] = hide_marks(text), len(text)
            if untrusted:
                line, length = lines[piece.source]
                result.insert(result.defuse(line), length)
            else:
                text = _to_text(piece, value, plain=True)
                result.insert(text, len(text))
        elif missing == "error":
            _refuse(piece, f"{reprlib.repr(piece.source)} has no value.")
        else:
            without_value.append(piece)
    return Rendered(result.text(), tuple(without_value))


class _Place(NamedTuple):
    line: int
    column: int


def _read_pieces(text: str) -> Iterator[Words | Expression]:
    line, line_start, counted = 1, 0, 0

    def locate(at: int) -> _Place:
        """Return the place of a position, which is never before an earlier one."""
        nonlocal line, line_start, counted
        if breaks := text.count("\n", counted, at):
            line, line_start = line + breaks, text.rindex("\n", counted, at) + 1
        counted = at
        return _Place(line, at - line_start + 1)

    if text.count("{{") > MAX_EXPRESSIONS:
        _refuse(locate(0), f"a template has at most {MAX_EXPRESSIONS} expressions: make it shorter.")
    end = 0
    while (start := text.find("{{", end)) >= 0:
        if start > end:
            yield _to_words(text[end:start])
        place = locate(start)
        end = text.find("}}", start + 2)
        if end < 0:
            _refuse(place, "`{{` is never closed: add `}}`.")
        inner = text.find("{{", start + 2, end)
        if inner >= 0:
            outer = f"line {place.line}, column {place.column}"
            _refuse(locate(inner), f"`{{{{` inside another expression: close the one at {outer} first.")
        yield _parse_expression(text[start + 2 : end].strip(), place)
        end += 2
    if end < len(text):
        yield _to_words(text[end:])


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

    def defuse(self, line: str) -> str:
        """Return a clean line, quoted if it would look like a heading or a role, or complete a tag."""
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


def _get_name(bare: Expression) -> str:
    return str(bare.path[0]) if bare.path else bare.source


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
    if namespace in values and (not _is_partial(values[namespace]) or expression.path[0] in values[namespace]):
        return None
    if source in values:
        _refuse(expression, f"{reprlib.repr(source)} is a namespace and not a value: add a dot and a name.")
    known = ", ".join(_describe_namespace(one) for one in sorted(values) if not _is_partial(values[one])) or "nothing"
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


def _is_partial(values: Mapping[str, Any]) -> bool:
    return isinstance(values, MemoryValues) and values.is_partial


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
    """The values of a namespace such as `memory`, fetched on first use, so that they stay the same during one rendering. Values
    inside a missing record are missing. `warnings` has the reasons for withheld values."""

    def __init__(self, fetch: Callable[[str], tuple[Any, str | None]], *, is_partial: bool = False) -> None:
        super().__init__()
        self._fetch = fetch
        self.is_partial = is_partial
        """True if a name that it lacks is an error, as without this namespace."""
        self.warnings: list[str] = []

    def __missing__(self, name: str) -> Any:
        self[name], warning = self._fetch(name)
        self.warnings += [] if warning is None else [warning]
        return self[name]


FILES, TEXT = "files", "text"
"""What is fetched for the namespace `artifacts`: the list of the active files, and their text."""


def build_file_values(
    fetch: Callable[[str], tuple[Any, str | None]], bare: Mapping[str, Any]
) -> dict[str, MemoryValues]:
    """Return the namespace `artifacts` with the text of the active files, and the bare names with the list of files."""

    def fetch_text(name: str) -> tuple[Any, str | None]:
        return fetch(TEXT) if name == TEXT else (None, None)

    def fetch_list(name: str) -> tuple[Any, str | None]:
        if name != ARTIFACTS:
            raise KeyError(name)
        return fetch(FILES)

    names = MemoryValues(fetch_list, is_partial=True)
    names.update(bare)
    return {BARE: names, ARTIFACTS: MemoryValues(fetch_text)}
