"""The Python API, awaited. `_sync.py` is generated from this file: change this one and run `make format`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

import msgspec

from ..clock import Clock
from ..dialects.admin import Key, NewKey, Status, Tenant
from ..dialects.agent_log import AgentSession, LogEntry
from ..dialects.flows import Ended, FlowInfo, SessionView
from ..dialects.jobs import Job
from ..dialects.memories import Memory as MemoryEntry
from ..dialects.search import Hits, WhyNot
from ..dialects.sessions import Erasure, SessionInfo
from ..dialects.settings import Settings
from ..dialects.transfer import Imported, Line
from ..dialects.turns import Turn, Turns
from ..dialects.users import Added, UserInfo
from ..watch import Event
from .transport import AsyncTransport, open_async_transport
from .values import Conditions, Message, Receipt, given, said, searched, to_receipt, unfinished

IMPORT_BATCH = 200

_Jobs = list[Job]
_Keys = list[Key]
_Tenants = list[Tenant]


class AsyncMemory:
    """Memory, embedded in this process or behind a server.

    `AsyncMemory()` opens `$MEMWELL_HOME`, `AsyncMemory("some/dir", tenant="acme")` another directory, and
    `AsyncMemory("http://127.0.0.1:8420", api_key=…)` a server. The API is the same.
    """

    def __init__(
        self,
        target: str | Path | None = None,
        *,
        tenant: str | None = None,
        api_key: str | None = None,
        worker: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._transport: AsyncTransport = open_async_transport(target, tenant, api_key, worker, clock)
        self.jobs = AsyncJobs(self._transport)
        self.keys = AsyncKeys(self._transport)
        self.tenants = AsyncTenants(self._transport)

    def user(self, user: str) -> AsyncUser:
        """What was said by and to one person, and to nobody else."""
        return AsyncUser(self._transport, user)

    def flow(self, flow: str) -> AsyncFlow:
        """The memory of a flow: its sessions and what it knows."""
        return AsyncFlow(self._transport, flow)

    def log(self, session: str) -> AsyncLog:
        """The sealed log of one agent session."""
        return AsyncLog(self._transport, session)

    async def users(self) -> list[UserInfo]:
        """The users of whom something is remembered."""
        return [user async for user in _pages(self._transport, "users.list", "users", {})]

    async def flows(self) -> list[FlowInfo]:
        """The flows that have memory."""
        return [flow async for flow in _pages(self._transport, "flows.list", "flows", {})]

    async def logs(self, status: str = "active") -> list[AgentSession]:
        """The sessions that agents have logged to: the active ones, or all."""
        found: list[AgentSession] = await self._transport.call("log.sessions", {"status": status})
        return found

    async def find_session(self, session: str) -> list[str]:
        """The flows that have a session of that id."""
        flows: list[str] = (await self._transport.call("flows.find", {"session": session})).flows
        return flows

    async def status(self) -> Status:
        """Whom this client speaks for, the storage, and the backlog of jobs."""
        status: Status = await self._transport.call("status.show", {})
        return status

    async def call(self, operation: str, data: Mapping[str, Any] | None = None, *, key: str | None = None) -> Any:
        """Any operation by its name, such as `flows.append`; with a key it is carried out once only."""
        return await self._transport.call(operation, dict(data or {}), key=key)

    async def watch(self) -> AsyncIterator[Event]:
        """Every read and write of the tenant as it happens, for ever."""
        async for event in self._transport.watch():
            if event is not None:
                yield event

    async def close(self) -> None:
        """Finish what is being written and let go of the files or connections."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncSearch:
    """Searching, which is the same for a user, a flow and a session."""

    def __init__(self, transport: AsyncTransport, dialect: str, at: dict[str, str]) -> None:
        self._transport = transport
        self._dialect = dialect
        self._at = at

    async def search(self, query: str, limit: int = 5, **conditions: Unpack[Conditions]) -> Hits:
        """What fits best, the best first: facts and what was written; with include=["turns"] also what was said."""
        data = searched(self._at, query, limit, conditions)
        hits: Hits = await self._transport.call(f"{self._dialect}.search", data)
        return hits

    async def why_not(self, entry_id: str, query: str, limit: int = 5, **conditions: Unpack[Conditions]) -> WhyNot:
        """Why that search does not find an entry: the one gate that keeps it out."""
        data = searched(self._at, query, limit, conditions) | {"id": entry_id}
        gate: WhyNot = await self._transport.call(f"{self._dialect}.why_not", data)
        return gate


