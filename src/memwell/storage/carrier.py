"""Taking tenants out of a store and bringing them in as a whole, for backups. What is carried has the form of a directory.

A tenant that is brought in exists for nobody until it is admitted; one that is there already is replaced in one step. Whatever
others do meanwhile comes before that step or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import Corrupted, NotFound
from .blobs import Blobs
from .port import Store, Tx

if TYPE_CHECKING:
    from .sqlite import SqliteStore

Agree = Callable[[Tx], bool]
"""Asked while nobody can write: whether a tenant may be replaced as it stands."""
PAGE = 1000


class Arrival(NamedTuple):
    """A tenant that comes from elsewhere, and what it takes along. `place` and `number` are its carrier's own."""

    tenant: str
    created_at: int
    keys: Sequence[dict[str, Any]] = ()
    place: Path | None = None
    number: int = 0


class Carrier(Protocol):
    """How a store is copied from and filled."""

    def take(self, tenant: str, target: SqliteStore) -> list[str]:
        """Copy a tenant as it is now into another store, while others write. Returns which of its files are lost."""
        ...

    def bring(self, arrival: Arrival, source: SqliteStore, blobs: Blobs) -> Arrival:
        """Copy a tenant from another store to where nobody sees it."""
        ...

    def admit(self, arrivals: Sequence[Arrival]) -> None:
        """Let all of them exist that were brought, or none."""
        ...

    def leave(self) -> None:
        """Clear away what was brought and not admitted."""
        ...

    def replace(self, tenant: str, source: SqliteStore, blobs: Blobs, agree: Agree) -> bool:
        """Put another in the place of a tenant, if what is there now may go; False if it may not."""
        ...


class Carrying(Store, Protocol):
    """A store that can be backed up and restored."""

    @property
    def carrier(self) -> Carrier: ...


def digests(tx: Tx) -> Iterator[str]:
    """The files that rows name."""
    after = ""
    while rows := tx.rows("page_digests", after=after, limit=PAGE):
        yield from (row[1] for row in rows)
        after = rows[-1][0]


def carry(source: Blobs, target: Blobs, wanted: Iterable[str]) -> list[str]:
    """Copy the files that the target lacks. Returns those that are not there, or damaged."""
    lost = []
    for digest in wanted:
        if not target.has(digest):
            try:
                target.put(source.get(digest))
            except (NotFound, Corrupted):
                lost.append(digest)
    return lost
