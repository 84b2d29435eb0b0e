"""What a scripted server must know of a protocol to speak it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ..models.completer import estimated_tokens
from .replies import ToolCalls, Worded

PIECE = 16
"""How many letters of an answer are streamed at a time."""


class Wire(Protocol):
    """A protocol: where it is spoken, and what things look like in it."""

    base: str
    path: str
    opening: bytes
    nothing: dict[str, Any]

    def whole(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> dict[str, Any]:
        """The whole answer at once."""
        ...

    def parts(self, number: int, reply: ToolCalls | Worded, body: Mapping[str, Any]) -> Iterator[bytes]:
        """The answer as the events of a stream."""
        ...

    def error(self, told: str) -> dict[str, Any]: ...

    def broken(self) -> bytes:
        """The event that tells of an error in the middle of a stream."""
        ...

    def models(self, name: str) -> dict[str, Any]: ...


def pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def event(data: object, name: str = "") -> bytes:
    """One event of a stream, with its name if it has one."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def words(body: Mapping[str, Any]) -> str:
    """All that a request says: its messages, and the instructions that stand beside them."""
    system = [body["system"]] if body.get("system") else []
    said = [message.get("content") for message in body.get("messages", [])]
    return "\n".join(_text(content) for content in [*system, *said])


def _text(content: object) -> str:
    if not isinstance(content, list):
        return str(content)
    return "\n".join(str(block.get("text")) for block in content if isinstance(block, dict))


def tokens_out(reply: ToolCalls | Worded) -> int:
    if isinstance(reply, ToolCalls):
        return estimated_tokens(json.dumps([call.arguments for call in reply.calls]))
    return estimated_tokens(reply.text or "") if reply.tokens_out is None else reply.tokens_out
