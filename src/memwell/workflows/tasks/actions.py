"""What each action does: from its inputs to what it gives, as text and as a value (S3.27, S3.38)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ... import typed
from ...banks.reading import JSON
from ...core.dispatch import Call
from ...errors import Invalid
from ...models.completer import Message
from ...records.memory_prompt import TOOL, append_memory
from ...storage.port import TenantStore as TenantReach
from ...text.fence import compact
from ..model_call import Asking
from ..run_memory import Reach
from ..steps import call_function, wants_message
from .agent import Agent, Answer, Called, FunctionTool, Limits, Use, memory_of, tool_of, value_of
from .document import INPUTS, OBJECTS, SEND, UPDATE, AiInputs, SendInputs, Task, UpdateInputs
from .memory import TaskMemory

STREAMING = ("ai_agent", "ai_generate_reply")
"""Whose answer is heard while it comes."""
MAX_TOKENS = 1024
_TEXTS = ("prompt", "system", "text")


class Acting(NamedTuple):
    """A task under way: who runs it, for whom, and who listens. `wrote` is told what is remembered from now on, `warn` what is
    withheld; `go_on` raises once nobody waits for the task any more."""

    call: Call
    reach: Reach
    memory: TaskMemory
    step: str
    message: str
    timeout_s: float
    say: Callable[[str], None]
    keep: Callable[[Use], None]
    wrote: Callable[[Mapping[str, Any]], None]
    warn: Callable[[Sequence[str]], None]
    go_on: Callable[[], None]
    history: Callable[[int], list[Message]] | None

    def update(self, memory: Mapping[str, Any], mark: str, **how: Any) -> dict[str, Any]:
        """Remember something, and let later tasks know."""
        self.go_on()
        values = self.memory.update(memory, mark=f"{self.step}/{mark}", **how)
        self.wrote(values)
        return values


class Told(NamedTuple):
    """What a task gives: as text, and as expressions see it."""

    text: str
    value: Any
    content_type: str = "text/plain"


def act(task: Task, given: dict[str, Any], acting: Acting) -> Told:
    """Carry out a task whose expressions are evaluated."""
    kind = INPUTS.get(task.action)
    if kind is None:
        return _call(task, given, acting)
    texts = {name: _text(given[name]) for name in _TEXTS if name in given}
    try:
        inputs: Any = typed.convert({**given, **texts}, kind)
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
    value = {"memory": acting.update(inputs.memory, "task", mode=inputs.mode) if inputs.memory else {}}
    return Told(compact(value), value, JSON)


def _call(task: Task, given: Mapping[str, Any], acting: Acting) -> Told:
    function = acting.call.engine.function(task.action)
    message = acting.message if wants_message(function, given) else None
    text, content_type = call_function(function, task.action, message, given, acting.reach)
    return Told(text, value_of(text, content_type), content_type)


# -- models --------------------------------------------------------------------------------------------------------------


def _ask(task: Task, inputs: AiInputs, acting: Acting) -> Told:
    shown = acting.memory.shown(task.memory)
    acting.warn(shown.warnings)
    functions = {one.name: tool_of(one, acting.call.engine.function(one.action)) for one in task.tools}
    tools = [*([] if shown.tool is None else [shown.tool]), *(one.offered for one in functions.values())]
    agent = Agent(_asking(task, acting), tools, _limits(task), _runs(task, functions, acting), acting.keep)
    messages = [Message("system", append_memory(inputs.system, shown.prompt)), *_messages(inputs, acting)]
    if task.action in OBJECTS:
        found, answer = agent.shaped(messages, task.settings.output_schema or {})
        return Told(compact(found), {"object": found, **_value(answer)}, JSON)
    answer = agent.text(messages)
    if tools and task.action in STREAMING and answer.text:
        acting.say(answer.text)
    return Told(answer.text, _value(answer))


def _asking(task: Task, acting: Acting) -> Asking:
    engine, model = acting.call.engine, task.model
    chosen = engine.model(model.provider, model.model_id) if model is not None else engine.completer
    reach = TenantReach(engine.store, acting.call.principal.tenant)
    say = acting.say if task.action in STREAMING else None
    return Asking(engine, reach, acting.timeout_s, say, chosen, acting.go_on)


def _limits(task: Task) -> Limits:
    """What the task says counts before what its model does."""
    settings, model = task.settings, task.model
    warm = settings.temperature if settings.temperature is not None or model is None else model.temperature
    most = settings.max_tokens or (None if model is None else model.max_tokens) or MAX_TOKENS
    return Limits(settings.max_steps, most, warm)


def _messages(inputs: AiInputs, acting: Acting) -> Sequence[Message]:
    if acting.history is not None:
        found = acting.history(inputs.messages_limit)
        if found:
            return found
    if not inputs.prompt.strip():
        raise Invalid("There is nothing to answer: give `prompt`, or run the workflow with an input that has `text`.")
    return [Message("user", inputs.prompt)]


def _runs(task: Task, functions: Mapping[str, FunctionTool], acting: Acting) -> Called:
    def run(name: str, arguments: Mapping[str, Any], number: int) -> str:
        acting.go_on()
        if name == TOOL:
            memory = memory_of(arguments)
            digest = hashlib.sha256(msgspec.json.encode(memory, order="deterministic")).hexdigest()
            return compact({"memory": acting.update(memory, f"{number}/{digest}", bound=task.memory)})
        return functions[name].call(arguments, acting.reach)

    return run


def _value(answer: Answer) -> dict[str, Any]:
    uses = [{"name": use.name, "arguments": use.arguments, "result": use.result} for use in answer.uses]
    return {"text": answer.text, "tool_calls": uses}


def _text(value: Any) -> str:
    """A text as it is; whatever else an expression gave, as JSON."""
    return value if isinstance(value, str) else compact(value)
