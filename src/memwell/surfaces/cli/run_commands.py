"""`memwell run` (a node, once) and `memwell workflow run` (with a live tree of its steps)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.live import Live
from rich.segment import Segment
from rich.text import Text
from rich.tree import Tree

from ...errors import Invalid
from ...node.gateway import TIMEOUT_S, run_node
from .generated import find_id
from .inputs import check_standard_input, parse_content, parse_document, parse_json, parse_metadata, parse_values
from .output import Json, escape, print_json, print_json_line, print_note, print_warnings, wrapping_console
from .printers import format_step
from .target import open_memory, transport_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ...sdk._sync import Memory
    from ...sdk.types import Running
    from ...workflows.run import RunEvent

FAILED = 1
INTERRUPTED = 130
_RESULTS = ("display_result", "streaming_result")
T = TypeVar("T")


def run_node_once(
    context: typer.Context,
    node: Annotated[
        str,
        typer.Argument(
            help="The node as `FILE.py:function`, or `module:function` in the current directory or installed."
        ),
    ],
    flow: Annotated[str, typer.Option("--flow", help="The flow whose memory the node gets.")],
    value: Annotated[
        str, typer.Option("--input", metavar="JSON", help="The input: JSON, FILE, or `-` for standard input.")
    ] = "{}",
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds after which the node is stopped.")] = TIMEOUT_S,
    pass_on: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME", help="An environment variable that the node gets, too. May be repeated."),
    ] = None,
) -> None:
    """Run node code in its own process, with the memory of a flow, and print its reply."""
    with open_memory(context) as memory:
        try:
            data = parse_json("--input", value)
        except OSError as error:
            raise Invalid(f"The input cannot be read: {error.strerror}.") from None
        print_json(run_node(transport_of(memory), node, flow, data, timeout_s=timeout_s, pass_on=pass_on or ()))


def run_workflow(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="The workflow: FILE, `-` for standard input, or the id or name of a stored one.", metavar="FILE"
        ),
    ],
    text: Annotated[str, typer.Option("--input", "-i", help="The input of the run; `-`: standard input.")] = "",
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs", metavar="JSON", help="Fields of `$input`, for workflows of tasks: JSON, FILE, or `-`."
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata",
            "-m",
            metavar="JSON",
            help="Metadata: `name=text`, JSON (for numbers), FILE, or `-`. May be repeated.",
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="The owner of the run.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="The conversation that the run belongs to.")] = None,
    as_json: Json = False,
) -> None:
    """Run a workflow and watch its steps."""
    with open_memory(context) as memory:
        check_standard_input([file, text, inputs or "", metadata or []])
        options: Running = {"metadata": parse_values(parse_metadata, "--metadata", metadata or ["{}"])}
        if inputs is not None:
            fields = parse_json("--inputs", inputs)
            if not isinstance(fields, dict):
                raise Invalid(f"--inputs must be a JSON object, not {inputs[:100]!r}.")
            options["inputs"] = fields
        if owner is not None:
            options["owner"] = owner
        if thread is not None:
            options["thread"] = thread
        text = parse_content("--input", text)
        document = _read_workflow(memory, file)
        if as_json:
            run = memory.workflows.run(document, text, **options)
            print_json(run)
            state = run.status
        else:
            state = _follow(memory.workflows.stream(document, text, **options), False)
    if state != "done":
        raise typer.Exit(FAILED)


def follow_run(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")],
    as_json: Json = False,
) -> None:
    """Watch a run until it ends. Exits with 1 if it has failed."""
    with open_memory(context) as memory:
        try:
            state = _follow(memory.workflows.follow(run), as_json)
        except KeyboardInterrupt:
            print_note(f"The run goes on: `memwell runs cancel {run}` ends it.")
            raise typer.Exit(INTERRUPTED) from None
        if state != "done":
            raise typer.Exit(FAILED)


def _follow(events: Iterable[RunEvent], as_json: bool) -> str:
    """Print events as they happen, and return the state of the run."""
    if not as_json:
        run = _follow_on_screen(events) if sys.stdout.isatty() else _follow_in_pipe(events)
        print_warnings(run.warnings)
        return run.state
    run = RunView()
    for event in events:
        run.take(event)
        print_json_line(event)
    return run.state


def _read_workflow(memory: Memory, file: str) -> str:
    """Return the document in a file, or the id of a stored workflow, which is one line."""
    text = parse_document("FILE", file)
    if text == file and "\n" not in file and ":" not in file:
        return find_id(memory, "workflow", file)
    return text if text == file or "\n" in text else text + "\n"


class RunView:
    """A run so far: the tree of its steps, the streamed answer of a model, and the result. If several steps stream at once, the
    first is followed until it is done."""

    def __init__(self) -> None:
        self.title = "workflow"
        self.steps: dict[str, RunEvent] = {}
        self.answer = self.state = self.output = ""
        self.error: str | None = None
        self.warnings: list[str] = []
        self.replies: list[str] = []
        self._speaker: str | None = None
        """The step whose answer is followed; None between answers."""

    def take(self, event: RunEvent) -> str:
        """Take an event, and return the next piece of the answer or an empty text."""
        if event.kind == "step":
            self.steps[event.step or ""] = event
            self.warnings += [f"`{event.step}`: {warning}" for warning in event.warnings]
            if event.step == self._speaker and event.state != "running":
                self._speaker = None
        elif event.kind == "run":
            self.state, self.error = event.state or "", event.error
            self.output = event.text or "" if event.state == "done" else ""
            if event.state == "running":
                self.title = event.text or self.title
        elif event.kind == "result":
            step = self.steps.get(event.step or "")  # it is missing if the run is followed from a later event
            if step is None or step.step_type not in _RESULTS:
                self.replies.append(event.text or "")
        elif self._speaker in (None, event.step):
            if self._speaker is None:
                self.answer, self._speaker = "", event.step
            self.answer += event.text or ""
            return event.text or ""
        return ""

    def tree(self) -> Tree:
        tree = Tree(Text(escape(self.title), style="bold"))
        branches: dict[str | None, Tree] = {None: tree}
        for name, event in list(self.steps.items()):  # a thread draws them while more are added
            line = format_step(name, event.step_type or "", event.state or "", event.seconds, event.error, event.wrote)
            branches[name] = branches.get(event.parent, tree).add(line)
        return tree

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the steps and the last lines of the answer, cut to the height of the screen."""
        rows = max(4, console.size.height - 1)
        tree = console.render_lines(self.tree(), options, pad=False)
        end = self.answer[-rows * options.max_width :]
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


