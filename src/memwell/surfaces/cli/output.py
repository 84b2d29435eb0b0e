"""Output of commands: JSON, tables and texts on standard output; errors, warnings and questions on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import Invalid, MemwellError
from ...text.lifetimes import FOR_GOOD, render_lifetime
from .inputs import document_name

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

INDENT = "  "
MIN_WIDTH = 20
UNLIMITED = 10_000
"""The width of output that is not a terminal, so that no line is broken."""
MINUTES, DAYS = "%Y-%m-%d %H:%M", "%Y-%m-%d"
HIDDEN = ("source_connection_id",)
"""Fields for programs only."""
GAP = 2
_WIDEST = 40
"""Characters of a column of a schema that others are aligned with."""
EMPTY: tuple[Any, ...] = (None, "", [], {})
READER_LEFT = 141
"""The exit code of a command whose reader has closed the pipe, as in shells: 128 plus the number of SIGPIPE."""
FILE_ERROR = 74

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control the terminal, change the direction of text, or cannot be printed."""
_WORD = re.compile(r"\s*\S+")

# -- text


def escape(text: str) -> str:
    """Replace control characters in stored text by their codes."""

    def to_code(found: re.Match[str]) -> str:
        number = ord(found[0])
        return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"

    return _CONTROL.sub(to_code, text)


def format_time(time: datetime | None) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if time else "-"


