"""Asking a language model for a step: what it is told, within which time and budget, and its answer as it comes."""

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
    Message,
    Tool,
    Wanted,
    estimated_tokens,
    reason_of,
    stream_of,
    tokens_of,
    wish,
)
from ..models.spending import NO_BUDGET, Ledger, charged
from ..storage.port import TenantStore
from .fields import PromptCall

MAX_MESSAGES = 2000
NO_MODEL = (
    "This workflow asks a language model, and none is set. Set MEMWELL_LLM, for example to `openai:MODEL@http://HOST:PORT/v1` "
    "or `anthropic:MODEL`; see the guide to language models."
)


class _Said(msgspec.Struct, frozen=True):
    role: Literal["system", "user", "assistant"]
    content: str


_decode = typed.decoder(list[_Said])


class Asking:
    """The model of an engine, as one step of a run uses it."""

    def __init__(
        self,
        engine: Engine,
        reach: TenantStore,
        timeout_s: float | None,
        on_text: Callable[[str], None] | None,
        model: tuple[Completer, Wanted] | None = None,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine, self._on_text, self._reach = engine, on_text, reach
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._model = model
        self._go_on = go_on
        """Raises once nobody waits for an answer any more."""

    @property
    def can(self) -> bool:
        return self._engine.completer is not None

    def prompt(self, step: PromptCall, given: str) -> str:
        """Ask as a `prompt_call` says."""
        system = [Message("system", step.system_template)] if step.system_template else []
        if step.messages:
            messages = [*system, *_messages(given)]
            messages += [Message("user", step.prompt_template)] if step.prompt_template else []
        else:
            text = given if step.prompt_template is None else step.prompt_template
            if not text.strip():
                raise Invalid("The prompt is empty.")
            messages = [*system, Message("user", text)]
        return self.ask(messages, step.max_tokens, step.temperature)

    def ask(self, messages: Sequence[Message], max_tokens: int, temperature: float | None = None) -> str:
        """Ask for a text, which is heard as it comes."""

        def listen(completer: Completer, timeout_s: float) -> Completion:
            return self._listen(
                stream_of(completer, messages, max_tokens=max_tokens, timeout_s=timeout_s, temperature=temperature)
            )

        return self._paid(messages, max_tokens, listen).text

    def call(
        self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int, temperature: float | None = None
    ) -> Completion:
        """Ask for a text, or for tools that are to be called first."""

        def answer(completer: Completer, timeout_s: float) -> Completion:
            if not isinstance(completer, Caller):
                raise ModelFailed("The model that is set cannot call tools (tools).", reason="tools")
            return completer.call(
                messages, tools=tools, max_tokens=max_tokens, timeout_s=timeout_s, temperature=temperature
            )

        return self._paid(messages, max_tokens, answer, tools)

    def shaped(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        max_tokens: int,
        temperature: float | None = None,
    ) -> str:
        """Ask for JSON of some shape. Whoever asks checks it."""

        def answer(completer: Completer, timeout_s: float) -> Completion:
            limits = {"max_tokens": max_tokens, "timeout_s": timeout_s, **wish(completer, temperature)}
            return completer.complete(messages, schema=schema, **limits)

        return self._paid(messages, max_tokens, answer).text

    def _left(self, most: float) -> float:
        """How long a model may take now."""
        if self._until is None:
            return most
        left = self._until - time.monotonic()
        if left <= 0:
            raise Unavailable("There is no time left to ask the model (timeout).")
        return min(most, left)

    def _paid(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        work: Callable[[Completer, float], Completion],
        tools: Sequence[Tool] = (),
    ) -> Completion:
        """Ask within the tenant's budget; whatever it cost is written down."""
        found = self._model or self._engine.completer
        if found is None:
            raise Invalid(NO_MODEL)
        completer, wanted = found
        self._go_on()
        timeout_s = self._left(wanted.timeout_s)
        asked = sum(map(tokens_of, messages)) + sum(estimated_tokens(str(tool)) for tool in tools)
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
            spent = _charged(error, asked, max_tokens)
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


def _messages(given: str) -> list[Message]:
    """The messages that a step before has handed on (S1.31): each becomes one of its own."""
    try:
        said = _decode(given)
    except (msgspec.MsgspecError, RecursionError):
        raise Invalid(
            "The input is not a messages array: with `use_step_input_as_messages` the step before must be an add_memory or "
            "load_memory of a conversation bank."
        ) from None
    if not said:
        raise Invalid("The messages array is empty: there is nothing to answer.")
    if len(said) > MAX_MESSAGES:
        raise Invalid(f"There are more than {MAX_MESSAGES} messages.")
    return [Message(one.role, one.content) for one in said]


def _charged(error: ModelFailed, asked: int, max_tokens: int) -> tuple[int, int]:
    tokens = error.details.get("tokens_in"), error.details.get("tokens_out")
    known = (tokens[0], tokens[1]) if isinstance(tokens[0], int) and isinstance(tokens[1], int) else None
    spent = charged(reason_of(error), asked, max_tokens, known)
    return spent.tokens_in, spent.tokens_out
