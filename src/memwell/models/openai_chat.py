"""Models behind an OpenAI-compatible server: `POST <url>/chat/completions`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from .. import typed
from .chat import ChatModel, build_completion, decode_answer, describe_failure, get_host
from .completer import Completion, Message, Tool, ToolCall, model_error

OPENAI_HOST = "api.openai.com"
STREAM_END = b"[DONE]"


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str | None = None


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None


class _Delta(msgspec.Struct):
    delta: _Message | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Delta] | None = None
    usage: Any = None
    error: Any = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: Any = None


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class OpenAIChat(ChatModel):
    PROVIDER = "openai"
    PATH = "/chat/completions"
    FORMATS = ("json_schema", "json_object", "text")
    COUNTS = (True, False)

    def build_request(self, messages: Sequence[Message], max_tokens: int, temperature: float | None) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "messages": [_encode_message(message) for message in messages]}
        # OpenAI's newer models refuse `max_tokens` and any temperature but the default; other servers only know `max_tokens`.
        if get_host(self._server.url) == OPENAI_HOST:
            request["max_completion_tokens"] = max_tokens
        else:
            request |= {"max_tokens": max_tokens, "temperature": 0}
        return request if temperature is None else request | {"temperature": temperature}

    def build_format(self, format: str, schema: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
        if format == "text":
            return {}
        if format == "json_object":
            return {"response_format": {"type": "json_object"}}
        answer = {"name": "answer", "schema": dict(schema), "strict": _is_strict(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": answer}}

    def build_tool(self, tool: Tool) -> dict[str, Any]:
        function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        return {"type": "function", "function": function}

    def read_answer(self, body: bytes, messages: Sequence[Message]) -> Completion:
        answer = decode_answer(body, _Answer)
        if not answer.choices:
            raise model_error("invalid_answer")
        message, ending = answer.choices[0].message, answer.choices[0].finish_reason
        # A call without an id gets one, because the result of the tool must name it.
        calls = tuple(
            ToolCall(call.id or f"call_{number}", call.function.name, call.function.arguments or "{}")
            for number, call in enumerate(message.tool_calls or (), 1)
            if call.function is not None
        )
        return _build_completion(message.content or "", messages, answer.usage, ending, bool(message.refusal), calls)

    def read_stream(
        self, events: Iterable[bytes], messages: Sequence[Message]
    ) -> Generator[str | Completion, None, None]:
        text: list[str] = []
        ending, refused, usage = None, False, None
        for data in events:
            if data == STREAM_END:
                ending = ending or "stop"
                break
            chunk = decode_answer(data, _Chunk)
            if chunk.error is not None:
                raise model_error("server_error", **describe_failure(data, self._server.key))
            usage = chunk.usage or usage
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta or _Message()
            ending = chunk.choices[0].finish_reason or ending
            refused = refused or bool(delta.refusal)
            text.append(delta.content or "")
            if delta.content:
                yield delta.content
        if not text:
            raise model_error("invalid_answer")
        if ending is None:
            raise model_error("cut")
        yield _build_completion("".join(text), messages, usage, ending, refused)


def _encode_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    encoded: dict[str, Any] = {"role": message.role, "content": message.content}
    if not message.calls:
        return encoded
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.calls
    ]
    return encoded | {"content": message.content or None, "tool_calls": calls}


def _is_strict(schema: Any) -> bool:
    """Return True if every object of a schema requires all its properties and allows no others."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        all_required = set(schema.get("properties") or ()) == set(schema.get("required") or ())
        if schema.get("additionalProperties") is not False or not all_required:
            return False
    return all(map(_is_strict, schema.values()))


def _build_completion(
    text: str,
    messages: Sequence[Message],
    usage: Any,
    ending: str | None,
    refused: bool,
    calls: tuple[ToolCall, ...] = (),
) -> Completion:
    refused = refused or ending == "content_filter"
    return build_completion(text, messages, _count_tokens(usage), calls, refused=refused, cut=ending == "length")


def _count_tokens(usage: Any) -> tuple[int, ...]:
    """The server's counts (in, out, cached); empty if they are missing or malformed."""
    try:
        counts = typed.convert(usage, _Usage)
    except msgspec.ValidationError:
        return ()
    try:
        cached = typed.convert(counts.prompt_tokens_details or {}, _Details).cached_tokens
    except msgspec.ValidationError:
        cached = 0
    return counts.prompt_tokens, counts.completion_tokens, cached
