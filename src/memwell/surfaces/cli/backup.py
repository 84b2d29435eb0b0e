"""`memwell backup` and `memwell restore`: on a directory or a database itself, not through a server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from ... import config as configuration
from ...clock import SystemClock
from ...errors import Invalid, NotFound
from ...registry import open_engine
from ...storage.choose import open_store
from .messages import told
from .output import Json, console, show, utc
from .target import Target

if TYPE_CHECKING:
    from ...backup import Made, Manifest, Restored
    from ...storage.copier import Moved

Tenants = Annotated[list[str] | None, typer.Option("--tenant", help="Only this tenant; may be repeated.")]


def backup(
    context: typer.Context,
    target: Annotated[
        Path | None, typer.Argument(help="The folder that backups are kept in. Default: beside the data, `…-backups`.")
    ] = None,
    tenant: Tenants = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Leave so many backups of this kind, and remove older ones.")
    ] = None,
    erasures_only: Annotated[
        bool, typer.Option("--erasures-only", help="Only what was erased, so that older backups can be told.")
    ] = False,
    check: Annotated[Path | None, typer.Option("--check", help="Make none; verify this one.")] = None,
    as_json: Json = False,
) -> None:
    """Copy the data as it is now into a folder of its own, while it is used, and verify the copy.

    It works on the data directory or the database itself. What the folder holds is as private as the data.
    """
    from ... import backup as backups
    from ...backup.check import strangers

    whose: Target = context.obj
    with told():
        if check is not None:
            if target is not None or tenant or keep or erasures_only:
                raise Invalid("--check verifies a backup and does nothing else.")
            manifest = backups.check(check)
            others = strangers(check, manifest)
            shown = {**_shown(check, manifest), "others": others}
            return show(shown, as_json, lambda: _print_checked(check, manifest, others))
        _require_own(whose)
        with _progress(as_json) as progress:
            made = backups.back_up(
                whose.config().home,
                target,
                tenants=_chosen(whose, tenant),
                erasures_only=erasures_only,
                keep=keep,
                progress=progress,
            )
        show({**_shown(made.path, made.manifest), "removed": made.removed}, as_json, lambda: _print_made(made))
    if any(one.lost for one in made.manifest.tenants):
        raise typer.Exit(1)
    return None


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="The backup.")],
    tenant: Tenants = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace tenants that are there; what was written since is lost.")
    ] = False,
    erasures: Annotated[
        list[str] | None,
        typer.Option(help="What else knows of erasures: a backup, a folder of them, a data directory or a database."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a backup into the data directory or the database. What was erased since it was made stays erased.

    Erasures are known from newer backups in the same folder, from tenants that are replaced, and from what --erasures names.
    """
    from ... import backup as backups

    whose: Target = context.obj
    with told(), _progress(as_json) as progress:
        _require_own(whose)
        done = backups.restore(
            source,
            whose.config().home,
            tenants=_chosen(whose, tenant),
            replace=replace,
            erasures=erasures or (),
            progress=progress,
        )
        result = {
            "tenants": [one._asdict() for one in done.tenants],
            "dropped": done.dropped,
            "told_by": done.told_by,
            "known_until": done.known_until,
        }
    show(result, as_json, lambda: _print_restored(done, whose.config().shown_home))
    if any(one.lost or one.residual for one in done.tenants):
        raise typer.Exit(1)


def _chosen(whose: Target, tenants: list[str] | None) -> list[str]:
    """Tenants may be named before the command as well."""
    return tenants or ([] if whose.tenant is None else [whose.tenant])


