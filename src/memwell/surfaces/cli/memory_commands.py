"""`memwell ls | show | end | rm | search`, `audit`, `export`, `import`, and `app upload | download`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec
import typer
from msgspec import structs
from rich.text import Text

from ... import typed
from ...errors import Ambiguous, Invalid, NotFound, Unavailable
from ...sdk._sync import Flow, Memory, Session, User
from .inputs import MISSING_FILENAME, STANDARD_INPUT, option_name, parse_json, parse_time, read_bytes
from .output import (
    Json,
    Yes,
    confirm,
    console,
    count_noun,
    escape,
    format_time,
    print_answer,
    print_dim,
    print_json_line,
    print_table,
    status_line,
)
from .printers import print_response
from .target import open_memory

if TYPE_CHECKING:
    from ...facts.audit import Audit
    from ...facts.plans import Plan

IMPORT_BATCH = 200
END_WAIT_S = 3.0
"""Seconds that `memwell end` waits for the facts."""
HAS_FINDINGS = 1

FlowOption = Annotated[str | None, typer.Option("--flow", help="The flow.")]
FlowArgument = Annotated[str, typer.Argument(help="The flow.")]
SessionArgument = Annotated[str, typer.Argument(help="The session's id.", metavar="SESSION")]
AppArgument = Annotated[str, typer.Argument(help="The app.")]
AppSessionArgument = Annotated[str, typer.Argument(help="The session. Its first use creates it.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="The file to write. Default: standard output.")
]


def add_commands(app: typer.Typer) -> None:
    app.command("ls")(list_memory)
    app.command("show")(show_session)
    app.command("end")(end_session)
    app.command("rm")(remove)
    app.command("search")(search)


# -- sessions


def list_memory(context: typer.Context, flow: FlowOption = None, as_json: Json = False) -> None:
    """List the flows that have memory, or the sessions of one flow."""
    with open_memory(context) as memory:
        found: Any = memory.flows() if flow is None else memory.flow(flow).sessions()
        empty = "No flow has memory yet." if flow is None else f"Flow {flow} has no sessions."
        rows = [
            {"FLOW ID": one.flow, "SESSIONS": one.sessions, "LAST ACTIVE": format_time(one.last_active_at)}
            if flow is None
            else {
                "SESSION ID": one.session,
                "TURNS": one.turns,
                "LAST ACTIVE": format_time(one.last_active_at),
                "ENDED": format_time(one.ended_at),
            }
            for one in found
        ]
        print_answer(found, as_json, lambda: print_table(rows, empty))


def show_session(
    context: typer.Context,
    session: SessionArgument,
    flow: FlowOption = None,
    limit: Annotated[int, typer.Option(help="The number of latest turns to show.")] = 200,
    as_json: Json = False,
) -> None:
    """Show a session: its conversation and its memories."""
    with open_memory(context) as memory:
        print_response(_require_session(memory, session, flow).show(limit), as_json)


def end_session(
    context: typer.Context, session: SessionArgument, flow: FlowOption = None, yes: Yes = False, as_json: Json = False
) -> None:
    """End a session and consolidate it into facts."""
    with open_memory(context) as memory:
        place = _require_session(memory, session, None) if flow is None else memory.flow(flow).session(session)
        confirm(f"End session {session}?", yes)
        ended = place.end()
        if ended.job is not None:
            with suppress(Unavailable):  # the job goes on, and the answer says so
                memory.jobs.wait(ended.job, timeout_s=END_WAIT_S)
            ended = structs.replace(ended, distilled=place.end().distilled)
        print_response(ended, as_json)


def remove(
    context: typer.Context,
    session: Annotated[str | None, typer.Argument(help="The session's id.", metavar="[SESSION]")] = None,
    flow: FlowOption = None,
    everything: Annotated[bool, typer.Option("--all", help="With --flow: all memory of the flow.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a session, or with `--flow F --all` all memory of a flow, permanently."""
    with open_memory(context) as memory:
        if session is None:
            if flow is None or not everything:
                raise Invalid("Name a session, or use --flow F --all to delete all memory of a flow.")
            confirm(f"Delete ALL memory of flow {flow}? This cannot be undone.", yes)
            receipt, subject = memory.flow(flow).delete(), f"All memory of flow {flow}"
        else:
            if everything:
                raise Invalid("--all deletes a whole flow: omit the session, or omit --all.")
            place = _require_session(memory, session, flow)
            confirm(f"Delete session {session}? This cannot be undone.", yes)
            receipt, subject = place.delete(), f"Session {session}"
        counts = ", ".join(f"{layer} {count}" for layer, count in sorted(receipt.layers.items()) if count)
        line = f"{subject} is deleted ({counts or 'it was empty'}; {receipt.residual} traces left)."
        print_answer(receipt, as_json, line)


