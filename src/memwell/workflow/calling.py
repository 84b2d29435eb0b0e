"""Calling a registered function as a step: with its input, its arguments, and the memory of its run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..context.outputs import JSON
from ..errors import MemwellError, NodeFailed
from .run_memory import AsyncRunMemory, Reach, RunMemory

MAX_TOLD = 500
_ANY = inspect.Parameter.VAR_KEYWORD
_FIRST = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call_function(
    function: Callable[..., Any], name: str, message: str, arguments: Mapping[str, Any], reach: Reach
) -> tuple[str, str]:
    """What a function gives, as text and what kind of text that is. What it raises is told with the function's name."""
    is_async = inspect.iscoroutinefunction(function)
    memory = AsyncRunMemory(reach) if is_async else RunMemory(reach)
    given, named = _arguments(function, message, {**arguments, "memory": memory})
    try:
        result = asyncio.run(function(*given, **named)) if is_async else function(*given, **named)
        return _text(result)
    except MemwellError:
        raise
    except Exception as error:
        said = str(error)[:MAX_TOLD]
        raise NodeFailed(f"The function `{name}` raised {type(error).__name__}: {said}", function=name) from error


def _arguments(function: Callable[..., Any], message: str, offered: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The message goes to the first parameter, unless that is one of those that are offered by name."""
    parameters = inspect.signature(function).parameters
    first = next(iter(parameters.values()), None)
    given = [message] if first is not None and first.kind in _FIRST and first.name not in offered else []
    takes_all = any(one.kind is _ANY for one in parameters.values())
    named = {name: value for name, value in offered.items() if takes_all or name in parameters}
    return given, named


def _text(result: Any) -> tuple[str, str]:
    if result is None or isinstance(result, str):
        return result or "", "text/plain"
    return msgspec.json.encode(result).decode(), JSON
