"""A call of a tool, carried out and answered. This runs in a thread and never raises."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ...errors import MemwellError
from ...model.principal import Tie
from ...operation import Operation
from .tools import Tool

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

    tie: Tie | None
    perform: Callable[[Operation, dict[str, Any]], Any]
    move: Callable[[Callable[[], Answer], bool], Awaitable[Answer]]


def carry_out(tool: Tool, arguments: Mapping[str, Any], caller: Caller) -> Answer:
    name: str | None = None
    try:
        operation, data = tool.request(arguments, caller.tie)
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
