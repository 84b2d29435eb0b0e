"""`memwell workflow run`: a live tree of what the steps do, and the answer as it comes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from ...errors import Invalid
from ...sdk.settings import Running
from ...workflow.live import RunEvent
from .output import Json, console, told
from .target import Target

FAILED = 1
_MARKS = {
    "running": ("●", "yellow"),
    "retrying": ("●", "yellow"),
    "done": ("✓", "green"),
    "cached": ("✓", "cyan"),
    "failed": ("✗", "red"),
    "skipped": ("–", "dim"),
}


def run(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file with the workflow, or the id of a stored one.", metavar="FILE")],
    given: Annotated[
        str, typer.Option("--input", "-i", help="What the run is given; `-` reads it from the input.")
    ] = "",
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", "-m", help="Metadata as `name=value`; may be repeated.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Whose run it is.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Which conversation it belongs to.")] = None,
    as_json: Json = False,
) -> None:
    """Run a workflow and see what its steps do."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        how: Running = {"metadata": _pairs(metadata or [])}
        if owner:
            how["owner"] = owner
        if thread:
            how["thread"] = thread
        text = typer.get_text_stream("stdin").read() if given == "-" else given
        document = _document(file)
        if as_json:
            done = memory.workflows.run(document, text, **how)
            typer.echo(msgspec.json.encode(done).decode())
            state = done.status
        else:
            state = _shown(memory.workflows.stream(document, text, **how))
    if state != "done":
        raise typer.Exit(FAILED)


def _document(file: str) -> str:
    path = Path(file)
    if not path.exists():
        if path.suffix in (".yaml", ".yml", ".json"):
            raise Invalid(f"There is no file {file!r}.")
        return file
    text = path.read_text(encoding="utf-8")
    return text if "\n" in text else text + "\n"


def _pairs(given: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise Invalid(f"--metadata is `name=value`, not {one!r}.")
        found[name] = value
    return found


class _Screen:
    """What is shown of a run so far."""

    def __init__(self) -> None:
        self.title = "workflow"
        self.steps: dict[str, RunEvent] = {}
        self.answer = ""
        self.result: str | None = None
        self.last: RunEvent | None = None

    def take(self, event: RunEvent) -> None:
        match event.kind:
            case "run":
                self.last = event
                self.title = event.text or self.title if event.state == "running" else self.title
            case "step":
                self.answer = "" if event.state == "retrying" else self.answer
                self.steps[event.step or ""] = event
            case "text":
                self.answer += event.text or ""
            case "result":
                self.result = event.text

    def tree(self) -> Tree:
        tree = Tree(Text(self.title, style="bold"))
        branches: dict[str | None, Tree] = {None: tree}
        for name, event in self.steps.items():
            branches[name] = branches.get(event.parent, tree).add(_line(event))
        return tree

    def __rich__(self) -> Group:
        return Group(self.tree(), Text(""), Text(self.answer)) if self.answer else Group(self.tree())


def _line(event: RunEvent) -> Text:
    mark, colour = _MARKS.get(event.state or "", ("?", "red"))
    line = Text.assemble((f"{mark} ", colour), event.step or "", (f"  {event.step_type}", "dim"))
    if event.seconds is not None:
        line.append(f"  {event.seconds * 1000:.0f} ms", style="dim")
    if event.state == "cached":
        line.append("  from memory", style="cyan")
    if event.error:
        line.append(f"\n{event.error}", style="red")
    return line


def _shown(events: Iterable[RunEvent]) -> str:
    """Show a run as it happens; at its end, the tree and the result. Returns how it ended."""
    screen = _Screen()
    out = console()
    with Live(screen, console=out, refresh_per_second=12, transient=True) as live:
        for event in events:
            screen.take(event)
            live.update(screen)
    out.print(screen.tree())
    last = screen.last
    if last is not None and last.error:
        out.print(f"\n[red]{escape(last.error)}[/red]")
    output = last.text if last is not None and last.state == "done" else None
    if output:
        out.print()
        typer.echo(output)
    return last.state or "" if last is not None else ""
