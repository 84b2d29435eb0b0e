"""`memwell login` and `logout`."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from ...core import functions
from ...core.events import Event
from ...core.operation import Operation, to_request
from ...errors import Forbidden, Invalid, NotFound
from ...facts.search import WhyNot
from ...model.principal import Bound, Tie
from ...registry import find, open_engine
from ...sdk._sync import Memory
from ...sdk.transport import LocalTransport
from .messages import told
from .output import Json, console, print_json, show
from .target import Profile, Target, read_profile, require_url, transport_of, write_profile


def login(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="The server's address.")] = "http://127.0.0.1:8420",
    key: Annotated[str | None, typer.Option("--key", help="The API key; left away, you are asked for it.")] = None,
    as_json: Json = False,
) -> None:
    """Log in to a server: commands then work on its memory instead of a local directory."""
    target: Target = context.obj
    with told():
        require_url(url)
        secret = key or typer.prompt("API key", hide_input=True, err=True)
        with Memory(url, api_key=secret) as memory:
            status = memory.status()
        path = target.config().profile_path
        write_profile(path, Profile(url, secret))
        said = f"Logged in to {url} as {status.role} of tenant {status.tenant}."
        answer = {"url": url, "role": status.role, "tenant": status.tenant}
        show(answer, as_json, lambda: console().print(Text(said)))


def logout(context: typer.Context, as_json: Json = False) -> None:
    """Forget the server and its key; commands work on the local directory again."""
    target: Target = context.obj
    with told():
        path = target.config().profile_path
        profile = read_profile(path)
        path.unlink(missing_ok=True)
        said = f"Logged out of {profile.url}." if profile else "You were not logged in."
        show({"url": profile.url if profile else None}, as_json, lambda: console().print(said))


# -- `memwell serve`, `worker` and `watch`.


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
        engine = open_engine(config)
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
        from ..rest import serve as several

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
        engine = open_engine(config)
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


# -- `memwell mcp`: memory as tools, for a client that starts this command.


def mcp(
    context: typer.Context,
    tools: Annotated[
        Literal["default", "all"],
        typer.Option("--tools", metavar="[default|all]", help="A few well-named tools, or one for every operation."),
    ] = "default",
    user: Annotated[str | None, typer.Option("--user", help="Hold all tools to this user.")] = None,
    flow: Annotated[str | None, typer.Option("--flow", help="Hold all tools to this flow.")] = None,
) -> None:
    """Offer memory as MCP tools over standard input and output."""
    from ..mcp import require_package

    target: Target = context.obj
    with told():
        asked = _tie(user, flow)
        require_package()
        with _memory(target, asked) as memory:
            _serve(target, memory, tools, asked)


def _serve(target: Target, memory: Memory, tools: Literal["default", "all"], asked: Tie | None) -> None:
    from ..mcp import stdio
    from ..mcp.tools import toolbox
    from ..rest.serve import configure_logs

    config = target.config()
    configure_logs(config.log_level)
    held = _held(memory)
    if held is not None and asked not in (None, held):
        raise Forbidden(f"Your key is held to the {held.kind} {held.name!r}: it cannot be used for another.")
    tie = held or asked

    def perform(operation: Operation, data: dict[str, Any]) -> Any:
        result = memory.call(operation.name, data)
        if tie is not None and isinstance(result, WhyNot) and result.gate == "scope":
            raise NotFound("There is no such entry.")  # whether others have it is none of this command's business
        return result

    stdio.serve(toolbox(tools, tie.kind if tie else None, held is not None), tie, perform, config.max_body)


def _tie(user: str | None, flow: str | None) -> Tie | None:
    if user is not None and flow is not None:
        raise Invalid("Give either --user or --flow, not both.")
    kind: Bound = "user" if user is not None else "flow"
    name = user if user is not None else flow
    if name is None:
        return None
    to_request(find("users.sessions" if kind == "user" else "flows.sessions"), {kind: name})  # it must be a valid one
    return Tie(kind, name)


def _held(memory: Memory) -> Tie | None:
    """What the key is held to, if it is."""
    status = memory.status()
    if status.user is not None:
        return Tie("user", status.user)
    return None if status.flow is None else Tie("flow", status.flow)


@contextmanager
def _memory(target: Target, asked: Tie | None) -> Iterator[Memory]:
    """The server that one is logged in to, or the directory; there, jobs run meanwhile, if they may, and nothing is reached that
    is not of whom the tools are held to."""
    if target.remote() is not None:
        with target.memory() as memory:
            yield memory
        return
    config = target.config()
    with Memory(config.home, tenant=config.tenant, worker=config.worker) as memory:
        transport = transport_of(memory)
        if asked is not None and isinstance(transport, LocalTransport):
            transport.hold(asked)
        yield memory
