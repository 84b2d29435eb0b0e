"""The Python API, awaited: search, facts and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from .. import sdk
from ._async_jobs import AsyncJobs, pages
from .transport import AsyncTransport
from .values import Handle, Moment, build_search, omit_none


class AsyncSearch(Handle):
    """Search, for a user, a flow or a session."""

    def __init__(self, transport: AsyncTransport, dialect: str, at: dict[str, str]) -> None:
        self._transport = transport
        self._dialect = dialect
        self._at = at

    async def search(self, query: str, limit: int = 5, **conditions: Unpack[sdk.Conditions]) -> sdk.Hits:
        """Search facts and added texts, the best hit first; with include=["turns"] also turns."""
        data = build_search(self._at, query, limit, conditions)
        return await self._transport.call(f"{self._dialect}.search", data)

    async def context(
        self,
        query: str | None = None,
        budget: int = 1500,
        *,
        turns: int = 20,
        min_trust: str | None = None,
        as_of: Moment | None = None,
        stable_prefix: bool | None = None,
        form: str | None = None,
    ) -> sdk.Context:
        """Assemble memory for a prompt within a budget of tokens: the newest turns, and the facts and earlier turns that fit
        the query, as `messages` and as `text` (`form` chooses one); `left_out` says what did not fit and why. Without a query,
        the most important facts. With `stable_prefix`, the marks around memory stay the same, for prompt caches."""
        asked = omit_none(query=query, budget=budget, turns=turns, min_trust=min_trust, as_of=as_of)
        asked |= omit_none(stable_prefix=stable_prefix, form=form)
        return await self._transport.call(f"{self._dialect}.context", self._at | asked)

    async def why_not(
        self, entry_id: str, query: str, limit: int = 5, **conditions: Unpack[sdk.Conditions]
    ) -> sdk.WhyNot:
        """Explain why a search does not find an entry."""
        data = build_search(self._at, query, limit, conditions) | {"id": entry_id}
        return await self._transport.call(f"{self._dialect}.why_not", data)


class AsyncKnown(AsyncSearch):
    """The facts of a user or a flow with their evidence, and the plans that made them."""

    id: str

    async def memories(
        self,
        *,
        filter: Mapping[str, Any] | None = None,
        as_of: Moment | None = None,
        valid_at: Moment | None = None,
    ) -> list[sdk.MemoryEntry]:
        """List the memories; with a filter, those whose metadata match. `as_of`: as known at that time; `valid_at`: those true
        at that time."""
        data = self._at | omit_none(filter=filter, as_of=as_of, valid_at=valid_at)
        return [found async for found in pages(self._transport, f"{self._dialect}.memories", "memories", data)]

    async def get(
        self, memory_id: str, *, as_of: Moment | None = None, valid_at: Moment | None = None
    ) -> sdk.MemoryEntry:
        """Return one memory; `as_of`: as known at that time; `valid_at`: if it was true at that time."""
        data = {**self._at, "id": memory_id, **omit_none(as_of=as_of, valid_at=valid_at)}
        return await self._transport.call(f"{self._dialect}.memory", data)

    async def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        metadata: dict[str, Any] | None = None,
        version: int | None = None,
    ) -> sdk.MemoryEntry:
        """Change a memory; omitted fields stay. With `version`, only if it has not changed since."""
        changes = omit_none(
            content=content, importance=importance, confidence=confidence, metadata=metadata, version=version
        )
        data = {**self._at, "id": memory_id, **changes}
        return await self._transport.call(f"{self._dialect}.update_memory", data)

    async def delete_memory(self, memory_id: str) -> None:
        """Erase a memory and its history."""
        deleted = await self._transport.call(f"{self._dialect}.delete_memory", {**self._at, "id": memory_id})
        await AsyncJobs(self._transport).wait(deleted.job)

    async def memory_history(self, memory_id: str) -> sdk.MemoryHistory:
        """Return the versions of a memory, and its evidence."""
        data = {**self._at, "id": memory_id}
        return await self._transport.call(f"{self._dialect}.memory_history", data)

    async def consolidate(self, session: str, *, dry_run: bool = False, again: bool = False) -> sdk.Plan | None:
        """Consolidate a session into facts now, or with `dry_run` only plan it; None if there is nothing new.

        `again` starts at the first turn again, and skips what is evidence of facts already.
        """
        data = {**self._at, "session": session, "dry_run": dry_run, "again": again}
        return (await self._transport.call(f"{self._dialect}.consolidate", data)).plan

    async def plans(self) -> list[sdk.Plan]:
        """List the plans, the newest first."""
        return [found async for found in pages(self._transport, f"{self._dialect}.plans", "plans", dict(self._at))]

    async def plan(self, plan_id: str) -> sdk.Plan:
        """Return one plan."""
        return await self._transport.call(f"{self._dialect}.plan", {**self._at, "id": plan_id})

    async def apply(self, plan_id: str) -> sdk.Plan:
        """Apply the plan of a dry run, if its sources have not changed."""
        return await self._transport.call(f"{self._dialect}.apply_plan", {**self._at, "id": plan_id})

    async def revert(self, plan_id: str) -> sdk.Plan:
        """Undo a plan. Turns are not changed."""
        return await self._transport.call(f"{self._dialect}.revert_plan", {**self._at, "id": plan_id})

    async def held(self) -> list[sdk.MemoryEntry]:
        """List quarantined statements: they look like instructions or secrets, and are not used until released."""
        return [found async for found in pages(self._transport, f"{self._dialect}.held", "memories", dict(self._at))]

    async def release(self, memory_id: str) -> sdk.MemoryEntry:
        """Release a statement from quarantine."""
        return await self._transport.call(f"{self._dialect}.release", {**self._at, "id": memory_id})

    async def audit(self) -> sdk.Audit:
        """Find duplicates, contradictions, echoes, orphans, stale and secret-looking facts."""
        return await self._transport.call(f"{self._dialect}.audit", dict(self._at))

    async def suggest_plan(self, ids: Sequence[str] = ()) -> sdk.Plan | None:
        """Make a plan of what the audit suggests, perhaps about some memories only; None if it suggests nothing."""
        data = {**self._at, "ids": list(ids)}
        return (await self._transport.call(f"{self._dialect}.suggest_plan", data)).plan

    async def revoke(self, *, session: str | None = None, turn: str | None = None) -> sdk.Revoked:
        """Retract everything that is known only from a session, or from one turn."""
        data = self._at | omit_none(session=session, turn=turn)
        return await self._transport.call(f"{self._dialect}.revoke", data)
