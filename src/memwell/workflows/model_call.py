"""Calls of a language model by a step, within its time and the tenant's budget; and a model that may call tools first.

If a tool call fails, the model gets the reason and may try again: the tool is unknown, its arguments do not fit, or its function
raised. The number of rounds and of calls is limited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

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
    explain_failure,
    stream_completion,
    temperature_argument,
)
from ..models.spending import Ledger
from ..records.schema import Schema
from ..storage.port import TenantStore
from ..text.fence import encode_compact, render_line
from .run_rows import ENDING, ModelExchange, SentMessage
from .source import NO_MODEL

if TYPE_CHECKING:
    from .run import Attempt

MAX_CALLS = 64
"""Calls of tools in one task."""
MAX_TOOL_RESULT = 64 * 1024
"""Characters of a tool's result that the model receives."""
MAX_ARGUMENTS = 256 * 1024
_OWN = "You have already sent these messages. Go on from there, and do not repeat them:"
_TOOLS_FIRST = (
    "Call the tools that you need. Then answer with JSON alone, without any other word. It must fit this JSON Schema: "
)
_SCHEMA = "Answer with JSON alone, without any other word. It must fit this JSON Schema: "


def split_own(messages: Sequence[Message], prompt: Message | None = None) -> tuple[list[Message], list[Message]]:
    """Return the messages up to the last one of the user, and the model's own messages after it. A model that is asked with its
    own message as the last one would continue it, and some servers refuse that. If there is none of the user, the prompt is."""
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    rest, own = list(messages[:end]), list(messages[end:])
    if own and all(one.role != "user" for one in rest):
        if prompt is None:
            raise Invalid(
                "There is nothing to answer: the messages end with the model's own, and none is of the user. Give a prompt, or "
                "set `continues` to let the model continue its own."
            )
        rest.append(prompt)
    return rest, own


def render_own(messages: Sequence[Message]) -> str:
    """Render the model's own messages after the last one of the user for its instructions."""
    lines = [f"- {render_line(one.content)}" for one in messages]
    return "\n".join([_OWN, *lines]) if lines else ""


