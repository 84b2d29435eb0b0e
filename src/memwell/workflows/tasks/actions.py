"""Actions of tasks: send a text, update memory, call a function, or ask a model that may call tools first (S3.27–S3.38).

A model is told why a call of a tool failed, and may try again: an unknown tool, arguments that do not fit, a function that
raised. The number of rounds and of calls is limited.
"""

from __future__ import annotations

import hashlib
import inspect
import time
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ... import typed
from ...banks.reading import JSON
from ...errors import Invalid, MemwellError, ModelFailed, StorageError, Unavailable
from ...models import completer
from ...models.completer import Completion, Message, Tool, ToolCall
from ...records.schema import Schema
from ...records.working_memory import TOOL
from ...storage.port import TenantStore
from ...text.fence import encode_compact
from ..model_call import ModelCall
from ..run_memory import EMPTIED, RunCall
from ..steps import call_function, wants_message
from . import document
from .document import INPUTS, OBJECTS, SEND, UPDATE, AiInputs, Task
from .memory import TaskMemory

STREAMING = ("ai_agent", "ai_generate_reply")
"""Actions whose answer is streamed."""
MAX_TOKENS = 1024
MAX_CALLS = 64
"""Calls of tools in one task."""
MAX_TOOL_RESULT = 64 * 1024
"""Characters of a tool's result that the model gets."""
MAX_ARGUMENTS = 256 * 1024
_TEXTS = ("prompt", "system", "text")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SCHEMA = "Answer with JSON alone, without any other word. It must fit this JSON Schema: "


class TaskContext(NamedTuple):
    """Everything that a task needs besides its inputs."""

    call: RunCall
    memory: TaskMemory
    step: str
    message: str
    timeout_s: float
    stream: Callable[[str], None]
    store_use: Callable[[ToolUse], None]
    remember: Callable[[Mapping[str, Any]], None]
    """Called with the new values of memory."""
    check_time: Callable[[], None]
    """Raises when the task was abandoned."""
    history: Callable[[int], list[Message]] | None

    def update_memory(self, memory: Mapping[str, Any], mark: str, **options: Any) -> dict[str, Any]:
        self.check_time()
        values = self.memory.update(memory, mark=f"{self.step}/{mark}", **options)
        self.remember(values)
        return values


class Result(NamedTuple):
    """The result of a task: as text, and as expressions see it."""

    text: str
    value: Any
    content_type: str = "text/plain"


def run_task(task: Task, given: dict[str, Any], context: TaskContext) -> Result:
    """Run a task whose expressions are evaluated."""
    kind = INPUTS.get(task.action)
    if kind is None:
        function = context.call.engine.function(task.action)
        message = context.message if wants_message(function, given) else None
        text, content_type = call_function(function, task.action, message, given, context.call)
        return Result(text, msgspec.json.decode(text) if content_type == JSON else text, content_type)
    texts = {name: _to_text(given[name]) for name in _TEXTS if name in given}
    try:
        inputs: Any = typed.convert({**given, **texts}, kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"The inputs do not fit: {error}.") from None
    if task.action == SEND:
        return Result(inputs.text, {"text": inputs.text})
    if task.action == UPDATE:
        memory = context.update_memory(inputs.memory, "task", mode=inputs.mode) if inputs.memory else {}
        return Result(encode_compact({"memory": memory}), {"memory": memory}, JSON)
    return _ask_model(task, inputs, context)


