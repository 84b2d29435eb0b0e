"""Dispatch, the one path of every call: authorise it, look for a stored answer, run the operation, and record its event.

Surfaces authenticate the caller and pass the principal, the operation and its data. There is no other way to an operation.
"""

from __future__ import annotations

import hashlib
import operator
import os
import time
from collections.abc import Callable
from functools import cache
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
from .operation import Awaited, Operation, to_request

if TYPE_CHECKING:
    from ..jobs.queue import StoredJob
    from ..storage.blobs import Blobs
    from .engine import Engine
    from .space import Space

T = TypeVar("T")
Given = TypeVarTuple("Given")

KEEP_ANSWERS = DAY
UNTIL = b"@"
SEALED = b"#"
"""The prefix of a sealed answer. No JSON begins with it."""
NONCE = 16


class Mark(NamedTuple):
    """The mark of a request that runs once: hashes of its key and of itself, and a secret that seals the answers of erasures.
    Only the sender of the request knows the secret."""

    key_hash: bytes
    request_hash: bytes
    secret: bytes


class Call:
    """One call of an operation by a principal, inside one tenant. With a mark it runs only once."""

    def __init__(self, engine: Engine, principal: Principal, operation: Operation, mark: Mark | None = None) -> None:
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
        return None if self._mark is None else self.read(self._find_answer)

    def without_mark(self) -> Call:
        """Return a call for further writes of the operation, whose answers are not stored."""
        return Call(self.engine, self.principal, self._operation)

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
        if self._mark is not None and (space.touched or space.mentioned or self._operation.owner is None):
            # An answer that names an address without touching it is not stored: it could not be erased with the address.
            _remember(space, self._mark, result, erases=self._operation.effect == "erase")
        job = getattr(result, "job", None)
        if self.principal.scope is not None and isinstance(job, str):
            queue.share(space.tx, job, self.principal.scope.digest)
        self._tell(space)
        return result

    def _find_answer(self, space: Space) -> Any:
        if self._mark is None:
            return None
        found = space.tx.row("find_idempotency", key_hash=self._mark.key_hash, now=space.now)
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


class Pending:
    """The rest of a call that waits for a job. It holds no transaction."""

    def __init__(self, call: Call, awaited: Awaited, publish: Callable[[Any], None]) -> None:
        self.timeout_s = awaited.timeout_s
        self._call = call
        self._awaited = awaited
        self._publish = publish

    def poll(self) -> StoredJob | None:
        """Return the job, None if it is gone. Due jobs of the tenant run before if there is no worker."""
        self._call.engine.help_out(self._call.principal.tenant)
        return self._call.read(lambda space: queue.find(space.tx, self._awaited.job))

    def complete(self, job: StoredJob | None) -> Any:
        """Return the answer of the call."""
        result = self._awaited.answer(self._call, job)
        self._publish(result)
        return result

    def wait(self) -> Any:
        """Wait in this thread until the job has ended or the time is up, and return the answer."""
        deadline = time.monotonic() + self.timeout_s
        pause = 0.005
        while True:
            job = self.poll()
            left = deadline - time.monotonic()
            if job is None or job.is_over or left <= 0:
                return self.complete(job)
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.25)


def dispatch(
    engine: Engine,
    principal: Principal,
    operation: Operation,
    data: dict[str, Any],
    *,
    key: str | None = None,
    strict: bool = True,
    wait: bool = True,
) -> Any:
    """Run an operation for a principal. With an idempotency key, the same request runs only once. Without `wait`, an operation
    that waits for a job returns the rest of the call as `Pending`."""
    try:
        request = to_request(operation, data, strict=strict, zone=engine.zone)
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

        def publish(result: Any) -> None:
            if operation.effect == "read" and engine.store.notifier.is_watched:
                publish_read(engine, principal, operation, request, result)

        if operation.awaits is not None and (awaited := operation.awaits(request, result)) is not None:
            pending = Pending(Call(engine, principal, operation), awaited, publish)
            return pending.wait() if wait else pending
        publish(result)
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


def _mark(principal: Principal, operation: Operation, request: msgspec.Struct, key: str) -> Mark:
    """Hash the key and the request: a key may hold a name, and names must be erasable. Scoped principals get their own
    idempotency namespace, because the scope supplies fields that the request omits."""
    check_idempotency_key(key)
    if not operation.repeatable:
        raise Invalid(f"`{operation.name}` cannot carry an Idempotency-Key: its answer is not stored.")
    body = msgspec.json.encode(_list_given(request), order="deterministic")
    scope = b"" if principal.scope is None else msgspec.json.encode(principal.scope)
    name = operation.name.encode()
    return Mark(
        _digest(name, key.encode(), scope), _digest(name, body), _digest(name, b"secret", key.encode(), scope, body)
    )


def _list_given(value: Any) -> Any:
    """Return a request without the fields that are omitted, so that a field of a later version does not change it."""
    if isinstance(value, msgspec.Struct):
        pairs = ((field, getattr(value, field.name)) for field in _list_fields(type(value)))
        return {field.name: _list_given(one) for field, one in pairs if one is not field.default}
    return [_list_given(one) for one in value] if isinstance(value, list) else value


@cache
def _list_fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def mark_once(operation: Operation, what: str) -> Mark:
    """Return the mark of work that is done once, even if requests for it differ in other fields."""
    name = operation.name.encode()
    digest = _digest(name, b"once", what.encode())
    return Mark(digest, digest, _digest(name, b"secret", what.encode()))


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"\x00".join(parts), digest_size=20).digest()


def _seal(text: bytes, secret: bytes, nonce: bytes) -> bytes:
    """Make a text unreadable without the secret, or readable again."""
    stream = hashlib.shake_256(secret + nonce).digest(len(text))
    return bytes(map(operator.xor, text, stream))


def _answer_again(
    operation: Operation, mark: Mark, now: int, request_hash: bytes | None, response: bytes | None
) -> Any:
    if request_hash is None or response is None:
        raise Erased
    if request_hash != mark.request_hash:
        raise KeyReused
    if response.startswith(UNTIL):
        until, _, response = response[len(UNTIL) :].partition(b" ")
        if int(until) <= now:  # the data that it describes has expired and is not written again
            raise Erased
    if response.startswith(SEALED):
        nonce, sealed = response[len(SEALED) : len(SEALED) + NONCE], response[len(SEALED) + NONCE :]
        response = _seal(sealed, mark.secret, nonce)
    return typed.decode(response, operation.stored)


def _remember(space: Space, mark: Mark, result: Any, *, erases: bool) -> None:
    """Store the answer for retries, with the addresses, documents and runs that it mentions, so that it is erased together with
    them. The answer of an erasure outlives what it names, so it is sealed."""
    expires_at = space.now + KEEP_ANSWERS
    # The prefix of an answer that expires earlier. No JSON begins with it.
    until = b"" if space.answers_until is None else UNTIL + b"%d " % space.answers_until
    response = msgspec.json.encode(result)
    if erases:
        nonce = os.urandom(NONCE)
        response = SEALED + nonce + _seal(response, mark.secret, nonce)
    space.tx.send(
        "add_idempotency",
        key_hash=mark.key_hash,
        request_hash=mark.request_hash,
        response=until + response,
        expires_at=expires_at,
    )
    if not erases:
        touched = {one.address_id: one.entry_id for one in space.touched.values()}
        for address_id, entry_id in (dict.fromkeys(space.mentioned, "") | touched).items():
            space.tx.send("add_idempotency_touch", address_id=address_id, entry_id=entry_id, key_hash=mark.key_hash)
    queue.ensure_slot(space.tx, "expire", expires_at, space.now)
