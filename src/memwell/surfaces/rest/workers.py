"""Several server processes behind one address: `memwell serve --workers N`.

The parent holds the listening socket and serves nobody. Its children share the socket and the store, so any of them may
answer any request. One that dies is started again; when the parent ends, by whatever means, so do its children.
"""

from __future__ import annotations

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

from ...config import Config
from ...engine import Engine
from ...errors import MemwellError
from .serve import GRACE_S, configure_logs, run

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
        child = context.Process(target=_serve, args=(config, auth, listener), name="memwell-server")
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


def _serve(config: Config, auth: bool, listener: socket.socket) -> None:
    """One of the servers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells everybody; the parent sees to its children
    configure_logs(config.log_level)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_follow, args=(parent.sentinel,), name="memwell-parent", daemon=True).start()
    try:
        engine = Engine.open(config)
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
