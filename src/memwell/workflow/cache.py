"""What steps gave lately, for those that may be answered from memory. It is this process's alone, and bounded."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

import msgspec

MOST = 1000
MOST_BYTES = 16 * 1024 * 1024

Answer = tuple[str, str, tuple[str, ...]]
"""A text, what it is, and the entries that it is made of."""


class Cache:
    """Outputs by what they were made from, the least used going first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: bytes) -> Answer | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if found[0] < time.monotonic():
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return found[1]

    def put(self, key: bytes, answer: Answer, seconds: float) -> None:
        with self._lock:
            if key in self._kept:
                self._drop(key)
            self._kept[key] = (time.monotonic() + seconds, answer)
            self._size += len(answer[0])
            while len(self._kept) > MOST or self._size > MOST_BYTES:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget everything: something was erased."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def _drop(self, key: bytes) -> None:
        _, answer = self._kept.pop(key)
        self._size -= len(answer[0])


def cache_key(owner: str, kind: str, fields: Mapping[str, Any], given: str) -> bytes:
    made_of = msgspec.json.encode([owner, kind, fields, given], order="deterministic")
    return hashlib.blake2b(made_of, digest_size=20).digest()
