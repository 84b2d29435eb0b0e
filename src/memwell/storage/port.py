"""What the engine asks of a database.

A `Store` runs functions inside transactions: `read` on a snapshot, `write` in a transaction that is durable when the call
returns. The function may be run more than once (a conflict, a lost connection), so it has no effect but through its `Tx`.
A `Tx` runs named queries and binds the tenant itself; passing one is an error. There is no default tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from ..errors import Conflict
from ..ids import derive_id

if TYPE_CHECKING:
    from ..model.filter import Filter
    from .blobs import Blobs

Row = tuple[Any, ...]
State = tuple[int, int]
"""The last number of an entry, and how often something was erased: an index in memory is current up to these."""
Rewrite = Literal["never", "small", "always"]
T = TypeVar("T")

BATCH_SIZE = 500
"""How many things a statement is about at most."""


class Tx(Protocol):
    """One transaction inside one tenant."""

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        """Run a query. A condition on metadata takes the place of the query's `/*filter*/`."""
        ...

    def row(self, query: str, /, **parameters: Any) -> Row | None: ...

    def run(self, query: str, /, **parameters: Any) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    def send(self, query: str, /, **parameters: Any) -> None:
        """Run a statement of which nobody asks what it did. Whatever comes next sees what it has written."""
        ...

    def number(self, query: str, /, **parameters: Any) -> int:
        """Write a row that gets a number, and return it. It is higher than any before and never given again."""
        ...

    def wake(self, at: int) -> None:
        """Once this is committed, let workers know that a job is due at that moment."""
        ...


class TenantStore:
    """One tenant's transactions: given to whoever works for a tenant and must not be able to choose another."""

    __slots__ = ("_store", "key")

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self.key = tenant

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._store.read(self.key, work)

    def write(self, work: Callable[[Tx], T]) -> T:
        return self._store.write(self.key, work)

    @property
    def blobs(self) -> Blobs:
        return self._store.blobs(self.key)


def search_state(tx: Tx) -> State:
    row = tx.row("search_state")
    return (int(row[0]), int(row[1])) if row else (0, 0)


class Control(Protocol):
    """What stands above the tenants: their list, the keys, the hints. Named queries of `system.sql`."""

    def rows(self, query: str, /, **parameters: Any) -> list[Row]: ...

    def write(self, *calls: tuple[str, dict[str, Any]]) -> int:
        """Run statements in one durable transaction and return how many rows the last one changed."""
        ...

    def hint(self, query: str, /, **parameters: Any) -> int:
        """Run a statement whose loss would do no harm, and return how many rows it changed."""
        ...

    def scrub(self) -> bool:
        """Make sure that no deleted byte is left behind."""
        ...

    @property
    def secret(self) -> bytes:
        """What key hashes are keyed with."""
        ...

    def renew(self) -> bool:
        """Look whether another process has put another secret in its place; True if so, and that is used from now on."""
        ...

    def adopt(self, secret: bytes) -> bool:
        """Use this secret from now on; False if there are keys already that another was used for."""
        ...


class Notifier(Protocol):
    """Messages between the processes that share a store: hints and read events. Best effort, never stored."""

    def publish(self, message: bytes) -> None: ...

    def listen(self) -> AbstractContextManager[Iterator[bytes | None]]:
        """An endless stream of messages; None comes when there was nothing for a while."""
        ...

    @property
    def is_watched(self) -> bool:
        """Whether anybody listens at all."""
        ...


class Store(Protocol):
    """A place where the memory of many tenants is kept."""

    @property
    def control(self) -> Control: ...

    @property
    def notifier(self) -> Notifier: ...

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        """`sole`: it is one statement as a rule, for which no transaction need be opened."""
        ...

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T: ...

    def blobs(self, tenant: str) -> Blobs:
        """The files of a tenant, by their digests."""
        ...

    def create(self, tenant: str) -> bool:
        """Make a tenant; False if it was there already."""
        ...

    def drop(self, tenant: str) -> bool:
        """Remove a tenant and every byte of it."""
        ...

    def scrub(self, tenant: str, rewrite: Rewrite = "never") -> bool:
        """Make sure that no deleted byte is left behind; False if somebody was in the way and it must be tried again.

        What a database leaves in the gaps of its pages goes only if it is written anew: `always`, or if it is `small`.
        """
        ...

    def residue(self, tenant: str, needles: list[bytes]) -> list[bytes]:
        """Which of these byte strings are still found in what the tenant's memory is kept in."""
        ...

    def tend(self, tenant: str) -> dict[str, int]:
        """Do what large collections need for being searched; returns what was done."""
        ...

    def check(self, tenant: str) -> list[str]:
        """What is damaged, in words; nothing if all is well."""
        ...

    def describe(self) -> dict[str, Any]:
        """For health checks: engine, version, durability."""
        ...

    def close(self) -> None: ...


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Items, as many at a time as a statement is about at most."""
    for at in range(0, len(items), BATCH_SIZE):
        yield items[at : at + BATCH_SIZE]


def encode_numbers(numbers: Iterable[int]) -> str:
    """Numbers as a query takes a list of them."""
    return "[" + ",".join(map(str, numbers)) + "]"


def require_absent(found: bool, tenant: str) -> None:
    """A tenant can only be moved to where there is none of its name."""
    if found:
        raise Conflict(f"There is a tenant {tenant} at the target already: delete it there, or move it elsewhere.")


def tenant_mark(tenant: str, created_at: int) -> str:
    """What stands for a tenant that was deleted; another of its name was made at another moment."""
    return derive_id("tenant", tenant, str(created_at))
