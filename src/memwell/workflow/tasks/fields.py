"""What definitions, settings and inputs of tasks may hold. An input may be an expression: then it must fit when it runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

AI_ACTIONS = ("ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object")
OBJECTS = ("ai_generate_object", "ai_infer_object")
SEND = "send_text_message"
UPDATE = "update_memory"
SPEAKING = ("ai_agent", "ai_generate_reply", "ai_generate_text")
"""Whose answer is what the run says, if nothing is sent."""
PROMPT = "=$input.text"
"""What a model is asked if nothing is said."""
KINDS = ("memory", "model", "task", "tools")

Milliseconds = Annotated[int, Meta(ge=0, le=900_000)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
MaxTokens = Annotated[int, Meta(ge=1, le=200_000)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=1024 * 1024)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing but the fields that there are."""


class Retries(_Strict, frozen=True, kw_only=True):
    """How often a task is tried again, and how long it waits (B3.21)."""

    enabled: bool = False
    max_attempts: Annotated[int, Meta(ge=1, le=6)] = 3
    backoff_ms: Annotated[int, Meta(ge=0, le=60_000)] = 25
    max_delay_ms: Annotated[int, Meta(ge=0, le=60_000)] = 10_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0
    multiplier: Annotated[float, Meta(ge=1, le=10)] = 1.0


class History(_Strict, frozen=True, kw_only=True):
    """A conversation: a session of a flow (that of the workflow's name, if none is said), or a key of a conversation bank. If no
    session or key is said, it is that of the run's owner and thread. `record`: what is said in the run is written there."""

    flow: Name | None = None
    session: Name | None = None
    bank: Name | None = None
    key: Name | None = None
    record: bool = True


class Settings(_Strict, frozen=True, kw_only=True):
    """How a task is done."""

    timeout_ms: Milliseconds = 0
    retries: Retries = Retries()
    history: History | None = None
    max_steps: Annotated[int, Meta(ge=1, le=20)] = 8
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None
    output_schema: dict[str, Any] | None = None


class ModelSettings(_Strict, frozen=True, kw_only=True):
    """Which model is asked."""

    provider: Name | None = None
    model_id: Name | None = None
    temperature: Temperature | None = None
    max_tokens: MaxTokens | None = None


class MemorySettings(_Strict, frozen=True, kw_only=True):
    """Which memory definition is bound, by its id or slug."""

    definition_id: Name


class Bindings(_Strict, frozen=True, kw_only=True):
    """What is bound to a task, by the names of definitions."""

    model: Name | None = None
    memory: Annotated[list[Name], Meta(max_length=50)] = []
    tools: Annotated[list[Name], Meta(max_length=50)] = []


class AiInputs(_Strict, frozen=True, kw_only=True):
    """What a model is asked (S3.22, B3.23)."""

    input_mode: Literal["prompt", "history"] = "prompt"
    prompt: Text = ""
    messages_limit: Annotated[int, Meta(ge=1, le=200)] = 4
    system: Text = "You are a helpful assistant."


class SendInputs(_Strict, frozen=True, kw_only=True):
    """What is sent."""

    text: Text


class UpdateInputs(_Strict, frozen=True, kw_only=True):
    """What is remembered (S3.38)."""

    memory: dict[str, Any]
    mode: Literal["replace", "merge"] | None = None


INPUTS: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(AI_ACTIONS, AiInputs),
    SEND: SendInputs,
    UPDATE: UpdateInputs,
}
"""Of the actions that there are; everything else is a registered function, and takes what that takes."""
