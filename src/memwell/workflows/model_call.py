"""Calls of a language model by a step, within its time and the tenant's budget; and a model that may call tools first.

If a tool call fails, the model gets the reason and may try again: the tool is unknown, its arguments do not fit, or its function
raised. The number of rounds and of calls is limited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..core.dispatch import Call
from ..errors import Invalid, MemwellError, ModelFailed, StorageError, Unavailable
from ..models.completer import (
    Caller,
    Completer,
    Completion,
    LLMConfig,
    Message,
    Tool,
    ToolCall,
    estimate_message,
    estimate_tokens,
    stream_completion,
    temperature_argument,
)
from ..models.spending import Ledger
from ..records.schema import Schema
from ..storage.port import TenantStore
from ..text.fence import encode_compact
from .run_rows import EMPTIED_REASON

NO_MODEL = (
    "This workflow needs a language model, but the server has none. Set MEMWELL_LLM, for example to "
    "`openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL`; see the guide to language models."
)
MAX_CALLS = 64
"""Calls of tools in one task."""
MAX_TOOL_RESULT = 64 * 1024
"""Characters of a tool's result that the model receives."""
MAX_ARGUMENTS = 256 * 1024
_SCHEMA = "Answer with JSON alone, without any other word. It must fit this JSON Schema: "


