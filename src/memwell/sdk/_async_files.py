"""The Python API, awaited: one session of an app, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from ..facts.search import Hits
from ..files.files import DeletedFile, FileInfo
from ..records.app_sessions import EndedSession, SessionMeta
from .transport import AsyncTransport
from .types import FileConditions, FileSettings
from .values import omit_none, read_file

_Files = list[FileInfo]


class AsyncAppSession:
    """One session of an app: what was passed along with it, and its files."""

    def __init__(self, transport: AsyncTransport, app: str, session_id: str) -> None:
        self._transport = transport
        self._at = {"app": app, "session_id": session_id}
        self.id = session_id
        self.files = AsyncFiles(transport, app, session_id)

    async def meta(self) -> SessionMeta:
        """The metadata that code and prompts see as `sessionMeta`."""
        found: SessionMeta = await self._transport.call("apps.sessions.get", dict(self._at))
        return found

    async def search(self, query: str, limit: int = 5, **conditions: Unpack[FileConditions]) -> Hits:
        """Search the active files; each hit names its file in `metadata`."""
        data = {**self._at, "query": query, "limit": limit, **omit_none(**conditions)}
        found: Hits = await self._transport.call("apps.sessions.search", data)
        return found

    async def end(self) -> EndedSession:
        """End it: its files are gone, and what was to last as long as it."""
        ended: EndedSession = await self._transport.call("apps.sessions.end", dict(self._at))
        return ended


class AsyncFiles:
    """The files of a session. They begin active: their text is searched, as long as they are."""

    def __init__(self, transport: AsyncTransport, app: str, session_id: str) -> None:
        self._transport = transport
        self._at = {"app": app, "session_id": session_id}

    async def upload(
        self, file: str | Path | bytes, filename: str | None = None, **settings: Unpack[FileSettings]
    ) -> FileInfo:
        """Add a file by its path, or its bytes under a name. The same file again is the one that is there."""
        content, name = read_file(file, filename)
        data = {**self._at, "filename": name, "content": content, **omit_none(**settings)}
        added: FileInfo = await self._transport.call("apps.files.upload", data)
        return added

    async def list(self) -> _Files:
        """The files, in the order in which they came."""
        found: _Files = (await self._transport.call("apps.files.list", dict(self._at))).files
        return found

    async def get(self, file_id: str) -> FileInfo:
        """The properties of a file."""
        found: FileInfo = await self._transport.call("apps.files.get", self._of(file_id))
        return found

    async def read(self, file_id: str) -> bytes:
        """The bytes of a file."""
        content: bytes = (await self._transport.call("apps.files.read", self._of(file_id))).content
        return content

    async def activate(self, file_id: str) -> FileInfo:
        """Use a file again: its text is extracted again."""
        return await self._update(file_id, is_active=True)

    async def deactivate(self, file_id: str) -> FileInfo:
        """Keep a file and use it no more: its text is erased."""
        return await self._update(file_id, is_active=False)

    async def delete(self, file_id: str) -> DeletedFile:
        """Delete a file with its text, for good."""
        gone: DeletedFile = await self._transport.call("apps.files.delete", self._of(file_id))
        return gone

    async def _update(self, file_id: str, *, is_active: bool) -> FileInfo:
        data: Mapping[str, Any] = {**self._of(file_id), "is_active": is_active}
        changed: FileInfo = await self._transport.call("apps.files.update", dict(data))
        return changed

    def _of(self, file_id: str) -> dict[str, Any]:
        return {**self._at, "file_id": file_id}
