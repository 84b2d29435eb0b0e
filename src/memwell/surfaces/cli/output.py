"""Values as they fit on a screen: JSON on one line if there is room for it, else one thing below the other; texts broken between
words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .fields import document

STEP = "  "
"""What is inside of something stands so much further to the right."""
LEAST = 20
"""The width of a line, however little room there is."""
_WORD = re.compile(r"\s*\S+")


def one_line(value: Any) -> str:
    """JSON with a little space between its parts."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def fits(line: str, width: int) -> bool:
    return len(line) <= width and cell_len(line) <= width


def laid_out(value: Any, width: int, before: str = "", after: str = "") -> list[str]:
    """JSON in lines of this width. What fits on one stays on it, with its name before it and the comma after it."""
    line = f"{before}{one_line(value)}{after}"
    if fits(line, width):
        return [line]
    if not value or not isinstance(value, dict | list):
        first, *others = wrapped(line, width - len(STEP))
        return [first, *(STEP + other for other in others)]
    inner = [STEP + one for part in _parts(value) for one in laid_out(part[0], width - len(STEP), *part[1:])]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [before + opening, *inner, closing + after]


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[tuple[Any, str, str]]:
    """What is in an object or a list, each with what stands before it and after it."""
    names = [f"{one_line(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    items = value.values() if isinstance(value, dict) else value
    return zip(items, names, [","] * (len(names) - 1) + [""], strict=True)


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of this width. A word that is longer stays whole, since it may be there to be copied; where words have no
    spaces between them, a line ends anywhere."""
    width = max(width, LEAST)
    return [line for whole in text.split("\n") for line in _broken(whole, width)]


def _broken(text: str, width: int) -> list[str]:
    lines = [""]
    for word in _WORD.findall(text):
        if fits(lines[-1] + word, width) or lines == [""]:
            lines[-1] += word
        else:
            lines.append(word.lstrip())
    return [part for line in lines for part in _chopped(line, width)]


def _chopped(line: str, width: int) -> list[str]:
    return [line] if line.isascii() or fits(line, width) else chop_cells(line, width)


# -- What commands print: tables for people, JSON for programs.


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What would move the cursor, colour or retitle the terminal, turn the direction of a text, or cannot be printed."""
UNLIMITED = 10_000
"""The width of what is no terminal: no line is broken there."""
FEW = 5
"""With more columns than these, the cells of a table are cut short; `--json` shows all of them."""
BRIEF = 36
WHOLE = ("id", "name", "key", "status", "type")
"""Columns whose cells are not folded: they are copied, or tell lines apart."""

GAP = 2
"""Between two columns."""
FOLDED = 1.2
"""How much wider than the screen a table may be: its cells are folded then."""
NOTHING: tuple[Any, ...] = (None, "", [], {})
UNTOLD = ("source_connection_id",)
"""Columns that only programs read."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def shown(text: str) -> str:
    """Stored text as it may be printed: what would control the terminal is spelled out."""
    return _CONTROL.sub(_spelled_out, text)


def _spelled_out(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


class _Console(Console):
    """A console that leaves it to the command what to do if nobody reads any more."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(width: int | None = None) -> Console:
    return _Console(highlight=False, soft_wrap=True, width=width)


def folding(*, stderr: bool = False) -> Console:
    """A console that breaks lines at the edge of the terminal and not elsewhere: for trees, and for what is indented."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return _Console(highlight=False, stderr=stderr, width=None if terminal else UNLIMITED)


def problem_lines(problems: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One problem per line, as compilers say it: `file:line:column: path: reason`."""
    for one in problems:
        where = ":".join(map(str, (document(), one["line"], one["column"]))) if one.get("line") else ""
        yield shown(": ".join(part for part in (where, one.get("path"), one.get("reason")) if part))


def utc(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if moment else "-"


def print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str, *, whole: Sequence[str] = ()
) -> None:
    """A table; where it is too wide, cells are folded, but for the columns that are to stay whole."""
    if not rows:
        console().print(Text(empty, style="dim"))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in whole)
    for row in rows:
        table.add_row(*(Text(shown(str(cell))) for cell in row))
    console().print(table)


def print_value(value: Any) -> None:
    """Any operation's result, readable: turns as a conversation, a list as a table, an object as lines."""
    plain = msgspec.to_builtins(value, builtin_types=(datetime,))
    if isinstance(plain, list):
        _print_items(plain, "Nothing.")
    elif isinstance(plain, dict):
        _print_object(plain)
    else:
        console().print(Text(shown(str(plain))))


