"""Registered functions as tools of a model: what they take, said in JSON Schema, and called with what the model gave."""

from __future__ import annotations

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
from ...records.memory_prompt import TOOL
from ...records.schema import Schema
from ...text.fence import compact
from ..model_call import Asking
from ..run_memory import EMPTIED, Reach
from ..steps import call_function
from . import document

OWN = "memory"
"""The parameter that every function may have, and that nobody fills in but us."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool(NamedTuple):
    """A function that a model may call."""

    tool: document.Tool
    function: Callable[..., Any]
    takes: type[msgspec.Struct]

    @property
    def offered(self) -> completer.Tool:
        """As the model is told of it."""
        told = self.tool.description or inspect.getdoc(self.function) or f"Calls `{self.tool.action}`."
        return completer.Tool(self.tool.name, told, _schema(self.takes))

    def call(self, arguments: Mapping[str, Any], reach: Reach) -> str:
        """What it gives, as text. Arguments that do not fit are an error that says so."""
        try:
            given = typed.convert(dict(arguments), self.takes)
        except msgspec.ValidationError as error:
            raise Invalid(f"The arguments do not fit: {error}.") from None
        named = {name: getattr(given, name) for name in self.takes.__struct_fields__}
        named = {name: value for name, value in named.items() if value is not msgspec.UNSET}
        text, _ = call_function(self.function, self.tool.action, None, {**named, **self.tool.settings}, reach)
        return text


def tool_of(tool: document.Tool, function: Callable[..., Any]) -> FunctionTool:
    """A function as a tool. What its definition settles, a model is not asked for."""
    hints = _hints(function)
    parameters = _parameters(tool, function)
    fields: list[Any] = []
    for one in parameters.values():
        if one.kind in _NAMED and one.name != OWN and one.name not in tool.settings:
            kind = hints.get(one.name, Any)
            needed = one.default is inspect.Parameter.empty
            fields.append((one.name, kind) if needed else (one.name, kind | msgspec.UnsetType, msgspec.UNSET))
    takes = msgspec.defstruct(f"{tool.name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return FunctionTool(tool, function, takes)


def _parameters(tool: document.Tool, function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        raise Invalid(f"`{tool.action}` cannot be a tool: nobody can tell what it takes.") from None
    unknown = [name for name in tool.settings if name not in parameters]
    if unknown and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        raise Invalid(f"`settings.{unknown[0][:100]}`: the function `{tool.action}` takes no such argument.")
    return parameters


def value_of(text: str, content_type: str) -> Any:
    """What a function gave, as expressions see it."""
    return msgspec.json.decode(text) if content_type == JSON else text


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that can be said in JSON Schema; whatever else is annotated may be anything."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {
            name: one for name, one in getattr(function, "__annotations__", {}).items() if not isinstance(one, str)
        }
    return {name: hint for name, hint in hints.items() if name != "return" and _can_be_said(hint)}


def _can_be_said(hint: Any) -> bool:
    try:
        msgspec.json.schema(hint)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _schema(takes: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of what a tool takes, with an object at its top, as every server wants it."""
    (_,), parts = msgspec.json.schema_components([takes], ref_template="#/$defs/{name}")
    top = parts.pop(takes.__name__)
    top = {name: value for name, value in top.items() if name != "title"}
    return top | ({"$defs": parts} if parts else {})


# -- Asking a model for a task: what is remembered is in its instructions, and it may call tools before it answers (S3.27–S3.36).
#
# A model is told what went wrong with a call, and may try again: a tool that there is not, arguments that do not fit, a function
# that failed. There is an end to it: so many rounds, and so many calls in all.


MAX_CALLS = 64
"""In one task."""
MAX_TOLD = 64 * 1024
"""How much of what a tool gave a model is told."""
MAX_ARGUMENTS = 256 * 1024

Called = Callable[[str, Mapping[str, Any], int], str]
"""Calls a tool by its name, with arguments, as the first, second … call; gives what comes of it as text."""
_SCHEMA = "Answer with JSON alone, without any other word. It must fit this JSON Schema: "


class Limits(NamedTuple):
    """How far a model may go."""

    rounds: int
    max_tokens: int
    temperature: float | None


class Use(NamedTuple):
    """A call of a tool: what the model gave, what came of it, whether that is an error, and how long it took."""

    name: str
    arguments: str
    result: str
    failed: bool
    seconds: float


class Answer(NamedTuple):
    """What a model answered, and the tools that it had called before."""

    text: str
    uses: tuple[Use, ...]