def _ask_model(task: Task, inputs: AiInputs, context: TaskContext) -> Result:
    memory = context.memory.show(task.memory)
    context.call.warn(memory.warnings)
    engine, model, settings = context.call.engine, task.model, task.settings
    functions = {one.name: build_tool(one, engine.function(one.action)) for one in task.tools}

    def call_tool(name: str, arguments: Mapping[str, Any], number: int) -> str:
        context.check_time()
        if name != TOOL:
            return functions[name].call(arguments, context.call)
        values = arguments.get("memory")
        if not isinstance(values, Mapping) or len(arguments) != 1:
            raise Invalid(f'`{TOOL}` takes one object: {{"memory": {{"<slug>": {{…}}}}}}.')
        digest = hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()
        return encode_compact({"memory": context.update_memory(values, f"{number}/{digest}", bound=task.memory)})

    tools = [*([] if memory.tool is None else [memory.tool]), *(one.to_tool() for one in functions.values())]
    temperature = settings.temperature  # the task's settings take precedence over its model's
    if temperature is None and model is not None:
        temperature = model.temperature
    max_tokens = settings.max_tokens or (None if model is None else model.max_tokens) or MAX_TOKENS
    model_call = ModelCall(
        engine,
        TenantStore(engine.store, context.call.principal.tenant),
        context.timeout_s,
        context.stream if task.action in STREAMING else None,
        engine.model(model.provider, model.model_id) if model is not None else engine.completer,
        context.check_time,
    )
    agent = Agent(model_call, tools, Limits(settings.max_steps, max_tokens, temperature), call_tool, context.store_use)
    history = None if context.history is None else context.history(inputs.messages_limit)
    if not history and not inputs.prompt.strip():
        raise Invalid("There is nothing to answer: give `prompt`, or run the workflow with an input that has `text`.")
    messages = [
        Message("system", "\n\n".join(part for part in (inputs.system, memory.prompt) if part)),
        *(history or [Message("user", inputs.prompt)]),
    ]
    if task.action in OBJECTS:
        value, answer = agent.ask_json(messages, settings.output_schema or {})
        return Result(encode_compact(value), {"object": value, **_to_value(answer)}, JSON)
    answer = agent.ask(messages)
    if tools and task.action in STREAMING and answer.text:
        context.stream(answer.text)
    return Result(answer.text, _to_value(answer))


def _to_value(answer: Answer) -> dict[str, Any]:
    uses = [{"name": use.name, "arguments": use.arguments, "result": use.result} for use in answer.uses]
    return {"text": answer.text, "tool_calls": uses}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else encode_compact(value)


class FunctionTool(NamedTuple):
    """A function that a model may call."""

    tool: document.Tool
    function: Callable[..., Any]
    parameters: type[msgspec.Struct]

    def to_tool(self) -> completer.Tool:
        """The tool as a model sees it. The schema has an object at its top, as all servers require."""
        description = self.tool.description or inspect.getdoc(self.function) or f"Calls `{self.tool.action}`."
        (_,), parts = msgspec.json.schema_components([self.parameters], ref_template="#/$defs/{name}")
        top = {name: value for name, value in parts.pop(self.parameters.__name__).items() if name != "title"}
        return completer.Tool(self.tool.name, description, top | ({"$defs": parts} if parts else {}))

    def call(self, arguments: Mapping[str, Any], call: RunCall) -> str:
        try:
            converted = typed.convert(dict(arguments), self.parameters)
        except msgspec.ValidationError as error:
            raise Invalid(f"The arguments do not fit: {error}.") from None
        named = {name: getattr(converted, name) for name in self.parameters.__struct_fields__}
        named = {name: value for name, value in named.items() if value is not msgspec.UNSET}
        text, _ = call_function(self.function, self.tool.action, None, {**named, **self.tool.settings}, call)
        return text


