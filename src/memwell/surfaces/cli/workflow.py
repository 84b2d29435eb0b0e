"""`memwell run`: a node, once, for a flow."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text
from rich.tree import Tree

from ...errors import Invalid
from ...node.gateway import TIMEOUT_S, run_node
from ...sdk._sync import Memory
from ...sdk.settings import Running
from ...workflows.events import RunEvent
from ...workflows.run_operations import Run, RunList, StepRun
from .fields import FROM_FILE, STANDARD_INPUT, file_text, json_given, text_of
from .messages import told
from .output import Json, brief, folding, print_json, shown, utc
from .target import Target, transport_of


def run_node_once(
    context: typer.Context,
    node: Annotated[str, typer.Argument(help="The node as `module:function`; modules are looked for here first.")],
    flow: Annotated[str, typer.Option("--flow", help="The flow that is run.")],
    value: Annotated[
        str, typer.Option("--input", help="The input as JSON; `@FILE` reads a file, `@-` or `-` standard input.")
    ] = "{}",
    timeout_s: Annotated[
        float, typer.Option("--timeout", help="After how many seconds the node is stopped.")
    ] = TIMEOUT_S,
) -> None:
    """Run node code in a process of its own, with the memory of a flow, and print its reply."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        print_json(run_node(transport_of(memory), node, flow, _input(value), timeout_s=timeout_s))


def _input(text: str) -> object:
    try:
        if text == STANDARD_INPUT:
            text = file_text(text)
        elif text.startswith(FROM_FILE):
            text = file_text(text[len(FROM_FILE) :])
        return msgspec.json.decode(text)
    except OSError as error:
        raise Invalid(f"The input cannot be read: {error.strerror}.") from None
    except msgspec.DecodeError as error:
        raise Invalid(f"The input is not JSON: {error}.") from None


# -- Runs of workflows as people read them: a list of what was asked, and of one run what each step was given, gave and took.


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


# -- `memwell workflow run`: a live tree of what the steps do, and the answer as it comes.


FAILED = 1
T = TypeVar("T")


def run_workflow(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file with the workflow, or the id of a stored one.", metavar="FILE")],
    given: Annotated[
        str, typer.Option("--input", "-i", help="What the run is given; `-` reads it from the input.")
    ] = "",
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs",
            help="Fields of `$input` as a JSON object, or from `@FILE`, for workflows of tasks.",
        ),
    ] = None,
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
        if inputs is not None:
            how["inputs"] = _object(inputs)
        if owner:
            how["owner"] = owner
        if thread:
            how["thread"] = thread
        text, document = _given(given), _document(file)
        with _lines_told(memory, document):
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
    text = text_of(file)
    return text if "\n" in text else text + "\n"


@contextmanager
def _lines_told(memory: Memory, document: str) -> Iterator[None]:
    """A run is refused for banks that there are not; where they are named, the check of the document says."""
    try:
        yield
    except Invalid as error:
        if "unresolved" in error.details and "\n" in document:
            error.details["problems"] = memory.workflows.validate(document).problems
        raise


def _given(given: str) -> str:
    """The input; from a pipe without the newline that ends its last line."""
    if given != "-":
        return given
    text: str = typer.get_text_stream("stdin").read()
    return text.removesuffix("\n").removesuffix("\r")


def _object(given: str) -> dict[str, Any]:
    found = json_given("--inputs", given)
    if not isinstance(found, dict):
        raise Invalid(f"--inputs is a JSON object, not {given[:100]!r}.")
    return found


