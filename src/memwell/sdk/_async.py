"""The Python API, awaited. `_sync.py` is generated from this file: change this one and run `make format`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from .. import sdk
from ..clock import Clock
from ._async_apps import AsyncApp
from ._async_banks import AsyncBanks
from ._async_definitions import AsyncDefinitions
from ._async_facts import AsyncKnown, AsyncSearch
from ._async_hooks import AsyncHooks
from ._async_jobs import AsyncJobs, erase, pages
from ._async_workflows import AsyncWorkflows
from .mapping import AsyncRecords
from .transport import AsyncTransport, open_async_transport
from .values import Handle, Lifetime, Message, Moment, Receipt, omit_none, to_messages

_Keys: TypeAlias = "list[sdk.Key]"  # `list` is a method there
_Tenants: TypeAlias = "list[sdk.Tenant]"

IMPORT_BATCH = 200


class AsyncMemory(Handle):
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
        self.banks = AsyncBanks(self._transport)
        self.definitions = AsyncDefinitions(self._transport)
        self.hooks = AsyncHooks(self._transport)
        self.jobs = AsyncJobs(self._transport)
        self.keys = AsyncKeys(self._transport)
        self.tenants = AsyncTenants(self._transport)
        self.workflows = AsyncWorkflows(self._transport)

    def user(self, user: str) -> AsyncUser:
        """Return the memory of one person."""
        return AsyncUser(self._transport, user)

    def flow(self, flow: str) -> AsyncFlow:
        """Return the memory of a flow: its sessions and facts."""
        return AsyncFlow(self._transport, flow)

    def log(self, session: str) -> AsyncLog:
        """Return the sealed log of one agent session."""
        return AsyncLog(self._transport, session)

    def app(self, app: str) -> AsyncApp:
        """Return an app: its memory stores, sessions and files."""
        return AsyncApp(self._transport, app)

    async def apps(self) -> list[sdk.AppInfo]:
        """List the apps."""
        return (await self._transport.call("apps.list", {})).apps

    async def users(self) -> list[sdk.UserInfo]:
        """List the users that have memory."""
        return [user async for user in pages(self._transport, "users.list", "users", {})]

    async def flows(self) -> list[sdk.FlowInfo]:
        """List the flows that have memory."""
        return [flow async for flow in pages(self._transport, "flows.list", "flows", {})]

    async def logs(self, status: str = "active") -> list[sdk.AgentSession]:
        """List the sessions of agent logs: the active ones, or all."""
        return await self._transport.call("log.sessions", {"status": status})

    async def find_session(self, session: str) -> list[str]:
        """List the flows that have a session with this id."""
        return (await self._transport.call("flows.find", {"session": session})).flows

    async def status(self) -> sdk.Status:
        """Return the tenant and role of this client, the storage, and the backlog of jobs."""
        return await self._transport.call("status.show", {})

    async def call(self, operation: str, data: Mapping[str, Any] | None = None, *, key: str | None = None) -> Any:
        """Call any operation by its name, such as `flows.append`. With an idempotency key it runs only once."""
        return await self._transport.call(operation, dict(data or {}), key=key)

    async def watch(self) -> AsyncIterator[sdk.Event]:
        """Yield every read and write of the tenant as it happens, without end."""
        async for event in self._transport.watch():
            if event is not None:
                yield event

    async def close(self) -> None:
        """Finish open writes and close files and connections."""
        await self._transport.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.place!r})"

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncUser(AsyncKnown):
    """One person's memory."""

    def __init__(self, transport: AsyncTransport, user: str) -> None:
        super().__init__(transport, "users", {"user": user})
        self.id = user
        self.records = AsyncRecords(transport, user)

    async def add(
        self,
        content: str | Message | Sequence[Message],
        *,
        session: str | None = None,
        occurred_at: Moment | None = None,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> sdk.Added:
        """Record what was said: a text of the user, or messages such as {"role": …, "content": …}."""
        data = omit_none(user=self.id, session=session, occurred_at=occurred_at, metadata=metadata) | to_messages(
            content
        )
        return await self._transport.call("users.add", data, key=key)

    async def history(self, limit: int = 20, *, session: str | None = None) -> list[sdk.Turn]:
        """Return the last turns, the oldest of them first."""
        page = await self._transport.call("users.history", omit_none(user=self.id, limit=limit, session=session))
        turns: list[sdk.Turn] = page.turns
        return turns

    async def configure(self, *, language: str) -> sdk.Settings:
        """Set the language of this person's memory, such as `pt`."""
        return await self._transport.call("users.configure", {"user": self.id, "language": language})

    async def sessions(self) -> list[sdk.SessionInfo]:
        """List the user's conversations, the newest first."""
        return [found async for found in pages(self._transport, "users.sessions", "sessions", {"user": self.id})]

    async def forget(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase everything about this person, and return the receipt, which lists what was not reached as `kept`."""
        return await erase(self._transport, "users.forget", {"user": self.id}, timeout_s)


class AsyncFlow(AsyncKnown):
    """A flow's memory."""

    def __init__(self, transport: AsyncTransport, flow: str) -> None:
        super().__init__(transport, "flows", {"flow": flow})
        self.id = flow

    def session(self, session: str, *, user: str | None = None) -> AsyncSession:
        """Return one conversation of the flow. The first turn creates it. `user`: the id of the person who speaks in it."""
        return AsyncSession(self._transport, self.id, session, user)

    async def sessions(self) -> list[sdk.SessionInfo]:
        """List the sessions of the flow, the newest first."""
        return [found async for found in pages(self._transport, "flows.sessions", "sessions", {"flow": self.id})]

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
        data = omit_none(flow=self.id, content=content, importance=importance, confidence=confidence, metadata=metadata)
        return (await self._transport.call("flows.write", data, key=key)).id

    async def configure(self, *, language: str) -> sdk.Settings:
        """Set the language of the flow's memory, such as `de`."""
        return await self._transport.call("flows.configure", {"flow": self.id, "language": language})

    async def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase all memory of the flow."""
        return await erase(self._transport, "flows.delete", {"flow": self.id}, timeout_s)

    async def export(self) -> AsyncIterator[sdk.Line]:
        """Yield everything in the flow as the lines of an export."""
        async for line in pages(self._transport, "flows.export", "lines", {"flow": self.id}):
            yield line

    async def import_lines(self, lines: Iterable[sdk.Line | Mapping[str, Any]]) -> sdk.Imported:
        """Add the lines of an export. Lines that the flow has already are skipped."""
        added = skipped = 0
        batch: list[Any] = []
        for line in [*lines, None]:
            if line is not None:
                batch.append(msgspec.to_builtins(line))
            if batch and (line is None or len(batch) == IMPORT_BATCH):
                done = await self._transport.call("flows.import", {"flow": self.id, "lines": batch})
                added, skipped, batch = added + done.added, skipped + done.skipped, []
        return sdk.Imported(added=added, skipped=skipped)


class AsyncSession(AsyncSearch):
    """One conversation."""

    def __init__(self, transport: AsyncTransport, flow: str, session: str, user: str | None = None) -> None:
        super().__init__(transport, "flows", {"flow": flow, "session": session})
        self.id = session
        self.history = AsyncHistory(transport, self._at, user)

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
        data = self._at | omit_none(content=content, importance=importance, confidence=confidence, metadata=metadata)
        return (await self._transport.call("flows.write", data, key=key)).id

    async def show(self, limit: int = 200) -> sdk.SessionView:
        """Return the conversation and its memories."""
        return await self._transport.call("flows.show", {**self._at, "limit": limit})

    async def end(self, *, wait_s: float = 0.0) -> sdk.Ended:
        """End the session and consolidate it into facts; `wait_s` waits for them. A later turn opens it again."""
        ended: sdk.Ended = await self._transport.call("flows.end", self._at)
        if wait_s and ended.job is not None:
            await AsyncJobs(self._transport).wait(ended.job, timeout_s=wait_s)
            done: sdk.Ended = await self._transport.call("flows.end", self._at)
            ended = msgspec.structs.replace(ended, distilled=done.distilled)
        return ended

    async def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the session."""
        return await erase(self._transport, "flows.delete_session", self._at, timeout_s)


class AsyncHistory(Handle):
    """The turns of a session."""

    def __init__(self, transport: AsyncTransport, at: dict[str, str], user: str | None = None) -> None:
        self._transport = transport
        self._at = at
        self._user = user

    async def append(
        self,
        *,
        role: str,
        content: str = "",
        name: str | None = None,
        user: str | None = None,
        tool_name: str | None = None,
        tool_call_id: str | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        occurred_at: Moment | None = None,
        metadata: dict[str, Any] | None = None,
        origin: str | None = None,
        key: str | None = None,
    ) -> sdk.Turn:
        """Record a turn; the first one creates the session. `user`: the id of the person who speaks. `origin`: `document` or
        `tool`, if the content comes from there."""
        data = {"role": role, "content": content, **self._at}
        data |= omit_none(
            name=name,
            user=user or self._user_of(role),
            tool_name=tool_name,
            tool_call_id=tool_call_id,
            tool_calls=tool_calls,
            occurred_at=occurred_at,
            metadata=metadata,
            origin=origin,
        )
        return await self._transport.call("flows.append", data, key=key)

    async def extend(self, turns: Sequence[Message], *, key: str | None = None) -> list[sdk.Turn]:
        """Record several turns, all or none."""
        given = [omit_none(user=self._user_of(turn.get("role"))) | dict(turn) for turn in turns]
        return (await self._transport.call("flows.extend", {"turns": given, **self._at}, key=key)).turns

    def _user_of(self, role: object) -> str | None:
        return self._user if role == "user" else None

    async def last(self, n: int = 20) -> list[sdk.Turn]:
        """Return the last n turns, the oldest of them first."""
        return (await self._transport.call("flows.last", {"limit": n, **self._at})).turns

    async def page(self, *, limit: int = 100, order: str = "oldest_first", cursor: str | None = None) -> sdk.Turns:
        """Return a page of the turns, in either direction; `next_cursor` selects the next one."""
        return await self._transport.call("flows.page", omit_none(limit=limit, order=order, cursor=cursor) | self._at)

    async def all(self) -> AsyncIterator[sdk.Turn]:
        """Yield every turn, the oldest first."""
        async for turn in pages(self._transport, "flows.page", "turns", dict(self._at)):
            yield turn


class AsyncLog(Handle):
    """The sealed log of one agent session."""

    def __init__(self, transport: AsyncTransport, session: str) -> None:
        self._transport = transport
        self.id = session

    async def append(self, *, entry_type: str, content: str, key: str | None = None) -> sdk.LogEntry:
        """Append an entry such as an `observation`, a `tool_call` or a `decision`."""
        data = {"session": self.id, "entry_type": entry_type, "content": content}
        return await self._transport.call("log.append", data, key=key)

    async def entries(self) -> list[sdk.LogEntry]:
        """List all entries in the order of recording."""
        return await self._transport.call("log.entries", {"session": self.id})

    async def end(self) -> sdk.AgentSession:
        """Mark the session as ended; its log stays readable."""
        return await self._transport.call("log.end", {"session": self.id})

    async def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the log."""
        return await erase(self._transport, "log.delete", {"session": self.id}, timeout_s)


class AsyncKeys(Handle):
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
        expires_in_s: Lifetime = None,
    ) -> sdk.NewKey:
        """Create a key, optionally limited to one flow or user. Its `secret` is shown only once."""
        limits = omit_none(flow=flow, user=user, tenant=tenant, rate_limit=rate_limit, expires_in_s=expires_in_s)
        return await self._transport.call("keys.create", {"name": name, "role": role, **limits})

    async def list(self) -> _Keys:
        """List the keys, without their secrets."""
        return [key async for key in pages(self._transport, "keys.list", "keys", {})]

    async def revoke(self, key_id: str) -> sdk.Key:
        """Revoke a key."""
        return await self._transport.call("keys.revoke", {"id": key_id})


class AsyncTenants(Handle):
    """Tenants; for operators."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, tenant: str) -> sdk.Tenant:
        """Create a tenant."""
        return await self._transport.call("tenants.create", {"tenant": tenant})

    async def list(self) -> _Tenants:
        """List the tenants by name."""
        return [tenant async for tenant in pages(self._transport, "tenants.list", "tenants", {})]

    async def delete(self, tenant: str) -> sdk.Tenant:
        """Erase a tenant with all its memory and keys."""
        return await self._transport.call("tenants.delete", {"tenant": tenant})

    async def settings(self) -> sdk.TenantSettingsInfo:
        """Return the settings of this tenant."""
        return await self._transport.call("tenants.settings", {})

    async def configure(self, *, record_model_calls: bool) -> sdk.TenantSettingsInfo:
        """Change the settings of this tenant: whether its runs store what they send to models."""
        return await self._transport.call("tenants.configure", {"record_model_calls": record_model_calls})
