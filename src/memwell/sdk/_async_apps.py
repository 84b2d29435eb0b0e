"""The Python API, awaited: apps, their memory stores, their sessions and files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import msgspec

from .. import sdk
from ._async_jobs import pages
from ._async_records import Fields, changes
from ._async_workflows import AsyncWorkflows
from .transport import AsyncTransport
from .values import Handle, Moment, omit_none, read_file, to_list, to_object

Imported: TypeAlias = "sdk.ImportedApp"
_Contents: TypeAlias = "list[sdk.StoreRecord]"  # `list` is a method there
_Files: TypeAlias = "list[sdk.FileInfo]"
_Sessions: TypeAlias = "list[sdk.SessionMeta]"
_Stores: TypeAlias = "list[sdk.StoreInfo]"


class AsyncApp(Handle):
    """One app: its stores, its sessions, and the workflow or function that answers messages."""

    def __init__(self, transport: AsyncTransport, app: str) -> None:
        self._transport = transport
        self.id = app
        self.stores = AsyncStores(transport, app)
        self.sessions = AsyncAppSessions(transport, app)

    def scope(self, *, user_id: str | None = None, session_id: str | None = None) -> AsyncScope:
        """Return the memory of the app for a user and a session."""
        return AsyncScope(self._transport, self.id, user_id, session_id)

    def session(self, session_id: str) -> AsyncAppSession:
        """Return one session of the app, with its files."""
        return AsyncAppSession(self._transport, self.id, session_id)

    async def info(self) -> sdk.AppInfo:
        """Return the app."""
        return await self._transport.call("apps.get", {"app": self.id})

    async def configure(self, **settings: Unpack[sdk.AppSettings]) -> sdk.AppInfo:
        """Set the stored `workflow` or the registered `function` that answers messages; None removes it."""
        return await self._transport.call("apps.configure", {"app": self.id, **settings})

    async def execute(
        self,
        message: str,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **more: Unpack[sdk.Executing],
    ) -> sdk.Executed:
        """Send a message to the app, with metadata for the session. With the same key it is sent once."""
        data = omit_none(session_id=session_id, metadata=metadata) | {"app": self.id, "message": message, **more}
        answer: sdk.Executed = await self._transport.call("apps.execute", data, key=idempotency_key)
        if answer.status != "running" or not more.get("wait", True):
            return answer
        workflows = AsyncWorkflows(self._transport)  # a server does not answer for as long as a run may take
        async for _ in workflows.follow(answer.run_id):
            pass
        run = await workflows.show(answer.run_id)
        replies = [step.output for step in run.steps if step.reply]
        found = {"status": run.status, "output": run.output, "error": run.error, "warnings": run.warnings}
        return msgspec.structs.replace(answer, replies=replies, **found)

    async def export(self) -> dict[str, Any]:
        """Return the app as a document: its stores, workflow, banks and definitions, without data."""
        found: sdk.AppDocument = await self._transport.call("apps.export", {"app": self.id})
        return found.document

    async def import_document(self, document: str | Mapping[str, Any], *, dry_run: bool = False) -> Imported:
        """Create the app from a document. With `dry_run`, only report the changes and conflicts."""
        source = document if isinstance(document, str) else to_object(document, "document")
        made: Imported = await self._transport.call(
            "apps.import", {"app": self.id, "document": source, "dry_run": dry_run}
        )
        return made

    async def delete(self) -> sdk.DeletedApp:
        """Delete the app with its stores, its sessions and all their records."""
        gone: sdk.DeletedApp = await self._transport.call("apps.delete", {"app": self.id})
        return gone


class AsyncStores(Handle):
    """Memory stores of an app."""

    def __init__(self, transport: AsyncTransport, app: str) -> None:
        self._transport = transport
        self._app = app

    async def create(self, technical_name: str, **settings: Unpack[sdk.StoreSettings]) -> sdk.StoreInfo:
        """Create a store: `schema`, `access` (user, application, session), `retention`, `strict`, `name`, `description`."""
        data = {"app": self._app, "technical_name": technical_name, **settings}
        made: sdk.StoreInfo = await self._transport.call("stores.create", data)
        return made

    async def define(self, stores: str | Mapping[str, Any]) -> _Stores:
        """Create stores from YAML, or from settings by technical name; all or none."""
        source = stores if isinstance(stores, str) else to_object(stores, "stores")
        made: _Stores = (await self._transport.call("stores.define", {"app": self._app, "stores": source})).stores
        return made

    async def apply(
        self, stores: str | Mapping[str, Any], *, dry_run: bool = False, accept_breaking: bool = False
    ) -> sdk.Applied:
        """Make stores what YAML or an object by technical name says, all or none; with `dry_run`, only report the changes."""
        source = stores if isinstance(stores, str) else to_object(stores, "stores")
        data = {"app": self._app, "stores": source, "dry_run": dry_run, "accept_breaking": accept_breaking}
        return await self._transport.call("stores.apply", data)

    async def list(self) -> _Stores:
        """List the stores by technical name."""
        found: _Stores = (await self._transport.call("stores.list", {"app": self._app})).stores
        return found

    async def get(self, technical_name: str) -> sdk.StoreInfo:
        """Return a store."""
        return await self._transport.call("stores.get", {"app": self._app, "store": technical_name})

    async def update(self, technical_name: str, **changes: Unpack[sdk.StoreChanges]) -> sdk.StoreInfo:
        """Change a store. Its technical name and access cannot be changed."""
        data = {"app": self._app, "store": technical_name, **changes}
        return await self._transport.call("stores.update", data)

    async def records(self, technical_name: str) -> _Contents:
        """List the records of a store: those of all users and sessions, or the one of the app."""
        data = {"app": self._app, "store": technical_name}
        return [one async for one in pages(self._transport, "stores.records", "records", data)]

    async def delete(self, technical_name: str) -> sdk.DeletedStore:
        """Delete a store with all its records."""
        return await self._transport.call("stores.delete", {"app": self._app, "store": technical_name})


class AsyncAppSessions(Handle):
    """Sessions of an app."""

    def __init__(self, transport: AsyncTransport, app: str) -> None:
        self._transport = transport
        self._app = app

    async def update(
        self, session_id: str, metadata: Mapping[str, Any] | None = None, **more: Unpack[sdk.SessionChanges]
    ) -> sdk.SessionMeta:
        """Set metadata of a session, which is created if it is new."""
        data = omit_none(app=self._app, session_id=session_id, metadata=metadata) | {**more}
        return await self._transport.call("apps.sessions.update", data)

    async def get(self, session_id: str) -> sdk.SessionMeta:
        """Return the metadata of a session."""
        data = {"app": self._app, "session_id": session_id}
        return await self._transport.call("apps.sessions.get", data)

    async def list(self, user_id: str | None = None) -> _Sessions:
        """List the sessions that have not ended, of one user or of all."""
        data = omit_none(app=self._app, user_id=user_id)
        return [one async for one in pages(self._transport, "apps.sessions.list", "sessions", data)]

    async def end(self, session_id: str, *, end_conversation: bool | None = None) -> sdk.EndedSession:
        """End a session, and delete what was stored for its duration. With `end_conversation`, its conversation ends too, and
        facts are made of it. The default is the app's setting `end_conversations`."""
        data = omit_none(app=self._app, session_id=session_id, end_conversation=end_conversation)
        return await self._transport.call("apps.sessions.end", data)