def _require_own(whose: Target) -> None:
    """A server's data is elsewhere: nobody shall believe that it was backed up."""
    if whose.address:
        raise Invalid(
            f"This works on the data itself, not through {whose.address}: run it where the data is, with --home."
        )


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is being done, on standard error, where a person can see it."""
    shown = Console(stderr=True)
    if quiet or not shown.is_terminal:
        yield lambda what: None
        return
    with shown.status("beginning …") as status:
        yield lambda what: status.update(f"{what} …")


def _shown(path: Path, manifest: Manifest) -> dict[str, Any]:
    told_of: dict[str, Any] = msgspec.to_builtins(manifest)
    files = told_of.pop("files")
    return {"path": str(path.absolute()), "bytes": sum(one["size"] for one in files), "files": len(files), **told_of}


def _print_made(made: Made) -> None:
    console().print(Text(str(made.path), style="bold"))
    _print_held(made.manifest)
    if made.removed:
        console().print(f"Removed: {', '.join(made.removed)}.")


def _print_checked(path: Path, manifest: Manifest, others: list[str]) -> None:
    console().print(f"{path} is whole: made {utc(manifest.created_at)} by version {manifest.memwell}.")
    _print_held(manifest)
    if others:
        console().print(Text(f"No part of it: {', '.join(others)[:500]}"))


def _print_held(manifest: Manifest) -> None:
    out = console()
    for one in manifest.tenants:
        held = f"{one.entries:,} entries, {one.files:,} files, " if manifest.kind == "whole" else ""
        out.print(f"{one.tenant}: {held}{one.erasures:,} erasures noted.")
        if one.lost:
            lacking = f"  {len(one.lost)} files are missing or damaged where they are kept: {', '.join(one.lost)[:200]}"
            out.print(Text(lacking, style="red"))
    size = sum(file.size for file in manifest.files)
    out.print(f"{len(manifest.files):,} files, {size / 1e6:,.1f} MB, verified.")


def _print_restored(done: Restored, home: str) -> None:
    out = console()
    for one in done.tenants:
        again = f", {one.erased:,} things were erased again" if one.erased else ""
        out.print(f"{one.tenant}: {one.entries:,} entries are {'back' if one.replaced else 'there'}{again}.")
        if one.keys is None:
            out.print("  Its API keys were left out, since the target has a secret of its own: make new ones there.")
        if one.residual:
            out.print(Text(f"  A second look found {one.residual} traces of what was erased.", style="red"))
        if one.lost:
            out.print(Text(f"  {len(one.lost)} of its files were missing already when it was backed up.", style="red"))
    for name in done.dropped:
        out.print(f"{name} was deleted after this backup was made, and is left out.")
    out.print(f"Restored to {home}. Erasures are known until {utc(done.known_until)}; later ones cannot be.")


# -- `memwell migrate`: bring what is stored up to this version's tables, on purpose and before anybody needs them.


def migrate(
    context: typer.Context,
    citus: Annotated[
        bool, typer.Option("--citus", help="Distribute the tables by tenant; the database has the extension Citus.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring the tables up to date. Opening does the same; this does it with the rights of whoever runs it."""
    target: Target = context.obj
    with told():
        config = target.config()
        if citus and not config.on_postgres:
            raise Invalid("--citus is for a database: give its address with --home postgresql://…")
        engine = open_engine(config)
        try:
            tenants = [row[0] for row in engine.store.control.rows("list_tenants", after="", limit=10_000_000)]
            for tenant in [] if config.on_postgres else tenants:  # each has tables of its own
                engine.store.read(tenant, lambda tx: tx.row("last_event"))
        finally:
            engine.close()
        tables = _distribute(config.home) if citus else []
        result = {"tenants": len(tenants), **({"distributed": tables} if citus else {})}
        show(result, as_json, lambda: console().print(_sentence(config.shown_home, len(tenants), tables)))


def _distribute(dsn: str) -> list[str]:
    from ...storage.postgres.citus import distribute

    return distribute(dsn)


def _sentence(home: str, tenants: int, tables: list[str]) -> str:
    spread = f", {len(tables)} tables distributed by tenant" if tables else ""
    return f"{home} is up to date: {tenants} {'tenant' if tenants == 1 else 'tenants'}{spread}."


# -- `memwell move`: from a directory to a database, or back.


def move(
    source: Annotated[str, typer.Argument(help="The data directory, or a postgresql:// address.")],
    target: Annotated[str, typer.Argument(help="Where to: a postgresql:// address, or a directory.")],
    tenant: Annotated[list[str] | None, typer.Option("--tenant", help="Only this tenant; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Copy tenants from one store to another, and prove that both hold the same.

    The source stays as it is; it can be read meanwhile, and its writers wait. A move that was cut off goes on where it was.
    """
    with told():
        if configuration.load(home=source).home_path == configuration.load(home=target).home_path:
            raise Invalid("Source and target are the same.")
        results = _move(source, target, tenant or [], quiet=as_json)
        show(results, as_json, lambda: _print(results))


def _move(source: str, target: str, chosen: list[str], *, quiet: bool) -> list[dict[str, Any]]:
    from ...storage.copier import move_keys, move_tenant

    clock = SystemClock().now
    here = open_store(configuration.load(home=source), clock)
    there = open_store(configuration.load(home=target), clock)
    try:
        known = [row[0] for row in here.control.rows("list_tenants", after="", limit=10_000_000)]
        missing = [name for name in chosen if name not in known]
        if missing:
            raise NotFound(f"There is no tenant {missing[0]} at the source.")
        done = {row[0] for row in there.control.rows("list_tenants", after="", limit=10_000_000)}
        results: list[dict[str, Any]] = []
        with _move_progress(quiet) as progress:
            for name in chosen or known:
                if name in done and not chosen:
                    continue  # an earlier run has moved it
                count = _counter(progress, name, here.read(name, lambda tx: tx.row("count_all")))
                moved = move_tenant(here, there, name, count)
                results.append(_result(name, moved, move_keys(here, there, name)))
        return results
    finally:
        here.close()
        there.close()


def _move_progress(quiet: bool) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console(), transient=True, disable=quiet or not sys.stdout.isatty())


def _counter(progress: Progress, tenant: str, total: tuple[Any, ...] | None) -> Callable[[str, int], None]:
    task = progress.add_task(f"moving {tenant}", total=total[0] if total else None)
    return lambda table, rows: progress.advance(task, rows)


def _result(tenant: str, moved: Moved, keys: int | None) -> dict[str, Any]:
    return {"tenant": tenant, "rows": moved.rows, "digest": moved.digest, "keys": keys}


def _print(results: list[dict[str, Any]]) -> None:
    out = console()
    for result in results:
        rows = result["rows"]
        out.print(f"{result['tenant']}: {rows['entry']:,} entries, {sum(rows.values()):,} rows; both sides are equal.")
        if result["keys"] is None:
            out.print("  Its API keys were not moved, since the target has a secret of its own: make new ones there.")
    if not results:
        out.print("Everything was there already.")
