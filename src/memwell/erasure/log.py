"""The erasure log: one line for each erased address, collection, entry, document, run or file, so that a restored backup erases
it again.

A line is written in the transaction that hides the data. It holds only random numbers, generated ids or hashes of unique values,
so that it may stay after everything else is deleted. Expired data needs no line, because its rows have their expiry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from ..ids import derive_id
from ..storage.port import Tx, encode_numbers

Kind = Literal["address", "ended", "collection", "entry", "document", "run", "file"]
"""`ended`: an address that has expired; runs that touched it keep their data."""

KINDS = frozenset(get_args(Kind))
PAGE = 5000
_NUMBERED = frozenset({"address", "ended", "collection"})
_KIND = re.compile(r"[a-z]{1,32}")
_NUMBER = re.compile(r"[0-9]{1,19}")
_MARK = re.compile(r"[!-~]{1,256}")
_LARGEST = (1 << 63) - 1


class Line(NamedTuple):
    """One erasure. The same thing may be created and erased again, so the time is part of the line."""

    kind: str
    id: str
    at: int


def note(tx: Tx, kind: Kind, mark: str, now: int) -> None:
    """Log an erasure, in the transaction of the erasure."""
    tx.send("add_erasure", kind=kind, id=mark, at=now)


def note_addresses(tx: Tx, kind: Literal["address", "ended"], addresses: Iterable[int], now: int) -> None:
    """Log the erasure of some addresses."""
    tx.send("add_erasures", kind=kind, addresses=encode_numbers(addresses), at=now)


def list_lines(tx: Tx) -> list[Line]:
    """All lines of the log, in order."""
    lines: list[Line] = []
    after = 0
    while rows := tx.rows("page_erasure", after=after, limit=PAGE):
        lines += [Line(*row[1:]) for row in rows]
        after = rows[-1][0]
    return lines


def is_sound(line: Line) -> bool:
    """Return True if a line of a backup has a form that this version writes, or that a later version may write."""
    numbered = line.kind in _NUMBERED
    fits = (_NUMBER if numbered else _MARK).fullmatch(line.id) is not None
    within = 0 <= line.at <= _LARGEST and (not fits or not numbered or int(line.id) <= _LARGEST)
    return fits and within and _KIND.fullmatch(line.kind) is not None


def entry_mark(address_id: int, entry_id: str) -> str:
    """A hash for an entry. Its id may come from a client and reveal something, so it is combined with the random number of the
    address."""
    return derive_id("entry", str(address_id), entry_id)


def document_mark(kind: str, document_id: str, created_at: int) -> str:
    """A hash for a document. Its id may be a name that another document gets later, so the time of creation is part of it."""
    return derive_id("document", kind, document_id, str(created_at))
