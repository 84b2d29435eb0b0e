"""`memwell move`: from a directory to a database, or back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ... import config as configuration
from ...clock import SystemClock
from ...errors import Invalid, NotFound
from ...storage.choose import open_store
from .output import Json, console, show
from .telling import told

if TYPE_CHECKING:
    from ...storage.move import Moved


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
    from ...storage.move import move_keys, move_tenant

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
        with _progress(quiet) as progress:
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


def _progress(quiet: bool) -> Progress:
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