class ModelCall:
    """The model of an engine for one step."""

    def __init__(
        self,
        call: Call,
        timeout_s: float,
        on_text: Callable[[str], None] = lambda piece: None,
        model: tuple[Completer, LLMConfig] | None = None,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_time` raises if the step was abandoned."""
        self._call, self._on_text, self._check_time = call, on_text, check_time
        self._model = model
        self._until = time.monotonic() + timeout_s

    def find_model(self) -> tuple[Completer, LLMConfig] | None:
        """Return the model of the task, or the configured one, which is opened only when a step needs it."""
        return self._model or self._call.engine.completer

    def ask(self, messages: Sequence[Message], max_tokens: int, temperature: float | None = None) -> str:
        """Return the answer as text, and stream it."""

        def stream(completer: Completer, limits: dict[str, Any]) -> Completion:
            whole: Completion | None = None
            for piece in stream_completion(completer, messages, temperature=temperature, **limits):
                if isinstance(piece, Completion):
                    whole = piece
                else:
                    self._on_text(piece)
            if whole is None:
                raise ModelFailed("The model's answer broke off (cut).", reason="cut")
            return whole

        return self._pay(messages, max_tokens, stream).text

    def call(
        self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int, temperature: float | None
    ) -> Completion:
        """Return an answer, or calls of tools."""

        def answer(completer: Completer, limits: dict[str, Any]) -> Completion:
            if not isinstance(completer, Caller):
                raise ModelFailed("The configured model cannot call tools (tools).", reason="tools")
            return completer.call(messages, tools=tools, temperature=temperature, **limits)

        return self._pay(messages, max_tokens, answer, tools)

    def ask_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], max_tokens: int, temperature: float | None
    ) -> str:
        """Return an answer in JSON. The caller checks it against the schema."""

        def answer(completer: Completer, limits: dict[str, Any]) -> Completion:
            return completer.complete(messages, schema=schema, **limits, **temperature_argument(completer, temperature))

        return self._pay(messages, max_tokens, answer).text

    def _pay(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        work: Callable[[Completer, dict[str, Any]], Completion],
        tools: Sequence[Tool] = (),
    ) -> Completion:
        """Ask within the time of the step and the tenant's budget, and record the cost."""
        model = self.find_model()
        if model is None:
            raise Invalid(NO_MODEL)
        completer, config = model
        self._check_time()
        left = self._until - time.monotonic()
        if left <= 0:
            raise Unavailable("There is no time left to ask the model (timeout).")
        limits = {"max_tokens": max_tokens, "timeout_s": min(config.timeout_s, left)}
        tokens = sum(map(estimate_message, messages)) + sum(estimate_tokens(str(tool)) for tool in tools)
        engine = self._call.engine
        store = TenantStore(engine.store, self._call.principal.tenant)
        ledger = Ledger(store, engine.clock, config.tokens_per_day)
        return ledger.pay(tokens, max_tokens, lambda: work(completer, limits))


class ToolUse(NamedTuple):
    """A call of a tool by a model."""

    name: str
    arguments: str
    result: str
    failed: bool
    seconds: float


class Agent:
    """A model with tools, for one task."""

    def __init__(
        self,
        model: ModelCall,
        tools: Sequence[Tool],
        call_tool: Callable[[str, Mapping[str, Any], int], str],
        store_use: Callable[[ToolUse], None],
        *,
        rounds: int,
        max_tokens: int,
        temperature: float | None,
    ) -> None:
        """`call_tool` is called with a name, arguments, and the number of the call."""
        self._model, self._tools, self._call_tool, self._store_use = model, tools, call_tool, store_use
        self._rounds, self._max_tokens, self._temperature = rounds, max_tokens, temperature
        self.uses: list[ToolUse] = []

    def ask(self, messages: list[Message]) -> str:
        """Return the answer as text. It is streamed if there are no tools."""
        if self._tools:
            return self._ask_with_tools(messages)
        return self._model.ask(messages, self._max_tokens, self._temperature)

    def ask_json(self, messages: list[Message], schema: Mapping[str, Any]) -> tuple[Any, str]:
        """Return an object that fits a schema, and the text of the answer.

        The answer after the tool calls may fit already. If not, ask the model for JSON alone, and once more with the errors.
        The schema is also in the prompt, because not every server supports schemas.
        """
        if self._tools:
            text = self._ask_with_tools(messages)
            value, fault = _parse_object(text, schema)
            if fault is None:
                return value, text
        messages = [*describe_calls(messages), Message("user", _SCHEMA + encode_compact(schema))]
        for _ in range(2):
            text = self._model.ask_json(messages, schema, self._max_tokens, self._temperature)
            value, fault = _parse_object(text, schema)
            if fault is None:
                return value, text
            advice = f"This does not fit the schema: {fault} Answer again."
            messages += [Message("assistant", text), Message("user", advice)]
        raise ModelFailed(
            f"The model gave no object that fits the schema: {fault} (invalid_answer).", reason="invalid_answer"
        )

    def _ask_with_tools(self, messages: list[Message]) -> str:
        """Ask until the model answers without calling tools. The calls and their results are added to the messages."""
        for _ in range(self._rounds):
            answer = self._model.call(messages, self._tools, self._max_tokens, self._temperature)
            if not answer.calls:
                return answer.text
            messages.append(Message("assistant", answer.text, answer.calls))
            messages += [Message("tool", self._use(call), call_id=call.id) for call in answer.calls]
        raise ModelFailed(
            f"The model called tools for {self._rounds} rounds and gave no answer (rounds). Raise `settings.max_steps`, "
            "or say in `system` when to stop.",
            reason="tools",
        )

    def _use(self, call: ToolCall) -> str:
        """Perform a call and return the result for the model."""
        if len(self.uses) >= MAX_CALLS:
            raise ModelFailed(f"The model has called more than {MAX_CALLS} tools in one task (calls).", reason="tools")
        failed, begin = True, time.perf_counter()
        try:
            names = [tool.name for tool in self._tools]
            if call.name not in names:
                raise Invalid(f"There is no tool {call.name[:100]!r}. The tools are {', '.join(names)}.")
            result = self._call_tool(call.name, _parse_arguments(call.arguments), len(self.uses) + 1)
            failed = False
        except (ModelFailed, StorageError, Unavailable):
            raise  # the model cannot correct these
        except MemwellError as error:
            if error.details.get("reason") == EMPTIED_REASON:
                raise
            result = msgspec.json.encode({"error": error.message}).decode()
        use = ToolUse(call.name, call.arguments[:MAX_ARGUMENTS], result, failed, time.perf_counter() - begin)
        self.uses.append(use)
        self._store_use(use)
        return result if len(result) <= MAX_TOOL_RESULT else f"{result[:MAX_TOOL_RESULT]} … (cut)"


def describe_calls(messages: Sequence[Message]) -> list[Message]:
    """Replace tool calls by text, because servers reject them in requests without tools."""
    described = []
    for message in messages:
        if message.role == "tool":
            described.append(Message("user", f"Result: {message.content}"))
        elif message.calls:
            calls = "; ".join(f"{call.name} with {call.arguments}" for call in message.calls)
            described.append(Message("assistant", f"{message.content}\n(I have called {calls}.)".strip()))
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


def _parse_object(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the object in an answer, and the reason if it does not fit the schema. Models often put JSON between backticks."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text.split("\n", 1)[1].rsplit("```", 1)[0]
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None, "it is not valid JSON."
    problems = Schema(schema, strict=False).problems(value)
    return value, "; ".join(f"{one.path or 'the value'}: {one.reason}" for one in problems[:5]) or None
