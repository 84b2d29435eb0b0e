"""Looking on at runs from the event loop: however many look on or wait for a run, none of them holds a thread.

A run of this process wakes whoever watches it. One of another process is read from the database now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ...dispatch import Call, dispatch
from ...model.principal import Principal
from ...registry import find
from ...workflow.live import Live
from ...workflow.run_operations import EventsOfRun, Happened
from ...workflow.running import runs_of

if TYPE_CHECKING:
    from .server import Server

ELSEWHERE_S = 0.5
"""How often a run of another process is looked at."""
LAST_S = 5.0
"""How much longer a server that is being stopped waits for a run to end."""


class Onlooker:
    """Looks on at one run, in the name of a principal."""

    def __init__(self, server: Server, principal: Principal, run_id: str) -> None:
        self._server, self._principal, self._run_id = server, principal, run_id

    async def first(self, after: int) -> Happened:
        """What has happened so far. Whether the principal may look on is decided here, and whoever watches reads sees it."""
        engine, data = self._server.engine, {"run": self._run_id, "after": after}
        return await self._server.in_thread(
            lambda: dispatch(engine, self._principal, find("runs.events"), data), patient=False
        )

    async def next(self, after: int, timeout_s: float) -> Happened:
        """What has happened after an event, as soon as something has, the time is up or the server is stopped."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        found = await self._found(after)
        while not (found.events or found.over or self._server.stopping.is_set()):
            left = until - clock()
            if left <= 0:
                break
            await self._change(after, left)
            found = await self._found(after)
        return found

    async def _found(self, after: int) -> Happened:
        live = self._live()
        if live is None:
            return await self._server.in_thread(lambda: self._read(after), patient=False)
        events, over = live.after(after, 0.0)
        return Happened(events=events, over=over)

    async def _change(self, after: int, timeout_s: float) -> None:
        """Until there may be something new."""
        live, stopping = self._live(), self._server.stopping
        if live is None:
            return await _first_of(min(timeout_s, ELSEWHERE_S), stopping)
        with _noticed(live) as happened:
            if live.after(after, 0.0) == ([], False):
                await _first_of(timeout_s, happened, stopping)
        return None

    def _live(self) -> Live | None:
        return runs_of(self._server.engine).live(self._run_id)

    def _read(self, after: int) -> Happened:
        operation = find("runs.events")
        call = Call(self._server.engine, self._principal, operation)
        found: Happened = operation.run(call, EventsOfRun(run=self._run_id, after=after))
        return found


async def ended(live: Live, stopping: asyncio.Event) -> bool:
    """Wait for the end of a run; False if the server ends first."""
    with _noticed(live, lambda: live.over) as over:
        if not live.over:
            await _first_of(None, over, stopping)
        if not live.over:
            await _first_of(LAST_S, over)
    return live.over


@contextmanager
def _noticed(live: Live, when: Callable[[], bool] = lambda: True) -> Iterator[asyncio.Event]:
    """Set on the event loop whenever something happens in a run."""
    loop, noticed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if when():
            with suppress(RuntimeError):  # the loop has ended, and with it whoever looked on
                loop.call_soon_threadsafe(noticed.set)

    with live.watched(wake):
        yield noticed


async def _first_of(timeout_s: float | None, *events: asyncio.Event) -> None:
    """Until one of them is set, or the time is up."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