def _pairs(given: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise Invalid(f"--metadata is `name=value`, not {one!r}.")
        found[name] = value
    return found


class _Answer:
    """A model's answer as it comes. If several steps speak at once, the first is listened to until it is done."""

    def __init__(self) -> None:
        self.text = ""
        self._step: str | None = None
        self._over = True

    def take(self, event: RunEvent) -> str:
        """The next piece of it, if the event has one."""
        if event.kind == "step" and event.step == self._step:
            self._over = event.state != "running"
        if event.kind != "text" or not (self._over or event.step == self._step):
            return ""
        if self._over:
            self.text, self._step, self._over = "", event.step, False
        self.text += event.text or ""
        return event.text or ""


class _Steps:
    """The steps of a run so far, and how it ended."""

    def __init__(self) -> None:
        self.title = "workflow"
        self.steps: dict[str, RunEvent] = {}
        self.last: RunEvent | None = None

    def take(self, event: RunEvent) -> None:
        if event.kind == "step":
            self.steps[event.step or ""] = event
        elif event.kind == "run":
            self.last = event
            self.title = event.text or self.title if event.state == "running" else self.title

    def tree(self) -> Tree:
        tree = Tree(Text(shown(self.title), style="bold"))
        branches: dict[str | None, Tree] = {None: tree}
        for name, event in list(self.steps.items()):  # while it is drawn, there may be more
            line = step_line(name, event.step_type or "", event.state or "", event.seconds, event.error)
            branches[name] = branches.get(event.parent, tree).add(line)
        return tree

    @property
    def state(self) -> str:
        return self.last.state or "" if self.last is not None else ""

    @property
    def error(self) -> str | None:
        return self.last.error if self.last is not None else None

    @property
    def output(self) -> str:
        return self.last.text or "" if self.last is not None and self.state == "done" else ""


class _Screen:
    """What fits on the screen: the steps, and the last lines of the answer."""

    def __init__(self, steps: _Steps, answer: _Answer) -> None:
        self._steps, self._answer = steps, answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = max(4, console.size.height - 1)
        tree = console.render_lines(self._steps.tree(), options, pad=False)
        end = self._answer.text[-rows * options.max_width :]
        said = console.render_lines(Text(shown(end)), options, pad=False) if end else []
        for line in fitting(tree, said, rows):
            yield from line
            yield Segment.line()


def fitting(tree: list[list[T]], said: list[list[T]], rows: int) -> list[list[T]]:
    """The last lines of both, with a blank one between; a tree that is too tall leaves half of the rows to the answer."""
    if not said:
        return tree[-rows:]
    above = tree[-max(rows - 1 - len(said), rows // 2 - 1) :]
    return [*above, [], *said[-(rows - 1 - len(above)) :]]


def _shown(events: Iterable[RunEvent]) -> str:
    """Show a run as it happens. Returns how it ended."""
    steps = _on_screen(events) if sys.stdout.isatty() else _piped(events)
    return steps.state


def _on_screen(events: Iterable[RunEvent]) -> _Steps:
    """The tree and the end of the answer as they grow; at the end, the tree and the result."""
    steps, answer, out = _Steps(), _Answer(), folding()
    with Live(_Screen(steps, answer), console=out, refresh_per_second=12, transient=True):
        for event in events:
            steps.take(event)
            answer.take(event)
    out.print(steps.tree())
    if steps.error:
        out.print(Text(f"\n{shown(steps.error)}", style="red"))
    if steps.output:
        typer.echo(f"\n{shown(steps.output)}")
    return steps


def _piped(events: Iterable[RunEvent]) -> _Steps:
    """The answer alone, as it comes, for whoever reads it; what the steps did goes to the standard error."""
    steps, answer, wrote = _Steps(), _Answer(), False
    for event in events:
        steps.take(event)
        if piece := answer.take(event):
            begins = wrote and answer.text == piece  # another answer, or the same from its beginning
            typer.echo(("\n" if begins else "") + shown(piece), nl=False)
            wrote = True
    if wrote:
        typer.echo(nl=not answer.text.endswith("\n"))
    if steps.output and steps.output.strip() != answer.text.strip():
        typer.echo(shown(steps.output))
    folding(stderr=True).print(steps.tree())
    if steps.error:
        typer.echo(shown(steps.error), err=True)
    return steps
