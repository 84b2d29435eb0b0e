"""Places for what takes memory or time: so many in all, and for one tenant so few that others find some."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from ...errors import Unavailable


class Shares:
    def __init__(self, in_all: int, each: int) -> None:
        self._all = Semaphore(in_all)
        self._each = each
        self._own: WeakValueDictionary[str, Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, tenant: str, *, wait: bool = True) -> AsyncIterator[None]:
        """Hold a place. Whoever does not wait is told to come back if there is none."""
        own = self._own.setdefault(tenant, Semaphore(self._each))
        if not wait and (own.locked() or self._all.locked()):
            raise Unavailable("Too many files are under way: try again in a moment.", retry_after_s=5)
        async with own, self._all:
            yield
