"""Models behind Anthropic's protocol: `POST <url>/v1/messages`, with marks for the server's prompt cache.

A mark makes the server cache a request up to that block. A later request finds the cache if it begins with the same blocks, so
the marks are set at the end of the stable parts: on the instructions, and on the last message before the newest one. The next
turn of a conversation begins with all of these. If there are several messages of instructions, the first has its own mark, so
that it is found even if those after it change. The protocol allows four marks; at most three are set here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from .. import typed
from .chat import ChatModel, build_completion, decode_answer, describe_failure
from .completer import ANTHROPIC_URL, Completion, Message, Reason, Tool, ToolCall, model_error

OPENING = "(The messages that are shown begin here.)"
CACHE_MARK = {"type": "ephemeral"}
CUT_REASONS = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"})
ERROR_REASONS: dict[str, Reason] = {
    "invalid_request_error": "bad_request",
    "authentication_error": "unauthorised",
    "permission_error": "unauthorised",
    "not_found_error": "not_found",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
}


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    input: msgspec.Raw = msgspec.Raw()


class _Answer(msgspec.Struct):
    content: list[_Block]
    stop_reason: str | None = None
    usage: Any = None


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Start(msgspec.Struct):
    usage: Any = None


class _Delta(msgspec.Struct):
    text: str | None = None
    stop_reason: str | None = None


class _Error(msgspec.Struct):
    type: str = ""


class _Event(msgspec.Struct):
    type: str
    message: _Start | None = None
    content_block: _Delta | None = None
    delta: _Delta | None = None
    usage: Any = None
    error: _Error | None = None


class AnthropicChat(ChatModel):
    """A model behind Anthropic's protocol. The address may end in `/v1` or not."""

    PROVIDER = "anthropic"
    PATH = "/v1/messages"
    HEADERS = {"anthropic-version": "2026-10-21"}  # noqa: RUF012
    FORMATS = ("tool", "format", "text")  # the newest models refuse to be forced to call a tool

    def __init__(self, model: str, url: str = ANTHROPIC_URL, key: str = "") -> None:
        super().__init__(model, url.rstrip("/").removesuffix("/v1"), key)

    def adjust_temperature(self, temperature: float | None) -> float | None:
        # Anthropic's own server accepts no temperature any more; others that speak the protocol do.
        return None if self._server.url == ANTHROPIC_URL else temperature

    def build_request(self, messages: Sequence[Message], max_tokens: int, temperature: float | None) -> dict[str, Any]:
        system, turns = build_layout(messages)
        request: dict[str, Any] = {"model": self._model, "max_tokens": max_tokens, "messages": turns}
        if system:
            request["system"] = system
        return request if temperature is None else request | {"temperature": temperature}

    def build_format(self, format: str, schema: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
        if format == "text":
            return {}
        if format == "format":
            return {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}}
        tool = {"name": "answer", "description": "Takes the answer.", "input_schema": dict(schema)}
        choice = {"type": "tool", "name": "answer", "disable_parallel_tool_use": True}
        return {"tools": [tool], "tool_choice": choice}

    def build_tool(self, tool: Tool) -> dict[str, Any]:
        return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}

    def read_answer(self, body: bytes, messages: Sequence[Message]) -> Completion:
        """Return the input of the tool `answer` if the model called it, and otherwise the text."""
        answer = decode_answer(body, _Answer)
        calls = [block for block in answer.content if block.type == "tool_use"]
        text = _decode_input(calls[0]) if calls else "".join(block.text or "" for block in answer.content)
        return _build_completion(text, messages, answer.usage, answer.stop_reason)

    def read_tool_calls(self, body: bytes, messages: Sequence[Message]) -> Completion:
        answer = decode_answer(body, _Answer)
        text = "".join(block.text or "" for block in answer.content if block.type == "text")
        calls = tuple(
            ToolCall(block.id, block.name, _decode_input(block)) for block in answer.content if block.type == "tool_use"
        )
        return _build_completion(text, messages, answer.usage, answer.stop_reason, calls)

    def read_stream(
        self, events: Iterable[bytes], messages: Sequence[Message]
    ) -> Generator[str | Completion, None, None]:
        """Yield the pieces, then the whole. Unknown kinds of events are ignored, as the protocol says."""
        text: list[str] = []
        ending, started = None, False
        usage: dict[str, Any] = {}
        for data in events:
            event = decode_answer(data, _Event)
            if event.type == "message_stop":
                break
            if event.type == "error":
                reason = ERROR_REASONS.get(event.error.type if event.error else "", "server_error")
                raise model_error(reason, **describe_failure(data, self._server.key))
            started = started or event.message is not None
            # Counts at the end are added to those at the beginning, or replace them.
            for counts in (event.message and event.message.usage, event.usage):
                if isinstance(counts, dict):
                    usage |= {name: number for name, number in counts.items() if number is not None}
            delta = event.delta or event.content_block or _Delta()
            ending = delta.stop_reason or ending
            if delta.text:
                text.append(delta.text)
                yield delta.text
        if not started:
            raise model_error("invalid_answer")
        if ending is None:
            raise model_error("cut")
        yield _build_completion("".join(text), messages, usage, ending)


