"""Every operation there is."""

from __future__ import annotations

from .dialects import (
    admin,
    agent_log,
    app_sessions,
    apps,
    bank_compaction,
    bank_entries,
    bank_items,
    bank_stats,
    banks,
    defining,
    definition_memory,
    definitions,
    file_search,
    files,
    flows,
    hook_resolving,
    hooks,
    jobs,
    recalling,
    store_content,
    stores,
    users,
)
from .errors import NotFound
from .operation import Operation
from .workflow import app_transfer, executing
from .workflow import operations as workflows
from .workflow import run_operations as runs

DIALECTS = (
    users,
    flows,
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
OPERATIONS: dict[str, Operation] = {
    operation.name: operation for dialect in DIALECTS for operation in dialect.OPERATIONS
}


def find(name: str) -> Operation:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise NotFound(f"There is no operation `{name}`.") from None
