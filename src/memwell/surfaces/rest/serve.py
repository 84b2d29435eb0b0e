"""Starting a server, and stopping it without losing anything."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from threading import Thread
from typing import Any

import uvicorn

from ...config import Config
from ...core.access import create_first_key
from ...core.engine import Engine
from ...errors import Invalid, MemwellError, Unavailable
from ...registry import open_engine
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


# -- Several server processes behind one address: `memwell serve --workers N`.
#
# The parent holds the listening socket and serves nobody. Its children share the socket and the store, so any of them may
# answer any request. One that dies is started again; when the parent ends, by whatever means, so do its children.


log = logging.getLogger("memwell.workers")

BACK_OFF_S = 1.0
"""A child that died is started again at most this often."""
END_S = 2 * GRACE_S + 5
"""How long a child may take to finish what is under way, and its job, before it is killed."""


def serve(
    config: Config, count: int, *, auth: bool, listener: socket.socket, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Keep so many servers running until a signal says that it is enough."""
    context = multiprocessing.get_context("spawn")

    def start() -> SpawnProcess:
        child = context.Process(target=_serve_child, args=(config, auth, listener), name="memwell-server")
        child.start()
        return child

    ending = _Ending()
    children: list[SpawnProcess] = []
    try:
        children.extend(start() for _ in range(count))
        on_ready()  # whoever connects now waits for the first of them
        while not ending.awaited([child.sentinel for child in children]):
            dead = [place for place, child in enumerate(children) if not child.is_alive()]
            _report([children[place] for place in dead])
            if dead and ending.awaited([], BACK_OFF_S):
                break
            for place in dead:
                children[place] = start()
    finally:
        listener.close()  # from now on nobody can connect who would not be answered
        _end(children)


class _Ending:
    """Tells when somebody has asked for the end."""

    def __init__(self) -> None:
        self._asked, self._ask = socket.socketpair()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ask.close())  # which can be read at the other end

    def awaited(self, sentinels: list[int], timeout_s: float | None = None) -> bool:
        """Wait for the end, for one of these processes to die, or for some time; True if it is the end."""
        return self._asked in wait([self._asked, *sentinels], timeout_s)


def _report(dead: list[SpawnProcess]) -> None:
    for child in dead:
        log.error("server.died", extra={"pid": child.pid, "code": child.exitcode})


def _end(children: list[SpawnProcess]) -> None:
    """Let everybody finish what is under way, and wait no longer than that may take."""
    for child in children:
        child.terminate()
    until = time.monotonic() + END_S
    for child in children:
        child.join(max(until - time.monotonic(), 0.1))
        if child.is_alive():
            child.kill()
            child.join()


def _serve_child(config: Config, auth: bool, listener: socket.socket) -> None:
    """One of the servers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells everybody; the parent sees to its children
    configure_logs(config.log_level)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_follow, args=(parent.sentinel,), name="memwell-parent", daemon=True).start()
    try:
        engine = open_engine(config)
    except MemwellError as error:
        log.error("server.failed", extra={"code": error.code, "reason": error.message})
        sys.exit(error.exit_code)
    run(engine, config, auth=auth, listener=listener)


def _follow(sentinel: int) -> None:
    """End with the parent, however it ends."""
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(END_S)
    os.kill(os.getpid(), signal.SIGKILL)
