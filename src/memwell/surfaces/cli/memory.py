"""`memwell ls | show | end | rm | search`, and the same under `memwell memory`."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.text import Text

from ...dialects.flows import SessionView
from ...errors import Ambiguous, Invalid, NotFound
from ...sdk._sync import Memory, Session
from .output import Json, Yes, console, print_table, print_turn, show, shown, utc
from .search import search
from .target import Target
from .telling import confirm, told

FlowOption = Annotated[str | None, typer.Option("--flow", help="The flow.")]
SessionArgument = Annotated[str, typer.Argument(help="The session's id.", metavar="SESSION")]


def add_commands(app: typer.Typer) -> None:
    app.command("ls")(list_memory)
    app.command("show")(show_session)
    app.command("end")(end_session)
    app.command("rm")(remove)
    app.command("search")(search)


def list_memory(context: typer.Context, flow: FlowOption = None, as_json: Json = False) -> None:
    """List the flows that have memory, or the sessions of one flow."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        if flow is None:
            flows = memory.flows()
            rows = [(item.flow, item.sessions, utc(item.last_active_at)) for item in flows]
            show(
                flows,
                as_json,
                lambda: print_table(("FLOW ID", "SESSIONS", "LAST ACTIVE"), rows, "No flow has memory yet."),
            )
            return
        sessions = memory.flow(flow).sessions()
        lines = [(item.session, item.turns, utc(item.last_active_at), utc(item.ended_at)) for item in sessions]
        columns = ("SESSION ID", "TURNS", "LAST ACTIVE", "ENDED")
        show(sessions, as_json, lambda: print_table(columns, lines, f"Flow {flow} has no sessions."))


def show_session(
    context: typer.Context,
    session: SessionArgument,
    flow: FlowOption = None,
    limit: Annotated[int, typer.Option(help="How many of the latest turns to show.")] = 200,
    as_json: Json = False,
) -> None:
    """Show a session: its conversation and its semantic memories."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        view = find_session(memory, session, flow).show(limit)
        show(view, as_json, lambda: _print_session(view))


def end_session(
    context: typer.Context, session: SessionArgument, flow: FlowOption = None, yes: Yes = False, as_json: Json = False
) -> None:
    """Close a session and have it distilled into facts."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        found = find_session(memory, session, flow)
        confirm(f"End session {session}?", yes)
        ended = found.end()
        job = f" Job {ended.job} distils it." if ended.job else ""
        show(ended, as_json, lambda: console().print(Text(f"Session {session} is ended.{job}")))


def remove(
    context: typer.Context,
    session: Annotated[str | None, typer.Argument(help="The session's id.", metavar="[SESSION]")] = None,
    flow: FlowOption = None,
    everything: Annotated[bool, typer.Option("--all", help="With --flow: all memory of the flow.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a session, or with `--flow F --all` all memory of a flow, permanently."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        if session is None:
            if flow is None or not everything:
                raise Invalid("Name a session, or give --flow F --all to delete all memory of a flow.")
            confirm(f"Delete ALL memory of flow {flow}? This cannot be undone.", yes)
            receipt, what = memory.flow(flow).delete(), f"All memory of flow {flow}"
        else:
            if everything:
                raise Invalid("--all deletes a whole flow: leave the session away, or leave --all away.")
            found = find_session(memory, session, flow)
            confirm(f"Delete session {session}? This cannot be undone.", yes)
            receipt, what = found.delete(), f"Session {session}"
        counts = ", ".join(
            f"{layer} {receipt.layers[layer]}" for layer in sorted(receipt.layers) if receipt.layers[layer]
        )
        show(
            receipt,
            as_json,
            lambda: console().print(
                Text(f"{what} is deleted ({counts or 'it was empty'}; {receipt.residual} traces left).")
            ),
        )


def find_session(memory: Memory, session: str, flow: str | None) -> Session:
    """A session by its id; where two flows have one of that id, the flow must be named."""
    flows = memory.find_session(session)
    if flow is not None:
        flows = [flow] if flow in flows else []
    if not flows:
        raise NotFound(f"There is no session {session}: `memwell ls --flow F` lists the sessions of a flow.")
    if len(flows) > 1:
        names = ", ".join(flows)
        raise Ambiguous(f"Session {session} exists in several flows ({names}): add --flow.", flows=flows)
    return memory.flow(flows[0]).session(session)


def _print_session(view: SessionView) -> None:
    out = console()
    out.print(Text.assemble(("Session ", "bold"), (view.session, "bold cyan")))
    state = f"ended {utc(view.ended_at)}" if view.ended_at else "open"
    out.print(
        Text(
            f"flow {view.flow} · {state} · created {utc(view.created_at)} · last active {utc(view.last_active_at)}",
            "dim",
        )
    )
    out.print(Text("\nConversation", style="bold"))
    if view.turn_count > len(view.turns):
        out.print(Text(f"({view.turn_count - len(view.turns)} earlier turns; --limit shows more)", style="dim"))
    for turn in view.turns:
        print_turn(msgspec.structs.asdict(turn))
    if not view.turns:
        out.print(Text("No turns.", style="dim"))
    out.print(Text("\nSemantic memories", style="bold"))
    for memory in view.memories:
        out.print(
            Text.assemble(
                "- ",
                shown(memory.content),
                (f"  importance {memory.importance:g}, confidence {memory.confidence:g}", "dim"),
            )
        )
    if not view.memories:
        out.print(Text("None.", style="dim"))
