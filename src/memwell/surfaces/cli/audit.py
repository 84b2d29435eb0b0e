"""`memwell audit`: what should not be among the facts, with the items. It returns 1 if there is anything, for builds."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from ...dialects.audits import Audit
from ...sdk._sync import Flow, Memory, User
from .output import Json, console, show, shown
from .target import Target
from .telling import told

FOUND = 1


def audit(
    context: typer.Context,
    flow: Annotated[str | None, typer.Option("--flow", help="Only this flow.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user.")] = None,
    as_json: Json = False,
) -> None:
    """Look for duplicates, contradictions, echoes, orphans, stale and secret-looking facts."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        found = {f"{place._dialect[:-1]} {place.id}": place.audit() for place in _places(memory, flow, user)}
        show(_plain(found), as_json, lambda: _print(found))
    if any(one.findings for one in found.values()):
        raise typer.Exit(FOUND)


def _places(memory: Memory, flow: str | None, user: str | None) -> list[Flow | User]:
    if flow is not None or user is not None:
        given: list[Flow | User] = [memory.flow(flow)] if flow is not None else []
        return [*given, *([memory.user(user)] if user is not None else [])]
    flows: list[Flow | User] = [memory.flow(one.flow) for one in memory.flows()]
    return [*flows, *(memory.user(one.user) for one in memory.users())]


def _plain(found: dict[str, Audit]) -> list[dict[str, Any]]:
    return [{"where": where, **msgspec.to_builtins(one)} for where, one in found.items()]


def _print(found: dict[str, Audit]) -> None:
    out = console()
    for where, one in found.items():
        for finding in one.findings:
            problem = Text(f"{finding.problem:14}", style="yellow")
            out.print(Text.assemble(problem, f"{shown(where)}  {finding.reason} {', '.join(map(shown, finding.ids))}"))
    facts = sum(one.facts for one in found.values())
    findings = sum(sum(one.counts.values()) for one in found.values())
    counts = ((facts, "fact"), (len(found), "place"), (findings, "finding"))
    known, places, wrong = (f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    out.print(Text(f"{known} in {places}, {wrong}", style="dim"))
