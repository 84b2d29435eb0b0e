"""Dispatch, the one path of every call: authorise it, look for a stored answer, run the operation, and record its event.

Surfaces authenticate the caller and pass the principal, the operation and its data. There is no other way to an operation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, TypeVarTuple

import msgspec

from .. import typed
from ..clock import DAY
from ..errors import Erased, Invalid, KeyReused
from ..jobs import queue
from ..model.fields import check_idempotency_key
from ..storage.port import batches
from .access import Principal, authorise
from .events import publish_read, publish_write
from .operation import Operation, to_request

if TYPE_CHECKING:
    from ..storage.blobs import Blobs
    from .engine import Engine
    from .space import Space

T = TypeVar("T")
Given = TypeVarTuple("Given")

KEEP_ANSWERS = DAY
UNTIL = b"@"


class Call:
    """One call of an operation by a principal, inside one tenant. With a mark it runs only once."""

    def __init__(
        self, engine: Engine, principal: Principal, operation: Operation, mark: tuple[bytes, bytes] | None = None
    ) -> None:
        self.engine = engine
        self.principal = principal
        self._operation = operation
        self._mark = mark

    def read(self, work: Callable[[Space, *Given], T], *given: *Given) -> T:
        return self.engine.read(self.principal, work, *given)

    def write(self, work: Callable[[Space, *Given], T], *given: *Given) -> T:
        """Do the work and store its event and its answer, in one transaction."""
        result: T = self.engine.write(self.principal, self._perform, work, given)
        if self.engine.store.notifier.is_watched:
            publish_write(self.engine, self.principal)
        return result

    def find_answer(self) -> Any:
        """Return the stored answer to the same request; None if it is new. For operations that need it before a transaction."""
        return self.read(self._find_answer)

    @property
    def blobs(self) -> Blobs:
        """The files of the principal's tenant."""
        return self.engine.store.blobs(self.principal.tenant)

    def record(self) -> None:
        """Store the event alone, for an operation above the tenants, whose answer is not stored."""
        self.engine.write(self.principal, self._tell)
        if self.engine.store.notifier.is_watched:
            publish_write(self.engine, self.principal)

    def _perform(self, space: Space, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        answer = self._find_answer(space)
        if answer is not None:
            return answer
        result = work(space, *given)
        if self._mark is not None and (space.touched or self._operation.owner is None):
            # An answer that names an address without touching it is not stored: it could not be erased with the address.
            _remember(space, self._mark, result, names_entries=self._operation.effect != "erase")
        self._tell(space)
        return result

    def _find_answer(self, space: Space) -> Any:
        if self._mark is None:
            return None
        found = space.tx.row("find_idempotency", key_hash=self._mark[0], now=space.now)
        return None if found is None else _answer_again(self._operation, self._mark, space.now, *found)

    def _tell(self, space: Space) -> None:
        """Store one event per address that got entries; if none did, per address that was touched; otherwise one in all."""
        touched = list(space.touched.values())
        changed = [one for one in touched if one.entries] or touched
        events = [_Event(*one[:3]) for one in changed] or [_Event(None, None, 0)]
        common = {"at": space.now, "operation": self._operation.name, "actor": self.principal.actor}
        if len(events) == 1:
            space.tx.send("add_event", **common, **events[0]._asdict())
            return
        for some in batches(events):
            space.tx.send("add_events", **common, changed=msgspec.json.encode(some).decode())


def dispatch(
    engine: Engine,
    principal: Principal,
    operation: Operation,
    data: dict[str, Any],
    *,
    key: str | None = None,
    strict: bool = True,
) -> Any:
    """Run an operation for a principal. With an idempotency key, the same request runs only once."""
    try:
        request = to_request(operation, data, strict=strict)
        authorise(principal, operation, request)
        if key is None and operation.plain:
            result = engine.read(principal, operation.run, request, sole=operation.sole)
        else:
            call = Call(
                engine, principal, operation, None if key is None else _mark(principal, operation, request, key)
            )
            if operation.outside:
                result = operation.run(call, request)
            else:
                result = (call.write if operation.writes else call.read)(operation.run, request)
        if operation.effect == "read" and engine.store.notifier.is_watched:
            publish_read(engine, principal, operation, request, result)
        return result
    except RecursionError:
        raise Invalid("The request is nested too deeply.") from None
    except UnicodeEncodeError:
        raise Invalid("The request is not valid Unicode: it holds half of a surrogate pair.") from None


class _Event(NamedTuple):
    """The place of a change, as an event stores it."""

    collection_id: int | None
    address_id: int | None
    entries: int


def _mark(principal: Principal, operation: Operation, request: msgspec.Struct, key: str) -> tuple[bytes, bytes]:
    """Hash the key and the request: a key may hold a name, and names must be erasable. Scoped principals get their own
    idempotency namespace, because the scope supplies fields that the request omits."""
    check_idempotency_key(key)
    if not operation.repeatable:
        raise Invalid(f"`{operation.name}` cannot carry an Idempotency-Key: its answer is not stored.")
    body = msgspec.json.encode(request, order="deterministic")
    scope = b"" if principal.scope is None else msgspec.json.encode(principal.scope)
    return _digest(operation.name.encode(), key.encode(), scope), _digest(operation.name.encode(), body)


def mark_once(operation: Operation, what: str) -> tuple[bytes, bytes]:
    """Return the mark of work that is done once, even if requests for it differ in other fields."""
    digest = _digest(operation.name.encode(), b"once", what.encode())
    return digest, digest


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\x00".join(parts), digest_size=20).digest()


def _answer_again(
    operation: Operation, mark: tuple[bytes, bytes], now: int, request_hash: bytes | None, response: bytes | None
) -> Any:
    if request_hash is None or response is None:
        raise Erased
    if request_hash != mark[1]:
        raise KeyReused
    if response.startswith(UNTIL):
        until, _, response = response[len(UNTIL) :].partition(b" ")
        if int(until) <= now:  # the data that it describes has expired and is not written again
            raise Erased
    return typed.decode(response, operation.response)


def _remember(space: Space, mark: tuple[bytes, bytes], result: Any, *, names_entries: bool) -> None:
    """Store the answer for retries, with the addresses that it mentions, so that it is erased together with them."""
    expires_at = space.now + KEEP_ANSWERS
    # The prefix of an answer that expires earlier. No JSON begins with it.
    until = b"" if space.answers_until is None else UNTIL + b"%d " % space.answers_until
    space.tx.send(
        "add_idempotency",
        key_hash=mark[0],
        request_hash=mark[1],
        response=until + msgspec.json.encode(result),
        expires_at=expires_at,
    )
    for touched in space.touched.values() if names_entries else ():
        space.tx.send(
            "add_idempotency_touch", address_id=touched.address_id, entry_id=touched.entry_id, key_hash=mark[0]
        )
    queue.ensure_slot(space.tx, "expire", expires_at, space.now)
