"""The node's process: load the function, decode its input, run it, send its reply."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import socket
import sys
import traceback
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from .. import typed
from ..errors import Invalid, MemwellError
from .context import Link, NodeContext
from .gateway import Failure, Reply, Start, decode_from_parent

MAX_TRACE = 20_000


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as parent:
        parent.setblocking(False)
        sys.path.insert(0, os.getcwd())
        asyncio.run(_serve(parent))


async def _serve(parent: socket.socket) -> None:
    link = Link(*await asyncio.open_connection(sock=parent, limit=1 << 26))
    start = decode_from_parent(await link.read())
    assert isinstance(start, Start)  # noqa: S101 -- the parent's first message
    listening = asyncio.create_task(link.listen())
    try:
        function = load_function(start.target)
        value = decode_input(function, start.input)
        result = function(NodeContext(link, start.execution_id), value)
        await link.send(Reply(encode_reply(await result if inspect.isawaitable(result) else result)))
    except Exception as error:  # noqa: BLE001 -- every failure of node code is reported to the caller
        message = error.message if isinstance(error, MemwellError) else f"{type(error).__name__}: {error}"
        await link.send(Failure(message, traceback.format_exc()[-MAX_TRACE:]))
    finally:
        listening.cancel()


def load_function(target: str) -> Callable[..., Any]:
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise Invalid("Name the node as `module:function`.")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise Invalid(f"The node `{target}` cannot be loaded: {error}.") from error
    if not callable(function):
        raise Invalid(f"`{target}` is not a function.")
    return typing.cast(Callable[..., Any], function)


def decode_input(function: Callable[..., Any], value: Any) -> Any:
    """Convert the input to the type of the function's second parameter: a Struct, a dataclass, a protobuf message or JSON."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) < 2:
        raise Invalid("A node takes two arguments: the context `ax` and its input.")
    kind = typing.get_type_hints(function).get(parameters[1], Any)
    if hasattr(kind, "DESCRIPTOR"):
        from google.protobuf import json_format

        try:
            return json_format.ParseDict(value, kind())
        except json_format.ParseError as error:
            raise Invalid(f"The input does not fit {kind.__name__}: {error}") from error
    try:
        return typed.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"The input does not fit {getattr(kind, '__name__', kind)}: {error}.") from error


def encode_reply(reply: Any) -> Any:
    if hasattr(reply, "DESCRIPTOR"):
        from google.protobuf import json_format

        return json_format.MessageToDict(reply, preserving_proto_field_name=True)
    return msgspec.to_builtins(reply)


if __name__ == "__main__":
    main()
