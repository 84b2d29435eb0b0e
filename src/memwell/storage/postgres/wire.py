"""A connection within one transaction: what was not sent yet, and what was read and still holds."""

from __future__ import annotations

from typing import Any

from ..port import Row
from .statements import Connection, Result, Statement, run, run_all, say

AT_ONCE = 500
"""How many statements are sent before somebody looks at their results."""


class Wire:
    """Whatever nobody waits for is sent together with what somebody does wait for, in the order in which it was said."""

    __slots__ = ("_remembered", "_unsent", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._unsent: list[tuple[Statement, dict[str, Any]]] = []
        self._remembered: dict[str, dict[tuple[Any, ...], Row | None]] = {}

    def send(self, statement: Statement, given: dict[str, Any]) -> None:
        self._note(statement)
        self._unsent.append((statement, given))
        if len(self._unsent) >= AT_ONCE:
            self.flush()

    def run(self, statement: Statement, given: dict[str, Any]) -> Result:
        """What a statement gives, after everything before it was done."""
        self._note(statement)
        if not self._unsent:
            return run(self.connection, statement, given)
        unsent, self._unsent = self._unsent, []
        return run_all(self.connection, [*unsent, (statement, given)])

    def first(self, statement: Statement, given: dict[str, Any], *, table: str | None = None) -> Row | None:
        """The first row of what a statement gives. With a table, it is remembered until something is written there."""
        if table is None:
            return next(iter(self.run(statement, given).rows(1)), None)
        remembered = self._remembered.setdefault(table, {})
        key = (statement.name, *(given[name] for name in statement.parameters))
        if key not in remembered:
            remembered[key] = self.first(statement, given)
        return remembered[key]

    def alone(self, statement: Statement, given: dict[str, Any], *, before: str = "") -> Result:
        """What a statement gives that cannot be sent together with others."""
        self.flush()
        if before:
            say(self.connection, before)
        return self.run(statement, given)

    def flush(self) -> None:
        """Send what was not sent yet, and see to it that it worked."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            run_all(self.connection, unsent)

    def forget(self) -> None:
        """What was said is undone."""
        self._unsent.clear()
        self._remembered.clear()

    def _note(self, statement: Statement) -> None:
        for table in statement.writes:
            self._remembered.pop(table, None)
