"""Calls of a language model by a step, within its time and the tenant's budget; and a model that may call tools first.

A model is told why a call of a tool failed, and may try again: an unknown tool, arguments that do not fit, a function that
raised. The number of rounds and of calls is limited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..core.engine import Engine
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
    get_reason,
    stream_completion,
    temperature_argument,
)
from ..models.spending import NO_BUDGET, Ledger, charge_failure
from ..records.schema import Schema
from ..storage.port import TenantStore
from ..text.fence import encode_compact
from .run import EMPTIED

NO_MODEL = (
    "This workflow needs a language model, but the server has none. Set MEMWELL_LLM, for example to "
    "`openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL`; see the guide to language models."
)


class ModelCall:
    """The model of an engine for one step."""

    def __init__(
        self,
        engine: Engine,
        reach: TenantStore,
        timeout_s: float | None,
        on_text: Callable[[str], None] | None,
        model: tuple[Completer, LLMConfig] | None = None,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine, self._on_text, self._reach = engine, on_text, reach
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._model = model
        self._check_time = check_time
        """Raises when the step was abandoned."""

    @property
    def is_configured(self) -> bool:
        return self._engine.completer is not None

    def ask(self, messages: Sequence[Message], max_tokens: int, temperature: float | None = None) -> str:
        """The answer as text, which is streamed."""

        def stream(completer: Completer, timeout_s: float) -> Completion:
            return self._listen(
                stream_completion(
                    completer, messages, max_tokens=max_tokens, timeout_s=timeout_s, temperature=temperature
                )
            )

        return self._pay(messages, max_tokens, stream).text

    def call(
        self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int, temperature: float | None = None
    ) -> Completion:
        """An answer, or calls of tools."""

        def answer(completer: Completer, timeout_s: float) -> Completion:
            if not isinstance(completer, Caller):
                raise ModelFailed("The configured model cannot call tools (tools).", reason="tools")
            return completer.call(
                messages, tools=tools, max_tokens=max_tokens, timeout_s=timeout_s, temperature=temperature
            )

        return self._pay(messages, max_tokens, answer, tools)

    def ask_json(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        max_tokens: int,
        temperature: float | None = None,
    ) -> str:
        """An answer in JSON. The caller checks it against the schema."""

        def answer(completer: Completer, timeout_s: float) -> Completion:
            limits = {"max_tokens": max_tokens, "timeout_s": timeout_s, **temperature_argument(completer, temperature)}
            return completer.complete(messages, schema=schema, **limits)

        return self._pay(messages, max_tokens, answer).text

    def _time_left(self, most: float) -> float:
        if self._until is None:
            return most
        left = self._until - time.monotonic()
        if left <= 0:
            raise Unavailable("There is no time left to ask the model (timeout).")
        return min(most, left)

    def _pay(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        work: Callable[[Completer, float], Completion],
        tools: Sequence[Tool] = (),
    ) -> Completion:
        """Ask within the tenant's budget, and record the cost."""
        found = self._model or self._engine.completer
        if found is None:
            raise Invalid(NO_MODEL)
        completer, wanted = found
        self._check_time()
        timeout_s = self._time_left(wanted.timeout_s)
        asked = sum(map(estimate_message, messages)) + sum(estimate_tokens(str(tool)) for tool in tools)
        ledger = Ledger(self._reach, self._engine.clock, wanted.tokens_per_day)
        aside = ledger.set_aside(asked + max_tokens)
        if aside < asked + max_tokens:
            ledger.settle(aside, 0, 0, 0)
            raise ModelFailed(NO_BUDGET, reason="budget")
        spent = (asked, max_tokens)
        try:
            done = work(completer, timeout_s)
            spent = (done.tokens_in, done.tokens_out)
        except ModelFailed as error:
            spent = _find_cost(error, asked, max_tokens)
            raise
        finally:
            ledger.settle(aside, *spent, 1)
        return done

    def _listen(self, pieces: object) -> Completion:
        whole: Completion | None = None
        for piece in pieces:  # type: ignore[attr-defined]
            if isinstance(piece, Completion):
                whole = piece
            elif self._on_text is not None:
                self._on_text(piece)
        if whole is None:
            raise ModelFailed("The model's answer broke off (cut).", reason="cut")
        return whole


def _find_cost(error: ModelFailed, asked: int, max_tokens: int) -> tuple[int, int]:
    tokens = error.details.get("tokens_in"), error.details.get("tokens_out")
    known = (tokens[0], tokens[1]) if isinstance(tokens[0], int) and isinstance(tokens[1], int) else None
    spent = charge_failure(get_reason(error), asked, max_tokens, known)
    return spent.tokens_in, spent.tokens_out


MAX_CALLS = 64
"""Calls of tools in one task."""
MAX_TOOL_RESULT = 64 * 1024
"""Characters of a tool's result that the model gets."""
MAX_ARGUMENTS = 256 * 1024
_SCHEMA = "Answer with JSON alone, without any other word. It must fit this JSON Schema: "


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
