"""Printers of certain answers, by room. `output.print_value` prints all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer
from rich.text import Text
from rich.tree import Tree

from .output import (
    MIN_WIDTH,
    console,
    count_noun,
    drop_warnings,
    escape,
    format_problems,
    format_time,
    list_warnings,
    one_line,
    print_dim,
    print_json,
    print_next_page,
    print_note,
    print_table,
    print_turn,
    print_value,
    print_warnings,
    shorten,
    show_lifetime,
    to_json,
    wrapping_console,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ...banks.entries import Loaded, Matches
    from ...context.contexts import Context
    from ...context.memory_namespace import RenderedText
    from ...facts.consolidation import Consolidated
    from ...facts.memories import Memories, Memory, MemoryHistory
    from ...facts.plans import Distilled, Plan
    from ...facts.search import Hits, WhyNot
    from ...models.completer import ToolCall
    from ...timelines.flows import Ended, SessionView
    from ...workflows.operations import Checked
    from ...workflows.run_operations import Run
    from ...workflows.run_rows import ModelExchange

BAR = 12
MAX_CONTENT = 300
"""Characters of a hit's content; `--json` prints all of it."""
DETAIL = "    "
QUARANTINE = {"secret": "it looks like a secret", "instruction": "it looks like an instruction to the agent"}
INPUT_START = 60
"""Characters of a run's input in a list of runs."""
MARKS = {
    "running": ("●", "yellow"),
    "retrying": ("●", "yellow"),
    "done": ("✓", "green"),
    "cached": ("✓", "cyan"),
    "skipped": ("–", "dim"),
    "failed": ("✗", "red"),
    "interrupted": ("✗", "red"),
    "cancelled": ("✗", "yellow"),
}


# -- lists

Column = str | tuple[str, Callable[[Any], Any]]
"""The name of a field, or a title and a function of the item."""


class ListTable(NamedTuple):
    """A list as a table: the field with its items, empty for a bare list, and its columns. If there is no room for all, those
    that `drops_columns` lose the last ones."""

    field: str
    columns: tuple[Column, ...]
    drops_columns: bool = False

    def print(self, found: Any) -> None:
        items = getattr(found, self.field) if self.field else found
        columns = dict((column, attrgetter(column)) if isinstance(column, str) else column for column in self.columns)
        rows = [{name: cell(one) for name, cell in columns.items()} for one in items]
        print_table(rows, f"No {self.field.replace('_', ' ')}.", drops_columns=self.drops_columns)
        print_next_page(getattr(found, "next_cursor", None))


def _format_scope(one: Any) -> str:
    parts = (("workflow", one.workflow), ("thread", one.thread), ("run", one.run))
    return ", ".join(f"{word} {name}" for word, name in parts if name)


_VERSION = ("version", "updated_at", "expires_at", "value")
_TABLES = {
    "UserRecords": ListTable("records", ("name", *_VERSION)),
    "MemoryRecords": ListTable("records", ("owner", ("of", _format_scope), *_VERSION)),
    "StoreRecords": ListTable("records", ("user_id", "session_id", *_VERSION)),
    "Stores": ListTable(
        "stores",
        (
            *("technical_name", "name", "access"),
            ("retention", lambda one: show_lifetime("retention", one.retention)),
            *("strict", "updated_at"),
        ),
    ),
    "Apps": ListTable(
        "apps",
        ("app", "stores", ("answered_by", lambda one: one.function or one.workflow), "updated_at", "description"),
    ),
    "SessionList": ListTable(
        "sessions",
        (
            "session_id",
            ("user", lambda one: one.session_info.user_id),
            ("last_run", lambda one: one.session_info.run_id),
            ("last_active", lambda one: one.session_info.timestamp),
            "metadata",
        ),
    ),
    "Plans": ListTable(
        "plans",
        (
            ("when", lambda plan: _last_change_at(plan)),
            "session",
            ("statements", lambda plan: _format_counts(plan.counts)),
            *("state", "id"),
        ),
    ),
}
_BANK_ENTRIES = ("key", "seq", "speaker", "content", "created_at", "id", "metadata", "summary_of", "compacted_into")
_TABLES |= {
    "BankEntries": ListTable("entries", _BANK_ENTRIES, drops_columns=True),
    "RecordHistory": ListTable(
        "versions", ("version", "written_at", "mode", "actor", "value", "expires_at"), drops_columns=True
    ),
    "FileList": ListTable(
        "files",
        (
            "filename",
            "file_id",
            "state",
            ("active", attrgetter("is_active")),
            "size",
            "mimetype",
            "created_at",
            "reason",
        ),
        drops_columns=True,
    ),
    "RunList": ListTable(
        "runs",
        (
            *("status", "name", "id", ("started", attrgetter("started_at"))),
            ("seconds", lambda run: f"{(run.ended_at - run.started_at).total_seconds():.1f}" if run.ended_at else None),
            ("input", lambda run: shorten(run.input[: 10 * INPUT_START], INPUT_START)),
        ),
        drops_columns=True,
    ),
}
_LISTS = {
    "HookInfo": ListTable(
        "",
        (
            *("name", "id", "enabled", "priority", "selector_key"),
            ("prompt", lambda hook: shorten(hook.markdown_template[: 10 * INPUT_START], INPUT_START)),
            *("updated_at", "description"),
        ),
        drops_columns=True,
    ),
    "BankTemplate": ListTable("", ("name", "purpose", "settings"), drops_columns=True),
}
"""Tables of bare lists, by the names of their items."""
_BANKS = ListTable(
    "memory_banks",
    (
        *("name", "id", "type"),
        ("retention", lambda bank: show_lifetime("retention_days", bank.retention_days)),
        *("updated_at", "mode", "max_turns", "max_size_tokens", "description"),
    ),
    drops_columns=True,
)
_DEFINITIONS = ListTable(
    "definitions",
    (
        *("name", "slug", "scope"),
        ("ttl", lambda one: show_lifetime("ttl_seconds", one.ttl_seconds)),
        *("created_at", "updated_at"),
    ),
)
"""The columns of the contract (S3.2)."""


