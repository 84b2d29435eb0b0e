"""`memwell search`: what was found, how well it fits, by which method and how fast."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from ...errors import Ambiguous, Invalid, NotFound
from ...facts.search import Hit, Hits, WhyNot
from ...sdk._sync import Flow, Memory, Session, User
from ...timelines.flows import SessionView
from .fields import json_given, option
from .messages import confirm, told
from .output import Json, Yes, console, print_table, print_turn, show, shown, utc
from .target import Target, moment

BAR = 12
LINE = 300


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for: words or a question.", metavar="QUERY")],
    flow: Annotated[str | None, typer.Option("--flow", help="The flow to search.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="The user to search.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Only this session (and what its flow knows).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many hits to show.")] = 5,
    turns: Annotated[bool, typer.Option("--turns", help="Search what was said as well.")] = False,
    past: Annotated[bool, typer.Option("--past", help="Search what was true once as well.")] = False,
    where: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help="Conditions on metadata, as JSON or from `@FILE`.")
    ] = None,
    after: Annotated[str | None, typer.Option("--after", help="Only what happened at this time or later.")] = None,
    before: Annotated[str | None, typer.Option("--before", help="Only what happened before this time.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="Search what was known at this time.")] = None,
    valid_at: Annotated[str | None, typer.Option("--valid-at", help="Search what was true at this time.")] = None,
    min_trust: Annotated[
        str | None,
        typer.Option(
            "--min-trust", metavar="[system|user|assistant|tool|document]", help="Leave out what is based on less."
        ),
    ] = None,
    min_score: Annotated[float, typer.Option("--min-score", help="Leave out hits with a lower score.")] = 0.0,
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="[default|words|meaning]", help="How to weigh words and meaning.")
    ] = "default",
    explain: Annotated[bool, typer.Option("--explain", help="Show what each arm contributed to the score.")] = False,
    why_not: Annotated[str | None, typer.Option("--why-not", help="Why was the entry with this id not found?")] = None,
    as_json: Json = False,
) -> None:
    """Search the memory of a flow or a user: by words and by meaning."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        place = _place(memory, flow, user, session)
        moments = {"after": after, "before": before, "as_of": as_of, "valid_at": valid_at}
        conditions = _conditions(turns, past, where, moments) | {"min_score": min_score, "recipe": recipe}
        if min_trust is not None:
            conditions["min_trust"] = min_trust
        if user is not None and session is not None:
            conditions["session"] = session
        data = {**place._at, "query": query, "limit": limit, **conditions}
        if why_not is not None:
            gate: WhyNot = memory.call(f"{place._dialect}.why_not", data | {"id": why_not})
            show(gate, as_json, lambda: _print_gate(gate))
            return
        found: Hits = memory.call(f"{place._dialect}.search", data | {"explain": explain})
        show(found, as_json, lambda: _print_hits(found))


def _place(memory: Memory, flow: str | None, user: str | None, session: str | None) -> User | Flow | Session:
    if (flow is None) == (user is None):
        raise Invalid("Say where to search: --flow F or --user U.")
    if user is not None:
        return memory.user(user)
    assert flow is not None  # noqa: S101 -- one of the two is given
    return memory.flow(flow) if session is None else memory.flow(flow).session(session)


def _conditions(turns: bool, past: bool, where: str | None, moments: dict[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if turns or past:
        found["include"] = ["turns"] * turns + ["past"] * past
    if where is not None:
        found["filter"] = json_given("--filter", where)
    for name, text in moments.items():
        if text is not None:
            found[name] = moment(option(name), text)
    return found


def _print_hits(found: Hits) -> None:
    out = console()
    for hit in found.hits:
        _print_hit(hit)
    if not found.hits:
        out.print(Text("Nothing was found.", style="dim"))
    count = f"{len(found)} hit{'' if len(found) == 1 else 's'}"
    out.print(Text(f"{count} · {found.method} · {found.took_ms:.1f} ms", style="dim"))
    if found.warning:
        out.print(Text(f"Meaning was left out: {shown(found.warning)}", style="yellow"))


def _print_hit(hit: Hit) -> None:
    full = round(hit.score * BAR)
    bar = Text.assemble(("█" * full, "green"), ("·" * (BAR - full), "dim"))
    about = " · ".join(
        filter(None, [hit.kind, _speaker(hit), hit.session and f"session {shown(hit.session)}", utc(hit.occurred_at)])
    )
    console().print(Text.assemble(bar, f" {hit.score:.3f}  ", _line(hit.content)))
    console().print(Text(f"{'':{BAR + 8}}{about} · {hit.id}", style="dim"))
    if hit.arms:
        parts = "  ".join(f"{name} {part:+.3f}" for name, part in hit.arms.items())
        console().print(Text(f"{'':{BAR + 8}}{parts}", style="cyan"))


def _line(content: str) -> str:
    """The beginning of a content on one line; `--json` shows all of it."""
    line = " ".join(shown(content).split())
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def _speaker(hit: Hit) -> str | None:
    return shown(hit.name) if hit.name else hit.role


def _print_gate(gate: WhyNot) -> None:
    console().print(Text.assemble((gate.gate, "bold"), f"  {gate.detail}"))


# -- `memwell ls | show | end | rm | search`, and the same under `memwell memory`.


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
