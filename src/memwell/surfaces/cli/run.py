"""`memwell run`: a node, once, for a flow."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ...errors import Invalid
from ...node.gateway import TIMEOUT_S, run_node
from .given import FROM_FILE
from .output import print_json
from .reading import STANDARD_INPUT, file_text
from .target import Target, transport_of
from .telling import told


def run(
    context: typer.Context,
    node: Annotated[str, typer.Argument(help="The node as `module:function`; modules are looked for here first.")],
    flow: Annotated[str, typer.Option("--flow", help="The flow that is run.")],
    value: Annotated[
        str, typer.Option("--input", help="The input as JSON; `@FILE` reads a file, `@-` or `-` standard input.")
    ] = "{}",
    timeout_s: Annotated[
        float, typer.Option("--timeout", help="After how many seconds the node is stopped.")
    ] = TIMEOUT_S,
) -> None:
    """Run node code in a process of its own, with the memory of a flow, and print its reply."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        print_json(run_node(transport_of(memory), node, flow, _input(value), timeout_s=timeout_s))


def _input(text: str) -> object:
    try:
        if text == STANDARD_INPUT:
            text = file_text(text)
        elif text.startswith(FROM_FILE):
            text = file_text(text[len(FROM_FILE) :])
        return msgspec.json.decode(text)
    except OSError as error:
        raise Invalid(f"The input cannot be read: {error.strerror}.") from None
    except msgspec.DecodeError as error:
        raise Invalid(f"The input is not JSON: {error}.") from None
