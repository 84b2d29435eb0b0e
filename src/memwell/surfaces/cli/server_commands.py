"""`memwell serve | worker | watch | mcp | login | logout`."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer
from rich.text import Text

from ...core import functions
from ...core.access import OwnerKind, Scope
from ...core.operation import Operation, to_request
from ...errors import Forbidden, Invalid, NotFound
from ...registry import open_engine, require_operation
from ...sdk._sync import Memory
from ...sdk.transport import LocalTransport
from .output import (
    Json,
    console,
    count_noun,
    print_answer,
    print_dim,
    print_json_line,
    print_value,
    print_warnings,
    report_errors,
)
from .target import Profile, Target, check_url, find_override, open_memory, read_profile, transport_of, write_profile

if TYPE_CHECKING:
    from ...core.events import Event


def login(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="The server's address.")] = "http://127.0.0.1:8420",
    key: Annotated[str | None, typer.Option("--key", help="The API key. Without it, you are asked for one.")] = None,
    as_json: Json = False,
) -> None:
    """Log in to a server. Commands then work on its memory instead of a local directory."""
    target: Target = context.obj
    with report_errors():
        check_url(url)
        secret = key or typer.prompt("API key", hide_input=True, err=True)
        with Memory(url, api_key=secret) as memory:
            status = memory.status()
        path = target.config().profile_path
        write_profile(path, Profile(url, secret))
        line = f"Logged in to {url} as {status.role} of tenant {status.tenant}."
        answer = {"url": url, "role": status.role, "tenant": status.tenant}
        print_answer(answer, as_json, line)
        print_warnings(filter(None, [find_override(url)]))


def logout(context: typer.Context, as_json: Json = False) -> None:
    """Forget the server and its key; commands work on the local directory again."""
    target: Target = context.obj
    with report_errors():
        path = target.config().profile_path
        profile = read_profile(path)
        path.unlink(missing_ok=True)
        line = f"Logged out of {profile.url}." if profile else "You were not logged in."
        print_answer({"url": profile.url if profile else None}, as_json, line)


def show_status(context: typer.Context, as_json: Json = False) -> None:
    """Show the directory or server, the tenant, role and scope of the key, the storage, and the backlog of jobs."""
    with open_memory(context) as memory:
        status = memory.status()
        plain = msgspec.to_builtins(status, builtin_types=(datetime,))
        print_answer(status, as_json, lambda: print_value({"memory": transport_of(memory).place, **plain}))


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to bind. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to bind. Default: 8420.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Require no key. Only with a loopback address.")] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="The number of processes that answer requests. They share the data.")
    ] = 1,
) -> None:
    """Start a server. The first start creates a key and shows it once."""
    from ..rest import serve as rest

    target: Target = context.obj
    with report_errors():
        config = target.config(host=host, port=port)
        rest.require_auth(config, not no_auth)
        rest.configure_logs(config.log_level)
        functions.load_modules(config.functions)
        listener = rest.bind(config)
        engine = open_engine(config)
        engine.ensure_tenant(config.tenant)
        secret = None if no_auth else rest.first_key(engine, config)

        def ready() -> None:
            out = console()
            address = f"http://{config.host}:{config.port}"
            out.print(Text.assemble(("Memwell ", "bold"), f"is ready at {address} (/docs describes the API)"))
            out.print(Text(f"Data in {config.home_without_password}", style="dim"))
            if secret:
                out.print(Text.assemble("Your first key, shown only once: ", (secret, "bold green")))
            if no_auth:
                warning = "No key is required: anyone who can reach this address can do anything."
                out.print(Text(warning, style="yellow"))

        if workers == 1:
            return rest.run(engine, config, auth=not no_auth, listener=listener, on_ready=ready)
        engine.close()
        rest.serve_with_workers(config, workers, auth=not no_auth, listener=listener, on_ready=ready)
    return None


def worker(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Run the due jobs and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Run the background jobs of all tenants until stopped."""
    from ..rest.serve import configure_logs

    target: Target = context.obj
    with report_errors():
        config = target.config()
        configure_logs(config.log_level)
        engine = open_engine(config)
        if once:
            count = engine.worker.run_hinted()
            engine.close()
            line = f"{count_noun(count, 'job')} run."
            return print_answer({"jobs": count}, as_json, line)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C
        try:
            engine.worker.start()
            console().print(f"Working on {config.home_without_password}; Ctrl-C ends it.")
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
    with open_memory(context) as memory:
        if not as_json:
            print_dim("Watching; Ctrl-C ends it.")
        try:
            for event in memory.watch():
                owner = (event.dialect, event.name)
                if (flow is None or owner == ("flow", flow)) and (user is None or owner == ("user", user)):
                    _print_event(event, as_json)
        except KeyboardInterrupt:
            return