class AsyncUser(AsyncSearch):
    """One person's memory."""

    def __init__(self, transport: AsyncTransport, user: str) -> None:
        super().__init__(transport, "users", {"user": user})
        self.id = user

    async def add(
        self,
        content: str | Message | Sequence[Message],
        *,
        session: str | None = None,
        occurred_at: datetime | None = None,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> Added:
        """Remember what was said: a text of the user's, or messages such as {"role": …, "content": …}."""
        data = given(user=self.id, session=session, occurred_at=occurred_at, metadata=metadata) | said(content)
        added: Added = await self._transport.call("users.add", data, key=key)
        return added

    async def history(self, limit: int = 20, *, session: str | None = None) -> list[Turn]:
        """The last turns, the oldest of them first."""
        page = await self._transport.call("users.history", given(user=self.id, limit=limit, session=session))
        turns: list[Turn] = page.turns
        return turns

    async def configure(self, *, language: str) -> Settings:
        """Set the language of this person's memory, such as `pt`."""
        settings: Settings = await self._transport.call("users.configure", {"user": self.id, "language": language})
        return settings

    async def sessions(self) -> list[SessionInfo]:
        """The user's conversations, the newest first."""
        return [found async for found in _pages(self._transport, "users.sessions", "sessions", {"user": self.id})]

    async def forget(self, *, timeout_s: float = 60.0) -> Receipt:
        """Forget everything about this person, everywhere, and return the receipt."""
        return await _erase(self._transport, "users.forget", {"user": self.id}, timeout_s)


class AsyncFlow(AsyncSearch):
    """A flow's memory."""

    def __init__(self, transport: AsyncTransport, flow: str) -> None:
        super().__init__(transport, "flows", {"flow": flow})
        self.id = flow

    def session(self, session: str) -> AsyncSession:
        """One conversation of the flow. It need not be declared: the first turn creates it."""
        return AsyncSession(self._transport, self.id, session)

    async def sessions(self) -> list[SessionInfo]:
        """The sessions of the flow, the newest first."""
        return [found async for found in _pages(self._transport, "flows.sessions", "sessions", {"flow": self.id})]

    async def write(
        self,
        content: str,
        importance: float = 0.5,
        *,
        confidence: float = 1.0,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> str:
        """Remember a statement for the whole flow and return its id."""
        data = given(flow=self.id, content=content, importance=importance, confidence=confidence, metadata=metadata)
        memory_id: str = (await self._transport.call("flows.write", data, key=key)).id
        return memory_id

    async def configure(self, *, language: str) -> Settings:
        """Set the language of the flow's memory, such as `de`."""
        settings: Settings = await self._transport.call("flows.configure", {"flow": self.id, "language": language})
        return settings

    async def memories(self, *, filter: Mapping[str, Any] | None = None) -> list[MemoryEntry]:
        """The statements written for the whole flow, in order; with a filter, those whose metadata meet it."""
        data = given(flow=self.id, filter=filter)
        return [found async for found in _pages(self._transport, "flows.memories", "memories", data)]

    async def get(self, memory_id: str) -> MemoryEntry:
        """One memory."""
        found: MemoryEntry = await self._transport.call("flows.memory", {"flow": self.id, "id": memory_id})
        return found

    async def update(
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
        data = {"flow": self.id, "id": memory_id, **changes}
        found: MemoryEntry = await self._transport.call("flows.update_memory", data)
        return found

    async def delete_memory(self, memory_id: str) -> None:
        """Delete a memory and its history for good."""
        deleted = await self._transport.call("flows.delete_memory", {"flow": self.id, "id": memory_id})
        await AsyncJobs(self._transport).wait(deleted.job)

    async def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase all memory of the flow for good."""
        return await _erase(self._transport, "flows.delete", {"flow": self.id}, timeout_s)

    async def export(self) -> AsyncIterator[Line]:
        """Everything in the flow, as the lines of an export."""
        async for line in _pages(self._transport, "flows.export", "lines", {"flow": self.id}):
            yield line

    async def import_lines(self, lines: Iterable[Line | Mapping[str, Any]]) -> Imported:
        """Add the lines of an export. What is there already is skipped."""
        added = skipped = 0
        batch: list[Any] = []
        for line in [*lines, None]:
            if line is not None:
                batch.append(msgspec.to_builtins(line))
            if batch and (line is None or len(batch) == IMPORT_BATCH):
                done = await self._transport.call("flows.import", {"flow": self.id, "lines": batch})
                added, skipped, batch = added + done.added, skipped + done.skipped, []
        return Imported(added=added, skipped=skipped)


class AsyncSession(AsyncSearch):
    """One conversation."""

    def __init__(self, transport: AsyncTransport, flow: str, session: str) -> None:
        super().__init__(transport, "flows", {"flow": flow, "session": session})
        self.id = session
        self.history = AsyncHistory(transport, self._at)

    async def write(
        self,
        content: str,
        importance: float = 0.5,
        *,
        confidence: float = 1.0,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> str:
        """Remember a statement for this session and return its id."""
        data = self._at | given(content=content, importance=importance, confidence=confidence, metadata=metadata)
        memory_id: str = (await self._transport.call("flows.write", data, key=key)).id
        return memory_id

    async def show(self, limit: int = 200) -> SessionView:
        """The conversation and its memories."""
        view: SessionView = await self._transport.call("flows.show", {**self._at, "limit": limit})
        return view

    async def end(self) -> Ended:
        """Close the session and have it distilled into facts. Saying something later opens it again."""
        ended: Ended = await self._transport.call("flows.end", self._at)
        return ended

    async def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the session for good."""
        return await _erase(self._transport, "flows.delete_session", self._at, timeout_s)


class AsyncHistory:
    """The turns of a session."""

    def __init__(self, transport: AsyncTransport, at: dict[str, str]) -> None:
        self._transport = transport
        self._at = at

    async def append(
        self,
        *,
        role: str,
        content: str = "",
        name: str | None = None,
        tool_name: str | None = None,
        tool_call_id: str | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        occurred_at: datetime | None = None,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> Turn:
        """Record a turn; the first one creates the session."""
        data = {"role": role, "content": content, **self._at}
        data |= given(
            name=name,
            tool_name=tool_name,
            tool_call_id=tool_call_id,
            tool_calls=tool_calls,
            occurred_at=occurred_at,
            metadata=metadata,
        )
        turn: Turn = await self._transport.call("flows.append", data, key=key)
        return turn

    async def extend(self, turns: Sequence[Message], *, key: str | None = None) -> list[Turn]:
        """Record several turns, all or none."""
        data = {"turns": [dict(turn) for turn in turns], **self._at}
        recorded: list[Turn] = (await self._transport.call("flows.extend", data, key=key)).turns
        return recorded

    async def last(self, n: int = 20) -> list[Turn]:
        """The most recent n turns, the oldest of them first."""
        turns: list[Turn] = (await self._transport.call("flows.last", {"limit": n, **self._at})).turns
        return turns

    async def page(self, *, limit: int = 100, order: str = "oldest_first", cursor: str | None = None) -> Turns:
        """A page of the turns, in either direction; its `next_cursor` leads to the next."""
        page: Turns = await self._transport.call(
            "flows.page", given(limit=limit, order=order, cursor=cursor) | self._at
        )
        return page

    async def all(self) -> AsyncIterator[Turn]:
        """Every turn, the oldest first."""
        async for turn in _pages(self._transport, "flows.page", "turns", dict(self._at)):
            yield turn


class AsyncLog:
    """The sealed log of one agent session."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport = transport
        self.id = session

    async def append(self, *, entry_type: str, content: str, key: str | None = None) -> LogEntry:
        """Append an entry such as an `observation`, a `tool_call` or a `decision`."""
        data = {"session": self.id, "entry_type": entry_type, "content": content}
        entry: LogEntry = await self._transport.call("log.append", data, key=key)
        return entry

    async def entries(self) -> list[LogEntry]:
        """Every entry, in the order it was recorded."""
        found: list[LogEntry] = await self._transport.call("log.entries", {"session": self.id})
        return found

    async def end(self) -> AgentSession:
        """Mark the session as ended; its log stays readable."""
        session: AgentSession = await self._transport.call("log.end", {"session": self.id})
        return session

    async def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the log for good."""
        return await _erase(self._transport, "log.delete", {"session": self.id}, timeout_s)


class AsyncJobs:
    """Background work."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, state: str | None = None, kind: str | None = None) -> _Jobs:
        """Jobs, the newest first."""
        data = given(state=state, kind=kind)
        return [job async for job in _pages(self._transport, "jobs.list", "jobs", data)]

    async def show(self, job_id: str) -> Job:
        """One job."""
        job: Job = await self._transport.call("jobs.show", {"id": job_id})
        return job

    async def wait(self, job_id: str, *, timeout_s: float = 60.0) -> Job:
        """Wait until a job is finished."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            data = {"id": job_id, "timeout_s": max(min(left, 5.0), 0.0)}
            job: Job = await self._transport.call("jobs.wait", data)
            if job.state in ("done", "dead", "cancelled"):
                return job
            if left <= 0:
                raise unfinished(job)

    async def retry(self, job_id: str) -> Job:
        """Put a dead or cancelled job back in line."""
        job: Job = await self._transport.call("jobs.retry", {"id": job_id})
        return job

    async def cancel(self, job_id: str) -> Job:
        """Take a waiting job out of the line."""
        job: Job = await self._transport.call("jobs.cancel", {"id": job_id})
        return job


class AsyncKeys:
    """API keys of the tenant."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str = "key",
        role: str = "agent",
        *,
        flow: str | None = None,
        user: str | None = None,
        tenant: str | None = None,
        rate_limit: int | None = None,
        expires_in_s: int | None = None,
    ) -> NewKey:
        """Make a key, perhaps held to one flow or user. Its `secret` is shown this once."""
        limits = given(flow=flow, user=user, tenant=tenant, rate_limit=rate_limit, expires_in_s=expires_in_s)
        key: NewKey = await self._transport.call("keys.create", {"name": name, "role": role, **limits})
        return key

    async def list(self) -> _Keys:
        """The keys, without their secrets."""
        return [key async for key in _pages(self._transport, "keys.list", "keys", {})]

    async def revoke(self, key_id: str) -> Key:
        """Make a key useless."""
        key: Key = await self._transport.call("keys.revoke", {"id": key_id})
        return key


class AsyncTenants:
    """Tenants; for operators."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, tenant: str) -> Tenant:
        """Make a tenant."""
        made: Tenant = await self._transport.call("tenants.create", {"tenant": tenant})
        return made

    async def list(self) -> _Tenants:
        """The tenants by name."""
        return [tenant async for tenant in _pages(self._transport, "tenants.list", "tenants", {})]

    async def delete(self, tenant: str) -> Tenant:
        """Erase a tenant with all its memory and keys, for good."""
        gone: Tenant = await self._transport.call("tenants.delete", {"tenant": tenant})
        return gone


async def _pages(transport: AsyncTransport, operation: str, field: str, data: dict[str, Any]) -> AsyncIterator[Any]:
    """Everything that a paged operation lists."""
    while True:
        page = await transport.call(operation, data)
        for item in getattr(page, field):
            yield item
        if page.next_cursor is None:
            return
        data = {**data, "cursor": page.next_cursor}


async def _erase(transport: AsyncTransport, operation: str, data: Mapping[str, Any], timeout_s: float) -> Receipt:
    erasure: Erasure = await transport.call(operation, dict(data))
    if erasure.residual is not None:
        return Receipt(erasure.job, erasure.sessions, erasure.layers or {}, erasure.residual)
    return to_receipt(erasure, await AsyncJobs(transport).wait(erasure.job, timeout_s=timeout_s))
