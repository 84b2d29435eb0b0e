"""What a scripted server may be told to answer, and what that looks like in the OpenAI protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from ..models.completer import estimated_tokens

HUGE = 50 * 1024 * 1024
LEVELS = 100_000
STARTED_AT = 1_776_592_800
"""When every answer says that it was made."""


class Fault(Enum):
    """Every way in which a model, or its server, was seen to fail."""

    HANG = "hang"
    """It takes the request and never answers."""
    DRIP = "drip"
    """It answers one byte in each `drip_s`, for ever."""
    DRIP_HEADERS = "drip_headers"
    """The same, before the body begins."""
    ERROR = "error"
    """500, with an HTML page."""
    BUSY = "busy"
    """429, with Retry-After."""
    UNAUTHORISED = "unauthorised"
    """401."""
    RESET = "reset"
    """The connection is reset."""
    HALF = "half"
    """The connection ends in the middle of the answer."""
    CUT_JSON = "cut_json"
    """The model's JSON ends in the middle, as if that were all."""
    LENGTH = "length"
    """The same, and the server says so: `finish_reason` is `length`."""
    WRONG_SCHEMA = "wrong_schema"
    HUGE = "huge"
    """50 MB."""
    NAN = "nan"
    DEEP = "deep"
    """100,000 levels of lists."""
    REFUSAL = "refusal"
    WRONG_IDS = "wrong_ids"
    """A statement about a turn that nobody gave it."""
    DUPLICATES = "duplicates"
    """The same statement, five times."""
    NO_CHOICES = "no_choices"
    GARBAGE = "garbage"
    """200, with an HTML page."""


class ToolCall(NamedTuple):
    """A tool that the model wants called."""

    name: str
    arguments: Mapping[str, Any]


class ToolCalls(NamedTuple):
    """An answer that is calls of tools."""

    calls: tuple[ToolCall, ...]


class Worded(NamedTuple):
    """An answer in every detail."""

    text: str | None
    tokens_in: int | None = None
    tokens_out: int | None = None
    finish_reason: str = "stop"
    refusal: str | None = None


class Raw(NamedTuple):
    """Any status and body at all."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


Reply = str | Mapping[str, Any] | ToolCalls | Worded | Raw | Fault


def fact(**changes: Any) -> dict[str, Any]:
    """A statement in the form that Memwell asks for, about the first turn."""
    made = {"text": "Something was said.", "evidence": [{"turn": "t1", "quote": ""}], "subject": None}
    return made | {"kind": "statement", "importance": 0.5, "confidence": 0.9, "since": None} | changes


def worded(reply: str | Mapping[str, Any] | Worded | Fault) -> Worded:
    """What the model says, for all replies that are words."""
    if isinstance(reply, Worded):
        return reply
    if isinstance(reply, Fault):
        return _FAULTY[reply]
    return Worded(reply if isinstance(reply, str) else json.dumps(reply))


def _json(*facts: Any) -> str:
    return json.dumps({"facts": list(facts)})


_FAULTY = {
    Fault.CUT_JSON: Worded(_json(fact())[:60]),
    Fault.LENGTH: Worded(_json(fact())[:60], finish_reason="length"),
    Fault.WRONG_SCHEMA: Worded('{"memories": "none"}'),
    Fault.NAN: Worded(_json(fact(importance=float("nan")))),
    Fault.DEEP: Worded("[" * LEVELS + "]" * LEVELS),
    Fault.REFUSAL: Worded(None, refusal="I cannot help with that."),
    Fault.WRONG_IDS: Worded(_json(fact(evidence=[{"turn": "t999999", "quote": ""}]))),
    Fault.DUPLICATES: Worded(_json(*[fact()] * 5)),
}


def usage(said: Worded, prompt: str) -> dict[str, int]:
    tokens_in = estimated_tokens(prompt) if said.tokens_in is None else said.tokens_in
    tokens_out = estimated_tokens(said.text or "") if said.tokens_out is None else said.tokens_out
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def message(reply: ToolCalls | Worded) -> tuple[dict[str, Any], str]:
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


def completion(number: int, model: str, reply: ToolCalls | Worded, prompt: str) -> dict[str, Any]:
    """The whole answer at once."""
    made, ended = message(reply)
    counted = usage(reply if isinstance(reply, Worded) else Worded(""), prompt)
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": STARTED_AT, "model": model}
    return head | {"choices": [{"index": 0, "message": made, "finish_reason": ended}], "usage": counted}


def stream(
    number: int, model: str, reply: ToolCalls | Worded, prompt: str, *, counts: bool
) -> Iterator[dict[str, Any]]:
    """The answer in parts: some words at a time, each call of a tool in two parts, the counts at the end if wanted."""
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": STARTED_AT, "model": model}
    _, ended = message(reply)
    for delta in [{"role": "assistant"}, *_deltas(reply)]:
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": ended}]}
    if counts:
        yield head | {"choices": [], "usage": usage(reply if isinstance(reply, Worded) else Worded(""), prompt)}


def _deltas(reply: ToolCalls | Worded) -> Iterator[dict[str, Any]]:
    if isinstance(reply, Worded):
        if reply.refusal is not None:
            yield {"refusal": reply.refusal}
        text = reply.text or ""
        yield from ({"content": text[at : at + 16]} for at in range(0, len(text), 16))
        return
    for number, call in enumerate(message(reply)[0]["tool_calls"]):
        function = call["function"]
        yield {"tool_calls": [call | {"index": number, "function": function | {"arguments": ""}}]}
        yield {"tool_calls": [{"index": number, "function": {"arguments": function["arguments"]}}]}
