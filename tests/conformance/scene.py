"""What the storage tests share: a frozen clock, and somebody who says things and reads them back."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from memwell.clock import DAY
from memwell.core.access import Principal
from memwell.core.space import Space
from memwell.model.collection import Draft, Entry, Place, Policy
from memwell.storage.port import Store, Tx

T = TypeVar("T")
A = TypeVar("A")

TENANT = "acme"
PLACE = Place("flow", "support", "timeline")
KEPT_A_DAY = Place("flow", "short", "timeline", Policy(retention_us=DAY))


class FrozenClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: int = 1_800_000_000_000_000) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


def draft(content: str) -> Draft:
    return Draft(kind="turn", role="user", origin="user", content=content)


def space(tx: Tx, clock: FrozenClock, tenant: str = TENANT) -> Space:
    return Space(tx, Principal(tenant, "agent"), clock, clock.now())


def say(
    store: Store, clock: FrozenClock, *contents: str, tenant: str = TENANT, place: Place = PLACE, path: str = "s"
) -> list[Entry]:
    """Append to a session, in one transaction."""
    drafts = [draft(content) for content in contents]
    return store.write(tenant, lambda tx: space(tx, clock, tenant).append(place, path, drafts))


def heard(store: Store, clock: FrozenClock, tenant: str = TENANT, place: Place = PLACE, path: str = "s") -> list[Entry]:
    """Everything that a session holds, in order."""

    def read(tx: Tx) -> list[Entry]:
        here = space(tx, clock, tenant)
        address = here.address(place, path)
        return [] if address is None else here.after(address, 0, 1_000_000)

    return store.read(tenant, read)


def contents(
    store: Store, clock: FrozenClock, tenant: str = TENANT, place: Place = PLACE, path: str = "s"
) -> list[str]:
    return [entry.content for entry in heard(store, clock, tenant, place, path)]


def note(tx: Tx, operation: str = "noted") -> None:
    """The smallest write there is: an event."""
    tx.run("add_event", at=0, operation=operation, collection_id=None, address_id=None, entries=0, actor="test")


def notes(tx: Tx) -> list[str]:
    return [row[2] for row in tx.rows("list_events", after=0, limit=1_000_000)]


def at_once(work: Callable[[A], T], items: Iterable[A], threads: int) -> list[T]:
    """Run work on every item, in that many threads; the first failure is raised."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


def outcome(work: Callable[[], Any]) -> Any:
    """What work returned, or the error that it raised."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 -- the error is what a test looks at
        return error


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process that runs this code."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_python(code: str, *arguments: object, code_expected: int = 0) -> str:
    """Run code in another process to its end and return what it printed."""
    return finish(python(code, *arguments), code_expected=code_expected)


def finish(process: subprocess.Popen[str], said: str | None = None, code_expected: int = 0) -> str:
    """Wait for another process, which may not outlive its test, and return what it printed."""
    with process:
        try:
            out, err = process.communicate(said, timeout=300)
        finally:
            process.kill()
    assert process.returncode == code_expected, err
    return out
