"""Anthropic's protocol, as a scripted server speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .cache import Cache
from .replies import ToolCall, ToolCalls, Worded
from .wire import event, pieces, tokens_out

ENDINGS = {"stop": "end_turn", "length": "max_tokens"}


class Messages:
    """`POST /v1/messages`, with a cache of its own."""

    base = ""
    path = "/v1/messages"
    opening = b'{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "'
    nothing: dict[str, Any] = {"id": "msg_0", "type": "message", "role": "assistant"}  # noqa: RUF012

    def __init__(self) -> None:
        self._cache = Cache()

    def whole(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, Any]:
        usage = self._usage(reply, body)
        content, ending = _content(_called(reply, body))
        return _head(number, body) | {"content": content, "stop_reason": ending, "usage": usage}

    def parts(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> Iterator[bytes]:
        usage = self._usage(reply, body)
        content, ending = _content(_called(reply, body))
        begun = _head(number, body) | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
        yield _event("message_start", message=begun)
        for index, block in enumerate(content):
            yield from _block(index, block)
        ended = {"stop_reason": ending, "stop_sequence": None}
        yield _event("message_delta", delta=ended, usage={"output_tokens": usage["output_tokens"]})
        yield _event("message_stop")

    def error(self, told: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": told}}

    def broken(self) -> bytes:
        return _event("error", error={"type": "overloaded_error", "message": "it failed in the middle"})

    def models(self, name: str) -> dict[str, Any]:
        model = {"type": "model", "id": name, "display_name": name, "created_at": "2026-04-19T10:00:00Z"}
        return {"data": [model], "has_more": False, "first_id": name, "last_id": name}

    def _usage(self, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, int]:
        """What was counted; an answer with a count of its own has found nothing in the cache."""
        found = self._cache.counts(body)
        if isinstance(reply, Worded) and reply.tokens_in is not None:
            found = dict.fromkeys(found, 0) | {"input_tokens": reply.tokens_in}
        return found | {"output_tokens": tokens_out(reply)}


def _head(number: int, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "stop_sequence": None,
    }


def _called(reply: ToolCalls | Worded, body: Mapping[str, Any]) -> ToolCalls | Worded:
    """JSON goes into the tool that must be called, if one must; a model that says something else just says it."""
    forced = (body.get("tool_choice") or {}).get("name")
    if forced is None or isinstance(reply, ToolCalls) or reply.finish_reason != "stop":
        return reply
    try:
        given = json.loads(reply.text or "")
    except (ValueError, RecursionError):
        return reply
    return ToolCalls((ToolCall(forced, given),)) if isinstance(given, dict) else reply


def _content(reply: ToolCalls | Worded) -> tuple[list[dict[str, Any]], str]:
    """The blocks of an answer, and why it ended there."""
    if isinstance(reply, Worded):
        ending = ENDINGS.get(reply.finish_reason, reply.finish_reason) if reply.refusal is None else "refusal"
        return [{"type": "text", "text": reply.text}] if reply.text else [], ending
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": call.arguments}
        for number, call in enumerate(reply.calls, 1)
    ]
    return calls, "tool_use"


def _block(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    called = block["type"] == "tool_use"
    empty: dict[str, Any] = {"input": {}} if called else {"text": ""}
    yield _event("content_block_start", index=index, content_block=block | empty)
    yield _event("ping")
    for piece in pieces(json.dumps(block["input"]) if called else block["text"]):
        delta = {"type": "input_json_delta", "partial_json": piece} if called else {"type": "text_delta", "text": piece}
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(name: str, **data: Any) -> bytes:
    return event({"type": name} | data, name)
