"""A thread that carries events from the engine, which waits for them, to a stream on the event loop."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import CancelledError
from threading import Event as Flag
from threading import Thread

from ...engine import Engine
from ...errors import MemwellError
from ...model.principal import Principal
from ...watch import Event, watch

log = logging.getLogger("memwell.rest")

QUEUE = 100


class Pump:
    """One stream's thread. It ends within half a second of being stopped."""

    def __init__(self, engine: Engine, principal: Principal, after: int | None) -> None:
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE)
        self._loop = asyncio.get_running_loop()
        self._stopped = Flag()
        self._thread = Thread(target=self._run, args=(engine, principal, after), name="memwell-events", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Called on the event loop when nobody listens any more: what is queued goes, so that the thread can go on."""
        self._stopped.set()
        while not self.queue.empty():
            self.queue.get_nowait()

    def join(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self, engine: Engine, principal: Principal, after: int | None) -> None:
        try:
            for event in watch(engine, principal, after):
                if self._stopped.is_set():
                    return
                self._put(event)
        except (CancelledError, RuntimeError):  # the event loop has ended
            return
        except MemwellError as error:
            log.warning("events.failed", extra={"code": error.code})

    def _put(self, event: Event | None) -> None:
        placed = asyncio.run_coroutine_threadsafe(self.queue.put(event), self._loop)
        while not self._stopped.is_set():
            try:
                return placed.result(0.5)
            except TimeoutError:
                continue
        placed.cancel()
        return None
