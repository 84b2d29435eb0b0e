"""A thread that carries events from the engine, which waits for them, to a stream on the event loop."""

from __future__ import annotations

import asyncio
import logging
from threading import Event as Flag
from threading import Semaphore, Thread

from ...engine import Engine
from ...errors import MemwellError
from ...model.principal import Principal
from ...watch import Event, watch

log = logging.getLogger("memwell.rest")

QUEUE = 100
LOOK_EVERY_S = 0.5


class End:
    """What comes last, if the events end before the stream does."""


class Pump:
    """One stream's thread. It ends within half a second of being stopped."""

    def __init__(self, engine: Engine, principal: Principal, after: int | None) -> None:
        self._queue: asyncio.Queue[Event | End | None] = asyncio.Queue()
        self._room = Semaphore(QUEUE)
        self._loop = asyncio.get_running_loop()
        self._stopped = Flag()
        self._thread = Thread(target=self._run, args=(engine, principal, after), name="memwell-events", daemon=True)
        self._thread.start()

    async def get(self) -> Event | End | None:
        """The next event; None when there was none for a while."""
        event = await self._queue.get()
        self._room.release()
        return event

    def stop(self) -> None:
        self._stopped.set()

    def join(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self, engine: Engine, principal: Principal, after: int | None) -> None:
        try:
            for event in watch(engine, principal, after):
                if not self._put(event):
                    return
        except MemwellError as error:
            log.warning("events.failed", extra={"code": error.code})
            self._put(End())

    def _put(self, event: Event | End | None) -> bool:
        """Hand an event over, as soon as there is room; False if nobody listens any more."""
        while not self._room.acquire(timeout=LOOK_EVERY_S):
            if self._stopped.is_set():
                return False
        if self._stopped.is_set():
            return False
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
        except RuntimeError:  # the event loop has ended
            return False
        return True
