"""Printers of certain answers, by room. `output.print_value` prints all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from .output import (
    GAP,
    MIN_WIDTH,
    UNLIMITED,
    console,
    count_noun,
    escape,
    format_problems,
    format_time,
    print_dim,
    print_json,
    print_next_page,
    print_table,
    print_value,
    print_warnings,
    shorten,
    wrapping_console,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ...context.contexts import Context
    from ...context.memory_namespace import RenderedText
    from ...facts.memories import Memories, Memory, MemoryHistory
    from ...facts.plans import Consolidated, Plan, Plans
    from ...workflows.operations import Checked
    from ...workflows.run_operations import Run, RunList

DETAIL = "    "
MINUTES, DAYS = "%Y-%m-%d %H:%M", "%Y-%m-%d"
QUARANTINE = {"secret": "it looks like a secret", "instruction": "it looks like an instruction to the agent"}
INPUT_START = 60
"""Characters of a run's input in a list of runs."""
MARKS = {
    "running": ("●", "yellow"),
    "retrying": ("●", "yellow"),
    "done": ("✓", "green"),
    "cached": ("✓", "cyan"),
    "failed": ("✗", "red"),
    "interrupted": ("✗", "red"),
}


# -- lists of records


Column = str | tuple[str, Callable[[Any], Any]]
"""The name of a field, or a title and a function of the item."""


class ListTable(NamedTuple):
    """A list as a table: the field with its items, the widest column, and all columns."""

    field: str
    wide: str
    columns: tuple[Column, ...]

    def print(self, found: Any) -> None:
        titles, cells = [], []
        for column in self.columns:
            name, cell = (column, attrgetter(column)) if isinstance(column, str) else column
            titles.append(name.removesuffix("_at").removesuffix("_id").replace("_", " ").upper())
            cells.append(cell)
        rows = [[cell(one) for cell in cells] for one in getattr(found, self.field)]
        _print_rows(titles, rows, f"No {self.field}.", wide=self.wide)
        print_next_page(getattr(found, "next_cursor", None))


def _format_scope(one: Any) -> str:
    parts = (("workflow", one.workflow), ("thread", one.thread), ("run", one.run))
    return ", ".join(f"{word} {name}" for word, name in parts if name)


def _last_active_at(session: Any) -> datetime | None:
    info = session.session_info
    return datetime.fromisoformat(info["timestamp"]) if "timestamp" in info else None


_VERSION: tuple[Column, ...] = ("version", "updated_at", "expires_at", ("VALUE", lambda one: _json(one.value)))
_TABLES = {
    "UserRecords": ListTable("records", "VALUE", ("name", *_VERSION)),
    "MemoryRecords": ListTable("records", "VALUE", ("owner", ("OF", _format_scope), *_VERSION)),
    "StoreRecords": ListTable("records", "VALUE", ("user_id", "session_id", *_VERSION)),
    "Stores": ListTable(
        "stores",
        "NAME",
        (
            *("technical_name", "name", "access", "retention"),
            ("STRICT", lambda one: "yes" if one.strict else "no"),
            "updated_at",
        ),
    ),
    "Apps": ListTable(
        "apps",
        "DESCRIPTION",
        ("app", "stores", ("ANSWERED BY", lambda one: one.function or one.workflow), "updated_at", "description"),
    ),
    "SessionList": ListTable(
        "sessions",
        "METADATA",
        (
            "session_id",
            ("USER", lambda one: one.session_info.get("userId")),
            ("LAST RUN", lambda one: one.session_info.get("runId")),
            ("LAST ACTIVE", _last_active_at),
            ("METADATA", lambda one: _json(one.metadata) if one.metadata else ""),
        ),
    ),
}
_DEFINITIONS = ListTable(
    "definitions",
    "NAME",
    (
        *("name", "slug", "scope"),
        ("TTL", lambda one: "-" if one.ttl_seconds is None else f"{one.ttl_seconds} s"),
        *("created_at", "updated_at"),
    ),
)
"""The columns of the contract (S3.2)."""


