"""The node's process: load the function, decode its input, run it, send its reply.

The first argument of the function is a `NodeContext`, whose `ax.agent.memory` is the memory of the flow. No method here takes
a tenant or a flow: the parent sets both on every call, from the credential that runs the flow.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import socket
import sys
import traceback
import typing
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

import msgspec

from .. import typed
from ..core.turns import Turn, Turns
from ..errors import Invalid, MemwellError, NodeFailed, from_code
from ..facts.memories import Memory
from ..facts.search import Hits
from ..sandbox.child import HEAD, encode_frame
from ..timelines.flows import Ended
from .gateway import JSON, Failure, Reply, Request, Response, Start, decode_from_parent

T = TypeVar("T")
MAX_TRACE = 20_000
_OWN_FILES = (__file__, importlib.__file__)


class Link:
    """The node's end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = 0
        self._pending: dict[int, asyncio.Future[Response]] = {}

    async def call(self, operation: str, data: dict[str, Any], kind: type[T]) -> T:
        self._numbers += 1
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._pending[self._numbers] = future
        await self.send(Request(self._numbers, operation, data))
        response = await future
        if response.error is not None:
            raise from_code(response.error["code"], response.error["message"], response.error["details"])
        return typed.decode(response.result, kind)

    async def listen(self) -> None:
        """Pass responses to their callers until the parent closes the connection."""
        try:
            while True:
                message = decode_from_parent(await self.read())
                if isinstance(message, Response) and message.number in self._pending:
                    self._pending.pop(message.number).set_result(message)
        except (asyncio.IncompleteReadError, msgspec.DecodeError) as error:
            for future in self._pending.values():
                future.set_exception(NodeFailed(f"The process that runs this node has ended: {error}."))

    async def read(self) -> bytes:
        _, length = HEAD.unpack(await self._reader.readexactly(HEAD.size))
        return await self._reader.readexactly(length)

    async def send(self, message: msgspec.Struct) -> None:
        self._writer.write(encode_frame(JSON, msgspec.json.encode(message)))
        await self._writer.drain()


class NodeHistory:
    """The turns of a session."""

    def __init__(self, link: Link, session: str) -> None:
        self._link = link
        self._session = session

    async def append(self, *, role: str, content: str, **more: Any) -> Turn:
        """Record a turn; the first one creates the session."""
        data = {"session": self._session, "role": role, "content": content, **more}
        return await self._link.call("flows.append", data, Turn)

    async def last(self, n: int = 20) -> list[Turn]:
        """Return the newest n turns, the oldest of them first."""
        return (await self._link.call("flows.last", {"session": self._session, "limit": n}, Turns)).turns


class NodeSession:
    """One conversation of the flow."""

    def __init__(self, link: Link, session: str) -> None:
        self._link = link
        self.id = session
        self.history = NodeHistory(link, session)

    def __repr__(self) -> str:
        return f"NodeSession({self.id!r})"

    async def write(self, content: str, importance: float = 0.5) -> str:
        """Remember a statement for this session and return its id."""
        data = {"session": self.id, "content": content, "importance": importance}
        return (await self._link.call("flows.write", data, Memory)).id

    async def search(self, query: str, limit: int = 5, **conditions: Any) -> Hits:
        """Return the best matches among the facts of this session and of the flow."""
        data = {"session": self.id, "query": query, "limit": limit, **conditions}
        return await self._link.call("flows.search", data, Hits)

    async def end(self) -> None:
        """End the session and consolidate it."""
        await self._link.call("flows.end", {"session": self.id}, Ended)


class NodeMemory:
    """The memory of the flow."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def session(self, session_id: str) -> NodeSession:
        return NodeSession(self._link, session_id)

    async def search(self, query: str, limit: int = 5, **conditions: Any) -> Hits:
        """Return the best matches among the facts of the flow."""
        return await self._link.call("flows.search", {"query": query, "limit": limit, **conditions}, Hits)

    async def write(self, content: str, importance: float = 0.5) -> str:
        """Remember a statement for the flow and return its id."""
        return (await self._link.call("flows.write", {"content": content, "importance": importance}, Memory)).id


class Agent:
    def __init__(self, link: Link) -> None:
        self.memory = NodeMemory(link)


class NodeContext:
    """The argument `ax` of a node: its only access to memory."""

    def __init__(self, link: Link, execution_id: str) -> None:
        self.agent = Agent(link)
        self.execution_id = execution_id

    def __repr__(self) -> str:
        return f"NodeContext(execution_id={self.execution_id!r})"


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
        await link.send(await _run(link, start))
    finally:
        listening.cancel()


async def _run(link: Link, start: Start) -> Reply | Failure:
    try:
        function = load_function(start.target)
        value = decode_input(function, start.input)
    except Invalid as error:
        return Failure(error.message)
    try:
        result = function(NodeContext(link, start.execution_id), value)
        return Reply(encode_reply(await result if inspect.isawaitable(result) else result))
    except MemwellError as error:
        return Failure(f"The node failed: {error.message}")
    except Exception as error:  # noqa: BLE001 -- every failure of node code is reported to the caller
        trace = "".join(traceback.format_exception(error.with_traceback(_skip_own_frames(error))))
        return Failure(f"The node failed: {type(error).__name__}: {error}", trace[-MAX_TRACE:])


def load_function(target: str) -> Callable[..., Any]:
    """Load `module:function`, or `path/to/file.py:function`."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise Invalid(f"Name the node as `module:function` or `FILE.py:function`, not `{target}`.")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Invalid:
        raise
    except Exception as error:
        kind = "" if isinstance(error, ImportError | SyntaxError) else f"{type(error).__name__}: "
        raise Invalid(f"The node `{target}` cannot be loaded: {kind}{error}{_find_line(error)}.") from error
    function = getattr(module, name, None)
    if not callable(function):
        others = [
            key for key, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__
        ]
        suggestion = f" Its functions: {', '.join(f'`{one}`' for one in others)}." if others else ""
        raise Invalid(f"The node `{target}` cannot be loaded: {place} has no function `{name}`.{suggestion}")
    return typing.cast(Callable[..., Any], function)


def _load_file(path: Path) -> ModuleType:
    """Load a file as a module. Its imports look beside it first."""
    if not path.is_file():
        raise Invalid(f"There is no file {path}: the node cannot be loaded.")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location("__node__", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 -- its name ends with .py
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _find_line(error: Exception) -> str:
    """The place in the node's own code where its import failed."""
    if isinstance(error, SyntaxError):
        return ""  # it names its line itself
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<frozen ")]
    return f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames[-1].filename not in _OWN_FILES else ""


def _skip_own_frames(error: Exception) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    return trace


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