def build_layout(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the instructions and the turns. Each message is a block, so that a prefix stays the same when messages are added.

    Blank messages are left out, because the protocol refuses them. Instructions alone are sent as a user's message. If the turns
    begin with the assistant, as a window of a conversation or a summary may, a user's message comes before, because the protocol
    requires one.
    """
    messages = [message for message in messages if message.content.strip() or message.calls or message.role == "tool"]
    if all(message.role == "system" for message in messages):
        messages = [Message("user", message.content) for message in messages]
    blocks = [block for message in messages for block in _build_blocks(message)]
    system: list[dict[str, Any]] = [block for role, block in blocks if role == "system"]
    others: list[tuple[str, dict[str, Any]]] = [(role, block) for role, block in blocks if role != "system"]
    if others and others[0][0] == "assistant":
        others.insert(0, ("user", {"type": "text", "text": OPENING}))
    for block in (*system[:1], *system[-1:], *[block for _, block in others][-2:-1]):
        block["cache_control"] = CACHE_MARK
    turns = [
        {"role": role, "content": [block for _, block in group]}
        for role, group in groupby(others, key=lambda each: each[0])
    ]
    return system, turns


def _build_blocks(message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the blocks of a message, each with its role. The result of a tool has the role `user`."""
    if message.role == "tool":
        yield "user", {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}
        return
    if message.content.strip():
        yield message.role, {"type": "text", "text": message.content}
    for call in message.calls:
        try:
            arguments = msgspec.json.decode(call.arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            arguments = {}
        # The protocol accepts only objects, but a model may have written anything.
        arguments = arguments if isinstance(arguments, dict) else {}
        yield message.role, {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _decode_input(block: _Block) -> str:
    """Return the JSON as the server sent it; the caller parses it."""
    try:
        return bytes(block.input).decode()
    except UnicodeError:
        raise model_error("invalid_answer") from None


def _build_completion(
    text: str, messages: Sequence[Message], usage: Any, ending: str | None, calls: tuple[ToolCall, ...] = ()
) -> Completion:
    refused, cut = ending == "refusal", ending in CUT_REASONS
    return build_completion(text, messages, _count_tokens(usage), calls, refused=refused, cut=cut)


def _count_tokens(usage: Any) -> tuple[int, ...]:
    """The server's counts (in, out, cached). Its `input_tokens` do not include the cached ones."""
    try:
        counts = typed.convert(usage, _Usage)
    except msgspec.ValidationError:
        return ()
    cached = counts.cache_read_input_tokens or 0
    return counts.input_tokens + (counts.cache_creation_input_tokens or 0) + cached, counts.output_tokens, cached
