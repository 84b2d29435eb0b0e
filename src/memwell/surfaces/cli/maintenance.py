"""`memwell backup | restore | migrate | move | doctor`. They work on a directory or a database, not through a server."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import apsw
import msgspec
import typer
from rich.text import Text

from ... import config as configuration
from ...clock import SystemClock
from ...config import Config
from ...core.engine import Engine
from ...errors import Invalid, MemwellError, NotFound
from ...registry import open_engine
from ...sdk._sync import Memory
from ...storage import open_store
from ...storage.blobs import list_damage
from ...storage.port import list_tenants
from ...storage.sqlite import connect
from ...storage.sqlite.control import list_tenant_files
from .output import Json, console, count_noun, format_time, print_answer, report_errors, status_line
from .target import Profile, Target

if TYPE_CHECKING:
    from ...backup import Manifest, Restored
    from ...storage.copier import CopyableStore
    from ...storage.port import Store

INCOMPLETE = 1
LOW_SPACE = 512 * 1024 * 1024
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}
Tenants = Annotated[list[str] | None, typer.Option("--tenant", help="Only this tenant; may be repeated.")]


def backup(
    context: typer.Context,
    target: Annotated[
        Path | None, typer.Argument(help="The folder for backups. Default: `…-backups` beside the data.")
    ] = None,
    tenant: Tenants = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="Keep only this many backups of this kind.")] = None,
    erasures_only: Annotated[
        bool, typer.Option("--erasures-only", help="Only the erasure log, for restoring older backups.")
    ] = False,
    check: Annotated[Path | None, typer.Option("--check", help="Verify this backup instead of making one.")] = None,
    as_json: Json = False,
) -> None:
    """Back up the data into a folder of its own while it is in use, and verify the copy.

    It works on the data directory or the database itself. A backup is as private as the data.
    """
    from ... import backup as backups
    from ...backup.manifest import list_strangers

    source: Target = context.obj
    with report_errors():
        if check is not None:
            if target is not None or tenant or keep or erasures_only:
                raise Invalid("--check only verifies a backup: omit the other options.")
            manifest = backups.check(check)
            others = list_strangers(check, manifest)
            answer = {**_summarize(check, manifest), "others": others}
            made_at = format_time(manifest.created_at)
            title = f"{check} is complete: made {made_at} by version {manifest.memwell}."
            last = f"Not part of it: {', '.join(others)[:500]}" if others else ""
            return print_answer(answer, as_json, lambda: _print_manifest(Text(title), manifest, last))
        home, tenants = _resolve_local(source, tenant)
        with status_line(as_json) as progress:
            made = backups.back_up(
                home, target, tenants=tenants, erasures_only=erasures_only, keep=keep, progress=progress
            )
        answer = {**_summarize(made.path, made.manifest), "removed": made.removed}
        title, last = str(made.path), f"Removed: {', '.join(made.removed)}." if made.removed else ""
        print_answer(answer, as_json, lambda: _print_manifest(Text(title, style="bold"), made.manifest, last))
    if any(one.lost for one in made.manifest.tenants):
        raise typer.Exit(INCOMPLETE)
    return None


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The backup.")],
    tenant: Tenants = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace existing tenants; their changes since the backup are lost.")
    ] = False,
    erasures: Annotated[
        list[str] | None,
        typer.Option(help="More sources of erasures: a backup, a folder of backups, a data directory or a database."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Restore a backup into the data directory or the database. Data that was erased since the backup stays erased.

    Erasures are read from newer backups in the same folder, from replaced tenants, and from the sources in --erasures.
    """
    from ... import backup as backups

    target: Target = context.obj
    with report_errors(), status_line(as_json) as progress:
        home, tenants = _resolve_local(target, tenant)
        restored = backups.restore(
            source, home, tenants=tenants, replace=replace, erasures=erasures or (), progress=progress
        )
        answer = {
            "tenants": [one._asdict() for one in restored.tenants],
            "dropped": restored.dropped,
            "told_by": restored.told_by,
            "known_until": restored.known_until,
        }
    print_answer(answer, as_json, lambda: _print_restored(restored, target.config().home_without_password))
    if any(one.lost or one.residual for one in restored.tenants):
        raise typer.Exit(INCOMPLETE)


