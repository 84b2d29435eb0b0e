"""Every operation and every kind of job there is, collected from the modules that declare them."""

from __future__ import annotations

from .admin import admin, jobs
from .banks import banks, compaction, compaction_trials, entries, statistics
from .clock import Clock
from .config import Config, load
from .context import contexts, hook_resolution, hooks, memory_namespace
from .core.engine import Engine
from .core.operation import Operation
from .core.owners import OwnerOperations
from .erasure import erase
from .errors import NotFound
from .facts import audit, memories, plans, search
from .files import files
from .records import app_sessions, apps, contents, definitions, stores, user_records, working_memory
from .search import jobs as search_jobs
from .timelines import agent_log, flows, sessions, settings, transfer, users
from .workflows import app_transfer
from .workflows import operations as workflows
from .workflows import run_operations as runs

ROOMS = (
    users,
    user_records,
    flows,
    memories,
    search,
    plans,
    audit,
    contexts,
    sessions,
    settings,
    transfer,
    agent_log,
    hooks,
    hook_resolution,
    banks,
    entries,
    statistics,
    compaction,
    compaction_trials,
    apps,
    app_sessions,
    files,
    stores,
    contents,
    memory_namespace,
    definitions,
    working_memory,
    workflows,
    runs,
    app_transfer,
    jobs,
    admin,
)


def _collect() -> dict[str, Operation]:
    """The operations that the rooms declare, those of one group together."""
    declared = [value for room in ROOMS for value in vars(room).values()]
    found = [value for value in declared if isinstance(value, Operation)]
    found += [one for value in declared if isinstance(value, OwnerOperations) for one in value]
    groups = list(dict.fromkeys(operation.group for operation in found))
    return {operation.name: operation for operation in sorted(found, key=lambda one: groups.index(one.group))}


OPERATIONS = _collect()
JOBS = tuple(job for room in (erase, search_jobs, *ROOMS) for job in getattr(room, "JOBS", ()))


def require_operation(name: str) -> Operation:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise NotFound(f"There is no operation `{name}`.") from None


def open_engine(config: Config | None = None, clock: Clock | None = None) -> Engine:
    """Open a data directory or a database, with the jobs of all rooms."""
    return Engine.open(config or load(), clock, JOBS)
