"""Calls of registered functions by a step or a model, and the memory stores that such a function reads and writes."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from .. import typed
from ..banks.reading import JSON
from ..context.template import FILES
from ..core.operation import reword_error, to_request
from ..errors import Forbidden, Invalid, MemwellError, NodeFailed, TooLarge
from ..model.fields import check_content
from ..models import completer
from ..records import contents
from ..records.apps import SESSION_META
from ..records.contents import Content, DeleteContent
from ..records.records import Mode, project
from .run_rows import Output

if TYPE_CHECKING:
    from .run import RunCall
    from .task_document import Tool

log = logging.getLogger("memwell.functions")
T = TypeVar("T")
MAX_RESULT = 1024 * 1024
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def call_function(
    call: RunCall,
    name: str,
    arguments: Mapping[str, Any],
    message: str | None = None,
    *,
    only_if_required: bool = False,
) -> Output:
    """Call a function and return its result as text. Exceptions become NodeFailed with the function's name; their texts are only
    logged, because a model or a caller would read them.

    The message is passed to the first parameter, unless that is among the arguments. With `only_if_required` it is passed only to
    a parameter without a default. Every function may have a parameter `memory`.
    """
    function = call.engine.function(name)
    inner = inspect.unwrap(function)
    is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004
    named: dict[str, Any] = {**arguments, "memory": AsyncRunMemory(call) if is_async else RunMemory(call)}
    try:
        parameters = check_arguments(name, function, arguments)
        if not _takes_any_name(parameters):
            named = {one: value for one, value in named.items() if one in parameters}
        first = next(iter(parameters.values()), None)
        takes_message = first is not None and first.kind in _POSITIONAL and first.name not in {*arguments, "memory"}
        if takes_message and only_if_required:
            takes_message = first is not None and first.default is inspect.Parameter.empty
        result = function(*([message] if message is not None and takes_message else []), **named)
        return _to_output(_await(result) if inspect.isawaitable(result) else result)
    except (MemwellError, KeyboardInterrupt):
        raise
    except BaseException as error:  # even SystemExit only fails the step
        log.error("The function %r of run %s raised an exception.", name, call.run_id, exc_info=error)
        kind = type(error).__name__
        raise NodeFailed(f"The function `{name}` raised {kind}. The log has its text.", function=name) from error


def check_arguments(
    name: str, function: Callable[..., Any], arguments: Collection[str]
) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function. Raise an error if it does not take these arguments."""
    parameters = inspect.signature(function).parameters
    unknown = [] if _takes_any_name(parameters) else [one for one in arguments if one not in parameters]
    if unknown:
        takes = ", ".join(f"`{one}`" for one in parameters if one != "memory") or "nothing"
        raise Invalid(f"The function `{name}` takes no `{unknown[0][:100]}`. It takes {takes}.", function=name)
    return parameters


def _takes_any_name(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())


def _await(awaitable: Awaitable[Any]) -> Any:
    """Await in a new event loop. If this thread already runs a loop, use another thread."""
    import asyncio  # here, because it takes long to load and few functions need it

    async def wait() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _to_output(result: Any) -> Output:
    if result is None or isinstance(result, str):
        return Output(check_content(result or "", may_be_empty=True, field="output"))
    text = msgspec.json.encode(result).decode()
    if len(text) > MAX_RESULT:
        raise TooLarge(f"The result of the function is larger than {MAX_RESULT // 1024**2} MiB.", limit=MAX_RESULT)
    return Output(text, JSON)


class FunctionTool(NamedTuple):
    """A function that a model may call."""

    tool: Tool
    function: Callable[..., Any]
    parameters: type[msgspec.Struct]

    def to_tool(self) -> completer.Tool:
        """Convert to the tool that a model sees. The schema has an object at its top, because all servers require it."""
        description = self.tool.description or inspect.getdoc(self.function) or f"Calls `{self.tool.action}`."
        (_,), parts = msgspec.json.schema_components([self.parameters], ref_template="#/$defs/{name}")
        top = {name: value for name, value in parts.pop(self.parameters.__name__).items() if name != "title"}
        return completer.Tool(self.tool.name, description, top | ({"$defs": parts} if parts else {}))

    def call(self, arguments: Mapping[str, Any], call: RunCall) -> str:
        try:
            converted = typed.convert(dict(arguments), self.parameters)
        except msgspec.ValidationError as error:
            raise Invalid(f"The arguments do not fit: {reword_error(self.parameters, str(error))}.") from None
        fields = ((name, getattr(converted, name)) for name in self.parameters.__struct_fields__)
        named = {name: value for name, value in fields if value is not msgspec.UNSET}
        return call_function(call, self.tool.action, {**named, **self.tool.settings}).text