def _require_session(memory: Memory, session: str, flow: str | None) -> Session:
    """Find a session by its id. The flow is needed only if several flows have a session with that id."""
    flows = memory.find_session(session)
    if flow is not None:
        flows = [flow] if flow in flows else []
    if not flows:
        raise NotFound(f"There is no session {session}: `memwell ls --flow F` lists the sessions of a flow.")
    if len(flows) > 1:
        raise Ambiguous(f"Session {session} exists in several flows ({', '.join(flows)}): add --flow.", flows=flows)
    return memory.flow(flows[0]).session(session)


# -- search and audit


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Words or a question.", metavar="QUERY")],
    flow: Annotated[str | None, typer.Option("--flow", help="The flow to search.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="The user to search.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Only this session (and the facts of its flow).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The number of hits to show.")] = 5,
    turns: Annotated[bool, typer.Option("--turns", help="Also search turns.")] = False,
    past: Annotated[bool, typer.Option("--past", help="Also search facts that are no longer true.")] = False,
    where: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help="Conditions on metadata: JSON, FILE, or `-`.")
    ] = None,
    after: Annotated[str | None, typer.Option("--after", help="Only entries at this time or later.")] = None,
    before: Annotated[str | None, typer.Option("--before", help="Only entries before this time.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="Search what was known at this time.")] = None,
    valid_at: Annotated[str | None, typer.Option("--valid-at", help="Search what was true at this time.")] = None,
    min_trust: Annotated[
        str | None,
        typer.Option(
            "--min-trust",
            metavar="[system|user|assistant|tool|document]",
            help="Omit hits from less trusted origins.",
        ),
    ] = None,
    min_score: Annotated[
        float | None, typer.Option("--min-score", help="Omit hits with a lower score; 0 shows all.")
    ] = None,
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="[default|words|meaning]", help="The weights of words and meaning.")
    ] = "default",
    explain: Annotated[bool, typer.Option("--explain", help="Show what each part contributed to the score.")] = False,
    why_not: Annotated[str | None, typer.Option("--why-not", help="Explain why this entry was not found.")] = None,
    as_json: Json = False,
) -> None:
    """Search the memory of a flow or a user by words and by meaning."""
    with open_memory(context) as memory:
        if (flow is None) == (user is None):
            raise Invalid("Choose where to search: --flow F or --user U.")
        place: User | Flow | Session = memory.user(user) if user is not None else memory.flow(flow or "")
        data: dict[str, Any] = {"query": query, "limit": limit, "min_score": min_score, "recipe": recipe}
        if session is not None:
            if isinstance(place, Flow):
                place = place.session(session)
            else:
                data["session"] = session
        if turns or past:
            data["include"] = ["turns"] * turns + ["past"] * past
        if where is not None:
            data["filter"] = parse_json("--filter", where)
        times = {"after": after, "before": before, "as_of": as_of, "valid_at": valid_at}
        data |= {name: parse_time(option_name(name), text) for name, text in times.items() if text is not None}
        if min_trust is not None:
            data["min_trust"] = min_trust
        data |= place._at
        if why_not is not None:
            answer = memory.call(f"{place._dialect}.why_not", data | {"id": why_not})
        else:
            answer = memory.call(f"{place._dialect}.search", data | {"explain": explain})
        print_response(answer, as_json)


def audit(
    context: typer.Context,
    flow: Annotated[str | None, typer.Option("--flow", help="Only this flow.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Make a plan of the suggestions, to be applied later.")] = False,
    as_json: Json = False,
) -> None:
    """Look for duplicates, contradictions, echoes, orphans, stale and secret-looking facts. Exits with 1 if there are any."""
    with open_memory(context) as memory:
        places: list[Flow | User] = [memory.flow(flow)] if flow is not None else []
        places += [memory.user(user)] if user is not None else []
        if flow is None and user is None:
            places += [memory.flow(one.flow) for one in memory.flows()]
            places += [memory.user(one.user) for one in memory.users()]
        audits = {f"{place._dialect[:-1]} {place.id}": place.audit() for place in places}
        plain = [{"where": where, **msgspec.to_builtins(one)} for where, one in audits.items()]
        plans = {f"{place._dialect[:-1]} {place.id}": place.suggest_plan() for place in places} if plan else {}
        for one in plain:
            suggested = plans.get(one["where"])
            one |= {"plan": None if suggested is None else suggested.id} if plan else {}
        print_answer(plain, as_json, lambda: _print_audits(audits, plans))
    if any(one.findings for one in audits.values()):
        raise typer.Exit(HAS_FINDINGS)


