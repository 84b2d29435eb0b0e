"""Transports: the SDK calls the engine in this process, or a server over HTTP."""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec.structs import replace

from .. import config as configuration
from ..core.access import Principal, Scope
from ..core.dispatch import dispatch
from ..core.engine import Engine
from ..core.events import Event, watch
from ..core.operation import to_request
from ..errors import Invalid, StorageError, Unsupported
from ..registry import open_engine, require_operation

if TYPE_CHECKING:
    from ..clock import Clock
    from ..config import Config

T = TypeVar("T")


_SERVER = re.compile(r"[\w.-]+:\d{1,5}(?:/.*)?")
"""A server address without its scheme, which would be taken for a directory."""
_forks = 0
"""Number of forks of this process. Every call checks it; asking the system for the process id would be slow."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Transport(Protocol):
    """Performs operations, in this process or over HTTP."""

    @property
    def place(self) -> str:
        """The directory, database or server, without its secrets."""
        ...

    def call(self, name: str, data: dict[str, Any], *, key: str | None = None) -> Any: ...

    def watch(self) -> Iterator[Event | None]: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """A `Transport` for async callers."""

    @property
    def place(self) -> str: ...

    async def call(self, name: str, data: dict[str, Any], *, key: str | None = None) -> Any: ...

    def watch(self) -> AsyncIterator[Event | None]: ...

    async def close(self) -> None: ...


class LocalTransport:
    """The engine in this process, for one tenant. The worker starts with the first call, unless it is off."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.principal = _local_principal(config.tenant)
        self.place = _name_place(config)
        self.engine = open_engine(config, clock)
        self._with_worker = config.worker
        self._finalizer = weakref.finalize(self, Engine.close, self.engine)
        self._lock = Lock()
        self._ready = False
        self._forks = _forks

    def call(self, name: str, data: dict[str, Any], *, key: str | None = None) -> Any:
        if not self._ready:
            self._prepare()
        if _forks != self._forks:
            raise StorageError("This memory was opened before the process forked: open a new one in the child.")
        return dispatch(self.engine, self.principal, require_operation(name), data, key=key)

    def limit_to(self, scope: Scope) -> None:
        """Limit this transport to one user or flow, like a scoped key."""
        self.principal = replace(self.principal, scope=scope)

    def watch(self) -> Iterator[Event | None]:
        self._prepare()
        return watch(self.engine, self.principal)

    def close(self) -> None:
        """Close the engine, after finishing erasures that the worker has not done yet."""
        if self._ready and self._with_worker and self._finalizer.alive and _forks == self._forks:
            self.engine.finish(self.principal.tenant)
        self._finalizer()

    def _prepare(self) -> None:
        """Create the tenant with its first use. A read-only directory can still be read."""
        with self._lock:
            if self._ready:
                return
            if not self.engine.store.control.rows("find_tenant", id=self.principal.tenant):
                self.engine.ensure_tenant(self.principal.tenant)
            if self._with_worker:
                self.engine.worker.start()
            self._ready = True


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    import asyncio  # imported here: it costs a third of `import memwell`, and synchronous callers do not need it

    return await asyncio.to_thread(work, *arguments)


def _close_stream(stream: Iterator[Any]) -> None:
    """Close a generator that another thread may still wait in for half a second."""
    while isinstance(stream, Generator):
        try:
            return stream.close()
        except ValueError:  # it is running
            time.sleep(0.05)


class AsyncLocalTransport:
    """The engine in this process, in threads."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.place = _name_place(config)
        self._config = config
        self._clock = clock
        self._lock = Lock()
        self._local: LocalTransport | None = None

    async def call(self, name: str, data: dict[str, Any], *, key: str | None = None) -> Any:
        return await _in_thread(self._call, name, data, key)

    async def watch(self) -> AsyncIterator[Event | None]:
        local = await _in_thread(self._open)
        stream = await _in_thread(local.watch)
        try:
            while True:
                yield await _in_thread(next, stream)
        finally:
            Thread(target=_close_stream, args=(stream,), daemon=True).start()

    async def close(self) -> None:
        if self._local is not None:
            await _in_thread(self._local.close)

    def _call(self, name: str, data: dict[str, Any], key: str | None) -> Any:
        return (self._local or self._open()).call(name, data, key=key)

    def _open(self) -> LocalTransport:
        with self._lock:
            if self._local is None:
                self._local = LocalTransport(self._config, self._clock)
            return self._local


def open_transport(
    target: str | Path | None, tenant: str | None, api_key: str | None, worker: bool | None, clock: Clock | None
) -> Transport:
    """Open a directory, a database or a URL."""
    config, url = _resolve(target, tenant, api_key, worker)
    if url is None:
        return LocalTransport(config, clock)
    from .http import HttpTransport

    return HttpTransport(url, config.api_key)


def open_async_transport(
    target: str | Path | None, tenant: str | None, api_key: str | None, worker: bool | None, clock: Clock | None
) -> AsyncTransport:
    """`open_transport` for async callers. A directory is opened by the first call, in a thread."""
    config, url = _resolve(target, tenant, api_key, worker)
    if url is None:
        return AsyncLocalTransport(config, clock)
    from .http import AsyncHttpTransport

    return AsyncHttpTransport(url, config.api_key)


def _resolve(
    target: str | Path | None, tenant: str | None, api_key: str | None, worker: bool | None
) -> tuple[Config, str | None]:
    config = configuration.load(tenant=tenant, api_key=api_key, worker=worker)
    text = config.url if target is None else str(target)
    if text.lower().startswith(("http://", "https://")):
        if tenant is not None:
            raise Invalid("Over HTTP the tenant comes from the API key: omit `tenant`.")
        return config, text
    if api_key is not None or (_SERVER.fullmatch(text) and not Path(text).exists()):
        problem = f"{text!r} is not the address of a server" if text else "No server is named"
        raise Invalid(f"{problem}: it must begin with http:// or https://. A directory needs no `api_key`.")
    if "://" in text and not text.startswith(("postgresql://", "postgres://")):
        raise Unsupported(
            f"{text.split('://')[0]}:// is not supported: give a directory, a postgresql:// address or an http URL."
        )
    return (config if target is None else configuration.load(home=text, tenant=tenant, worker=worker)), None


def _name_place(config: Config) -> str:
    place = config.home_without_password
    return place if config.tenant == "default" else f"{place}, tenant {config.tenant}"


def _local_principal(tenant: str) -> Principal:
    """An operator: access to the directory is the permission."""
    to_request(require_operation("tenants.create"), {"tenant": tenant})  # check the name
    return Principal(tenant, "operator", "local")
