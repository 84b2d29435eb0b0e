"""Memwell: memory for AI agents.

from memwell import Memory

memory = Memory()
me = memory.user("alice")
me.add("I'm vegetarian and moved to Porto.")
me.search("where does she live?")
"""

import logging as _logging

from .dialects.definitions import DefinitionInfo
from .dialects.flows import SessionView
from .dialects.jobs import Job
from .dialects.memories import Memory as MemoryEntry
from .dialects.search import Hit, Hits, WhyNot
from .dialects.sessions import SessionInfo
from .dialects.store_content import Content
from .dialects.stores import StoreInfo
from .dialects.turns import Turn
from .dialects.user_records import RecordChange, UserRecord
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
from .sdk._async_apps import AsyncApp, AsyncScope
from .sdk._async_definitions import AsyncWorkingMemory
from .sdk._sync import Memory
from .sdk._sync_apps import App, Scope
from .sdk._sync_definitions import WorkingMemory
from .sdk.values import Receipt
from .version import __version__
from .watch import Event
from .workflow.executing import Executed

__all__ = [
    "Ambiguous",
    "App",
    "AsyncApp",
    "AsyncMemory",
    "AsyncScope",
    "AsyncWorkingMemory",
    "Conflict",
    "Content",
    "Corrupted",
    "DefinitionInfo",
    "Erased",
    "Event",
    "Executed",
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
    "RecordChange",
    "Scope",
    "SessionInfo",
    "SessionView",
    "Stale",
    "StorageError",
    "StorageFull",
    "StoreInfo",
    "TooLarge",
    "Turn",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "UserRecord",
    "WhyNot",
    "WorkingMemory",
    "__version__",
    "function",
]

_logging.getLogger("memwell").addHandler(_logging.NullHandler())  # a library prints nothing by itself
