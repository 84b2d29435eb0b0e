"""Memwell: memory for AI agents.

from memwell import Memory

memory = Memory()
me = memory.user("alice")
me.add("I'm vegetarian and moved to Porto.")
me.search("where does she live?")
"""

import logging as _logging

from .admin.jobs import Job
from .core.events import Event
from .core.functions import function
from .core.turns import Turn
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
from .facts.memories import Memory as MemoryEntry
from .facts.search import Hit, Hits, WhyNot
from .records.contents import Content
from .records.definitions import DefinitionInfo
from .records.stores import StoreInfo
from .records.user_records import RecordChange, UserRecord
from .sdk._async import AsyncMemory
from .sdk._async_apps import AsyncApp, AsyncScope
from .sdk._async_definitions import AsyncWorkingMemory
from .sdk._sync import Memory
from .sdk._sync_apps import App, Scope
from .sdk._sync_definitions import WorkingMemory
from .sdk.values import Receipt
from .timelines.flows import SessionView
from .timelines.sessions import SessionInfo
from .version import __version__
from .workflows.run_operations import Executed

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
