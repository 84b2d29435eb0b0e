"""Every operation there is."""

from __future__ import annotations

from .dialects import (
    admin,
    agent_log,
    bank_compaction,
    bank_entries,
    bank_items,
    bank_stats,
    banks,
    flows,
    hook_resolving,
    hooks,
    jobs,
    users,
)
from .errors import NotFound
from .operation import Operation
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
    workflows,
    runs,
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
