"""`memwell audit`: what should not be among the facts, with the items. It returns 1 if there is anything, for builds."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import apsw
import msgspec
import typer
from rich.text import Text

from ...config import Config
from ...core.engine import Engine
from ...errors import MemwellError
from ...facts.audit import Audit
from ...registry import open_engine
from ...sdk._sync import Flow, Memory, User
from ...storage.blobs import damaged
from ...storage.sqlite import connect
from .messages import told
from .output import Json, console, show, shown
from .target import Profile, Target

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


# -- `memwell doctor`: look at everything that can be wrong, and say what to do.


LITTLE_SPACE = 512 * 1024 * 1024
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do about it."""

    subject: str
    state: str
    text: str


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Check the installation, the data and the backlog, and explain what is wrong."""
    target: Target = context.obj
    with told():
        remote = target.remote()
        findings = list(_remote(remote) if remote else _local(target.config()))
        shown = [finding._asdict() for finding in findings]
        show(shown, as_json, lambda: _print_findings(findings))
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(1)


def _print_findings(findings: list[Finding]) -> None:
    for subject, state, text in findings:
        mark, style = _MARKS[state]
        console().print(Text.assemble((mark, style), "  ", (subject.ljust(12), "bold"), text))


def _remote(profile: Profile) -> Iterator[Finding]:
    try:
        with Memory(profile.url, api_key=profile.api_key) as memory:
            status = memory.status()
        yield Finding(
            "server", "ok", f"{profile.url} answers: version {status.version}, {status.role} of tenant {status.tenant}"
        )
        dead = sum(line.count for line in status.backlog if line.state == "dead")
        yield _jobs(dead, sum(line.count for line in status.backlog if line.state == "ready"))
    except MemwellError as error:
        yield Finding("server", "problem", error.message)


def _local(config: Config) -> Iterator[Finding]:
    yield Finding("python", "ok", sys.version.split()[0])
    yield from _database(config) if config.on_postgres else _directory(config)


def _database(config: Config) -> Iterator[Finding]:
    try:
        engine = open_engine(config)
    except MemwellError as error:
        yield Finding("postgresql", "problem", error.message)
        return
    try:
        version = engine.store.describe()["version"]
        yield Finding("postgresql", "ok", f"{version} at {config.shown_home}, the tables are up to date")
        yield from _tenants(engine)
    finally:
        engine.close()


def _directory(config: Config) -> Iterator[Finding]:
    try:
        connect.require_sqlite(apsw.sqlite_lib_version())
        yield Finding("sqlite", "ok", f"{apsw.sqlite_lib_version()}, durability {config.durability}")
    except MemwellError as error:
        yield Finding("sqlite", "problem", error.message)
    home = config.home_path
    if not (home / "control.db").exists():
        yield Finding("directory", "ok", f"{home} holds no data yet; the first use makes it")
        return
    free = shutil.disk_usage(home).free
    few = free < LITTLE_SPACE
    yield Finding(
        "disk", "warning" if few else "ok", f"{free / 1e9:.1f} GB free{': free some space' if few else ''} in {home}"
    )
    try:
        engine = open_engine(config)
    except MemwellError as error:
        yield Finding("control.db", "problem", error.message)
        return
    try:
        yield from _tenants(engine)
    finally:
        engine.close()


def _tenants(engine: Engine) -> Iterator[Finding]:
    for tenant, _ in engine.store.control.rows("list_tenants", after="", limit=100_000):
        yield from _tenant(engine, tenant)


def _tenant(engine: Engine, tenant: str) -> Iterator[Finding]:
    try:
        damage = engine.store.check(tenant)
        if damage:
            yield Finding(
                tenant, "problem", f"its file is damaged ({damage[0]}): stop all writers and restore a backup"
            )
            return
        rows = engine.store.read(tenant, lambda tx: tx.rows("job_backlog"))
        dead = sum(row[2] for row in rows if row[1] == "dead")
        yield Finding(tenant, "ok", "it can be read as a whole")
        yield from _files(engine, tenant)
        yield _jobs(dead, sum(row[2] for row in rows if row[1] == "ready"))
    except MemwellError as error:
        yield Finding(tenant, "problem", error.message)


def _files(engine: Engine, tenant: str) -> Iterator[Finding]:
    """Uploaded files lie beside the database, or in a table of their own."""
    lost = engine.store.read(tenant, lambda tx: damaged(tx, engine.store.blobs(tenant).within(tx)))
    if lost:
        more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        yield Finding("files", "problem", f"{lost[0]}{more}: restore a backup")


def _jobs(dead: int, waiting: int) -> Finding:
    if dead:
        return Finding(
            "jobs",
            "warning",
            f"{dead} failed for good: `memwell job list --state dead` shows them, `memwell job retry ID` tries again",
        )
    return Finding("jobs", "ok", f"none failed, {waiting} waiting for their time")
