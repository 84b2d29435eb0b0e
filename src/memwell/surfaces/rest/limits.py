"""Limits of requests: their time, the size of their bodies, the threads that work on them, and each tenant's share."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from asyncio import Semaphore
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import inspect
from starlette.types import Message, Receive

from ...core.access import Principal
from ...core.operation import Operation
from ...errors import Invalid, MemwellError, TooLarge, Unavailable
from .responses import to_failure

_TIME_IS_UP = "time is up"


class TimeLimit:
    """Cancels the current task when its time is up. The client then gets `answer`, which the task may replace by a better one."""

    def __init__(self, seconds: float, operation: Operation) -> None:
        advice = ". It may still be done: check before you repeat it."
        if not operation.writes:
            advice = ": try again."
        elif operation.repeatable:
            advice = ". It may still be done: repeat it with the same Idempotency-Key."
        self.answer = to_failure(Unavailable(f"The request took too long{advice}"))
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cancel)

    def lift(self) -> None:
        self._timer.cancel()

    def has_caused(self, error: asyncio.CancelledError) -> bool:
        """Return True if this limit cancelled the task, which can then go on to answer."""
        if self._task is None or _TIME_IS_UP not in error.args:
            return False
        self._task.uncancel()
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel(_TIME_IS_UP)


def declared_size(headers: dict[bytes, bytes], limit: int) -> int:
    """Return the size of the body that a request announces, or the limit if it announces none. Reject more than the limit."""
    length = headers.get(b"content-length")
    if length is None:
        return limit if b"transfer-encoding" in headers else 0
    if not length.isdigit() or int(length) > limit:
        raise too_large(limit)
    return int(length)


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request is larger than {limit} bytes.", limit=limit)


async def read_body(
    receive: Receive,
    headers: dict[bytes, bytes],
    limit: int,
    when_large: Callable[[int], Awaitable[object]] | None = None,
) -> bytes:
    """Read the body up to the limit. Count the bytes, because the header may be wrong. Before a large body is read on, wait for
    `when_large` with its size; the rest must then come at a steady pace."""
    declared = declared_size(headers, limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request was cut off.")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            parts.clear()  # the error and its traceback hold this frame until the next collection
            raise too_large(limit)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        if size > LARGE_BODY and when_large is not None:
            await when_large(declared)
            receive, when_large = PacedReceive(receive, LARGE_PACE, LARGE_GRACE_S), None


class PacedReceive:
    """Receives a body at a minimal pace in bytes per second: each received byte extends the time limit."""

    def __init__(self, receive: Receive, pace: int, grace_s: float) -> None:
        self._receive = receive
        self._pace = pace
        self._until = asyncio.get_running_loop().time() + grace_s

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            advice = "Nothing was stored: try again on a faster connection, or with less at a time."
            raise Unavailable(f"The body comes too slowly. {advice}") from None
        self._until += len(message.get("body", b"")) / self._pace
        return message


MAX_NODES = 100_000
"""Values in the JSON of a body. They cost time and memory out of proportion to their bytes."""


def decode_json(body: bytes) -> Any:
    """Decode the JSON of a body. Count its values first."""
    check_values(body, MAX_NODES)
    try:
        return msgspec.json.decode(body) if body else {}
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Invalid(f"The body is not valid JSON: {error}.") from None


def check_values(body: bytes, limit: int) -> None:
    """Reject a JSON text with more values than a limit."""
    rough = sum(body.count(mark) for mark in _MARKS) + 1  # also counts inside strings
    if rough > limit and any(count > limit for count in count_values(body)):
        raise TooLarge(f"The body has more than {limit} values: send it in several requests.", limit=limit)


def count_values(body: bytes) -> Iterator[int]:
    """Count the values in a JSON text, piece by piece: yield how many there are so far."""
    import numpy as np  # searching loads it anyway, reading records does not

    data = np.frombuffer(body.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    count, inside = 1, False
    for start in range(0, len(data), _CHUNK):
        piece = data[start : start + _CHUNK]
        quotes = np.bitwise_xor.accumulate(piece == _QUOTE) ^ inside
        count += int(np.count_nonzero(np.isin(piece, _MARK_CODES) & ~quotes))
        inside = bool(quotes[-1])
        yield count


_MARKS = (b",", b"[", b"{")
_MARK_CODES = [mark[0] for mark in _MARKS]
_QUOTE = ord('"')
_CHUNK = 1 << 18

LARGE_BODY = 1 << 18
"""Larger bodies have budgets of memory and threads of their own."""
LARGE_BYTES, LARGE_TENANT_BYTES, LARGE_KEY_BYTES = 3 << 24, 1 << 25, 1 << 24
LARGE_PACE, LARGE_GRACE_S = 1 << 20, 2.0
LARGE_THREADS = 2


_Places = tuple[tuple[str, ...], ...]
"""A tenant, and one of its keys."""


class ByteBudget:
    """Bytes that large bodies hold at a time, in all, per tenant and per key. Those who wait take turns."""

    def __init__(self, total: int, per_tenant: int, per_key: int, on_idle: Callable[[], object]) -> None:
        self._total = self._free = total
        self._limits = (min(per_tenant, total), min(per_key, per_tenant, total))
        self._on_idle = on_idle
        self._held: Counter[tuple[str, ...]] = Counter()
        self._waiting: deque[tuple[_Places, int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, tenant: str, key: str, size: int) -> AsyncIterator[None]:
        size, places = min(size, *self._limits), ((tenant,), (tenant, key))
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((places, size, granted))
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release(places, size)
            raise
        try:
            yield
        finally:
            self._release(places, size)

    def _grant(self) -> None:
        """Grant in order, but let no tenant that has its share keep others waiting."""
        left: deque[tuple[_Places, int, asyncio.Future[None]]] = deque()
        while self._waiting:
            places, size, granted = self._waiting.popleft()
            if granted.done():
                continue
            if any(self._held[place] + size > most for place, most in zip(places, self._limits, strict=True)):
                left.append((places, size, granted))
            elif size > self._free:
                left.append((places, size, granted))
                break
            else:
                self._free -= size
                self._held.update(dict.fromkeys(places, size))
                granted.set_result(None)
        self._waiting.extendleft(reversed(left))

    def _release(self, places: _Places, size: int) -> None:
        self._free += size
        self._held.subtract(dict.fromkeys(places, size))
        self._held += Counter()  # drops zeros
        if self._free == self._total:
            self._on_idle()
        self._grant()


def release_memory() -> None:
    """Return freed memory to the system. The allocator of glibc would keep what large bodies have used."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def largest_body(operation: Operation, limit: int) -> int:
    """Return how many bytes the body of an operation can have: what its fields allow, in JSON with every character escaped and
    with white space, and never more than the limit."""
    if operation.method in ("GET", "DELETE"):
        return min(limit, _SLACK)
    return min(limit, _largest_request(operation.request) + _SLACK)


