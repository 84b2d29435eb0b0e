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

from . import sdk as _sdk
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
    from .node.runtime import NodeContext
    from .sdk.responses import (
        Content,
        DefinitionInfo,
        Event,
        Executed,
        Hit,
        Hits,
        Job,
        MemoryEntry,
        RecordChange,
        SessionInfo,
        SessionView,
        StoreInfo,
        Turn,
        UserRecord,
        WhyNot,
    )
else:

    def __getattr__(name: str) -> _Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = _import_module(".node.runtime", __name__) if name == "NodeContext" else _sdk
        found = globals()[name] = getattr(home, name)
        return found


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
    "NodeContext",
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