def _print_page(table: ListTable, found: Any) -> None:
    table.print(found)
    if found.page * found.limit < found.total:
        print_dim(f"{found.total} in all; there is more: --page {found.page + 1}")


# -- facts


def _print_memories(found: Memories) -> None:
    for memory in found.memories:
        _print_memory(memory)
    if not found.memories:
        print_dim("No memories.")
    if found.held and not any(memory.held for memory in found.memories):
        print_dim(f"{found.held} quarantined; `memwell flow held` and `memwell user held` list them.")
    print_next_page(found.next_cursor)


def _print_memory(memory: Memory) -> None:
    console().print(Text(one_line(memory.content)))
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
        console().print(Text.assemble((f"{step.do:11}", "bold"), one_line(step.text)))
        _print_details(
            step.reason.replace("_", " ").replace(":", ": "),
            _quarantine(step.held),
            "true once" if step.past else None,
            _label("about", step.subject),
            step.id,
            _label("ends", ", ".join(step.ends or ())),
        )
    for one in plan.skipped:
        console().print(
            Text.assemble(
                ("skipped    ", "bold"), one_line(one.text or ""), (f"  {one.reason.replace('_', ' ')}", "dim")
            )
        )


def _print_memory_history(found: MemoryHistory) -> None:
    out = console()
    about = f" about {escape(found.subject)}" if found.subject else ""
    out.print(Text.assemble(("Memory ", "bold"), (found.id, "bold cyan"), about))
    for version in found.versions:
        out.print(Text.assemble((f"{version.version:<3}{version.kind:6}", "bold"), one_line(version.content)))
        _print_details(
            _quarantine(version.held),
            _period("known", version.known_from, version.known_to),
            _period("true", version.valid_from, version.valid_to),
            f"confidence {version.confidence:g}",
            _label("plan", version.plan),
        )
    out.print(Text("Evidence", style="bold"))
    for one in found.evidence:
        out.print(Text("(expired)", style="dim") if one.words is None else Text(one_line(one.words)))
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


# -- sessions and search


def _print_session(view: SessionView) -> None:
    out = console()
    out.print(Text.assemble(("Session ", "bold"), (view.session, "bold cyan")))
    state = f"ended {format_time(view.ended_at)}" if view.ended_at else "open"
    times = f"created {format_time(view.created_at)} · last active {format_time(view.last_active_at)}"
    out.print(Text(f"flow {view.flow} · {state} · {times}", "dim"))
    out.print(Text("\nConversation", style="bold"))
    if view.turn_count > len(view.turns):
        print_dim(f"({view.turn_count - len(view.turns)} earlier turns; --limit shows more)")
    for turn in view.turns:
        print_turn(msgspec.structs.asdict(turn))
    if not view.turns:
        print_dim("No turns.")
    out.print(Text("\nSemantic memories", style="bold"))
    for memory in view.memories:
        scores = f"  importance {memory.importance:g}, confidence {memory.confidence:g}"
        out.print(Text.assemble("- ", escape(memory.content), (scores, "dim")))
    if not view.memories:
        print_dim("None.")
    print_dim(_format_distilled(view.distilled, view.ended_at is not None))