_SLACK = 4096
_ESCAPED, _ESCAPED_BYTE = 12, 6
"""The bytes of a character as JSON at most, an escaped surrogate pair, and those of a byte of UTF-8."""
_SPACE = 64
"""White space and punctuation around a value."""
_UNLIMITED = 1 << 40


@cache
def _largest_request(kind: type[msgspec.Struct]) -> int:
    return _largest(inspect.type_info(kind))


def _largest(kind: Any) -> int:
    """Return how many bytes of JSON a value of a type has at most."""
    match kind:
        case inspect.Metadata(type=inner, extra={"bytes": size}):
            return int(size) * _ESCAPED_BYTE
        case inspect.Metadata(type=inner):
            return _largest(inner)
        case inspect.StructType(fields=fields):
            return sum(len(field.encode_name) * _ESCAPED + _SPACE + _largest(field.type) for field in fields)
        case inspect.UnionType(types=types):
            return max(map(_largest, types))
        case inspect.StrType(max_length=int(length)):
            return length * _ESCAPED
        case inspect.LiteralType(values=values):
            return max(len(str(value)) for value in values) * _ESCAPED
        case (
            inspect.ListType(item_type=item, max_length=int(length))
            | inspect.VarTupleType(item_type=item, max_length=int(length))
        ):
            return length * (_largest(item) + _SPACE)
        case inspect.DictType(key_type=key, value_type=value, max_length=int(length)):
            return length * (_largest(key) + _largest(value) + _SPACE)
        case inspect.IntType() | inspect.FloatType() | inspect.BoolType() | inspect.NoneType() | inspect.DateTimeType():
            return 64
    return _UNLIMITED


class TenantQuota:
    """A limited number of slots. Each tenant, and each of its keys, can hold only a few of them."""

    def __init__(self, total: int, per_tenant: int, per_key: int) -> None:
        self._all = Semaphore(total)
        self._limits = (per_tenant, per_key)
        self._own: WeakValueDictionary[tuple[str, ...], Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, tenant: str, key: str = "", *, wait: bool = True) -> AsyncIterator[None]:
        """Hold a slot. Without `wait`, raise Unavailable if there is none."""
        places = ((tenant,), (tenant, key))
        of_tenant, of_key = (
            self._own.setdefault(place, Semaphore(limit)) for place, limit in zip(places, self._limits, strict=True)
        )
        if not wait and (of_key.locked() or of_tenant.locked() or self._all.locked()):
            raise Unavailable("Too many files are being transferred: try again in a moment.", retry_after_s=5)
        async with of_key, of_tenant, self._all:
            yield


