"""What all dialects with sessions share: listing them, erasing them, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..clock import optional_datetime, to_datetime
from ..lifecycle.erase import bury
from ..model.collection import Place
from ..model.page import cut, from_cursor, to_cursor
from ..operation import Response
from ..space import Space
from ..storage.port import Row

NEWEST = 2**62


class SessionInfo(Response, frozen=True, kw_only=True):
    """A session at a glance."""

    session: str
    turns: int
    created_at: datetime
    last_active_at: datetime
    ended_at: datetime | None = None


class Sessions(Response, frozen=True, kw_only=True):
    """Sessions, the newest first."""

    sessions: list[SessionInfo]
    next_cursor: str | None = None


class Erasure(Response, frozen=True, kw_only=True):
    """What was asked to be erased. It is out of sight already; the job erases its bytes and holds the receipt."""

    job: str
    sessions: int


def list_sessions(space: Space, place: Place, cursor: str | None, limit: int, *, ended: bool = True) -> Sessions:
    before, before_id = from_cursor("sessions", cursor, NEWEST, NEWEST)
    rows = space.rows("list_addresses", place, before=before, before_id=before_id, ended=int(ended), limit=limit + 1)
    page, further = cut(rows, limit, lambda row: to_cursor("sessions", row[1], row[4]))
    sessions = [
        SessionInfo(
            session=path,
            turns=entries,
            created_at=to_datetime(created_at),
            last_active_at=to_datetime(last_seen_at),
            ended_at=optional_datetime(ended_at),
        )
        for path, created_at, last_seen_at, ended_at, _, entries in page
    ]
    return Sessions(sessions=sessions, next_cursor=further)


def list_names(space: Space, dialect: str, cursor: str | None, limit: int) -> tuple[Sequence[Row], str | None]:
    """The names under which a dialect holds something, with how many sessions each has and when it was last used."""
    (after,) = from_cursor(dialect, cursor, "")
    rows = space.tx.rows("list_collections", dialect=dialect, after=after, now=space.now, limit=limit + 1)
    return cut(rows, limit, lambda row: to_cursor(dialect, row[0]))


def erase_addresses(space: Space, addresses: Sequence[Row]) -> Erasure:
    """Bury addresses (id, collection, kind) and say so in events."""
    for address_id, collection_id, _ in addresses:
        space.touch(collection_id, address_id)
    job = bury(space.tx, addresses, space.now)
    return Erasure(job=job, sessions=sum(row[2] == "timeline" for row in addresses))


def erase_name(space: Space, dialect: str, name: str) -> Erasure:
    """Bury everything that a dialect holds under a name, and the name."""
    erasure = erase_addresses(space, space.tx.rows("addresses_of_name", dialect=dialect, name=name))
    for (collection_id,) in space.tx.rows("collections_of_name", dialect=dialect, name=name):
        space.tx.run("delete_collection", id=collection_id)
    return erasure
