"""A cache of prompts as Anthropic's protocol has it: what a request marks is found by the next that begins with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple

from ..models.completer import estimated_tokens

MARK = "cache_control"


class _Block(NamedTuple):
    """A part of a request, and whether all up to it is to be kept."""

    text: str
    marked: bool


class Cache:
    """All that requests have marked. Nothing is too short for it, and nothing is ever forgotten."""

    def __init__(self) -> None:
        self._kept: set[tuple[str, ...]] = set()
        self._lock = Lock()

    def counts(self, body: Mapping[str, Any]) -> dict[str, int]:
        """How many tokens of a request were found, newly kept, and neither; what it marks is kept from now on."""
        blocks = list(_blocks(body))
        texts = tuple(block.text for block in blocks)
        marks = [at for at, block in enumerate(blocks, 1) if block.marked]
        with self._lock:
            found = max((at for at in range(1, max(marks, default=0) + 1) if texts[:at] in self._kept), default=0)
            self._kept |= {texts[:at] for at in marks}
        kept = max(marks, default=0)
        return {
            "input_tokens": _tokens(texts[kept:]),
            "cache_creation_input_tokens": _tokens(texts[found:kept]),
            "cache_read_input_tokens": _tokens(texts[:found]),
        }


def _tokens(texts: tuple[str, ...]) -> int:
    return sum(map(estimated_tokens, texts))


def _blocks(body: Mapping[str, Any]) -> Iterator[_Block]:
    """In the order in which a model reads them: tools, instructions, messages."""
    yield from (_block("tool", tool) for tool in body.get("tools") or [])
    yield from (_block("system", block) for block in _listed(body.get("system")))
    for message in body.get("messages", []):
        yield from (_block(str(message.get("role")), block) for block in _listed(message.get("content")))


def _listed(content: Any) -> list[Any]:
    """A text on its own is short for one block."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []


def _block(role: str, block: Mapping[str, Any]) -> _Block:
    bare = {name: value for name, value in block.items() if name != MARK}
    return _Block(f"{role}: {bare.get('text') or json.dumps(bare)}", MARK in block)