def build_tool(tool: document.Tool, function: Callable[..., Any]) -> FunctionTool:
    """A function as a tool. Arguments that the document sets are not asked of the model."""
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
    """The annotations that JSON Schema can express. Other parameters accept anything."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {
            name: one for name, one in getattr(function, "__annotations__", {}).items() if not isinstance(one, str)
        }
    return {name: hint for name, hint in hints.items() if name != "return" and _has_schema(hint)}


def _has_schema(hint: Any) -> bool:
    try:
        msgspec.json.schema(hint)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


class Limits(NamedTuple):
    rounds: int
    max_tokens: int
    temperature: float | None


class ToolUse(NamedTuple):
    """A call of a tool by a model."""

    name: str
    arguments: str
    result: str
    failed: bool
    seconds: float


class Answer(NamedTuple):
    """The answer of a model, and the tools that it called before."""

    text: str
    uses: tuple[ToolUse, ...]


class Agent:
    """A model with tools, for one task."""

    def __init__(
        self,
        model: ModelCall,
        tools: Sequence[Tool],
        limits: Limits,
        call_tool: Callable[[str, Mapping[str, Any], int], str],
        store_use: Callable[[ToolUse], None],
    ) -> None:
        """`call_tool` is called with a name, arguments, and the number of the call."""
        self._model, self._tools, self._limits = model, tools, limits
        self._call_tool, self._store_use = call_tool, store_use
        self._uses: list[ToolUse] = []

    def ask(self, messages: Sequence[Message]) -> Answer:
        """A text, which is streamed if there are no tools."""
        if not self._tools:
            return Answer(self._model.ask(messages, self._limits.max_tokens, self._limits.temperature), ())
        answer, _ = self._ask_with_tools(list(messages))
        return Answer(answer.text, tuple(self._uses))

    def ask_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> tuple[Any, Answer]:
        """An object that fits a schema.

        The answer after the calls of tools may fit already; if not, the model is asked for JSON alone, and once more with
        the errors. The schema is in the prompt, too, because not every server supports schemas.
        """
        conversation = list(messages)
        if self._tools:
            answer, conversation = self._ask_with_tools(conversation)
            found = _parse_object(answer.text, schema)
            if not isinstance(found, str):
                return found[0], Answer(answer.text, tuple(self._uses))
        conversation = [*describe_calls(conversation), Message("user", _SCHEMA + encode_compact(schema))]
        for _ in range(2):
            text = self._model.ask_json(conversation, schema, self._limits.max_tokens, self._limits.temperature)
            found = _parse_object(text, schema)
            if not isinstance(found, str):
                return found[0], Answer(text, tuple(self._uses))
            conversation += [
                Message("assistant", text),
                Message("user", f"This does not fit the schema: {found} Answer again."),
            ]
        raise ModelFailed(
            f"The model gave no object that fits the schema: {found} (invalid_answer).", reason="invalid_answer"
        )

    def _ask_with_tools(self, messages: list[Message]) -> tuple[Completion, list[Message]]:
        """Ask until the model answers without calling tools."""
        for _ in range(self._limits.rounds):
            answer = self._model.call(messages, self._tools, self._limits.max_tokens, self._limits.temperature)
            if not answer.calls:
                return answer, messages
            messages.append(Message("assistant", answer.text, answer.calls))
            messages += [Message("tool", self._use(call), call_id=call.id) for call in answer.calls]
        raise ModelFailed(
            f"The model called tools for {self._limits.rounds} rounds and gave no answer (rounds). Raise `settings.max_steps`, "
            "or say in `system` when it is to stop.",
            reason="tools",
        )

    def _use(self, call: ToolCall) -> str:
        """The result of a call, as the model gets it."""
        if len(self._uses) >= MAX_CALLS:
            raise ModelFailed(f"The model has called more than {MAX_CALLS} tools in one task (calls).", reason="tools")
        failed, begin = True, time.perf_counter()
        try:
            names = [tool.name for tool in self._tools]
            if call.name not in names:
                raise Invalid(f"There is no tool {call.name[:100]!r}. The tools are {', '.join(names)}.")
            result = self._call_tool(call.name, _parse_arguments(call.arguments), len(self._uses) + 1)
            failed = False
        except (ModelFailed, StorageError, Unavailable):
            raise  # the model cannot help it
        except MemwellError as error:
            if error.details.get("reason") == EMPTIED:
                raise
            result = msgspec.json.encode({"error": error.message}).decode()
        use = ToolUse(call.name, call.arguments[:MAX_ARGUMENTS], result, failed, time.perf_counter() - begin)
        self._uses.append(use)
        self._store_use(use)
        return result if len(result) <= MAX_TOOL_RESULT else f"{result[:MAX_TOOL_RESULT]} … (cut)"


def describe_calls(messages: Sequence[Message]) -> list[Message]:
    """Replace calls of tools by words: servers reject them in requests without tools."""
    described = []
    for message in messages:
        if message.role == "tool":
            described.append(Message("user", f"Result: {message.content}"))
        elif message.calls:
            called = "; ".join(f"{call.name} with {call.arguments}" for call in message.calls)
            described.append(Message("assistant", f"{message.content}\n(I have called {called}.)".strip()))
        else:
            described.append(message)
    return described


def _parse_arguments(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_ARGUMENTS:
        raise Invalid(f"The arguments are longer than {MAX_ARGUMENTS // 1024} KiB.")
    try:
        arguments = msgspec.json.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise Invalid("The arguments are not valid JSON.") from None
    if not isinstance(arguments, dict):
        raise Invalid("The arguments must be an object.")
    return arguments


def _parse_object(text: str, schema: Mapping[str, Any]) -> tuple[Any] | str:
    """The object in an answer, or the reason why it does not fit. Models often write JSON between three backticks."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text.split("\n", 1)[1].rsplit("```", 1)[0]
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return "it is not valid JSON."
    problems = Schema(schema, strict=False).problems(value)
    return (value,) if not problems else "; ".join(f"{one.path or 'the value'}: {one.reason}" for one in problems[:5])
