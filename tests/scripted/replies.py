"""Replies and faults of a scripted model server, in any protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from memwell.testing import ToolCalls

HUGE = 50 * 1024 * 1024
LEVELS = 100_000


class Fault(Enum):
    """The ways in which a model or its server can fail."""

    HANG = "hang"
    """Take the request and never answer."""
    DRIP = "drip"
    """Send one byte per `drip_s`, forever."""
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
    """A decision about a draft that does not exist."""
    DUPLICATES = "duplicates"
    """The same decision, five times."""
    NO_CHOICES = "no_choices"
    GARBAGE = "garbage"
    """200, with an HTML page."""


class StreamFault(Enum):
    """The ways in which a stream can fail in the middle. An answer that is not streamed fails in the same way."""

    GARBAGE = "stream_garbage"
    """Something that is no event, then the rest."""
    CUT = "stream_cut"
    """The connection ends."""
    HANG = "stream_hang"
    """Nothing more comes."""
    DRIP = "stream_drip"
    """One byte per `drip_s`, forever."""
    ERROR = "stream_error"
    """The server reports an error."""


class TextReply(NamedTuple):
    """A text with its own counts and ending."""

    text: str | None
    tokens_in: int | None = None
    tokens_out: int | None = None
    finish_reason: str = "stop"
    refusal: str | None = None


class Raw(NamedTuple):
    """Any status and body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


Reply = str | Mapping[str, Any] | ToolCalls | TextReply | Raw | Fault | StreamFault


def to_text_reply(reply: str | Mapping[str, Any] | TextReply | Fault) -> TextReply:
    """Return a reply as text. Faults of the transport have none."""
    if isinstance(reply, TextReply):
        return reply
    if isinstance(reply, Fault):
        return _FAULTY_TEXTS[reply]
    return TextReply(reply if isinstance(reply, str) else json.dumps(reply))


KEEP = '{"n":1,"do":"keep"}'
"""A line about the first draft, in the form that Memwell asks models for."""

_FAULTY_TEXTS = {
    Fault.CUT_JSON: TextReply(KEEP[:15]),
    Fault.LENGTH: TextReply(KEEP[:15], finish_reason="length"),
    Fault.WRONG_SCHEMA: TextReply('{"memories": "none"}'),
    Fault.NAN: TextReply('{"n":NaN,"do":"keep"}'),
    Fault.DEEP: TextReply("[" * LEVELS + "]" * LEVELS),
    Fault.REFUSAL: TextReply(None, refusal="I cannot help with that."),
    Fault.WRONG_IDS: TextReply('{"n":999999,"do":"drop","why":"small_talk"}'),
    Fault.DUPLICATES: TextReply("\n".join([KEEP] * 5)),
}
