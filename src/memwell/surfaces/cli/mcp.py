"""`memwell mcp`: memory as tools, for a client that starts this command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer

from ...dialects.search import WhyNot
from ...errors import Forbidden, Invalid, NotFound
from ...model.principal import Bound, Tie
from ...operation import Operation, to_request
from ...registry import find
from ...sdk._sync import Memory
from ...sdk.transport import LocalTransport
from .target import Target, transport_of
from .telling import told


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
