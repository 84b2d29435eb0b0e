"""`memwell migrate`: bring what is stored up to this version's tables, on purpose and before anybody needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from ...engine import Engine
from ...errors import Invalid
from .output import Json, console, show
from .target import Target
from .telling import told


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
        engine = Engine.open(config)
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
