"""The protocols of OpenAI and Anthropic, as a scripted server speaks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple, Protocol

from memwell.models.completer import estimate_tokens
from memwell.testing import ToolCall, ToolCalls

from .replies import TextReply

PIECE = 16
"""Characters of an answer per event."""


class ModelProtocol(Protocol):
    base: str
    path: str
    opening: bytes
    nothing: dict[str, Any]

    def whole(self, number: int, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> dict[str, Any]:
        """The whole answer at once."""
        ...

    def parts(self, number: int, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> Iterator[bytes]:
        """The answer as the events of a stream."""
        ...

    def error(self, message: str) -> dict[str, Any]: ...

    def refuse(self, body: Mapping[str, Any]) -> str | None:
        """The reason to refuse a request, or None."""
        ...

    def broken(self) -> bytes:
        """The event that reports an error in the middle of a stream."""
        ...

    def models(self, name: str) -> dict[str, Any]: ...


def pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def event(data: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def prompt_text(body: Mapping[str, Any]) -> str:
    """The text of a request: its instructions and its messages."""
    system = [body["system"]] if body.get("system") else []
    contents = [message.get("content") for message in body.get("messages", [])]
    return "\n".join(_text(content) for content in [*system, *contents])


def _text(content: object) -> str:
    if not isinstance(content, list):
        return str(content)
    return "\n".join(str(block.get("text")) for block in content if isinstance(block, dict))


def tokens_out(reply: ToolCalls | TextReply) -> int:
    if isinstance(reply, ToolCalls):
        return estimate_tokens(json.dumps([call.arguments for call in reply.calls]))
    return estimate_tokens(reply.text or "") if reply.tokens_out is None else reply.tokens_out


MARK = "cache_control"


class _Block(NamedTuple):
    """A part of a request. A mark on it asks to cache everything up to it."""

    text: str
    marked: bool


class PromptCache:
    """The prompt cache of Anthropic's protocol, without a minimal length or an end."""

    def __init__(self) -> None:
        self._cached: set[tuple[str, ...]] = set()
        self._lock = Lock()

    def counts(self, body: Mapping[str, Any]) -> dict[str, int]:
        """Count the tokens of a request that were found, newly cached, and neither; cache what it marks."""
        blocks = list(_blocks(body))
        texts = tuple(block.text for block in blocks)
        marks = [at for at, block in enumerate(blocks, 1) if block.marked]
        with self._lock:
            found = max((at for at in range(1, max(marks, default=0) + 1) if texts[:at] in self._cached), default=0)
            self._cached |= {texts[:at] for at in marks}
        end = max(marks, default=0)
        return {
            "input_tokens": _tokens(texts[end:]),
            "cache_creation_input_tokens": _tokens(texts[found:end]),
            "cache_read_input_tokens": _tokens(texts[:found]),
        }


def _tokens(texts: tuple[str, ...]) -> int:
    return sum(map(estimate_tokens, texts))


def _blocks(body: Mapping[str, Any]) -> Iterator[_Block]:
    """The blocks of a request in the order in which a model reads them."""
    yield from (_block("tool", tool) for tool in body.get("tools") or [])
    yield from (_block("system", block) for block in _to_blocks(body.get("system")))
    for message in body.get("messages", []):
        yield from (_block(str(message.get("role")), block) for block in _to_blocks(message.get("content")))


def _to_blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []


def _block(role: str, block: Mapping[str, Any]) -> _Block:
    bare = {name: value for name, value in block.items() if name != MARK}
    return _Block(f"{role}: {bare.get('text') or json.dumps(bare)}", MARK in block)


CREATED = 1_776_592_800


