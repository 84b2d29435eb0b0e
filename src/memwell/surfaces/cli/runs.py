"""Runs of workflows as people read them: a list of what was asked, and of one run what each step was given, gave and took."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from ...workflow.run_operations import Run, RunList, StepRun
from .output import brief, folding, shown, utc

INDENT = "    "
FIRST_WORDS = 60
_MARKS = {
    "running": ("●", "yellow"),
    "retrying": ("●", "yellow"),
    "done": ("✓", "green"),
    "cached": ("✓", "cyan"),
    "failed": ("✗", "red"),
    "interrupted": ("✗", "red"),
}


def step_line(step: str, kind: str, state: str, seconds: float | None, error: str | None) -> Text:
    """A step in a tree: its state, its name, how long it took, and why it failed."""
    line = Text.assemble(_mark(state), shown(step), (f"  {shown(kind)}", "dim"))
    if seconds is not None:
        line.append(f"  {seconds * 1000:.0f} ms", style="dim")
    if state == "cached":
        line.append("  from memory", style="cyan")
    if error:
        line.append(f"\n{shown(error)}", style="red")
    return line


def print_runs(found: RunList) -> None:
    out = folding()
    for run in found.runs:
        first = Text.assemble(_mark(run.status), (run.status, "bold"), f"  {shown(run.name)}")
        if run.input:
            first.append(f"  {brief(shown(run.input[: 10 * FIRST_WORDS]), FIRST_WORDS)}", "dim")
        out.print(first, no_wrap=True, overflow="ellipsis")
        out.print(Text(INDENT + " · ".join(_about(run)), style="dim"))
    if not found.runs:
        out.print(Text("No runs.", style="dim"))


def print_run(run: Run) -> None:
    out = folding()
    out.print(Text.assemble(_mark(run.status), ("Run ", "bold"), (run.id, "bold cyan"), f"  {shown(run.name)}"))
    named = [f"{name} {shown(value)}" for name, value in (("owner", run.owner), ("thread", run.thread)) if value]
    version = [f"version {run.workflow_version}"] if run.workflow_version else []
    out.print(Text(INDENT + " · ".join([run.status, *list(_about(run))[1:], *version, *named]), style="dim"))
    if run.metadata:
        _print_said(out, "metadata", msgspec.json.encode(run.metadata).decode())
    _print_said(out, "input", run.input)
    out.print(_tree(run))
    for step in run.steps:
        _print_step(out, step)
    out.print(Text("Result", style="bold"))
    _print_said(out, "error", run.error or "", "red")
    _print_said(out, "output", run.output or "")


def _mark(state: str) -> tuple[str, str]:
    mark, colour = _MARKS.get(state, ("?", "red"))
    return f"{mark} ", colour


def _about(run: Run) -> Iterator[str]:
    yield run.id
    yield utc(run.started_at)
    if run.ended_at is not None:
        yield f"{(run.ended_at - run.started_at).total_seconds():.1f} s"


def _tree(run: Run) -> Tree:
    tree = Tree(Text(shown(run.name), style="bold"))
    above = [tree]
    for step in run.steps:
        del above[step.level + 1 :]
        line = step_line(step.id, step.step_type, step.status, step.duration_seconds, step.error)
        above.append(above[-1].add(line))
    return tree


def _print_step(out: Console, step: StepRun) -> None:
    attempts = f"  {step.attempts} attempts" if step.attempts > 1 else ""
    cut = "  cut: there was more" if step.cut else ""
    out.print(Text.assemble((shown(step.id), "bold"), (f"  {shown(step.step_type)}{attempts}{cut}", "dim")))
    _print_said(out, "input", step.input)
    _print_said(out, "output", step.output)
    _print_said(out, "error", step.error or "", "red")


def _print_said(out: Console, what: str, said: str, style: str = "") -> None:
    """What was said, indented under its name; nothing if nothing was."""
    if not said:
        return
    out.print(Text(f"{INDENT}{what}", style="dim"))
    for line in Text(shown(said)).wrap(out, max(20, out.width - 2 * len(INDENT))):
        line.rstrip()
        out.print(Text.assemble(INDENT * 2, (line.plain, style)))
