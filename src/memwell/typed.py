"""Conversion and decoding of values into types, safe for threads.

msgspec inspects a type at its first use, and registers it before the inspection is complete, because types may be recursive.
Another thread that uses the type in that moment crashes the process. Therefore every type is prepared here, by one thread at a
time, before it is used; nothing else in this package converts or decodes into a type.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

MOST = 4096
"""Number of prepared types to remember; some are created for a single use."""
_learning = Lock()
_known: dict[int, Any] = {}
"""Prepared types by identity, because not all types are hashable. Keeping them here keeps the identities unique."""


@overload
def convert(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Convert a decoded JSON value to a type."""
    if id(kind) not in _known:
        _learn(kind)
    return msgspec.convert(value, kind, strict=strict)


@overload
def decode(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode(data: bytes | str, kind: Any) -> Any: ...
def decode(data: bytes | str, kind: Any) -> Any:
    """Decode JSON to a type."""
    if id(kind) not in _known:
        _learn(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def decoder(kind: type[T]) -> Callable[[bytes | str], T]: ...
@overload
def decoder(kind: Any) -> Callable[[bytes | str], Any]: ...
def decoder(kind: Any) -> Callable[[bytes | str], Any]:
    """Return a function that decodes JSON to a type."""
    with _learning:
        return msgspec.json.Decoder(kind).decode


def _learn(kind: Any) -> None:
    """Let msgspec inspect a type before it is used."""
    decoder(kind)
    if len(_known) >= MOST:
        _known.clear()
    _known[id(kind)] = kind
