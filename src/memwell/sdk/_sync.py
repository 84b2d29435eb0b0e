"""The Python API. Generated from `_async…`: change that one and run `make format`."""

from __future__ import annotations

from collections.abc import Iterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from .. import sdk
from ..clock import Clock
from ._sync_apps import App
from ._sync_banks import Banks
from ._sync_definitions import Definitions
from ._sync_facts import Known, Search
from ._sync_hooks import Hooks
from ._sync_jobs import Jobs, erase, pages
from ._sync_workflows import Workflows
from .mapping import Records
from .transport import Transport, open_transport
from .values import Handle, Lifetime, Message, Moment, Receipt, omit_none, to_messages

_Keys: TypeAlias = "list[sdk.Key]"  # `list` is a method there
_Tenants: TypeAlias = "list[sdk.Tenant]"

IMPORT_BATCH = 200


class Memory(Handle):
    """Memory, embedded in this process or behind a server.

    `Memory()` opens `$MEMWELL_HOME`, `Memory("some/dir", tenant="acme")` another directory, and
    `Memory("http://127.0.0.1:8420", api_key=…)` a server. The API is the same.
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
        self._transport: Transport = open_transport(target, tenant, api_key, worker, clock)
        self.banks = Banks(self._transport)
        self.definitions = Definitions(self._transport)
        self.hooks = Hooks(self._transport)
        self.jobs = Jobs(self._transport)
        self.keys = Keys(self._transport)
        self.tenants = Tenants(self._transport)
        self.workflows = Workflows(self._transport)

    def user(self, user: str) -> User:
        """Return the memory of one person."""
        return User(self._transport, user)

    def flow(self, flow: str) -> Flow:
        """Return the memory of a flow: its sessions and facts."""
        return Flow(self._transport, flow)

    def log(self, session: str) -> Log:
        """Return the sealed log of one agent session."""
        return Log(self._transport, session)

    def app(self, app: str) -> App:
        """Return an app: its memory stores, sessions and files."""
        return App(self._transport, app)

    def apps(self) -> list[sdk.AppInfo]:
        """List the apps."""
        return (self._transport.call("apps.list", {})).apps

    def users(self) -> list[sdk.UserInfo]:
        """List the users that have memory."""
        return [user for user in pages(self._transport, "users.list", "users", {})]

    def flows(self) -> list[sdk.FlowInfo]:
        """List the flows that have memory."""
        return [flow for flow in pages(self._transport, "flows.list", "flows", {})]

    def logs(self, status: str = "active") -> list[sdk.AgentSession]:
        """List the sessions of agent logs: the active ones, or all."""
        return self._transport.call("log.sessions", {"status": status})

    def find_session(self, session: str) -> list[str]:
        """List the flows that have a session with this id."""
        return (self._transport.call("flows.find", {"session": session})).flows

    def status(self) -> sdk.Status:
        """Return the tenant and role of this client, the storage, and the backlog of jobs."""
        return self._transport.call("status.show", {})

    def call(self, operation: str, data: Mapping[str, Any] | None = None, *, key: str | None = None) -> Any:
        """Call any operation by its name, such as `flows.append`. With an idempotency key it runs only once."""
        return self._transport.call(operation, dict(data or {}), key=key)

    def watch(self) -> Iterator[sdk.Event]:
        """Yield every read and write of the tenant as it happens, without end."""
        for event in self._transport.watch():
            if event is not None:
                yield event

    def close(self) -> None:
        """Finish open writes and close files and connections."""
        self._transport.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.place!r})"

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class User(Known):
    """One person's memory."""

    def __init__(self, transport: Transport, user: str) -> None:
        super().__init__(transport, "users", {"user": user})
        self.id = user
        self.records = Records(transport, user)

    def add(
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
        return self._transport.call("users.add", data, key=key)

    def history(self, limit: int = 20, *, session: str | None = None) -> list[sdk.Turn]:
        """Return the last turns, the oldest of them first."""
        page = self._transport.call("users.history", omit_none(user=self.id, limit=limit, session=session))
        turns: list[sdk.Turn] = page.turns
        return turns

    def configure(self, *, language: str) -> sdk.Settings:
        """Set the language of this person's memory, such as `pt`."""
        return self._transport.call("users.configure", {"user": self.id, "language": language})

    def sessions(self) -> list[sdk.SessionInfo]:
        """List the user's conversations, the newest first."""
        return [found for found in pages(self._transport, "users.sessions", "sessions", {"user": self.id})]

    def forget(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase everything about this person, and return the receipt, which lists what was not reached as `kept`."""
        return erase(self._transport, "users.forget", {"user": self.id}, timeout_s)


class Flow(Known):
    """A flow's memory."""

    def __init__(self, transport: Transport, flow: str) -> None:
        super().__init__(transport, "flows", {"flow": flow})
        self.id = flow

    def session(self, session: str, *, user: str | None = None) -> Session:
        """Return one conversation of the flow. The first turn creates it. `user`: the id of the person who speaks in it."""
        return Session(self._transport, self.id, session, user)

    def sessions(self) -> list[sdk.SessionInfo]:
        """List the sessions of the flow, the newest first."""
        return [found for found in pages(self._transport, "flows.sessions", "sessions", {"flow": self.id})]

    def write(
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
        return (self._transport.call("flows.write", data, key=key)).id

    def configure(self, *, language: str) -> sdk.Settings:
        """Set the language of the flow's memory, such as `de`."""
        return self._transport.call("flows.configure", {"flow": self.id, "language": language})

    def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase all memory of the flow."""
        return erase(self._transport, "flows.delete", {"flow": self.id}, timeout_s)

    def export(self) -> Iterator[sdk.Line]:
        """Yield everything in the flow as the lines of an export."""
        for line in pages(self._transport, "flows.export", "lines", {"flow": self.id}):
            yield line

    def import_lines(self, lines: Iterable[sdk.Line | Mapping[str, Any]]) -> sdk.Imported:
        """Add the lines of an export. Lines that the flow has already are skipped."""
        added = skipped = 0
        batch: list[Any] = []
        for line in [*lines, None]:
            if line is not None:
                batch.append(msgspec.to_builtins(line))
            if batch and (line is None or len(batch) == IMPORT_BATCH):
                done = self._transport.call("flows.import", {"flow": self.id, "lines": batch})
                added, skipped, batch = added + done.added, skipped + done.skipped, []
        return sdk.Imported(added=added, skipped=skipped)


class Session(Search):
    """One conversation."""

    def __init__(self, transport: Transport, flow: str, session: str, user: str | None = None) -> None:
        super().__init__(transport, "flows", {"flow": flow, "session": session})
        self.id = session
        self.history = History(transport, self._at, user)

    def write(
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
        return (self._transport.call("flows.write", data, key=key)).id

    def show(self, limit: int = 200) -> sdk.SessionView:
        """Return the conversation and its memories."""
        return self._transport.call("flows.show", {**self._at, "limit": limit})

    def end(self, *, wait_s: float = 0.0) -> sdk.Ended:
        """End the session and consolidate it into facts; `wait_s` waits for them. A later turn opens it again."""
        ended: sdk.Ended = self._transport.call("flows.end", self._at)
        if wait_s and ended.job is not None:
            Jobs(self._transport).wait(ended.job, timeout_s=wait_s)
            done: sdk.Ended = self._transport.call("flows.end", self._at)
            ended = msgspec.structs.replace(ended, distilled=done.distilled)
        return ended

    def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the session."""
        return erase(self._transport, "flows.delete_session", self._at, timeout_s)


class History(Handle):
    """The turns of a session."""

    def __init__(self, transport: Transport, at: dict[str, str], user: str | None = None) -> None:
        self._transport = transport
        self._at = at
        self._user = user

    def append(
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
        return self._transport.call("flows.append", data, key=key)

    def extend(self, turns: Sequence[Message], *, key: str | None = None) -> list[sdk.Turn]:
        """Record several turns, all or none."""
        given = [omit_none(user=self._user_of(turn.get("role"))) | dict(turn) for turn in turns]
        return (self._transport.call("flows.extend", {"turns": given, **self._at}, key=key)).turns

    def _user_of(self, role: object) -> str | None:
        return self._user if role == "user" else None

    def last(self, n: int = 20) -> list[sdk.Turn]:
        """Return the last n turns, the oldest of them first."""
        return (self._transport.call("flows.last", {"limit": n, **self._at})).turns

    def page(self, *, limit: int = 100, order: str = "oldest_first", cursor: str | None = None) -> sdk.Turns:
        """Return a page of the turns, in either direction; `next_cursor` selects the next one."""
        return self._transport.call("flows.page", omit_none(limit=limit, order=order, cursor=cursor) | self._at)

    def all(self) -> Iterator[sdk.Turn]:
        """Yield every turn, the oldest first."""
        for turn in pages(self._transport, "flows.page", "turns", dict(self._at)):
            yield turn


class Log(Handle):
    """The sealed log of one agent session."""

    def __init__(self, transport: Transport, session: str) -> None:
        self._transport = transport
        self.id = session

    def append(self, *, entry_type: str, content: str, key: str | None = None) -> sdk.LogEntry:
        """Append an entry such as an `observation`, a `tool_call` or a `decision`."""
        data = {"session": self.id, "entry_type": entry_type, "content": content}
        return self._transport.call("log.append", data, key=key)

    def entries(self) -> list[sdk.LogEntry]:
        """List all entries in the order of recording."""
        return self._transport.call("log.entries", {"session": self.id})

    def end(self) -> sdk.AgentSession:
        """Mark the session as ended; its log stays readable."""
        return self._transport.call("log.end", {"session": self.id})

    def delete(self, *, timeout_s: float = 60.0) -> Receipt:
        """Erase the log."""
        return erase(self._transport, "log.delete", {"session": self.id}, timeout_s)


class Keys(Handle):
    """API keys of the tenant."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
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
        return self._transport.call("keys.create", {"name": name, "role": role, **limits})

    def list(self) -> _Keys:
        """List the keys, without their secrets."""
        return [key for key in pages(self._transport, "keys.list", "keys", {})]

    def revoke(self, key_id: str) -> sdk.Key:
        """Revoke a key."""
        return self._transport.call("keys.revoke", {"id": key_id})


class Tenants(Handle):
    """Tenants; for operators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, tenant: str) -> sdk.Tenant:
        """Create a tenant."""
        return self._transport.call("tenants.create", {"tenant": tenant})

    def list(self) -> _Tenants:
        """List the tenants by name."""
        return [tenant for tenant in pages(self._transport, "tenants.list", "tenants", {})]

    def delete(self, tenant: str) -> sdk.Tenant:
        """Erase a tenant with all its memory and keys."""
        return self._transport.call("tenants.delete", {"tenant": tenant})

    def settings(self) -> sdk.TenantSettingsInfo:
        """Return the settings of this tenant."""
        return self._transport.call("tenants.settings", {})

    def configure(self, *, record_model_calls: bool) -> sdk.TenantSettingsInfo:
        """Change the settings of this tenant: whether its runs store what they send to models."""
        return self._transport.call("tenants.configure", {"record_model_calls": record_model_calls})