def shorten(text: str, limit: int | None) -> str:
    """A text on one line with at most `limit` characters."""
    if limit is None:
        return text
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def one_line(text: str) -> str:
    return " ".join(escape(text).split())


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def format_json(value: Any, width: int, before: str = "", after: str = "") -> list[str]:
    """JSON in lines of at most `width`. Parts that fit on one line stay on it, with the name before and the comma after."""
    line = f"{before}{_json_line(value)}{after}"
    if _fits(line, width):
        return [line]
    if not value or not isinstance(value, dict | list):
        first, *others = wrap_text(line, width - len(INDENT))
        return [first, *(INDENT + other for other in others)]
    names = [f"{_json_line(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    commas = [","] * (len(value) - 1) + [""]
    parts = zip(value.values() if isinstance(value, dict) else value, names, commas, strict=True)
    inner = [INDENT + one for part, name, comma in parts for one in format_json(part, width - len(INDENT), name, comma)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [before + opening, *inner, closing + after]


def wrap_text(text: str, width: int) -> list[str]:
    """A text in lines of at most `width`. Longer words stay whole, so that they can be copied; scripts without spaces are cut
    anywhere."""
    width = max(width, MIN_WIDTH)
    found: list[str] = []
    for paragraph in text.split("\n"):
        lines = [""]
        for word in _WORD.findall(paragraph):
            if _fits(lines[-1] + word, width) or lines == [""]:
                lines[-1] += word
            else:
                lines.append(word.lstrip())
        for line in lines:
            found += [line] if line.isascii() or _fits(line, width) else chop_cells(line, width)
    return found


def _json_line(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _fits(line: str, width: int) -> bool:
    return len(line) <= width and cell_len(line) <= width


# -- answers


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # `report_errors` handles it


def console(width: int | None = None) -> Console:
    return _Console(highlight=False, soft_wrap=True, width=width)


def wrapping_console(*, stderr: bool = False) -> Console:
    """A console that breaks lines at the edge of a terminal and nowhere else, for trees and indented text."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return _Console(highlight=False, stderr=stderr, width=None if terminal else UNLIMITED)


@contextmanager
def status_line(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A line on standard error that shows the progress of a command, only on a terminal."""
    out = Console(stderr=True)
    if quiet or not out.is_terminal:
        yield lambda step: None
        return
    with out.status("beginning …") as status:
        yield lambda step: status.update(f"{escape(step)} …")


def print_answer(value: Any, as_json: bool, text: str | Text | Callable[[], None]) -> None:
    """Print an answer as JSON, or as a text or by a function that prints it."""
    if as_json:
        print_json(value)
    elif isinstance(text, str | Text):
        console().print(Text(text) if isinstance(text, str) else text)
    else:
        text()


def print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_line(value: Any) -> None:
    """Print one line of a stream, at once."""
    typer.echo(to_json(value))
    sys.stdout.flush()


def print_dim(text: str) -> None:
    console().print(Text(text, style="dim"))


def print_note(text: str) -> None:
    """Print a dim line to standard error, beside a text that may be piped."""
    _Console(highlight=False, soft_wrap=True, stderr=True).print(Text(text, style="dim"))


def print_next_page(cursor: str | None) -> None:
    if cursor:
        print_dim(f"There is more: --cursor {cursor}")


class _Layout(NamedTuple):
    """The columns of a table that fits: its titles, cells and widths."""

    titles: dict[str, str]
    cells: dict[str, list[str]]
    widths: dict[str, int]


def print_table(rows: Sequence[Mapping[str, Any]], empty: str, *, drops_columns: bool = False) -> None:
    """Print a line for each row, or the text `empty`. If a terminal has too little room, times are printed as days, and the
    longest text is cut, but no identifier, which has no blanks. Rows that still do not fit lose their last columns, or are
    printed as blocks."""
    if not rows:
        print_dim(empty)
        return
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in HIDDEN]
    names = [name for name in names if any(row.get(name) not in EMPTY for row in rows)]
    out = console()
    width = out.width if out.is_terminal else UNLIMITED
    total = len(names)
    while (layout := _lay_out(rows, names, width)) is None and drops_columns and len(names) > 1:
        names.pop()
    if layout is None:
        for number, row in enumerate(rows):
            out.print("\n" if number else "", end="")
            _print_lines({name: row[name] for name in names if row.get(name) not in EMPTY})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(layout.titles[name], no_wrap=True, overflow="ellipsis", max_width=layout.widths[name])
    for line in zip(*layout.cells.values(), strict=True):
        table.add_row(*map(Text, line))
    console(width).print(table)
    if len(names) < total:
        print_dim(f"There is no room for {count_noun(total - len(names), 'more column')}: --json shows all.")


def _lay_out(rows: Sequence[Mapping[str, Any]], names: Sequence[str], width: int) -> _Layout | None:
    """Fit a table into a width, or return None."""
    for time_format in (MINUTES, DAYS):
        cells = {name: [_cell(row.get(name), time_format) for row in rows] for name in names}
        titles = {name: _title(name, rows, time_format) for name in names}
        widths = {name: max(map(cell_len, (titles[name], *cells[name]))) for name in names}
        texts = [name for name in names if any(_is_text(row.get(name)) for row in rows)]
        longest = max(texts, key=widths.__getitem__, default="")
        room = width - sum(length + GAP for length in widths.values()) + GAP
        if room + widths.get(longest, 0) >= min(MIN_WIDTH, widths.get(longest, 0)):
            if longest:
                widths[longest] += min(room, 0)
            return _Layout(titles, cells, widths)
    return None


def _title(name: str, rows: Sequence[Mapping[str, Any]], time_format: str) -> str:
    title = name.removesuffix("_at").removesuffix("_id").replace("_", " ").upper()
    has_times = time_format == MINUTES and any(isinstance(row.get(name), datetime) for row in rows)
    return f"{title} (UTC)" if has_times else title


def _is_text(value: Any) -> bool:
    return isinstance(value, dict | list) or (isinstance(value, str) and " " in value)


def print_value(value: Any) -> None:
    """Print any answer: turns as a conversation, a list as a table, an object as lines."""
    plain = msgspec.to_builtins(value, builtin_types=(datetime,))
    if isinstance(plain, list):
        _print_items(plain, "Nothing.")
    elif isinstance(plain, dict):
        cursor = plain.pop("next_cursor", None)
        lists = {
            name: one for name, one in plain.items() if isinstance(one, list) and (not one or isinstance(one[0], dict))
        }
        lines = {name: item for name, item in plain.items() if name not in lists and name not in HIDDEN}
        _print_lines(lines)
        for number, (name, items) in enumerate(lists.items()):
            console().print("\n" if lines or number else "", end="")
            words = name.replace("_", " ")
            if len(lists) > 1 and items:
                console().print(Text(words.capitalize(), style="bold"))
            _print_items(items, f"No {words}.")
        print_next_page(cursor)
    else:
        console().print(Text(escape(str(plain))))


def print_turn(turn: dict[str, Any]) -> None:
    speaker = turn["role"].upper() + (f" ({escape(turn['name'])})" if turn.get("name") else "")
    style = "bold green" if turn["role"] == "user" else "bold blue"
    console().print(Text.assemble((speaker, style), "  ", (format_time(turn["occurred_at"]), "dim")))
    console().print(Text(escape(turn["content"])))


def _print_items(items: list[Any], empty: str) -> None:
    if items and all(isinstance(item, dict) and {"role", "content", "occurred_at"} <= set(item) for item in items):
        for turn in items:
            print_turn(turn)
    elif items and not isinstance(items[0], dict):
        console().print(Text(escape("\n".join(map(str, items)))))
    else:
        print_table(items, empty)


def _print_lines(values: dict[str, Any]) -> None:
    """Print each name with its value beside it, or below it where a terminal has no room."""
    out = console()
    column = max(map(len, values), default=0) + GAP
    for name, value in values.items():
        width = out.width - column if out.is_terminal else UNLIMITED
        if name == "schema" and isinstance(value, dict) and (fields := render_schema(value)):
            lines = ["", *(INDENT + escape(line) for line in fields)]
        elif out.is_terminal and isinstance(value, dict | list):
            line = escape(_json_line(value))
            below = [INDENT + escape(one) for one in format_json(value, out.width - len(INDENT))]
            lines = [line] if _fits(line, width) else ["", *below]
        else:
            plain = format_time(value) if isinstance(value, datetime) else value
            text = escape(plain if isinstance(plain, str) else to_json(plain))
            first, *others = wrap_text(text, width) if out.is_terminal else text.split("\n")
            lines = [first, *(" " * column + other for other in others)]
        label = name.ljust(column) if lines[0] else name
        out.print(Text.assemble((label, "bold"), "\n".join(lines)))


def _cell(value: Any, time_format: str) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format(value.astimezone(UTC), time_format)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(value if isinstance(value, str) else to_json(value))


# -- schemas

_SHOWN = {"type", "properties", "items", "enum", "description", "title", "required", "$schema"}
"""Keywords of a schema that have a place in its lines; others follow as JSON."""


def render_schema(schema: Mapping[str, Any]) -> list[str]:
    """Render a schema with a line for each property: its name, type, constraints and description."""
    return [f"{name}  {kind}  {about}".rstrip() for name, kind, about in _align(list(_list_properties(schema, "")))]


def _list_properties(schema: Mapping[str, Any], indent: str) -> Iterator[tuple[str, str, str]]:
    properties, required = schema.get("properties"), schema.get("required")
    for name, one in properties.items() if isinstance(properties, dict) else ():
        part = one if isinstance(one, dict) else {}
        limits = [f"{key} {_json_line(value)}" for key, value in part.items() if key not in _SHOWN]
        needed = ["required"] if isinstance(required, list) and name in required else []
        about = " ".join(filter(None, (", ".join(needed + limits), str(part.get("description", "")))))
        yield indent + str(name), _name_type(one), about
        items = part.get("items")
        yield from _list_properties(items if isinstance(items, dict) else part, indent + INDENT)
    if not indent and properties:
        yield from ((key, _json_line(value), "") for key, value in schema.items() if key not in _SHOWN)


def _name_type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return " | ".join(map(_json_line, schema["enum"]))
    kind = schema.get("type", "any")
    kind = " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return f"{kind} of {_name_type(schema['items'])}" if kind == "array" and "items" in schema else kind


def _align(rows: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """Pad the first two columns, up to a limit."""
    first, second = (min(max((cell_len(row[at]) for row in rows), default=0), _WIDEST) for at in (0, 1))
    return ((name.ljust(first), kind.ljust(second), about) for name, kind, about in rows)


# -- warnings

WARNINGS = "warnings"
LIFETIMES = {
    **dict.fromkeys(("retention", "retention_days"), ("day", "for good")),
    "ttl_seconds": ("second", "for good"),
    "max_age_days": ("day", "no limit"),
    "idle_seconds": ("second", "no limit"),
}
"""Fields that are lifetimes, with the units of numbers and the words for null."""
_NAME_FIELDS = ("technical_name", "slug", "name", "id")


def list_warnings(answer: Any, where: str = "") -> Iterator[str]:
    """The warnings of an answer and of the structs in it. A field `warnings` inside a stored value is not one."""
    if isinstance(answer, list):
        for one in answer:
            names = (str(name) for field in _NAME_FIELDS if (name := getattr(one, field, None)))
            yield from list_warnings(one, next(names, ""))
    elif isinstance(answer, dict):
        for name, one in answer.items():
            yield from list_warnings(one, str(name))
    elif isinstance(answer, msgspec.Struct):
        for field in answer.__struct_fields__:
            value = getattr(answer, field)
            yield from _format_warnings(value, where) if field == WARNINGS else list_warnings(value)


def drop_warnings(answer: Any) -> Any:
    """An answer as plain values for people, without its warnings."""
    if isinstance(answer, list):
        return [drop_warnings(one) for one in answer]
    if isinstance(answer, dict):
        return {name: drop_warnings(one) for name, one in answer.items()}
    plain = msgspec.to_builtins(answer, builtin_types=(datetime,))
    if isinstance(answer, msgspec.Struct):  # fields with their default values may be missing
        names = [name for name in answer.__struct_fields__ if name in plain or name in LIFETIMES]
        return {name: _show_field(name, getattr(answer, name)) for name in names if name != WARNINGS}
    return plain


def show_lifetime(name: str, value: int | str | None) -> str:
    """A lifetime for people. `name` is the field."""
    if isinstance(value, str) and value != FOR_GOOD:
        return value.replace("_", " ")
    unit, none = LIFETIMES[name]
    return render_lifetime(value, unit) if isinstance(value, int) and value else none


def _show_field(name: str, value: Any) -> Any:
    return show_lifetime(name, value) if name in LIFETIMES else drop_warnings(value)


def print_warnings(warnings: Iterable[str]) -> None:
    for one in dict.fromkeys(warnings):
        typer.echo(f"Warning: {escape(one)}", err=True)


def _format_warnings(warnings: Any, where: str) -> Iterator[str]:
    """Warnings are texts, or structs with a path or a slug and a reason, or a mapping of slugs to such lists."""
    if isinstance(warnings, dict):
        for slug, several in warnings.items():
            yield from _format_warnings(several, slug)
        return
    for one in warnings or ():
        reason = one if isinstance(one, str) else one.reason
        part = "" if isinstance(one, str) else getattr(one, "path", None) or getattr(one, "slug", "")
        place = ".".join(filter(None, (where, part)))
        yield f"`{place}`: {reason}" if place else reason


# -- errors and questions

_HEADLINE = re.compile(r"(?:`[^`]*`: )*.*?(?=: |$)", re.DOTALL)
"""A sentence up to its first colon, not counting those after quoted names at its beginning."""
_QUOTED = re.compile(r"`(\w+)`")


@contextmanager
def report_errors(labels: Mapping[str, str] | None = None) -> Iterator[None]:
    """Print errors to stderr and exit with their code. `labels` are the names of request fields on the command line."""
    document_name.set("document")
    try:
        yield
        typer.echo(nl=False)  # flush: an error at the end of the process could not be reported
    except MemwellError as error:
        _print_error(error, labels or {})
        raise typer.Exit(error.exit_code) from error
    except UnicodeDecodeError as error:
        typer.echo("Error: The input is not UTF-8 text.", err=True)
        raise typer.Exit(Invalid.exit_code) from error
    except BrokenPipeError as error:
        discard_output()
        raise typer.Exit(READER_LEFT) from error
    except OSError as error:
        typer.echo(escape(f"Error: {error.filename or 'A file'} cannot be used: {error.strerror}."), err=True)
        raise typer.Exit(FILE_ERROR) from error


def discard_output() -> None:
    """Redirect standard output to the null device, because its reader has left and the flush at the exit would fail."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, sys.stdout.fileno())
    os.close(null_device)


def format_problems(problems: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One problem per line, as compilers print them: `file:line:column: path: reason`."""
    for one in problems:
        where = ":".join(map(str, (document_name.get(), one["line"], one["column"]))) if one.get("line") else ""
        yield escape(": ".join(part for part in (where, one.get("path"), one.get("reason")) if part))


def confirm(question: str, yes: bool) -> None:
    """Ask a question on stderr, unless `yes`; anything but a yes aborts. (`typer.confirm` also writes to stdout.)"""
    if yes:
        return
    typer.echo(f"{escape(question)} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline() if sys.stdin else ""  # a process can be started without standard input
    if not (sys.stdin and sys.stdin.isatty()):
        typer.echo(err=True)
    if not answer:
        typer.echo("There is no input to confirm with: use `--yes`.", err=True)
    if answer.strip().lower() not in ("y", "yes"):
        raise typer.Abort


def _print_error(error: MemwellError, labels: Mapping[str, str]) -> None:
    message = _translate(error, labels)
    problems = error.details.get("problems")
    if problems:  # they follow, one per line
        headline = _HEADLINE.match(message)
        message = (headline[0] if headline else message).rstrip(".") + "."
    typer.echo(f"Error: {escape(message)}", err=True)
    for line in format_problems(problems or ()):
        typer.echo(line, err=True)
    if not problems and error.details.get("breaking"):
        _print_breaking(error.details["breaking"], error.details.get("examples", []))
    if trace := error.details.get("trace"):
        typer.echo(f"\n{escape(trace)}", err=True, nl=False)


def _translate(error: MemwellError, labels: Mapping[str, str]) -> str:
    """Replace the names of request fields by their labels, but only if the error is about the request: other errors may quote
    the same words, such as the parameter of a function."""
    root = re.match(r"\w*", str(error.details.get("field", "")))
    is_about_request = not error.details or "breaking" in error.details or (root is not None and root[0] in labels)
    if not is_about_request:
        return error.message
    return _QUOTED.sub(lambda found: labels.get(found[1], found[0]), error.message)


def _print_breaking(count: int, examples: Sequence[Mapping[str, Any]]) -> None:
    """Print the records that a schema would break: owner, place and reason."""
    for one in examples:
        first, *others = one["problems"] or [{}]
        scope = "" if one["scope"] == "global" else f" ({one['scope']})"
        more = f" (and {len(others)} more)" if others else ""
        parts = (one["owner"] + scope, first.get("path"), first.get("reason"))
        typer.echo(escape(": ".join(part for part in parts if part) + more), err=True)
    if count > len(examples):
        typer.echo(f"… and {count - len(examples)} more", err=True)