def _resolve_local(target: Target, tenants: list[str] | None) -> tuple[str, list[str]]:
    """Return the data to work on and the tenants. `--tenant` may also precede the command."""
    if target.server_url:
        raise Invalid(
            f"This command cannot work through {target.server_url}: run it on the machine with the data, with --home."
        )
    return target.config().home, tenants or ([] if target.tenant is None else [target.tenant])


def _summarize(path: Path, manifest: Manifest) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(manifest)
    files = plain.pop("files")
    return {"path": str(path.absolute()), "bytes": sum(one["size"] for one in files), "files": len(files), **plain}


def _print_manifest(title: Text, manifest: Manifest, last: str) -> None:
    out = console()
    out.print(title)
    for one in manifest.tenants:
        content = f"{one.entries:,} entries, {one.files:,} files, " if manifest.kind == "whole" else ""
        out.print(f"{one.tenant}: {content}{one.erasures:,} erasures.")
        if one.lost:
            names = ", ".join(one.lost)[:200]
            out.print(Text(f"  {len(one.lost)} files are missing or damaged in the data: {names}", style="red"))
    size = sum(file.size for file in manifest.files)
    out.print(f"{len(manifest.files):,} files, {size / 1e6:,.1f} MB, verified.")
    if last:
        out.print(Text(last))


def _print_restored(restored: Restored, home: str) -> None:
    out = console()
    for one in restored.tenants:
        erased = f", {one.erased:,} items erased again" if one.erased else ""
        replaced = " in place of the old ones" if one.replaced else ""
        out.print(f"{one.tenant}: {one.entries:,} entries restored{replaced}{erased}.")
        if one.keys is None:
            out.print("  Its API keys were not restored, because the target has another secret: create new ones there.")
        if one.residual:
            out.print(Text(f"  {one.residual} traces of erased data were found afterwards.", style="red"))
        if one.lost:
            out.print(Text(f"  {len(one.lost)} of its files were missing when the backup was made.", style="red"))
    for name in restored.dropped:
        out.print(f"{name} was deleted after this backup was made, and is not restored.")
    known_until = format_time(restored.known_until)
    out.print(f"Restored to {home}. Erasures up to {known_until} were applied; later ones are not known.")


