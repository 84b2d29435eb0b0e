"""Messages between a node and its parent: a length, then JSON, over a socket pair that nobody else can reach."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from .. import typed

MAX_FRAME = 64 * 1024 * 1024
HEAD = struct.Struct(">I")


class Start(msgspec.Struct, tag="start"):
    """From the parent: what to run."""

    target: str
    input: Any
    execution_id: str


class Ask(msgspec.Struct, tag="ask"):
    """From the node: an operation on this invocation's memory."""

    number: int
    operation: str
    data: dict[str, Any]


class Tell(msgspec.Struct, tag="tell"):
    """From the parent: what came of it."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None


class Done(msgspec.Struct, tag="done"):
    """From the node: its reply."""

    reply: Any


class Failed(msgspec.Struct, tag="failed"):
    """From the node: why there is none."""

    message: str
    trace: str = ""


FromNode = Ask | Done | Failed
FromParent = Start | Tell

decode_from_node = typed.decoder(FromNode)
decode_from_parent = typed.decoder(FromParent)


def frame(message: msgspec.Struct) -> bytes:
    body = msgspec.json.encode(message)
    return HEAD.pack(len(body)) + body
