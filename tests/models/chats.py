"""Chats with a scripted server, in both protocols, and the reasons of their failures."""

from __future__ import annotations

import threading
import traceback
from typing import Any, Literal

import pytest

from memwell import ModelFailed
from memwell.models.anthropic_chat import AnthropicChat
from memwell.models.completer import Completion, Message
from memwell.models.openai_chat import OpenAIChat

from ..scripted import Fault, StreamFault

Kind = Literal["openai", "anthropic"]
Chat = OpenAIChat | AnthropicChat
KINDS: tuple[Kind, ...] = ("openai", "anthropic")
KEY = "sk-never-to-be-seen"
SECRET = "the parrot's name is Coco"
ASKED = [Message("system", "Answer."), Message("user", SECRET)]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}}

REASONS: dict[Fault, str] = {
    Fault.HANG: "timeout",
    Fault.DRIP: "timeout",
    Fault.DRIP_HEADERS: "timeout",
    Fault.ERROR: "server_error",
    Fault.BUSY: "rate_limited",
    Fault.UNAUTHORISED: "unauthorised",
    Fault.RESET: "cut",
    Fault.HALF: "cut",
    Fault.LENGTH: "cut",
    Fault.HUGE: "too_large",
    Fault.REFUSAL: "refused",
    Fault.NO_CHOICES: "invalid_answer",
    Fault.GARBAGE: "invalid_answer",
}
STREAM_REASONS: dict[Any, str] = {
    **REASONS,
    StreamFault.GARBAGE: "invalid_answer",
    StreamFault.CUT: "cut",
    StreamFault.HANG: "timeout",
    StreamFault.DRIP: "timeout",
    StreamFault.ERROR: "server_error",
}

OPENED: list[Chat] = []
"""The chats that end with the test."""


def open_chat(kind: Kind, url: str, key: str = "") -> Chat:
    """A chat that is closed when the test ends."""
    OPENED.append((OpenAIChat if kind == "openai" else AnthropicChat)("m", url, key))
    return OPENED[-1]


def ask(model: Any, schema: dict[str, Any] | None = SCHEMA, timeout_s: float = 30.0) -> Completion:
    answer: Completion = model.complete(ASKED, schema=schema, max_tokens=100, timeout_s=timeout_s)
    return answer


def failure(model: Any, timeout_s: float = 30.0, schema: dict[str, Any] | None = SCHEMA) -> ModelFailed:
    with pytest.raises(ModelFailed) as error:
        ask(model, schema, timeout_s)
    return error.value


def limit_s(reason: str) -> float:
    """A short limit for answers that never end by themselves."""
    return 0.6 if reason == "timeout" else 30.0


def no_call_is_open() -> bool:
    return all(thread.name != "memwell-model" for thread in threading.enumerate())


def render_chain(error: BaseException | None) -> str:
    """Everything that an error and its causes could show. The HTTP client's errors hold the request: none may be among them."""
    shown = ""
    while error is not None:
        assert type(error).__module__.partition(".")[0] in ("memwell", "msgspec", "builtins")
        shown += repr(error) + str(vars(error)) + "".join(traceback.format_exception(error))
        error = error.__cause__ or error.__context__
    return shown
