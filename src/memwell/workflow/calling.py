"""Calling a registered function as a step: with its input, its arguments, and the memory of its run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from ..context.outputs import JSON
from ..errors import Invalid, MemwellError, NodeFailed, TooLarge
from ..model import check
from .run_memory import AsyncRunMemory, Reach, RunMemory

MAX_TOLD = 500
MAX_RESULT = 1024 * 1024
_ANY = inspect.Parameter.VAR_KEYWORD
_FIRST = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call_function(
    function: Callable[..., Any], name: str, message: str | None, arguments: Mapping[str, Any], reach: Reach
) -> tuple[str, str]:
    """What a function gives, as text and what kind of text that is. What it raises is told with the function's name. A message
    goes to its first parameter, unless that is among the arguments."""
    memory = AsyncRunMemory(reach) if _is_async(function) else RunMemory(reach)
    try:
        _require_taken(function, name, arguments)
        given, named = _arguments(function, message, {**arguments, "memory": memory})
        result = function(*given, **named)
        return _text(_awaited(result) if inspect.isawaitable(result) else result)
    except (MemwellError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever it does, it fails as a step, and ends nothing else
        said = str(error)[:MAX_TOLD].encode(errors="replace").decode()
        raise NodeFailed(f"The function `{name}` raised {type(error).__name__}: {said}", function=name) from error


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether it is to be awaited: also behind a decorator, or as an object that is called."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


def _awaited(waiting: Awaitable[Any]) -> Any:
    """What comes of something that is awaited, in a loop of its own; where one is running, in a thread of its own."""
    import asyncio  # imported here: it takes long to load, and few functions need it

    async def wait() -> Any:
        return await waiting

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _require_taken(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a function would never see."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is _ANY for one in parameters.values()):
        return
    unknown = [one for one in arguments if one not in parameters]
    if unknown:
        takes = ", ".join(f"`{one}`" for one in parameters if one != "memory") or "nothing"
        raise Invalid(f"The function `{name}` takes no `{unknown[0][:100]}`. It takes {takes}.", function=name)


def wants_message(function: Callable[..., Any], arguments: Mapping[str, Any]) -> bool:
    """Whether a function cannot be called without a message."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return (
        first is not None
        and first.kind in _FIRST
        and first.default is inspect.Parameter.empty
        and first.name not in {*arguments, "memory"}
    )


def _arguments(
    function: Callable[..., Any], message: str | None, offered: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """The message goes to the first parameter, unless that is one of those that are offered by name."""
    parameters = inspect.signature(function).parameters
    first = next(iter(parameters.values()), None)
    takes = message is not None and first is not None and first.kind in _FIRST and first.name not in offered
    given = [message or ""] if takes else []
    takes_all = any(one.kind is _ANY for one in parameters.values())
    named = {name: value for name, value in offered.items() if takes_all or name in parameters}
    return given, named


def _text(result: Any) -> tuple[str, str]:
    if result is None or isinstance(result, str):
        return check.content(result or "", may_be_empty=True, field="output"), "text/plain"
    text = msgspec.json.encode(result).decode()
    if len(text) > MAX_RESULT:
        raise TooLarge(f"What the function returned is larger than {MAX_RESULT // 1024**2} MiB.", limit=MAX_RESULT)
    return text, JSON
