"""Values of a type, made of what came from outside.

msgspec learns what a type is made of when it is first used, and notes the type before it knows all of it, since a type may
speak of itself. Another thread that uses the type in that moment brings the whole process down. So every type is learnt here, by
one thread at a time, before it is used: nothing else in this package converts or decodes into a type.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

MOST = 4096
"""How many types are remembered: some are made for a single use."""
_learning = Lock()
_known: dict[int, Any] = {}
"""By their identity, which no other can have as long as they are kept here. Not all of them can be hashed."""


@overload
def convert(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """A value of a type, made of what JSON is made of."""
    if id(kind) not in _known:
        _learn(kind)
    return msgspec.convert(value, kind, strict=strict)


@overload
def decode(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode(data: bytes | str, kind: Any) -> Any: ...
def decode(data: bytes | str, kind: Any) -> Any:
    """A value of a type, made of JSON."""
    if id(kind) not in _known:
        _learn(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def decoder(kind: type[T]) -> Callable[[bytes | str], T]: ...
@overload
def decoder(kind: Any) -> Callable[[bytes | str], Any]: ...
def decoder(kind: Any) -> Callable[[bytes | str], Any]:
    """What makes values of a type of JSON."""
    with _learning:
        return msgspec.json.Decoder(kind).decode


def _learn(kind: Any) -> None:
    """Let msgspec know a type, and all that it speaks of, before it is used."""
    decoder(kind)
    if len(_known) >= MOST:
        _known.clear()
    _known[id(kind)] = kind