def _print_definitions(found: Any) -> None:
    _DEFINITIONS.print(found)
    if found.page * found.limit < found.total:
        print_dim(f"{found.total} in all; there is more: --page {found.page + 1}")


def _print_rows(titles: Sequence[str], rows: Sequence[Sequence[Any]], empty: str, *, wide: str) -> None:
    """Print a table without its empty columns. The wide column gets the room that the others leave; if that is little, times
    are printed as days."""
    if not rows:
        print_dim(empty)
        return
    out = console()
    width = out.width if out.is_terminal else UNLIMITED
    columns = _to_columns(titles, rows, MINUTES)
    lengths = {title: _longest(title, cells) for title, cells in columns.items()}
    if width < sum(GAP + (min(size, MIN_WIDTH) if title == wide else size) for title, size in lengths.items()):
        columns = _to_columns(titles, rows, DAYS)
        lengths = {title: _longest(title, cells) for title, cells in columns.items()}
    room = width - sum(size + GAP for title, size in lengths.items() if title != wide)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in columns:
        table.add_column(title, overflow="fold", no_wrap=title == wide or lengths[title] <= MIN_WIDTH)
    for cell in columns.get(wide, ()):
        cell.truncate(max(MIN_WIDTH, room), overflow="ellipsis")
    for line in zip(*columns.values(), strict=True):
        table.add_row(*line)
    console(width).print(table)


def _to_columns(titles: Sequence[str], rows: Sequence[Sequence[Any]], time_format: str) -> dict[str, list[Text]]:
    def to_cell(value: Any) -> Text:
        if isinstance(value, datetime):
            return Text(format(value.astimezone(UTC), time_format))
        return Text("" if value is None else _one_line(str(value)))

    columns: dict[str, list[Text]] = {}
    for title, values in zip(titles, zip(*rows, strict=True), strict=True):
        if any(value not in (None, "") for value in values):
            is_time = time_format == MINUTES and any(isinstance(value, datetime) for value in values)
            columns[f"{title} (UTC)" if is_time else title] = [to_cell(value) for value in values]
    return columns


def _longest(title: str, cells: Sequence[Text]) -> int:
    return max(len(title), *(cell.cell_len for cell in cells))


# -- facts


def _print_memories(found: Memories) -> None:
    for memory in found.memories:
        _print_memory(memory)
    if not found.memories:
        print_dim("No memories.")
    print_next_page(found.next_cursor)


def _print_memory(memory: Memory) -> None:
    console().print(Text(_one_line(memory.content)))
    _print_details(
        _quarantine(memory.held),
        _label("about", memory.subject),
        _label("session", memory.session),
        _period("true", memory.valid_from, memory.valid_to) or f"written {format_time(memory.created_at)}",
        f"importance {memory.importance:g}",
        f"confidence {memory.confidence:g}",
        f"version {memory.version}" if memory.version > 1 else None,
        memory.id,
    )


def _print_plans(found: Plans) -> None:
    columns = ("WHEN (UTC)", "SESSION", "STATEMENTS", "STATE", "ID")
    rows = [
        (format(_last_change_at(plan), MINUTES), plan.session or "-", _format_counts(plan.counts), plan.state, plan.id)
        for plan in found.plans
    ]
    print_table(columns, rows, "No plans.", unbroken=("WHEN (UTC)", "STATE", "ID"))
    print_next_page(found.next_cursor)


def _print_consolidated(found: Consolidated) -> None:
    if found.plan is None:
        print_dim("There is nothing new to consolidate.")
    else:
        _print_plan(found.plan)


