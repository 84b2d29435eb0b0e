"""What the answer of a server amounts to: whatever it is, either a completion or a word for what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from .. import typed
from .completer import Completion, Message, ToolCall, failed, tokens_of

MANY = 100_000_000
"""No server counts as many tokens for one call."""
T = TypeVar("T")


def decoded(body: bytes, shape: type[T]) -> T:
    """What the bytes say, if they have the shape that they should have."""
    try:
        return typed.decode(body, shape)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise failed("invalid_answer") from None


def counted(
    text: str, messages: Sequence[Message], counts: Sequence[int], calls: tuple[ToolCall, ...] = ()
) -> Completion:
    """A completion with the counts of its server (in, out, cached), or with estimates if those cannot be."""
    if counts and all(0 <= count < MANY for count in counts):
        came, went, *cached = counts
        return Completion(text, came, went, sum(cached), calls)
    return Completion(text, sum(map(tokens_of, messages)), tokens_of(Message("assistant", text, calls)), calls=calls)


def whole(said: Completion, *, refused: bool, cut: bool) -> Completion:
    """What was said, if the model has said all that it wanted to. What was spent is told all the same."""
    if refused:
        raise failed("refused", tokens_in=said.tokens_in, tokens_out=said.tokens_out)
    if cut:
        raise failed("cut", tokens_in=said.tokens_in, tokens_out=said.tokens_out)
    return said