def print_turn(turn: dict[str, Any]) -> None:
    speaker = turn["role"].upper() + (f" ({shown(turn['name'])})" if turn.get("name") else "")
    style = "bold green" if turn["role"] == "user" else "bold blue"
    console().print(Text.assemble((speaker, style), "  ", (utc(turn["occurred_at"]), "dim")))
    console().print(Text(shown(turn["content"])))


def _print_object(plain: dict[str, Any]) -> None:
    lists = [name for name, item in plain.items() if isinstance(item, list) and (not item or isinstance(item[0], dict))]
    lines = {name: item for name, item in plain.items() if name not in lists and name != "next_cursor"}
    _print_lines(lines)
    for name in lists:
        _print_items(plain[name], f"No {name}.", apart=bool(lines))
    print_more(plain.get("next_cursor"))


def print_more(cursor: str | None) -> None:
    if cursor:
        console().print(Text(f"There is more: --cursor {cursor}", style="dim"))


def _print_items(items: list[Any], empty: str, *, apart: bool = False) -> None:
    if items and all(isinstance(item, dict) and {"role", "content", "occurred_at"} <= set(item) for item in items):
        for turn in items:
            print_turn(turn)
        return
    columns = list(dict.fromkeys(name for item in items if isinstance(item, dict) for name in item))
    if items and not columns:
        console().print(Text(shown("\n".join(map(str, items)))))
        return
    columns = [name for name in columns if _tells(name, items)]
    if not _fits(columns, items):
        _print_blocks(columns, items, apart=apart)
        return
    limit = BRIEF if len(columns) > FEW else None
    rows = [[brief(_cell(item.get(name, "")), limit) for name in columns] for item in items]
    titles = {name: name.replace("_", " ").upper() for name in columns}
    print_table(list(titles.values()), rows, empty, whole=[titles[name] for name in columns if name in WHOLE])


def _fits(columns: list[str], items: list[dict[str, Any]]) -> bool:
    """Whether a table can be read: it has few columns, or there is room for most of what is in them."""
    longest = [max(len(name), *(len(_cell(item.get(name, ""))) for item in items)) for name in columns]
    return len(columns) <= FEW or sum(min(length, BRIEF) + GAP for length in longest) <= console().width * FOLDED


def _print_blocks(columns: list[str], items: list[dict[str, Any]], *, apart: bool) -> None:
    """One thing below the other, for what has more to say than there are columns on the screen."""
    for number, item in enumerate(items):
        if number or apart:
            console().print()
        _print_lines({name: item[name] for name in columns if item.get(name) not in NOTHING})


def _print_lines(lines: dict[str, Any]) -> None:
    """Names, and what each of them has, beside it or below it. Where there is no screen, no line is broken."""
    out = console()
    column = max(map(len, lines), default=0) + GAP
    for name, item in lines.items():
        first, *others = (
            _on_screen(item, column, out.width) if out.is_terminal else _beside(_cell(item).split("\n"), column)
        )
        label = name.ljust(column) if first else name
        out.print(Text.assemble((label, "bold"), "\n".join((first, *others))))


def _on_screen(item: Any, column: int, width: int) -> list[str]:
    """What stands beside a name, and in the lines below. JSON that has no room beside it is below as a whole."""
    if not isinstance(item, dict | list):
        return _beside(wrapped(_cell(item), width - column), column)
    if fits(line := shown(one_line(item)), width - column):
        return [line]
    return ["", *(STEP + shown(one) for one in laid_out(item, width - len(STEP)))]


def _beside(lines: list[str], column: int) -> list[str]:
    first, *others = lines
    return [first, *(" " * column + other for other in others)]


def _tells(name: str, items: list[dict[str, Any]]) -> bool:
    """Whether a column says anything that the others do not."""
    return name not in UNTOLD and any(item.get(name) not in NOTHING for item in items)


def brief(text: str, limit: int | None) -> str:
    """A text on one line, cut if it is longer than it may be."""
    if limit is None:
        return text
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return utc(value)
    return shown(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def show(value: Any, as_json: bool, readable: Callable[[], None] | None = None) -> None:
    if as_json:
        print_json(value)
    elif readable is not None:
        readable()
    else:
        print_value(value)