def _print_event(event: Event, as_json: bool) -> None:
    if as_json:
        return print_json_line(event)
    at = event.at.strftime("%H:%M:%S.%f")[:-3]
    place = "/".join(part for part in (event.dialect, event.name, event.session) if part)
    count = f"  {event.entries} entries" if event.entries > 1 else ""
    text = f"  {event.operation:<22} {place}{count}"
    style = "green" if event.effect == "write" else "cyan"
    console().print(Text.assemble((at, "dim"), "  ", (event.effect.ljust(5), style), text))
    return None


def mcp(
    context: typer.Context,
    tools: Annotated[
        Literal["default", "all"],
        typer.Option("--tools", metavar="[default|all]", help="A few well-named tools, or one for every operation."),
    ] = "default",
    user: Annotated[str | None, typer.Option("--user", help="Limit all tools to this user.")] = None,
    flow: Annotated[str | None, typer.Option("--flow", help="Limit all tools to this flow.")] = None,
) -> None:
    """Offer memory as MCP tools over standard input and output."""
    from ..mcp import require_package

    target: Target = context.obj
    with report_errors():
        scope = _parse_scope(user, flow)
        require_package()
        with _open_scoped_memory(target, scope) as memory:
            _serve_tools(target, memory, tools, scope)


def _serve_tools(target: Target, memory: Memory, tools: Literal["default", "all"], scope: Scope | None) -> None:
    from ..mcp import stdio
    from ..mcp.tools import build_tools
    from ..rest.serve import configure_logs

    config = target.config()
    configure_logs(config.log_level)
    status = memory.status()
    key_scope = Scope("user", status.user) if status.user is not None else None
    if status.flow is not None:
        key_scope = Scope("flow", status.flow)
    if key_scope is not None and scope not in (None, key_scope):
        raise Forbidden(f"Your key is limited to the {key_scope.kind} {key_scope.name!r}.")
    scope = key_scope or scope

    def perform(operation: Operation, data: dict[str, Any]) -> Any:
        result = memory.call(operation.name, data)
        if scope is not None and getattr(result, "gate", None) == "scope":
            raise NotFound("There is no such entry.")  # do not reveal that another scope has it
        return result

    stdio.serve(
        build_tools(tools, scope.kind if scope else None, key_scope is not None), scope, perform, config.max_body
    )


def _parse_scope(user: str | None, flow: str | None) -> Scope | None:
    if user is not None and flow is not None:
        raise Invalid("Give either --user or --flow, not both.")
    kind: OwnerKind = "user" if user is not None else "flow"
    name = user if user is not None else flow
    if name is None:
        return None
    to_request(require_operation(f"{kind}s.sessions"), {kind: name})  # check the name
    return Scope(kind, name)


@contextmanager
def _open_scoped_memory(target: Target, scope: Scope | None) -> Iterator[Memory]:
    """Open the memory for the tools. Local memory is limited to the scope, and its worker runs jobs."""
    if target.find_login() is not None:
        with target.memory() as memory:
            yield memory
        return
    config = target.config()
    with Memory(config.home, tenant=config.tenant, worker=config.worker) as memory:
        transport = transport_of(memory)
        if scope is not None and isinstance(transport, LocalTransport):
            transport.limit_to(scope)
        yield memory
