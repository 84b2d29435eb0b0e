"""Starting a server, and stopping it without losing anything."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import uvicorn

from ...access import create_first_key
from ...config import Config
from ...engine import Engine
from ...errors import Invalid, Unavailable
from .server import LOOPBACK, Server

GRACE_S = 10
_LOG_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A log line: what happened, and ids; never content."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _LOG_FIELDS}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logs(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("uvicorn.access", "uvicorn.error", "httpx", "httpx2", "openai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def first_key(engine: Engine, config: Config) -> str | None:
    """An operator's key for the default tenant, if there is no key yet. It is shown once."""
    engine.ensure_tenant(config.tenant)
    if engine.store.control.rows("count_keys")[0][0]:
        return None
    return create_first_key(engine.store.control, config.tenant, engine.clock.now())


class Runner(uvicorn.Server):
    """Tells open streams to end before it waits for them."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._memwell = server

    async def shutdown(self, sockets: Any = None) -> None:
        self._memwell.stopping.set()
        await super().shutdown(sockets)


def bind(config: Config) -> socket.socket:
    """The listening socket. It comes first: a key that is made for a server that cannot start would be lost."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer waits 40 ms for its second packet
    try:
        listener.bind((config.host, config.port))
        listener.listen(2048)
        return listener
    except OSError as error:
        listener.close()
        where = f"{config.host}:{config.port}"
        raise Unavailable(
            f"{where} cannot be bound ({error.strerror}): choose another with --port or --host."
        ) from error


def run(
    engine: Engine, config: Config, *, auth: bool, listener: socket.socket, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until stopped by a signal; requests under way are finished."""
    require_auth(config, auth)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(engine, config, auth, listener, on_ready))


def require_auth(config: Config, auth: bool) -> None:
    if not auth and config.host not in LOOPBACK:
        raise Invalid("--no-auth works on this machine's own address only: bind 127.0.0.1 or use keys.")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where there is one: it answers with one packet where the standard loop sends two."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(
    engine: Engine, config: Config, auth: bool, listener: socket.socket, on_ready: Callable[[], None]
) -> None:
    server = Server(engine, config, auth=auth)
    if config.worker:
        engine.worker.start()
    runner = Runner(uvicorn_config(server), server)
    signal.signal(signal.SIGTERM, runner.handle_exit)  # uvicorn raises it again: by default, that would be the end
    task = asyncio.create_task(runner.serve(sockets=[listener]))
    while not runner.started and not task.done():
        await asyncio.sleep(0.01)
    if not task.done():
        on_ready()
    try:
        await task
    finally:
        await asyncio.to_thread(_close, server)


def _close(server: Server) -> None:
    """Finish the job at hand, if it does not take too long: one that is cut off goes on when its lease has ended."""
    closing = Thread(target=server.close, name="memwell-close", daemon=True)
    closing.start()
    closing.join(GRACE_S)


def uvicorn_config(server: Server) -> uvicorn.Config:
    return uvicorn.Config(
        server,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        limit_concurrency=2048,
    )
