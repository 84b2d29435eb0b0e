"""The newest turns of a user, across conversations."""

from __future__ import annotations

from ..model.collection import Place
from ..model.entry import Entry
from ..space import Space


def newest_first(
    space: Space, place: Place, session: str | None, before: list[int], limit: int
) -> list[tuple[str, Entry, int]]:
    """Turns across sessions, the newest first. A session is opened only when its turns can be among them."""
    found: list[tuple[str, Entry, int]] = []
    for address_id, path, last_seen_at in space.rows("recent_addresses", place):
        if session is not None and path != session:
            continue
        if len(found) == limit and found[-1][1].recorded_at > last_seen_at:
            break
        found += [(path, entry, address_id) for entry in _entries_before(space, address_id, before, limit)]
        found.sort(key=lambda hit: (hit[1].recorded_at, hit[2], hit[1].seq), reverse=True)
        del found[limit:]
    return found


def _entries_before(space: Space, address_id: int, before: list[int], limit: int) -> list[Entry]:
    at, before_address, before_seq = before
    rows = space.tx.rows(
        "last_entries_before",
        address_id=address_id,
        before=at,
        before_address=before_address,
        before_seq=before_seq,
        now=space.now,
        limit=limit,
    )
    return [Entry(*row) for row in rows]