def build_tool(tool: Tool, function: Callable[..., Any]) -> FunctionTool:
    """Build a tool from a function. The model does not choose the arguments that the document sets."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise Invalid(f"`{tool.action}` cannot be a tool: its parameters are unknown.") from None
    unknown = [name for name in tool.settings if name not in parameters]
    if unknown and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        raise Invalid(f"`settings.{unknown[0][:100]}`: the function `{tool.action}` takes no such argument.")
    hints = _list_hints(function)
    fields: list[Any] = []
    for one in parameters.values():
        if one.kind in _NAMED and one.name != "memory" and one.name not in tool.settings:
            kind = hints.get(one.name, Any)
            required = one.default is inspect.Parameter.empty
            fields.append((one.name, kind) if required else (one.name, kind | msgspec.UnsetType, msgspec.UNSET))
    struct = msgspec.defstruct(f"{tool.name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return FunctionTool(tool, function, struct)


def _list_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations that JSON Schema can express. Other parameters accept anything."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        annotations = getattr(function, "__annotations__", {})
        hints = {name: one for name, one in annotations.items() if not isinstance(one, str)}
    return {name: hint for name, hint in hints.items() if name != "return" and _has_schema(hint)}


def _has_schema(hint: Any) -> bool:
    try:
        msgspec.json.schema(hint)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


class RunMemory:
    """Memory stores as a function sees them. Methods return values directly (S2.19)."""

    def __init__(self, call: RunCall) -> None:
        self._call = call

    def __repr__(self) -> str:
        scope = self._call.scope
        return f"{type(self).__name__}(app={scope.app!r}, user={scope.user!r}, session={scope.session!r})"

    def get_content(self, store_name: str, projections: Mapping[str, Any] | None = None) -> Any:
        """Return the record of a store, or some of its fields; None if there is no record."""
        wanted = contents.check_projections(projections)
        value = self._call.read_content(self._app(), store_name)
        return value if value is None or wanted is None else project(value, wanted)

    def set_content(
        self, store_name: str, data_object: Mapping[str, Any], *, mode: Mode = "merge", unset: str | Sequence[str] = ()
    ) -> Any:
        """Write to a store and return the record. Omitted fields stay as they are, unless `mode` replaces the record."""
        if not isinstance(data_object, Mapping):
            raise Invalid("The data of a store must be an object: give a dict.", field="data")
        operation = contents.set_content
        fields = [unset] if isinstance(unset, str) else list(unset)
        data = {"store": _check_writable(store_name), "data": dict(data_object), "mode": mode, "unset": fields}
        request = to_request(operation, {**data, **self._owner()})
        content: Content = self._call.perform(operation, lambda space: operation.run(space, request))
        self._call.warn([one.render(store_name) for one in content.warnings or ()])
        return content.content

    def delete_content(self, store_name: str) -> bool:
        """Delete the record of a store; False if there was none."""
        request = DeleteContent(store=_check_writable(store_name), **self._owner())
        return self._call.perform(
            contents.delete_content, lambda space: contents.delete_located(space, request, self._call.run_id).deleted
        )

    def search(
        self,
        query: str,
        limit: int = 5,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 -- the name in all searches
    ) -> list[dict[str, Any]]:
        """Search the active files of the session. Each result has `content`, `score`, `filename` and `file_id`."""
        found = self._call.search_files(query, limit, filter)
        return [{"content": hit.content, "score": hit.score, **(hit.metadata or {})} for hit in found]

    def files(self) -> list[dict[str, Any]]:
        """Return the files of the session, as in `sessionMeta.artifacts`."""
        files, _ = self._call.fetch_files(FILES)
        return files or []

    def _app(self) -> str:
        app = self._call.scope.app
        if app is None:
            raise Invalid("This run belongs to no app and has no memory stores: run it by `apps.execute`.")
        return app

    def _owner(self) -> dict[str, Any]:
        scope = self._call.scope
        return {"app": self._app(), "user_id": scope.user, "session_id": scope.session}


class AsyncRunMemory:
    """`RunMemory` for async functions."""

    def __init__(self, call: RunCall) -> None:
        self._memory = RunMemory(call)

    def __repr__(self) -> str:
        return f"Async{self._memory!r}"

    async def get_content(self, store_name: str, projections: Mapping[str, Any] | None = None) -> Any:
        return await _run_in_thread(self._memory.get_content, store_name, projections)

    async def set_content(
        self, store_name: str, data_object: Mapping[str, Any], *, mode: Mode = "merge", unset: str | Sequence[str] = ()
    ) -> Any:
        return await _run_in_thread(self._memory.set_content, store_name, data_object, mode=mode, unset=unset)

    async def search(
        self,
        query: str,
        limit: int = 5,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 -- the name in all searches
    ) -> list[dict[str, Any]]:
        return await _run_in_thread(self._memory.search, query, limit, filter=filter)

    async def files(self) -> list[dict[str, Any]]:
        return await _run_in_thread(self._memory.files)

    async def delete_content(self, store_name: str) -> bool:
        return await _run_in_thread(self._memory.delete_content, store_name)


async def _run_in_thread(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    import asyncio  # here, because only async functions need it

    return await asyncio.to_thread(work, *arguments, **named)


def _check_writable(store_name: str) -> str:
    if store_name == SESSION_META:
        raise Forbidden(f"`{SESSION_META}` cannot be changed by code: its metadata is set by the caller of the app.")
    return store_name
