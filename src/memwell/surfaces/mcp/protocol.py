"""The protocol server: it lists tools and runs them. It has no state; the caller is an argument."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

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
from mcp.types import Tool as ProtocolTool

from ...core.access import Scope
from ...core.operation import Operation
from ...errors import MemwellError, NotFound
from ...version import __version__
from .tools import INSTRUCTIONS, Tool

log = logging.getLogger("memwell.mcp")

_FAILED = ("failed", "interrupted", "cancelled")
"""The statuses of runs that did not succeed."""


class Answer(NamedTuple):
    """The result of a tool as text and as an object, with the status and name of its operation. A run that was begun or
    repeated and did not succeed is an error too, though its operation succeeded."""

    text: str
    structured: dict[str, Any]
    status: int
    operation: str | None = None
    has_failed: bool = False

    @property
    def is_error(self) -> bool:
        return self.status >= 400 or self.has_failed


class Rest(NamedTuple):
    """The rest of an operation that waits. `wait` waits on the event loop, and returns the work that makes the result."""

    wait: Callable[[], Awaitable[Callable[[], Any]]]


class Suspended(NamedTuple):
    """A tool that waits: the rest of its operation, and how to answer with the result of the last work."""

    rest: Rest
    answer: Callable[[Callable[[], Any]], Answer]


class Caller(NamedTuple):
    """The client of the tools: its scope, and how to perform operations for it. An operation that waits may return its `Rest`.

    `offload` runs work off the event loop. Its second argument is true if the work may take seconds.
    """

    scope: Scope | None
    perform: Callable[[Operation, dict[str, Any]], Any]
    offload: Callable[[Callable[[], Answer | Suspended], bool], Awaitable[Answer]]


def run_tool(tool: Tool, arguments: Mapping[str, Any], caller: Caller) -> Answer | Suspended:
    """Run a tool in this thread. Return errors as answers."""
    found: list[Operation] = []

    def start() -> Any:
        operation, data = tool.build_request(arguments, caller.scope)
        found.append(operation)
        return caller.perform(operation, data)

    return _answer(tool, arguments, found, start)


def _answer(
    tool: Tool, arguments: Mapping[str, Any], found: Sequence[Operation], work: Callable[[], Any]
) -> Answer | Suspended:
    try:
        result = work()
        if isinstance(result, Rest):
            return Suspended(result, lambda last: cast(Answer, _answer(tool, arguments, found, last)))
        return _to_success(found[0], result)
    except MemwellError as error:
        if error.status >= 500:
            log.warning("tool.failed", extra={"tool": tool.name, "code": error.code})
        return to_failure(tool.rename_fields(error, arguments), found[0].name if found else None)
    except Exception as error:
        log.exception("tool.crashed", extra={"tool": tool.name, "error": type(error).__name__})
        return to_failure(MemwellError(), found[0].name if found else None)


def to_failure(error: MemwellError, operation: str | None = None) -> Answer:
    structured = {"error": {"code": error.code, "message": error.message, "details": error.details}}
    return Answer(error.message, msgspec.to_builtins(structured, enc_hook=str), error.status, operation)


def _to_success(operation: Operation, result: Any) -> Answer:
    """Encode a result as on every other surface, but wrap it in an object if it is not one."""
    encoded = msgspec.json.encode(result)
    value = msgspec.json.decode(encoded)
    if not isinstance(value, dict):
        value = {"result": value}
        encoded = msgspec.json.encode(value)
    awaits_run = operation.writes and operation.patient  # those that read or cancel a run tell how it is
    has_failed = awaits_run and value.get("status") in _FAILED
    return Answer(encoded.decode(), value, operation.status, operation.name, has_failed)


logging.getLogger("mcp").setLevel(logging.WARNING)  # at INFO it logs every request


def build_server(tools: Mapping[str, Tool], caller: Caller) -> Server[Any]:
    async def list_tools(_: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_to_protocol_tool(tool) for tool in tools.values()])

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        name, arguments = params.name, params.arguments or {}
        tool = tools.get(name)
        try:
            if tool is None:
                raise NotFound(f"There is no tool {name[:100]!a}. The tools are {', '.join(tools)}.")
            answer = await caller.offload(lambda: run_tool(tool, arguments, caller), tool.patient)
        except MemwellError as error:
            answer = to_failure(error)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=answer.structured,
            is_error=answer.is_error,
        )

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


def _to_protocol_tool(tool: Tool) -> ProtocolTool:
    return ProtocolTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )
