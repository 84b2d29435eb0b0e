"""Calls of a language model by a step, within its time and the tenant's budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .. import typed
from ..core.engine import Engine
from ..errors import Invalid, ModelFailed, Unavailable
from ..models.completer import (
    Caller,
    Completer,
    Completion,
    LLMConfig,
    Message,
    Tool,
    estimate_message,
    estimate_tokens,
    get_reason,
    stream_completion,
    temperature_argument,
)
from ..models.spending import NO_BUDGET, Ledger, charge_failure
from ..storage.port import TenantStore
from .fields import PromptCall

MAX_MESSAGES = 2000
NO_MODEL = (
    "This workflow needs a language model, but the server has none. Set MEMWELL_LLM, for example to "
    "`openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL`; see the guide to language models."
)


class _ChatMessage(msgspec.Struct, frozen=True):
    role: Literal["system", "user", "assistant"]
    content: str


_decode = typed.decoder(list[_ChatMessage])


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

    def prompt(self, step: PromptCall, given: str) -> str:
        """The answer to a `prompt_call`."""
        system = [Message("system", step.system_template)] if step.system_template else []
        if step.messages:
            messages = [*system, *_parse_messages(given)]
            messages += [Message("user", step.prompt_template)] if step.prompt_template else []
        else:
            text = given if step.prompt_template is None else step.prompt_template
            if not text.strip():
                raise Invalid("The prompt is empty.")
            messages = [*system, Message("user", text)]
        return self.ask(messages, step.max_tokens, step.temperature)

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


def _parse_messages(given: str) -> list[Message]:
    """The messages in the output of the step before (S1.31)."""
    try:
        messages = _decode(given)
    except (msgspec.MsgspecError, RecursionError):
        raise Invalid(
            "The input is not a messages array: with `use_step_input_as_messages` the step before must be an add_memory or "
            "load_memory of a conversation bank."
        ) from None
    if not messages:
        raise Invalid("The messages array is empty: there is nothing to answer.")
    if len(messages) > MAX_MESSAGES:
        raise Invalid(f"There are more than {MAX_MESSAGES} messages.")
    return [Message(one.role, one.content) for one in messages]


def _find_cost(error: ModelFailed, asked: int, max_tokens: int) -> tuple[int, int]:
    tokens = error.details.get("tokens_in"), error.details.get("tokens_out")
    known = (tokens[0], tokens[1]) if isinstance(tokens[0], int) and isinstance(tokens[1], int) else None
    spent = charge_failure(get_reason(error), asked, max_tokens, known)
    return spent.tokens_in, spent.tokens_out