class StreamQuota:
    """A limited number of event streams, in all, per tenant and per key."""

    def __init__(self, total: int, per_tenant: int, per_key: int) -> None:
        self._limits = (total, per_tenant, per_key)
        self._open: Counter[tuple[str, ...]] = Counter()

    def __len__(self) -> int:
        return self._open[()]

    @contextmanager
    def hold(self, principal: Principal) -> Iterator[None]:
        places = ((), (principal.tenant,), (principal.tenant, principal.actor))
        for place, limit, what in zip(places, self._limits, ("", " of this tenant", " of this key"), strict=True):
            if self._open[place] >= limit:
                raise Unavailable(f"There are {limit} streams{what} open: try again when one has ended.")
        self._open.update(places)
        try:
            yield
        finally:
            self._open.subtract(places)
            self._open += Counter()  # drops zeros


T = TypeVar("T")

_Job = tuple[Callable[[], T], "asyncio.Future[T]", str]
"""Work, its future result, and its tenant."""


class ThreadPool(Generic[T]):
    """A bounded number of threads, started on demand, in which the work of tenants takes turns. Leaner than an executor: one
    queue in, one callback on the event loop out. Only the event loop changes its counts."""

    def __init__(self, limit: int, name: str, *, share: int | None = None, most_pending: int | None = None) -> None:
        """Let each tenant have a share of the threads, and at most so much work that is pending."""
        self._limit = limit
        self._name = name
        self._share = share or limit
        self._most_pending = most_pending
        self._jobs: SimpleQueue[_Job[T] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[_Job[T]]] = {}
        self._busy = 0

    def run(self, work: Callable[[], T], tenant: str = "") -> asyncio.Future[T]:
        """Start work and return its future result. Cancelling the future does not stop work that has begun."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(tenant)
        if self._most_pending is not None and self._running[tenant] + len(queue or ()) >= self._most_pending:
            raise Unavailable("Too many requests are being processed: try again in a moment.")
        job: _Job[T] = (work, loop.create_future(), tenant)
        if self._may_start(tenant):
            self._start(job, loop)
        elif queue is None:
            self._queues[tenant] = deque([job])
        else:
            queue.append(job)
        return job[1]

    def _may_start(self, tenant: str) -> bool:
        return self._busy < self._limit and self._running[tenant] < self._share

    def _start(self, job: _Job[T], loop: asyncio.AbstractEventLoop) -> None:
        self._busy += 1
        self._running[job[2]] += 1
        if self._busy > len(self._threads):
            thread = Thread(target=self._work, args=(loop,), name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put(job)

    def _start_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the work of the tenant that has waited longest since its turn."""
        for tenant in [*self._queues]:
            if self._busy >= self._limit:
                return
            if self._running[tenant] >= self._share:
                continue
            queue = self._queues.pop(tenant)
            while queue and queue[0][1].done():  # nobody waits for it any more
                queue.popleft()
            if queue:
                self._start(queue.popleft(), loop)
            if queue:
                self._queues[tenant] = queue  # its next turn comes after the others

    def close(self) -> None:
        """Finish the work that has begun, and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            work, future, tenant = job
            try:
                self._report(loop, tenant, future.set_result, future, work())
            except BaseException as error:  # noqa: BLE001 -- the caller gets it, and the thread goes on
                if not isinstance(error, Exception):
                    error = MemwellError(f"The request ended with {type(error).__name__}.")
                self._report(loop, tenant, future.set_exception, future, error)
            del job, work, future  # they may hold a large body

    def _report(
        self,
        loop: asyncio.AbstractEventLoop,
        tenant: str,
        finish: Callable[[Any], None],
        future: asyncio.Future[T],
        outcome: Any,
    ) -> None:
        try:
            loop.call_soon_threadsafe(self._finish, loop, tenant, finish, future, outcome)
        except RuntimeError:  # the event loop has ended
            return

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        tenant: str,
        finish: Callable[[Any], None],
        future: asyncio.Future[T],
        outcome: Any,
    ) -> None:
        self._busy -= 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        if not future.done():
            finish(outcome)
        if self._queues:
            self._start_next(loop)
