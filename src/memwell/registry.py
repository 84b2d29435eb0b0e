"""Every operation and every kind of job there is, collected from the modules that declare them.

The modules are imported at the first use, so that `import memwell` loads none of them, and any module may import this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from .config import load
from .core.engine import Engine
from .core.operation import Operation
from .core.owners import OwnerOperations
from .errors import NotFound

if TYPE_CHECKING:
    from .clock import Clock
    from .config import Config
    from .jobs.queue import JobKind

ROOMS = (
    "timelines.users",
    "records.user_records",
    "timelines.flows",
    "facts.memories",
    "facts.search",
    "facts.consolidation",
    "facts.plans",
    "facts.audit",
    "context.contexts",
    "timelines.sessions",
    "timelines.transfer",
    "timelines.agent_log",
    "context.hooks",
    "context.hook_resolution",
    "banks.banks",
    "banks.entries",
    "banks.statistics",
    "banks.compaction",
    "records.apps",
    "files.session_files",
    "records.stores",
    "records.contents",
    "context.memory_namespace",
    "records.definitions",
    "records.apply",
    "records.working_memory",
    "workflows.operations",
    "workflows.run_operations",
    "workflows.app_sessions",
    "workflows.app_transfer",
    "admin.jobs",
    "admin.admin",
    "admin.tenant_settings",
    "erasure.erase",
    "erasure.expire",
    "search.jobs",
)
"""The modules that declare operations (`operation`, `owner_operation`) or jobs (`JOBS`), in the order of the reference."""


@cache
def _load_rooms() -> list[ModuleType]:
    return [import_module(f".{name}", __package__) for name in ROOMS]


@cache
def _load_operations() -> dict[str, Operation]:
    """The operations by name, those of one group together."""
    declared = [value for room in _load_rooms() for value in vars(room).values()]
    found = [value for value in declared if isinstance(value, Operation)]
    found += [one for value in declared if isinstance(value, OwnerOperations) for one in value]
    groups = list(dict.fromkeys(operation.group for operation in found))
    return {operation.name: operation for operation in sorted(found, key=lambda one: groups.index(one.group))}


class _Operations(Mapping[str, Operation]):
    def __getitem__(self, name: str) -> Operation:
        return _load_operations()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_load_operations())

    def __len__(self) -> int:
        return len(_load_operations())


OPERATIONS = _Operations()


@cache
def require_operation(name: str) -> Operation:
    found = _load_operations().get(name)
    if found is None:
        raise NotFound(f"There is no operation `{name}`.")
    return found


def load_jobs() -> tuple[JobKind, ...]:
    return tuple(job for room in _load_rooms() for job in getattr(room, "JOBS", ()))


def open_engine(config: Config | None = None, clock: Clock | None = None) -> Engine:
    """Open a data directory or a database, with the jobs of all rooms."""
    return Engine.open(config or load(), clock, load_jobs())
