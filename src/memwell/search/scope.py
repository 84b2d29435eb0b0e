"""Where a query looks: the stored collections and addresses that its words stand for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .. import typed
from ..model.collection import Place, Policy
from ..model.query import Where
from ..storage.port import Row, Tx
from . import words

_decode_policy = lru_cache(256)(typed.decoder(Policy))


class ScopePart(NamedTuple):
    """A part of the scope as it is stored: a whole collection, or one address."""

    collection: bool
    id: int
    kinds: tuple[str, ...] | None
    language: str

    @property
    def token(self) -> str:
        """What the index of words knows it by."""
        return f"{words.COLLECTION if self.collection else words.ADDRESS}{self.id:x}"

    def holds(self, address_id: int, collection_id: int, kind: str) -> bool:
        inside = self.id == (collection_id if self.collection else address_id)
        return inside and (self.kinds is None or kind in self.kinds)


def resolve_scope(tx: Tx, where: Sequence[Where], now: int) -> list[ScopePart]:
    """What exists of a scope. Sealed collections are in no search."""
    known: dict[Place, Row | None] = {}
    return [span for one in where if (span := _resolve_part(tx, one, now, known)) is not None]


def _resolve_part(tx: Tx, where: Where, now: int, known: dict[Place, Row | None]) -> ScopePart | None:
    place = where.place
    if place.sealed:
        return None
    if place not in known:
        known[place] = tx.row("find_collection", dialect=place.dialect, name=place.name, kind=place.kind)
    found = known[place]
    if found is None:
        return None
    language = _decode_policy(found[1]).language
    if where.path is None:
        return ScopePart(True, found[0], where.kinds, language)
    address: Row | None = tx.row(
        "find_address", dialect=place.dialect, name=place.name, kind=place.kind, path=where.path, now=now
    )
    return None if address is None else ScopePart(False, address[0], where.kinds, language)