def _print_ended(found: Ended) -> None:
    if found.ended_at is None:
        return print_dim(f"Session {escape(found.session)} has no turns: there is nothing to end.")
    console().print(Text(f"Session {escape(found.session)} is ended."))
    if found.distilled is not None:
        print_dim(_format_distilled(found.distilled, ended=True))
    if found.job and (found.distilled is None or found.distilled.waiting):
        print_dim(f"Job {found.job} consolidates it; `memwell show {escape(found.session)}` shows the facts.")
    return None


def _format_distilled(counts: Distilled, ended: bool) -> str:
    """Return a text such as "3 kept, 0 held, 5 skipped; still distilling 2 turns"."""
    line = f"{counts.kept} kept, {counts.held} held, {counts.skipped} skipped"
    if not counts.waiting:
        return line
    turns = count_noun(counts.waiting, "turn")
    return f"{line}; still distilling {turns}" if ended else f"{line}; {turns} to distil when the session ends"


def _print_hits(hits: Hits) -> None:
    margin = " " * (BAR + 8)
    for hit in hits.hits:
        console().print(Text.assemble(_draw_score(hit.score), shorten(escape(hit.content), MAX_CONTENT)))
        speaker = escape(hit.name) if hit.name else hit.role
        session = hit.session and f"session {escape(hit.session)}"
        details = filter(None, [hit.kind, speaker, session, format_time(hit.occurred_at), hit.id])
        print_dim(f"{margin}{' · '.join(details)}")
        if hit.arms:
            parts = "  ".join(f"{name} {part:+.3f}" for name, part in hit.arms.items())
            console().print(Text(f"{margin}{parts}", style="cyan"))
    if not hits.hits:
        print_dim("Nothing was found.")
    _print_search_end(len(hits), hits)


def _print_search_end(count: int, found: Hits | Matches) -> None:
    print_dim(f"{count_noun(count, 'hit')} · {found.method} · {found.took_ms:.1f} ms")
    if found.warning:
        console().print(Text(f"Searched by words only: {escape(found.warning)}", style="yellow"))


def _draw_score(score: float) -> Text:
    full = round(min(max(score, 0), 1) * BAR)
    return Text.assemble(("█" * full, "green"), ("·" * (BAR - full), "dim"), f" {score:.3f}  ")


def _print_why_not(found: WhyNot) -> None:
    console().print(Text.assemble((found.gate, "bold"), f"  {escape(found.detail)}"))


def _print_matches(found: Matches) -> None:
    if found.output is not None:
        return typer.echo(escape(found.output))
    for match in found.matches:
        console().print(Text.assemble(_draw_score(match.score), shorten(escape(match.content), MAX_CONTENT)))
        print_dim(f"{' ' * (BAR + 8)}{escape(match.key)} · {format_time(match.content_publish_date)} · {match.id}")
    if not found.matches:
        print_dim("Nothing was found.")
    _print_search_end(len(found.matches), found)
    return None


def _print_loaded(found: Loaded) -> None:
    """Print the entries of a bank: as they are if they are a text, so that they can be piped."""
    if found.output is not None:
        typer.echo(escape(found.output), nl=not found.output.endswith("\n"))
    elif found.entries is not None:
        _TABLES["BankEntries"].print(found)
    else:
        print_table(found.messages or found.array or [], "No entries.")


# -- context


def _print_context(found: Context) -> None:
    """Print the text alone to standard output, so that it can be piped."""
    if found.text:
        console().print(Text(escape(found.text)))
    else:
        print_note("Nothing is remembered yet.")
    left = f"{len(found.left_out)} left out" if found.left_out else "nothing left out"
    quarantined = f" · {found.held} quarantined" if found.held else ""
    print_note(f"{found.tokens} tokens · {count_noun(len(found.facts), 'fact')} · {left}{quarantined}")
    for one in found.left_out:
        print_note(f"{DETAIL}{one.what} {one.id}: {one.reason.replace('_', ' ')}")


def _print_rendered(found: RenderedText) -> None:
    """Print the text alone; placeholders without a value are warnings."""
    typer.echo(escape(found.text), nl=not found.text.endswith("\n"))
    print_warnings(f"`{{{{{one}}}}}` has no value." for one in found.missing)


# -- workflows


def _print_checked(found: Checked) -> None:
    plain = msgspec.to_builtins(found)
    print_value({name: value for name, value in plain.items() if name not in ("problems", "warnings")})
    for line in format_problems(found.problems):
        typer.echo(line)


