"""A real server in a thread of the test, on a free port of 127.0.0.1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import uvicorn.server

from memwell import config
from memwell.clock import Clock
from memwell.core.engine import Engine
from memwell.registry import open_engine
from memwell.surfaces.rest.app import Server
from memwell.surfaces.rest.serve import Runner, bind, first_key, loop_factory, uvicorn_config

from .engines import Memory, located
from .waiting import wait_until


@dataclass
class Live:
    """A running server and its first key."""

    url: str
    key: str
    engine: Engine
    server: Server

    def memory(self, key: str | None = None) -> Memory:
        return Memory(self.url, api_key=key or self.key)

    def client(self, key: str | None = None) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {key or self.key}"})


class Prompt:
    """asyncio as uvicorn sees it, which sleeps for a tenth of a second until it is to stop, once more for its connections
    to end, and again while there are any. A thousand tests need not wait for that."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(min(delay_s, 0.01))


vars(uvicorn.server)["asyncio"] = Prompt()


@contextmanager
def live(
    home: str | Path, *, auth: bool = True, clock: Clock | None = None, worker: bool = True, **settings: Any
) -> Iterator[Live]:
    settings = {"rate_limit": 0, **settings}
    configured = config.load(home=located(home), worker=worker, **settings)
    engine = open_engine(configured, clock)
    key = first_key(engine, configured) or "" if auth else ""
    engine.ensure_tenant(configured.tenant)
    listener = bind(replace(configured, host="127.0.0.1", port=0))
    ready: list[tuple[uvicorn.Server, Server]] = []

    async def serve() -> None:
        server = Server(engine, configured, auth=auth)
        runner = Runner(uvicorn_config(server), server)
        ready.append((runner, server))
        await runner.serve(sockets=[listener])
        server.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as loop:
            loop.run(serve())

    thread = Thread(target=run, daemon=True)
    thread.start()
    if worker:
        engine.worker.start()
    wait_until(lambda: ready and ready[0][0].started, "the server did not start")
    try:
        yield Live(f"http://127.0.0.1:{listener.getsockname()[1]}", key, engine, ready[0][1])
    finally:
        ready[0][0].should_exit = True
        thread.join(20)
        listener.close()