class ModelCall:
    """The model of an engine for one attempt at a step."""

    def __init__(
        self,
        attempt: Attempt,
        on_text: Callable[[str], None] = lambda piece: None,
        model: tuple[Completer, LLMConfig] | None = None,
    ) -> None:
        self._attempt, self._on_text, self._model = attempt, on_text, model

    def choose(self, model: tuple[Completer, LLMConfig] | None) -> ModelCall:
        """Return the same call of another model."""
        return ModelCall(self._attempt, self._on_text, model)

    def find_model(self) -> tuple[Completer, LLMConfig] | None:
        """Return the model of the task, or the configured one, which is opened only when a step needs it."""
        return self._model or self._attempt.call.engine.completer

    def ask(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        temperature: float | None = None,
        *,
        tools: Sequence[Tool] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Ask within the time of the step and the tenant's budget, and record the cost. With tools the answer may be calls of
        them. With a schema it should be JSON that fits, which the caller checks. An answer without either is streamed."""
        model = self.find_model()
        if model is None:
            raise Invalid(NO_MODEL)
        completer, config = model
        left = self._attempt.check_time()
        if left <= 0:
            raise Unavailable("There is no time left to ask the model (timeout).")
        sent = ModelExchange(
            model=f"{config.kind}:{config.model}",
            messages=tuple(
                SentMessage(role=one.role, content=one.content, tool_calls=one.calls, tool_call_id=one.call_id or None)
                for one in messages
            ),
            tools=tuple(tools),
            schema=None if schema is None else dict(schema),
            max_tokens=max_tokens,
            temperature=temperature,
        )
        answer = partial(self._send, completer, messages, sent, min(config.timeout_s, left))
        tokens = sum(map(estimate_message, messages)) + sum(estimate_tokens(str(tool)) for tool in tools)
        engine, principal = self._attempt.call.engine, self._attempt.call.principal
        ledger = Ledger(TenantStore(engine.store, principal.tenant), engine.clock, config.tokens_per_day)
        return self._record(sent, lambda: self._attempt.wait_for(lambda: ledger.pay(tokens, max_tokens, answer)))

    def _send(
        self, completer: Completer, messages: Sequence[Message], sent: ModelExchange, timeout_s: float
    ) -> Completion:
        limits: dict[str, Any] = {"max_tokens": sent.max_tokens, "timeout_s": timeout_s}
        if sent.tools:
            if not isinstance(completer, Caller):
                raise ModelFailed("The configured model cannot call tools (tools).", reason="tools")
            return completer.call(messages, tools=sent.tools, temperature=sent.temperature, **limits)
        if sent.schema is not None:
            extra = temperature_argument(completer, sent.temperature)
            return completer.complete(messages, schema=sent.schema, **limits, **extra)
        whole: Completion | None = None
        with closing(stream_completion(completer, messages, temperature=sent.temperature, **limits)) as pieces:
            for piece in pieces:
                self._attempt.check_cancelled()
                if isinstance(piece, Completion):
                    whole = piece
                else:
                    self._on_text(piece)
        if whole is None:
            raise ModelFailed("The model's answer broke off (cut).", reason="cut")
        return whole

    def _record(self, sent: ModelExchange, work: Callable[[], Completion]) -> Completion:
        """Note with the step what was sent, and what came back or why nothing did."""
        begin = time.perf_counter()

        def note(**received: Any) -> None:
            seconds = round(time.perf_counter() - begin, 4)
            self._attempt.record(msgspec.structs.replace(sent, seconds=seconds, **received))

        try:
            found = work()
        except MemwellError as error:
            spent = {name: error.details.get(name) or 0 for name in ("tokens_in", "tokens_out")}
            note(error=explain_failure(error), **spent)
            raise
        note(
            answer=found.text,
            tool_calls=found.calls,
            tokens_in=found.tokens_in,
            tokens_out=found.tokens_out,
            tokens_cached=found.tokens_cached,
        )
        return found


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
        ask: Callable[..., Completion],
        tools: Sequence[Tool],
        call_tool: Callable[[str, Mapping[str, Any], int], str],
        store_use: Callable[[ToolUse], None],
        rounds: int,
    ) -> None:
        """`ask` is that of a `ModelCall`. `call_tool` is called with a name, arguments, and the number of the call."""
        self._ask_model, self._tools, self._call_tool, self._store_use = ask, tools, call_tool, store_use
        self._rounds = rounds
        self.uses: list[ToolUse] = []

    def ask(self, messages: list[Message]) -> str:
        """Return the first answer without calls of tools. The calls and their results are added to the messages. Without tools
        the answer is streamed."""
        return self._ask_tools(messages).text

    def _ask_tools(self, messages: list[Message]) -> Completion:
        for _ in range(self._rounds):
            answer = self._ask_model(messages, tools=self._tools)
            if not answer.calls:
                return answer
            messages.append(Message("assistant", answer.text, answer.calls))
            messages += [Message("tool", self._use(call), call_id=call.id) for call in answer.calls]
        raise ModelFailed(
            f"The model called tools for {self._rounds} rounds and gave no answer (rounds). Raise `settings.max_steps`, "
            "or say in `system` when to stop.",
            reason="tools",
        )

    def ask_json(self, messages: list[Message], schema: Mapping[str, Any]) -> tuple[Any, str]:
        """Return an object that fits a schema, and the text of the answer.

        The schema is in the prompt from the first call on, because not every server supports schemas, least of all beside tools.
        The answer after the tool calls may fit already. If not, ask the model for JSON alone, and once more with the errors.
        """
        messages = [*messages, Message("user", (_TOOLS_FIRST if self._tools else _SCHEMA) + encode_compact(schema))]
        asks = [partial(self._ask_model, schema=schema)] * 2
        for ask in ([self._ask_tools] if self._tools else []) + asks:
            text = ask(messages).text
            value, fault = _parse_object(text, schema)
            if fault is None:
                return value, text
            advice = f"This does not fit the schema: {fault} Answer again, with JSON alone."
            own = [Message("assistant", text)] if text.strip() else []
            messages = [*describe_calls(messages), *own, Message("user", advice)]
        raise ModelFailed(
            f"The model gave no object that fits the schema: {fault} (invalid_answer).", reason="invalid_answer"
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
            if error.details.get("reason") in ENDING:
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
