"""`memwell serve`, `worker` and `watch`."""

from __future__ import annotations

import signal
import time
from typing import Annotated, Any

import typer
from rich.text import Text

from ... import functions
from ...engine import Engine
from ...watch import Event
from .output import Json, console, print_json, show
from .target import Target
from .telling import told


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to bind. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to bind. Default: 8420.")] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no key; on this machine's own address only.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="How many processes answer requests; all share the data.")
    ] = 1,
) -> None:
    """Start a server. The first start makes a key and shows it once."""
    from ..rest import serve as rest

    target: Target = context.obj
    with told():
        config = target.config(host=host, port=port)
        rest.require_auth(config, not no_auth)
        rest.configure_logs(config.log_level)
        functions.load(config.functions)
        listener = rest.bind(config)
        engine = Engine.open(config)
        engine.ensure_tenant(config.tenant)
        secret = None if no_auth else rest.first_key(engine, config)

        def ready() -> None:
            out = console()
            out.print(
                Text.assemble(
                    ("Memwell ", "bold"), f"is ready at http://{config.host}:{config.port} (/docs describes the API)"
                )
            )
            out.print(Text(f"Data in {config.shown_home}", style="dim"))
            if secret:
                out.print(Text.assemble("Your first key, shown this once: ", (secret, "bold green")))
            if no_auth:
                out.print(
                    Text("No key is asked for: whoever can reach this address can do everything.", style="yellow")
                )

        if workers == 1:
            return rest.run(engine, config, auth=not no_auth, listener=listener, on_ready=ready)
        from ..rest import workers as several

        engine.close()
        several.serve(config, workers, auth=not no_auth, listener=listener, on_ready=ready)
    return None


def worker(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Run what is due and end.")] = False,
    as_json: Json = False,
) -> None:
    """Run background jobs of all tenants until stopped."""
    from ..rest.serve import configure_logs

    target: Target = context.obj
    with told():
        config = target.config()
        configure_logs(config.log_level)
        engine = Engine.open(config)
        if once:
            count = engine.worker.run_hinted()
            engine.close()
            return show(
                {"jobs": count}, as_json, lambda: console().print(f"{count} job{'' if count == 1 else 's'} run.")
            )
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            engine.worker.start()
            console().print(f"Working on {config.shown_home}; Ctrl-C ends it.")
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            engine.close()
    return None


def watch(
    context: typer.Context,
    flow: Annotated[str | None, typer.Option("--flow", help="Only this flow.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user.")] = None,
    as_json: Json = False,
) -> None:
    """Show every read and write as it happens."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        if not as_json:
            console().print(Text("Watching; Ctrl-C ends it.", style="dim"))
        try:
            for event in memory.watch():
                if (flow is None or _is(event, "flow", flow)) and (user is None or _is(event, "user", user)):
                    _print_event(event, as_json)
        except KeyboardInterrupt:
            return


def _is(event: Event, dialect: str, name: str) -> bool:
    return event.dialect == dialect and event.name == name


def _print_event(event: Event, as_json: bool) -> None:
    if as_json:
        return print_json(event)
    at = event.at.strftime("%H:%M:%S.%f")[:-3]
    place = "/".join(part for part in (event.dialect, event.name, event.session) if part)
    style = "green" if event.effect == "write" else "cyan"
    count = f"  {event.entries} entries" if event.entries > 1 else ""
    console().print(
        Text.assemble((at, "dim"), "  ", (event.effect.ljust(5), style), f"  {event.operation:<22} {place}{count}")
    )
    return None


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
