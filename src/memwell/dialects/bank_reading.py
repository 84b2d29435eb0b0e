"""Reading a bank in order: entries and the summaries that stand for older ones, each in its place."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal

from ..clock import to_datetime
from ..context.outputs import WINDOW, Shown, message, window
from ..model.bank import place
from ..model.collection import Address
from ..model.entry import Entry
from ..space import Space
from ..storage.port import Row, Tx
from .turns import to_metadata

Order = Literal["newest_first", "oldest_first"]
_NEWEST = 2**62
_FIELDS = len(Entry.__struct_fields__)


def key_address(space: Space, bank_id: str, key: str) -> Address | None:
    return space.address(place(bank_id), key)


def history(space: Space, address_id: int, upto: int = _NEWEST) -> list[dict[str, str]]:
    """The newest messages of a key up to an entry, the oldest first: up to 100, from a place that moves in steps (C7)."""
    told = _told(space, address_id, upto, WINDOW + 1)
    told.reverse()
    last = told[-WINDOW:]
    start = window([row[0] for row in last], more=len(told) > WINDOW)
    return [message(role, content, entries) for _, role, content, entries in last[start:]]


def load_messages(space: Space, address_id: int, order: Order, limit: int) -> list[dict[str, str]]:
    """What a key shows as messages: the earliest with `oldest_first`, the latest with `newest_first`."""
    down = order == "newest_first"
    told = _told(space, address_id, _NEWEST, limit) if down else _first_told(space, address_id, limit)
    return [message(role, content, entries) for _, role, content, entries in told[:limit]]


def messages_upto(space: Space, address_id: int, upto: int, limit: int) -> list[dict[str, str]]:
    """The newest messages of a key up to an entry, so many, the oldest first."""
    told = _told(space, address_id, upto, limit)[:limit]
    return [message(role, content, entries) for _, role, content, entries in reversed(told)]


def load(space: Space, address: Address, order: Order, limit: int, *, folded: bool = False) -> list[Shown]:
    """Entries in order: the earliest with `oldest_first`, the latest with `newest_first`. `folded`: also those that are behind
    summaries."""
    down = order == "newest_first"
    asked = {"address_id": address.id, "now": space.now, "limit": limit}
    rows, summaries = _every(space.tx, down, asked) if folded else _shown(space.tx, down, asked)
    return _merged(rows, summaries, down=down)[:limit]


def _merged(entries: list[Row], summaries: list[Row], *, down: bool) -> list[Shown]:
    """Entries and summaries in one order; a summary stands behind the last entry that it was made of."""
    placed = [(one.seq, one) for one in (_from_row(row, 0) for row in entries)]
    placed += [(position, _from_row(row, of)) for position, of, *row in summaries]
    placed.sort(key=lambda pair: (pair[0], pair[1].entries > 0), reverse=down)
    return [one for _, one in placed]


def _from_row(row: Sequence[Any], entries: int) -> Shown:
    """From the columns of an entry, and the summary that it is behind if that was asked for."""
    return shown(Entry(*row[:_FIELDS]), entries, *row[_FIELDS:])


def shown(entry: Entry, entries: int = 0, behind: str | None = None) -> Shown:
    return Shown(
        entry.id,
        entry.content,
        to_datetime(entry.created_at),
        entry.seq,
        entry.role,
        to_metadata(entry.metadata),
        entries,
        behind,
    )


# -- rows ----------------------------------------------------------------------------------------------------------------


def _told(space: Space, address_id: int, upto: int, limit: int) -> list[Row]:
    """Place, role, words and how many entries they stand for, of turns and summaries alike, the latest first."""
    asked = {"address_id": address_id, "upto": upto, "now": space.now, "limit": limit}
    turns, summaries = space.tx.rows("last_said", **asked), space.tx.rows("shown_summaries_down", **asked)
    return _together(turns, summaries, down=True)


def _first_told(space: Space, address_id: int, limit: int) -> list[Row]:
    """The same, the earliest first."""
    asked = {"address_id": address_id, "now": space.now, "limit": limit}
    turns, summaries = space.tx.rows("first_said", **asked), space.tx.rows("shown_summaries_up", **asked)
    return _together(turns, summaries, down=False)


def _together(turns: list[Row], summaries: list[Row], *, down: bool) -> list[Row]:
    if not summaries:
        return turns
    told = [(position, None, Entry(*row).content, entries) for position, entries, *row in summaries]
    return sorted(turns + told, key=itemgetter(0), reverse=down)


def _shown(tx: Tx, down: bool, asked: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """The entries of a key that are behind no summary, and its summaries that are not."""
    if down:
        return tx.rows("entries_down", **asked), tx.rows("shown_summaries_down", upto=_NEWEST, **asked)
    return tx.rows("entries_up", **asked), tx.rows("shown_summaries_up", **asked)


def _every(tx: Tx, down: bool, asked: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """All entries of a key and all its summaries."""
    if down:
        return tx.rows("every_entry_down", **asked), tx.rows("summaries_down", **asked)
    return tx.rows("every_entry_up", **asked), tx.rows("summaries_up", **asked)
