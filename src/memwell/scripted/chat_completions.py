"""The OpenAI protocol, as a scripted server speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..models.completer import estimated_tokens
from .replies import ToolCalls, Worded
from .wire import event, pieces, tokens_out, words

STARTED_AT = 1_776_592_800
"""When every answer says that it was made."""


class ChatCompletions:
    """`POST /v1/chat/completions`."""

    base = "/v1"
    path = "/v1/chat/completions"
    opening = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "'
    nothing: dict[str, Any] = {"id": "chatcmpl-0", "object": "chat.completion", "choices": []}  # noqa: RUF012

    def whole(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, Any]:
        made, ended = _message(reply)
        choice = {"index": 0, "message": made, "finish_reason": ended}
        return _head(number, body, "chat.completion") | {"choices": [choice], "usage": _usage(reply, body)}

    def parts(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> Iterator[bytes]:
        """Some words at a time, each call of a tool in two parts, the counts at the end if wanted."""
        head = _head(number, body, "chat.completion.chunk")
        _, ended = _message(reply)
        for delta in [{"role": "assistant"}, *_deltas(reply)]:
            yield event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": ended}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield event(head | {"choices": [], "usage": _usage(reply, body)})
        yield b"data: [DONE]\n\n"

    def error(self, told: str) -> dict[str, Any]:
        return {"error": {"message": told, "type": "invalid_request_error", "code": None}}

    def broken(self) -> bytes:
        return event({"error": {"message": "it failed in the middle", "type": "server_error", "code": None}})

    def models(self, name: str) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "memwell"}]}


def _head(number: int, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": STARTED_AT, "model": body.get("model")}


def _usage(reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, int]:
    given = reply.tokens_in if isinstance(reply, Worded) else None
    came, went = estimated_tokens(words(body)) if given is None else given, tokens_out(reply)
    return {"prompt_tokens": came, "completion_tokens": went, "total_tokens": came + went}


def _message(reply: ToolCalls | Worded) -> tuple[dict[str, Any], str]:
    """The assistant's message, and why it ended there."""
    if isinstance(reply, Worded):
        refused = {"refusal": reply.refusal} if reply.refusal is not None else {}
        return {"role": "assistant", "content": reply.text} | refused, reply.finish_reason
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(reply.calls, 1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


def _deltas(reply: ToolCalls | Worded) -> Iterator[dict[str, Any]]:
    if isinstance(reply, Worded):
        if reply.refusal is not None:
            yield {"refusal": reply.refusal}
        yield from ({"content": piece} for piece in pieces(reply.text or ""))
        return
    for number, call in enumerate(_message(reply)[0]["tool_calls"]):
        function = call["function"]
        yield {"tool_calls": [call | {"index": number, "function": function | {"arguments": ""}}]}
        yield {"tool_calls": [{"index": number, "function": {"arguments": function["arguments"]}}]}