class AsyncScope(Handle):
    """The memory of an app for one user and one session. The `memory` of a registered function has the three methods that read,
    write and delete contents."""

    def __init__(self, transport: AsyncTransport, app: str, user_id: str | None, session_id: str | None) -> None:
        self._transport = transport
        self._at = {"app": app} | omit_none(user_id=user_id, session_id=session_id)

    async def get_content(
        self, store_name: str, projections: Fields | None = None, *, as_of: Moment | None = None
    ) -> Any:
        """Return the record of a store, now or at another time, or some of its fields such as {"preferences.language": 1}. None
        if there is none."""
        return (await self.read(store_name, projections, as_of=as_of)).content

    async def read(
        self, store_name: str, projections: Fields | None = None, *, as_of: Moment | None = None
    ) -> sdk.Content:
        """Return the record with its version and times."""
        data = {**self._at, "store": store_name, **omit_none(projections=projections, as_of=as_of)}
        return await self._transport.call("stores.get_content", data)

    async def set_content(
        self, store_name: str, data_object: Mapping[str, Any], **how: Unpack[sdk.ContentChange]
    ) -> Any:
        """Write to a store and return the record. Omitted fields stay."""
        return (await self.write(store_name, data_object, **how)).content

    async def write(
        self, store_name: str, data_object: Mapping[str, Any], **how: Unpack[sdk.ContentChange]
    ) -> sdk.Content:
        """Write to a store and return the record with its version and warnings."""
        data = {**self._at, "store": store_name, "data": to_object(data_object, "data"), **omit_none(**how)}
        if "unset" in data:
            data["unset"] = to_list(data["unset"])
        return await self._transport.call("stores.set_content", data)

    async def set_contents(
        self, contents: Mapping[str, Mapping[str, Any]], *, mode: sdk.Mode = "merge"
    ) -> dict[str, Any]:
        """Write to several stores, all or none."""
        values = {name: to_object(one, name) for name, one in to_object(contents, "contents").items()}
        data = {**self._at, "contents": values, "mode": mode}
        made = (await self._transport.call("stores.set_contents", data)).contents
        return {name: one.content for name, one in made.items()}

    async def delete_content(self, store_name: str, *, if_match: str | None = None) -> bool:
        """Delete the record of a store with its history; False if there was none."""
        data = {**self._at, "store": store_name, **omit_none(if_match=if_match)}
        return (await self._transport.call("stores.delete_content", data)).deleted

    async def history(self, store_name: str, limit: int = 20) -> list[sdk.RecordChange]:
        """List the changes of a record, the newest first, at most `limit`."""
        return await changes(self._transport, "stores.content_history", {**self._at, "store": store_name}, limit)

    async def render(self, template: str) -> str:
        """Fill in `{{memory.<store>.<path>}}` in a prompt."""
        return (await self.rendered(template)).text

    async def rendered(self, template: str) -> sdk.RenderedText:
        """Render a prompt, and return also the names without a value and the withheld records."""
        return await self._transport.call("apps.render", {**self._at, "template": template})