def _print_plan(plan: Plan) -> None:
    console().print(Text.assemble(("Plan ", "bold"), (plan.id, "bold cyan")))
    _print_details(
        _label("session", plan.session),
        f"turns {plan.first_seq} to {plan.last_seq}" if plan.last_seq > plan.first_seq else f"turn {plan.first_seq}",
        f"{plan.state} {format_time(_last_change_at(plan))}",
        f"by {'rules' if plan.method == 'rules' else 'a model'}",
        _format_counts(plan.counts),
        plan.note and escape(plan.note),
    )
    for step in plan.steps:
        console().print(Text.assemble((f"{step.do:11}", "bold"), _one_line(step.text)))
        _print_details(
            step.reason.replace("_", " ").replace(":", ": "),
            _quarantine(step.held),
            "true once" if step.past else None,
            _label("about", step.subject),
            step.id,
            _label("ends", ", ".join(step.ends or ())),
        )


def _print_memory_history(found: MemoryHistory) -> None:
    out = console()
    about = f" about {escape(found.subject)}" if found.subject else ""
    out.print(Text.assemble(("Memory ", "bold"), (found.id, "bold cyan"), about))
    for version in found.versions:
        out.print(Text.assemble((f"{version.version:<3}{version.kind:6}", "bold"), _one_line(version.content)))
        _print_details(
            _quarantine(version.held),
            _period("known", version.known_from, version.known_to),
            _period("true", version.valid_from, version.valid_to),
            f"confidence {version.confidence:g}",
            _label("plan", version.plan),
        )
    out.print(Text("Evidence", style="bold"))
    for one in found.evidence:
        out.print(Text("(expired)", style="dim") if one.words is None else Text(_one_line(one.words)))
        _print_details(
            escape(one.name) if one.name else one.role,
            _label("session", one.session),
            format_time(one.said_at),
            f"origin {one.origin}",
            f"turn {one.turn}",
        )
    if not found.evidence:
        print_dim("None: it was written directly.")


def _quarantine(reason: str | None) -> str | None:
    return None if reason is None else f"quarantined: {QUARANTINE.get(reason, escape(reason))}"


def _last_change_at(plan: Plan) -> datetime:
    return (plan.reverted_at or plan.applied_at or plan.created_at).astimezone(UTC)


