"""Memwell: memory for AI agents.

from memwell import Memory

memory = Memory()
me = memory.user("alice")
me.add("I'm vegetarian and moved to Porto.")
me.search("where does she live?")
"""

import logging as _logging
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .core.functions import function
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
from .sdk._async import AsyncMemory
from .sdk._async_apps import AsyncApp, AsyncScope
from .sdk._async_definitions import AsyncWorkingMemory
from .sdk._sync import Memory
from .sdk._sync_apps import App, Scope
from .sdk._sync_definitions import WorkingMemory
from .sdk.values import Receipt
from .version import __version__

if _TYPE_CHECKING:
    from .admin.jobs import Job
    from .core.events import Event
    from .core.turns import Turn
    from .facts.memories import Memory as MemoryEntry
    from .facts.search import Hit, Hits, WhyNot
    from .records.contents import Content
    from .records.definitions import DefinitionInfo
    from .records.records import RecordChange
    from .records.stores import StoreInfo
    from .records.user_records import UserRecord
    from .timelines.flows import SessionView
    from .timelines.sessions import SessionInfo
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

_RESPONSES = {
    "Content": "records.contents.Content",
    "DefinitionInfo": "records.definitions.DefinitionInfo",
    "Event": "core.events.Event",
    "Executed": "workflows.run_operations.Executed",
    "Hit": "facts.search.Hit",
    "Hits": "facts.search.Hits",
    "Job": "admin.jobs.Job",
    "MemoryEntry": "facts.memories.Memory",
    "RecordChange": "records.records.RecordChange",
    "SessionInfo": "timelines.sessions.SessionInfo",
    "SessionView": "timelines.flows.SessionView",
    "StoreInfo": "records.stores.StoreInfo",
    "Turn": "core.turns.Turn",
    "UserRecord": "records.user_records.UserRecord",
    "WhyNot": "facts.search.WhyNot",
}
"""Types of responses. They are imported at the first use, because their modules take most of the time of `import memwell`."""


def __getattr__(name: str) -> _Any:
    if name not in _RESPONSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _RESPONSES[name].rpartition(".")
    found = globals()[name] = getattr(_import_module(f".{module}", __name__), attribute)
    return found


_logging.getLogger("memwell").addHandler(_logging.NullHandler())  # a library prints nothing by itself
