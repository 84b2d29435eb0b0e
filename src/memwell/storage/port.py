"""The storage port: the protocols that every storage engine implements.

A `Store` runs functions inside transactions: `read` on a snapshot, `write` in a transaction that is durable when the call
returns. A function may run more than once (after a conflict or a lost connection), so it must have no effect except through
its `Tx`. A `Tx` runs named queries and binds the tenant itself; passing one is an error. There is no default tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from ..errors import Conflict
from ..ids import derive_id

if TYPE_CHECKING:
    from ..model.filter import Filter
    from .blobs import Blobs
    from .notifier import Notifier

Row = tuple[Any, ...]
State = tuple[int, int]
"""The last number of an entry, and the number of erasures. An index in memory is current up to these."""
Rewrite = Literal["never", "small", "always"]
T = TypeVar("T")

BATCH_SIZE = 500
"""Largest number of items for one statement."""
FILTER = "/*filter*/"
"""The placeholder in a query for a condition on metadata."""
SECRET_BYTES = 32
ALL = 10_000_000
"""Limit for a query whose rows are all needed."""
TENANT_IS_BOUND = "the tenant is bound by the transaction, not by its caller"


class Remains(NamedTuple):
    """A place where erased bytes stay for some time, and until when."""

    place: str
    until: str


class Tx(Protocol):
    """One transaction inside one tenant."""

    def rows(self, query: str, condition: Filter | None = None, /, **parameters: Any) -> list[Row]:
        """Run a query. A condition on metadata replaces its `/*filter*/`."""
        ...

    def row(self, query: str, /, **parameters: Any) -> Row | None:
        """Run a query and return its first row."""
        ...

    def run(self, query: str, /, **parameters: Any) -> int:
        """Run a statement and return the number of rows that it changed."""
        ...

    def send(self, query: str, /, **parameters: Any) -> None:
        """Run a statement without waiting for its result. Later statements see its changes."""
        ...

    def number(self, query: str, /, **parameters: Any) -> int:
        """Insert a row with the next number of an entry, and return the number. Numbers rise and are never reused."""
        ...

    def wake(self, at: int) -> None:
        """After the commit, tell workers that a job is due at that time."""
        ...


class TenantStore:
    """The transactions of one tenant, for code that must not be able to choose another."""

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
    """Data above the tenants: their list, the API keys, the hints. It runs the queries of `system.sql`."""

    def rows(self, query: str, /, **parameters: Any) -> list[Row]: ...

    def write(self, *calls: tuple[str, dict[str, Any]]) -> int:
        """Run statements in one durable transaction and return the number of rows that the last one changed."""
        ...

    def hint(self, query: str, /, **parameters: Any) -> int:
        """Run a statement whose loss would do no harm. Return the number of rows that it changed."""
        ...

    def scrub(self) -> bool:
        """Remove the last traces of deleted data."""
        ...

    @property
    def secret(self) -> bytes:
        """The secret with which API keys are hashed."""
        ...

    def renew(self) -> bool:
        """Read the secret again. Return True if another process has changed it."""
        ...

    def adopt(self, secret: bytes) -> bool:
        """Use this secret from now on. Return False if there are API keys that were hashed with another secret."""
        ...


class Store(Protocol):
    """A place where the memory of many tenants is stored."""

    @property
    def control(self) -> Control: ...

    @property
    def notifier(self) -> Notifier: ...

    def read(self, tenant: str, work: Callable[[Tx], T], sole: bool = False) -> T:
        """Run work on a snapshot. `sole`: it is usually a single statement, which needs no transaction."""
        ...

    def write(self, tenant: str, work: Callable[[Tx], T]) -> T:
        """Run work in a transaction, and return once it is durable."""
        ...

    def blobs(self, tenant: str) -> Blobs: ...

    def create(self, tenant: str) -> bool:
        """Create a tenant. Return False if it exists."""
        ...

    def drop(self, tenant: str) -> bool:
        """Delete a tenant and every byte of it."""
        ...

    def scrub(self, tenant: str, rewrite: Rewrite = "never") -> bool:
        """Remove the last traces of deleted data. Return False if a reader prevented it and it must be tried again.

        Traces in the gaps of pages only disappear if the database is rewritten: `always`, or if it is `small`.
        """
        ...

    def find_remains(self, tenant: str) -> list[Remains]:
        """List the places where erased bytes stay after the last `scrub`, and until when."""
        ...

    def count_stale_pages(self, tenant: str) -> tuple[int, int] | None:
        """Look at the stored pages. Return how many there are, and how many have bytes of deleted data. None if that is not
        permitted."""
        ...

    def residue(self, tenant: str, needles: list[bytes]) -> list[bytes]:
        """Search the stored bytes of the tenant, and return the needles that occur in them."""
        ...

    def tend(self, tenant: str) -> dict[str, int]:
        """Maintain the structures that the search of large collections needs. Return the number of changes."""
        ...

    def check(self, tenant: str) -> list[str]:
        """Describe damage; the list is empty if there is none."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the engine, version and durability for health checks."""
        ...

    def close(self) -> None: ...


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split items into batches of at most `BATCH_SIZE`."""
    for at in range(0, len(items), BATCH_SIZE):
        yield items[at : at + BATCH_SIZE]


def encode_numbers(numbers: Iterable[int]) -> str:
    """Encode a list of numbers for a query."""
    return "[" + ",".join(map(str, numbers)) + "]"


def list_tenants(store: Store) -> dict[str, int]:
    """Return all tenants with the times of their creation, by name."""
    return dict(store.control.rows("list_tenants", after="", limit=ALL))


def require_absent(found: bool, tenant: str) -> None:
    """Raise if the target already has a tenant of this name."""
    if found:
        raise Conflict(f"The target already has a tenant {tenant}: delete it there, or choose another target.")


def tenant_mark(tenant: str, created_at: int) -> str:
    """Return the mark of a deleted tenant. Another tenant of the same name has another time of creation."""
    return derive_id("tenant", tenant, str(created_at))
