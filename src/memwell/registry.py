"""Every operation there is."""

from __future__ import annotations

from .dialects import admin, agent_log, bank_compaction, bank_entries, bank_items, bank_stats, banks, flows, jobs, users
from .errors import NotFound
from .operation import Operation

DIALECTS = (users, flows, agent_log, banks, bank_entries, bank_items, bank_stats, bank_compaction, jobs, admin)
OPERATIONS: dict[str, Operation] = {
    operation.name: operation for dialect in DIALECTS for operation in dialect.OPERATIONS
}


def find(name: str) -> Operation:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise NotFound(f"There is no operation `{name}`.") from None
