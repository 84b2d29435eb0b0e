"""What was erased, so that a restored backup can be told: one line for each address, collection, entry, document or run.

A line is written in the transaction that takes the thing out of sight. It names nothing: it holds random numbers, ids of our own
making, or hashes of what no two things share, so that it may stay when everything else is gone. Whatever goes because its time is
over needs no line; times are in the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from ..ids import derived_id
from ..storage.port import Tx, encode_numbers

Kind = Literal["address", "ended", "collection", "entry", "document", "run", "file"]
"""`ended`: an address that has come to its end, so that those who knew of it may keep what they know."""

KINDS = frozenset(get_args(Kind))
PAGE = 5000
_NUMBERED = frozenset({"address", "ended", "collection"})
_KIND = re.compile(r"[a-z]{1,32}")
_NUMBER = re.compile(r"[0-9]{1,19}")
_MARK = re.compile(r"[!-~]{1,256}")
_LARGEST = (1 << 63) - 1


class Line(NamedTuple):
    """One erasure. The same thing may be erased twice, if it was made again; the moment tells the two apart."""

    kind: str
    id: str
    at: int


def note(tx: Tx, kind: Kind, mark: str, now: int) -> None:
    """Note that something is gone, in the transaction in which it goes."""
    tx.send("add_erasure", kind=kind, id=mark, at=now)


def note_addresses(tx: Tx, kind: Literal["address", "ended"], addresses: Iterable[int], now: int) -> None:
    """The same for some addresses."""
    tx.send("add_erasures", kind=kind, addresses=encode_numbers(addresses), at=now)


def lines(tx: Tx) -> Iterator[Line]:
    """Everything that was ever erased, in order."""
    after = 0
    while rows := tx.rows("page_erasure", after=after, limit=PAGE):
        yield from (Line(*row[1:]) for row in rows)
        after = rows[-1][0]


def is_sound(line: Line) -> bool:
    """Whether a line from elsewhere has the form that one of ours has, or may have in a later version."""
    numbered = line.kind in _NUMBERED
    fits = (_NUMBER if numbered else _MARK).fullmatch(line.id) is not None
    within = 0 <= line.at <= _LARGEST and (not fits or not numbered or int(line.id) <= _LARGEST)
    return fits and within and _KIND.fullmatch(line.kind) is not None


def entry_mark(address_id: int, entry_id: str) -> str:
    """What stands for an entry. Its id may have come from outside and tell something; the address's number is random."""
    return derived_id("entry", str(address_id), entry_id)


def document_mark(kind: str, document_id: str, created_at: int) -> str:
    """What stands for a document. Its id may be a name, which another document may have later."""
    return derived_id("document", kind, document_id, str(created_at))