class Agent:
    """A model with tools, for one task."""

    def __init__(
        self, asking: Asking, tools: Sequence[Tool], limits: Limits, run: Called, keep: Callable[[Use], None]
    ) -> None:
        self._asking, self._tools, self._limits = asking, tools, limits
        self._run, self._keep = run, keep
        self._uses: list[Use] = []

    def text(self, messages: Sequence[Message]) -> Answer:
        """A text, heard as it comes where no tool can come in between."""
        if not self._tools:
            told = self._asking.ask(messages, self._limits.max_tokens, self._limits.temperature)
            return Answer(told, ())
        answer, _ = self._rounds(list(messages))
        return Answer(answer.text, tuple(self._uses))

    def shaped(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> tuple[Any, Answer]:
        """An object that fits a schema. What a model says after its tools may fit already; if not, it is asked for JSON alone,
        and told once what was wrong with that. Not every server knows schemas, so the model is shown it."""
        said = list(messages)
        if self._tools:
            answer, said = self._rounds(said)
            found = _fitting(answer.text, schema)
            if not isinstance(found, str):
                return found[0], Answer(answer.text, tuple(self._uses))
        said = [*flattened(said), Message("user", _SCHEMA + compact(schema))]
        for _ in range(2):
            text = self._asking.shaped(said, schema, self._limits.max_tokens, self._limits.temperature)
            found = _fitting(text, schema)
            if not isinstance(found, str):
                return found[0], Answer(text, tuple(self._uses))
            said += [
                Message("assistant", text),
                Message("user", f"This does not fit the schema: {found} Answer again."),
            ]
        raise ModelFailed(
            f"The model gave no object that fits the schema: {found} (invalid_answer).", reason="invalid_answer"
        )

    def _rounds(self, messages: list[Message]) -> tuple[Completion, list[Message]]:
        """Ask until the model answers without calling tools."""
        for _ in range(self._limits.rounds):
            answer = self._asking.call(messages, self._tools, self._limits.max_tokens, self._limits.temperature)
            if not answer.calls:
                return answer, messages
            messages.append(Message("assistant", answer.text, answer.calls))
            messages += [Message("tool", self._used(call), call_id=call.id) for call in answer.calls]
        raise ModelFailed(
            f"The model called tools for {self._limits.rounds} rounds and gave no answer (rounds). Raise `settings.max_steps`, "
            "or say in `system` when it is to stop.",
            reason="tools",
        )

    def _used(self, call: ToolCall) -> str:
        """What comes of a call, as the model is told."""
        if len(self._uses) >= MAX_CALLS:
            raise ModelFailed(f"The model has called more than {MAX_CALLS} tools in one task (calls).", reason="tools")
        failed, begun = True, time.perf_counter()
        try:
            result = self._run(self._known(call.name), _arguments(call.arguments), len(self._uses) + 1)
            failed = False
        except (ModelFailed, StorageError, Unavailable):
            raise  # no model can help it
        except MemwellError as error:
            if error.details.get("reason") == EMPTIED:
                raise
            result = msgspec.json.encode({"error": error.message}).decode()
        use = Use(call.name, call.arguments[:MAX_ARGUMENTS], result, failed, time.perf_counter() - begun)
        self._uses.append(use)
        self._keep(use)
        return result if len(result) <= MAX_TOLD else f"{result[:MAX_TOLD]} … (cut)"

    def _known(self, name: str) -> str:
        known = [tool.name for tool in self._tools]
        if name not in known:
            raise Invalid(f"There is no tool {name[:100]!r}. The tools are {', '.join(known)}.")
        return name


def flattened(messages: Sequence[Message]) -> list[Message]:
    """Messages in words alone: no server takes calls of tools where it is offered none."""
    found = []
    for message in messages:
        if message.role == "tool":
            found.append(Message("user", f"What came of it: {message.content}"))
        elif message.calls:
            called = "; ".join(f"{call.name} with {call.arguments}" for call in message.calls)
            found.append(Message("assistant", f"{message.content}\n(I have called {called}.)".strip()))
        else:
            found.append(message)
    return found


def memory_of(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the tool for memory was called with (S3.34)."""
    memory = arguments.get("memory")
    if not isinstance(memory, Mapping) or len(arguments) != 1:
        raise Invalid(f'`{TOOL}` takes one object: {{"memory": {{"<slug>": {{…}}}}}}.')
    return memory


def _arguments(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_ARGUMENTS:
        raise Invalid(f"The arguments are longer than {MAX_ARGUMENTS // 1024} KiB.")
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise Invalid("The arguments are not valid JSON.") from None
    if not isinstance(given, dict):
        raise Invalid("The arguments must be an object.")
    return given


def _fitting(text: str, schema: Mapping[str, Any]) -> tuple[Any] | str:
    """The object in an answer, or what is wrong with it."""
    try:
        value = msgspec.json.decode(_unfenced(text))
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return "it is not valid JSON."
    problems = Schema(schema, strict=False).problems(value)
    return (value,) if not problems else "; ".join(f"{one.path or 'the value'}: {one.reason}" for one in problems[:5])


def _unfenced(text: str) -> str:
    """JSON as models write it: often between three backticks."""
    told = text.strip()
    if told.startswith("```") and told.endswith("```") and "\n" in told:
        return told.split("\n", 1)[1].rsplit("```", 1)[0]
    return told
