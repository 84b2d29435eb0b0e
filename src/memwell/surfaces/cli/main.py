"""`memwell`: the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from ...version import __version__
from . import generated, maintenance, memory, server, workflow
from .target import Target

app = typer.Typer(
    name="memwell",
    help="Memory for AI agents: what was said, what is known and what is set.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    home: Annotated[
        str | None, typer.Option("--home", help="The data directory or postgresql:// address; also MEMWELL_HOME.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The server to talk to; also MEMWELL_URL.")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The tenant in the directory; also MEMWELL_TENANT.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Memory for AI agents: what was said, what is known and what is set."""
    context.obj = Target(home=home, url=url, tenant=tenant)


memory.add_commands(app)
_group = typer.Typer(no_args_is_help=True, help="The same commands as `memwell ls | show | end | rm | search`.")
memory.add_commands(_group)
app.add_typer(_group, name="memory")
app.command()(server.serve)
app.command()(server.worker)
app.command()(server.watch)
app.command()(server.mcp)
app.command()(server.login)
app.command()(server.logout)
app.command("run")(workflow.run_node_once)
app.command()(memory.export)
app.command("import")(memory.import_file)
app.command()(memory.audit)
app.command()(maintenance.doctor)
app.command()(maintenance.migrate)
app.command()(maintenance.move)
app.command()(maintenance.backup)
app.command()(maintenance.restore)
generated.add_commands(
    app, {"workflow run": workflow.run_workflow, "app upload": memory.upload, "app download": memory.download}
)


def main() -> None:
    app()