class AsyncAppSession(Handle):
    """One session of an app: its metadata and its files."""

    def __init__(self, transport: AsyncTransport, app: str, session_id: str) -> None:
        self._transport = transport
        self._at = {"app": app, "session_id": session_id}
        self.id = session_id
        self.files = AsyncFiles(transport, app, session_id)

    async def meta(self) -> sdk.SessionMeta:
        """Return the metadata that code and prompts see as `sessionMeta`."""
        return await self._transport.call("apps.sessions.get", dict(self._at))

    async def search(self, query: str, limit: int = 5, **conditions: Unpack[sdk.FileConditions]) -> sdk.Hits:
        """Search the active files; each hit names its file in `metadata`."""
        data = {**self._at, "query": query, "limit": limit, **omit_none(**conditions)}
        return await self._transport.call("apps.sessions.search", data)

    async def end(self, *, end_conversation: bool | None = None) -> sdk.EndedSession:
        """End the session, and delete its files and what was stored for its duration; see `AppSessions.end`."""
        return await self._transport.call("apps.sessions.end", self._at | omit_none(end_conversation=end_conversation))


class AsyncFiles(Handle):
    """The files of a session. The text of active files is searched; new files are active."""

    def __init__(self, transport: AsyncTransport, app: str, session_id: str) -> None:
        self._transport = transport
        self._at = {"app": app, "session_id": session_id}

    async def upload(
        self, file: str | Path | bytes, filename: str | None = None, **settings: Unpack[sdk.FileSettings]
    ) -> sdk.FileInfo:
        """Add a file by its path, or bytes with a file name. A file that is already stored is returned."""
        content, name = read_file(file, filename)
        data = {**self._at, "filename": name, "content": content, **omit_none(**settings)}
        return await self._transport.call("apps.files.upload", data)

    async def list(self) -> _Files:
        """List the files in the order of upload."""
        return (await self._transport.call("apps.files.list", dict(self._at))).files

    async def get(self, file_id: str) -> sdk.FileInfo:
        """Return the properties of a file."""
        return await self._transport.call("apps.files.get", self._of(file_id))

    async def read(self, file_id: str) -> bytes:
        """Return the bytes of a file."""
        return (await self._transport.call("apps.files.read", self._of(file_id))).content

    async def activate(self, file_id: str) -> sdk.FileInfo:
        """Activate a file: extract its text, so that it can be searched."""
        return await self._update(file_id, is_active=True)

    async def deactivate(self, file_id: str) -> sdk.FileInfo:
        """Deactivate a file: keep its bytes and erase its text."""
        return await self._update(file_id, is_active=False)

    async def delete(self, file_id: str) -> sdk.DeletedFile:
        """Delete a file with its text."""
        return await self._transport.call("apps.files.delete", self._of(file_id))

    async def _update(self, file_id: str, *, is_active: bool) -> sdk.FileInfo:
        data: Mapping[str, Any] = {**self._of(file_id), "is_active": is_active}
        return await self._transport.call("apps.files.update", dict(data))

    def _of(self, file_id: str) -> dict[str, Any]:
        return {**self._at, "file_id": file_id}