def _format_counts(counts: Mapping[str, int]) -> str:
    """Return a text such as "3 added, 1 held"."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


# -- context


def _print_context(found: Context) -> None:
    console().print(Text(escape(found.text)) if found.text else Text("Nothing is remembered yet.", style="dim"))
    left = f"{len(found.left_out)} left out" if found.left_out else "nothing left out"
    print_dim(f"{found.tokens} tokens · {count_noun(len(found.facts), 'fact')} · {left}")
    for one in found.left_out:
        print_dim(f"{DETAIL}{one.what} {one.id}: {one.reason.replace('_', ' ')}")


def _print_rendered(found: RenderedText) -> None:
    """Print the text alone; placeholders without a value are warnings."""
    typer.echo(escape(found.text), nl=not found.text.endswith("\n"))
    print_warnings(f"`{{{{{one}}}}}` has no value." for one in found.missing)


# -- workflows


def _print_checked(found: Checked) -> None:
    plain = msgspec.to_builtins(found)
    print_value({name: value for name, value in plain.items() if name != "problems"})
    for line in format_problems(found.problems):
        typer.echo(line)


def _print_runs(found: RunList) -> None:
    out = wrapping_console()
    for run in found.runs:
        line = Text.assemble(_mark(run.status), (run.status, "bold"), f"  {escape(run.name)}")
        if run.input:
            line.append(f"  {shorten(escape(run.input[: 10 * INPUT_START]), INPUT_START)}", "dim")
        out.print(line, no_wrap=True, overflow="ellipsis")
        out.print(Text(DETAIL + " · ".join((run.id, *_run_times(run))), style="dim"))
    if not found.runs:
        out.print(Text("No runs.", style="dim"))


def _print_run(run: Run) -> None:
    out = wrapping_console()
    out.print(Text.assemble(_mark(run.status), ("Run ", "bold"), (run.id, "bold cyan"), f"  {escape(run.name)}"))
    names = [f"{name} {escape(value)}" for name, value in (("owner", run.owner), ("thread", run.thread)) if value]
    version = [f"version {run.workflow_version}"] if run.workflow_version else []
    out.print(Text(DETAIL + " · ".join([run.status, *_run_times(run), *version, *names]), style="dim"))
    if run.metadata:
        _print_block(out, "metadata", _json(run.metadata))
    _print_block(out, "input", run.input)
    tree = Tree(Text(escape(run.name), style="bold"))
    branch = [tree]
    for step in run.steps:
        del branch[step.level + 1 :]
        line = format_step(step.id, step.step_type, step.status, step.duration_seconds, step.error)
        branch.append(branch[-1].add(line))
    out.print(tree)
    for step in run.steps:
        attempts = f"  {step.attempts} attempts" if step.attempts > 1 else ""
        cut = "  cut: there was more" if step.cut else ""
        out.print(Text.assemble((escape(step.id), "bold"), (f"  {escape(step.step_type)}{attempts}{cut}", "dim")))
        _print_block(out, "input", step.input)
        _print_block(out, "output", step.output)
        _print_block(out, "error", step.error or "", "red")
    out.print(Text("Result", style="bold"))
    _print_block(out, "error", run.error or "", "red")
    _print_block(out, "output", run.output or "")


def _run_times(run: Run) -> Iterator[str]:
    yield format_time(run.started_at)
    if run.ended_at is not None:
        yield f"{(run.ended_at - run.started_at).total_seconds():.1f} s"


def format_step(step: str, kind: str, state: str, seconds: float | None, error: str | None) -> Text:
    """A step in a tree: its state, name, duration and error."""
    line = Text.assemble(_mark(state), escape(step), (f"  {escape(kind)}", "dim"))
    if seconds is not None:
        line.append(f"  {seconds * 1000:.0f} ms", style="dim")
    if state == "cached":
        line.append("  from memory", style="cyan")
    if error:
        line.append(f"\n{escape(error)}", style="red")
    return line


def _mark(state: str) -> tuple[str, str]:
    mark, colour = MARKS.get(state, ("?", "red"))
    return f"{mark} ", colour


def _print_block(out: Console, title: str, text: str, style: str = "") -> None:
    if not text:
        return
    out.print(Text(f"{DETAIL}{title}", style="dim"))
    for line in Text(escape(text)).wrap(out, max(MIN_WIDTH, out.width - 2 * len(DETAIL))):
        line.rstrip()
        out.print(Text.assemble(DETAIL * 2, (line.plain, style)))


# -- shared


def _print_details(*parts: str | None) -> None:
    print_dim(DETAIL + " · ".join(filter(None, parts)))


def _label(word: str, name: str | None) -> str | None:
    return f"{word} {escape(name)}" if name else None


def _period(word: str, start: datetime | None, end: datetime | None) -> str | None:
    if start is None:
        return None
    return f"{word} {'from' if end else 'since'} {format_time(start)}" + (f" to {format_time(end)}" if end else "")


def _one_line(text: str) -> str:
    return " ".join(escape(text).split())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


PRINTERS: Mapping[str, Callable[[Any], None]] = {
    **{name: table.print for name, table in _TABLES.items()},
    "DefinitionList": _print_definitions,
    "Memories": _print_memories,
    "Memory": _print_memory,
    "Plans": _print_plans,
    "Plan": _print_plan,
    "Consolidated": _print_consolidated,
    "MemoryHistory": _print_memory_history,
    "Context": _print_context,
    "RenderedText": _print_rendered,
    "Checked": _print_checked,
    "AppDocument": lambda found: print_json(found.document),
    "Run": _print_run,
    "RunList": _print_runs,
}
"""Printers by the names of responses, so that a command loads only the rooms that it uses."""