def _print_run(run: Run) -> None:
    out = wrapping_console()
    out.print(Text.assemble(_mark(run.status), ("Run ", "bold"), (run.id, "bold cyan"), f"  {escape(run.name)}"))
    names = [f"{name} {escape(value)}" for name, value in (("owner", run.owner), ("thread", run.thread)) if value]
    version = [f"version {run.workflow_version}"] if run.workflow_version else []
    out.print(Text(DETAIL + " · ".join([run.status, *_run_times(run), *version, *names]), style="dim"))
    if run.metadata:
        _print_block(out, "metadata", to_json(run.metadata))
    _print_block(out, "input", run.input)
    if run.inputs:
        _print_block(out, "inputs", to_json(run.inputs))
    tree = Tree(Text(escape(run.name), style="bold"))
    branch = [tree]
    for step in run.steps:
        del branch[step.level + 1 :]
        line = format_step(step.id, step.step_type, step.status, step.duration_seconds, step.error, step.wrote)
        branch.append(branch[-1].add(line))
    out.print(tree)
    for step in run.steps:
        attempts = f"  {step.attempts} attempts" if step.attempts > 1 else ""
        cut = "  cut: there was more" if step.cut else ""
        tokens = f"  {step.tokens_in} tokens in, {step.tokens_out} out" if step.tokens_in or step.tokens_out else ""
        about = f"  {escape(step.step_type)}{attempts}{tokens}{cut}"
        out.print(Text.assemble((escape(step.id), "bold"), (about, "dim")))
        _print_block(out, "input", step.input)
        for call in step.model_calls:
            _print_model_call(out, call)
        _print_block(out, "output", step.output)
        _print_block(out, "error", step.error or "", "red")
    out.print(Text("Result", style="bold"))
    _print_block(out, "error", run.error or "", "red")
    _print_block(out, "output", run.output or "")


def _print_model_call(out: Console, call: ModelExchange) -> None:
    """Print what was sent to a model, and what came back."""
    tools = f", tools {', '.join(tool.name for tool in call.tools)}" if call.tools else ""
    cached = f" ({call.tokens_cached} cached)" if call.tokens_cached else ""
    spent = f"{call.tokens_in} tokens in{cached}, {call.tokens_out} out, {call.seconds:.2f} s"
    cut = ", cut: there was more" if call.cut else ""
    out.print(Text(f"{DETAIL}call of {escape(call.model)}: {spent}{escape(tools)}{cut}", style="dim"))
    for message in call.messages:
        _print_block(out, f"  {message.role}", message.content + _render_calls(message.tool_calls))
    _print_block(out, "  answer", (call.answer or "") + _render_calls(call.tool_calls))
    _print_block(out, "  error", call.error or "", "red")


def _render_calls(calls: Iterable[ToolCall]) -> str:
    return "".join(f"\n→ {call.name}({call.arguments})" for call in calls)


def _run_times(run: Run) -> Iterator[str]:
    yield format_time(run.started_at)
    if run.ended_at is not None:
        yield f"{(run.ended_at - run.started_at).total_seconds():.1f} s"


def format_step(
    step: str, kind: str, state: str, seconds: float | None, error: str | None, wrote: bool | None = None
) -> Text:
    """A step in a tree: its state, name, duration and error."""
    line = Text.assemble(_mark(state), escape(step), (f"  {escape(kind)}", "dim"))
    if seconds is not None:
        line.append(f"  {seconds * 1000:.0f} ms", style="dim")
    if state == "cached":
        line.append("  from memory", style="cyan")
    if state == "skipped" or wrote is False:
        line.append("  skipped" if state == "skipped" else "  nothing to write", style="dim")
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


PRINTERS: Mapping[str, Callable[[Any], None]] = {
    **{name: table.print for name, table in _TABLES.items()},
    "BankList": partial(_print_page, _BANKS),
    "DefinitionList": partial(_print_page, _DEFINITIONS),
    "Loaded": _print_loaded,
    "Matches": _print_matches,
    "Memories": _print_memories,
    "Memory": _print_memory,
    "Plan": _print_plan,
    "Consolidated": _print_consolidated,
    "MemoryHistory": _print_memory_history,
    "Ended": _print_ended,
    "SessionView": _print_session,
    "Hits": _print_hits,
    "WhyNot": _print_why_not,
    "Context": _print_context,
    "RenderedText": _print_rendered,
    "Checked": _print_checked,
    "AppDocument": lambda found: print_json(found.document),
    "Run": _print_run,
}
"""Printers by the names of responses, so that a command loads only the rooms that it uses."""


def print_response(answer: Any, as_json: bool) -> None:
    """Print the response of an operation, and its warnings to stderr."""
    if as_json:
        return print_json(answer)  # with its warnings
    printer = PRINTERS.get(type(answer).__name__)
    if isinstance(answer, list) and answer and (table := _LISTS.get(type(answer[0]).__name__)):
        printer = table.print
    if printer is not None:
        printer(answer)
    else:
        print_value(drop_warnings(answer))
    return print_warnings(list_warnings(answer))
