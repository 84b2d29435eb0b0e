"""Lists as people read them: a line for each thing, with what tells it apart. Everything else is in `--json`, or shown by the
command that gets one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from ...context.contexts import Context
from ...context.memory_namespace import RenderedText
from ...facts.memories import Memories, Memory
from ...facts.plans import Consolidated, Plan, Plans, PlanStep
from ...facts.provenance import Evidence, MemoryHistory, Version
from ...records.app_sessions import SessionList, SessionMeta
from ...records.apps import Apps
from ...records.contents import StoreRecords
from ...records.definitions import DefinitionList
from ...records.stores import Stores
from ...records.user_records import UserRecords
from ...records.working_memory import MemoryRecord, MemoryRecords
from ...workflows.app_transfer import AppDocument
from ...workflows.operations import Checked
from ...workflows.run_operations import Run, RunList
from .messages import warn
from .output import GAP, UNLIMITED, console, print_json, print_more, print_table, print_value, problem_lines, shown, utc
from .workflow import print_run, print_runs

Row = Sequence[Any]
MINUTES, DAYS = "%Y-%m-%d %H:%M", "%Y-%m-%d"
LEAST = 20
"""How much of its wide column a line shows, however little room there is."""


def print_records(found: UserRecords) -> None:
    titles = ("NAME", "VERSION", "UPDATED", "EXPIRES", "VALUE")
    rows = [(one.name, one.version, one.updated_at, one.expires_at, _json(one.value)) for one in found.records]
    _print(titles, rows, "No records.", wide="VALUE")
    print_more(found.next_cursor)


def print_stores(found: Stores) -> None:
    titles = ("TECHNICAL NAME", "NAME", "ACCESS", "RETENTION", "STRICT", "UPDATED")
    rows = [
        (one.technical_name, one.name, one.access, one.retention, _yes(one.strict), one.updated_at)
        for one in found.stores
    ]
    _print(titles, rows, "No stores.", wide="NAME")


def print_definitions(found: DefinitionList) -> None:
    """The columns of the contract (S3.2)."""
    titles = ("NAME", "SLUG", "SCOPE", "TTL", "CREATED", "UPDATED")
    rows = [
        (one.name, one.slug, one.scope, _seconds(one.ttl_seconds), one.created_at, one.updated_at)
        for one in found.definitions
    ]
    _print(titles, rows, "No definitions.", wide="NAME")
    if found.page * found.limit < found.total:
        console().print(Text(f"{found.total} in all; there is more: --page {found.page + 1}", style="dim"))


def print_owned(found: MemoryRecords) -> None:
    """The records of a definition, and whose they are."""
    titles = ("OWNER", "OF", "VERSION", "UPDATED", "EXPIRES", "VALUE")
    rows = [
        (one.owner, _scope(one), one.version, one.updated_at, one.expires_at, _json(one.value)) for one in found.records
    ]
    _print(titles, rows, "No records.", wide="VALUE")
    print_more(found.next_cursor)


def print_contents(found: StoreRecords) -> None:
    """The records of a store, and whose they are."""
    titles = ("USER", "SESSION", "VERSION", "UPDATED", "EXPIRES", "VALUE")
    rows = [
        (one.user_id, one.session_id, one.version, one.updated_at, one.expires_at, _json(one.value))
        for one in found.records
    ]
    _print(titles, rows, "No records.", wide="VALUE")
    print_more(found.next_cursor)


def print_apps(found: Apps) -> None:
    titles = ("APP", "STORES", "ANSWERED BY", "UPDATED", "DESCRIPTION")
    rows = [(one.app, one.stores, one.function or one.workflow, one.updated_at, one.description) for one in found.apps]
    _print(titles, rows, "No apps.", wide="DESCRIPTION")


def print_sessions(found: SessionList) -> None:
    titles = ("SESSION", "USER", "LAST RUN", "LAST ACTIVE", "METADATA")
    _print(titles, [_session(one) for one in found.sessions], "No sessions.", wide="METADATA")
    print_more(found.next_cursor)


def _session(one: SessionMeta) -> Row:
    info = one.session_info
    at = datetime.fromisoformat(info["timestamp"]) if "timestamp" in info else None
    metadata = _json(one.metadata) if one.metadata else ""
    return one.session_id, info.get("userId"), info.get("runId"), at, metadata


LISTS: Mapping[type, Any] = {
    UserRecords: print_records,
    Stores: print_stores,
    DefinitionList: print_definitions,
    MemoryRecords: print_owned,
    StoreRecords: print_contents,
    Apps: print_apps,
    SessionList: print_sessions,
}


def _print(titles: Sequence[str], rows: Sequence[Row], empty: str, *, wide: str) -> None:
    """A table. A column in which there is nothing is left out, and the wide one has the room that the others leave; where that
    is little, times are days."""
    if not rows:
        console().print(Text(empty, style="dim"))
        return
    width = _width()
    columns = _columns(titles, rows, MINUTES)
    if width < _needed(columns, wide):
        columns = _columns(titles, rows, DAYS)
    room = width - sum(_longest(title, cells) + GAP for title, cells in columns.items() if title != wide)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, cells in columns.items():
        table.add_column(title, overflow="fold", no_wrap=title == wide or _longest(title, cells) <= LEAST)
    for cell in columns.get(wide, ()):
        cell.truncate(max(LEAST, room), overflow="ellipsis")
    for line in zip(*columns.values(), strict=True):
        table.add_row(*line)
    console(width).print(table)


def _columns(titles: Sequence[str], rows: Sequence[Row], times: str) -> dict[str, list[Text]]:
    found: dict[str, list[Text]] = {}
    for title, values in zip(titles, zip(*rows, strict=True), strict=True):
        if any(value not in (None, "") for value in values):
            is_time = times == MINUTES and any(isinstance(value, datetime) for value in values)
            found[f"{title} (UTC)" if is_time else title] = [_cell(value, times) for value in values]
    return found


def _cell(value: Any, times: str) -> Text:
    if isinstance(value, datetime):
        return Text(format(value.astimezone(UTC), times))
    return Text("" if value is None else " ".join(shown(str(value)).split()))


def _longest(title: str, cells: Sequence[Text]) -> int:
    return max(len(title), *(cell.cell_len for cell in cells))


def _needed(columns: Mapping[str, Sequence[Text]], wide: str) -> int:
    """How wide a screen must be that nothing but the wide column is cut."""
    lengths = {title: _longest(title, cells) for title, cells in columns.items()}
    return sum(GAP + (min(length, LEAST) if title == wide else length) for title, length in lengths.items())


def _width() -> int:
    """That of the terminal; elsewhere no line is broken or cut."""
    out = console()
    return out.width if out.is_terminal else UNLIMITED


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _seconds(ttl: int | None) -> str:
    return "-" if ttl is None else f"{ttl} s"


def _scope(one: MemoryRecord) -> str:
    named = (("workflow", one.workflow), ("thread", one.thread), ("run", one.run))
    return ", ".join(f"{word} {name}" for word, name in named if name)


# -- What is known, as people read it: plans as a table; memories, steps and evidence as lines with what is to be said of each;
# runs and what is wrong with workflows.


INDENT = "    "
HELD = {"secret": "it looks like a secret", "instruction": "it looks like an instruction to the agent"}


def readable(value: Any) -> Callable[[], None] | None:
    """How to print an answer, if it has a form of its own."""
    printer = _PRINTERS.get(type(value))
    return None if printer is None else lambda: printer(value)


def _print_memories(found: Memories) -> None:
    for memory in found.memories:
        _print_memory(memory)
    if not found.memories:
        console().print(Text("No memories.", style="dim"))
    print_more(found.next_cursor)


def _print_memory(memory: Memory) -> None:
    _print_line(Text(_line(memory.content)))
    _print_about(
        _held(memory.held),
        _named("about", memory.subject),
        _named("session", memory.session),
        _span("true", memory.valid_from, memory.valid_to) or f"written {utc(memory.created_at)}",
        f"importance {memory.importance:g}",
        f"confidence {memory.confidence:g}",
        f"version {memory.version}" if memory.version > 1 else None,
        memory.id,
    )


def _print_plans(found: Plans) -> None:
    columns = ("WHEN (UTC)", "SESSION", "STATEMENTS", "STATE", "ID")
    rows = [
        (f"{_at(plan):%Y-%m-%d %H:%M}", plan.session or "-", _counted(plan.counts), plan.state, plan.id)
        for plan in found.plans
    ]
    print_table(columns, rows, "No plans.", whole=("WHEN (UTC)", "STATE", "ID"))
    print_more(found.next_cursor)


def _print_consolidated(found: Consolidated) -> None:
    if found.plan is None:
        console().print(Text("Nothing was said that is not distilled yet.", style="dim"))
    else:
        _print_plan(found.plan)


def _print_plan(plan: Plan) -> None:
    _print_line(Text.assemble(("Plan ", "bold"), (plan.id, "bold cyan")))
    turns = f"turn{'s' if plan.last_seq > plan.first_seq else ''} {plan.first_seq}"
    _print_about(
        _named("session", plan.session),
        f"{turns} to {plan.last_seq}" if plan.last_seq > plan.first_seq else turns,
        f"{plan.state} {utc(_at(plan))}",
        f"by {'rules' if plan.method == 'rules' else 'a model'}",
        _counted(plan.counts),
        plan.note and shown(plan.note),
    )
    for step in plan.steps:
        _print_step(step)


def _print_step(step: PlanStep) -> None:
    _print_line(Text.assemble((f"{step.do:11}", "bold"), _line(step.text)))
    _print_about(
        step.reason.replace("_", " ").replace(":", ": "),
        _held(step.held),
        "true once" if step.past else None,
        _named("about", step.subject),
        step.id,
        _named("ends", ", ".join(step.ends or ())),
    )


def _print_history(found: MemoryHistory) -> None:
    about = f" about {shown(found.subject)}" if found.subject else ""
    _print_line(Text.assemble(("Memory ", "bold"), (found.id, "bold cyan"), about))
    for version in found.versions:
        _print_version(version)
    _print_line(Text("Evidence", style="bold"))
    for evidence in found.evidence:
        _print_evidence(evidence)
    if not found.evidence:
        _print_line(Text("None: it was written directly.", style="dim"))


def _print_version(version: Version) -> None:
    _print_line(Text.assemble((f"{version.version:<3}{version.kind:6}", "bold"), _line(version.content)))
    _print_about(
        _held(version.held),
        _span("known", version.known_from, version.known_to),
        _span("true", version.valid_from, version.valid_to),
        f"confidence {version.confidence:g}",
        _named("plan", version.plan),
    )


def _print_evidence(evidence: Evidence) -> None:
    words = Text(_line(evidence.words)) if evidence.words is not None else Text("(expired)", style="dim")
    _print_line(words)
    _print_about(
        shown(evidence.name) if evidence.name else evidence.role,
        _named("session", evidence.session),
        utc(evidence.said_at),
        f"origin {evidence.origin}",
        f"turn {evidence.turn}",
    )


def _print_context(found: Context) -> None:
    _print_line(Text(shown(found.text)) if found.text else Text("Nothing is remembered yet.", style="dim"))
    left = f"{len(found.left_out)} left out" if found.left_out else "nothing left out"
    _print_line(Text(f"{found.tokens} tokens · {_count(len(found.facts), 'fact')} · {left}", style="dim"))
    for one in found.left_out:
        _print_line(Text(f"{INDENT}{one.what} {one.id}: {one.reason.replace('_', ' ')}", style="dim"))


def _print_rendered(found: RenderedText) -> None:
    """The text alone, for whoever reads it; what it lacks is said beside it."""
    typer.echo(shown(found.text), nl=not found.text.endswith("\n"))
    warn(f"`{{{{{one}}}}}` has no value." for one in found.missing)


def _print_app(found: AppDocument) -> None:
    """The document alone, as a file that can be imported."""
    print_json(found.document)


def _print_checked(found: Checked) -> None:
    about = msgspec.to_builtins(found)
    print_value({name: value for name, value in about.items() if name != "problems"})
    for line in problem_lines(found.problems):
        typer.echo(line)


_PRINTERS: Mapping[type, Callable[[Any], None]] = {
    Memories: _print_memories,
    Memory: _print_memory,
    Plans: _print_plans,
    Plan: _print_plan,
    Consolidated: _print_consolidated,
    MemoryHistory: _print_history,
    Context: _print_context,
    Checked: _print_checked,
    AppDocument: _print_app,
    RenderedText: _print_rendered,
    **LISTS,
    Run: print_run,
    RunList: print_runs,
}


def _held(reason: str | None) -> str | None:
    return None if reason is None else f"held back: {HELD.get(reason, shown(reason))}"


def _named(word: str, name: str | None) -> str | None:
    return f"{word} {shown(name)}" if name else None


def _span(word: str, start: datetime | None, end: datetime | None) -> str | None:
    since = f"{word} {'from' if end else 'since'} {utc(start)}"
    return None if start is None else since + (f" to {utc(end)}" if end else "")


def _at(plan: Plan) -> datetime:
    return (plan.reverted_at or plan.applied_at or plan.created_at).astimezone(UTC)


def _counted(counts: Mapping[str, int]) -> str:
    """Such as "3 added, 1 held"."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _line(content: str) -> str:
    return " ".join(shown(content).split())


def _print_line(line: Text) -> None:
    console().print(line)


def _print_about(*parts: str | None) -> None:
    console().print(Text(INDENT + " · ".join(filter(None, parts)), style="dim"))
