"""`memwell`: the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ...version import __version__
from . import generated, maintenance, memory_commands, run_commands, server_commands
from .target import Target

app = typer.Typer(
    name="memwell",
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
    """Memory for AI agents: conversations, facts and records."""
    context.obj = Target(home=home, url=url, tenant=tenant)


memory_commands.add_commands(app)
_group = typer.Typer(no_args_is_help=True, help="The same commands as `memwell ls | show | end | rm | search`.")
memory_commands.add_commands(_group)
app.add_typer(_group, name="memory")
COMMANDS: dict[str, Callable[..., None]] = {
    "serve": server_commands.serve,
    "worker": server_commands.worker,
    "watch": server_commands.watch,
    "mcp": server_commands.mcp,
    "login": server_commands.login,
    "logout": server_commands.logout,
    "run": run_commands.run_node_once,
    "export": memory_commands.export,
    "import": memory_commands.import_file,
    "audit": memory_commands.audit,
    "doctor": maintenance.doctor,
    "migrate": maintenance.migrate,
    "move": maintenance.move,
    "backup": maintenance.backup,
    "restore": maintenance.restore,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
generated.add_commands(
    app,
    {
        "workflow run": run_commands.run_workflow,
        "runs follow": run_commands.follow_run,
        "status show": server_commands.show_status,
        "app upload": memory_commands.upload,
        "app download": memory_commands.download,
    },
)


def main() -> None:
    app()
