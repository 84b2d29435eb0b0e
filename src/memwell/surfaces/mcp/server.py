"""A call of a tool, carried out and answered. This runs in a thread and never raises."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as Described

from ...core.operation import Operation
from ...errors import MemwellError, NotFound
from ...model.principal import Scope
from ...version import __version__
from .tools import INSTRUCTIONS, Tool

log = logging.getLogger("memwell.mcp")


class Answer(NamedTuple):
    """What a tool answers, as text and as an object, and what came of which operation."""

    text: str
    structured: dict[str, Any]
    status: int
    operation: str | None = None

    @property
    def failed(self) -> bool:
        return self.status >= 400


class Caller(NamedTuple):
    """Whom the tools act for: the user or flow they are held to, how to carry out an operation, and where.

    `move` takes work off the event loop; it is told whether the work may wait for seconds.
    """

    scope: Scope | None
    perform: Callable[[Operation, dict[str, Any]], Any]
    move: Callable[[Callable[[], Answer], bool], Awaitable[Answer]]


def carry_out(tool: Tool, arguments: Mapping[str, Any], caller: Caller) -> Answer:
    name: str | None = None
    try:
        operation, data = tool.request(arguments, caller.scope)
        name = operation.name
        return _success(operation, caller.perform(operation, data))
    except MemwellError as error:
        if error.status >= 500:
            log.warning("tool.failed", extra={"tool": tool.name, "code": error.code})
        return failure(error, name)
    except Exception as error:
        log.exception("tool.crashed", extra={"tool": tool.name, "error": type(error).__name__})
        return failure(MemwellError(), name)


def failure(error: MemwellError, operation: str | None = None) -> Answer:
    structured = {"error": {"code": error.code, "message": error.message, "details": error.details}}
    return Answer(error.message, msgspec.to_builtins(structured, enc_hook=str), error.status, operation)


def _success(operation: Operation, result: Any) -> Answer:
    """The same JSON that every other surface gives; what is not an object is wrapped in one."""
    encoded = msgspec.json.encode(result)
    value = msgspec.json.decode(encoded)
    if not isinstance(value, dict):
        value = {"result": value}
        encoded = msgspec.json.encode(value)
    return Answer(encoded.decode(), value, operation.status, operation.name)


# -- The protocol: which tools there are, and what a call of one answers. No state: a caller is given, not remembered.


logging.getLogger("mcp").setLevel(logging.WARNING)  # below that, it tells of every request


def protocol_server(tools: Mapping[str, Tool], caller: Caller) -> Server[Any]:
    """A server that offers these tools to this caller."""

    async def list_tools(_: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_described(tool) for tool in tools.values()])

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return _result(await _answer(tools, caller, params.name, params.arguments or {}))

    def input_schema(name: str) -> Mapping[str, Any] | None:
        return tools[name].input_schema if name in tools else None

    return Server(
        "memwell",
        version=__version__,
        title="Memwell",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _answer(tools: Mapping[str, Tool], caller: Caller, name: str, arguments: dict[str, Any]) -> Answer:
    tool = tools.get(name)
    if tool is None:
        return failure(NotFound(f"There is no tool {name[:100]!a}. The tools are {', '.join(tools)}."))
    try:
        return await caller.move(lambda: carry_out(tool, arguments, caller), tool.patient)
    except MemwellError as error:
        return failure(error)


def _result(answer: Answer) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=answer.text)],
        structured_content=answer.structured,
        is_error=answer.failed,
    )


def _described(tool: Tool) -> Described:
    return Described(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.hints.read_only,
            destructive_hint=tool.hints.destructive,
            idempotent_hint=tool.hints.idempotent,
            open_world_hint=False,
        ),
    )
