"""What each action does: from its inputs to what it gives, as text and as a value (S3.27, S3.38)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...context.lines import compact
from ...context.outputs import JSON
from ...context.working_memory import TOOL, appended
from ...dispatch import Call
from ...errors import Invalid
from ...models.completer import Message
from ...storage.port import Reach as TenantReach
from ..asking import Asking
from ..calling import call_function
from ..run_memory import Reach
from .agent import Agent, Answer, Limits, Use, memory_of
from .document import Task
from .fields import INPUTS, OBJECTS, SEND, UPDATE, AiInputs, SendInputs, UpdateInputs
from .memory import TaskMemory
from .tools import FunctionTool, tool_of, value_of

SPEAKING = ("ai_agent", "ai_generate_reply")
"""Whose answer is heard while it comes."""
_TEXTS = ("prompt", "system", "text")


class Acting(NamedTuple):
    """A task under way: who runs it, for whom, and who listens."""

    call: Call
    reach: Reach
    memory: TaskMemory
    message: str
    timeout_s: float
    say: Callable[[str], None]
    keep: Callable[[Use], None]
    history: Callable[[int], list[Message]] | None


class Told(NamedTuple):
    """What a task gives: as text, and as expressions see it. `wrote`: memory may have changed."""

    text: str
    value: Any
    content_type: str = "text/plain"
    wrote: bool = False


def act(task: Task, given: dict[str, Any], acting: Acting) -> Told:
    """Carry out a task whose expressions are evaluated."""
    kind = INPUTS.get(task.action)
    if kind is None:
        return _call(task, given, acting)
    texts = {name: _text(given[name]) for name in _TEXTS if name in given}
    try:
        inputs: Any = msgspec.convert({**given, **texts}, kind)
    except msgspec.ValidationError as error:
        raise Invalid(f"The inputs do not fit: {error}.") from None
    match task.action:
        case action if action == SEND:
            return _send(inputs)
        case action if action == UPDATE:
            return _update(inputs, acting)
    return _ask(task, inputs, acting)


def _send(inputs: SendInputs) -> Told:
    return Told(inputs.text, {"text": inputs.text})


def _update(inputs: UpdateInputs, acting: Acting) -> Told:
    value = {"memory": acting.memory.update(inputs.memory, mode=inputs.mode) if inputs.memory else {}}
    return Told(compact(value), value, JSON, wrote=True)


def _call(task: Task, given: Mapping[str, Any], acting: Acting) -> Told:
    function = acting.call.engine.function(task.action)
    text, content_type = call_function(function, task.action, acting.message, given, acting.reach)
    return Told(text, value_of(text, content_type), content_type, wrote=True)


# -- models --------------------------------------------------------------------------------------------------------------


def _ask(task: Task, inputs: AiInputs, acting: Acting) -> Told:
    shown = acting.memory.shown(task.memory)
    functions = {one.name: tool_of(one, acting.call.engine.function(one.action)) for one in task.tools}
    tools = [*([] if shown.tool is None else [shown.tool]), *(one.offered for one in functions.values())]
    agent = Agent(_asking(task, acting), tools, _limits(task), _runs(task, functions, acting), acting.keep)
    messages = [Message("system", appended(inputs.system, shown.prompt)), *_messages(inputs, acting)]
    if task.action in OBJECTS:
        found, answer = agent.shaped(messages, task.settings.output_schema or {})
        return Told(compact(found), {"object": found, **_value(answer)}, JSON, wrote=bool(answer.uses))
    answer = agent.text(messages)
    if tools and task.action in SPEAKING and answer.text:
        acting.say(answer.text)
    return Told(answer.text, _value(answer), wrote=bool(answer.uses))


def _asking(task: Task, acting: Acting) -> Asking:
    engine, model = acting.call.engine, task.model
    chosen = engine.model(model.provider, model.model_id) if model is not None else engine.completer
    reach = TenantReach(engine.store, acting.call.principal.tenant)
    return Asking(engine, reach, acting.timeout_s, acting.say if task.action in SPEAKING else None, chosen)


def _limits(task: Task) -> Limits:
    """What the task says counts before what its model does."""
    settings, model = task.settings, task.model
    warm = settings.temperature if settings.temperature is not None or model is None else model.temperature
    most = settings.max_tokens if model is None or model.max_tokens is None else model.max_tokens
    return Limits(settings.max_steps, most, warm)


def _messages(inputs: AiInputs, acting: Acting) -> Sequence[Message]:
    if acting.history is not None:
        found = acting.history(inputs.messages_limit)
        if found:
            return found
    if not inputs.prompt.strip():
        raise Invalid("There is nothing to answer: give `prompt`, or run the workflow with an input that has `text`.")
    return [Message("user", inputs.prompt)]


def _runs(task: Task, functions: Mapping[str, FunctionTool], acting: Acting) -> Callable[[str, Mapping[str, Any]], str]:
    def run(name: str, arguments: Mapping[str, Any]) -> str:
        if name == TOOL:
            return compact({"memory": acting.memory.update(memory_of(arguments), task.memory)})
        return functions[name].call(arguments, acting.message, acting.reach)

    return run


def _value(answer: Answer) -> dict[str, Any]:
    uses = [{"name": use.name, "arguments": use.arguments, "result": use.result} for use in answer.uses]
    return {"text": answer.text, "tool_calls": uses}


def _text(value: Any) -> str:
    """A text as it is; whatever else an expression gave, as JSON."""
    return value if isinstance(value, str) else compact(value)
