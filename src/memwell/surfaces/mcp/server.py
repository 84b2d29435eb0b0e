"""The protocol: which tools there are, and what a call of one answers. No state: a caller is given, not remembered."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

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

from ...errors import MemwellError, NotFound
from ...version import __version__
from .answers import Answer, Caller, carry_out, failure
from .table import INSTRUCTIONS
from .tools import Tool

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
