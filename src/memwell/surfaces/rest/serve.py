"""Start a server in one or several processes, and stop it without losing requests.

With several processes, the parent holds the listening socket and answers no requests. Its children share the socket and the
store, so each of them can answer any request. The parent restarts a child that dies. If the parent ends, its children end too.
"""

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
from functools import partial
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
from .app import Server
from .connections import Connection, Connections, count_allowed
from .origin import is_loopback

log = logging.getLogger("memwell.workers")

GRACE_S = 10
RESTART_DELAY_S = 1.0
SWITCH_S = 0.0005
"""A thread that computes lets others go on after this time. The default, ten times as long, is felt by every small request."""
STOP_TIMEOUT_S = 2 * GRACE_S + 5
"""Time for a child to finish its requests and its job before it is killed."""
_LOG_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A log line as JSON: an event and ids, never content."""

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
    """Create an operator's key for the default tenant if there is no key yet. Raise if the secret of the keys is lost."""
    engine.ensure_tenant(config.tenant)
    _ = engine.store.control.secret
    if engine.store.control.rows("count_keys")[0][0]:
        return None
    return create_first_key(engine.store.control, config.tenant, engine.clock.now())


class Runner(uvicorn.Server):
    """A uvicorn server that ends open streams at shutdown. It would otherwise wait for them."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._memwell = server

    async def shutdown(self, sockets: Any = None) -> None:
        self._memwell.stopping.set()
        await super().shutdown(sockets)


def bind(config: Config) -> socket.socket:
    """Open the listening socket. Call it before `first_key`: if the server could not start, the first key would be lost."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Otherwise the second packet of an answer waits 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(2048)
        return listener
    except OSError as error:
        listener.close()
        problem = f"{config.host}:{config.port} cannot be bound ({error.strerror})"
        raise Unavailable(f"{problem}: choose another with --port or --host.") from error


def run(
    engine: Engine, config: Config, *, auth: bool, listener: socket.socket, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until stopped by a signal. Open requests are finished."""
    require_auth(config, auth)
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(engine, config, auth, listener, on_ready))


def require_auth(config: Config, auth: bool) -> None:
    if not auth and not is_loopback(config.host):
        raise Invalid("--no-auth needs a loopback address: bind 127.0.0.1, or use keys.")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop if it is installed: it sends an answer in one packet, not two."""
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
    signal.signal(signal.SIGTERM, runner.handle_exit)  # uvicorn raises it again, which would kill the process
    task = asyncio.create_task(runner.serve(sockets=[listener]))
    while not runner.started and not task.done():
        await asyncio.sleep(0.01)
    if not task.done():
        on_ready()
    try:
        await task
    finally:  # wait a while for the current job; one that is cut off is repeated after its lease
        closing = Thread(target=server.close, name="memwell-close", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, GRACE_S)


def uvicorn_config(server: Server) -> uvicorn.Config:
    return uvicorn.Config(
        server,
        http=partial(Connection, Connections(count_allowed())),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )


def serve_with_workers(
    config: Config, count: int, *, auth: bool, listener: socket.socket, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Keep `count` server processes running until a signal stops them."""
    context = multiprocessing.get_context("spawn")

    def start() -> SpawnProcess:
        child = context.Process(target=_serve_child, args=(config, auth, listener), name="memwell-server")
        child.start()
        return child

    stop = _StopSignal()
    children: list[SpawnProcess] = []
    try:
        children.extend(start() for _ in range(count))
        on_ready()  # connections wait in the socket for the first child
        while not stop.wait([child.sentinel for child in children]):
            dead = [place for place, child in enumerate(children) if not child.is_alive()]
            for place in dead:
                log.error("server.died", extra={"pid": children[place].pid, "code": children[place].exitcode})
            if dead and stop.wait([], RESTART_DELAY_S):
                break
            for place in dead:
                children[place] = start()
    finally:
        listener.close()  # refuse connections, because no process is left to answer them
        for child in children:
            child.terminate()
        until = time.monotonic() + STOP_TIMEOUT_S
        for child in children:
            child.join(max(until - time.monotonic(), 0.1))
            if child.is_alive():
                child.kill()
                child.join()


class _StopSignal:
    """Turns SIGTERM and SIGINT into an object that `wait` accepts together with processes."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._writer.close())  # the other end becomes readable

    def wait(self, sentinels: list[int], timeout_s: float | None = None) -> bool:
        """Wait for the signal, for the death of a process, or for some time; return True for the signal."""
        return self._reader in wait([self._reader, *sentinels], timeout_s)


def _serve_child(config: Config, auth: bool, listener: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal signals all processes; the parent stops its children
    configure_logs(config.log_level)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with_parent, args=(parent.sentinel,), name="memwell-parent", daemon=True).start()
    try:
        engine = open_engine(config)
    except MemwellError as error:
        log.error("server.failed", extra={"code": error.code, "reason": error.message})
        sys.exit(error.exit_code)
    run(engine, config, auth=auth, listener=listener)


def _end_with_parent(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_TIMEOUT_S)
    os.kill(os.getpid(), signal.SIGKILL)
