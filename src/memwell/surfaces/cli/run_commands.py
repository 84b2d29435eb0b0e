"""`memwell run` (a node, once) and `memwell workflow run` (with a live tree of its steps)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer
from rich.live import Live
from rich.segment import Segment
from rich.text import Text
from rich.tree import Tree

from ...errors import Invalid
from ...node.gateway import TIMEOUT_S, run_node
from .inputs import FROM_FILE, STANDARD_INPUT, parse_json, read_document
from .output import Json, escape, print_json, wrapping_console
from .printers import format_step
from .target import open_memory, transport_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ...sdk.types import Running
    from ...workflows.run import RunEvent

FAILED = 1
T = TypeVar("T")


def run_node_once(
    context: typer.Context,
    node: Annotated[
        str, typer.Argument(help="The node as `module:function`; modules in the current directory come first.")
    ],
    flow: Annotated[str, typer.Option("--flow", help="The flow whose memory the node gets.")],
    value: Annotated[
        str, typer.Option("--input", help="The input as JSON; `@FILE` reads a file, `@-` or `-` standard input.")
    ] = "{}",
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds after which the node is stopped.")] = TIMEOUT_S,
) -> None:
    """Run node code in its own process, with the memory of a flow, and print its reply."""
    with open_memory(context) as memory:
        try:
            data = parse_json("--input", FROM_FILE + value if value == STANDARD_INPUT else value)
        except OSError as error:
            raise Invalid(f"The input cannot be read: {error.strerror}.") from None
        print_json(run_node(transport_of(memory), node, flow, data, timeout_s=timeout_s))


def run_workflow(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file with the workflow, or the id of a stored one.", metavar="FILE")],
    text: Annotated[str, typer.Option("--input", "-i", help="The input of the run; `-`: standard input.")] = "",
    inputs: Annotated[
        str | None,
        typer.Option("--inputs", help="Fields of `$input` as a JSON object, or `@FILE`, for workflows of tasks."),
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", "-m", help="Metadata as `name=value`; may be repeated.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="The owner of the run.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="The conversation that the run belongs to.")] = None,
    as_json: Json = False,
) -> None:
    """Run a workflow and watch its steps."""
    with open_memory(context) as memory:
        options: Running = {"metadata": _parse_metadata(metadata or [])}
        if inputs is not None:
            fields = parse_json("--inputs", inputs)
            if not isinstance(fields, dict):
                raise Invalid(f"--inputs must be a JSON object, not {inputs[:100]!r}.")
            options["inputs"] = fields
        if owner:
            options["owner"] = owner
        if thread:
            options["thread"] = thread
        if text == STANDARD_INPUT:
            text = typer.get_text_stream("stdin").read().removesuffix("\n").removesuffix("\r")
        document = _read_workflow(file)
        try:
            if as_json:
                run = memory.workflows.run(document, text, **options)
                typer.echo(msgspec.json.encode(run).decode())
                state = run.status
            else:
                events = memory.workflows.stream(document, text, **options)
                state = (_follow_on_screen(events) if sys.stdout.isatty() else _follow_in_pipe(events)).state
        except Invalid as error:
            if "unresolved" in error.details and "\n" in document:  # validation names the lines of missing banks
                error.details["problems"] = memory.workflows.validate(document).problems
            raise
    if state != "done":
        raise typer.Exit(FAILED)


def _read_workflow(file: str) -> str:
    path = Path(file)
    if not path.exists():
        if path.suffix in (".yaml", ".yml", ".json"):
            raise Invalid(f"There is no file {file!r}.")
        return file
    text = read_document(file)
    return text if "\n" in text else text + "\n"


def _parse_metadata(pairs: Iterable[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise Invalid(f"--metadata must be `name=value`, not {pair!r}.")
        metadata[name] = value
    return metadata


class _Answer:
    """The streamed answer of a model. If several steps stream at once, the first is followed until it is done."""

    def __init__(self) -> None:
        self.text = ""
        self._step: str | None = None
        self._is_over = True

    def take(self, event: RunEvent) -> str:
        """Return the next piece of the answer, or an empty text."""
        if event.kind == "step" and event.step == self._step:
            self._is_over = event.state != "running"
        if event.kind != "text" or not (self._is_over or event.step == self._step):
            return ""
        if self._is_over:
            self.text, self._step, self._is_over = "", event.step, False
        self.text += event.text or ""
        return event.text or ""


class _Steps:
    """The steps of a run so far, and its result."""

    def __init__(self) -> None:
        self.title = "workflow"
        self.steps: dict[str, RunEvent] = {}
        self.state = self.output = ""
        self.error: str | None = None

    def take(self, event: RunEvent) -> None:
        if event.kind == "step":
            self.steps[event.step or ""] = event
        elif event.kind == "run":
            self.state, self.error = event.state or "", event.error
            self.output = event.text or "" if event.state == "done" else ""
            if event.state == "running":
                self.title = event.text or self.title

    def tree(self) -> Tree:
        tree = Tree(Text(escape(self.title), style="bold"))
        branches: dict[str | None, Tree] = {None: tree}
        for name, event in list(self.steps.items()):  # a thread draws them while more are added
            line = format_step(name, event.step_type or "", event.state or "", event.seconds, event.error)
            branches[name] = branches.get(event.parent, tree).add(line)
        return tree


class _Screen:
    """The steps and the last lines of the answer, cut to the height of the screen."""

    def __init__(self, steps: _Steps, answer: _Answer) -> None:
        self._steps, self._answer = steps, answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = max(4, console.size.height - 1)
        tree = console.render_lines(self._steps.tree(), options, pad=False)
        end = self._answer.text[-rows * options.max_width :]
        answer = console.render_lines(Text(escape(end)), options, pad=False) if end else []
        for line in fit_rows(tree, answer, rows):
            yield from line
            yield Segment.line()


def fit_rows(tree: list[list[T]], answer: list[list[T]], rows: int) -> list[list[T]]:
    """Return the last lines of both, with a blank line between. A tall tree leaves half of the rows to the answer."""
    if not answer:
        return tree[-rows:]
    above = tree[-max(rows - 1 - len(answer), rows // 2 - 1) :]
    return [*above, [], *answer[-(rows - 1 - len(above)) :]]


def _follow_on_screen(events: Iterable[RunEvent]) -> _Steps:
    """Draw the tree and the end of the answer as they grow, then print the tree and the result."""
    steps, answer, out = _Steps(), _Answer(), wrapping_console()
    with Live(_Screen(steps, answer), console=out, refresh_per_second=12, transient=True):
        for event in events:
            steps.take(event)
            answer.take(event)
    out.print(steps.tree())
    if steps.error:
        out.print(Text(f"\n{escape(steps.error)}", style="red"))
    if steps.output:
        typer.echo(f"\n{escape(steps.output)}")
    return steps


def _follow_in_pipe(events: Iterable[RunEvent]) -> _Steps:
    """Print the answer to standard output while it streams, and then the tree of steps to standard error."""
    steps, answer, wrote = _Steps(), _Answer(), False
    for event in events:
        steps.take(event)
        if piece := answer.take(event):
            begins = wrote and answer.text == piece  # another answer, or a retry
            typer.echo(("\n" if begins else "") + escape(piece), nl=False)
            wrote = True
    if wrote:
        typer.echo(nl=not answer.text.endswith("\n"))
    if steps.output and steps.output.strip() != answer.text.strip():
        typer.echo(escape(steps.output))
    wrapping_console(stderr=True).print(steps.tree())
    if steps.error:
        typer.echo(escape(steps.error), err=True)
    return steps
