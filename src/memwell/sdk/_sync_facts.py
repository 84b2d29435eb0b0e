"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack

from ..context.contexts import Context
from ..facts.audit import Audit
from ..facts.memories import Memory as MemoryEntry
from ..facts.memories import MemoryHistory, Revoked
from ..facts.plans import Plan
from ..facts.search import Hits, WhyNot
from ._sync_jobs import Jobs, pages
from .transport import Transport
from .types import Conditions
from .values import given, searched


class Search:
    """Searching, which is the same for a user, a flow and a session."""

    def __init__(self, transport: Transport, dialect: str, at: dict[str, str]) -> None:
        self._transport = transport
        self._dialect = dialect
        self._at = at

    def search(self, query: str, limit: int = 5, **conditions: Unpack[Conditions]) -> Hits:
        """What fits best, the best first: facts and what was written; with include=["turns"] also what was said."""
        data = searched(self._at, query, limit, conditions)
        hits: Hits = self._transport.call(f"{self._dialect}.search", data)
        return hits

    def context(
        self,
        query: str | None = None,
        budget: int = 1500,
        *,
        turns: int = 20,
        min_trust: str | None = None,
        as_of: datetime | None = None,
    ) -> Context:
        """Memory made ready for a prompt: the newest turns and the facts that fit, within a budget of tokens, as `messages`
        and as `text`; `left_out` says what did not fit and why. Without a query, the most important facts."""
        asked = given(query=query, budget=budget, turns=turns, min_trust=min_trust, as_of=as_of)
        found: Context = self._transport.call(f"{self._dialect}.context", self._at | asked)
        return found

    def why_not(self, entry_id: str, query: str, limit: int = 5, **conditions: Unpack[Conditions]) -> WhyNot:
        """Why that search does not find an entry: the one gate that keeps it out."""
        data = searched(self._at, query, limit, conditions) | {"id": entry_id}
        gate: WhyNot = self._transport.call(f"{self._dialect}.why_not", data)
        return gate


class Known(Search):
    """What is known of a user or to a flow: facts with their evidence, and the plans that made them."""

    id: str

    def memories(
        self,
        *,
        filter: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> list[MemoryEntry]:
        """What is known, in order; with a filter, those memories whose metadata meet it. With `as_of`, what was known then;
        with `valid_at`, what was true then."""
        data = self._at | given(filter=filter, as_of=as_of, valid_at=valid_at)
        return [found for found in pages(self._transport, f"{self._dialect}.memories", "memories", data)]

    def get(self, memory_id: str, *, as_of: datetime | None = None, valid_at: datetime | None = None) -> MemoryEntry:
        """One memory; with `as_of`, as it was known then, and with `valid_at`, if it was true then."""
        data = {**self._at, "id": memory_id, **given(as_of=as_of, valid_at=valid_at)}
        found: MemoryEntry = self._transport.call(f"{self._dialect}.memory", data)
        return found

    def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
    ) -> MemoryEntry:
        """Change a memory; what is left away stays. With `version`, only if nobody changed it since."""
        changes = given(
            content=content, importance=importance, confidence=confidence, metadata=metadata, version=version
        )
        data = {**self._at, "id": memory_id, **changes}
        found: MemoryEntry = self._transport.call(f"{self._dialect}.update_memory", data)
        return found

    def delete_memory(self, memory_id: str) -> None:
        """Delete a memory and its history for good."""
        deleted = self._transport.call(f"{self._dialect}.delete_memory", {**self._at, "id": memory_id})
        Jobs(self._transport).wait(deleted.job)

    def memory_history(self, memory_id: str) -> MemoryHistory:
        """The versions of a memory, and what it is based on, down to the words."""
        data = {**self._at, "id": memory_id}
        found: MemoryHistory = self._transport.call(f"{self._dialect}.memory_history", data)
        return found

    def consolidate(self, session: str, *, dry_run: bool = False) -> Plan | None:
        """Distil what was said in a session into facts now, or return what that would do; None if there is nothing new."""
        data = {**self._at, "session": session, "dry_run": dry_run}
        plan: Plan | None = (self._transport.call(f"{self._dialect}.consolidate", data)).plan
        return plan

    def plans(self) -> list[Plan]:
        """What was distilled, when, from what, and why; the newest first."""
        return [found for found in pages(self._transport, f"{self._dialect}.plans", "plans", dict(self._at))]

    def plan(self, plan_id: str) -> Plan:
        """One plan."""
        found: Plan = self._transport.call(f"{self._dialect}.plan", {**self._at, "id": plan_id})
        return found

    def apply(self, plan_id: str) -> Plan:
        """Do what a plan of a dry run says, if nothing that it rests on has changed."""
        found: Plan = self._transport.call(f"{self._dialect}.apply_plan", {**self._at, "id": plan_id})
        return found

    def revert(self, plan_id: str) -> Plan:
        """Take back what a plan did. What was said stays as it is."""
        found: Plan = self._transport.call(f"{self._dialect}.revert_plan", {**self._at, "id": plan_id})
        return found

    def held(self) -> list[MemoryEntry]:
        """Statements that look like instructions to the agent or like secrets; they are used for nothing until released."""
        return [found for found in pages(self._transport, f"{self._dialect}.held", "memories", dict(self._at))]

    def release(self, memory_id: str) -> MemoryEntry:
        """Let a statement that is held back be a fact like any other."""
        found: MemoryEntry = self._transport.call(f"{self._dialect}.release", {**self._at, "id": memory_id})
        return found

    def audit(self) -> Audit:
        """Duplicates, contradictions, echoes, orphans, stale and secret-looking facts."""
        found: Audit = self._transport.call(f"{self._dialect}.audit", dict(self._at))
        return found

    def revoke(self, *, session: str | None = None, turn: str | None = None) -> Revoked:
        """Withdraw everything that is known only from a session, or from one turn."""
        data = self._at | given(session=session, turn=turn)
        found: Revoked = self._transport.call(f"{self._dialect}.revoke", data)
        return found
