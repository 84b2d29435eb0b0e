"""Every operation there is."""

from __future__ import annotations

from .dialects import admin, agent_log, flows, jobs, users
from .errors import NotFound
from .operation import Operation

OPERATIONS: dict[str, Operation] = {
    operation.name: operation for dialect in (users, flows, agent_log, jobs, admin) for operation in dialect.OPERATIONS
}


def find(name: str) -> Operation:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise NotFound(f"There is no operation `{name}`.") from None
