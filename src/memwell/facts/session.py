"""What is to be distilled: the turns of a session, and how facts will call those who speak in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import typed
from ..clock import to_datetime
from ..model.collection import Entry, Place
from ..storage.port import Tx
from .plan import Turn

MAX_TURNS = 1000
"""How many turns one plan is about at most."""
UNNAMED_USER = "The user"
_USER_FIELDS = ("user", "user_id", "user_name")
_TOOL_ORIGINS = ("tool", "document")
_decode_metadata = typed.decoder(dict[str, Any])


class Session(NamedTuple):
    """Where turns come from, and up to which of them it has been distilled."""

    address_id: int
    path: str
    last_seq: int
    distilled_seq: int
    collection_id: int
    dialect: str
    name: str

    @property
    def facts(self) -> Place:
        """Where what is known from it is kept."""
        return Place(self.dialect, self.name, "facts")


def find_session(tx: Tx, address_id: int) -> Session | None:
    """A session by its number; None if it is gone, or sealed."""
    row = tx.row("distilled_address", id=address_id)
    if row is None or row[6] or row[4] not in ("flow", "user"):
        return None
    return Session(address_id, row[0], row[1], row[2], row[3], row[4], row[5])


def next_turns(tx: Tx, session: Session, upto: int, now: int, limit: int = MAX_TURNS) -> list[Entry]:
    """The first turns that have not been distilled yet."""
    after, found = session.distilled_seq, session.address_id
    rows = tx.rows("next_entries", address_id=found, after=after, now=now, limit=limit)
    return [entry for entry in (Entry(*row) for row in rows) if entry.seq <= upto]


def to_turns(entries: Sequence[Entry], session: Session) -> list[Turn]:
    return [_to_turn(entry, session) for entry in entries if entry.content.strip()]


def _to_turn(entry: Entry, session: Session) -> Turn:
    role = "tool" if entry.origin in _TOOL_ORIGINS else entry.role or "user"
    speaker, known = _speaker(entry, role, session)
    day = to_datetime(entry.occurred_at).date()
    return Turn(entry.id, role, speaker, entry.content, day, known, entry.kind == "note")


def _speaker(entry: Entry, role: str, session: Session) -> tuple[str, bool]:
    """How facts name a speaker, and whether that is somebody in particular (C43)."""
    if entry.name:
        return _display_name(entry.name), True
    if role != "user":
        return f"The {role}", role == "assistant"
    if session.dialect == "user":
        return _display_name(session.name), True
    metadata = _decode_metadata(entry.metadata) if entry.metadata else {}
    given = next((metadata[name] for name in _USER_FIELDS if isinstance(metadata.get(name), str)), None)
    return (_display_name(given), True) if given else (UNNAMED_USER, False)


def _display_name(name: str) -> str:
    """A name as it is written in a sentence."""
    plain = " ".join(name.split())
    return plain.capitalize() if plain.isalpha() and plain.islower() else plain or UNNAMED_USER
