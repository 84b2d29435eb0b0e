"""The live stream of events.

Write events are read from the database: they are exact, and can be read again from any sequence number. Read events come from the
notifier, are never stored, and may be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .. import typed
from ..clock import to_datetime

if TYPE_CHECKING:
    from ..storage.port import Row, Tx
    from .access import Principal
    from .engine import Engine
    from .operation import Operation

PAGE = 500


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A read or a write. It names the place, and never holds content."""

    operation: str
    effect: Literal["read", "write"]
    at: datetime
    actor: str
    seq: int | None = None
    dialect: str | None = None
    name: str | None = None
    session: str | None = None
    entries: int = 0
    details: dict[str, Any] = {}
    """Names and reasons from the response of a read; see `tells` of `operation`."""


class _Message(msgspec.Struct):
    """A message of the notifier: a read event, or a hint that something was written."""

    tenant: str
    event: Event | None = None


_decode = typed.decoder(_Message)


def publish_write(engine: Engine, principal: Principal) -> None:
    """Notify watchers of a write."""
    engine.store.notifier.publish(msgspec.json.encode(_Message(principal.tenant)))


def publish_read(engine: Engine, principal: Principal, operation: Operation, request: Any, result: Any) -> None:
    """Send a read event to the watchers."""
    event = Event(
        operation=operation.name,
        effect="read",
        at=to_datetime(engine.clock.now()),
        actor=principal.actor,
        dialect=operation.owner or operation.group,
        name=getattr(request, operation.owner, None) if operation.owner else None,
        session=getattr(request, "session", None) or getattr(request, "session_id", None),
        details=operation.tells(result) if operation.tells else {},
    )
    engine.store.notifier.publish(msgspec.json.encode(_Message(principal.tenant, event)))


def watch(engine: Engine, principal: Principal, after: int | None = None) -> Iterator[Event | None]:
    """Stream the events of a tenant without end. If there are none, it yields None at intervals."""
    with engine.store.notifier.listen() as messages:
        seen = engine.store.read(principal.tenant, _last) if after is None else after
        yield None
        for raw in messages:
            message = None if raw is None else _decode_message(raw)
            if message is not None and message.tenant != principal.tenant:
                continue
            if message is not None and message.event is not None:
                if _visible(message.event, principal):
                    yield message.event
                continue
            for event in events_after(engine, principal, seen):
                seen = event.seq or seen
                if _visible(event, principal):
                    yield event
            if raw is None:
                yield None


def events_after(engine: Engine, principal: Principal, seq: int) -> list[Event]:
    rows = engine.store.read(principal.tenant, lambda tx: tx.rows("list_events", after=seq, limit=PAGE))
    return [to_event(row) for row in rows]


def to_event(row: Row) -> Event:
    seq, at, operation, actor, entries, dialect, name, session = row
    return Event(
        operation=operation,
        effect="write",
        at=to_datetime(at),
        actor=actor,
        seq=seq,
        dialect=dialect,
        name=name,
        session=session or None,
        entries=entries,
    )


def _last(tx: Tx) -> int:
    row = tx.row("last_event")
    return int(row[0]) if row else 0


def _decode_message(raw: bytes) -> _Message | None:
    try:
        return _decode(raw)
    except msgspec.DecodeError:
        return None


def _visible(event: Event, principal: Principal) -> bool:
    scope = principal.scope
    return scope is None or (event.dialect == scope.kind and event.name == scope.name)