class ChatCompletions:
    """`POST /v1/chat/completions`."""

    base = "/v1"
    path = "/v1/chat/completions"
    opening = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "'
    nothing: dict[str, Any] = {"id": "chatcmpl-0", "object": "chat.completion", "choices": []}  # noqa: RUF012

    def whole(self, number: int, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> dict[str, Any]:
        message, ending = _message(reply)
        choice = {"index": 0, "message": message, "finish_reason": ending}
        return _head(number, body, "chat.completion") | {"choices": [choice], "usage": _usage(reply, body)}

    def parts(self, number: int, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Stream some words at a time, each tool call in two parts, and the counts at the end if asked for."""
        head = _head(number, body, "chat.completion.chunk")
        _, ending = _message(reply)
        for delta in [{"role": "assistant"}, *_deltas(reply)]:
            yield event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": ending}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield event(head | {"choices": [], "usage": _usage(reply, body)})
        yield b"data: [DONE]\n\n"

    def error(self, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "invalid_request_error", "code": None}}

    def refuse(self, body: Mapping[str, Any]) -> str | None:
        return None

    def broken(self) -> bytes:
        return event({"error": {"message": "it failed in the middle", "type": "server_error", "code": None}})

    def models(self, name: str) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "memwell"}]}


def _head(number: int, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": CREATED, "model": body.get("model")}


def _usage(reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> dict[str, int]:
    scripted = reply.tokens_in if isinstance(reply, TextReply) else None
    read, written = estimate_tokens(prompt_text(body)) if scripted is None else scripted, tokens_out(reply)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _message(reply: ToolCalls | TextReply) -> tuple[dict[str, Any], str]:
    """The assistant's message, and the reason why it ended."""
    if isinstance(reply, TextReply):
        refusal = {"refusal": reply.refusal} if reply.refusal is not None else {}
        return {"role": "assistant", "content": reply.text} | refusal, reply.finish_reason
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(reply.calls, 1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


def _deltas(reply: ToolCalls | TextReply) -> Iterator[dict[str, Any]]:
    if isinstance(reply, TextReply):
        if reply.refusal is not None:
            yield {"refusal": reply.refusal}
        yield from ({"content": piece} for piece in pieces(reply.text or ""))
        return
    for number, call in enumerate(_message(reply)[0]["tool_calls"]):
        function = call["function"]
        yield {"tool_calls": [call | {"index": number, "function": function | {"arguments": ""}}]}
        yield {"tool_calls": [{"index": number, "function": {"arguments": function["arguments"]}}]}


ENDINGS = {"stop": "end_turn", "length": "max_tokens"}


class Messages:
    """`POST /v1/messages`, with a cache of its own."""

    base = ""
    path = "/v1/messages"
    opening = b'{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "'
    nothing: dict[str, Any] = {"id": "msg_0", "type": "message", "role": "assistant"}  # noqa: RUF012

    def __init__(self) -> None:
        self._cache = PromptCache()

    def whole(self, number: int, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> dict[str, Any]:
        usage = self._usage(reply, body)
        content, ending = _content(_force_tool(reply, body))
        return _message_head(number, body) | {"content": content, "stop_reason": ending, "usage": usage}

    def parts(self, number: int, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> Iterator[bytes]:
        usage = self._usage(reply, body)
        content, ending = _content(_force_tool(reply, body))
        start = _message_head(number, body) | {
            "content": [],
            "stop_reason": None,
            "usage": usage | {"output_tokens": 1},
        }
        yield _event("message_start", message=start)
        for index, block in enumerate(content):
            yield from _message_block(index, block)
        end = {"stop_reason": ending, "stop_sequence": None}
        yield _event("message_delta", delta=end, usage={"output_tokens": usage["output_tokens"]})
        yield _event("message_stop")

    def error(self, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    def refuse(self, body: Mapping[str, Any]) -> str | None:
        roles = [message.get("role") for message in body.get("messages", [])]
        if roles[:1] != ["user"]:
            return "the first message must be one of the user"
        return None if roles[-1] == "user" else "the last message must be one of the user"

    def broken(self) -> bytes:
        return _event("error", error={"type": "overloaded_error", "message": "it failed in the middle"})

    def models(self, name: str) -> dict[str, Any]:
        model = {"type": "model", "id": name, "display_name": name, "created_at": "2026-04-19T10:00:00Z"}
        return {"data": [model], "has_more": False, "first_id": name, "last_id": name}

    def _usage(self, reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> dict[str, int]:
        """Token counts; an answer with a count of its own found nothing in the cache."""
        counts = self._cache.counts(body)
        if isinstance(reply, TextReply) and reply.tokens_in is not None:
            counts = dict.fromkeys(counts, 0) | {"input_tokens": reply.tokens_in}
        return counts | {"output_tokens": tokens_out(reply)}


def _message_head(number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "stop_sequence": None,
    }


def _force_tool(reply: ToolCalls | TextReply, body: Mapping[str, Any]) -> ToolCalls | TextReply:
    """Put JSON into the tool that the request forces; any other text stays a text."""
    forced = (body.get("tool_choice") or {}).get("name")
    if forced is None or isinstance(reply, ToolCalls) or reply.finish_reason != "stop":
        return reply
    try:
        arguments = json.loads(reply.text or "")
    except (ValueError, RecursionError):
        return reply
    return ToolCalls((ToolCall(forced, arguments),)) if isinstance(arguments, dict) else reply


def _content(reply: ToolCalls | TextReply) -> tuple[list[dict[str, Any]], str]:
    """The blocks of an answer, and the reason why it ended."""
    if isinstance(reply, TextReply):
        ending = ENDINGS.get(reply.finish_reason, reply.finish_reason) if reply.refusal is None else "refusal"
        return [{"type": "text", "text": reply.text}] if reply.text else [], ending
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": call.arguments}
        for number, call in enumerate(reply.calls, 1)
    ]
    return calls, "tool_use"


def _message_block(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    is_call = block["type"] == "tool_use"
    empty: dict[str, Any] = {"input": {}} if is_call else {"text": ""}
    yield _event("content_block_start", index=index, content_block=block | empty)
    yield _event("ping")
    for piece in pieces(json.dumps(block["input"]) if is_call else block["text"]):
        delta = (
            {"type": "input_json_delta", "partial_json": piece} if is_call else {"type": "text_delta", "text": piece}
        )
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(name: str, **data: Any) -> bytes:
    return event({"type": name} | data, name)