def migrate(
    context: typer.Context,
    citus: Annotated[
        bool, typer.Option("--citus", help="Distribute the tables by tenant; the database has the extension Citus.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the tables up to date, with the rights of the caller. Opening the data does the same."""
    target: Target = context.obj
    with report_errors():
        config = target.config()
        if citus and not config.on_postgres:
            raise Invalid("--citus needs a database: give its address with --home postgresql://…")
        with closing(open_engine(config)) as engine:
            tenants = list_tenants(engine.store)
            for tenant in [] if config.on_postgres else tenants:  # in a directory, every tenant has its own file
                engine.store.read(tenant, lambda tx: tx.row("last_event"))
        tables: list[str] = []
        if citus:
            from ...storage.postgres.migrate import distribute

            tables = distribute(config.home)
        answer = {"tenants": len(tenants), **({"distributed": tables} if citus else {})}
        spread = f", {len(tables)} tables distributed by tenant" if tables else ""
        line = f"{config.home_without_password} is up to date: {count_noun(len(tenants), 'tenant')}{spread}."
        print_answer(answer, as_json, line)


def move(
    source: Annotated[str, typer.Argument(help="The data directory or postgresql:// address to copy from.")],
    target: Annotated[str, typer.Argument(help="The postgresql:// address or directory to copy to.")],
    tenant: Tenants = None,
    as_json: Json = False,
) -> None:
    """Copy tenants from a directory to a database or back, and verify that both are equal.

    The source is not changed. It can be read meanwhile; its writers wait. An interrupted move continues where it stopped.
    """
    with report_errors():
        here, there = configuration.load(home=source), configuration.load(home=target)
        if here.home_path == there.home_path:
            raise Invalid("Source and target are the same.")
        clock = SystemClock().now
        with (
            closing(open_store(here, clock)) as old,
            closing(open_store(there, clock)) as new,
            status_line(as_json) as report,
        ):
            answer = _move(old, new, tenant or [], report)
        print_answer(answer, as_json, lambda: _print_moved(answer))


def _move(old: Store, new: CopyableStore, chosen: list[str], report: Callable[[str], None]) -> list[dict[str, Any]]:
    from ...storage.copier import move_keys, move_tenant

    tenants = list_tenants(old)
    missing = [name for name in chosen if name not in tenants]
    if missing:
        raise NotFound(f"There is no tenant {missing[0]} at the source.")
    done = set() if chosen else set(list_tenants(new))  # by an earlier, interrupted move
    results: list[dict[str, Any]] = []
    for name in chosen or [one for one in tenants if one not in done]:
        (total,) = old.read(name, lambda tx: tx.row("count_all")) or (0,)
        moved = move_tenant(old, new, name, _count_rows(name, total, report))
        keys = move_keys(old, new, name)
        results.append({"tenant": name, "rows": moved.rows, "digest": moved.digest, "keys": keys})
    return results


def _count_rows(tenant: str, total: int, report: Callable[[str], None]) -> Callable[[str, int], None]:
    copied = 0

    def count(table: str, rows: int) -> None:
        nonlocal copied
        copied += rows
        report(f"moving {tenant}: {copied:,} of {total:,} rows")

    return count


def _print_moved(results: list[dict[str, Any]]) -> None:
    out = console()
    for one in results:
        rows = one["rows"]
        out.print(f"{one['tenant']}: {rows['entry']:,} entries, {sum(rows.values()):,} rows; both sides are equal.")
        if one["keys"] is None:
            out.print("  Its API keys were not moved, because the target has another secret: create new ones there.")
    if not results:
        out.print("Everything was moved already.")


# -- doctor


class Finding(NamedTuple):
    subject: str
    state: str
    """`ok`, `warning` or `problem`."""
    text: str


def doctor(
    context: typer.Context,
    erasure: Annotated[
        bool, typer.Option("--erasure", help="Remove the last traces of erased data, and look for what is left.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the installation, the data and the jobs, and explain problems."""
    target: Target = context.obj
    with report_errors():
        login = target.find_login()
        if erasure and login:
            raise Invalid(
                "`--erasure` looks at stored pages: run it on the directory or the database, not through a server."
            )
        if erasure:
            findings = list(_check_erasure(target.config()))
        else:
            findings = list(_check_server(login) if login else _check_local(target.config()))
        print_answer([one._asdict() for one in findings], as_json, lambda: _print_findings(findings))
    if any(finding.state == "problem" for finding in findings):
        raise typer.Exit(1)


def _print_findings(findings: list[Finding]) -> None:
    for subject, state, text in findings:
        mark, style = MARKS[state]
        console().print(Text.assemble((mark, style), "  ", (subject.ljust(12), "bold"), text))


def _check_server(login: Profile) -> Iterator[Finding]:
    try:
        with Memory(login.url, api_key=login.api_key) as memory:
            status = memory.status()
        who = f"{status.role} of tenant {status.tenant}"
        yield Finding("server", "ok", f"{login.url} answers: version {status.version}, {who}")
        yield _check_jobs((line.state, line.count) for line in status.backlog)
    except MemwellError as error:
        yield Finding("server", "problem", error.message)


def _check_models(config: Config) -> Finding:
    """Describe the language models, without asking them."""
    from ...models.providers import Models

    try:
        sources = Models(config).sources
    except MemwellError as error:
        return Finding("models", "problem", error.message)
    return Finding("models", "ok", "; ".join(f"{name}: {one.describe()}" for name, one in sources.items()) or "none")


def _check_local(config: Config) -> Iterator[Finding]:
    yield Finding("python", "ok", sys.version.split()[0])
    yield _check_models(config)
    config = replace(config, models="")
    if not config.on_postgres:
        try:
            connect.require_sqlite(apsw.sqlite_lib_version())
            yield Finding("sqlite", "ok", f"{apsw.sqlite_lib_version()}, durability {config.durability}")
        except MemwellError as error:
            yield Finding("sqlite", "problem", error.message)
        home = config.home_path
        if not (home / "control.db").exists() and not list_tenant_files(home):
            yield Finding("directory", "ok", f"{home} has no data yet; the first use creates it")
            return
        free = shutil.disk_usage(home).free
        advice = ": free some space" if free < LOW_SPACE else ""
        yield Finding("disk", "warning" if advice else "ok", f"{free / 1e9:.1f} GB free{advice} in {home}")
    try:
        engine = open_engine(config)
    except MemwellError as error:
        yield Finding("postgresql" if config.on_postgres else "control.db", "problem", error.message)
        return
    with closing(engine):
        if config.on_postgres:
            version = engine.store.describe()["version"]
            yield Finding("postgresql", "ok", f"{version} at {config.home_without_password}, the tables are up to date")
        else:
            yield _check_secret(engine)
        for tenant in list_tenants(engine.store):
            yield from _check_tenant(engine, tenant)


def _check_erasure(config: Config) -> Iterator[Finding]:
    """Remove the last traces of erased data from all tenants, look at the stored pages, and list what remains elsewhere."""
    with closing(open_store(config, SystemClock().now)) as store:
        tenants = list(list_tenants(store))
        for tenant in tenants:
            try:
                yield _check_traces(store, tenant, rewritten=config.on_postgres and tenant != tenants[0])
            except MemwellError as error:
                yield Finding(tenant, "problem", error.message)
        for place, until in store.find_remains(tenants[0]) if tenants else ():
            yield Finding("remains", "warning", f"{place}: {until}")


def _check_traces(store: Store, tenant: str, *, rewritten: bool) -> Finding:
    backlog = store.read(tenant, lambda tx: tx.rows("job_backlog"))
    waiting = sum(row[2] for row in backlog if row[0] == "erase" and row[1] not in ("done", "cancelled"))
    if waiting:
        return Finding(tenant, "problem", f"{count_noun(waiting, 'erasure')} not finished: run `memwell worker --once`")
    whole = rewritten or store.scrub(tenant, "always")  # the tables of a database are those of all tenants
    if not whole and not store.find_remains(tenant):
        return Finding(tenant, "problem", "a reader is in the way: try again when it has ended")
    done = "rewritten" if whole else "rewritten except for the free space listed below"
    pages = store.count_stale_pages(tenant)
    if pages is None:
        return Finding(
            tenant, "warning", f"{done}; only a user with the role pg_read_server_files can look at its pages"
        )
    state = "warning" if pages[1] or not whole else "ok"
    return Finding(tenant, state, f"{done}; {pages[1]:,} of {pages[0]:,} pages have bytes of deleted data")


def _check_secret(engine: Engine) -> Finding:
    try:
        _ = engine.store.control.secret
    except MemwellError as error:
        return Finding("secret.key", "problem", error.message)
    return Finding("secret.key", "ok", "present")


def _check_tenant(engine: Engine, tenant: str) -> Iterator[Finding]:
    try:
        if damage := engine.store.check(tenant):
            advice = (
                f"stop all servers and workers, move tenants/{tenant}.db, -wal and -shm out of the directory, and run "
                f"`memwell restore BACKUP --tenant {tenant}`"
            )
            yield Finding(tenant, "problem", f"its database is damaged ({damage[0]}): {advice}")
            return
        rows = engine.store.read(tenant, lambda tx: tx.rows("job_backlog"))
        yield Finding(tenant, "ok", "all of it can be read")
        lost = engine.store.read(tenant, lambda tx: list_damage(tx, engine.store.blobs(tenant).within(tx)))
        if lost:
            more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
            yield Finding("files", "problem", f"{lost[0]}{more}: restore a backup")
        yield _check_jobs((row[1], row[2]) for row in rows)
    except MemwellError as error:
        yield Finding(tenant, "problem", error.message)


def _check_jobs(backlog: Iterable[tuple[str, int]]) -> Finding:
    counts: Counter[str] = Counter()
    for state, count in backlog:
        counts[state] += count
    if counts["dead"]:
        advice = "`memwell job list --state dead` lists them, `memwell job retry ID` runs one again"
        return Finding("jobs", "warning", f"{counts['dead']} failed permanently: {advice}")
    return Finding("jobs", "ok", f"none failed, {counts['ready']} waiting")
