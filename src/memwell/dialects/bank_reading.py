"""Reading a bank in order: entries and the summaries that stand for older ones, each in its place."""

from __future__ import annotations

from typing import Literal

from ..clock import to_datetime
from ..context.outputs import WINDOW, Shown, message, window
from ..model.bank import place
from ..model.collection import Address
from ..model.entry import Entry
from ..space import Space
from ..storage.port import Row
from .turns import to_metadata

Order = Literal["newest_first", "oldest_first"]
_NEWEST = 2**62


def key_address(space: Space, bank_id: str, key: str) -> Address | None:
    return space.address(place(bank_id), key)


def history(space: Space, address: Address, upto: int = _NEWEST) -> list[dict[str, str]]:
    """The newest messages of a key up to an entry, the oldest first: up to 100, from a place that moves in steps (C7)."""
    asked = {"address_id": address.id, "upto": upto, "now": space.now, "limit": WINDOW + 1}
    told = [(seq, 1, message(role, content)) for seq, role, content in space.tx.rows("last_said", **asked)]
    for position, entries, *row in space.tx.rows("summaries_down", folded=0, **asked):
        told.append((position, 0, message(None, Entry(*row).content, entries)))
    told.sort(key=lambda one: one[:2])
    last = told[-WINDOW:]
    start = window([position for position, _, _ in last], more=len(told) > WINDOW)
    return [said for _, _, said in last[start:]]


def load(space: Space, address: Address, order: Order, limit: int, *, folded: bool = False) -> list[Shown]:
    """Entries in order: the earliest with `oldest_first`, the latest with `newest_first`. `folded`: also those that are behind
    summaries."""
    down = order == "newest_first"
    asked = {"address_id": address.id, "now": space.now, "limit": limit, "folded": int(folded)}
    if down:
        rows = space.tx.rows("entries_down", before=_NEWEST, **asked)
        summaries = space.tx.rows("summaries_down", upto=_NEWEST, **asked)
    else:
        rows = space.tx.rows("entries_up", after=0, **asked)
        summaries = space.tx.rows("summaries_up", **asked)
    return merged([Entry(*row) for row in rows], summaries, down=down)[:limit]


def merged(entries: list[Entry], summaries: list[Row], *, down: bool) -> list[Shown]:
    """Entries and summaries in one order; a summary stands behind the last entry that it was made of."""
    told = [shown(one, one.seq) for one in entries]
    told += [shown(Entry(*row), position, of) for position, of, *row in summaries]
    return sorted(told, key=lambda one: (one.position, one.entries > 0), reverse=down)


def shown(entry: Entry, position: int, entries: int = 0) -> Shown:
    return Shown(
        entry.id,
        entry.content,
        to_datetime(entry.created_at),
        position,
        entry.role,
        to_metadata(entry.metadata),
        entries,
    )