def _follow_on_screen(events: Iterable[RunEvent]) -> RunView:
    """Draw the tree and the end of the answer as they grow, then print the tree and the result."""
    run, out = RunView(), wrapping_console()
    with Live(run, console=out, refresh_per_second=12, transient=True):
        for event in events:
            run.take(event)
    out.print(run.tree())
    if run.error:
        out.print(Text(f"\n{escape(run.error)}", style="red"))
    for text in dict.fromkeys((*run.replies, run.output)):
        if text:
            typer.echo(f"\n{escape(text)}")
    return run


def _follow_in_pipe(events: Iterable[RunEvent]) -> RunView:
    """Print the answer to standard output while it streams, and then the tree of steps to standard error."""
    run, wrote, is_open = RunView(), False, False
    for event in events:
        count = len(run.replies)
        if piece := run.take(event):
            begins = wrote and run.answer == piece  # another answer, or a retry
            typer.echo(("\n" if begins and is_open else "") + escape(piece), nl=False)
            wrote, is_open = True, not piece.endswith("\n")
        for text in run.replies[count:]:
            if text.strip() != run.answer.strip():
                typer.echo(("\n" if is_open else "") + escape(text))
                is_open = False
    if is_open:
        typer.echo()
    if run.output and run.output.strip() not in (run.answer.strip(), *run.replies[-1:]):
        typer.echo(escape(run.output))
    wrapping_console(stderr=True).print(run.tree())
    if run.error:
        typer.echo(escape(run.error), err=True)
    return run