def _print_audits(audits: dict[str, Audit], plans: dict[str, Plan | None]) -> None:
    for where, one in audits.items():
        for finding in one.findings:
            ids = ", ".join(map(escape, finding.ids))
            text = f"{escape(where)}  {finding.reason} {ids}"
            console().print(Text.assemble((f"{finding.problem:14}", "yellow"), text))
            for fact_id, content in zip(finding.ids, finding.texts, strict=False):
                does = "" if finding.keep is None else "keep" if fact_id == finding.keep else finding.suggestion or ""
                console().print(Text(f"{'':14}{does:5}{content}"))
    for where, plan in plans.items():
        if plan is not None:
            kind, _, name = where.partition(" ")
            steps = count_noun(len(plan.steps), "step")
            print_dim(f"A plan of {steps}: memwell {kind} apply-plan {name} {plan.id}")
    facts = count_noun(sum(one.facts for one in audits.values()), "fact")
    findings = count_noun(sum(sum(one.counts.values()) for one in audits.values()), "finding")
    print_dim(f"{facts} in {count_noun(len(audits), 'place')}, {findings}")


# -- export and import


def export(context: typer.Context, flow: FlowArgument, output: OutputOption = None) -> None:
    """Write everything in a flow as JSONL: sessions, turns and memories."""
    with open_memory(context) as memory:
        lines = memory.flow(flow).export()
        if output is None:
            for line in lines:
                sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
            return
        count = 0
        with open(output, "wb") as file, status_line() as report:
            for count, line in enumerate(lines, 1):
                file.write(msgspec.json.encode(line) + b"\n")
                report(f"exporting {flow}: {count:,} lines")
        console().print(f"{count} lines written to {output}.")


def import_file(
    context: typer.Context,
    flow: FlowArgument,
    source: Annotated[str, typer.Argument(metavar="FILE", help="The JSONL file to read; `-`: standard input.")],
    as_json: Json = False,
) -> None:
    """Add the lines of an export to a flow. Lines that it has already are skipped, so an import can be repeated."""
    added = skipped = 0
    with open_memory(context) as memory, _open_lines(source) as file:
        lines = _decode_lines(file)
        with status_line() as report:
            while batch := list(islice(lines, IMPORT_BATCH)):
                done = memory.flow(flow).import_lines(batch)
                added, skipped = added + done.added, skipped + done.skipped
                report(f"importing {source}: {added + skipped:,} lines")
        line = f"{added} turns and memories added, {skipped} were there already."
        print_answer({"added": added, "skipped": skipped}, as_json, line)


def _open_lines(source: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(typer.get_binary_stream("stdin")) if source == STANDARD_INPUT else open(source, "rb")


def _decode_lines(file: BinaryIO) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(file, 1):
        if text.strip():
            try:
                yield typed.decode(text, dict[str, Any])
            except msgspec.DecodeError as error:
                advice = "Correct it and import the file again: what was imported is skipped."
                raise Invalid(f"Line {number} is not a JSON object: {error}. {advice}") from None


# -- files of sessions


def upload(
    context: typer.Context,
    app: AppArgument,
    session: AppSessionArgument,
    files: Annotated[list[Path], typer.Argument(help="The files to add; `-`: standard input.")],
    filename: Annotated[
        str | None, typer.Option("--filename", help="The name of a single file; required for standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add files to a session, and report if their text was extracted."""
    with open_memory(context) as memory:
        if filename is not None and len(files) > 1:
            raise Invalid("--filename names a single file: upload one at a time.")
        for path in files:  # check all of them before any is added
            if str(path) == STANDARD_INPUT and filename is None:
                raise Invalid(MISSING_FILENAME)
            if str(path) != STANDARD_INPUT and not path.is_file():
                raise Invalid(f"{path} cannot be read: it is not a file.")
        place = memory.app(app).session(session).files
        for path in files:
            content = read_bytes(STANDARD_INPUT) if str(path) == STANDARD_INPUT else path
            file = place.upload(content, filename=filename)
            line = f"{file.filename}  {file.file_id}  {file.state}" + (f": {file.reason}" if file.reason else "")
            if as_json:
                print_json_line(file)  # a line for each file
            else:
                print_answer(file, as_json, line)


def download(
    context: typer.Context,
    app: AppArgument,
    session: AppSessionArgument,
    file_id: Annotated[str, typer.Argument(help="The id of the file.")],
    output: OutputOption = None,
) -> None:
    """Write a file of a session to disk or to standard output."""
    with open_memory(context) as memory:
        content = memory.app(app).session(session).files.read(file_id)
        if output is None:
            sys.stdout.buffer.write(content)
            return
        try:
            with open(output, "xb") as file:
                file.write(content)
        except FileExistsError:
            raise Invalid(f"{output} exists already: choose another name.") from None
        console().print(f"{len(content)} bytes written to {output}.", markup=False)
