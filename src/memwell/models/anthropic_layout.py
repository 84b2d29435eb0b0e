"""Messages as Anthropic's protocol wants them, with marks for its cache on what the next request will begin with too.

A mark says: keep all up to here. The server finds what it kept when a request begins with the same blocks, so the marks
stand at the end of what stays: on the instructions, and on the last message before the newest one. The next turn of a
conversation begins with all of that. Where instructions come in several messages, the first is marked on its own, so that
it is found even if those after it change. Four marks are allowed, and three are the most that is set here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from .completer import Message

MARK = {"type": "ephemeral"}


class Layout(NamedTuple):
    """The instructions, and the turns of the two who talk."""

    system: list[dict[str, Any]]
    turns: list[dict[str, Any]]


def laid_out(messages: Sequence[Message]) -> Layout:
    """Each message is a block, so that what was sent once is sent again as it was, whatever is joined to it later.

    Messages without any letter are left out, since the protocol refuses them. If nobody talks, the instructions do.
    """
    said = [message for message in messages if message.content.strip() or message.calls or message.role == "tool"]
    if all(message.role == "system" for message in said):
        said = [Message("user", message.content) for message in said]
    blocks = [block for message in said for block in _blocks(message)]
    system: list[dict[str, Any]] = [block for role, block in blocks if role == "system"]
    rest: list[tuple[str, dict[str, Any]]] = [(role, block) for role, block in blocks if role != "system"]
    for block in (*system[:1], *system[-1:], *[block for _, block in rest][-2:-1]):
        block["cache_control"] = MARK
    return Layout(system, [_turn(role, group) for role, group in groupby(rest, key=lambda each: each[0])])


def _blocks(message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
    """The blocks of a message, each with who says it: what a tool gave, the user hands on."""
    if message.role == "tool":
        yield "user", {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}
        return
    if message.content.strip():
        yield message.role, {"type": "text", "text": message.content}
    for call in message.calls:
        yield message.role, {"type": "tool_use", "id": call.id, "name": call.name, "input": _object(call.arguments)}


def _object(arguments: str) -> Any:
    """The protocol takes objects only; what a model wrote may be anything."""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return {}
    return given if isinstance(given, dict) else {}


def _turn(role: str, group: Any) -> dict[str, Any]:
    return {"role": role, "content": [block for _, block in group]}
