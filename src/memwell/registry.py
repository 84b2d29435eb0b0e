"""Every operation there is."""

from __future__ import annotations

from .dialects import (
    admin,
    agent_log,
    app_sessions,
    apps,
    audits,
    bank_compaction,
    bank_entries,
    bank_items,
    bank_stats,
    banks,
    contexts,
    defining,
    definition_memory,
    definitions,
    file_search,
    files,
    flows,
    hook_resolving,
    hooks,
    importing,
    jobs,
    memories,
    plans,
    provenance,
    recalling,
    search,
    settings,
    store_content,
    stores,
    transfer,
    user_memories,
    user_records,
    users,
)
from .errors import NotFound
from .operation import Operation
from .workflow import app_transfer, executing
from .workflow import operations as workflows
from .workflow import run_operations as runs

ROOMS = (
    users,
    user_memories,
    user_records,
    flows,
    memories,
    search,
    plans,
    provenance,
    audits,
    contexts,
    settings,
    transfer,
    importing,
    agent_log,
    hooks,
    hook_resolving,
    banks,
    bank_entries,
    bank_items,
    bank_stats,
    bank_compaction,
    apps,
    app_sessions,
    files,
    file_search,
    stores,
    store_content,
    recalling,
    definitions,
    defining,
    definition_memory,
    workflows,
    runs,
    executing,
    app_transfer,
    jobs,
    admin,
)


def _collect() -> dict[str, Operation]:
    """The operations that the rooms declare, those of one group together."""
    found = [value for room in ROOMS for value in vars(room).values() if isinstance(value, Operation)]
    groups = list(dict.fromkeys(operation.group for operation in found))
    return {operation.name: operation for operation in sorted(found, key=lambda one: groups.index(one.group))}


OPERATIONS = _collect()


def find(name: str) -> Operation:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise NotFound(f"There is no operation `{name}`.") from None
