"""Memwell: memory for AI agents.

from memwell import Memory

memory = Memory()
me = memory.user("alice")
me.add("I'm vegetarian and moved to Porto.")
me.search("where does she live?")
"""

import logging as _logging

from .dialects.flows import SessionView
from .dialects.jobs import Job
from .dialects.memories import Memory as MemoryEntry
from .dialects.search import Hit, Hits, WhyNot
from .dialects.sessions import SessionInfo
from .dialects.turns import Turn
from .errors import (
    Ambiguous,
    Conflict,
    Corrupted,
    Erased,
    Forbidden,
    Invalid,
    KeyReused,
    LeaseLost,
    MemwellError,
    ModelFailed,
    NodeFailed,
    NotAllowed,
    NotFound,
    RateLimited,
    Stale,
    StorageError,
    StorageFull,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from .functions import function
from .sdk._async import AsyncMemory
from .sdk._sync import Memory
from .sdk.values import Receipt
from .version import __version__
from .watch import Event

__all__ = [
    "Ambiguous",
    "AsyncMemory",
    "Conflict",
    "Corrupted",
    "Erased",
    "Event",
    "Forbidden",
    "Hit",
    "Hits",
    "Invalid",
    "Job",
    "KeyReused",
    "LeaseLost",
    "Memory",
    "MemoryEntry",
    "MemwellError",
    "ModelFailed",
    "NodeFailed",
    "NotAllowed",
    "NotFound",
    "RateLimited",
    "Receipt",
    "SessionInfo",
    "SessionView",
    "Stale",
    "StorageError",
    "StorageFull",
    "TooLarge",
    "Turn",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "WhyNot",
    "__version__",
    "function",
]

_logging.getLogger("memwell").addHandler(_logging.NullHandler())  # a library prints nothing by itself
