"""Ids, which the application creates, never a database.

Public ids are 26 letters and digits that sort by time (48 bits of milliseconds, 80 random bits). Inner ids are 62 random bits:
they are opaque, so that an event may keep one after the name of its address was erased.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from threading import Lock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_SHIFTS = tuple(range(120, -1, -10))
_lock = Lock()
_last = 0
_chance = random.Random(os.urandom(32))  # noqa: S311 -- an id is no secret; this one costs no system call
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _chance.seed(os.urandom(32)))


def new_id() -> str:
    """A new public id. The ids of one process sort in the order of their creation."""
    global _last
    with _lock:
        _last = value = max((time.time_ns() // 1_000_000 << 80) | _chance.getrandbits(80), _last + 1)
    return _encode(value)


def inner_id() -> int:
    """A new opaque inner id."""
    return _chance.getrandbits(62)


def derive_id(*parts: str) -> str:
    """A public id that is always the same for the same parts."""
    digest = hashlib.blake2b("\x00".join(parts).encode(), digest_size=16).digest()
    return _encode(int.from_bytes(digest, "big"))


def _encode(value: int) -> str:
    pairs = _PAIRS
    return "".join([pairs[(value >> shift) & 1023] for shift in _SHIFTS])
